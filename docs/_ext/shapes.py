"""Shapes of arrays: the comments on the arguments of a function, put into its description."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: What says a shape: ``(B, T)``, ``()``.
SHAPE = re.compile(r"\([\w\s*+|?]*,[^)]*\)|\(\)")


#: Shapes in running text: with stars, which would be markup.
INNER = r"(?:[^()`]|\([^()`]*\))*"
STARRED = re.compile(rf"(?<![`\w])\({INNER}\*\w{INNER}\)(?!`)")
#: An entry of a list of references.
ENTRY = re.compile(r"\[\d+\] ")


def tidy(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Set shapes and sketches as code, and every reference on a line of its own; examples end a list of fields."""
    lines[:] = dedented(lines)
    found: list[str] = []
    before, reference, sketch = "", False, False  # the last line that is not empty; what this line is part of
    for line in lines:
        if not line.strip():
            reference, sketch = False, False if not before.endswith("::") or found[-1:] != [before] else sketch
            found.append(line)
            continue
        indented = line.startswith(" ")
        if line.lstrip().startswith((">>>", "...")) or (indented and before.endswith("::")):
            found.append(line)
        elif ENTRY.match(line) or (reference and not indented):
            reference = True
            found.append(f"| {line}" if ENTRY.match(line) else f"  {line.strip()}")
        elif reference:
            found.append(f"  {line.strip()}")
        elif before.endswith("::") and found[-1:] == [""]:  # all of the rest is as indented as what it is set off from
            sketch = True
            found.append(f"    {line}")
        elif sketch:
            found.append(f"    {line}")
        elif indented and found[-1:] == [""] and not re.match(r"[:.*|\s-]", before):
            found += ["::", "", line]
        else:
            found.append(STARRED.sub(lambda shape: f"``{shape[0]}``", line))
        before = line.rstrip()
    lines[:] = found


def dedented(lines: list[str]) -> list[str]:
    """Examples after a field, a blank line between, at the left edge: they are no part of the field."""
    found: list[str] = []
    in_a_field, indent = False, 0  # whether the last line at the edge began a field; what this block loses
    for line in lines:
        if line.strip() and not line.startswith(" "):
            in_a_field = line.startswith(":")
        if not line.strip():
            indent = 0
        elif in_a_field and found[-1:] == [""] and line.lstrip().startswith(">>>"):
            indent = len(line) - len(line.lstrip())
        found.append(line[indent:])
    return found


def add_shapes(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Put what the comments say into the fields of the description."""
    by_parameter, together = comments(value)
    told = "\n".join(lines)
    first = next((i for i, line in enumerate(lines) if line.startswith(":")), None)
    example = next((i for i, line in enumerate(lines) if line.startswith(">>>")), len(lines))
    place = first if first is not None else example
    added: list[str] = []
    for parameter, comment in by_parameter.items():
        at = next((i for i, line in enumerate(lines) if line.startswith(f":param {parameter}:")), None)
        if at is None:
            added.append(f":param {parameter}: {comment}")
        elif SHAPE.search(comment) and not SHAPE.search(" ".join(field(lines, at))):
            lines[at] = f":param {parameter}: {comment}; {lines[at].partition(':param ' + parameter + ':')[2].strip()}"
    if together and together not in told:
        added.append(f":Shapes: {together}")
    if added:
        lines[place:place] = [*([""] if first is None else []), *added, *([""] if first is None else [])]


def field(lines: list[str], at: int) -> list[str]:
    """The lines of a field."""
    end = next((i for i in range(at + 1, len(lines)) if not lines[i].startswith(" ")), len(lines))
    return lines[at:end]


def comments(value: Any) -> tuple[dict[str, str], str]:
    """The comment on the line of each argument; and that on the line of a whole signature, if it has a shape."""
    function = vars(value).get("__init__") if inspect.isclass(value) else value
    function = getattr(function, "__func__", getattr(function, "fget", function))
    if not inspect.isfunction(function):
        return {}, ""
    try:
        lines = textwrap.dedent(inspect.getsource(function)).splitlines()
        tree = ast.parse("\n".join(lines)).body[0]
    except (OSError, SyntaxError, TypeError):
        return {}, ""
    if not isinstance(tree, ast.FunctionDef):
        return {}, ""
    arguments = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
    alone = {one.lineno for one in arguments if sum(other.lineno == one.lineno for other in arguments) == 1}
    found = {
        one.arg: said
        for one in arguments
        if one.lineno in alone and one.lineno != tree.lineno and (said := comment(lines[one.lineno - 1]))
    }
    whole = comment(lines[tree.body[0].lineno - 2]) if tree.body[0].lineno > 1 else ""
    return found, whole if SHAPE.search(whole) else ""


def comment(line: str) -> str:
    """What is after the hash, without instructions to tools, set so that no letter of it is markup."""
    said = line.partition("  # ")[2].strip()
    if not said or re.match(r"type:|noqa|fmt:|pragma", said):
        return ""
    shape = SHAPE.match(said)
    if shape and not re.search(r"[`*_|]", said[shape.end() :]):
        return f"``{shape[0]}``{said[shape.end() :]}" if "->" not in said else f"``{said}``"
    return f"``{said}``" if SHAPE.search(said) else said.replace("*", r"\*").replace("|", r"\|").replace("_", r"\_")

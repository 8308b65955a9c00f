"""Every sentence that a user can meet, on one page: help texts, error messages, first lines of docstrings.

    python -m tests.words                 # all of it
    python -m tests.words errors          # or help, or docstrings

Read it from top to bottom after a change. A line that needs a second look should be written again.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1] / "pyro_unsup"

#: Calls that show their first argument to a user.
SAID = ("say", "warn", "echo")


def template(node: ast.expr) -> str:
    """A string as it stands in the source, with the names of what is put in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return "{" + ast.unparse(node.value) + "}"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return template(node.left) + template(node.right)
    return "{" + ast.unparse(node) + "}"


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield str(path.relative_to(PACKAGE.parent)), ast.parse(path.read_text(encoding="utf-8"))


def messages() -> Iterator[tuple[str, str]]:
    """What errors and warnings say, and what commands say to the reader."""
    for path, tree in trees():
        for node in ast.walk(tree):
            call: Any = node.exc if isinstance(node, ast.Raise) else node
            if not isinstance(call, ast.Call) or not call.args:
                continue
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if isinstance(node, ast.Raise) or name in SAID or name.endswith("Error"):
                text = " ".join(template(call.args[0]).split())
                if " " in text:
                    yield f"{path}:{call.lineno}", text


def docstrings() -> Iterator[tuple[str, str]]:
    """The first line of every docstring."""
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
                yield f"{path}:{getattr(node, 'name', '')}", text.splitlines()[0]


def helps() -> Iterator[tuple[str, str]]:
    """The help of every command and option."""
    import typer

    from pyro_unsup.cli import app

    yield from commands("pyro-unsup", typer.main.get_command(app))


def commands(name: str, command: Any) -> Iterator[tuple[str, str]]:
    if command.help:
        yield name, " ".join(command.help.split())
    for option in command.params:
        text = getattr(option, "help", None)
        if text:
            yield f"{name} {'/'.join(option.opts)}", " ".join(text.split())
    for more, inner in getattr(command, "commands", {}).items():
        yield from commands(f"{name} {more}", inner)


KINDS = {"help": helps, "errors": messages, "docstrings": docstrings}


def main(wanted: list[str]) -> None:
    if unknown := [one for one in wanted if one not in KINDS]:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    for kind in wanted or KINDS:
        print(f"# {kind}\n")
        for where, text in dict.fromkeys(KINDS[kind]()):
            print(f"{where}\n    {text}")
        print()


if __name__ == "__main__":
    main(sys.argv[1:])

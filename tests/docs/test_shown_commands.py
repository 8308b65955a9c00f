"""Commands that the documents show can be given: their modules, subcommands, options and choices are there.

Nothing is run. Of a module, the options are read off its source, since importing it may take long.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from pyro_unsup import reproduce
from pyro_unsup.cli import app
from pyro_unsup.errors import InputError

ROOT = Path(__file__).parents[2]
TEXTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/RESULTS.md")]
TEXTS += sorted((ROOT / "docs").glob("*.md"))
TEXTS += [one for name in ("start", "howto", "coming_from", "explanation", "reference", "papers")
          for one in sorted((ROOT / "docs" / name).glob("*.md"))]  # fmt: skip
NOTEBOOKS = sorted((ROOT / "tutorials").glob("*.ipynb"))
SCRIPTS = sorted((ROOT / "benchmarks").rglob("*.py"))
#: Whose options are ours to check.
OURS = ("benchmarks", "tests")
#: An error of usage: of click, or of the click within typer.
USAGE: Any = typer.BadParameter.__base__
#: What stands for something else: ``FILE``, ``...``.
PLACEHOLDER = re.compile(r"[A-Z]+|\.\.\.")


def prose(path: Path) -> str:
    """What a document says: its text, the cells of a notebook, the docstring of a script."""
    text = path.read_text()
    if path.suffix == ".ipynb":
        return "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    return ast.get_docstring(ast.parse(text)) or "" if path.suffix == ".py" else text


def code(text: str) -> Iterator[str]:
    """Lines of blocks and what is set as code within sentences, also over the end of a line."""
    for block in re.findall(r"^```[^\n`]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield from block.splitlines()
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    yield from re.findall(r"^ {4}(\S.*)", text, re.MULTILINE)
    yield from (" ".join(one.split()) for one in re.findall(r"`+([^`]+)`+", text))
    yield from re.findall(r"<!--(.*?)-->", text)


def commands(text: str) -> Iterator[list[str]]:
    """``["-m", module, ...]`` or ``["pyro-unsup", ...]``, up to a comment or the next command of the line."""
    for line in code(text):
        for one in re.split(r"&&|\||;|\s#", line):
            if found := re.search(r"(?:\b(?:python3?|torchrun)\b.*\s(?=-m )|(?=pyro-unsup\s))(.*)", one):
                yield shlex.split(found[1])
        if re.fullmatch(rf"(?:{'|'.join(OURS)})(?:\.[a-z_]+)+", line):
            yield ["-m", line]


def check(words: Sequence[str]) -> None:
    """Raise an AssertionError that says what is not there."""
    if words[0] == "pyro-unsup":
        check_own(words[1:])
        return
    module, rest = words[1], words[2:]
    if PLACEHOLDER.fullmatch(module.rpartition(".")[2]):
        return
    try:
        spec = find_spec(module)
        spec = find_spec(f"{module}.__main__") if spec is not None and spec.submodule_search_locations else spec
    except ModuleNotFoundError:
        spec = None
    assert spec is not None, f"no module {module} to run"
    if module == "pyro_unsup":
        check_own(rest)
    elif module.startswith(OURS):
        assert spec.origin is not None
        check_options(rest, options(Path(spec.origin)))


def check_own(words: Sequence[str]) -> None:
    """Of ``pyro-unsup``, by its own parser."""
    command, rest = typer.main.get_command(app), [one for one in words if one != "--help"]
    while isinstance(command, TyperGroup) and rest and not PLACEHOLDER.fullmatch(rest[0]):
        if rest[0].startswith("--"):
            known = [flag for one in command.params for flag in one.opts]
            assert rest[0] in known, f"no option {rest[0]}, expected one of {', '.join(known)}"
            return
        name, known = rest.pop(0), command.list_commands(None)
        assert name in known, f"no command {name}, expected one of {', '.join(known)}"
        command = command.get_command(None, name)
    if isinstance(command, TyperGroup) or not rest:  # only named
        return
    try:
        found = command.make_context(command.name, [one for one in rest if one != "..."]).params
    except USAGE as error:
        said = error.format_message()
        assert said.startswith("Missing "), said
        return
    except InputError as error:  # the folder of a model, whose options are known once it is there
        if error.path is None or Path(error.path).exists():
            raise
        return
    if command.name == "reproduce" and found["name"] and not PLACEHOLDER.fullmatch(found["name"]):
        tables = {table.name for table in reproduce.paper(found["name"]).tables}
        missing = set(found["only"] or ()) - tables
        assert not missing, f"{found['name']} has no table {missing}"


def check_options(words: Sequence[str], known: dict[str, list[str] | None]) -> None:
    expected = next((choices for name, choices in known.items() if not name.startswith("--")), None)
    for word in words:
        if word.startswith("--"):
            assert word in known, f"no option {word}, expected one of {', '.join(known)}"
            expected = known[word]
        elif expected is not None and not PLACEHOLDER.fullmatch(word):
            assert word in expected, f"{word}: expected one of {', '.join(expected)}"


@cache
def options(path: Path) -> dict[str, list[str] | None]:
    """By option or argument, what it may be; None for anything, or what cannot be read off."""
    found: dict[str, list[str] | None] = {"--help": None}
    for call in ast.walk(ast.parse(path.read_text())):
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name == "add_argument":
            given = {keyword.arg: keyword.value for keyword in call.keywords}
            found[ast.literal_eval(call.args[0])] = listed(given.get("choices"))
        elif name == "arguments":  # benchmarks.common's
            found |= {f"--{keyword.arg}".replace("_", "-"): None for keyword in call.keywords}
            if "--only" in found:
                found["--only"] = listed(call.args[1] if len(call.args) > 1 else None)
    return found


def listed(choices: ast.expr | None) -> list[str] | None:
    try:
        return None if choices is None else list(ast.literal_eval(choices))
    except ValueError:
        return None


@pytest.mark.parametrize("path", [*TEXTS, *NOTEBOOKS, *SCRIPTS], ids=lambda path: str(path.relative_to(ROOT)))
def test_shown_commands_can_be_given(path: Path) -> None:
    wrong = []
    for words in commands(prose(path)):
        try:
            check(words)
        except AssertionError as error:
            wrong.append(f"{shlex.join(words)}: {error}")
    assert not wrong, "\n".join(wrong)


def test_commands_are_found() -> None:
    shown = [words for path in (*TEXTS, *NOTEBOOKS, *SCRIPTS) for words in commands(prose(path))]
    assert {words[0] for words in shown} == {"-m", "pyro-unsup"}
    assert len(shown) > 80
    text = "Do `a && python -m tests.fuzz\n--seconds 9` or\n\n    X=1 torchrun -n 2 -m pyro_unsup fit ...  # twice\n"
    assert sorted(commands(text)) == [["-m", "pyro_unsup", "fit", "..."], ["-m", "tests.fuzz", "--seconds", "9"]]


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("python -m benchmarks.lost", "no module benchmarks.lost to run"),
        ("python -m tests.docs", "no module tests.docs to run"),
        ("python -m benchmarks.ccm --fast", "no option --fast, expected one of --help, --quick, --only, "),
        ("python -m benchmarks.ccm --only speed", "speed: expected one of ratios, growth"),
        ("python -m tests.mutation models", "models: expected one of kernels, handlers"),
        ("pyro-unsup train", "no command train, expected one of "),
        ("pyro-unsup --completion", "no option --completion, expected one of "),
        ("pyro-unsup fit tagger FILE --lags 45", "No such option: --lags"),
        ("pyro-unsup reproduce cohen-smith-2010 --only fr", "cohen-smith-2010 has no table {'fr'}"),
    ],
)
def test_wrong_commands_are_noticed(command: str, what: str) -> None:
    (words,) = commands(f"`{command}`")
    with pytest.raises(AssertionError, match=re.escape(what)):
        check(words)

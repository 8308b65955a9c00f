"""The reference of the command line: a page a command, and of ``fit`` a page a model, made from the code.

What commands print is in ``reference/examples.json``. ``python docs/_ext/commands.py`` runs the commands again.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from pyro_unsup.tasks import Option, Task

#: What the examples print, as ``main`` has written it.
RECORDED = Path(__file__).parents[1] / "reference" / "examples.json"
#: By page, commands that are run one after the other in one folder; all pages share it, in this order.
EXAMPLES = {
    "demo": ["pyro-unsup demo --out demo"],
    "fit-tagger": ["pyro-unsup fit tagger demo/toy.tagged --tags 12 --restarts 2 --out tagger"],
    "fit-hmm": [
        """python -c "print('count', *[12, 14, 9, 11, 31, 28, 33, 10, 13, 12, 30, 27] * 5, sep='\\n')" > counts.csv""",
        "pyro-unsup fit hmm counts.csv --column count --states 2 --emission poisson --out hmm",
    ],
    "sample": ["pyro-unsup sample tagger demo/toy.tagged --tags 12 --sweeps 40 --burn-in 20 --chains 2 --out samples"],
    "predict": [
        'echo "the sailor will dream ." | pyro-unsup predict tagger - --format lines --relabel demo/toy.tagged'
    ],
    "forecast": ["pyro-unsup forecast hmm counts.csv --column count --steps 3"],
    "evaluate": ["pyro-unsup evaluate tagger demo/toy.tagged", "pyro-unsup evaluate hmm counts.csv --column count"],
    "show": ["pyro-unsup show tagger --words 4", "pyro-unsup show hmm"],
}
#: What a page says after its title, beside the help of the command itself.
PANELS_WITHOUT_NAME = "Arguments and options"


def make(app: Sphinx) -> None:
    """Write the pages before Sphinx looks for them."""
    from pages import write

    write(Path(app.srcdir, "reference", "cli"), pages())


def pages() -> dict[str, str]:
    """Every page of the command line, by file."""
    from pyro_unsup import tasks
    from pyro_unsup.cli import USES, _models, _sampled, main
    from pyro_unsup.cli.demo import demo
    from pyro_unsup.cli.reproduce import reproduce

    shown = recorded()
    found = {
        "demo.md": plain_page("demo", demo, shown),
        "fit.md": group_page("fit", words(_models), shown),
        "sample.md": by_model("sample", words(_sampled), shown),
        "reproduce.md": plain_page("reproduce", reproduce, shown),
    }
    for name, what in USES.items():
        found[f"{name}.md"] = by_model(name, what, shown)
    for name in tasks.names("fit"):
        found[f"fit-{name}.md"] = fit_page(tasks.find(name), shown)
    found["index.md"] = index(words(main))
    return found


def index(what: str) -> str:
    from pyro_unsup.cli import USES, _models, _sampled
    from pyro_unsup.cli.demo import demo
    from pyro_unsup.cli.reproduce import reproduce

    first = {
        "demo": words(demo),
        "fit": words(_models),
        "sample": words(_sampled),
        **USES,
        "reproduce": words(reproduce),
    }
    lines = ["# Command line", "", what, "", "| command | what it does |", "|---|---|"]
    lines += [f"| [`pyro-unsup {name}`]({name}.md) | {text.splitlines()[0]} |" for name, text in first.items()]
    lines += [
        "",
        "Only results go to standard output, so that it can be piped. Messages go to standard error. The exit",
    ]
    lines += [
        "code is 0 when all was done, 2 after bad input or usage, and 130 after Ctrl-C. `--help` works after every"
    ]
    lines += ["command. `pyro-unsup --version` prints the version.", ""]
    return "\n".join([*lines, *toctree(first)]) + "\n"


def toctree(names: Any) -> list[str]:
    return ["```{toctree}", ":hidden:", "", *names, "```", ""]


def group_page(name: str, what: str, shown: dict[str, list[list[str]]]) -> str:
    """The command that has a command for each model."""
    from pyro_unsup import tasks

    lines = [f"# `pyro-unsup {name}`", "", what, "", "```bash", f"pyro-unsup {name} MODEL FILE --out DIR", "```", ""]
    lines += ["| model | what is learned |", "|---|---|"]
    for one in tasks.names(name):
        lines.append(f"| [`{name} {one}`]({name}-{one}.md) | {tasks.find(one).commands[name].help.splitlines()[0]} |")
    lines += ["", *example(shown, "fit-tagger")]
    return "\n".join([*lines, *toctree(f"{name}-{one}" for one in tasks.names(name))]) + "\n"


def fit_page(task: Task, shown: dict[str, list[list[str]]]) -> str:
    """``fit`` for one model."""
    name = task.name
    lines = [f"# `pyro-unsup fit {name}`", "", task.commands["fit"].help, "", "```bash"]
    lines += [f"pyro-unsup fit {name} FILE --out DIR", "```", "", *example(shown, f"fit-{name}")]
    return "\n".join([*lines, *options(f"pyro-unsup fit {name}", task.options("fit"), "##")]) + "\n"


def by_model(name: str, what: str, shown: dict[str, list[list[str]]]) -> str:
    """A command whose options depend on the model."""
    from pyro_unsup import tasks

    sampled = name == "sample"
    call = f"pyro-unsup {name} MODEL FILE --out DIR" if sampled else f"pyro-unsup {name} DIR ..."
    lines = [f"# `pyro-unsup {name}`", "", what, "", "```bash", call, "```", "", *example(shown, name)]
    if not sampled:
        lines += [
            "`DIR` is a folder that `fit` or `sample` wrote. What the command reads, writes and can be told depends"
        ]
        lines += ["on the model in it.", ""]
    for one in tasks.names(name):
        task = tasks.find(one)
        for use, title in ((name, one), (f"{name}_samples", f"{one}, samples")):
            if use in task.commands:
                lines += [f"## {title}", "", task.commands[use].help, ""]
                program = f"pyro-unsup {name} {one}" + (" samples" if use != name else "")
                lines += options(program, task.options(use), "")
    return "\n".join(lines) + "\n"


def options(program: str, listed: list[Option], heading: str) -> list[str]:
    """Every option, with what it does and its default; by panel, if there is a heading for panels."""
    lines = ["```{program} " + program, "```", ""]
    panels: dict[str | None, list[Option]] = {}
    for one in listed:
        panels.setdefault(one.panel if heading else None, []).append(one)
    for panel, inside in panels.items():
        if heading:
            lines += [f"{heading} {panel or PANELS_WITHOUT_NAME}", ""]
        for one in inside:
            lines += described(one)
    return lines


def described(one: Option) -> list[str]:
    names = [one.metavar or one.name.upper()] if one.positional else one.flag.split(",")
    value = "" if one.positional or one.type is bool else f" {one.metavar or one.type.__name__.upper()}"
    names = [f"{name}{value}" for name in (*names, *([one.off] if one.off else []))]
    facts = [one.help.strip()]
    if one.choices:
        facts.append(f"One of {', '.join(f'`{choice}`' for choice in one.choices)}.")
    if one.many:
        facts.append("May be given several times.")
    if one.required:
        facts.append("Required.")
    elif (default := default_of(one)) is not None:
        facts.append(f"Default: {default}.")
    return [f"````{{option}} {', '.join(names)}", "", safe(" ".join(facts)), "````", ""]


def default_of(one: Option) -> str | None:
    """The default for people; None if nothing is to be said."""
    if one.shown:
        return one.shown
    if one.default is None or one.default is False or one.default == "":
        return None
    return "on" if one.default is True else f"`{one.default}`"


def safe(text: str) -> str:
    """Help as Markdown: what looks like a tag or an option is code, and no star is markup."""
    parts = re.split(r"(`[^`]*`)", text)
    plain = [
        re.sub(r"(?<![\w-])(--[a-z][\w-]*)", r"`\1`", part).replace("*", r"\*").replace("<", r"\<")
        for part in parts[::2]
    ]
    return "".join(one for pair in zip(plain, [*parts[1::2], ""], strict=True) for one in pair)


def plain_page(name: str, function: Any, shown: dict[str, list[list[str]]]) -> str:
    """A command that is a function of typer."""
    import typer

    app = typer.Typer()
    app.command(name)(function)
    command = typer.main.get_command(app)
    lines = [
        f"# `pyro-unsup {name}`",
        "",
        words(function),
        "",
        *example(shown, name),
        f"```{{program}} pyro-unsup {name}",
        "```",
        "",
    ]
    for one in command.params:
        if one.name == "help" or "--install-completion" in one.opts or "--show-completion" in one.opts:
            continue
        value = "" if getattr(one, "is_flag", False) else f" {one.metavar or one.type.name.upper()}"
        names = (
            [one.metavar or str(one.name).upper()]
            if one.param_type_name == "argument"
            else [f"{x}{value}" for x in one.opts]
        )
        facts = [one.help or ""]
        if one.default not in (None, False) and not callable(one.default):
            facts.append(f"Default: `{one.default}`.")
        lines += [f"````{{option}} {', '.join(names)}", "", safe(" ".join(facts)), "````", ""]
    return "\n".join(lines) + "\n"


def words(function: Any) -> str:
    """The help of a command."""
    return inspect.getdoc(function) or ""


def example(shown: dict[str, list[list[str]]], page: str) -> list[str]:
    """The commands of a page, each with what it printed."""
    lines: list[str] = []
    for command, printed in shown.get(page, ()):
        lines += ["```console", f"$ {command}", *printed.splitlines(), "```", ""]
    return lines


def recorded() -> dict[str, list[list[str]]]:
    """By page, commands and what they printed."""
    return json.loads(RECORDED.read_text()) if RECORDED.is_file() else {}  # type: ignore[no-any-return]


def run() -> dict[str, list[list[str]]]:
    """Run the examples in a folder of their own."""
    found: dict[str, list[list[str]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        bin = Path(folder, ".bin")
        bin.mkdir()
        for name, words in (("pyro-unsup", "-m pyro_unsup"), ("python", "")):
            Path(bin, name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
            Path(bin, name).chmod(0o755)
        path = f"{bin}{os.pathsep}{os.environ['PATH']}"
        environment = {
            **os.environ,
            "PATH": path,
            "COLUMNS": "88",
            "PYTHONPATH": str(RECORDED.parents[2]),
            "NO_COLOR": "1",
        }
        for page, commands in EXAMPLES.items():
            found[page] = []
            for command in commands:
                done = subprocess.run(
                    command, shell=True, cwd=folder, env=environment, check=True, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                )  # fmt: skip
                found[page].append([command, "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines())])
    return found


def main() -> None:
    RECORDED.write_text(json.dumps(run(), indent=1, ensure_ascii=False) + "\n")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", make)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    main()

"""Options of commands, as data: declared once, by the model that has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

#: The options of a command by their names, as they were given.
Given = SimpleNamespace
#: Panels of options in help.
MODEL, TRAINING, ALGORITHM, BELIEFS, TEXT = (
    "The model",
    "Training",
    "Other algorithms than EM",
    "Priors, features and constraints",
    "Text and output",
)


@dataclass(frozen=True)
class Option:
    """An option of a command, as data.

    :param name: in Python; on the command line with hyphens, unless ``flag`` says otherwise.
    :param help: what it does, in a sentence or two.
    :param default: None if there is none.
    :param type: of its value: ``str``, ``int``, ``float``, ``bool``.
    :param metavar: the word that stands for its value in help.
    :param choices: all values that it may have, if they are few.
    :param low: the least number that it may be.
    :param high: the greatest.
    :param panel: where help lists it.
    :param shown: the default in words, if the value does not say it.
    :param many: whether it may be repeated.
    :param required: whether it must be given.
    :param flag: how it is spelt on the command line; by default the name with hyphens.
    :param off: how its opposite is spelt.
    :param identity: whether another value makes another run, so that an interrupted run cannot go on with it. By
        default, every option but those of the text: another text is noticed as such.
    :param remember: whether predictions need the value, so that the fit has to keep it.
    :param positional: an argument, not an option.

    >>> import pyro_unsup as pu
    >>> pu.tasks.Option("max_length", "Leave longer sentences out.", 10, int).flag
    '--max-length'
    """

    name: str
    help: str
    default: Any = None
    type: type = str
    metavar: str | None = None
    choices: Sequence[str] = ()
    low: float | None = None
    high: float | None = None
    panel: str | None = None
    shown: str | None = None
    many: bool = False
    required: bool = False
    flag: str = ""
    off: str | None = None
    identity: bool | None = None
    remember: bool = False
    positional: bool = False

    def __post_init__(self) -> None:
        if not self.flag:
            object.__setattr__(self, "flag", spelt(self.name))

    @property
    def makes_another_run(self) -> bool:
        """Whether another value makes another run."""
        return self.panel != TEXT if self.identity is None else self.identity


def spelt(name: str) -> str:
    """An option as it is typed.

    >>> from pyro_unsup.tasks.option import spelt
    >>> spelt("batch_size")
    '--batch-size'
    """
    return f"--{name.replace('_', '-')}"


def flag(name: str, help: str, **others: Any) -> Option:
    """An option that is given or not."""
    return Option(name, help, False, bool, **others)


def choice(name: str, choices: Sequence[str], help: str, default: str | None = None, **others: Any) -> Option:
    """An option that is one of a few words."""
    return Option(name, help, default, choices=tuple(choices), **others)


def number(name: str, help: str, default: int | None = None, low: int | None = 1, **others: Any) -> Option:
    """An option that is a whole number."""
    return Option(name, help, default, int, **{"metavar": "NUMBER", "low": low, **others})


def real(name: str, help: str, default: float | None = None, low: float | None = 0, **others: Any) -> Option:
    """An option that is a real number."""
    return Option(name, help, default, float, **{"metavar": "NUMBER", "low": low, **others})


def text(name: str, metavar: str, help: str, **others: Any) -> Option:
    """An option that is a text, such as the name of a file."""
    return Option(name, help, metavar=metavar, **others)


def under(panel: str, *options: Option) -> tuple[Option, ...]:
    """Options in one panel of help."""
    return tuple(replace(one, panel=panel) for one in options)

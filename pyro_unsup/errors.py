"""The errors a user may meet. Each message says what was wrong, where, and what to do about it."""

from __future__ import annotations

from os import PathLike


class UnsupError(ValueError):
    """Base of every error that the library raises on purpose."""


class InputError(UnsupError):
    """Bad input from outside: a file, a stream, a model folder.

    :param what: what was wrong, expected and actual, and the fix, in one line.
    :param path: the file, as the user named it (``-`` for standard input).
    :param line: 1-based line number, where there is one.

    >>> str(InputError("expected 10 columns, found 3", path="train.conllu", line=7))
    'train.conllu:7: expected 10 columns, found 3'
    """

    def __init__(self, what: str, path: str | PathLike[str] | None = None, line: int | None = None) -> None:
        self.what, self.path, self.line = what, path, line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(where + what)

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str | PathLike[str] | None, int | None]]:
        return type(self), (self.what, self.path, self.line)  # errors travel between processes


class TableError(UnsupError):
    """A table of weights is malformed: NaN, an empty row, a shape that does not fit."""


class StructureError(UnsupError):
    """A structured distribution got weights or data that do not fit together."""


class FitError(UnsupError):
    """Training cannot go on: NaN, an empty row or a falling objective, named by table and iteration."""

"""The errors a user may meet. Each message says what was wrong, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike


class UnsupError(ValueError):
    """Base of every error that the library raises on purpose.

    >>> import pyro_unsup as pu
    >>> issubclass(pu.InputError, pu.UnsupError) and issubclass(pu.UnsupError, ValueError)
    True
    """


class InputError(UnsupError):
    """Bad input from outside: a file, a stream, a model folder.

    :param what: what was wrong, expected and actual, and the fix, in one line.
    :param path: the file, as the user named it (``-`` for standard input).
    :param line: 1-based line number, where there is one.

    >>> import pyro_unsup as pu
    >>> str(pu.InputError("expected 10 columns, found 3", path="train.conllu", line=7))
    'train.conllu:7: expected 10 columns, found 3'
    """

    def __init__(self, what: str, path: str | PathLike[str] | None = None, line: int | None = None) -> None:
        self.what, self.path, self.line = what, path, line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(where + what)

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str | PathLike[str] | None, int | None]]:
        return type(self), (self.what, self.path, self.line)  # errors travel between processes


class FormatError(InputError):
    """The name of a file does not tell its format.

    >>> import pyro_unsup as pu
    >>> issubclass(pu.errors.FormatError, pu.InputError)
    True
    """


class EncodingError(InputError):
    """Bytes that are not UTF-8.

    >>> import pyro_unsup as pu
    >>> issubclass(pu.errors.EncodingError, pu.InputError)
    True
    """


class TableError(UnsupError):
    """A table of weights is malformed: NaN, an empty row, a shape that does not fit.

    >>> import pyro_unsup as pu
    >>> try:
    ...     pu.table("emission", 2, 0)
    ... except pu.TableError as error:
    ...     print(error)
    table 'emission': a table needs at least one outcome and no empty axis, actual shape = (2, 0)
    """


class StructureError(UnsupError):
    """A structured distribution got weights or data that do not fit together.

    >>> import torch, pyro_unsup as pu
    >>> try:
    ...     pu.Chain(torch.zeros(2), torch.zeros(2, 2), torch.zeros(3, 5), torch.tensor([4]))
    ... except pu.StructureError as error:
    ...     print(error)
    emission should end in shape (K, V), where K = 2; actual shape (3, 5)
    """


class FitError(UnsupError):
    """Training cannot go on: NaN, an empty row or a falling objective, named by table and iteration.

    >>> import pyro_unsup as pu
    >>> try:
    ...     pu.EM(pu.models.Tagger(tags=2, vocab=2), init=pu.init.from_weights({})).run([[0, 1]])
    ... except pu.FitError as error:
    ...     print(error)
    the other fit has no table ['start', 'transition', 'emission']: it has []
    """


class RegistryError(UnsupError):
    """A registered name is unknown, is claimed twice, or cannot be imported or built.

    >>> import pyro_unsup as pu
    >>> try:
    ...     pu.registry.find("colours", "red")
    ... except pu.errors.RegistryError as error:
    ...     print(error)
    expected one of the kinds models, handlers, components, estimators, structures, tasks, networks, actual 'colours'
    """


class NotDescribable(UnsupError):
    """An object cannot be described in plain values and tensors, because it holds something else, such as a function.

    >>> import pyro_unsup as pu
    >>> try:
    ...     pu.LogLinear([pu.Template("emission", "last letter", word=lambda word: word[-1])]).settings()
    ... except pu.errors.NotDescribable as error:
    ...     print(error)
    LogLinear has templates, which are functions: a fit stores the names and weights of its features instead
    """


class DivergenceError(TableError):
    """The weights of features grow without bound. A larger ``kappa`` holds them back.

    >>> import pyro_unsup as pu
    >>> issubclass(pu.errors.DivergenceError, pu.TableError)
    True
    """


class SplitError(FitError):
    """The data cannot be looked at in parts, by several processes or in chunks.

    >>> import pyro_unsup as pu
    >>> issubclass(pu.errors.SplitError, pu.FitError)
    True
    """


def listed(names: Iterable[object], most: int = 10) -> str:
    """Names for a message: the first of them, each as a whole, and how many more there are.

    >>> from pyro_unsup.errors import listed
    >>> listed(["DET", "NOUN"]), listed(range(7), most=3)
    ("'DET', 'NOUN'", '0, 1, 2 and 4 more')
    """
    known = list(names)
    said = ", ".join(text if len(text := repr(one)) <= 80 else f"{text[:77]}..." for one in known[:most])
    return f"{said} and {len(known) - most:,} more" if len(known) > most else said


@contextmanager
def without_shapes() -> Iterator[None]:
    """Raise errors of the library as they were, without the shapes of the trace that Pyro adds."""
    try:
        yield
    except UnsupError as error:
        raise as_raised(error) from None


def as_raised(error: ValueError) -> ValueError:
    """The error that Pyro raised anew, with the shapes of the trace in its message."""
    while type(error.__cause__) is type(error):
        assert isinstance(error.__cause__, ValueError)
        error = error.__cause__
    return error


def an(name: str) -> str:
    """A name with its article, for messages.

    >>> from pyro_unsup.errors import an
    >>> an("Adaptor"), an("HMMAligner"), an("tagger")
    ('an Adaptor', 'an HMMAligner', 'a tagger')
    """
    return f"{'an' if name.lower().startswith(('a', 'e', 'i', 'o', 'hmm')) else 'a'} {name}"

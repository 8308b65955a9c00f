"""Feature templates: small functions of the labels of a table, declared by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import TableError

Function = Callable[..., Any]


def same(label: Any) -> Any:
    """The label itself: a feature for each of them.

    >>> import pyro_unsup as pu
    >>> pu.Template("emission", "identity", tag=pu.same, word=pu.same)
    Template('emission', 'identity', tag, word)
    """
    return label


class Template:
    """One family of features of a table.

    For each axis that it names, a function of that axis's label, which returns a value, a list or set of values
    (several features fire), or None (none does). Axes that are not named are ignored. A feature is known by the name of
    its template and its values: those of the context in the order in which they are named, then that of the decision.
    So templates of one name share their weights, across tables too.

    :param table: the table that it is for.
    :param name: of the family.
    :param cells: a joint function instead, where features do not factor into axes: called with one label for each of
        ``axes``, once a cell.
    :param axes: those that ``cells`` looks at.
    :param vectorised: call ``cells`` once, with an array of labels for each axis, all as long as there are cells; it
        returns one value a cell (None for no feature).
    :param functions: by axis.

    >>> import pyro_unsup as pu
    >>> pu.Template("emission", "digit", tag=pu.same, word=lambda word: any(c.isdigit() for c in word))
    Template('emission', 'digit', tag, word)
    >>> pu.Template("translation", "same length", cells=lambda e, f: len(e) == len(f), axes=("source", "target"))
    Template('translation', 'same length', cells of source, target)
    """

    def __init__(
        self,
        table: str,
        name: str,
        /,
        *,
        cells: Function | None = None,
        axes: Sequence[str] = (),
        vectorised: bool = False,
        **functions: Function,
    ) -> None:
        self.table, self.name, self.cells, self.vectorised = table, name, cells, vectorised
        self.axes = tuple(axes) if cells is not None else tuple(functions)
        self.functions = functions
        if (cells is None) == (not functions):
            raise TableError(
                f"{self}: name functions by axis (word=...), or give one of whole cells (cells=..., axes=...), and "
                "not both"
            )
        if cells is not None and not self.axes:
            raise TableError(f"{self}: say which axes its cells are called with (axes=...)")
        for function in (cells, *functions.values()):
            if function is not None and not callable(function):
                raise TableError(f"{self}: expected a function, actual {function!r:.80}")

    def __repr__(self) -> str:
        cells = "" if self.cells is None else "cells of "
        return f"Template({self.table!r}, {self.name!r}, {cells}{', '.join(self.axes)})"

    def __str__(self) -> str:
        return f"template '{self.name}' of table '{self.table}'"

    def values(self, function: Function, **labels: Any) -> list[Any]:
        """What fires for these labels: plain values, each once, in an order that does not change between runs."""
        try:
            found = function(*labels.values())
        except Exception as error:
            at = ", ".join(f"{axis}={label!r:.40}" for axis, label in labels.items())
            raise TableError(f"{self}: its function failed for {at}: {type(error).__name__}: {error}") from error
        if found is None:
            return []
        if isinstance(found, set | frozenset):
            return sorted((self.plain(one) for one in found), key=repr)
        return list(dict.fromkeys(map(self.plain, found))) if isinstance(found, list) else [self.plain(found)]

    def plain(self, value: Any) -> Any:
        """The value, if it is one that can be saved by name: a string, a number, a truth value, or a tuple of those."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, tuple):
            return tuple(map(self.plain, value))
        if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
            return value
        raise TableError(f"{self}: values must be strings, finite numbers or tuples of those, actual {value!r:.80}")

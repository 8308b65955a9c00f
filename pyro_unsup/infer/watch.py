"""Whether things are still what they were: what a run of a model depends on, and what two runs found."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from operator import is_
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..handlers import Handled

#: Longer lists are not looked into.
LONG = 64


class Watch:
    """What a run of a model can depend on besides its data: the attributes of an object; the closure, the defaults and
    the global variables of a function; lists and dictionaries among these.

    >>> from pyro_unsup.infer.watch import Watch
    >>> size = [3]
    >>> watch = Watch(lambda: size[0])
    >>> watch.unchanged()
    True
    >>> size[0] = 4
    >>> watch.unchanged()
    False
    """

    def __init__(self, model: Any) -> None:
        self._places: list[tuple[Callable[[], Iterable[Any]], tuple[Any, ...]]] = []
        self._tensors: list[tuple[Tensor, int]] = []
        self._look(model, 2)

    def unchanged(self) -> bool:
        """Whether all is still the same. (Something equal in the place of something else is a change, too.)"""
        for now, before in self._places:
            found = tuple(now())
            if len(found) != len(before) or not all(map(is_, found, before)):
                return False
        return all(x._version == version for x, version in self._tensors)

    def _look(self, x: Any, depth: int) -> None:
        if isinstance(x, Handled):
            self._keep(lambda: _own(x.handler).values(), depth)
            self._look(x.model, depth)
        elif isinstance(x, functools.partial):
            self._keep(lambda: [*x.args, *x.keywords.values()], depth)
            self._look(x.func, depth)
        elif isinstance(x, MethodType):
            self._look(x.__self__, depth)
            self._look(x.__func__, depth)
        elif isinstance(x, FunctionType):
            self._keep(lambda: _used(x), depth)
        elif isinstance(x, dict):
            self._keep(x.values, depth)
        elif isinstance(x, list | tuple | set) and len(x) <= LONG:
            self._keep(lambda: x, depth)
        elif isinstance(x, Tensor):
            self._tensors.append((x, x._version))
        elif depth == 2 and hasattr(x, "__dict__") and not isinstance(x, type | ModuleType):
            self._keep(vars(x).values, depth)

    def _keep(self, now: Callable[[], Iterable[Any]], depth: int) -> None:
        found = tuple(now())
        self._places.append((now, found))
        for x in found if depth else ():
            self._look(x, depth - 1)


def _used(function: FunctionType) -> list[Any]:
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    globals_ = [function.__globals__.get(name) for name in function.__code__.co_names]
    return [*cells, *globals_, *(function.__defaults__ or ())]


def alike(a: Any, b: Any, seen: frozenset[tuple[int, int]] = frozenset()) -> bool:
    """Whether two objects hold the same numbers.

    :param seen: objects around these, which may refer to each other.
    """
    if a is b or (id(a), id(b)) in seen:
        return True
    if type(a) is not type(b) or isinstance(a, FunctionType | ModuleType | type):
        return False
    if isinstance(a, MethodType):  # made anew whenever it is asked for
        return bool(a == b)
    if isinstance(a, Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    seen = seen | {(id(a), id(b))}
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(alike(x, b[name], seen) for name, x in a.items())
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(alike(x, y, seen) for x, y in zip(a, b, strict=True))
    if hasattr(a, "__dict__"):
        return alike(_own(a), _own(b), seen)
    return bool(a == b)


def _own(x: Any) -> dict[str, Any]:
    """The attributes of an object, without those that are computed from others when they are first asked for."""
    kind = type(x)
    skipped = getattr(kind, "NOT_COMPARED", ())
    return {
        k: v
        for k, v in vars(x).items()
        if k not in skipped and not isinstance(getattr(kind, k, None), functools.cached_property)
    }

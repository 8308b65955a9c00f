"""Components that have a name and settings, and several at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from inspect import signature
from typing import Any, Concatenate, ParamSpec

import torch
from torch import Tensor

from ..distributions.parts import Parts
from ..errors import UnsupError
from .parts import Component, named

_P = ParamSpec("_P")


class Named:
    """A component with a name and settings: plain values, as JSON has them, but for pairs in place of mappings."""

    def __init__(self, look: Callable[..., Tensor], settings: Mapping[str, Any]) -> None:
        self._look = look
        self.settings = {key: _plain(value) for key, value in settings.items()}

    @property
    def name(self) -> str:
        return self._look.__name__

    def __call__(self, parts: Parts) -> Tensor:
        return self._look(parts, **self.settings)

    def __and__(self, other: Component) -> Both:
        return both(self, other)

    def __rand__(self, other: Component) -> Both:
        return both(other, self)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value!r:.200}' for key, value in self.settings.items())})"


class Both:
    """What several components all allow; log-weights add up."""

    def __init__(self, *components: Component) -> None:
        self.components = components

    def __call__(self, parts: Parts) -> Tensor:
        each = [one(parts) for one in self.components]
        if all(x.dtype == torch.bool for x in each):
            return reduce(torch.logical_and, each)
        logs = [torch.where(x, 0.0, -torch.inf) if x.dtype == torch.bool else x for x in each]
        return reduce(torch.add, logs)

    def __and__(self, other: Component) -> Both:
        return both(self, other)

    def __rand__(self, other: Component) -> Both:
        return both(other, self)

    def __repr__(self) -> str:
        return f"both({', '.join(named(one) for one in self.components)})"


def both(*components: Component) -> Both:
    """All of several components at once.

    >>> import pyro_unsup as pu
    >>> pu.components.both(pu.components.short_dependencies(4), pu.components.verb_as_root(["VB"]))
    both(short_dependencies(limit=4), verb_as_root(tags=['VB']))
    """
    if not components:
        raise UnsupError("both() combines one component or more, actual none")
    for one in components:
        if not callable(one):
            raise UnsupError(f"a component is a function of the parts of the data, actual {one!r:.80}")
    return Both(*components)


def component(look: Callable[Concatenate[Any, _P], Tensor]) -> Callable[_P, Named]:
    """Make a function of parts and settings into one that takes the settings, and gives a component."""

    def make(*args: _P.args, **kwargs: _P.kwargs) -> Named:
        bound = asked.bind(*args, **kwargs)
        bound.apply_defaults()
        return Named(look, bound.arguments)

    _, *settings = signature(look).parameters.values()
    asked = signature(look).replace(parameters=settings, return_annotation=Named)
    make.__name__ = make.__qualname__ = look.__name__
    make.__doc__, make.__module__ = look.__doc__, look.__module__
    make.__dict__.update(__signature__=asked, __wrapped__=look)
    return make


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return [[_plain(key), _plain(x)] for key, x in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(value)
    return [_plain(x) for x in value] if isinstance(value, list | tuple) else value

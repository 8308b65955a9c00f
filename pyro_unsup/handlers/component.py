"""Components that have a name and settings, and several at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, reduce
from inspect import isfunction, signature, unwrap
from types import UnionType
from typing import Any, Concatenate, Literal, ParamSpec, Self, Union, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from ..distributions.parts import Parts
from ..errors import NotDescribable, StructureError, UnsupError
from ..registry import build as build_registered
from ..registry import describe as describe_registered
from .asked import plain_number
from .parts import Component, named

_P = ParamSpec("_P")


class Rule:
    """A component that combines with others, by ``&``, ``|`` and ``~``."""

    def __and__(self, other: Component) -> Both:
        return both(self, other)  # type: ignore[arg-type]

    def __rand__(self, other: Component) -> Both:
        return both(other, self)  # type: ignore[arg-type]

    def __or__(self, other: Component) -> Either:
        return either(self, other)  # type: ignore[arg-type]

    def __ror__(self, other: Component) -> Either:
        return either(other, self)  # type: ignore[arg-type]

    def __invert__(self) -> Opposite:
        return opposite(self)  # type: ignore[arg-type]


class Named(Rule):
    """A component with a name and plain values, as in JSON; mappings are stored as pairs.

    :param maker: the function that made it, which :func:`component` returned.
    """

    def __init__(self, maker: Callable[..., Named], values: Mapping[str, Any]) -> None:
        self.maker = maker
        self.values = {key: _plain(value) for key, value in values.items()}

    @property
    def name(self) -> str:
        return self.maker.__name__

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to make this component again."""
        return dict(self.values), {}

    def __call__(self, parts: Parts) -> Tensor:
        look: Callable[..., Tensor] = self.maker.__wrapped__  # type: ignore[attr-defined]
        speaks_of = parts_of(self.maker)
        if speaks_of and not isinstance(parts, speaks_of):
            wanted = " or ".join(sort.__name__.lower() for sort in speaks_of)
            raise StructureError(
                f"{self!r} is a rule for {wanted}, and the hidden structure of this model is made of "
                f"{type(parts).__name__.lower()}: use a rule for those, or another model"
            )
        return look(parts, **self.values)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value!r:.200}' for key, value in self.values.items())})"


@cache
def parts_of(maker: Callable[..., Any]) -> tuple[type[Parts], ...]:
    """The kinds of parts that a component speaks of: those that its first argument is declared to be. Empty if it does
    not say.

    >>> import pyro_unsup as pu
    >>> from pyro_unsup.handlers.component import parts_of
    >>> [sort.__name__ for sort in parts_of(pu.components.ends_in)]
    ['Brackets', 'Constituents']
    """
    look = unwrap(maker)
    first = next(iter(signature(look).parameters), "")
    try:
        declared = get_type_hints(look).get(first)
    except (NameError, TypeError):  # a name that only type checkers import
        return ()
    kinds = get_args(declared) or (declared,)
    found = tuple(one for one in kinds if isinstance(one, type) and issubclass(one, Parts))
    return () if Parts in found else found


@cache
def _choices(look: Callable[..., Any]) -> dict[str, tuple[Any, ...]]:
    """By name, the values that an argument declared as a ``Literal`` may have."""
    try:
        declared = get_type_hints(look)
    except (NameError, TypeError):  # a name that only type checkers import
        return {}
    found = {}
    for name, hint in declared.items():
        kinds = get_args(hint) if get_origin(hint) is UnionType or get_origin(hint) is Union else (hint,)
        literal = [one for one in kinds if get_origin(one) is Literal]
        if literal:
            none = (None,) if type(None) in kinds else ()
            found[name] = (*(value for one in literal for value in get_args(one)), *none)
    return found


class _Several(Rule):
    """Several components that make one."""

    def __init__(self, *components: Component) -> None:
        if not components:
            raise UnsupError(f"{type(self).__name__.lower()}() combines one component or more, actual none")
        check_components(components, f"{type(self).__name__.lower()}()", UnsupError)
        self.components = components

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to make this component again: those that it combines, which must be registered."""
        return {"of": [described(one) for one in self.components]}, {}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """Combine components again, from :meth:`settings`."""
        return cls(*(build(one) for one in plain["of"]))

    def __repr__(self) -> str:
        return f"{type(self).__name__.lower()}({', '.join(map(said, self.components))})"


class Both(_Several):
    """What several components all allow; log-weights add up."""

    def __call__(self, parts: Parts) -> Tensor:
        each = [one(parts) for one in self.components]
        if all(x.dtype == torch.bool for x in each):
            return reduce(torch.logical_and, each)
        logs = [torch.where(x, 0.0, -torch.inf) if x.dtype == torch.bool else x for x in each]
        return reduce(torch.add, logs)


class Either(_Several):
    """What at least one of several components allows."""

    def __call__(self, parts: Parts) -> Tensor:
        return reduce(torch.logical_or, [truth(one, parts) for one in self.components])


class Opposite(_Several):
    """What a component does not allow."""

    def __init__(self, component: Component) -> None:
        super().__init__(component)

    def __call__(self, parts: Parts) -> Tensor:
        return ~truth(self.components[0], parts)

    def __repr__(self) -> str:
        return f"~{said(self.components[0])}"


class AtLeast(_Several):
    """A feature for :func:`.regularise`, bounded by 0: a share of all parts obey a rule.

    :param rule: that says yes or no to every part.
    :param share: between 0 and 1.
    """

    def __init__(self, rule: Component, share: float) -> None:
        super().__init__(rule)
        number = plain_number(share)
        if number is None or not 0 < number <= 1:
            raise StructureError(f"the share of parts that obey should be above 0 and at most 1, actual {share!r:.40}")
        self.share = number

    @property
    def rule(self) -> Component:
        return self.components[0]

    def __call__(self, parts: Parts) -> Tensor:
        return self.share - truth(self.rule, parts).double()

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        plain, _ = super().settings()
        return {**plain, "share": self.share}, {}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        (rule,) = plain["of"]
        return cls(build(rule), plain["share"])

    def __repr__(self) -> str:
        return f"at_least({said(self.rule)}, {self.share:g})"


class Tying(Rule):
    """A component for :func:`.regularise`: the parts of two hidden structures that are expected equally often.

    Called with the parts of one of them, it says 1 for those that are tied, with the parts of the other -1, and 0 for
    all others.

    :param tolerance: how far two expectations may be apart.
    """

    def __init__(self, tolerance: float) -> None:
        if not 0 < tolerance < 1:
            raise StructureError(f"the tolerance of expectations should be above 0 and below 1, actual {tolerance}")
        self.tolerance = float(tolerance)

    def __call__(self, parts: Any) -> Tensor:
        raise NotImplementedError

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to make this component again."""
        return {"tolerance": self.tolerance}, {}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """Make a component from its :meth:`settings`."""
        return cls(**plain)


def check_components(components: Iterable[Any], what: str, error: type[UnsupError] = StructureError) -> None:
    """Refuse what is no component of one structure.

    :param what: takes them, for the error.
    """
    for one in components:
        if not callable(one):
            hint = f": write pu.components.{one}(...)" if isinstance(one, str) and one.isidentifier() else ""
            raise error(f"{what}: a component is a function of the parts of the data, actual {one!r:.80}{hint}")
        if isinstance(one, Tying):
            raise error(f"{what}: {said(one)} ties two structures, and only regularise takes it, alone")
        maker = hasattr(one, "__wrapped__") and hasattr(one, "from_settings")
        if isfunction(one) and (maker or one.__module__.startswith(__package__ + ".component")):
            raise error(f"{what}: {one.__name__} makes a component when it is called: write {one.__name__}(...)")


def at_least(rule: Component, share: float) -> AtLeast:
    """That a share of all parts obey a rule, as a feature for :func:`.regularise` whose bound is 0.

    The share is of all parts that the hidden structures of the data are expected to have together: of trees, of all
    arcs, the root's among them. A share that no structure can reach is an error that names the largest one.

    >>> import pyro_unsup as pu
    >>> short = pu.components.at_least(pu.components.short_dependencies(1), 0.9)
    >>> model = pu.regularise(pu.models.DMV(tags=3), short, bound=0)
    >>> fit = pu.EM(model, init=pu.init.uniform()).run([[0, 1, 2], [2, 1, 0, 1]], iterations=0)
    >>> bool(model.expectations["tags"].abs() < 1e-4)  # exactly so many
    True
    """
    return AtLeast(rule, share)


def truth(one: Component, parts: Parts) -> Tensor:  # bool
    """What a component says of parts, if it says yes or no."""
    found = one(parts)
    if found.dtype != torch.bool:
        raise StructureError(
            f"the component {said(one)} gives numbers of type {found.dtype}, expected truth values: only those can be "
            "combined by | and ~, or be preferred"
        )
    return found


def both(*components: Component) -> Both:
    """All of several components at once.

    >>> import pyro_unsup as pu
    >>> pu.components.both(pu.components.short_dependencies(4), pu.components.verb_as_root(["VB"]))
    both(short_dependencies(limit=4), verb_as_root(tags=['VB']))
    """
    return Both(*components)


def either(*components: Component) -> Either:
    """What at least one of several components allows.

    >>> import pyro_unsup as pu
    >>> pu.components.short_dependencies(1) | ~pu.components.right_attach()
    either(short_dependencies(limit=1), ~right_attach())
    """
    return Either(*components)


def opposite(component: Component) -> Opposite:
    """What a component does not allow; the same as ``~component``.

    >>> import pyro_unsup as pu
    >>> pu.components.opposite(pu.components.left_chain())
    ~left_chain()
    """
    return Opposite(component)


def said(one: Component) -> str:
    """A component in words."""
    return repr(one) if isinstance(one, Rule) else named(one)


def component(look: Callable[Concatenate[Any, _P], Tensor]) -> Callable[_P, Named]:
    """Make a function of parts and values into one that takes the values, and gives a component.

    Fits under the component can be saved once the result is registered: ``registry.register("components", name, it)``.
    """

    def make(*args: _P.args, **kwargs: _P.kwargs) -> Named:
        bound = asked.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, allowed in _choices(look).items():
            if bound.arguments[name] not in allowed:
                raise StructureError(
                    f"component {look.__name__}: {name} should be one of {', '.join(map(repr, allowed))}, "
                    f"actual {bound.arguments[name]!r:.40}"
                )
        return Named(make, bound.arguments)

    def from_settings(plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Named:
        try:
            return make(**plain)  # type: ignore[call-arg]
        except TypeError as error:
            raise UnsupError(f"component {look.__name__}: {error}") from None

    _, *settings = signature(look).parameters.values()
    asked = signature(look).replace(parameters=settings, return_annotation=Named)
    make.__name__ = make.__qualname__ = look.__name__
    make.__doc__, make.__module__ = look.__doc__, look.__module__
    make.__dict__.update(__signature__=asked, __wrapped__=look, from_settings=from_settings)
    return make


def described(one: Component) -> dict[str, Any]:
    """The registered name and the settings of a component, in plain values.

    :raises NotDescribable: if it is not registered.
    """
    found = describe_registered("components", one, one.maker if isinstance(one, Named) else type(one))
    if found is None:
        raise NotDescribable(f"the component {named(one)} is not registered: see pyro_unsup.registry")
    said, tensors = found
    if tensors:
        raise NotDescribable(f"the component {named(one)} has tensors among its settings, expected plain values only")
    return said


def describe(one: Component) -> dict[str, Any] | None:
    """The same; None if the component cannot be described."""
    try:
        return described(one)
    except NotDescribable:
        return None


def build(said: Mapping[str, Any]) -> Component:
    """The component that was described."""
    made: Component = build_registered("components", said, {})
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return [[_plain(key), _plain(x)] for key, x in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(value)
    return [_plain(x) for x in value] if isinstance(value, list | tuple) else value

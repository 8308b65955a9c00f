"""``prefer``: hidden structure some of whose parts are likelier than the model alone would have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from ..distributions import Structure
from ..distributions.parts import Parts
from ..errors import StructureError
from .asked import check_model, plain_number
from .component import AtLeast, build, check_components, described, said, truth
from .handled import Handled, Handler
from .parts import Component, PartsMessenger
from .regularise import RegulariseMessenger
from .tie import TieMessenger


@dataclass
class _Factors:
    """Log-weights of parts."""

    factors: Tensor
    moves: bool = False


class PreferMessenger(PartsMessenger):
    """Multiplies the weight of every part that a rule says yes to by e^weight.

    .. math:: \\log Z_w(x) = \\log \\sum_y p(x, y) \\, e^{\\sum_k w_k f_k(x, y)}

    where :math:`f_k` is the number of parts of y that rule k says yes to. What is learned under it explains the data by
    structure that obeys the rules as far as the data allow. Nothing is forbidden.

    :param rules: functions of the parts (:class:`.Parts`) to truth values, such as those of
        :mod:`pyro_unsup.components`.
    :param weight: of each rule, finite. A negative one makes parts less likely.
    :param strength: all weights are multiplied by it. 0 is the model alone.

    >>> import pyro_unsup as pu
    >>> fit = pu.EM(pu.models.DMV(tags=3), init=pu.init.uniform()).run([[0, 1, 2]], iterations=0)
    >>> with pu.handlers.PreferMessenger([pu.components.right_attach()], [8.0]):
    ...     heads = fit.posterior([[0, 1, 2]]).mode()
    >>> all(head == 0 or head > child for child, head in enumerate(heads.tolist(), 1))
    True
    """

    looks_at_weights = False

    def __init__(self, rules: Sequence[Component], weight: Sequence[float], strength: float = 1.0) -> None:
        super().__init__()
        if not rules:
            raise StructureError(f"prefer takes at least one rule, actual {rules!r:.80}")
        check_components(rules, "prefer")
        if bounding := next((one for one in rules if isinstance(one, AtLeast)), None):
            raise StructureError(f"prefer: {bounding!r} bounds a share, for regularise(model, ..., bound=0)")
        numbers = [x for one in (*weight, strength) if (x := plain_number(one)) is not None]
        if len(weight) != len(rules) or len(numbers) != len(rules) + 1:
            given = f"{list(weight)!s:.80}"
            raise StructureError(f"expected a finite weight for each of {len(rules)} rules, actual {given}")
        self.rules, self.weight, self._strength = list(rules), numbers[:-1], numbers[-1]

    @property
    def strength(self) -> float:
        """All weights are multiplied by it."""
        return self._strength

    @strength.setter
    def strength(self, new: float) -> None:
        if new != self._strength:
            self._strength, self._known = float(new), {}  # what was made of the data has the old one

    def _make(self, fn: Structure, parts: Parts, value: Tensor) -> _Factors:
        like = next(iter(fn.weights.values()))
        factors = torch.zeros((), dtype=like.dtype)
        for one, weight in zip(self.rules, self.weight, strict=True):
            factors = factors + self.strength * weight * truth(one, parts).to(like.dtype)
        there = (parts.example >= 0).expand(parts.shape)
        return _Factors(torch.where(there, factors.expand(parts.shape), 0.0).detach())

    def _weigh(self, fn: Structure, value: Tensor, name: str, made: _Factors) -> Structure:
        like = next(iter(fn.weights.values()))
        return fn.with_potentials(**{fn.part: made.factors.to(like)}) if self.strength else fn

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this handler again: registered rules, and their weights."""
        return {"rules": [described(one) for one in self.rules], "weight": self.weight, "strength": self.strength}, {}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """Build a handler from its :meth:`settings`."""
        return cls([build(one) for one in plain["rules"]], plain["weight"], plain["strength"])

    def __repr__(self) -> str:
        each = [f"{said(one)} x {x:g}" for one, x in zip(self.rules, self.weight, strict=True)]
        return f"prefer({', '.join(each)}{'' if self.strength == 1 else f', strength={self.strength:g}'})"


def prefer(
    model: Callable[..., Any], rules: Component | Sequence[Component], weight: float | Sequence[float] = 2.0
) -> Handled:
    """The model with parts of its hidden structure made likelier; see :class:`PreferMessenger`.

    :param model: a Pyro program with structured distributions.
    :param rules: one, or several whose weights add up. For rules of which one is enough, use ``|``.
    :param weight: the log of what a part that obeys is multiplied by: one for all rules, or one for each.

    >>> import pyro_unsup as pu
    >>> corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(300, seed=1), max_length=8, drop=["PUNCT"])
    >>> plain = pu.models.DMV.of(corpus)
    >>> model = pu.prefer(plain, pu.components.universal())
    >>> fit = pu.EM(model, pu.AddLambda(1.0), init=plain.harmonic_start(corpus)).run(corpus)
    >>> corpus.sentence(0), fit.posterior(corpus).mbr()[:5].tolist()
    (['PROPN', 'AUX', 'VERB', 'DET', 'NOUN'], [3, 3, 0, 5, 3])
    """
    check_model(model, "prefer")
    several = [rules] if isinstance(rules, str) or not isinstance(rules, Sequence) else list(rules)
    each = isinstance(weight, Sequence) or getattr(weight, "ndim", 0) == 1  # an array or a tensor has axes
    weights: Any = list(weight) if each else [weight] * len(several)  # type: ignore[arg-type]
    return Handled(model, PreferMessenger(several, weights))


def preferences_of(model: Callable[..., Any]) -> tuple[PreferMessenger, ...]:
    """The preferences among the handlers of a model, those next to it last."""
    found = []
    while isinstance(model, Handled):
        if isinstance(model.handler, PreferMessenger):
            found.append(model.handler)
        model = model.model
    return tuple(found)


def ties_of(model: Callable[..., Any]) -> tuple[TieMessenger, ...]:
    """The ties among the handlers of a model (:func:`.regularise`). They hold for new data as for any, so decoding
    keeps to them."""
    found = []
    while isinstance(model, Handled):
        if isinstance(model.handler, TieMessenger):
            found.append(model.handler)
        model = model.model
    return tuple(found)


def learned_weights(model: Callable[..., Any]) -> list[float]:
    """What rules whose share is bounded (:func:`.at_least`) weighed when the model last ran, handler by handler."""
    return [weight for handler in _bounding(model) for weight in handler.learned()]


def learned_preferences(model: Callable[..., Any], weights: Sequence[float]) -> tuple[PreferMessenger, ...]:
    """Rules whose share is bounded, as preferences with the weights that they had: decoding heeds them so.

    :param weights: as :func:`learned_weights` gave them; nothing if there are not as many.
    """
    rules = [handler.features[k].rule for handler in _bounding(model) for k in handler.shares()]
    return (PreferMessenger(rules, weights),) if rules and len(rules) == len(weights) else ()


def _bounding(model: Callable[..., Any]) -> list[Any]:
    """The handlers of a model that bound the share of parts that obey."""
    found = []
    while isinstance(model, Handled):
        if isinstance(model.handler, RegulariseMessenger) and model.handler.shares():
            found.append(model.handler)
        model = model.model
    return found


def preferring(model: Callable[..., Any], preferences: Sequence[Handler]) -> Callable[..., Any]:
    """A model under preferences, as :func:`preferences_of` gives them, and under ties: the first one is outermost."""
    for one in reversed(preferences):
        model = Handled(model, one)
    return model


def without_preferences(model: Callable[..., Any]) -> Callable[..., Any]:
    """The model without what it prefers, under all its other handlers.

    >>> import pyro_unsup as pu
    >>> from pyro_unsup.handlers.prefer import without_preferences
    >>> without_preferences(pu.prefer(pu.models.DMV(tags=3), pu.components.left_chain()))
    DMV(tags=3)
    """
    if not isinstance(model, Handled):
        return model
    inside = without_preferences(model.model)
    if isinstance(model.handler, PreferMessenger):
        return inside
    if isinstance(model.handler, RegulariseMessenger) and len(model.handler.shares()) == len(model.handler.features):
        return inside
    return model if inside is model.model else model.handler.around(inside)

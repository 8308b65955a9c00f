"""``constrain``: hidden structure weighed by its parts, so that some of it is forbidden, or less likely."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor

from ..distributions import Posterior, Structure
from ..distributions.parts import Parts
from ..distributions.structure import heated
from ..distributions.wrapped import Wrapped
from ..errors import StructureError
from .asked import check_model
from .component import build, check_components, described
from .handled import Handled
from .parts import Component, PartsMessenger, named, potentials_of

#: A component that leaves nothing of so many examples in a row is taken to leave nothing of any.
PATIENCE = 1000


class Constrained(Wrapped):
    """A structured distribution with weights on its parts. Examples that would lose all structures stay unchanged.

    :param factors: log-weights of the parts of the data.
    :param example: the example that each part belongs to, of so many examples.
    :param fell: is told which examples have nothing left, (B,), when the data are looked at.
    """

    def __init__(
        self, base: Structure, factors: Tensor, example: Tensor, examples: int, fell: Callable[[Tensor], None]
    ) -> None:
        super().__init__(base)
        self._factors, self._example, self._examples, self._fell = factors, example, examples, fell
        self._under: Structure | None = None
        self._settled = False

    def around(self, base: Structure) -> Constrained:
        return Constrained(base, self._factors, self._example, self._examples, self._fell)

    def with_temperature(self, temperature: float) -> Constrained:
        new = self.around(self.base.with_temperature(temperature))
        new._factors = heated(self._factors, temperature)
        return new

    def log_prob(self, value: Tensor) -> Tensor:
        total: Tensor = self._weighed().log_prob(value)
        if self._lift(total):
            total = self._weighed().log_prob(value)
        return total

    def posterior(self, value: Tensor) -> Posterior:
        found = self._weighed().posterior(value)
        return self._weighed().posterior(value) if self._lift(found.log_partition) else found

    def score(self, value: Tensor, structure: Tensor) -> Tensor:
        if not self._settled:
            with torch.no_grad():
                self.log_prob(value)
        return self._weighed().score(value, structure)

    def _weighed(self) -> Structure:
        if self._under is None:
            self._under = self.base.with_potentials(**{self.part: self._factors})
        return self._under

    def _lift(self, log_z: Tensor) -> bool:
        """Lift the constraints of examples that have nothing left. Whether there are any, at the first look."""
        if self._settled:
            return False
        self._settled, dead = True, nothing_left(log_z, self._examples)
        some = bool(dead.any())
        if some:
            left = lifted(self._factors, self._example, dead)
            self._under = self.base.with_potentials(**{self.part: left})
        self._fell(dead)
        return some


class ConstrainMessenger(PartsMessenger):
    """Weighs the parts of hidden structure by a component, which is a function of the parts of the data.

    .. math:: \\log Z_c(x) = \\log \\sum_y p(x, y) \\prod_{\\mathrm{part} \\in y} c(\\mathrm{part})

    With truth values that is the sum over the structures whose parts are all allowed, and its gradient is the expected
    counts of the posterior restricted to those. It is never more than log p(x). Where a component leaves no structure
    of an example, the example is weighed as if there were no component.

    :param component: from :class:`.Parts` to a tensor that broadcasts to ``parts.shape``.

    >>> import pyro_unsup as pu
    >>> fit = pu.EM(pu.models.DMV(tags=3), init=pu.init.uniform()).run([[0, 1, 2]], iterations=0)
    >>> with pu.handlers.ConstrainMessenger(pu.components.left_chain()):
    ...     heads = fit.posterior([[0, 1, 2]]).mode()
    >>> heads
    tensor([2, 3, 0])
    """

    def __init__(self, component: Component) -> None:
        super().__init__()
        if not callable(component):
            raise StructureError(f"a component is a function of the parts of the data, actual {component!r:.80}")
        check_components([component], "constrain")
        self.component = component
        self._fallen: dict[str, Tensor] = {}
        self._in_vain, self._run = 0, 0
        self.only_forbids = True  #: whether it has but lowered weights, so that no sum can be larger than without it

    @property
    def fallbacks(self) -> int:
        """Number of examples of the last data in which the component allowed nothing, and was ignored."""
        return sum(int(fallen.sum()) for fallen in self._fallen.values())

    def __enter__(self) -> ConstrainMessenger:
        self._run += 1
        super().__enter__()
        return self

    def _make(self, fn: Structure, parts: Parts, value: Tensor) -> _Made:
        factors = potentials_of(self.component(parts), fn, parts)
        self.only_forbids &= not bool((factors > 0).any())
        return _Made(factors, parts)

    def _weigh(self, fn: Structure, value: Tensor, name: str, made: _Made) -> Structure:
        made.look_again(fn, value)

        learning = any(w.requires_grad for w in fn.weights.values())

        def fell(dead: Tensor) -> None:
            made.dead = dead
            self._fallen[name] = made.empty | dead
            if learning:  # new data may well have no example that a component allows
                self._check(made, self._fallen[name])

        like = next(iter(fn.weights.values()))
        return Constrained(fn, made.factors.to(like), made.example, made.examples, fell)

    def _check(self, made: _Made, fallen: Tensor) -> None:
        """Raise if the component seems to allow nothing in any example. One small mini-batch is not enough for that."""
        if not bool(fallen.all()) or self._in_vain < 0:
            self._in_vain = -1
            return
        if made.in_vain not in (0, self._run) or self._in_vain >= PATIENCE:
            raise StructureError(
                f"the component {named(self.component)} forbids everything in all examples, {len(fallen)} here: does "
                "it look for labels that these data have?"
            )
        self._in_vain += len(fallen) if made.in_vain == 0 else 0
        made.in_vain = self._run

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this handler again: the registered component that it has."""
        return {"component": described(self.component)}, {}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """Build a handler from its :meth:`settings`."""
        return cls(build(plain["component"]))

    def around(self, model: Callable[..., Any]) -> ConstrainedModel:
        """The model under this handler."""
        return ConstrainedModel(model, self)

    def __repr__(self) -> str:
        return f"constrain({named(self.component)})"


class _Made:
    """What a component makes of some data.

    :param factors: log-weights of the parts.
    """

    def __init__(self, factors: Tensor, parts: Parts) -> None:
        self.factors, self.example, self.examples = factors, parts.example, parts.examples
        self.empty = torch.zeros(parts.examples, dtype=torch.bool)  # examples with nothing left, whatever the weights
        self.dead = self.empty  # those that had nothing left in the last run, besides
        self.in_vain = 0  # the run in which all were
        self._known = False

    @property
    def moves(self) -> bool:
        return self.factors.requires_grad

    def look_again(self, fn: Structure, value: Tensor) -> None:
        """When data come again, find the examples in which nothing is ever left. They need not be tried again."""
        if self._known or not bool(self.dead.any()):
            return
        with torch.no_grad():
            alike = fn.with_weights({name: torch.zeros_like(w) for name, w in fn.weights.items()})
            allowed = alike.with_potentials(**{fn.part: self.factors})
            self.empty = nothing_left(allowed.log_prob(value), self.examples)
            self.factors = lifted(self.factors, self.example, self.empty)
        self._known = True


def nothing_left(log_z: Tensor, examples: int) -> Tensor:  # (*batch, B) -> (B,)
    """The examples that have no structure."""
    dead = log_z.detach() == -torch.inf
    return dead.reshape(-1, examples).any(0) if examples else dead.reshape(-1)


def lifted(factors: Tensor, example: Tensor, which: Tensor) -> Tensor:
    """Factors without those of some examples, (B,)."""
    return torch.where((example >= 0) & which[example.clamp(min=0)], 0.0, factors)


class ConstrainedModel(Handled):
    """A model under :func:`constrain`."""

    handler: ConstrainMessenger

    @property
    def fallbacks(self) -> int:
        """Number of examples of the last data in which the component allowed nothing, and was ignored."""
        return self.handler.fallbacks


def constrain(model: Callable[..., Any], component: Component) -> ConstrainedModel:
    """The model with constraints on its hidden structure; see :class:`ConstrainMessenger`.

    A component looks at the parts of all structures that the data could have, and says which are allowed (or gives
    log-weights, which add up). What there is to look at goes with the structure: :mod:`pyro_unsup.distributions.parts`.
    Ready ones are in :mod:`pyro_unsup.components`.

    >>> import pyro_unsup as pu
    >>> def short(parts):
    ...     return parts.distance <= 2
    >>> sentences = [[0, 1, 1, 2], [2, 1, 0]]
    >>> model = pu.constrain(pu.models.DMV(tags=3), short)
    >>> fit = pu.EM(model, pu.AddLambda(0.1), init=pu.init.uniform()).run(sentences, iterations=5)
    >>> model.fallbacks, float(fit.posterior(sentences).marginals[4])  # of the fourth word as head of the first
    (0, 0.0)
    """
    check_model(model, "constrain")
    return ConstrainedModel(model, ConstrainMessenger(component))

"""A structured distribution with one more log-weight for every part of the structures of given data."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..errors import StructureError
from .parts import Parts
from .structured import Posterior, Structure


class Weighed(Structure):
    """Structures weighed by their parts as well: ``p(x, y) prod_{part in y} exp(factor)``.

    A part's weight comes from a type that other parts may share, such as the emission of a word. In
    :meth:`.Structure.apart` every part has a type of its own, whose weight takes the factor in; so this is the same
    sum, by the same kernel, and gradients find their way back to the tables.

    :param factors: shaped as the marginals of the posterior, -inf for what is forbidden.
    """

    def __init__(self, base: Structure, factors: Tensor) -> None:
        self.base, self.factors = base, factors
        self.exact = base.exact
        super().__init__(base.batch_shape, base.event_shape, validate_args=False)

    @property
    def support(self) -> Any:
        return self.base.support

    @property
    def weights(self) -> dict[str, Tensor]:
        return {**self.base.weights, "factors": self.factors}

    def with_weights(self, weights: dict[str, Tensor]) -> Weighed:
        mine = {name: w for name, w in weights.items() if name != "factors"}
        return Weighed(self.base.with_weights(mine), weights.get("factors", self.factors))

    def raised(self, power: float) -> Weighed:
        return Weighed(self.base.raised(power), raised_factors(self.factors, power))

    def references(self) -> dict[str, dict[str, Tensor]]:
        return self.base.references()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Weighed:
        return Weighed(self.base.expand(batch_shape), self.factors)

    def log_prob(self, value: Tensor) -> Tensor:
        dist, own = self.base.apart(value, self.factors)
        total: Tensor = dist.log_prob(own)
        return total

    def score(self, value: Tensor, structure: Tensor) -> Tensor:
        dist, own = self.base.apart(value, self.factors)
        return dist.score(own, structure)

    def posterior(self, value: Tensor) -> Posterior:
        return WeighedPosterior(self, value)

    def parts(self, value: Tensor) -> Parts:
        return self.base.parts(value)

    def weighed(self, value: Tensor, factors: Tensor) -> Structure:
        return Weighed(self.base, self.factors + as_factors(factors, self.base, self.parts(value)))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        raise StructureError("weights for the parts of given data say nothing of new ones, and cannot draw them")


class WeighedPosterior(Posterior):
    """What is known when every part has a type of its own; counts are added up for the types that parts share."""

    def __init__(self, dist: Weighed, value: Tensor) -> None:
        self._weights = {name: w.detach() for name, w in dist.weights.items()}
        self._dist, self._value = dist.with_weights(self._weights), value
        own, numbers = self._dist.base.apart(value, self._dist.factors)
        self._own: Any = own.posterior(numbers)

    def __getattr__(self, name: str) -> Any:  # what else the structure's own posterior has
        if name == "_own":
            raise AttributeError(name)
        return getattr(self._own, name)

    @property
    def log_partition(self) -> Tensor:  # type: ignore[override]
        found: Tensor = self._own.log_partition
        return found

    @cached_property
    def counts(self) -> dict[str, Tensor]:  # type: ignore[override]
        """Expected uses of every weight, over the whole batch, shaped as the weights that were given."""
        leaves = {name: w.clone().requires_grad_() for name, w in self._weights.items() if name != "factors"}
        with torch.enable_grad():
            own = self._dist.base.with_weights(leaves).apart(self._value, self._dist.factors)[0].weights
        used: dict[str, Tensor] = self._own.counts
        names = [name for name, w in own.items() if w.requires_grad]
        found = torch.autograd.grad(
            [own[name] for name in names],
            list(leaves.values()),
            [used[name] for name in names],
            materialize_grads=True,
            allow_unused=True,
        )
        return {**dict(zip(leaves, found, strict=True)), "factors": self.marginals}

    @property
    def marginals(self) -> Tensor:  # type: ignore[override]
        found: Tensor = self._own.marginals
        return found

    def mode(self) -> Tensor:
        found: Tensor = self._own.mode()
        return found

    def mbr(self) -> Tensor:
        found: Tensor = self._own.mbr()
        return found

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        found: Tensor = self._own.sample(generator)
        return found

    @property
    def entropy(self) -> Tensor:
        found: Tensor = self._own.entropy
        return found


def as_mask(factors: Tensor) -> Tensor | None:
    """Which parts are allowed, if that is all that the factors say: kernels need no weight for each part then."""
    if factors.requires_grad:
        return None
    allowed = factors == 0
    return allowed if bool((allowed | (factors == -torch.inf)).all()) else None


def raised_factors(factors: Tensor, power: float) -> Tensor:
    """Log-weights of parts times a power. What is forbidden stays so, to the power of 0 too."""
    return torch.where(factors == -torch.inf, -torch.inf, factors * power)


def as_factors(found: Tensor, dist: Structure, parts: Parts) -> Tensor:
    """Log-weights of all parts, from anything that broadcasts to them: truth values, or log-weights.

    :raises StructureError: if it does not, or holds NaN or +inf.
    """
    if not isinstance(found, Tensor):
        raise StructureError(
            f"expected a tensor of truth values or log-weights over the parts, actual {type(found).__name__}"
        )
    like = next(iter(dist.weights.values()))
    try:
        found = found.expand(parts.shape)
    except RuntimeError:
        raise StructureError(
            f"there are parts of shape {tuple(parts.shape)}, which should fit truth values or log-weights of shape "
            f"{tuple(found.shape)}"
        ) from None
    if found.dtype == torch.bool:
        return torch.zeros(parts.shape, dtype=like.dtype, device=like.device).masked_fill_(~found, -torch.inf)
    if not found.is_floating_point():
        raise StructureError(
            f"expected truth values or floating-point log-weights over the parts, actual {found.dtype}: for a mask "
            "compare, as in parts.distance <= 4"
        )
    if found.numel() and not float(found.detach().amax()) < torch.inf:
        raise StructureError("the log-weights of parts hold NaN or +inf; they are numbers below +inf, or -inf")
    return found.to(like)

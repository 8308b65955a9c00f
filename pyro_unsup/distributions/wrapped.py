"""A structure around another one, for handlers that change what its sum means."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from pyro.distributions import TorchDistribution
from torch import Tensor

from ..errors import StructureError
from .parts import Parts
from .posterior import Posterior
from .semiring import Sum
from .structure import Potentials, Structure


class Wrapped(Structure):
    """Does everything as the structure inside of it. What changes that structure is done there, and wrapped again.

    :param base: the structure inside.
    """

    #: Whether it depends on another site of the model. It cannot be weighed later then, on its own.
    tied: ClassVar[bool] = False

    def __init__(self, base: Structure) -> None:
        if isinstance(base, Wrapped) and base.tied:
            raise StructureError(
                "what is tied to another site (regularise with symmetric(), say) cannot be constrained, hardened or "
                "bounded besides: use one of the two"
            )
        self.base, self.exact = base, base.exact
        TorchDistribution.__init__(self, base.batch_shape, base.event_shape, validate_args=False)

    @abstractmethod
    def around(self, base: Structure) -> Wrapped:
        """The same around another structure."""

    @property
    def weights(self) -> dict[str, Tensor]:  # type: ignore[override]
        return self.base.weights

    def factors(self) -> dict[str, Tensor]:
        return self.base.factors()

    def prepare(self, value: Tensor) -> None:
        self.base.prepare(value)

    @property
    def part(self) -> str:  # type: ignore[override]
        return self.base.part

    @property
    def support(self) -> Any:
        return self.base.support

    def potentials(self, value: Tensor) -> Potentials:
        return self.base.potentials(value)

    def total(self, potentials: Potentials, sum_: Sum) -> Tensor:
        return self.base.total(potentials, sum_)

    def to_structure(self, parts: Tensor) -> Tensor:
        return self.base.to_structure(parts)

    def to_parts(self, structure: Tensor) -> Tensor:
        return self.base.to_parts(structure)

    def with_weights(self, weights: Mapping[str, Tensor]) -> Wrapped:
        return self.around(self.base.with_weights(weights))

    def with_tables(self, weights: Mapping[str, Tensor]) -> Wrapped:
        return self.around(self.base.with_tables(weights))

    def with_temperature(self, temperature: float) -> Wrapped:
        return self.around(self.base.with_temperature(temperature))

    def with_potentials(self, **more: Tensor) -> Wrapped:
        return self.around(self.base.with_potentials(**more))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Wrapped:
        return self.around(self.base.expand(batch_shape))

    def references(self) -> dict[str, Potentials]:
        return self.base.references()

    def parts(self, value: Tensor) -> Parts:
        return self.base.parts(value)

    def score(self, value: Tensor, structure: Tensor) -> Tensor:
        return self.base.score(value, structure)

    def posterior(self, value: Tensor) -> Posterior:
        return self.base.posterior(value)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base.sample(sample_shape)

"""``regularise`` by a tie: two hidden structures that expect the same of their parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from ..distributions import Structure
from ..distributions.balance import Balanced
from ..distributions.parts import Parts
from ..distributions.tied import Terms, Tie
from ..distributions.wrapped import Wrapped
from ..errors import StructureError
from .component import Tying, build, described, said
from .handled import Handled
from .parts import PartsMessenger


@dataclass
class _Signs:
    """What a component makes of the parts of a site: (parts,) of signs, and the example of each."""

    signs: Tensor
    example: Tensor
    moves: bool = False


class TieMessenger(PartsMessenger):
    """Replaces the log-probability of two sites by its regularised form: the penalty is the distance to the nearest
    posteriors that expect the same of each part.

    .. math:: J(x) = \\log p_1(x) + \\log p_2(x)
              - \\min_{q_1 q_2 : E_{q_1} f = E_{q_2} f} \\mathrm{KL}(q_1 q_2 \\,\\|\\, p_1 p_2)
              = \\min_\\lambda \\; \\log Z_1(- \\lambda) + \\log Z_2(\\lambda)

    where every part of every example has a multiplier of its own, which is taken off the log-potential of the part at
    the first site and put on at the second. The gradient of J in the log-weights is the expected counts under those
    posteriors, so EM never lowers J, as far as the search for the multipliers is exact. It ends once no two
    expectations are further apart than the tolerance, in no example; where it cannot bring them so close, it says so.

    :param component: that says which parts are tied, such as :func:`.symmetric`.

    >>> import pyro_unsup as pu
    >>> pairs = pu.data.toy.bitext(5, seed=1)
    >>> fit = pu.EM(pu.models.Aligner.of(pairs, agreement=None), init=pu.init.uniform()).run(pairs, iterations=2)
    >>> with pu.handlers.TieMessenger(pu.components.symmetric()) as messenger:
    ...     tied = fit.log_likelihood(pairs)
    >>> tied < fit.log_likelihood(pairs), bool((messenger.apart <= 1e-3).all())
    (True, True)

    **References:** [1] J. V. Graça, K. Ganchev and B. Taskar (2010) "Learning tractable word alignment models with
    complex constraints".
    """

    NOT_COMPARED = (*PartsMessenger.NOT_COMPARED, "_tie", "_names", "_scale")

    def __init__(self, component: Tying) -> None:
        super().__init__()
        self.component = component
        self.multipliers: Tensor | None = None
        self.apart: Tensor | None = None
        self._tie: Tie | None = None
        self._names: list[str] = []
        self._scale: Any = None

    def __enter__(self) -> Any:
        self._tie, self._names = None, []
        return super().__enter__()

    def __exit__(self, kind: Any, *args: Any) -> Any:
        tie, self._tie = self._tie, None
        result = super().__exit__(kind, *args)
        if kind is None and tie is not None and len(tie.sides) != 2:
            raise self._refused("the model has one such site")
        return result

    def _make(self, fn: Structure, parts: Parts, value: Tensor) -> _Signs:
        signs = self.component(parts)
        if parts.shape != value.shape:
            raise self._refused(f"its parts are of shape {tuple(parts.shape)}, its data of {tuple(value.shape)}")
        return _Signs(signs.double().expand(parts.shape), parts.example.expand(parts.shape))

    def _pyro_sample(self, msg: Any) -> None:
        if isinstance(msg["fn"], Structure) and msg["is_observed"]:
            if msg["name"] in self._names:  # one more run of the model
                self._tie, self._names = None, []
            if self._tie is not None and msg["scale"] != self._scale:
                raise self._refused("the two sites count differently in the log-probability (scale)")
            self._scale = msg["scale"]
        super()._pyro_sample(msg)

    def _weigh(self, fn: Structure, value: Tensor, name: str, made: _Signs) -> Structure:
        if isinstance(fn, Wrapped):
            raise self._refused(f"another handler has put {type(fn).__name__} around '{name}': use one of the two")
        if not fn.exact or getattr(fn, "draws", None):
            raise self._refused(f"'{name}' has {'many sets of weights' if fn.exact else 'no exact posterior'}")
        self._names.append(name)
        if self._tie is None:
            self._tie = Tie(Terms(made.signs, made.example, self.component.tolerance, self._found))
        elif len(self._tie.sides) == 2:
            raise self._refused("the model has more such sites")
        elif not torch.equal(made.signs, -self._tie.terms.signs):
            raise self._refused(f"what is tied at the first site and at '{name}' is not the same")
        return self._tie.join(fn, value)

    def _refused(self, why: str) -> StructureError:
        return StructureError(
            f"{said(self.component)} ties two sites with exact hidden structure, such as the two directions of an "
            f"aligner with agreement=None, but {why}"
        )

    def _found(self, found: Balanced) -> None:
        self.multipliers, self.apart = found
        if len(self.apart) and not float(self.apart.max()) <= self.component.tolerance:
            worst = int(self.apart.argmax())
            many = int((self.apart > self.component.tolerance).sum())
            raise StructureError(
                f"{said(self.component)}: in {many} of {len(self.apart)} examples expectations cannot be brought "
                f"closer than {self.component.tolerance:g}; they are {float(self.apart[worst]):g} apart in example "
                f"{worst}. Either no two posteriors agree there (an aligner with null=0 must link every word of both "
                "sentences), or the tolerance is too small"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_tie": None, "multipliers": None}

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this handler again: the registered component."""
        return {"component": described(self.component)}, {}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """Build a handler from its :meth:`settings`."""
        return cls(build(plain["component"]))  # type: ignore[arg-type]

    def around(self, model: Callable[..., Any]) -> TiedModel:
        """The model under this handler."""
        return TiedModel(model, self)

    def __repr__(self) -> str:
        return f"regularise({said(self.component)})"


class TiedModel(Handled):
    """A model under :func:`regularise` by a tie."""

    handler: TieMessenger

    @property
    def multipliers(self) -> Tensor | None:
        """Of the last run, (parts,)."""
        return self.handler.multipliers

    @property
    def apart(self) -> Tensor | None:
        """Of the last run, (B,): the largest difference between two expectations in each example."""
        return self.handler.apart

"""``regularise``: hidden structure whose parts are bounded in expectation, as posterior regularisation has it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, overload

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..distributions import Posterior, Structure
from ..distributions.parts import Parts
from ..distributions.wrapped import Wrapped
from ..errors import StructureError
from .asked import check_model, plain_number
from .component import AtLeast, Tying, build, check_components, described, said
from .handled import Handled
from .parts import Component, PartsMessenger, named
from .reach import check_reachable
from .tie import TiedModel, TieMessenger

#: By how much an expectation may exceed its bound, besides rounding; and how close to it the search tries to come.
MAY_EXCEED, CLOSE = 1e-4, 1e-8
#: No multiplier is larger: a structure with one unit more of a feature has no weight left then.
LARGEST = 1e4
#: Steps of the search at most.
STEPS = 500
#: Where every example has multipliers of its own, one search for all of them takes so many steps. Examples that are
#: then further from the lowest point than this are searched on in groups of this size, and in the end alone.
BRIEFLY, ENOUGH, GROUPS = 30, 1e-6, (32, 1)


class Regularised(Wrapped):
    """A structured distribution whose posterior is the one closest to its own that keeps expectations below bounds.

    :param features: (F, *parts) what each part adds to the value of each feature.
    :param bound: (F,) of the expectation of each, an example.
    :param example: the example that each part belongs to, of so many examples.
    :param each: whether every example has to keep the bounds, or all on average.
    :param found: is told the multipliers and the expectations.
    """

    def __init__(
        self,
        base: Structure,
        features: Tensor,
        bound: Tensor,
        example: Tensor,
        examples: int,
        each: bool,
        found: Callable[[Tensor, Tensor], None],
    ) -> None:
        super().__init__(base)
        self._features, self._bound = features, bound
        self._example, self._examples, self._each, self._found = example, examples, each, found
        self._multipliers: Tensor | None = None

    def around(self, base: Structure) -> Regularised:
        given = (self._features, self._bound, self._example, self._examples, self._each, self._found)
        return Regularised(base, *given)

    def log_prob(self, value: Tensor) -> Tensor:
        multipliers = self._solved(value)
        total: Tensor = self._weighed(self.base, multipliers).log_prob(value)
        return total + multipliers @ self._bound

    def posterior(self, value: Tensor) -> Posterior:
        return self._weighed(self.base, self._solved(value)).posterior(value)

    def score(self, value: Tensor, structure: Tensor) -> Tensor:
        return self._weighed(self.base, self._solved(value)).score(value, structure)

    def _weighed(self, base: Structure, multipliers: Tensor) -> Structure:  # (F,) or (B, F)
        if self._each:
            rows = multipliers.mT[:, self._example.clamp(min=0)]  # (F, *parts)
            return base.with_potentials(**{base.part: -(rows * self._features).sum(0)})
        return base.with_potentials(**{base.part: -torch.tensordot(multipliers, self._features, 1)})

    def _solved(self, value: Tensor) -> Tensor:
        if self._multipliers is None:
            with torch.enable_grad():
                self._multipliers = self._solve(value)
        return self._multipliers

    def _dual(self, value: Tensor, x: Array) -> tuple[float, Array]:
        """The dual at these multipliers, and its slope.

        Where all examples share them, over the number of examples: how many there are makes no difference to a search.
        """
        base = self.base.with_weights({name: w.detach() for name, w in self.base.weights.items()})
        lam = torch.from_numpy(x).reshape(-1, len(self._bound)).to(self._features).requires_grad_()
        total = self._weighed(base, lam if self._each else lam[0]).log_prob(value).sum()
        (slope,) = torch.autograd.grad(total, lam)
        scale, bound = 1 if self._each else self._examples, self._bound.double()
        found = float(total.detach()) / scale + float((lam.detach().double() @ bound).sum())
        return found, (slope.double() / scale + bound).reshape(-1).cpu().numpy()

    def _solve(self, value: Tensor) -> Tensor:  # (F,) or (B, F)
        """The multipliers, not negative, at which the dual is lowest: log Z under them, plus them times the bounds."""
        shape = (self._examples, len(self._bound)) if self._each else self._bound.shape
        if not math.isfinite(self._dual(value, np.zeros(math.prod(shape)))[0]):  # impossible data: others will say so
            return torch.zeros(shape, dtype=self._features.dtype)
        alone = self._each and self.base.laid_flat(value)[1] is value
        start = torch.zeros(shape, dtype=torch.float64)
        found, expectations = self._search(value, start, BRIEFLY if alone else STEPS)
        for size in GROUPS if alone else ():
            left = _not_lowest(found, expectations, self._bound)
            for hard in left.split(size) if len(left) else ():
                found[hard], expectations[hard] = self._of(value, hard, found[hard])
        multipliers = found.to(self._features)
        self._found(multipliers, expectations)
        return multipliers

    def _search(self, value: Tensor, start: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """Multipliers, and the expectations under them; float64, shaped as the start."""
        from scipy.optimize import minimize

        best = minimize(
            partial(self._dual, value),
            start.flatten().numpy(),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, LARGEST)] * start.numel(),
            options={"ftol": 0.0, "gtol": CLOSE, "maxiter": steps, "maxfun": 4 * steps},
        )
        _, slope = self._dual(value, best.x)
        expectations = self._bound.double().cpu() - torch.from_numpy(slope).reshape(start.shape)
        return torch.from_numpy(best.x).reshape(start.shape), expectations

    def _of(self, value: Tensor, examples: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """The same for some examples alone, (n,). The start is theirs, (n, F)."""
        base, shape = self.base, self._features.shape[1:]
        some, theirs = base.select(value, examples)
        # Their parts among all: numbers that go along as if they were potentials.
        numbered, numbers = copy(base), torch.arange(shape[0], dtype=torch.float64)
        numbered.extra = {base.part: numbers.reshape(-1, *(1,) * (len(shape) - 1)).expand(shape)}
        theirs_among_all = numbered.select(value, examples)[0].extra[base.part]
        rows = theirs_among_all.reshape(len(theirs_among_all), -1)[:, 0].long()
        number = torch.full((self._examples,), -1).scatter(0, examples, torch.arange(len(examples)))
        features, example = self._features[:, rows], self._example[rows]
        own = torch.where(example >= 0, number[example], -1)
        found = (features, self._bound, own, len(examples), True, self._found)
        return Regularised(some, *found)._search(theirs, start, STEPS)


def _not_lowest(multipliers: Tensor, expectations: Tensor, bound: Tensor) -> Tensor:  # (B, F), (B, F), (F,) -> (n,)
    """The examples whose dual is not yet at its lowest: a bound is exceeded, or kept with more than it takes."""
    apart = expectations - bound.double().cpu()
    apart = torch.where(multipliers > 0, apart.abs(), apart).amax(1)
    return (apart > ENOUGH).nonzero().flatten()


@dataclass
class _Values:
    """What features make of some data; fields as :class:`Regularised` has them."""

    features: Tensor
    example: Tensor
    examples: int
    moves: bool = False


class RegulariseMessenger(PartsMessenger):
    """Replaces log p(x) by its regularised form: the penalty is the distance to the nearest posterior that is allowed.

    .. math:: J(x) = \\log p(x) - \\min_{q : E_q f \\le b} \\mathrm{KL}(q(y) \\,\\|\\, p(y \\mid x))
              = \\min_{\\lambda \\ge 0} \\; \\lambda b + \\log \\sum_y p(x, y) \\, e^{- \\lambda f(x, y)}

    where the value f(x, y) of a feature is the sum over the parts of y. The gradient of J in the log-weights is the
    expected counts under that q, so EM on the model is the algorithm of Graça et al., and never lowers J. (A gradient
    of the gradient would miss that the multipliers follow.)

    :param features: functions of the parts (:class:`.Parts`), to numbers or truth values.
    :param bound: of the expectation of each feature, an example. For a lower bound, use a negative feature and bound.
    :param each: let every example keep the bounds; if not, all examples do on average.

    >>> import pyro_unsup as pu
    >>> def long(parts):
    ...     return parts.distance > 1
    >>> fit = pu.EM(pu.models.DMV(tags=3), init=pu.init.uniform()).run([[0, 1, 2]], iterations=0)
    >>> with pu.handlers.RegulariseMessenger([long], [0.1]) as messenger:
    ...     regularised = fit.log_likelihood([[0, 1, 2]])
    >>> regularised < fit.log_likelihood([[0, 1, 2]]), messenger.expectations["tags"].round(decimals=4)
    (True, tensor([0.1000], dtype=torch.float64))

    **References:** [1] J. V. Graça, K. Ganchev and B. Taskar (2007) "Expectation maximization and posterior
    constraints"; [2] K. Ganchev et al. (2010) "Posterior regularization for structured latent variable models".
    """

    def __init__(self, features: Sequence[Component], bound: Sequence[float], each: bool = False) -> None:
        super().__init__()
        if not features or not all(callable(one) for one in features):
            raise StructureError(f"features are functions of the parts of the data, actual {features!r:.80}")
        check_components(features, "regularise")
        bounds = [x for one in bound if (x := plain_number(one)) is not None]
        if len(bound) != len(features) or len(bounds) != len(features):
            raise StructureError(
                f"expected a finite bound for each of {len(features)} features, actual {list(bound)!s:.80}"
            )
        for one, x in zip(features, bounds, strict=True):
            if isinstance(one, AtLeast) and x:
                raise StructureError(f"{one!r} has its share already: the bound that goes with it is 0, actual {x:g}")
        self.features, self.bound, self.each = list(features), bounds, bool(each)
        self.multipliers: dict[str, Tensor] = {}
        self.expectations: dict[str, Tensor] = {}

    def _make(self, fn: Structure, parts: Parts, value: Tensor) -> _Values:
        like = next(iter(fn.weights.values()))
        rows = [one(parts) for one in self.features]
        for row, one in zip(rows, self.features, strict=True):
            if not isinstance(row, Tensor) or not bool(row.double().isfinite().all()):
                raise StructureError(f"the feature {named(one)} should be a finite number for every part")
        for one in self.features:
            if isinstance(one, AtLeast):
                check_reachable(fn, parts, value, one)
        stacked = torch.stack([row.to(like).expand(parts.shape) for row in rows])
        there = (parts.example >= 0).expand(parts.shape)
        return _Values(torch.where(there, stacked, 0.0).detach(), parts.example.expand(parts.shape), parts.examples)

    def _weigh(self, fn: Structure, value: Tensor, name: str, made: _Values) -> Structure:

        def found(multipliers: Tensor, expectations: Tensor) -> None:
            self.multipliers[name], self.expectations[name] = multipliers, expectations
            self._check(multipliers, expectations)

        bound = torch.tensor(self.bound).to(made.features)
        return Regularised(fn, made.features, bound, made.example, made.examples, self.each, found)

    def _check(self, multipliers: Tensor, expectations: Tensor) -> None:
        most, where = expectations.reshape(-1, len(self.bound)).max(0)
        for k, (bound, one) in enumerate(zip(self.bound, self.features, strict=True)):
            if float(most[k]) > bound + MAY_EXCEED * (1 + abs(bound)):
                here = f"in example {int(where[k])}" if self.each else "on average"
                raise StructureError(
                    f"the expectation of the feature {named(one)} is bounded by {bound:g}, but cannot be brought below "
                    f"{float(most[k]):g} {here}: no structure, or none with any weight, has less. Loosen the bound"
                )

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this handler again: registered features, and their bounds."""
        features = [described(one) for one in self.features]
        return {"features": features, "bound": self.bound, "each": self.each}, {}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """Build a handler from its :meth:`settings`."""
        return cls([build(one) for one in plain["features"]], plain["bound"], plain["each"])

    def around(self, model: Callable[..., Any]) -> RegularisedModel:
        """The model under this handler."""
        return RegularisedModel(model, self)

    def __repr__(self) -> str:
        each = [f"{said(one)} <= {bound:g}" for one, bound in zip(self.features, self.bound, strict=True)]
        return f"regularise({', '.join(each)}{', each' if self.each else ''})"

    def shares(self) -> list[int]:
        """Which features are shares of parts that obey a rule (:func:`.at_least`), by number."""
        return [k for k, one in enumerate(self.features) if isinstance(one, AtLeast)]

    def learned(self) -> list[float]:
        """What the rules of those weighed in the last run: the log of what a part that obeys is multiplied by.

        Nothing if several sites, or examples, had weights of their own.
        """
        if self.each or len(self.multipliers) != 1:
            return []
        (found,) = self.multipliers.values()
        return [float(found[k]) for k in self.shares()]


class RegularisedModel(Handled):
    """A model under :func:`regularise`."""

    handler: RegulariseMessenger

    @property
    def multipliers(self) -> Mapping[str, Tensor]:
        """Of the last run, by site: (F,), or (B, F) if each example has its own. 0 where a bound is kept without."""
        return self.handler.multipliers

    @property
    def expectations(self) -> Mapping[str, Tensor]:
        """Of the features in the last run, an example, by site: shaped as the multipliers."""
        return self.handler.expectations


@overload
def regularise(
    model: Callable[..., Any],
    features: Tying,
) -> TiedModel: ...
@overload
def regularise(
    model: Callable[..., Any],
    features: Component | Sequence[Component],
    bound: float | Sequence[float],
    each: bool = False,
) -> RegularisedModel: ...
def regularise(
    model: Callable[..., Any],
    features: Component | Sequence[Component],
    bound: float | Sequence[float] | None = None,
    each: bool = False,
) -> RegularisedModel | TiedModel:
    """The model with bounds on what is expected of its hidden structure; see :class:`RegulariseMessenger`.

    :param model: a Pyro program with structured distributions.
    :param features: one, or several. Or a component that ties two structures, such as
        :func:`pyro_unsup.components.symmetric`; it stands alone (:class:`.TieMessenger`).
    :param bound: of each, an example. A tie has none.
    :param each: let every example keep the bounds; if not, all examples do on average.

    >>> import pyro_unsup as pu
    >>> def long(parts):
    ...     return parts.distance > 1
    >>> sentences = [[0, 1, 1, 2], [2, 1, 0], [0, 1, 2]]
    >>> model = pu.regularise(pu.models.DMV(tags=3), long, bound=0.25)  # long arcs a sentence
    >>> fit = pu.EM(model, pu.AddLambda(0.1), init=pu.init.uniform()).run(sentences, iterations=0)
    >>> round(float(model.expectations["tags"]), 4)
    0.25
    """
    check_model(model, "regularise")
    several = list(features) if isinstance(features, Sequence) else [features]
    if any(isinstance(one, Tying) for one in several):
        if len(several) > 1 or bound is not None or each:
            raise StructureError(
                f"{', '.join(map(said, several))}: a component that ties two structures stands alone, and has no bound"
            )
        return TiedModel(model, TieMessenger(several[0]))  # type: ignore[arg-type]
    if bound is None:
        raise StructureError(f"a bound is missing of what is expected of {', '.join(map(named, several))}")
    each_has = isinstance(bound, Sequence) or getattr(bound, "ndim", 0) == 1
    bounds: Any = list(bound) if each_has else [bound]  # type: ignore[arg-type]
    return RegularisedModel(model, RegulariseMessenger(several, bounds, each))

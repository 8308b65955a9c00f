"""EM with what is known beforehand: a mixture of posteriors, each of which keeps a constraint."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from pyro.infer import config_enumerate
from torch import Tensor

from ..errors import FitError
from ..handlers import GivenMessenger, constrain
from ..handlers.component import describe
from ..handlers.constrain import ConstrainedModel
from ..handlers.parts import Component, named
from ..kernels.threads import plain_torch
from ..results import Fit
from .em import EM, estimated
from .estimation import Estimate
from .expectation import Expectation, Marginal
from .init import Initial
from .loop import Info
from .polytope import Polytope
from .schedules import Loosen
from .state import MAY_FALL, State, checked

#: From an iteration and the number of coefficients to those that are allowed.
Schedule = Callable[[int, int], Polytope]


class MixtureEM(EM):
    """Variational EM whose posterior over hidden structure is a mixture [1]

    .. math:: q(y) = \\sum_i \\lambda_i \\, q_i(y), \\qquad
              F = \\sum_i \\lambda_i \\log Z_i + \\text{log prior},

    of the posterior itself and of one restricted by each component, log Z_i being the sum over the structures that the
    component allows (:func:`pyro_unsup.constrain`). Left alone the first would have all the weight, since no component
    explains more of the data; a polytope says how much it may have. So expected counts are drawn towards what is known,
    a little less in each iteration if the polytope loosens.

    An iteration takes three steps: an E step for each component, the best coefficients in the polytope (a linear
    programme), and the M step of any estimator on the counts of all, weighed by the coefficients. None of them lowers
    F, as long as the polytope stays or grows.

    :param components: what each of the other posteriors keeps, functions of the parts of the data; ready ones are in
        :mod:`pyro_unsup.components`. The coefficients begin with that of the unconstrained posterior.
    :param polytope: the coefficients that are allowed: a :class:`.Polytope`, or a function from iteration and number of
        coefficients to one, such as :class:`.Loosen` (the default, and its defaults, are those of the paper).
    :param tied: whether components share the tables. If not, each has its own, learned from its own counts alone, and
        the fit predicts with those of the unconstrained posterior, which are what EM alone would learn; others by
        ``fit.component(i)``.

    Other parameters as for :class:`.EM`. The history tells the coefficients (``lambda_0``, ..., which the paper counts
    from 1) and what each component explains (``log_z_0``, ...); its ``log_likelihood`` is that of the unconstrained
    one. Sentences in which a component allows nothing are taken as they are, and counted (``fallbacks``).

        >>> import pyro_unsup as pu
        >>> sentences = [[0, 1, 1, 2], [2, 1, 0], [0, 1, 2]]
        >>> near = pu.components.short_dependencies(limit=1)
        >>> loosen = pu.schedules.Loosen(0.5, 0.9, 0.1)
        >>> engine = pu.MixtureEM(pu.models.DMV(tags=3), [near], pu.DirichletVB(), polytope=loosen)
        >>> fit = engine.run(sentences, iterations=6)
        >>> fit.history.lambda_0.round(2).tolist()
        [0.5, 0.6, 0.7, 0.8, 0.9, 0.9, 0.9]

    What was allowed::

        >>> state, info = engine.step(engine.init([[0, 1, 1, 2], [2, 1, 0]]))
        >>> engine.allowed(iteration=1).upper, engine.fallbacks(state)
        ((((1.0, 0.0), 0.6),), {'short_dependencies(limit=1)': 0})

    **References:** [1] S. B. Cohen and N. A. Smith (2010) "Variational inference for grammar induction with prior
    knowledge".
    """

    def __init__(
        self,
        model: Callable[..., Any],
        components: Sequence[Component],
        estimate: Estimate | None = None,
        init: Initial | None = None,
        *,
        polytope: Polytope | Schedule | None = None,
        tied: bool = True,
        dtype: torch.dtype = torch.float64,
        lbfgs_iterations: int = 20,
    ) -> None:
        super().__init__(model, estimate, init, dtype=dtype, lbfgs_iterations=lbfgs_iterations)
        if not isinstance(components, Sequence) or not components:
            raise FitError(f"a mixture has one component or more, functions of parts in a list, actual {components!r}")
        if not (polytope is None or isinstance(polytope, Polytope) or callable(polytope)) or not isinstance(tied, bool):
            raise FitError(
                f"polytope is a Polytope or a schedule, such as fixed(0.9) or Loosen(), and tied True or False, actual "
                f"{polytope!r:.80} and {tied!r:.80}"
            )
        self.components, self.tied = list(components), tied
        self.polytope: Polytope | Schedule = Loosen() if polytope is None else polytope
        self._models: list[ConstrainedModel] = [constrain(model, one) for one in components]
        self.allowed(0)

    def allowed(self, iteration: int) -> Polytope:
        """The coefficients that may be used in an iteration."""
        size = 1 + len(self.components)
        found = self.polytope if isinstance(self.polytope, Polytope) else self.polytope(iteration, size)
        if not isinstance(found, Polytope):
            raise FitError(f"a schedule of polytopes gives a Polytope for every iteration, actual {found!r:.80}")
        if found.size != size:
            raise FitError(
                f"the polytope is one of {found.size} coefficients, expected {size}: one for the unconstrained "
                f"posterior and {size - 1} for the components"
            )
        return found

    def begin(self, state: State) -> MixtureState:
        """The state before the first coefficients, with tables for every component that has its own."""
        problem = state.problem
        (args, kwargs), _ = problem.share.sample()
        with GivenMessenger(state.tables), problem.parameters.active():
            for model in self._models:  # what does not suit the model is said without an E step
                config_enumerate(model)(*args, **kwargs)
        plates = problem.marginal.plates
        marginals = [problem.marginal, *(Marginal(m, problem.parameters, self.dtype, plates) for m in self._models)]
        size = len(marginals)
        self.allowed(0).best([0.0] * size)  # if there are none, better to know now
        if not self.tied and state.unconstrained:
            raise FitError(
                f"components cannot each have their own {sorted(state.unconstrained)}, only tables: use tied=True"
            )
        others = [] if self.tied else [(state.weights, dict(state.memory)) for _ in self.components]
        return MixtureState(
            **vars(state), marginals=marginals, others=others, coefficients=[0.0] * size, fallbacks=[0] * (size - 1)
        )

    def e_step(self, state: MixtureState) -> tuple[Info, Mixture]:  # type: ignore[override]
        """The E step of every component, and the best coefficients."""
        problem, iteration, each = state.problem, state.iteration, state.each()
        found: list[Expectation] = []

        def noted(part: Expectation) -> Expectation:
            component = len(found)  # those before it are done
            return replace(part, fallbacks=self._models[component - 1].fallbacks if component else 0)

        for marginal, (weights, _) in zip(state.marginals, each, strict=True):
            one = problem.expect(weights, state.unconstrained, iteration, marginal, noted)
            found.append(checked(one, iteration))
        log_z = [one.log_marginal for one in found]
        with plain_torch():
            own = [problem.estimation.log_prior(*one) for one in each[: 1 if self.tied else None]]
        priors = own * len(log_z) if self.tied else own
        if self.tied:
            self._check(log_z, iteration)
        gains = (
            log_z if self.tied or -math.inf in priors else [z + prior for z, prior in zip(log_z, priors, strict=True)]
        )
        shares = self.allowed(iteration).best(gains).tolist()
        # What is reported belongs to these weights.
        state.coefficients, state.fallbacks = shares, [one.fallbacks for one in found[1:]]
        bounds = [share * (z + prior) for share, z, prior in zip(shares, log_z, priors, strict=True) if share]
        info = Info(iteration, sum(bounds), log_z[0], stage=state.stage)
        info.scores = {f"lambda_{i}": share for i, share in enumerate(shares)}
        info.scores |= {f"log_z_{i}": z for i, z in enumerate(log_z)}
        return info, Mixture(found, mixed(found, shares))

    def m_step(self, state: MixtureState, found: Mixture) -> MixtureState:  # type: ignore[override]
        """The M step: on the counts of all components, or of each."""
        if self.tied:
            moved: MixtureState = super().m_step(state, found.mixed)  # type: ignore[assignment]
        else:
            problem, iteration = state.problem, state.iteration
            with plain_torch():
                new = [
                    estimated(problem, one, *own, iteration)
                    for one, own in zip(found.components, state.each(), strict=True)
                ]
            (weights, memory, _), *others = new
            unvisited = {**state.unvisited, **new[-1][2]}
            own = [(weights, memory) for weights, memory, _ in others]
            moved = replace(
                state, tables={**weights}, memory=memory, others=own, iteration=iteration + 1, unvisited=unvisited
            )
        grew = self.allowed(moved.iteration) != self.allowed(moved.iteration - 1)
        return replace(moved, stage=moved.stage + grew)

    def converged(self, state: MixtureState, rows: Sequence[Info], tolerance: float) -> bool:
        # The polytope must not move either.
        still = self.allowed(state.iteration + 1) == self.allowed(state.iteration)
        return super().converged(state, rows, tolerance) and still

    def config(self, state: MixtureState) -> dict[str, Any]:
        return {
            "components": [named(one) for one in self.components],
            "described": [describe(one) for one in self.components],
            "polytope": named(self.polytope) if callable(self.polytope) else repr(self.polytope),
            "tied": self.tied,
            "fallbacks": list(state.fallbacks),
        }

    def fallbacks(self, state: MixtureState) -> dict[str, int]:
        """By component, the examples in which it allows nothing."""
        names = [named(one) for one in self.components]
        places = [names[:i].count(name) for i, name in enumerate(names)]  # several may have one name
        own = [f"{name} {place + 1}" if place else name for name, place in zip(names, places, strict=True)]
        return dict(zip(own, state.fallbacks, strict=True))

    def loss(self, state: MixtureState) -> float:
        return -self.e_step(state)[0].objective

    def _check(self, log_z: Sequence[float], iteration: int) -> None:
        """Under the same tables no mask explains more than no mask does."""
        slack = MAY_FALL[self.dtype] * max(1.0, abs(log_z[0]))
        for z, model in zip(log_z[1:], self._models, strict=True):
            if z > log_z[0] + slack and model.handler.only_forbids:
                raise FitError(
                    f"iteration {iteration}: {model.handler!r} explains more of the data ({z!r}) than no "
                    f"constraint does ({log_z[0]!r}), which cannot be: please report it"
                )

    def load_state(self, state: MixtureState, fit: Fit) -> MixtureState:
        loaded: MixtureState = super().load_state(state, fit)
        mine, theirs = self.config(loaded), fit.config
        for key in ("components", "polytope", "tied"):
            if theirs.get(key) != mine[key]:
                raise FitError(
                    f"the fit to go on from was trained with {key} = {theirs.get(key)}, here {mine[key]}: resume with "
                    "the mixture that it was trained with"
                )
        parts = [fit.component(i) for i in range(1, len(loaded.others) + 1)]
        others = [(dict(part.weights), dict(part.memory)) for part in parts]
        return replace(loaded, coefficients=fit.state["lambda"].tolist(), others=others)


@dataclass(frozen=True)
class Mixture:
    """What the E steps of a mixture found: of every component, and of all, weighed by the coefficients."""

    components: list[Expectation]
    mixed: Expectation


@dataclass
class MixtureState(State):
    """Where a mixture is. ``stage`` counts how often the polytope has grown.

    :param marginals: the log marginal of every component.
    :param others: tables and memory of every component after the first, if they have their own.
    :param coefficients: of the components, as the last E step found them.
    :param fallbacks: by component after the first, the examples in which it allows nothing.
    """

    marginals: list[Marginal] = field(default_factory=list)
    others: list[tuple[dict[str, Tensor], dict[str, Tensor]]] = field(default_factory=list)
    coefficients: list[float] = field(default_factory=list)
    fallbacks: list[int] = field(default_factory=list)

    def each(self) -> list[tuple[dict[str, Tensor], dict[str, Tensor]]]:
        """Tables and memory of every component."""
        first = (self.weights, self.memory)
        return [first, *self.others] if self.others else [first] * len(self.marginals)

    def own(self) -> dict[str, Tensor]:
        kept = {"lambda": torch.tensor(self.coefficients, dtype=torch.float64)}
        for i, (weights, memory) in enumerate(self.others, start=1):
            kept |= {f"{i}.weights.{name}": x for name, x in weights.items()}
            kept |= {f"{i}.memory.{name}": x for name, x in memory.items()}
        return kept


def mixed(found: Sequence[Expectation], shares: Sequence[float]) -> Expectation:
    """What E steps found, weighed and added up."""

    def add(parts: list[Mapping[Any, Tensor]]) -> dict[Any, Tensor]:
        used = [(share, part) for share, part in zip(shares, parts, strict=True) if share]
        return {key: torch.stack([share * part[key] for share, part in used]).sum(0) for key in parts[0]}

    with plain_torch():
        one = Expectation(
            sum(share * one.log_marginal for share, one in zip(shares, found, strict=True)),
            add([one.counts for one in found]),
            add([one.factors for one in found]) if all(one.factors for one in found) else {},  # replays have none
        )
        if all(part.plan is not None for part in found):
            used = [(share, part) for share, part in zip(shares, found, strict=True) if share]
            weights = [torch.stack([share * part.leaves[i].weight for share, part in used]).sum(0)
                       for i in range(len(found[0].leaves))]  # fmt: skip
            one.leaves = [replace(leaf, weight=w) for leaf, w in zip(found[0].leaves, weights, strict=True)]
            one.plan, one.values = found[0].plan, found[0].values
    return one

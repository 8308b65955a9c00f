"""EM under preferences that fade: at full strength first, then weaker, and at last without them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..errors import FitError
from ..handlers import Handled
from ..handlers.prefer import PreferMessenger, preferences_of
from ..results import Fit
from .anneal import UnfinishedSchedule
from .em import EM
from .estimation import Estimate
from .expectation import Expectation
from .init import Initial
from .loop import Info
from .state import State

#: What the weights of preferences are multiplied by, one stage after the other.
STRENGTHS = (1.0, 0.5, 0.25, 0.0)


class Fade(EM):
    """EM that lets preferences (:func:`.prefer`) go: they lead to a start, and the text alone decides where it ends.

    All weights of a model's preferences are multiplied by a strength, which falls from stage to stage. At each one, EM
    runs until it has converged, or for a number of steps. At strength 0 the objective is that of the model alone.

    :param model: under :func:`.prefer`. It is left as it is: the engine, and the fit, have one of their own.
    :param schedule: the strengths, each a number from 0 on. By default 1, 0.5, 0.25 and 0. The fit has the last one
        that it reached, and decodes with it.
    :param steps: the most E steps at a strength before the last; None goes on until it has converged.

    Other parameters as for :class:`.EM`. The history has a column ``strength``. Objectives can be compared within one
    strength.

    Likelihood alone may lead away from good structure once the rules are gone. On most treebanks it did, and more so
    with a smaller tolerance (``python -m benchmarks.grammar_weights``). Give a large tolerance or few steps, compare
    trees before and after, or keep the rules (:class:`.EM`).

        >>> import pyro_unsup as pu
        >>> corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(60, seed=1), max_length=8, drop=["PUNCT"])
        >>> model = pu.prefer(pu.models.DMV.of(corpus), pu.components.universal())
        >>> fit = pu.Fade(model, pu.AddLambda(1.0), schedule=[1, 0.5, 0], steps=2).run(corpus, tolerance=1e-4)
        >>> fit.history.strength.unique().tolist(), fit.model
        ([1.0, 0.5, 0.0], prefer(universal(tags=None, heads=None) x 2, strength=0) of DMV(tags=9))

    In a loop of your own, say when to go on to the next strength::

        >>> engine = pu.Fade(model)
        >>> state, info = engine.step(engine.init(corpus))
        >>> engine.strength(engine.next_stage(state)), engine.has_next_stage(state)
        (0.5, True)
    """

    ITERATIONS = 400

    def __init__(
        self,
        model: Callable[..., Any],
        estimate: Estimate | None = None,
        init: Initial | None = None,
        *,
        schedule: Sequence[float] = STRENGTHS,
        steps: int | None = None,
        dtype: torch.dtype = torch.float64,
        lbfgs_iterations: int = 20,
    ) -> None:
        self.schedule = _checked(schedule)
        if steps is not None and steps < 1:
            raise FitError(f"steps at a strength must be at least 1, actual {steps}")
        if not preferences_of(model):
            raise FitError(f"Fade needs a model with preferences (pu.prefer), actual {model!r:.80}")
        self.steps = steps
        own = at_strength(model, self.schedule[0])
        super().__init__(own, estimate, init, dtype=dtype, lbfgs_iterations=lbfgs_iterations)

    def strength(self, state: State) -> float:
        """Where the schedule is."""
        return self.schedule[state.stage]

    def e_step(self, state: State) -> tuple[Info, Expectation]:
        """The E step at the current strength."""
        self._set(state)
        info, found = super().e_step(state)
        info.stage, info.scores = state.stage, {"strength": self.strength(state), **info.scores}
        return info, found

    def loss(self, state: State) -> float:
        """Minus the objective on the data of a state, at its strength."""
        self._set(state)
        return super().loss(state)

    def converged(self, state: State, rows: Sequence[Info], tolerance: float) -> bool:
        # At this strength, or it has had its steps.
        here = [row for row in rows if row.stage == state.stage]
        if self.has_next_stage(state) and self.steps is not None and len(here) >= self.steps:
            return True
        return here[-1].change <= tolerance

    def has_next_stage(self, state: State) -> bool:
        """Whether there is a strength to go on to."""
        return state.stage + 1 < len(self.schedule)

    def next_stage(self, state: State) -> State:
        """The next strength, from the same weights."""
        if not self.has_next_stage(state):
            raise FitError(f"strength = {self.strength(state):g} is the last of the schedule")
        return replace(state, stage=state.stage + 1)

    def config(self, state: State) -> dict[str, Any]:
        """What a fit tells of how it was trained."""
        return {"strengths": self.schedule, **({} if self.steps is None else {"steps": self.steps})}

    def load_state(self, state: State, fit: Fit) -> State:
        loaded: State = super().load_state(state, fit)
        last = fit.rows[-1].get("strength")
        if loaded.stage >= len(self.schedule) or last != self.schedule[loaded.stage]:
            raise FitError(
                f"the fit to go on from is at strength {last}, which is not in its place in this schedule: resume with "
                "the schedule it was trained by"
            )
        return loaded

    def run(self, *args: Any, **kwargs: Any) -> Fit:
        fit = super().run(*args, **kwargs)
        for one in {id(one): one for one in (fit, *fit.runs)}.values():
            reached = one.rows[-1].get("strength", self.schedule[0]) if one.rows else self.schedule[0]
            one.model = at_strength(self.model, reached)
        last = fit.rows[-1].get("stage", 0) if fit.rows else 0
        if last < len(self.schedule) - 1:
            warnings.warn(
                f"preferences ended at strength {self.schedule[int(last)]:g}, before their schedule did "
                f"({self.schedule[-1]:g}): {fit.report.reason}. Allow more iterations, or fewer steps at each strength",
                UnfinishedSchedule,
                stacklevel=2,
            )
        return fit

    run.__doc__ = EM.run.__doc__

    def _set(self, state: State) -> None:
        for one in preferences_of(state.problem.wrapped):
            one.strength = self.strength(state)


def at_strength(model: Callable[..., Any], strength: float) -> Callable[..., Any]:
    """The model with its own preferences of this strength.

    >>> import pyro_unsup as pu
    >>> from pyro_unsup.infer.fade import at_strength
    >>> model = pu.prefer(pu.models.DMV(tags=3), pu.components.left_chain())
    >>> at_strength(model, 0.5), model
    (prefer(left_chain() x 2, strength=0.5) of DMV(tags=3), prefer(left_chain() x 2) of DMV(tags=3))
    """
    if not isinstance(model, Handled):
        return model
    inside, handler = at_strength(model.model, strength), model.handler
    if isinstance(handler, PreferMessenger):
        return Handled(inside, PreferMessenger(handler.rules, handler.weight, strength))
    return model if inside is model.model else Handled(inside, handler)


def _checked(schedule: Sequence[float]) -> list[float]:
    try:
        found = [float(one) for one in schedule]
    except (TypeError, ValueError):
        raise FitError(f"a schedule is a list of strengths, such as [1, 0.5, 0], actual {schedule!r:.80}") from None
    if not found or not all(0 <= one < math.inf for one in found):
        raise FitError(f"a schedule has one strength or more, each finite and not negative, actual {schedule!r:.80}")
    return found

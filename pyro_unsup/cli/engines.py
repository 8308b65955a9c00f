"""From options to an engine: the algorithm, priors and features, and constraints."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import UnsupError
from ..estimate import AddLambda, DirichletVB, EmpiricalDirichlet, LogisticNormal, LogLinear, Normalise, SparseL0
from ..handlers import harden, prefer, regularise
from ..handlers.components import at_least
from ..infer import EM, Anneal, Fade, Gradient, MixtureEM, StepwiseEM
from ..infer.init import around, noise
from ..infer.schedules import Loosen, fixed, geometric
from ..infer.stepwise import check_power
from ..tasks.option import Given, spelt
from ..tasks.shared_options import BATCH_SIZE
from ..tasks.task import Task
from ..tasks.texts import belongs, finite, say
from ..tasks.values import Plan
from .constraints import component_of, heads_remark, preferences_of, preferred

if TYPE_CHECKING:
    from ..infer import Initial
    from ..infer.engine import Engine
    from ..infer.estimation import Estimate

FITTED = "fitted"
#: Of preferences.
WEIGHT = 2.0


def check(task: Task, given: Given) -> None:
    """Refuse options that do not go together, and values that cannot be read."""
    if given.anneal and (given.stepwise or given.viterbi):
        other = "--stepwise" if given.stepwise else "--viterbi"
        raise UnsupError(f"--anneal and {other} are two ways to learn; give one of them")
    if given.probe is not None and given.restarts < 2:
        raise UnsupError("--probe belongs to --restarts; add --restarts 20, or leave it out")
    belongs(given, "anneal", "beta_start", "beta_factor")
    belongs(given, "stepwise", "power", "batch_size", "order_seed")
    if given.power is not None:
        check_power(given.power)
    smoothing = [one.name for one in task.commands["fit"].options if one.name.startswith("smooth")]
    smoothed = [name for name in ("smooth", *smoothing) if getattr(given, name) is not None]
    _one_of(weighing(given), smoothed, "to make weights of counts")
    finite("features", given.features)
    finite("sparse", given.sparse)
    finite("sparse_width", given.sparse_width)
    belongs(given, "sparse", "sparse_width")
    if given.sparse_width == 0:
        raise UnsupError("--sparse-width must be above 0, such as 0.05")
    _alpha(given.vb)
    if given.gradient and given.features is None:
        raise UnsupError("--gradient belongs to --features; add that, or leave it out")
    constrained = ["constraint"] if task.parts is not None and given.constraint else []
    engines = [*constrained, *(["gradient"] if given.gradient else [])]
    _one_of(engines, [name for name in ("anneal", "stepwise", "viterbi") if getattr(given, name)], "to learn")
    if task.parts is not None:
        belongs(given, "constraint", "free", "evenly")
        for text in given.constraint or ():
            component_of(text, task)
        if given.constraint:
            _polytope(given)
        if not preferred(given):
            belongs(given, "prefer", "prefer_weight", "prefer_share", "prefer_fade")
        if given.prefer_share is not None:
            _one_of(
                ["prefer_share"], [x for x in ("prefer_weight",) if given.prefer_weight is not None], "to weigh rules"
            )
            others = [name for name in ("prefer_fade", "constraint") if getattr(given, name)]
            _one_of(["prefer_share"], others, "to learn")
            if not given.prefer_share > 0:
                raise UnsupError("--prefer-share must be above 0, such as 0.6")
        if given.prefer_fade:
            others = [
                name for name in ("anneal", "stepwise", "viterbi", "gradient", "constraint") if getattr(given, name)
            ]
            _one_of(["prefer_fade"], others, "to learn")
        finite("prefer_weight", given.prefer_weight)
        preferences_of(preferred(given), task)


def weighing(given: Given) -> list[str]:
    """Options that say how counts become weights."""
    return [
        name
        for name in ("vb", "logistic_normal", "sparse", "features")
        if getattr(given, name) is not None and getattr(given, name) is not False
    ]


def engine_of(task: Task, model: Any, plan: Plan, given: Given) -> Engine:
    """The engine that the options ask for."""
    scale = next((x for x in (given.noise, plan.noise, task.recipe.noise) if x is not None), None)
    start = plan.start if scale is None or (plan.start is not None and not scale) else _near(plan.start, scale)
    alike = plan.start is not None and not scale and not plan.by_seed
    if given.restarts > 1 and alike and not given.stepwise:
        raise UnsupError(f"--restarts {given.restarts} would all start at the same place; give --noise 0.1 to set "
                         "them apart, or leave it out")  # fmt: skip
    estimate = _estimate(plan, given, fit_start=start is not None)
    with said():
        if wanted := preferred(given):
            rules = preferences_of(wanted, task, model)
            if task.parts == "Arcs" and (remark := heads_remark(wanted, model, given.file, given.format)):
                say(remark)
            if given.prefer_share is not None:
                shares = [at_least(rule, given.prefer_share) for rule in rules]
                model = regularise(model, shares, [0.0] * len(shares))
            else:
                model = prefer(model, rules, WEIGHT if given.prefer_weight is None else given.prefer_weight)
            model.handler.tells = False  # of unknown labels: what the text does not have is said already
        model = task.handled(model, given)
        if given.gradient:
            return Gradient(model, estimate, start)
        if task.parts is not None and given.constraint:
            components = [component_of(text, task, model) for text in given.constraint]
            return MixtureEM(model, components, estimate, start, polytope=_polytope(given))
        if given.anneal:
            first, factor = task.recipe.betas
            first = first if given.beta_start is None else given.beta_start
            factor = factor if given.beta_factor is None else given.beta_factor
            # Interchangeable states need noise to become different.
            shake: dict[str, Any] = {} if plan.start is None or plan.by_seed else {"jitter": 0.0}
            return Anneal(model, estimate, start, schedule=geometric(first, factor), toward=plan.toward, **shake)
        if task.parts is not None and given.prefer_fade:
            return Fade(model, estimate, start)
        model = harden(model) if given.viterbi else model
        if given.stepwise:
            how: dict[str, Any] = {} if given.power is None else {"power": given.power}
            how |= {"batch_size": given.batch_size or BATCH_SIZE, "order_seed": given.order_seed}
            return StepwiseEM(model, estimate, start, **how)
        return EM(model, estimate, start)


def _estimate(plan: Plan, given: Given, fit_start: bool) -> Estimate:
    """How counts become weights.

    :param fit_start: begin with features that come close to the start; if not, with weights at random.
    """
    if given.vb is not None:
        return EmpiricalDirichlet() if given.vb == FITTED else DirichletVB(_alpha(given.vb))
    if given.logistic_normal:
        return LogisticNormal()
    if given.sparse is not None:
        return SparseL0(given.sparse, SparseL0.width if given.sparse_width is None else given.sparse_width)
    if given.features is None:
        return plan.estimate or (AddLambda(given.smooth) if given.smooth else Normalise())
    found, kappa = plan.templates(), given.features
    if isinstance(found, Mapping):
        return {
            table: LogLinear(own, kappa, fit_start=fit_start, begin_with=plan.features.get(table))
            for table, own in found.items()
        }
    return LogLinear(found, kappa, fit_start=fit_start, begin_with=next(iter(plan.features.values()), None))


def _polytope(given: Given) -> Loosen:
    """How much of the posterior may break constraints."""
    if given.free is None:
        return Loosen(even=given.evenly)
    first, two, last = given.free.partition(":")
    try:
        return Loosen(float(first), float(last), even=given.evenly) if two else fixed(float(first), given.evenly)
    except ValueError:
        raise UnsupError(
            f"--free is a share between 0 and 1, or two of which the second is no less, such as 0.85:0.95, actual "
            f"{given.free!r:.40}"
        ) from None


def _near(start: Initial | None, scale: float) -> Initial:
    """A start with noise on it; without one, noise alone."""
    return noise(scale) if start is None else around(start, scale)


def _one_of(own: list[str], others: list[str], what: str) -> None:
    if own and len(own) + len(others) > 1:
        one, other, *_ = map(spelt, [*own, *others])
        raise UnsupError(f"{one} and {other} are two ways {what}; give one of them")


def _alpha(given: str | None) -> float | None:
    try:
        alpha = None if given is None or given == FITTED else float(given)
    except ValueError:
        alpha = math.nan
    if alpha is not None and not 0 < alpha < math.inf:
        raise UnsupError(f"--vb is a positive number or '{FITTED}', actual {given!r:.40}")
    return alpha


@contextmanager
def said() -> Iterator[None]:
    """Say warnings in a line each."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UserWarning)
        yield
    for one in dict.fromkeys(str(warning.message) for warning in found):
        say(f"warning: {one}")

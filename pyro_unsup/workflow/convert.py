"""``to_arviz``: whatever was inferred as an ArviZ object, with all that diagnostics and comparisons ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import torch
from pyro.infer import MCMC

from ..errors import UnsupError
from ..results import Fit, Samples
from ..results.arviz import as_arviz, check_draws, dataset, group_of, is_arviz, training
from ..results.fit_draws import FitDraws
from ..results.sample_statistics import draw_statistics
from ..results.sample_statistics import posterior as sampled
from ..results.sample_statistics import training as sweeps
from . import groups as make
from .arguments import check_limit, check_model, check_seed, check_whole, own_errors
from .draws import Draws, draws_of
from .predictive import can_draw
from .priors import prior_draws, prior_of
from .running import Program
from .statistics import mcmc_statistics

GROUPS = (
    "posterior",
    "sample_stats",
    "log_likelihood",
    "posterior_predictive",
    "prior",
    "prior_predictive",
    "observed_data",
    "constant_data",
    "training",
)
_EXPECTED = f"expected some of {', '.join(GROUPS)}, or 'all'"
WITHOUT_DATA = ("posterior", "sample_stats", "training")
#: Bytes that a group may take if nobody says.
LIMIT = 2e9


@own_errors()
@torch.random.fork_rng(devices=[])
def to_arviz(
    result: Any,
    *data: Any,
    model: Callable[..., Any] | None = None,
    groups: Sequence[str] | str | None = None,
    draws: int | None = None,
    prior_size: int = 500,
    steps: bool = False,
    seed: int = 0,
    limit: float = LIMIT,
    progress: bool = True,
) -> Any:
    """A result as an ArviZ object, on which ``az.loo``, ``az.compare``, ``az.plot_ppc`` and all others work.

    Its groups:

    - ``posterior``: tables as probabilities, parameters and hyperparameters, with named dimensions and labels. A
      collapsed sampler has integrated the tables out: they are drawn given its labels.
    - ``sample_stats``: what a sampler said of its draws. Only what was sampled has it. Of Pyro's ``MCMC``: ``lp``, the
      log of p(data, draw), if ``log_likelihood`` is made too; and of NUTS ``diverging``, ``mean_acceptance_rate`` of
      each chain, and ``step_size``, which Pyro keeps if there is one chain. Pyro keeps no tree depths or energies.
    - ``log_likelihood``: one value an example (a sentence, a document, a series), all that is hidden summed out.
    - ``posterior_predictive``: data drawn anew, as many as were observed.
    - ``prior`` and ``prior_predictive``: the same from the prior that the result was fitted with. They are made if they
      are named. Tables of a fit have the prior of its estimators, such as ``DirichletVB(5.0)``; those of Gibbs samples
      the concentrations of the sampler, drawn from its hyperprior if they were learned. All else has the prior that the
      model declares.
    - ``observed_data``, and ``constant_data``: how long each example is.
    - ``training``: the history of training, or of the sweeps of a sampler.

    Handlers around the model of a fit, such as ``temper``, are ways of training and left out here.

    :param result: a :class:`.Fit`; :class:`.Samples`; Pyro's ``MCMC``, with NUTS or :class:`.CollapsedGibbs`; a guide
        of SVI; or draws as an ArviZ object or as arrays (chain, draw, ...) by name.
    :param data: what the model is called with. Without them there is no likelihood, and nothing is predicted.
    :param model: of a guide, or of draws; the others have one of their own.
    :param groups: which to make; ``"all"`` for all. By default all but the priors; of an aligner with
        ``agreement="2008"``, which cannot draw data, those that it can have.
    :param draws: how many, from a fit or a guide. By default 1 of a point, and otherwise 1000 or as many as have room.
    :param prior_size: how many draws from the prior.
    :param steps: one ``log_likelihood`` a step of a series, given those before it, in the place of one a series.
    :param seed: the same draws come from the same seed.
    :param limit: bytes that a group may take. One that would take more is refused before it is made.
    :param progress: show a bar if it takes longer than two seconds.

    >>> import pyro_unsup as pu
    >>> corpus = pu.data.toy.sentences(20, seed=1)
    >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=corpus.vocab), pu.DirichletVB()).run(corpus, iterations=5)
    >>> found = pu.to_arviz(fit, corpus, draws=50)
    >>> found.log_likelihood["words"].shape, found.posterior_predictive["words"].shape == (1, 50, corpus.tokens)
    ((1, 50, 20), True)
    """
    chosen = _chosen(groups)
    check_draws(draws)
    check_whole("prior_size", prior_size)
    check_seed(seed)
    check_limit(limit)
    if isinstance(result, Samples) and result.levels:
        return as_arviz(_of_lexicons(result, chosen))
    if not data and isinstance(result, MCMC):
        data = tuple(result._args or ())
    wanted = _default(data) if chosen is None else [name for name in GROUPS if name in chosen]
    if not data and (lacking := [name for name in wanted if name not in WITHOUT_DATA]):
        raise UnsupError(f"the group {lacking[0]} needs the data: to_arviz(result, data, ...)")
    source = _source(result, data, model, draws, seed)
    known: dict[str, Callable[[], Any]] = {
        "posterior": lambda: _posterior(result, source, limit),
        "sample_stats": lambda: _statistics(result, None),
        "training": lambda: _training(result),
    }
    if data:
        assert source is not None
        program = Program(source)
        if chosen is None and not can_draw(program):
            wanted.remove("posterior_predictive")
        make.check_rooms(program, wanted, steps, prior_size, limit)
        prior = cache(lambda: prior_of(result, source, prior_size, seed))
        likelihood = cache(lambda: make.log_likelihood(program, steps, progress))
        known |= {
            "sample_stats": lambda: _statistics(result, likelihood() if "log_likelihood" in wanted else None),
            "log_likelihood": likelihood,
            "posterior_predictive": lambda: make.predictive(program, "posterior_predictive", progress, seed),
            "prior": lambda: make.posterior(prior(), None, limit),
            "prior_predictive": lambda: make.predictive(Program(prior()), "prior_predictive", progress, seed),
            "observed_data": lambda: make.observed_data(program),
            "constant_data": lambda: make.constant_data(program),
        }
    found = {name: known[name]() for name in wanted}
    return as_arviz({name: group for name, group in found.items() if group is not None})


@own_errors()
@torch.random.fork_rng(devices=[])
def prior_predictive(
    model: Callable[..., Any],
    *data: Any,
    draws: int = 500,
    seed: int = 0,
    limit: float = LIMIT,
    progress: bool = True,
) -> Any:
    """Data from the prior of a model, beside those observed: what does the model expect before it has seen any?

    ``az.plot_ppc(found, group="prior")`` draws both.

    :param data: what the model is called with; they tell how much to draw.
    :param draws: how many data sets.
    :param seed: the same draws come from the same seed.
    :param limit: bytes that a group may take. One that would take more is refused before it is made.
    :param progress: show a bar if it takes longer than two seconds.
    :return: an ArviZ object with ``prior``, ``prior_predictive``, ``observed_data`` and ``constant_data``.

    >>> import pyro_unsup as pu
    >>> corpus = pu.data.toy.sentences(20, seed=1)
    >>> found = pu.prior_predictive(pu.models.Tagger(tags=2, vocab=corpus.vocab), corpus, draws=10)
    >>> found.prior["start"].shape, found.prior_predictive["words"].shape == (1, 10, corpus.tokens)
    ((1, 10, 2), True)
    """
    check_whole("draws", draws)
    check_seed(seed)
    check_limit(limit)
    check_model("prior_predictive", model)
    if not data:
        raise UnsupError("prior_predictive needs the data: they tell how much to draw")
    make.check_rooms(Program(prior_draws(model, data, 1, seed)), ["prior", "prior_predictive"], False, draws, limit)
    source = prior_draws(model, data, draws, seed)
    program = Program(source)
    found = {
        "prior": make.posterior(source, None, limit),
        "prior_predictive": make.predictive(program, "prior_predictive", progress, seed),
        "observed_data": make.observed_data(program),
        "constant_data": make.constant_data(program),
    }
    return as_arviz({name: group for name, group in found.items() if group is not None})


def _chosen(groups: Sequence[str] | str | None) -> set[str] | None:
    if groups is None:
        return None
    if not isinstance(groups, Iterable):
        raise UnsupError(f"groups must be a list of names, actual {type(groups).__name__}: {_EXPECTED}")
    names = list(GROUPS) if groups == "all" else [groups] if isinstance(groups, str) else list(groups)
    if wrong := [name for name in names if name not in GROUPS]:
        raise UnsupError(f"there is no group {wrong[0]!r:.80}: {_EXPECTED}")
    if not names:
        raise UnsupError(f"groups is empty, so that nothing would be made: {_EXPECTED}")
    return set(names)


def _of_lexicons(samples: Samples, chosen: set[str] | None) -> dict[str, Any]:
    """The groups of samples whose model has no tables that could be drawn."""
    known = {"posterior": sampled, "sample_stats": draw_statistics, "training": sweeps}
    if lacking := sorted((chosen or set()) - known.keys()):
        raise UnsupError(
            f"{samples.model!r:.80} has lexicons without end, which are integrated out, so there is no group "
            f"{lacking[0]}: choose from {', '.join(known)}"
        )
    return {name: make(samples) for name, make in known.items() if chosen is None or name in chosen}


def _default(data: tuple[Any, ...]) -> list[str]:
    return [name for name in GROUPS if not name.startswith("prior") and (data or name in WITHOUT_DATA)]


def _source(
    result: Any, data: tuple[Any, ...], model: Callable[..., Any] | None, draws: int | None, seed: int
) -> Draws | None:
    """Draws of the model's sites; None if they cannot be had without data."""
    if isinstance(result, Samples) and not data:
        return None
    if isinstance(result, Fit) and not data and not FitDraws(result, (), {}, draws, seed).tables:
        return None
    return draws_of(result, data, model, draws, seed)


def _posterior(result: Any, source: Draws | None, limit: float) -> Any:
    if isinstance(result, Samples):
        own = sampled(result)
        return own if source is None else make.posterior(source, own, limit)
    if source is None:
        return group_of(result.to_arviz(), "posterior")
    return make.posterior(source, dataset(source.extra) if source.extra else None, limit)


def _statistics(result: Any, likelihood: Any) -> Any:
    if isinstance(result, Samples):
        return draw_statistics(result)
    if is_arviz(result):
        return group_of(result, "sample_stats")
    return mcmc_statistics(result, likelihood) if isinstance(result, MCMC) else None


def _training(result: Any) -> Any:
    if isinstance(result, Fit):
        return training(result) if result.rows else None
    return sweeps(result) if isinstance(result, Samples) else None

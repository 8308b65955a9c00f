"""Draws from the prior: the one that a result was fitted with, or the one that a model declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from pyro import poutine
from pyro.infer import MCMC
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from ..errors import UnsupError
from ..estimate import Normalise
from ..estimate.variational import draw_dirichlet
from ..handlers import bare
from ..infer import CollapsedGibbs
from ..infer.estimation import Estimation
from ..infer.hyperparameters import written_hyperprior
from ..results import Fit, Samples
from ..results.sample_tables import by_rows, tables_of_words
from ..results.table_posterior import to_table
from ..tables import Declaration
from .draws import Draws, Values, tables_of
from .running import Answers
from .seeds import generator, stream


def prior_of(result: Any, source: Draws, size: int, seed: int) -> Draws:
    """Draws from the prior that a result was fitted with.

    - A :class:`.Fit`: that of its estimators, such as the concentration of ``DirichletVB(5.0)``, or one that was
      learned. A table that was trained without a prior has that of the model.
    - Gibbs samples: the concentrations of the sampler; drawn from its hyperprior, if they were learned.
    - Anything else: what the model declares.

    :param source: draws of the posterior, which tell the model and its data.
    :param size: how many draws.
    :param seed: the same draws come from the same seed.
    """
    tables: Values = {}
    kernel = result.kernel if isinstance(result, MCMC) else None
    if isinstance(result, Fit):
        tables = _of_estimators(result, source.tables, size, seed)
    elif isinstance(result, Samples):
        known = result.draws["alpha"][0, 0], result.draws["beta"][0, 0]
        tables = _of_sampler(result.tables, known, result.config, source.tables, size, seed)
    elif isinstance(kernel, CollapsedGibbs):
        model: Any = source.model
        state = model.gibbs_state()(model, source.args[0])
        known = kernel.concentrations(state)
        tables = _of_sampler(state.tables, known, kernel.settings(), source.tables, size, seed)
    return prior_draws(source.model, source.args, size, seed, tables)


def prior_draws(
    model: Callable[..., Any], args: tuple[Any, ...], draws: int, seed: int, tables: Values | None = None
) -> Draws:
    """Draws from the prior of a model: its tables and all other continuous sites.

    :param args: its data, which tell how much there is to draw.
    :param tables: (draws, *layout.shape) probabilities of tables that were drawn before, by name.
    :raises UnsupError: if a parameter has no prior.
    """
    program: Any = bare(model)
    declared = tables_of(model, args)
    found: dict[str, Tensor] = dict(tables or {})
    others: dict[str, list[Tensor]] = {}
    with torch.random.fork_rng(devices=[]), torch.no_grad(), poutine.block():
        with NoParameters():
            program(*args)
        torch.manual_seed(stream(seed, "prior of other sites"))
        if hasattr(program, "declarations"):  # whose priors are the same in every run: all draws at once
            source = generator(seed, "prior of declared tables")
            for name, one in declared.items():
                if name not in found:
                    found[name] = draw_dirichlet(one.layout, one.prior, source, draws).exp()
        for i in range(draws):
            known = {name: x[i] for name, x in found.items()}
            trace = poutine.trace(Answers(known, None)(program)).get_trace(*args)
            drawn = _continuous(trace, declared)
            if not drawn:
                break
            for name, value in drawn.items():
                others.setdefault(name, []).append(value)
    found |= {name: torch.stack(each) for name, each in others.items()}
    if not found:
        raise UnsupError("nothing in the model has a prior, so that nothing can be drawn from it")

    def take(first: int, last: int) -> Values:
        return {name: x[first:last] for name, x in found.items()}

    return Draws(program, args, 1, draws, declared, take, numbers=sum(x[0].numel() for x in found.values()))


def _continuous(trace: Any, tables: Mapping[str, Declaration]) -> Values:
    """What a run drew, but for hidden variables of a few values: tables as they lie, and other sites."""
    found = {}
    for name in trace.stochastic_nodes:
        site = trace.nodes[name]
        if not (site_is_subsample(site) or site["fn"].has_enumerate_support):
            found[name] = to_table(tables[name].layout, site["value"]) if name in tables else site["value"]
    return found


def _of_estimators(fit: Fit, tables: Mapping[str, Declaration], size: int, seed: int) -> Values:
    """Tables from the priors of a fit's estimators; those of relative frequencies, which have none, are left out."""
    if missing := [name for name in tables if name not in fit.estimators]:
        raise UnsupError(
            f"the fit does not know how table '{missing[0]}' was estimated (it came from a folder, which keeps "
            "estimators of the library without functions): leave the groups prior and prior_predictive out, or use "
            "pu.prior_predictive(model, data), which draws from the priors that the model declares"
        )
    how = Estimation(fit.estimators, tables, Normalise)
    source = generator(seed, "prior of estimators")
    found: Values = {}
    for name, one in how.plain.items():
        if hasattr(one, "draw_prior"):
            found |= one.draw_prior({name: tables[name]}, {}, source, size)
        elif not isinstance(one, Normalise):
            raise UnsupError(_no_prior(name, one))
    for group in how.groups:
        if not hasattr(group.how, "draw_prior"):
            raise UnsupError(_no_prior(next(iter(group.declarations)), group.how))
        found |= group.how.draw_prior(group.declarations, group.of(fit.memory), source, size)
    return {name: x.exp() for name, x in found.items()}


def _no_prior(table: str, how: Any) -> str:
    return (
        f"table '{table}' was estimated by {how!r:.80}, which has no draw_prior: give it that method, or leave the "
        "groups prior and prior_predictive out"
    )


def _of_sampler(
    tables: tuple[Any, str],  # those that alpha is of, by kind, and the one that beta is of
    fixed: tuple[Any, Any],  # (kinds,), (K,)
    config: Mapping[str, Any],
    declared: Mapping[str, Declaration],
    size: int,
    seed: int,
) -> Values:
    """Tables with the concentrations of a collapsed sampler."""
    kinds, emitted = tables
    alpha, beta = (torch.as_tensor(np.array(x)).double().expand(size, -1) for x in fixed)
    if config.get("hyper", "fixed") != "fixed":
        prior: Any = written_hyperprior(str(config["hyperprior"]))
        if not hasattr(prior, "sample"):
            raise UnsupError(
                f"the concentrations were learned with the hyperprior {config['hyperprior']}, which cannot be drawn "
                "from: sample with hyperprior='gamma', or leave the groups prior and prior_predictive out"
            )
        rng = np.random.default_rng(stream(seed, "hyperprior"))
        alpha = torch.from_numpy(prior.sample(size, rng))[:, None].expand(size, alpha.shape[1])
        many = 1 if config["hyper"] == "shared" else beta.shape[1]
        drawn = torch.from_numpy(prior.sample(size * many, rng)).reshape(size, many)
        beta = drawn.expand(size, beta.shape[1])
    source = generator(seed, "prior of a sampler")
    found, words = {}, tables_of_words(emitted, declared)
    for name, declaration in declared.items():
        layout = declaration.layout
        # A concentration for every row, or for each of several parts of them.
        own = alpha[:, [i for i, kind in enumerate(kinds) if kind == name]]
        if name in words:
            own = beta[:, [words.index(name)]] if len(words) > 1 else beta
        wide = by_rows(layout, own)
        found[name] = draw_dirichlet(layout, wide, source, size).exp()
    return found


class NoParameters(Messenger):
    """Refuses a parameter: it has no prior to draw it from."""

    def _pyro_param(self, msg: Any) -> None:
        raise UnsupError(
            f"the parameter '{msg['name']}' has no prior to draw it from: give it a distribution, as in "
            "HMM(prior={'loc': dist.Normal(0.0, 1.0)})"
        )

"""Draws for every model, and a kernel of Pyro's MCMC that hands them out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import arviz
import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.infer import MCMC
from pyro.infer.mcmc.mcmc_kernel import MCMCKernel
from pyro.poutine.util import site_is_subsample
from torch import Tensor

import pyro_unsup as pu
from tests.matrix.models import BITEXT, COUNTS, LEVELS, MODELS, WORDS

#: ArviZ has another set of plots since 1.0, and other names for some.
LATER = int(arviz.__version__.split(".")[0]) >= 1

#: Models with tables and parameters that all have a prior, and their data.
WITH_PRIOR = {
    **{m.name: (m.make, m.data) for m in MODELS.values() if not m.name.startswith("HMM,")},
    "tagger with a dictionary": (lambda: dictionary_tagger(), (WORDS,)),
    "agreeing aligner": (lambda: pu.models.Aligner.of(BITEXT), (BITEXT,)),
    "2008 aligner": (lambda: pu.models.Aligner.of(BITEXT, agreement="2008"), (BITEXT,)),
    "HMM with priors, counts": (
        lambda: pu.models.HMM(2, "poisson", prior={"rate": dist.Gamma(2.0, 0.5)}),
        (COUNTS,),
    ),
    "HMM with priors, levels": (
        lambda: pu.models.HMM(2, "normal", start="stationary", prior={**NORMAL, "transition": 1.0}),
        (LEVELS,),
    ),
}
NORMAL = {"loc": dist.Normal(0.0, 2.0), "scale": dist.LogNormal(0.0, 0.5)}


def dictionary_tagger() -> pu.models.Tagger:
    """A tagger whose first word has one tag only, so that a table is kept by its allowed cells."""
    mask = torch.ones(2, len(WORDS.vocab), dtype=torch.bool)
    mask[1, 0] = False
    return pu.models.Tagger(2, WORDS.vocab, dictionary=mask)


def structured(names: dict[str, Any]) -> dict[str, Any]:
    """Those without enumerated variables of a user's own."""
    return {name: case for name, case in names.items() if not name.startswith("own,")}


class Prior(MCMCKernel):
    """Draws from the prior of a model: no posterior, but quick, and as good for everything that follows draws."""

    def __init__(self, model: Any) -> None:
        self.model, self.transforms, self._args = model, {}, ()

    def setup(self, warmup_steps: int, *args: Any, **kwargs: Any) -> None:
        self._args = args

    @property
    def initial_params(self) -> dict[str, Tensor]:
        return self.sample({})

    @initial_params.setter
    def initial_params(self, params: Any) -> None:
        pass

    def sample(self, params: Any) -> dict[str, Tensor]:
        with torch.no_grad():
            trace = poutine.trace(self.model).get_trace(*self._args)
        sites = [trace.nodes[name] for name in trace.stochastic_nodes]
        kept = [s for s in sites if not site_is_subsample(s) and not s["fn"].has_enumerate_support]
        return {site["name"]: site["value"].double() for site in kept}

    def diagnostics(self) -> dict[str, Any]:
        return {"divergences": [1]}


def mcmc(model: Any, data: tuple[Any, ...], draws: int, chains: int = 1) -> MCMC:
    """A run of Pyro's MCMC on the prior."""
    pyro.set_rng_seed(draws)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pyro, on chains that wait for each other
        found = MCMC(Prior(model), draws, 0, num_chains=chains, disable_progbar=True)
        found.run(*data)
    return found


def fit(model: Any, data: tuple[Any, ...], estimate: Any = None, iterations: int = 3) -> pu.Fit:
    """A few iterations of variational Bayes."""
    engine = pu.EM(model, pu.DirichletVB() if estimate is None else estimate)
    return engine.run(*data, iterations=iterations, tolerance=0, progress=False)


@contextmanager
def arviz_at_work() -> Iterator[Any]:
    """ArviZ, whatever it has to say of few draws, of its future and of matplotlib."""
    import matplotlib.pyplot

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield arviz
        matplotlib.pyplot.close("all")

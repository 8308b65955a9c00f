"""Run an engine on a model, whichever it is: NUTS, collapsed Gibbs sampling, EM and its relatives, or one's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyro
import torch
from pyro.infer import MCMC, NUTS
from pyro.infer.mcmc.mcmc_kernel import MCMCKernel

from ..errors import UnsupError
from ..estimate import DirichletVB
from ..infer import EM, BlockedGibbs, CollapsedGibbs
from ..infer.gibbs_chain import Collapsible
from ..infer.runs import one_thread
from ..results import Fit
from .guides import guide_draws

#: From a model to an object with ``run(data)``; or the name of one.
Engine = str | Callable[[Any], Any]

NAMES = ("nuts", "gibbs", "vb")


def infer(
    engine: Engine,
    model: Any,
    args: Sequence[Any],
    seed: int,
    run: Mapping[str, Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    draws: int = 200,
) -> Any:
    """The result of an engine on some data: samples, a fit, an MCMC that has run, or draws.

    :param engine: ``"nuts"``, ``"gibbs"`` (:class:`.CollapsedGibbs`, or :class:`.BlockedGibbs` of models that
        it does not know), ``"vb"`` (:class:`.EM` with
        :class:`.DirichletVB`); or a function from the model to an object with ``run(data)``, such as an engine of the
        library or a Pyro ``MCMC``. What ``run`` returns is the result: draws, a fit, samples, or a guide that was
        trained. If it returns nothing, the object itself is.
    :param args: the data, as the model takes them.
    :param seed: the same result comes from the same seed.
    :param run: options of the engine: ``draws`` and ``warmup`` of NUTS and BlockedGibbs, those of ``run`` of others.
    :param kwargs: more of the data, by name.
    :param draws: of a guide, if the engine returns one. They are drawn at once, while its parameters are there.
    """
    given = dict(run or {})
    made = _named(engine, model, given) if isinstance(engine, str) else engine(model)
    if isinstance(made, MCMCKernel) and not hasattr(made, "run"):
        made = MCMC(made, given.pop("draws", 500), given.pop("warmup", 300), disable_progbar=True)
    if not hasattr(made, "run"):
        raise UnsupError(
            "an engine is a function from a model to an object with run(data), such as pu.EM, pu.CollapsedGibbs or "
            f"lambda model: MCMC(NUTS(model), 500, 500); actual {type(made).__name__} has no run"
        )
    known = inspect.signature(made.run).parameters
    own = {} if isinstance(made, MCMC) else {"seed": seed, "progress": False, "parallel": 1}  # MCMC hands all to models
    options = {**{name: x for name, x in own.items() if name in known}, **given}
    with torch.random.fork_rng(devices=[]), one_thread(), pyro.get_param_store().scope():
        pyro.set_rng_seed(seed)
        result = made.run(*args, **(kwargs or {}), **options)
        result = made if result is None else result
        if callable(result) and not isinstance(result, MCMC | Fit):
            return guide_draws(result, args, kwargs, draws, seed)
    return result


def _named(engine: str, model: Any, given: dict[str, Any]) -> Any:
    if engine == "nuts":
        draws, warmup = given.pop("draws", 500), given.pop("warmup", 300)
        return MCMC(NUTS(model, **given.pop("nuts", {})), num_samples=draws, warmup_steps=warmup, disable_progbar=True)
    if engine == "gibbs":
        if isinstance(model, Collapsible):
            return CollapsedGibbs(model)
        draws, warmup = given.pop("draws", 500), given.pop("warmup", 300)
        return MCMC(BlockedGibbs(model), num_samples=draws, warmup_steps=warmup, disable_progbar=True)
    if engine == "vb":
        return EM(model, DirichletVB())
    raise UnsupError(f"engine must be one of {', '.join(NAMES)}, or a function of a model; actual {engine!r:.80}")

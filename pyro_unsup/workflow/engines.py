"""Run an engine on a model, whichever it is: NUTS, collapsed Gibbs sampling, EM and its relatives, or one's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyro
import torch
from pyro.infer import MCMC, NUTS
from pyro.infer.mcmc.mcmc_kernel import MCMCKernel

from ..errors import UnsupError
from ..estimate import DirichletVB
from ..handlers import bare
from ..infer import EM, BlockedGibbs, CollapsedGibbs
from ..infer.gibbs_chain import Collapsible
from ..infer.runs import one_thread
from ..results import Fit
from .arguments import check_whole
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
        made = _mcmc(made, given)
    if not hasattr(made, "run"):
        raise UnsupError(
            "an engine is a function from a model to an object with run(data), such as pu.EM, pu.CollapsedGibbs or "
            f"lambda model: MCMC(NUTS(model), 500, 500); actual {type(made).__name__} has no run"
        )
    known = inspect.signature(made.run).parameters
    own = {} if isinstance(made, MCMC) else {"seed": seed, "progress": False, "parallel": 1}  # MCMC hands all to models
    options = {**{name: x for name, x in own.items() if name in known}, **given}
    _check_options(made, model, given)
    with torch.random.fork_rng(devices=[]), one_thread(), pyro.get_param_store().scope():
        pyro.set_rng_seed(seed)
        result = made.run(*args, **(kwargs or {}), **options)
        result = made if result is None else result
        if callable(result) and not isinstance(result, MCMC | Fit):
            return guide_draws(result, args, kwargs, draws, seed)
    return result


def check_engine(engine: Any) -> None:
    """Raise unless this is the name of an engine, or a function that makes one.

    >>> from pyro_unsup.workflow.engines import check_engine
    >>> check_engine("vb")
    """
    if not (callable(engine) or (isinstance(engine, str) and engine in NAMES)):
        raise UnsupError(f"engine must be one of {', '.join(NAMES)}, or a function of a model; actual {engine!r:.80}")


def _named(engine: str, model: Any, given: dict[str, Any]) -> Any:
    if engine == "nuts":
        return _mcmc(NUTS(model, **given.pop("nuts", {})), given)
    if engine == "gibbs":
        if isinstance(model, Collapsible):
            return CollapsedGibbs(model)
        return _mcmc(BlockedGibbs(model), given)
    check_engine(engine)
    return EM(model, DirichletVB())


def _mcmc(kernel: Any, given: dict[str, Any]) -> MCMC:
    """Pyro's loop around a kernel. Takes its own options out of those that are given."""
    draws, warmup = given.pop("draws", 500), given.pop("warmup", 300)
    check_whole("draws of run", draws)
    check_whole("warmup of run", warmup, 0)
    return MCMC(kernel, num_samples=draws, warmup_steps=warmup, disable_progbar=True)


def _check_options(made: Any, model: Any, given: Mapping[str, Any]) -> None:
    """Raise if the engine has no option of this name. ``run`` of some engines hands to the model what it does not know:
    there, the model may take it."""
    known = dict(inspect.signature(made.run).parameters)
    if any(p.kind is p.VAR_KEYWORD for p in known.values()):
        with suppress(TypeError, ValueError):  # a program without a signature takes anything
            known |= inspect.signature(bare(model)).parameters
            if any(p.kind is p.VAR_KEYWORD for p in inspect.signature(bare(model)).parameters.values()):
                return
    if wrong := [name for name in given if name not in known]:
        own = ["draws", "warmup"] if isinstance(made, MCMC) else [n for n in known if n not in ("args", "kwargs")]
        raise UnsupError(
            f"run has {wrong[0]!r:.80}, which is no option of {type(made).__name__}: expected {', '.join(own)}"
        )

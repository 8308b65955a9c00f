"""``sbc``: simulation-based calibration of any engine on any model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import torch
from torch import Tensor

from ..errors import UnsupError
from ..handlers import bare
from ..infer.runs import one_thread
from ..results import Fit
from .arguments import check_mapping, check_model, check_processes, check_seed, check_whole, own_errors
from .arviz_tools import by_arviz
from .calibration import Calibration
from .densities import Densities
from .engines import Engine, check_engine, infer
from .guides import GuideDraws
from .parallel import in_order
from .parameters import flat, parameters_of
from .seeds import stream
from .simulate import drawing_arguments, simulate
from .states import as_axes, invariant, state_axes, states_of

#: From parameters by name, (chains, draws, ...), and the arguments of the model, to numbers (chains, draws, ...).
Quantity = Callable[[Mapping[str, Tensor], Sequence[Any]], Any]
#: How much more than one draw an effective draw may cost before draws are left out.
NOISE = 0.25
#: What a simulation finds, by quantity: where the truth lies, and among how many draws.
Found = dict[str, tuple[float, int]]


@own_errors()
def sbc(
    model: Any,
    engine: Engine,
    *args: Any,
    simulations: int = 100,
    quantities: Mapping[str, Quantity] | None = None,
    parameters: bool = True,
    axes: Mapping[str, int | Sequence[int]] | None = None,
    draws: int = 200,
    processes: int | None = None,
    seed: int = 0,
    checkpoint: str | PathLike[str] | None = None,
    progress: bool | None = None,
    run: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Calibration:
    """Does an engine find the posterior? Simulation-based calibration [1].

    Draw parameters from the prior and data from the parameters; let the engine find the posterior of these data; see
    where the true parameters lie among the draws. Over many simulations, their ranks are uniform if the engine is
    right. Ranks that pile up at both ends mean that it is overconfident, as variational Bayes often is.

    What is ranked: every number of every parameter that both the model and the engine draw, and the log-likelihood,
    which sees mistakes that single parameters hide [2]. States that are exchangeable (those of an HMM, a tagger or a
    clusterer) have no names that the truth could share with a draw: there, sorted values are ranked. Draws that depend
    on each other are thinned by their effective sample size.

    :param model: a Pyro model that draws data if it is called with None in their place, and returns them.
    :param engine: ``"nuts"``, ``"gibbs"``, ``"vb"``; or a function from the model to an object with ``run(data)``.
    :param args: with which the model draws, such as ``None, lengths``.
    :param simulations: how many; 100 show gross mistakes, 500 or more subtle ones.
    :param quantities: more numbers to rank: functions of parameters by name, (chains, draws, ...), and of the model's
        arguments.
    :param parameters: rank parameters and the log-likelihood; False for the given quantities alone.
    :param axes: of a model of your own whose states are exchangeable, the axes of states, as for :func:`.relabel`.
    :param draws: from a fit, which can give any number.
    :param processes: at a time; by default as many as there are cores. The ranks are the same.
    :param seed: the same ranks come from the same seed.
    :param checkpoint: a file to keep finished simulations in. A run with the same file goes on where it stopped.
    :param progress: show a bar; by default where there is a terminal.
    :param run: options of the engine's ``run``; of ``"nuts"``, ``draws`` and ``warmup``.
    :param kwargs: with which the model draws.

    >>> import pyro, pyro.distributions as dist, torch
    >>> import pyro_unsup as pu
    >>> def coin(flips=None):
    ...     bias = pyro.sample("bias", dist.Beta(1.0, 1.0))
    ...     with pyro.plate("flips", 10):
    ...         return pyro.sample("x", dist.Bernoulli(bias), obs=flips)
    >>> class Exact:  # the conjugate posterior
    ...     def __init__(self, model):
    ...         pass
    ...     def run(self, flips):
    ...         return {"bias": dist.Beta(1 + flips.sum(), 11 - flips.sum()).sample((1, 100))}
    >>> pu.sbc(coin, Exact, None, simulations=60, processes=1, progress=False).passed()
    True

    **References:** [1] S. Talts et al. (2018) "Validating Bayesian inference algorithms with simulation-based
    calibration". [2] M. Modrák et al. (2023) "Simulation-based calibration checking for Bayesian computation: the
    choice of test quantities shapes sensitivity".
    """
    import pandas

    check_model("sbc", model)
    check_engine(engine)
    check_whole("simulations", simulations, 2)
    check_whole("draws", draws)
    check_processes(processes)
    check_seed(seed)
    check_mapping("run", run, "run={'draws': 500}")
    check_mapping("quantities", quantities, "{'largest': lambda draws, args: draws['loc'].amax(-1)}")
    if not parameters and not quantities:
        raise UnsupError("nothing to rank: give quantities, or leave parameters=True")
    args, kwargs = drawing_arguments(model, args, kwargs)
    one = _Simulation(model, engine, args, kwargs, dict(quantities or {}), parameters, axes, draws, dict(run or {}))
    asked = {"draws": draws, "run": run, "axes": axes, "quantities": sorted(quantities or {}), "parameters": parameters}
    what = {"seed": seed, "model": _described(model), "engine": _name(engine), "asked": repr(asked)}
    done = _Done(checkpoint, {**what, "data": repr((args, kwargs))[:2000]})
    left = [i for i in range(simulations) if i not in done.found]
    for i, found in in_order(_Seeded(one, seed), left, processes, "simulation", progress, simulations - len(left)):
        done.add(i, found)
    every = [done.found[i] for i in range(simulations)]
    names = [name for name in every[0] if all(name in found for found in every)]
    if not names:
        raise UnsupError("the engine draws nothing that the model has: give quantities that both have")
    return Calibration(
        pandas.DataFrame({name: [found[name][0] for found in every] for name in names}),
        pandas.DataFrame({name: [found[name][1] for found in every] for name in names}),
    )


class _Simulation:
    """One simulation, in whichever process."""

    def __init__(self, model: Any, engine: Engine, args: Any, kwargs: Any, *rest: Any) -> None:
        self.model, self.engine, self.args, self.kwargs = model, engine, args, kwargs
        self.quantities, self.parameters, self.axes, self.draws, self.run = rest

    def __call__(self, seed: int) -> Found:
        with torch.random.fork_rng(devices=[]), one_thread():
            pyro.set_rng_seed(seed)
            truth, args, kwargs = simulate(self.model, self.args, self.kwargs)
            if wrong := [name for name in self.axes or () if name not in truth]:
                raise UnsupError(
                    f"axes name {wrong[0]!r:.80}, which the model does not draw: it draws {', '.join(truth)}"
                )
            # The truth was drawn by this seed: an engine with the same one would draw numbers that go with the truth.
            result = infer(self.engine, self.model, args, stream(seed, "engine") % 2**31, self.run, kwargs, self.draws)
            known = parameters_of(result, args, kwargs, self.draws, stream(seed, "draws"))
            right = {name: x[None, None] for name, x in truth.items()}
            values, true = self._numbers(known, args, kwargs), self._numbers(right, args, kwargs)
        shared = [name for name in values if name in true]
        independent = isinstance(result, Fit | GuideDraws)
        return _ranked({name: (values[name], true[name]) for name in shared}, seed, thin=not independent)

    def _numbers(self, draws: Mapping[str, Tensor], args: Any, kwargs: Any) -> dict[str, Any]:
        """By quantity, (chains, draws, ...)."""
        found: dict[str, Any] = {}
        lead = next(iter(draws.values())).shape[:2]
        if self.parameters:
            density = Densities(self.model, args, kwargs)
            own = {name: x for name, x in draws.items() if x.is_floating_point()}
            axes = self._state_axes(own)
            found |= invariant(own, axes) if axes else own
            if density.sites.keys() <= draws.keys():
                with torch.no_grad():
                    found["log_likelihood"] = density.log_likelihood(flat(own)).reshape(lead)
        for name, quantity in self.quantities.items():
            found[name] = torch.as_tensor(quantity(draws, args))
            if found[name].shape[:2] != lead:
                raise UnsupError(
                    f"quantity '{name}' should return an array with the axes (chain, draw) = {tuple(lead)} first, "
                    f"actual shape {tuple(found[name].shape)}"
                )
        return found

    def _state_axes(self, draws: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
        if self.axes is not None:
            return {name: own for name, own in as_axes(self.axes).items() if name in draws}
        with suppress(UnsupError):  # states with names: a dictionary, or a support
            if states_of(self.model) is not None:
                return state_axes(self.model, {name: tuple(x.shape[2:]) for name, x in draws.items()})
        return {}


class _Seeded:
    """Simulations by their numbers, each with a seed of its own."""

    def __init__(self, one: _Simulation, seed: int) -> None:
        self.one, self.seed = one, seed

    def __call__(self, i: int) -> Found:
        own = int(np.random.SeedSequence([self.seed, i]).generate_state(1)[0]) % (2**31)
        try:
            return self.one(own)
        except Exception as error:
            error.add_note(f"in simulation {i}, whose seed is {own}")
            raise


def _ranked(quantities: Mapping[str, tuple[Tensor, Tensor]], seed: int, thin: bool) -> Found:
    """Where each number of the truth lies among its draws, which are thinned until they are about independent."""
    names, columns, right = list[str](), list[Any](), list[float]()
    for name, (values, true) in quantities.items():
        if values.shape[2:] != true.shape[2:]:
            raise UnsupError(
                f"draws of {name} have shape {tuple(values.shape[2:])}, the model draws {tuple(true.shape[2:])}"
            )
        columns.append(values.double().numpy().reshape(*values.shape[:2], -1))
        right += true.double().reshape(-1).tolist()
        names += [_cell(name, i, values.shape[2:]) for i in range(columns[-1].shape[-1])]
    if not names:
        return {}
    wide, rng = np.concatenate(columns, -1), np.random.default_rng(seed)  # (chains, draws, N)
    size = wide.shape[0] * wide.shape[1]
    ess = by_arviz(wide, "ess") if thin else np.full(len(names), np.nan)
    found: Found = {}
    for i, (name, x) in enumerate(zip(names, right, strict=True)):
        # The effective sample size is an estimate: draws that are independent shall not be halved for its noise.
        step = 1 if np.isnan(ess[i]) else max(1, int(np.ceil(size / max(ess[i], 1.0) - NOISE)))
        kept = wide[:, ::step, i].ravel()
        below, ties = int((kept < x).sum()), int((kept == x).sum())
        found[name] = (float((below + rng.random() * (ties + 1)) / (len(kept) + 1)), len(kept))
    return found


def _cell(name: str, i: int, shape: Sequence[int]) -> str:
    return f"{name}[{', '.join(map(str, np.unravel_index(i, tuple(shape))))}]" if len(shape) else name


class _Done:
    """Finished simulations, in a file if there is one."""

    def __init__(self, file: str | PathLike[str] | None, what: Mapping[str, Any]) -> None:
        self.file, self.found = None if file is None else Path(file), dict[int, Found]()
        if self.file is None:
            return
        if self.file.is_dir() or not self.file.parent.is_dir():
            raise UnsupError(f"checkpoint must be a file in a folder that exists, actual {str(self.file)!r:.200}")
        if not self.file.exists():
            self.file.write_text(json.dumps(what) + "\n")
            return
        first, *rest = self.file.read_text().splitlines() or [""]
        try:
            before = json.loads(first)
        except ValueError:
            before = None
        if before != what:
            raise UnsupError(
                f"{self.file} holds simulations of something else: expected {dict(what)!s:.300}, actual "
                f"{before!s:.300}. Give another file"
            )
        for line in rest:
            with suppress(ValueError):  # a line that an interruption cut short
                i, found = json.loads(line)
                self.found[i] = {name: (place, size) for name, (place, size) in found.items()}

    def add(self, i: int, found: Found) -> None:
        self.found[i] = found
        if self.file is not None:
            with self.file.open("a") as stream:
                stream.write(json.dumps([i, found]) + "\n")


def _described(model: Any) -> str:
    """A model with all its settings, as far as it tells them."""
    inside: Any = bare(model)
    priors = {}
    if hasattr(inside, "declarations"):
        priors = {name: d.prior.tolist() for name, d in inside.declarations().items()}
    return f"{model!r:.200} {getattr(inside, 'prior', None)!r:.1000} {priors!r:.1000}"


def _name(engine: Engine) -> str:
    return engine if isinstance(engine, str) else getattr(engine, "__qualname__", type(engine).__qualname__)

"""The algorithms of the matrix, and what it means that one of them works on a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from pyro.infer.autoguide import AutoDelta
from torch import Tensor

import pyro_unsup as pu

from ..infer.test_gibbs import same
from ..results.cases import assert_same
from .models import Model

SMOOTH = pu.AddLambda(0.1)
ITERATIONS = 4
QUIET: dict[str, Any] = {"progress": False, "tolerance": 0.0, "iterations": ITERATIONS}

#: Raises unless an algorithm runs on a model, improves its objective, and saves, loads, resumes and decodes.
Check = Callable[[Model, Path], None]


# -- engines, which leave a fit


def learns(build: Callable[[Model], Any]) -> Check:
    """The check of an engine, which is made anew for every run."""

    def check(model: Model, folder: Path) -> None:
        def run(**options: Any) -> pu.Fit:
            pyro.clear_param_store()  # as in another process
            fit: pu.Fit = build(model).run(*model.data, **QUIET, **options)
            return fit

        whole = run()
        assert improves(whole)
        with pytest.raises(KeyboardInterrupt):
            run(checkpoint=folder / "half", callbacks=[interrupt])
        assert_same(run(resume=model.load(folder / "half")), whole, seconds=False)
        keeps(model, whole, folder / "whole")

    return check


def interrupt(info: Any) -> None:
    """What a user does halfway."""
    if info.iteration == ITERATIONS // 2:
        raise KeyboardInterrupt


def improves(fit: pu.Fit) -> bool:
    """Whether the last objective is better than the first one that it compares with: at the same beta."""
    found = [row["objective"] for row in fit.rows if row.get("beta") == fit.rows[-1].get("beta")]
    return found[0] < found[-1]


def keeps(model: Model, fit: pu.Fit, folder: Path) -> None:
    """A fit comes back from a folder as it was, and finds the structure of the data."""
    fit.save(folder)
    back = model.load(folder)
    assert_same(back, fit)
    found, again = (one.predict(*model.data) for one in (fit, back))
    assert model.right(again)
    if model.hidden:
        assert found.keys() == again.keys() == {*model.hidden}
    pairs = [(found[name], again[name]) for name in model.hidden] or [(found, again)]
    assert all(torch.equal(one, other) for one, other in pairs)


def annealed(model: Model, **options: Any) -> pu.Anneal:
    return pu.Anneal(model.make(), SMOOTH, schedule=[0.5, 1.0], steps=1, **options)


def skewed(model: Model) -> pu.Anneal:
    return annealed(model, toward=model.reference or reference(model))


@cache
def reference(model: Model) -> pu.Fit:
    return pu.EM(model.make(), SMOOTH).run(*model.data, seed=1, **QUIET)


def features(model: Model) -> pu.LogLinear:
    return pu.LogLinear(model.templates, kappa=0.1, lbfgs_iterations=5)


def networks() -> pu.Neural:
    net = pu.estimate.Embeddings(size=4, hidden=(4,), dropout=0.1)
    return pu.Neural(net, weight_decay=0.01, learning_rate=0.05, steps=3)


def regularised(model: Model) -> Any:
    return pu.regularise(model.make(), model.component, bound(model))


@cache
def bound(model: Model) -> float:
    """A little less of what the component allows than there would be, on average."""
    free = pu.regularise(model.make(), model.component, bound=1e6)
    pu.EM(free, SMOOTH).run(*model.data, progress=False, iterations=0)
    return min(float(x) for x in free.expectations.values()) - 0.05


# -- Pyro's own inference


def fit_of(model: Model, values: Mapping[str, Tensor]) -> pu.Fit:
    """Values of a model's sites as a fit, without learning anything more."""
    tables = {}
    for name, declaration in pu.handlers.declared(model.make(), *model.data).items():
        layout, value = declaration.layout, values[name].detach().log()
        whole = value.new_full(layout.shape, -math.inf)
        tables[name] = value if layout.support is None else whole.masked_scatter(layout.support, value)
    others = {name: x.detach() for name, x in values.items() if name not in tables}
    fit = pu.EM(model.make(), init=pu.init.from_weights(tables)).run(*model.data, progress=False, iterations=0)
    return replace(fit, points={**fit.points, **others})


def varies(model: Model, folder: Path) -> None:
    """Steps of Adam on a point mass for everything that is not summed out."""
    folder.mkdir(exist_ok=True)

    def begin() -> tuple[SVI, AutoDelta]:
        pyro.clear_param_store()
        made = model.make()
        guide = AutoDelta(poutine.block(made, hide=list(model.hidden)))
        elbo = TraceEnum_ELBO(max_plate_nesting=1) if model.hidden else Trace_ELBO()
        return SVI(config_enumerate(made), guide, pyro.optim.Adam({"lr": 0.05}), elbo), guide

    svi, guide = begin()
    losses = [svi.step(*model.data) for _ in range(3)]
    pyro.get_param_store().save(str(folder / "params"))
    svi.optim.save(str(folder / "optimiser"))
    losses += [svi.step(*model.data) for _ in range(3)]
    assert losses[-1] < losses[0]
    keeps(model, fit_of(model, guide.median()), folder / "fit")

    again, _ = begin()
    pyro.get_param_store().load(str(folder / "params"))
    again.optim.load(str(folder / "optimiser"))
    assert [again.step(*model.data) for _ in range(3)] == losses[3:]


class Chain(NUTS):
    """Pyro's NUTS, with what it would need for checkpoints: where a chain is, how it steps, what chance is next."""

    def __init__(self, model: Any, state: dict[str, Any] | None = None) -> None:
        adapt = state is None
        super().__init__(model, adapt_step_size=adapt, adapt_mass_matrix=adapt, max_tree_depth=3)
        self.state, self.path = state, [math.inf]

    def setup(self, warmup_steps: int, *args: Any, **kwargs: Any) -> None:
        if self.state is not None:
            self.initial_params = self.state["at"]
        super().setup(warmup_steps, *args, **kwargs)
        self.path = [float(self._potential_energy_last)]
        if self.state is not None:
            self._adapter.step_size = self.state["step"]
            self.mass_matrix_adapter.inverse_mass_matrix = self.state["mass"]
            torch.set_rng_state(self.state["chance"])

    def note(self, kernel: Any, at: dict[str, Tensor], stage: str, i: int) -> None:
        """What MCMC calls after every draw."""
        self.path.append(float(self._potential_energy_last))
        if stage == "Sample" and i == 1:
            mass = self.inverse_mass_matrix
            self.state = {"at": dict(at), "step": self.step_size, "mass": mass, "chance": torch.get_rng_state()}


def draws_tables(model: Model, folder: Path) -> None:
    """A few draws of everything that is not summed out."""

    def run(kernel: Chain, draws: int, warmup: int) -> dict[str, Tensor]:
        mcmc = MCMC(kernel, draws, warmup, disable_progbar=True, hook_fn=kernel.note)
        mcmc.run(*model.few)
        found: dict[str, Tensor] = mcmc.get_samples()
        return found

    chain = Chain(model.make())
    draws = run(chain, 5, 15)
    for x in draws.values():
        assert bool(x.isfinite().all())
        assert not bool((x == x[0]).all())
    assert min(chain.path) < chain.path[0]  # likelier than where it began
    keeps(model, fit_of(model, {name: x.mean(0) for name, x in draws.items()}), folder / "fit")

    torch.save(chain.state, folder / "state")
    again = run(Chain(model.make(), torch.load(folder / "state", weights_only=True)), 3, 0)
    for name, x in draws.items():  # three are not transformed to probabilities with the same last bit as five
        torch.testing.assert_close(again[name], x[2:], rtol=1e-13, atol=1e-15)


class Sweeps(pu.BlockedGibbs):
    """The sampler of tables, parameters and structure, with what it would need for checkpoints."""

    def __init__(self, model: Any, state: dict[str, Any] | None = None) -> None:
        super().__init__(model)
        self.state, self.path = state, list[float]()

    def setup(self, warmup_steps: int, *args: Any, **kwargs: Any) -> None:
        if self.state is not None:
            self.initial_params = self.state["at"]
        super().setup(warmup_steps, *args, **kwargs)
        if self.state is not None:
            torch.set_rng_state(self.state["chance"])

    def note(self, kernel: Any, at: dict[str, Tensor], stage: str, i: int) -> None:
        """What MCMC calls after every draw."""
        self.path.append(self._log_joint)
        if stage == "Sample" and i == 1:
            self.state = {"at": {name: x.clone() for name, x in at.items()}, "chance": torch.get_rng_state()}


def draws_all(model: Model, folder: Path) -> None:
    """A few draws of everything: hidden structure, tables and parameters."""

    def run(kernel: Sweeps, draws: int, warmup: int) -> dict[str, Tensor]:
        mcmc = MCMC(kernel, draws, warmup, disable_progbar=True, hook_fn=kernel.note)
        mcmc.run(*model.data)
        found: dict[str, Tensor] = mcmc.get_samples()
        return found

    make = model.believed or model.make
    chain = Sweeps(make())
    draws = run(chain, 5, 15)
    for x in draws.values():
        assert bool(x.isfinite().all())
        assert not bool((x == x[0]).all())
    assert max(chain.path) > chain.path[0]  # likelier than where it began
    keeps(model, fit_of(model, {name: x.mean(0) for name, x in draws.items()}), folder / "fit")

    torch.save(chain.state, folder / "state")
    again = run(Sweeps(make(), torch.load(folder / "state", weights_only=True)), 3, 0)
    for name, x in draws.items():  # tables go on from their probabilities, whose logs may differ in the last bit
        torch.testing.assert_close(again[name], x[2:], rtol=1e-9, atol=1e-12)


def draws_labels(how: Any) -> Check:
    """The check of a sampler of hidden labels.

    :param how: they are drawn; None for the first way that the model has.
    """

    def check(model: Model, folder: Path) -> None:
        kernel = pu.CollapsedGibbs(model.make(), hyper="shared", how=how)

        def run(**options: Any) -> pu.Samples:
            return kernel.run(*model.data, sweeps=8, burn_in=2, chains=2, parallel=1, progress=False, **options)

        whole = run()
        assert np.isfinite(whole.log_joint).all()
        assert (whole.best_log_joint > whole.path["log_joint"][:, 0]).any()
        assert not (whole.labels == whole.labels[:, :1]).all()
        assert whole.config["how"] == (how or whole.config["how"])
        with pytest.raises(KeyboardInterrupt):
            run(checkpoint=folder / "half", callbacks=[lambda sweep: sweep.sweep == 4])
        same(run(checkpoint=folder / "half", resume=True), whole)
        whole.save(folder / "whole")
        back = pu.Samples.load(folder / "whole")
        same(back, whole)
        assert (model.labelled or model.right)(torch.from_numpy(back.predict()))

    return check


ALGORITHMS: dict[str, Check] = {
    "EM": learns(lambda m: pu.EM(m.make())),
    "Viterbi EM": learns(lambda m: pu.EM(pu.harden(m.make()), SMOOTH)),
    "incremental EM": learns(lambda m: pu.IncrementalEM(m.make(), SMOOTH, batch_size=2)),
    "stepwise EM": learns(lambda m: pu.StepwiseEM(m.make(), SMOOTH, batch_size=2, exact=True)),
    "annealing": learns(annealed),
    "skewed annealing": learns(skewed),
    "features by EM": learns(lambda m: pu.EM(m.make(), features(m))),
    "features by gradient": learns(lambda m: pu.Gradient(m.make(), features(m))),
    "networks by EM": learns(lambda m: pu.EM(m.make(), networks())),
    "networks by gradient": learns(lambda m: pu.Gradient(m.make(), networks())),
    "few outcomes (smoothed l0)": learns(lambda m: pu.EM(m.make(), pu.SparseL0(0.5))),
    "Dirichlet VB": learns(lambda m: pu.EM(m.make(), pu.DirichletVB())),
    "logistic-normal VB": learns(lambda m: pu.EM(m.make(), pu.LogisticNormal())),
    "hierarchical EM": learns(lambda m: pu.HierarchicalEM(m.make())),
    "constrained mixture": learns(lambda m: pu.MixtureEM(m.make(), [m.component], SMOOTH)),
    "posterior regularisation": learns(lambda m: pu.EM(regularised(m), SMOOTH)),
    "SVI": varies,
    "NUTS": draws_tables,
    "Gibbs sampling": draws_labels(None),
    "blocked Gibbs": draws_labels("blocked"),
    "Gibbs, tables drawn": draws_all,
}

"""Neural tables against finite differences, against relative frequencies, and against themselves: saved and resumed."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, init_to_value
from torch import Tensor, nn

import pyro_unsup as pu
from pyro_unsup.errors import DivergenceError, NotDescribable, TableError
from pyro_unsup.estimate import Cells, Differentiable, Embeddings, Networks, Neural, Parametric
from pyro_unsup.tables import Declaration, Layout

from ...results.cases import assert_same
from ..features.feature_cases import TABLES

SMALL = Embeddings(size=3, hidden=(4,))
NETS = {"default": Embeddings(), "small": SMALL, "linear": Embeddings(size=3, hidden=()), "cells": Cells(start=1.0)}
QUIET: dict[str, Any] = {"progress": False, "tolerance": 0.0}
WORDS = ["dog", "dogs", "Cat", "cats", "a-1"]
SENTENCES = [[0, 1, 2], [3, 4], [1, 1, 0, 2], [2, 3], [4, 0]]
every_table = pytest.mark.parametrize("name", TABLES)


def counts_of(tables: dict[str, Declaration], seed: int = 0) -> dict[str, Tensor]:
    source = torch.Generator().manual_seed(seed)
    return {n: 5 * torch.rand(d.layout.shape, generator=source) * d.layout.allowed() for n, d in tables.items()}


def begun(how: Neural, tables: dict[str, Declaration], seed: int = 1) -> dict[str, Tensor]:
    uniform = {name: d.layout.uniform() for name, d in tables.items()}
    return how.begin(tables, uniform, torch.Generator().manual_seed(seed))


def objective(how: Neural, tables: dict[str, Declaration], counts: dict[str, Tensor], memory: Any) -> float:
    weights = how.tables(tables, memory)
    return sum(float(torch.where(c > 0, c * weights[n], 0.0).sum()) for n, c in counts.items()) + how.log_prior(memory)


def tagger() -> pu.models.Tagger:
    return pu.models.Tagger(2, pu.data.Vocab(WORDS))


def test_it_keeps_to_the_contracts() -> None:
    assert isinstance(Neural(), Parametric)
    assert isinstance(Neural(), Differentiable)


# -- oracles


@every_table
@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_its_gradient_is_that_of_finite_differences(name: str, net: Any) -> None:
    tables, how = {name: TABLES[name]}, Neural(net, weight_decay=0.3)
    counts, memory = counts_of(tables), begun(how, tables)
    found = how.gradient(tables, counts, how.tables(tables, memory), memory)
    assert found.keys() == memory.keys()
    assert not bool(found["chance"].any())
    rng, step = np.random.default_rng(0), 1e-6
    for key in memory.keys() - {"chance"}:
        for cell in rng.choice(memory[key].numel(), min(3, memory[key].numel()), replace=False):
            moved = torch.zeros(memory[key].numel())
            moved[cell] = step
            up, down = ({**memory, key: memory[key] + sign * moved.reshape(memory[key].shape)} for sign in (1, -1))
            slope = (objective(how, tables, counts, up) - objective(how, tables, counts, down)) / (2 * step)
            assert float(found[key].reshape(-1)[cell]) == pytest.approx(slope, rel=1e-5, abs=1e-5), key


@every_table
@pytest.mark.parametrize("optimiser", ["adam", "lbfgs"])
def test_a_score_for_each_cell_gives_relative_frequencies(name: str, optimiser: Any) -> None:
    tables = {name: TABLES[name]}
    counts, layout = counts_of(tables), TABLES[name].layout
    how = Neural(Cells(), optimiser=optimiser, steps=1000, tolerance=0.0, learning_rate=0.05)
    found = how.tables(tables, how.update(tables, counts, begun(how, tables)))[name]
    expected = pu.Normalise().weights(TABLES[name], counts[name], layout.uniform())
    torch.testing.assert_close(found.exp(), expected.exp(), rtol=0, atol=1e-5)


def test_vectors_as_long_as_there_are_rows_give_relative_frequencies() -> None:
    tables = {"t": Declaration("t", Layout.dense(3, 4), torch.tensor(1.0))}
    counts = counts_of(tables)
    how = Neural(Embeddings(size=3, hidden=()), optimiser="lbfgs", steps=2000, tolerance=0.0)
    found = how.tables(tables, how.update(tables, counts, begun(how, tables)))["t"]
    expected = pu.Normalise().weights(tables["t"], counts["t"], tables["t"].layout.uniform())
    torch.testing.assert_close(found.exp(), expected.exp(), rtol=0, atol=1e-5)


def test_em_with_a_score_for_each_cell_is_plain_em() -> None:
    start = pu.init.noise(1.0)
    plain = pu.EM(tagger(), init=start).run(SENTENCES, iterations=3, seed=5, **QUIET)
    how = Neural(Cells(), optimiser="lbfgs", steps=1000, tolerance=0.0, fit_start=True)
    fit = pu.EM(tagger(), how, init=start).run(SENTENCES, iterations=3, seed=5, **QUIET)
    assert fit.objective == pytest.approx(plain.objective, abs=1e-3)
    for name, table in plain.weights.items():
        torch.testing.assert_close(fit.weights[name].exp(), table.exp(), rtol=0, atol=1e-4)


def test_scores_of_a_ragged_table_are_those_of_a_dense_one() -> None:
    layout = Layout.ragged([3, 3])
    axes = [pu.tables.Axis("source", ["a", "b"]), pu.tables.Axis("target", ["c", "d", "e"], torch.arange(6) % 3)]
    ragged = Declaration("t", layout, torch.tensor(1.0), axes=tuple(axes))
    dense = Declaration(
        "t", Layout.dense(2, 3), torch.tensor(1.0), axes=(axes[0], pu.tables.Axis("target", ["c", "d", "e"]))
    )
    one, other = Networks({"t": ragged}, SMALL), Networks({"t": dense}, SMALL)
    w = torch.randn(len(one), requires_grad=True)
    tables = [networks.table("t", w).reshape(-1) for networks in (one, other)]
    torch.testing.assert_close(*tables, rtol=0, atol=1e-12)
    slopes = [torch.autograd.grad((torch.arange(6.0) * table).sum(), w)[0] for table in tables]
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-10)


# -- the M step


@pytest.mark.parametrize("how", [
    Neural(SMALL, weight_decay=0.1, steps=20),
    Neural(SMALL, weight_decay=0.1, steps=20, fresh=True),
    Neural(Embeddings(3, (32,), dropout=0.5), learning_rate=0.1, steps=20),
    Neural(SMALL, learning_rate=1.0, steps=3),  # far too fast: slower steps are tried
    Neural(SMALL, optimiser="lbfgs", steps=5),
    Neural(SMALL, optimiser="lbfgs", steps=2, fresh=True),
], ids=["warm", "fresh", "dropout", "too fast", "L-BFGS", "fresh L-BFGS"])  # fmt: skip
def test_an_m_step_never_lowers_what_it_climbs(how: Neural) -> None:
    tables = {name: TABLES[name] for name in ("dictionary", "ragged", "cube")}
    memory, rises = begun(how, tables), 0
    for seed in (0, 0, 1, 1):
        counts = counts_of(tables, seed)
        new = how.update(tables, counts, memory)
        before, after = (objective(how, tables, counts, one) for one in (memory, new))
        assert after >= before - 1e-9
        rises += after > before
        memory = new
    assert rises >= 2


def test_where_no_step_leads_up_the_old_weights_stay() -> None:
    tables = {"emission": TABLES["emission"]}
    how = Neural(Cells(), optimiser="lbfgs", steps=5000, tolerance=0.0)
    memory = how.update(tables, counts_of(tables), begun(how, tables))
    fast = Neural(Cells(), learning_rate=100.0, steps=1)
    new = fast.update(tables, counts_of(tables), memory)
    assert torch.equal(new["emission.scores"], memory["emission.scores"])
    assert new["chance"].tolist() == [int(memory["chance"][0]), 2]


@pytest.mark.parametrize("how", [
    Neural(SMALL, weight_decay=0.05, steps=20),
    Neural(SMALL, weight_decay=0.05, steps=20, fresh=True),
    Neural(Embeddings(3, (32,), dropout=0.3), steps=10),
    Neural(SMALL, optimiser="lbfgs", steps=5),
], ids=["warm", "fresh", "dropout", "L-BFGS"])  # fmt: skip
def test_em_never_falls_and_resumes_to_the_last_bit(how: Neural, tmp_path: Path) -> None:
    state = torch.get_rng_state()
    whole = pu.EM(tagger(), how).run(SENTENCES, iterations=6, seed=3, **QUIET)
    assert whole.history.objective.is_monotonic_increasing
    assert whole.history.objective.iloc[-1] > whole.history.objective.iloc[0]
    pu.EM(tagger(), how).run(SENTENCES, iterations=3, seed=3, **QUIET).save(tmp_path / "half")
    half = pu.load(tmp_path / "half")
    again = half.estimators["emission"]
    assert repr(again) == repr(how)
    rest = pu.EM(tagger(), again).run(SENTENCES, iterations=6, seed=3, resume=half, **QUIET)
    assert_same(rest, whole, seconds=False)
    assert torch.equal(torch.get_rng_state(), state)  # nobody else's chance numbers were touched


def test_the_default_dtype_makes_no_difference() -> None:
    tables = {"emission": TABLES["emission"]}
    one = begun(Neural(), tables)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float32)
        other = begun(Neural(), tables)
    finally:
        torch.set_default_dtype(before)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert {x.dtype for name, x in one.items() if name != "chance"} == {torch.float64}


def test_seeds() -> None:
    tables = {"emission": TABLES["emission"]}
    one, same, other = (begun(Neural(), tables, seed) for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["emission.outcome.own"], other["emission.outcome.own"])


def test_it_can_start_from_initial_tables() -> None:
    tables = {name: TABLES[name] for name in ("emission", "dictionary", "ragged")}
    source = torch.Generator().manual_seed(0)
    initial = {n: d.layout.normalise(torch.randn(d.layout.shape, generator=source)) for n, d in tables.items()}
    how = Neural(Embeddings(size=8, hidden=(16,)), fit_start=True)
    found = how.tables(tables, how.begin(tables, initial, source))
    for name, table in found.items():
        torch.testing.assert_close(table.exp(), initial[name].exp(), rtol=0, atol=1e-3)


def test_scores_start_as_spread_as_they_are_said_to() -> None:
    for start in (0.1, 2.0):
        for name in ("emission", "cube", "vector", "ragged"):
            table = Networks({name: TABLES[name]}, Embeddings(start=start))
            scores = table._modules[0]()
            assert float(scores.detach().std()) == pytest.approx(start)


# -- engines


def test_the_direct_gradient_climbs_too_and_resumes(tmp_path: Path) -> None:
    def engine() -> pu.Gradient:
        return pu.Gradient(tagger(), Neural(SMALL, weight_decay=0.1))

    whole = engine().run(SENTENCES, iterations=6, seed=3, **QUIET)
    assert whole.objective > whole.rows[0]["objective"]
    engine().run(SENTENCES, iterations=3, seed=3, **QUIET).save(tmp_path / "half")
    rest = engine().run(SENTENCES, iterations=6, seed=3, resume=pu.load(tmp_path / "half"), **QUIET)
    assert_same(rest, whole, seconds=False)
    assert whole.memory["chance"][1] == 0


def test_mini_batches_take_few_steps() -> None:
    how = Neural(SMALL, steps=20, weight_decay=0.01)
    fit = pu.StepwiseEM(tagger(), how, batch_size=2).run(SENTENCES, iterations=4, **QUIET)
    assert fit.rows[-1]["log_likelihood"] > fit.rows[0]["log_likelihood"]


def test_stock_inference_sees_the_same_objective_whole_and_in_mini_batches() -> None:
    how, model = Neural(SMALL, weight_decay=0.3), tagger()
    fit = pu.EM(model, how).run(SENTENCES, iterations=0, seed=2, **QUIET)
    networks = how.networks(model.declarations())
    w = networks.flat(fit.memory)
    lifted = poutine.condition(pu.featured(model, networks, kappa=0.3), {"features": w})
    normaliser = len(networks) * 0.5 * math.log(2 * math.pi / 0.6)  # of the prior, which EM leaves out
    found = float(poutine.trace(lifted).get_trace(SENTENCES).log_prob_sum()) + normaliser
    assert found == pytest.approx(fit.objective, rel=1e-9)
    prior = how.log_prior(fit.memory)
    parts = [
        float(poutine.trace(lifted).get_trace(batch).log_prob_sum()) + normaliser - prior
        for batch in (SENTENCES[:2], SENTENCES[2:])
    ]
    assert sum(parts) + prior == pytest.approx(fit.objective, rel=1e-9)


def test_stock_svi_learns_by_mini_batches_and_becomes_a_fit() -> None:
    corpus = pu.data.toy.sentences(60, seed=1)
    model = pu.models.Tagger(4, corpus.vocab)
    networks = Neural().networks(model.declarations())

    def scaled(batch: Any) -> Any:
        with poutine.scale(scale=len(corpus) / len(batch)):
            return model(batch)

    pyro.set_rng_seed(0)
    lifted = pu.featured(scaled, networks, kappa=0.1)
    guide = AutoDelta(lifted, init_loc_fn=init_to_value(values={"features": networks.start.float()}))
    svi = SVI(lifted, guide, pyro.optim.Adam({"lr": 0.02}), Trace_ELBO())
    batches = [corpus.select(np.arange(k, k + 20)) for k in (0, 20, 40)]
    # The mean over mini-batches is the loss on all data, the prior counted once.
    assert np.mean([svi.evaluate_loss(batch) for batch in batches]) == pytest.approx(svi.evaluate_loss(corpus))
    for _ in range(20):
        for batch in batches:
            svi.step(batch)
    weights = guide.median()["features"].double()
    fit = pu.EM(model, init=pu.init.from_weights(networks.log_weights(weights))).run(
        corpus, iterations=0, progress=False
    )
    prior = 0.1 * float(weights.square().sum()) + len(weights) * math.log(math.sqrt(math.pi / 0.1))
    assert -fit.objective + prior == pytest.approx(svi.evaluate_loss(corpus), rel=1e-5)
    start = pu.EM(model, init=pu.init.from_weights(networks.log_weights(networks.start)))
    assert fit.objective > start.run(corpus, iterations=0, progress=False).objective


def test_noise_for_annealing_and_draws_of_the_prior() -> None:
    tables = {name: TABLES[name] for name in ("dictionary", "ragged")}
    how = Neural(SMALL, weight_decay=2.0)
    memory = begun(how, tables)
    noisy = how.perturbed(tables, memory, 0.5, torch.Generator().manual_seed(0))
    assert torch.equal(noisy["chance"], memory["chance"])
    gap = (noisy["ragged.bias"] - memory["ragged.bias"]).abs()
    assert 0 < float(gap.max()) <= 0.5
    draws = how.draw_prior(tables, memory, torch.Generator().manual_seed(0), draws=3)
    for name, table in draws.items():
        assert table.shape == (3, *tables[name].layout.shape)
        for one in table:
            torch.testing.assert_close(tables[name].layout.row_sum(one.exp()), torch.ones(tables[name].layout.rows))
    with pytest.raises(TableError, match="Neural with weight_decay=0 has no prior to draw from"):
        Neural(SMALL).draw_prior(tables, memory, torch.Generator())


# -- what is refused, and what is said


def test_a_network_of_ones_own(tmp_path: Path) -> None:
    class Scores(nn.Module):
        def __init__(self, declaration: Declaration) -> None:
            super().__init__()
            self.layer = nn.Linear(4, declaration.layout.shape.numel())
            self.shape = declaration.layout.shape

        def forward(self) -> Tensor:
            return nn.functional.dropout(self.layer(torch.ones(4)).reshape(self.shape), 0.1, self.training)

    def run(resume: pu.Fit | None, iterations: int) -> pu.Fit:
        engine = pu.EM(tagger(), {"emission": Neural(Scores, steps=5)})
        return engine.run(SENTENCES, iterations=iterations, seed=1, resume=resume, **QUIET)

    whole = run(None, 4)
    run(None, 2).save(tmp_path / "half")
    half = pu.load(tmp_path / "half")
    assert half.memory["emission.layer.weight"].shape == (10, 4)
    assert "emission" not in half.estimators
    rest = run(half, 4)
    assert rest.objective == whole.objective
    with pytest.raises(NotDescribable, match="a network of your own that is not registered: a fit stores the weights"):
        Neural(Scores).settings()


class Plain(Cells):
    """A network of one's own that describes itself."""


def test_a_network_of_ones_own_that_is_registered(tmp_path: Path) -> None:
    pu.registry.register("networks", "Plain", Plain)
    try:
        fit = pu.EM(tagger(), Neural(Plain(0.5), steps=3)).run(SENTENCES, iterations=1, **QUIET)
        fit.save(tmp_path / "fit")
        back = pu.load(tmp_path / "fit").estimators["start"]
        assert isinstance(back, Neural)
        assert back.net == Plain(0.5)
    finally:
        pu.registry.unregister("networks", "Plain")
    with pytest.raises(pu.InputError, match="unknown network 'Plain': known are Cells, Embeddings"):
        pu.load(tmp_path / "fit")


def test_settings_come_back() -> None:
    how = Neural(Embeddings(5, (7, 3), 0.2, ("word",), 2, 0.5), weight_decay=0.1, steps=7, fresh=True)
    plain, tensors = how.settings()
    again = Neural.from_settings(plain, tensors)
    assert again.settings() == (plain, tensors)
    assert again.net == how.net
    assert pickle.loads(pickle.dumps(how)).settings() == how.settings()


@pytest.mark.parametrize(("settings", "message"), [
    ({"net": 3}, "net must be a function from the declaration of a table to a torch.nn.Module, actual 3"),
    ({"weight_decay": -1}, "weight_decay must be finite and not negative, actual -1"),
    ({"tolerance": "x"}, "tolerance must be finite and not negative, actual 'x'"),
    ({"learning_rate": 0}, "learning_rate must be finite and positive, actual 0"),
    ({"optimiser": "sgd"}, "optimiser must be 'adam' or 'lbfgs', actual 'sgd'"),
    ({"steps": 0}, "steps must be a whole number, at least 1, actual 0"),
    ({"fresh": 1}, "fresh must be True or False, actual 1"),
])  # fmt: skip
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        Neural(**settings)


def test_weights_that_run_away() -> None:
    how, tables = Neural(Cells()), {"vector": TABLES["vector"]}
    memory = begun(how, tables)
    for bad in (2e3, torch.nan):
        with pytest.raises(DivergenceError, match=r"'vector.scores' has one of size .* raise weight_decay, actual 0"):
            how.check(tables, {**memory, "vector.scores": torch.full((5,), bad)})


def test_other_networks_are_not_resumed() -> None:
    fit = pu.EM(tagger(), Neural(SMALL, steps=2)).run(SENTENCES, iterations=1, **QUIET)
    with pytest.raises(pu.FitError, match=r"the fit to go on from has '.*' of shape .* in its memory, expected"):
        pu.EM(tagger(), Neural(Embeddings(size=5, hidden=(4,)), steps=2)).run(SENTENCES, resume=fit, **QUIET)


class Unlucky(Neural):
    """Training never finds better weights."""

    def update(self, declarations: Any, counts: Any, memory: Any) -> dict[str, Tensor]:
        return dict(memory)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (Unlucky(fresh=True), "iteration cap"),
        (Unlucky(Embeddings(dropout=0.1)), "iteration cap"),
        (Unlucky(), "converged"),
    ],
    ids=["fresh networks", "dropout", "the same steps again"],
)
def test_an_m_step_that_draws_nothing_better_is_no_convergence(how: Neural, reason: str) -> None:
    """With other random numbers the next one may be better."""
    fit = pu.EM(tagger(), how).run(SENTENCES, iterations=4, tolerance=1e-3, progress=False)
    assert fit.report.reason == reason
    assert (fit.report.iterations == 4) == (reason == "iteration cap")


def test_what_it_says_of_itself_is_whole() -> None:
    """A fit keeps it in its config."""
    net = Embeddings(size=12, hidden=(100, 200, 300, 400), start=0.25)
    fit = pu.EM(pu.models.DMV(tags=2), Neural(net)).run([[0, 1]], iterations=1, **QUIET)
    assert fit.config["estimate"].startswith(f"Neural({net!r}, weight_decay=")
    long = Embeddings(hidden=tuple(range(100, 300)))
    assert " ..., weight_decay=" in repr(Neural(long))

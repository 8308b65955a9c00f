"""Stepwise EM against its definition in plain loops, against batch EM, and as Pyro's SVI is used."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import AddLambda, DirichletMAP, DirichletVB, FitError, Normalise, StepwiseEM
from pyro_unsup.data import TagDictionary, toy
from pyro_unsup.estimate.base import normalise_rows
from pyro_unsup.infer.examples import Examples
from pyro_unsup.infer.loop import Info
from pyro_unsup.infer.shortcut import Shortcut
from pyro_unsup.models import Tagger
from pyro_unsup.tables import Declaration

from ..results.cases import assert_same

CORPUS = toy.sentences(60, seed=3)


@dataclass(frozen=True)
class Sharpened:
    """An estimator of one's own, that no engine knows: relative frequencies of counts to a power."""

    power: float = 1.1

    def weights(self, declaration: Declaration, counts: Tensor, old: Tensor) -> Tensor:
        return normalise_rows(declaration, counts**self.power, old)

    def log_prior(self, declaration: Declaration, log_weights: Tensor) -> float:
        return 0.0


ESTIMATORS = {
    "normalise": Normalise(),
    "add": AddLambda(0.3),
    "map": DirichletMAP(1.7),
    "vb": DirichletVB(0.4),
    "own": Sharpened(),
    "by table": {"emission": AddLambda(0.1), "start": Sharpened()},
}
every_estimator = pytest.mark.parametrize("how", ESTIMATORS.values(), ids=ESTIMATORS)


def corpus(n: int = 12, V: int = 4, longest: int = 5, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(V, size=rng.integers(1, longest + 1)).tolist() for _ in range(n)]


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """No compiled stretches: every mini-batch takes the general path."""
    monkeypatch.setattr(Shortcut, "of", staticmethod(lambda *args: None))


def close(a: dict[str, Tensor], b: dict[str, Tensor], tolerance: float = 1e-10) -> None:
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name].exp(), b[name].exp(), rtol=tolerance, atol=tolerance)


def counts_of(weights: dict[str, Tensor], words: list[list[int]]) -> dict[str, Tensor]:
    flat, lengths = torch.tensor([w for s in words for w in s]), torch.tensor([len(s) for s in words])
    return (
        pu.Chain(*(weights[n] for n in ("start", "transition", "emission")), lengths, flat=True).posterior(flat).counts
    )


def dense_stepwise(
    start: dict[str, Tensor], data: list[list[int]], eta: list[float], m: int, passes: int, order_seed: int
) -> dict[str, Tensor]:
    """The definition: all counts shrink at every update."""
    mu, k = {name: w.exp() for name, w in start.items()}, 0
    for number in range(passes):
        order = np.random.default_rng((order_seed, number)).permutation(len(data))
        for at in range(0, len(data), m):
            weights = {name: (c / c.sum(-1, keepdim=True)).log() for name, c in mu.items()}
            s = counts_of(weights, [data[i] for i in order[at : at + m]])
            mu = {name: (1 - eta[k]) * c + eta[k] * s[name] for name, c in mu.items()}
            k += 1
    return {name: (c / c.sum(-1, keepdim=True)).log() for name, c in mu.items()}


@pytest.mark.parametrize(("compiled", "power"), [(False, None), (True, None), (True, 0.6), (True, 1.0)])
def test_a_thousand_updates_equal_the_definition(
    compiled: bool, power: float | None, request: pytest.FixtureRequest
) -> None:
    """Through rescaling: without a power, step sizes of 0.6 take the scale below its floor again and again."""
    if not compiled:
        request.getfixturevalue("slowly")
    data, m, passes = corpus(100, V=6), 2, 20
    schedule = None if power is not None else lambda k: 0.6 - 0.1 * (k % 3)
    engine = StepwiseEM(Tagger(3, 6), power=power or 0.7, batch_size=m, schedule=schedule, order_seed=5)
    engine.start(data, seed=1)
    start, rescaled, before = dict(engine.weights), 0, 1.0
    for _ in range(passes):
        engine.move()
        table = engine.statistics.tables["emission"]
        rescaled, before = rescaled + (table.scale > before), table.scale
    assert engine.updates == 1000
    assert (engine._shortcut is not None) == compiled
    assert (power is not None) or rescaled >= 1
    eta = [engine.step_size(k) for k in range(1000)]
    close(engine.weights, dense_stepwise(start, data, eta, m, passes, order_seed=5))


def both_ways(monkeypatch: pytest.MonkeyPatch, model: Any, data: Any, how: Any, passes: int, **options: Any) -> None:
    """Compiled stretches and the general path lead to the same weights by the same likelihoods."""
    fast = StepwiseEM(model, how, **options)
    one = fast.run(data, iterations=passes, tolerance=0, progress=False)
    assert fast._shortcut is not None
    with monkeypatch.context() as patch:
        patch.setattr(Shortcut, "of", staticmethod(lambda *args: None))
        other = StepwiseEM(model, how, **options).run(data, iterations=passes, tolerance=0, progress=False)
    close(one.weights, other.weights)
    for a, b in zip(one.rows, other.rows, strict=True):
        assert a["objective"] == pytest.approx(b["objective"], rel=1e-10)


@pytest.mark.parametrize("how", [Normalise(), AddLambda(0.2), DirichletMAP(1.3)])
@pytest.mark.parametrize("beta", [1.0, 0.4, 2.0])
@pytest.mark.parametrize("stop", [False, True])
def test_compiled_stretches_equal_the_general_path(
    how: Any, beta: float, stop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Tagger(4, CORPUS.vocab, stop=stop)
    both_ways(monkeypatch, model if beta == 1 else pu.temper(model, beta), CORPUS, how, 3, batch_size=7)


@pytest.mark.parametrize("how", [Sharpened(), {"start": Sharpened()}], ids=["all", "start"])
def test_an_estimator_of_ones_own_is_never_left_out(how: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled stretches know relative frequencies only."""
    data, options = corpus(40, V=6), {"batch_size": 3, "order_seed": 5}
    found = StepwiseEM(Tagger(3, 6), how, **options).run(data, iterations=3, tolerance=0)
    monkeypatch.setattr(Shortcut, "of", staticmethod(lambda *args: None))
    close(found.weights, StepwiseEM(Tagger(3, 6), how, **options).run(data, iterations=3, tolerance=0).weights)
    plain = StepwiseEM(Tagger(3, 6), **options).run(data, iterations=3, tolerance=0)
    assert float((found.weights["start"].exp() - plain.weights["start"].exp()).abs().max()) > 0.01


def test_with_variational_bayes_it_is_stochastic_variational_inference() -> None:
    """lambda <- (1 - rho) lambda + rho (alpha + n/m counts), weights exp(E log theta) (Hoffman et al. 2013)."""
    data, m, alpha = corpus(40, V=6), 8, 0.4
    engine = StepwiseEM(Tagger(3, 6), DirichletVB(alpha), batch_size=m, order_seed=1)
    engine.start(data, seed=2)
    weights = dict(engine.weights)
    posterior = {name: 40 / m * w.exp() + alpha for name, w in weights.items()}
    for k in range(10):
        if k % 5 == 0:
            order = np.random.default_rng((1, k // 5)).permutation(40)
            engine.move()
        batch = [data[i] for i in order[k % 5 * m :][:m]]
        words, lengths = (
            torch.tensor([word for sentence in batch for word in sentence]),
            torch.tensor([len(s) for s in batch]),
        )
        chain = pu.Chain(weights["start"], weights["transition"], weights["emission"], lengths, flat=True)
        counts, rho = chain.posterior(words).counts, (k + 2) ** -0.7
        posterior = {name: (1 - rho) * x + rho * (alpha + 40 / m * counts[name]) for name, x in posterior.items()}
        weights = {name: x.digamma() - x.sum(-1, keepdim=True).digamma() for name, x in posterior.items()}
    close(engine.weights, weights)


def test_compiled_stretches_take_a_dictionary_and_empty_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    dictionary = TagDictionary.from_corpus(CORPUS, min_count=2)
    both_ways(
        monkeypatch, Tagger(toy.TAGSET, CORPUS.vocab, dictionary=dictionary), CORPUS, Normalise(), 3, batch_size=3
    )
    data = [[0, 1], [], [2, 1, 0], [], [1, 1]]
    both_ways(monkeypatch, Tagger(2, 3), data, Normalise(), 5, batch_size=3)


def test_what_scaled_arithmetic_cannot_do_is_left_to_the_general_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two states that never meet: a message underflows although its state is the one that matters in the end."""
    tiny = -200.0
    weights = {
        "start": torch.tensor([0.0, -2.0]),
        "transition": torch.tensor([[0.0, -1e3], [-1e3, 0.0]]),
        "emission": torch.tensor([[0.0, -1.0, tiny], [tiny, -1.0, 0.0]]),
    }
    weights = {name: w.log_softmax(-1) for name, w in weights.items()}
    data = [[0, 0, 0, 0, 2, 2, 2, 2, 2], [1, 0], [1, 2], [0] * 5 + [2] * 7]
    init, general, real = pu.from_weights(weights), [0], StepwiseEM._update

    def update(engine: StepwiseEM, *args: Any) -> float:
        general[0] += 1
        return real(engine, *args)

    monkeypatch.setattr(StepwiseEM, "_update", update)
    both_ways(monkeypatch, Tagger(2, 3), data, Normalise(), 6, batch_size=1, init=init)
    assert 24 + 1 < general[0] < 24 + 24  # all updates of the general path, the first of the other, and some more


@pytest.mark.parametrize(
    "model",
    [Tagger(3, CORPUS.vocab, order=2), pu.harden(Tagger(3, CORPUS.vocab)), poutine.scale(Tagger(3, CORPUS.vocab), 2.0)],
    ids=["second order", "hardened", "scaled"],
)
def test_models_without_compiled_stretches_take_the_general_path(model: Any) -> None:
    engine = StepwiseEM(model, batch_size=20)
    fit = engine.run(CORPUS, iterations=3, progress=False)
    assert engine._shortcut is None
    assert fit.rows[-1]["log_likelihood"] > fit.rows[0]["log_likelihood"]


def test_weights_that_are_not_the_tables_themselves_are_not_taken_for_them() -> None:
    def shifted(words: list[list[int]]) -> None:
        start, transition = pu.multinomial("start", 2), pu.multinomial("transition", 2, 2)
        emission = pu.multinomial("emission", 2, 3) - 0.5
        flat, lengths = torch.tensor([w for s in words for w in s]), torch.tensor([len(s) for s in words])
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", pu.Chain(start, transition, emission, lengths, flat=True), obs=flat)

    engine = StepwiseEM(shifted, batch_size=3)
    engine.run(corpus(V=3), iterations=2, progress=False)
    assert engine._shortcut is None


def small(kind: str) -> tuple[Any, Any]:
    """A model of each kind, and something to learn from."""
    sentences = toy.sentences(12, seed=1).filter(max_length=8)
    if kind == "ccm":
        return pu.models.CCM.of(sentences), sentences
    if kind == "clusterer":
        return pu.models.Clusterer(3, sentences.vocab), sentences
    if kind == "segmenter":
        return pu.models.Segmenter.of(sentences, max_length=3), sentences
    if kind == "aligner":
        pairs = ([s[::-1] for s in corpus(12)], corpus(12))
        return pu.models.Aligner.of(pairs, source=4, target=4), pairs
    return Tagger(3, sentences.vocab, order=2, stop=True), sentences


@pytest.mark.parametrize("kind", ["tagger", "ccm", "clusterer", "segmenter", "aligner"])
@pytest.mark.parametrize("how", [AddLambda(0.1), DirichletVB(0.5)])
def test_every_model_takes_mini_batches_and_one_of_all_is_batch_em(kind: str, how: Any) -> None:
    model, data = small(kind)
    online = StepwiseEM(model, how, batch_size=5)
    online.run(data, iterations=3, tolerance=0, progress=False)
    assert online.updates == 3 * -(-online.examples.size // 5)
    whole = StepwiseEM(model, how, batch_size=1000, schedule=lambda k: 1.0)
    one = whole.run(data, iterations=3, tolerance=0, progress=False)
    other = pu.EM(model, how).run(data, iterations=3, tolerance=0, progress=False)
    close(one.weights, other.weights, 1e-12)


# -- against batch EM


@every_estimator
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_one_mini_batch_and_a_step_of_one_are_batch_em(how: Any, beta: float) -> None:
    model: Any = Tagger(3, CORPUS.vocab)
    model = model if beta == 1 else pu.temper(model, beta)
    options: dict[str, Any] = {"iterations": 6, "tolerance": 0, "seed": 2, "progress": False}
    online = StepwiseEM(model, how, batch_size=len(CORPUS), schedule=lambda k: 1.0, exact=True)
    one, other = online.run(CORPUS, **options), pu.EM(model, how).run(CORPUS, **options)
    close(one.weights, other.weights, 1e-12)
    for a, b in zip(one.rows, other.rows, strict=True):
        assert a["objective"] == pytest.approx(b["objective"], rel=1e-12)
        assert a["log_likelihood"] == pytest.approx(b["log_likelihood"], rel=1e-12)


@pytest.mark.parametrize("how", [AddLambda(3.0), DirichletMAP(1.7), DirichletVB(0.4)])
def test_pseudo_counts_of_a_run_mean_what_they_mean_to_batch_em(how: Any) -> None:
    """Steps that shrink end near a fixed point of batch EM with the same estimator."""
    model = Tagger(2, 4)
    data = corpus(40, seed=4)
    engine = StepwiseEM(model, how, power=0.9, batch_size=8)
    fit = engine.run(data, iterations=60, tolerance=0, progress=False, seed=1)
    on = pu.EM(model, how, init=pu.from_weights(fit)).run(data, iterations=1, tolerance=0, progress=False)
    for name, w in fit.weights.items():
        torch.testing.assert_close(w.exp(), on.weights[name].exp(), rtol=0, atol=0.02)


def test_the_hybrid_goes_on_with_batch_em() -> None:
    model = Tagger(3, CORPUS.vocab)
    quick = StepwiseEM(model, batch_size=5).run(CORPUS, iterations=5, progress=False)
    fit = pu.EM(model, init=pu.from_weights(quick)).run(CORPUS, iterations=5, progress=False)
    assert fit.rows[0]["log_likelihood"] == pytest.approx(quick.log_likelihood(CORPUS), rel=1e-12)
    assert fit.objective > fit.rows[0]["objective"]


def test_an_update_never_looks_at_a_whole_table(monkeypatch: pytest.MonkeyPatch, slowly: None) -> None:
    engine = StepwiseEM(Tagger(2, 1_000_000), AddLambda(0.1), batch_size=2)
    data = [[5, 7], [999_999, 5, 3], [7], [8, 8, 3]]
    engine.start(data)
    engine.examples  # noqa: B018
    sizes: list[int] = []
    real = torch.Tensor.index_add_

    def note(self: Tensor, dim: int, index: Tensor, source: Tensor, **options: Any) -> Tensor:
        sizes.append(source.numel())
        return real(self, dim, index, source, **options)

    def refused(*args: Any) -> Any:
        raise AssertionError("a whole table")

    monkeypatch.setattr(torch.Tensor, "index_add_", note)
    monkeypatch.setattr(AddLambda, "weights", refused)
    monkeypatch.setattr(Declaration, "whole", refused)
    engine.move()
    assert sizes
    assert max(sizes) <= 2 * 4  # states times words of a mini-batch


# -- runs


def test_the_same_seeds_give_the_same_result_and_order_is_apart_from_the_start() -> None:
    def run(seed: int, order_seed: int) -> pu.Fit:
        engine = StepwiseEM(Tagger(3, CORPUS.vocab), batch_size=4)
        return engine.run(CORPUS, seed=seed, order_seed=order_seed, iterations=2, tolerance=0, progress=False)

    one, same, ordered, started = run(1, 1), run(1, 1), run(1, 2), run(2, 1)
    assert all(torch.equal(one.weights[name], same.weights[name]) for name in one.weights)
    assert one.rows[0]["objective"] == ordered.rows[0]["objective"] != started.rows[0]["objective"]
    assert not torch.equal(one.weights["emission"], ordered.weights["emission"])
    assert one.config["order_seed"] == 1
    assert ordered.config == {**one.config, "order_seed": 2}
    given = StepwiseEM(Tagger(3, CORPUS.vocab), batch_size=4, order_seed=2)
    again = given.run(CORPUS, seed=1, iterations=2, tolerance=0, progress=False)
    assert torch.equal(again.weights["emission"], ordered.weights["emission"])


def test_every_pass_has_an_order_of_its_own_and_takes_every_example_once() -> None:
    engine = StepwiseEM(Tagger(2, 4), batch_size=5)
    data = corpus(13)
    engine.start(data)
    orders = [engine.examples.order((3, number)).tolist() for number in range(3)]
    assert len({tuple(order) for order in orders}) == 3
    assert all(sorted(order) == list(range(13)) for order in orders)
    assert [len(batch) for batch in engine.examples.batches(5, (3, 0))] == [5, 5, 3]
    assert np.concatenate(list(engine.examples.batches(5, None))).tolist() == list(range(13))


def test_the_history_has_the_likelihood_of_the_pass_and_if_asked_the_exact_one() -> None:
    model = Tagger(3, CORPUS.vocab)
    plain = StepwiseEM(model, batch_size=6).run(CORPUS, iterations=3, tolerance=0, progress=False)
    fit = StepwiseEM(model, batch_size=6, exact=True).run(
        CORPUS, iterations=3, tolerance=0, progress=False, score=lambda fit: fit.log_likelihood(CORPUS)
    )
    assert [row["online_log_likelihood"] for row in fit.rows[1:]] == [row["objective"] for row in plain.rows[1:]]
    for row in fit.rows:
        assert row["log_likelihood"] == pytest.approx(row["score"], rel=1e-12)
    assert "online_log_likelihood" not in fit.rows[0]
    assert fit.report.iterations == 3
    assert fit.config["updates"] == 30
    assert (fit.config["power"], fit.config["batch_size"]) == (0.7, 6)


def test_restarts_keep_the_best() -> None:
    engine = StepwiseEM(Tagger(3, CORPUS.vocab), AddLambda(0.1), power=0.8, batch_size=9, order_seed=4)
    fit = engine.run(CORPUS, iterations=3, restarts=3, processes=1, progress=False)
    assert len(fit.report.restarts) == 3
    assert fit.objective == max(fit.report.restarts)
    assert fit.config["order_seed"] == 4
    loss = engine.evaluate_loss(CORPUS)
    assert loss == pytest.approx(-fit.log_likelihood(CORPUS), rel=1e-12)


CASES: dict[str, dict[str, Any]] = {
    "compiled": {},
    "smoothed": {"estimate": AddLambda(0.1), "exact": True},
    "variational": {"estimate": DirichletVB(0.1), "batch_size": 20},
    "own estimator": {"estimate": Sharpened(), "batch_size": 20},
    "float32": {"dtype": torch.float32, "batch_size": 20},
    "forgetful": {"schedule": lambda k: 0.9},
}
cases = pytest.mark.parametrize("options", CASES.values(), ids=CASES)


def engine_of(options: dict[str, Any]) -> StepwiseEM:
    return StepwiseEM(Tagger(3, CORPUS.vocab), **{"batch_size": 4, **options})


def run_of(options: dict[str, Any], iterations: int, **more: Any) -> pu.Fit:
    return engine_of(options).run(CORPUS, iterations=iterations, tolerance=0, seed=3, progress=False, **more)


def assert_same_run(a: pu.Fit, b: pu.Fit) -> None:
    for group in ("weights", "state"):
        one, other = getattr(a, group), getattr(b, group)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)
    for x, y in zip(a.rows, b.rows, strict=True):
        assert {**x, "seconds": 0} == {**y, "seconds": 0}


@cases
def test_a_run_that_stops_and_goes_on_ends_bit_for_bit_where_it_would_have(
    options: dict[str, Any], tmp_path: Path
) -> None:
    whole = run_of(options, 6)
    run_of(options, 2).save(tmp_path / "half")
    half = pu.load(tmp_path / "half")
    assert half.state.keys() == whole.state.keys()
    assert_same_run(run_of(options, 6, resume=half), whole)


@pytest.mark.parametrize("at", [0, 1, 3])
def test_an_interrupt_leaves_a_checkpoint_to_go_on_from(at: int, tmp_path: Path) -> None:
    def interrupt(info: Info) -> None:
        if info.iteration == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_of({}, 5, checkpoint=tmp_path / "kept", callbacks=[interrupt])
    kept = pu.load(tmp_path / "kept")
    assert kept.report.iterations == at
    assert_same_run(run_of({}, 5, resume=kept), run_of({}, 5))


def test_an_interrupt_within_a_pass_does_too(tmp_path: Path, slowly: None, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, real, calls = run_of({}, 3), StepwiseEM._update, [0]

    def update(engine: StepwiseEM, *args: Any) -> float:
        calls[0] += 1
        if calls[0] == 22:  # the seventh mini-batch of the second pass
            raise KeyboardInterrupt
        return real(engine, *args)

    with monkeypatch.context() as patch:
        patch.setattr(StepwiseEM, "_update", update)
        with pytest.raises(KeyboardInterrupt):
            run_of({}, 3, checkpoint=tmp_path / "kept")
    assert_same_run(run_of({}, 3, resume=pu.load(tmp_path / "kept")), whole)


def test_a_fit_of_another_engine_is_a_start() -> None:
    batch = pu.EM(Tagger(3, CORPUS.vocab)).run(CORPUS, iterations=2, tolerance=0, progress=False)
    engine = engine_of({})
    fit = engine.run(CORPUS, iterations=4, resume=batch, tolerance=0, progress=False)
    assert fit.rows[2]["objective"] == pytest.approx(batch.objective, rel=1e-12)
    assert engine.updates == 2 * 15
    with pytest.raises(FitError, match="table 'start': expected 'unscaled' of shape"):
        engine_of({}).run(CORPUS, resume=_without(fit, "start.unscaled"), progress=False)


def _without(fit: pu.Fit, name: str) -> pu.Fit:
    fit.state = {key: x for key, x in fit.state.items() if key != name}
    return fit


# -- as SVI is used


def train(svi: Any, batches: list[list[list[int]]], epochs: int) -> list[float]:
    """Written for :class:`pyro.infer.SVI`."""
    losses = []
    for _ in range(epochs):
        loss = 0.0
        for batch in batches:
            loss += svi.step(batch)
        losses.append(loss)
    losses.append(sum(svi.evaluate_loss(batch) for batch in batches))
    return losses


def test_code_written_for_svi_runs_unchanged() -> None:
    model, data = Tagger(2, 4), corpus(40)
    batches = [data[i : i + 10] for i in range(0, 40, 10)]
    stock = SVI(model, pyro.infer.autoguide.AutoDelta(model), pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
    for svi in (StepwiseEM(model), stock):
        losses = train(svi, batches, epochs=4)
        assert all(isinstance(loss, float) for loss in losses)
        assert losses[-1] < losses[0]


def mixture(words: Tensor, batch: int) -> None:
    """Words of one of two kinds, of which a plate takes some at a time."""
    share, kinds = pu.multinomial("share", 2), pu.multinomial("kinds", 2, 5)
    with pyro.plate("words", len(words), subsample_size=batch) as chosen:
        kind = pyro.sample("kind", pu.Categorical(share))
        pyro.sample("word", pu.Categorical(kinds[kind]), obs=words[chosen])


def test_subsampling_plates_make_every_step_an_estimate_of_the_whole_data() -> None:
    words = torch.randint(5, (60,))
    engine = StepwiseEM(lambda words: mixture(words, 10), AddLambda(0.5))
    loss = engine.step(words)
    whole = StepwiseEM(lambda words: mixture(words, 60), AddLambda(0.5))
    assert loss == pytest.approx(whole.step(words), rel=0.3)  # scaled up by Pyro
    for name, table in engine.statistics.tables.items():
        total = float(table.counts().sum())
        assert total == pytest.approx(float(whole.statistics.tables[name].counts().sum()), rel=1e-10)
    for _ in range(300):
        engine.step(words)
    frequencies = (engine.weights["share"].unsqueeze(-1) + engine.weights["kinds"]).logsumexp(0).exp()
    observed = (torch.bincount(words, minlength=5) + 1) / (60 + 5)  # half a pseudo-count from each of two kinds
    torch.testing.assert_close(frequencies, observed, rtol=0, atol=0.06)


def test_enumerated_models_take_mini_batches_of_rows() -> None:
    words = torch.randint(5, (60,))
    engine = StepwiseEM(lambda words: mixture(words, len(words)), batch_size=7)
    fit = engine.run(words, iterations=3, tolerance=0, progress=False)
    assert engine.updates == 3 * 9
    assert fit.rows[-1]["log_likelihood"] > fit.rows[0]["log_likelihood"]


# -- streams


class Batch(list[list[int]]):
    """A list that can be watched."""


def stream(number: int, alive: list[int]) -> Iterator[Batch]:
    watched: list[weakref.ref[Batch]] = []
    for i in range(number):
        batch = Batch(corpus(3, seed=i))
        watched.append(weakref.ref(batch))
        yield batch
        del batch
        alive.append(sum(ref() is not None for ref in watched))


def test_a_stream_is_learned_from_without_being_kept() -> None:
    alive: list[int] = []
    engine = StepwiseEM(Tagger(2, 4))
    fit = engine.run_stream(stream(40, alive), seed=1, progress=False)
    assert max(alive) <= 2
    assert [row["iteration"] for row in fit.rows] == [1, 2, 4, 8, 16, 32, 40]
    assert fit.report.reason == "end of the stream"
    stepped = StepwiseEM(Tagger(2, 4))
    stepped.start(corpus(3, seed=0), seed=1)
    losses = [stepped.step(corpus(3, seed=i)) for i in range(40)]
    assert all(torch.equal(fit.weights[name], w) for name, w in stepped.weights.items())
    assert fit.rows[2]["log_likelihood"] == pytest.approx(-(losses[2] + losses[3]) / 2)
    assert fit.rows[-1]["log_likelihood"] == pytest.approx(-np.mean(losses[32:]))
    sizes = {name: x.numel() for name, x in engine.result().state.items()}
    engine.partial_fit(corpus(3, seed=41)).partial_fit(corpus(3, seed=42))
    assert {name: x.numel() for name, x in engine.result().state.items()} == sizes
    assert engine.updates == 42


def test_a_stream_can_be_gone_on_with(tmp_path: Path) -> None:
    whole = StepwiseEM(Tagger(2, 4)).run_stream(stream(20, []), progress=False)
    first = itertools.islice(stream(20, []), 11)
    StepwiseEM(Tagger(2, 4)).run_stream(first, progress=False, checkpoint=tmp_path / "kept")
    rest = itertools.islice(stream(20, []), 11, None)
    fit = StepwiseEM(Tagger(2, 4)).run_stream(rest, progress=False, resume=pu.load(tmp_path / "kept"))
    assert all(torch.equal(fit.weights[name], w) for name, w in whole.weights.items())
    assert [row["iteration"] for row in fit.rows] == [1, 2, 4, 8, 11, 16, 20]
    assert_same(pu.load(tmp_path / "kept"), pu.load(tmp_path / "kept"))


def test_an_interrupted_stream_has_a_checkpoint(tmp_path: Path) -> None:
    def broken() -> Iterator[Batch]:
        yield from itertools.islice(stream(20, []), 9)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        StepwiseEM(Tagger(2, 4)).run_stream(broken(), progress=False, checkpoint=tmp_path / "kept")
    kept = pu.load(tmp_path / "kept")
    assert (kept.report.reason, kept.report.iterations) == ("checkpoint", 8)
    rest = itertools.islice(stream(20, []), 8, None)
    fit = StepwiseEM(Tagger(2, 4)).run_stream(rest, progress=False, resume=kept)
    whole = StepwiseEM(Tagger(2, 4)).run_stream(stream(20, []), progress=False)
    assert all(torch.equal(fit.weights[name], w) for name, w in whole.weights.items())


def test_a_callback_ends_a_stream_and_no_stream_is_an_error() -> None:
    fit = StepwiseEM(Tagger(2, 4)).run_stream(
        stream(20, []), progress=False, callbacks=[lambda info: info.iteration == 4]
    )
    assert (fit.report.reason, fit.report.iterations) == ("stopped by a callback", 4)
    with pytest.raises(FitError, match="the stream held no mini-batches: expected at least one"):
        StepwiseEM(Tagger(2, 4)).run_stream([], progress=False)


# -- what is refused


@pytest.mark.parametrize("power", [0.3, 0.0, 1.1, -1.0, float("nan")])
def test_powers_without_convergence_are_refused(power: float) -> None:
    with pytest.raises(FitError, match=r"power must lie in \(0.5, 1\], so that step sizes add up to infinity"):
        StepwiseEM(Tagger(2, 2), power=power)


def test_the_power_of_the_paper_warns() -> None:
    with pytest.warns(UserWarning, match=r"power 0.5: Liang & Klein \(2009\) use it too, but convergence is only"):
        StepwiseEM(Tagger(2, 2), power=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        StepwiseEM(Tagger(2, 2), power=0.51)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number, 1 or more, actual 0"),
        ({"batch_size": 2.5}, "batch_size must be a whole number, 1 or more, actual 2.5"),
        ({"order_seed": -1}, "order_seed must be a whole number, 0 or more, actual -1"),
        ({"mass": 0.0}, "the mass of the initial counts must be positive and finite, actual 0.0"),
        ({"dtype": torch.float16}, "dtype must be torch.float64 or torch.float32"),
    ],
)
def test_impossible_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(FitError, match=message):
        StepwiseEM(Tagger(2, 2), **options)


def test_a_step_size_outside_the_unit_interval_is_refused() -> None:
    with pytest.raises(FitError, match=r"update 0: a step size must lie in \[0, 1\], actual 2.0"):
        StepwiseEM(Tagger(2, 4), schedule=lambda k: 2.0).step(corpus())


def test_models_with_more_to_learn_than_tables_are_refused() -> None:
    def with_param(x: Tensor) -> None:
        share, mean = pu.multinomial("share", 2), pyro.param("mean", lambda: torch.zeros(2))
        with pyro.plate("data", len(x)):
            z = pyro.sample("z", pu.Categorical(share))
            pyro.sample("x", dist.Normal(mean[z], 1.0), obs=x)

    def with_latent(x: Tensor) -> None:
        share, mean = pu.multinomial("share", 2), pyro.sample("mean", dist.Normal(0.0, 1.0))
        with pyro.plate("data", len(x)):
            z = pyro.sample("z", pu.Categorical(share))
            pyro.sample("x", dist.Normal(mean + z, 1.0), obs=x)

    for model, what in ((with_param, "parameter 'mean'"), (with_latent, "latent variable 'mean'")):
        message = f"StepwiseEM learns tables only, and the model also has {what}: train it with pyro.infer.SVI"
        engine = StepwiseEM(model)
        for _ in range(2):
            with pytest.raises(FitError, match=message):
                engine.step(torch.zeros(3))


def test_data_without_examples_are_refused() -> None:
    with pytest.raises(FitError, match="no examples: expected at least one"):
        Examples.of(mixture, (torch.zeros(0),), {})
    with pytest.raises(FitError, match=r"cannot tell the examples of these data apart \(Tensor, int\): give the model"):
        StepwiseEM(mixture).run(torch.tensor([1, 2]), 1, progress=False)


def test_data_that_forgetting_made_impossible_say_so() -> None:
    engine = StepwiseEM(Tagger(1, 2), schedule=lambda k: 0.999)
    engine.start([[0]])
    for _ in range(160):
        engine.step([[0]])
    with pytest.raises(FitError, match=r"has probability zero: smooth \(AddLambda\), forget more slowly"):
        engine.step([[1]])


def test_the_first_pass_alone_is_not_convergence() -> None:
    """Where one mini-batch holds everything, it finds the log-likelihood of the start again."""
    data = [[0, 1, 2], [2, 1], [0, 1, 1]]
    fit = pu.StepwiseEM(pu.models.Tagger(2, 3), batch_size=100).run(data, iterations=5)
    assert fit.report.iterations > 1


def test_flat_words_with_lengths_are_examples_too() -> None:
    data = [[0, 1, 2], [2, 1], [], [0, 1, 1]]
    words, lengths = torch.tensor([0, 1, 2, 2, 1, 0, 1, 1]), torch.tensor([3, 2, 0, 3])
    one = pu.StepwiseEM(pu.models.Tagger(2, 3), batch_size=2).run(data, iterations=3)
    other = pu.StepwiseEM(pu.models.Tagger(2, 3), batch_size=2).run(words, lengths, iterations=3)
    assert one.objective == other.objective

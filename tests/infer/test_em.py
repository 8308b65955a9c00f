"""EM against enumeration, against hmmlearn, and against its own invariants; and every way it refuses to go on."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import EM, AddLambda, DirichletMAP, FitError, Normalise
from pyro_unsup.models import Tagger

from ..distributions.chain_case import enumerate_chain


def corpus(n: int = 12, V: int = 4, longest: int = 5, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(V, size=rng.integers(1, longest + 1)).tolist() for _ in range(n)]


def start_weights(model: Tagger, data: list[list[int]], seed: int = 0) -> dict[str, Tensor]:
    em = EM(model)
    em.start(data, seed=seed)
    return dict(em.weights)


@pytest.mark.parametrize(("order", "stop"), [(1, False), (1, True), (2, False), (2, True)])
def test_em_equals_em_by_enumeration(order: int, stop: bool) -> None:
    data = corpus()
    model = Tagger(tags=2, vocab=4, order=order, stop=stop)
    weights = start_weights(model, data)
    em = EM(model, init=pu.from_weights(weights))
    for _ in range(4):
        loss = em.step(data)
        chain = pu.Chain(
            weights["start"],
            weights["transition"],
            weights["emission"],
            torch.tensor([1]),
            weights.get("second"),
            flat=True,
        )
        total, counts = 0.0, {name: torch.zeros_like(w) for name, w in weights.items()}
        for sentence in data:
            found = enumerate_chain(chain, sentence)
            total += found.log_z
            for p, used in zip(found.probabilities(), found.counts, strict=True):
                for name in counts:
                    counts[name] += p * used[name]
        assert loss == pytest.approx(-total, rel=1e-12)
        weights = {name: (c / c.sum(-1, keepdim=True)).log() for name, c in counts.items()}
        for name, w in weights.items():
            torch.testing.assert_close(em.weights[name].exp(), w.exp(), rtol=1e-10, atol=1e-12)


def test_em_equals_hmmlearn() -> None:
    hmm = pytest.importorskip("hmmlearn.hmm")
    data = corpus(60, V=6, longest=9)
    model = Tagger(tags=3, vocab=6)
    weights = start_weights(model, data)
    ours = EM(model, init=pu.from_weights(weights)).run(data, iterations=20, tolerance=0)
    theirs = hmm.CategoricalHMM(3, n_features=6, n_iter=20, tol=-math.inf, params="ste", init_params="")
    theirs.startprob_, theirs.transmat_, theirs.emissionprob_ = (
        weights[name].exp().numpy() for name in ("start", "transition", "emission")
    )
    theirs.fit(np.concatenate(data)[:, None], [len(s) for s in data])
    path = [row["objective"] for row in ours.rows[:-1]]
    np.testing.assert_allclose(path, list(theirs.monitor_.history), rtol=1e-9)
    np.testing.assert_allclose(ours.weights["emission"].exp(), theirs.emissionprob_, atol=1e-8)
    np.testing.assert_allclose(ours.weights["transition"].exp(), theirs.transmat_, atol=1e-8)


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(
    seed=st.integers(0, 10_000),
    order=st.integers(1, 2),
    stop=st.booleans(),
    how=st.sampled_from([Normalise(), AddLambda(0.3), DirichletMAP(1.7)]),
)
def test_the_objective_never_falls(seed: int, order: int, stop: bool, how: pu.estimate.Estimator) -> None:
    fit = EM(Tagger(3, 4, order, stop=stop), how).run(corpus(20, seed=seed), iterations=30, tolerance=0, seed=seed)
    values = [row["objective"] for row in fit.rows]
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(values))
    assert values[-1] > values[0]


@pytest.mark.parametrize("order", [1, 2])
def test_shuffling_relabelling_and_doubling_change_nothing(order: int) -> None:
    data = corpus(30, V=5)
    model = Tagger(3, 5, order, stop=True)
    weights = start_weights(model, data)

    def path(data: list[list[int]], weights: dict[str, Tensor]) -> np.ndarray:
        fit = EM(model, init=pu.from_weights(weights)).run(data, iterations=15, tolerance=0)
        return np.array([row["objective"] for row in fit.rows])

    plain = path(data, weights)
    np.testing.assert_allclose(path(data[::-1], weights), plain, rtol=1e-12)
    np.testing.assert_allclose(path(data + data, weights), 2 * plain, rtol=1e-12)
    p = torch.tensor([2, 0, 1])
    out = torch.tensor([2, 0, 1, 3])
    moved = {"start": weights["start"][p], "emission": weights["emission"][p]}
    moved["transition"] = weights["transition"][p][..., out] if order == 1 else weights["transition"][p][:, p][..., out]
    if order == 2:
        moved["second"] = weights["second"][p][:, out]
    np.testing.assert_allclose(path(data, moved), plain, rtol=1e-12)


def test_step_and_run_are_the_same_engine() -> None:
    data = corpus()
    stepped, whole = EM(Tagger(2, 4)), EM(Tagger(2, 4))
    losses = [stepped.step(data) for _ in range(5)]
    fit = whole.run(data, iterations=5, tolerance=0)
    assert [-row["objective"] for row in fit.rows[:-1]] == losses
    assert fit.rows[-1]["objective"] == pytest.approx(-stepped.evaluate_loss(data), rel=1e-12)
    for name, w in fit.weights.items():
        assert torch.equal(w, stepped.weights[name])


def test_a_second_run_goes_on_and_the_same_seed_gives_the_same_result() -> None:
    data = corpus()
    once = EM(Tagger(2, 4)).run(data, iterations=10, tolerance=0, seed=3)
    twice = EM(Tagger(2, 4))
    twice.run(data, iterations=5, tolerance=0, seed=3)
    again = twice.run(data, iterations=5, tolerance=0)
    other = EM(Tagger(2, 4)).run(data, iterations=10, tolerance=0, seed=4)
    assert all(torch.equal(once.weights[name], again.weights[name]) for name in once.weights)
    assert not torch.equal(once.weights["start"], other.weights["start"])


def test_converges_to_a_tight_tolerance_where_the_gradient_vanishes() -> None:
    data = corpus(40)
    fit = EM(Tagger(2, 4), AddLambda(0.5)).run(data, iterations=5000, tolerance=1e-12)
    assert fit.report.converged
    assert fit.report.change <= 1e-12
    assert "converged after" in str(fit.report)
    counts = fit.posterior(data).counts
    for name, w in fit.weights.items():  # at a fixed point the smoothed counts are the weights
        c = counts[name] + 0.5
        torch.testing.assert_close(c / c.sum(-1, keepdim=True), w.exp(), rtol=1e-3, atol=1e-4)


def test_restarts_report_their_spread_and_do_not_depend_on_processes() -> None:
    data = corpus(40)
    alone = EM(Tagger(3, 4)).run(data, iterations=10, restarts=3, processes=1, seed=5, progress=False)
    together = EM(Tagger(3, 4)).run(data, iterations=10, restarts=3, processes=2, seed=5, progress=False)
    singles = [EM(Tagger(3, 4)).run(data, iterations=10, seed=5 + i).objective for i in range(3)]
    assert alone.report.restarts == together.report.restarts == singles
    assert together.objective == max(singles)
    assert together.seed == 5 + singles.index(max(singles))
    assert all(torch.equal(alone.weights[name], together.weights[name]) for name in alone.weights)
    assert "best of 3 restarts" in str(together.report)
    assert together.report.spread == (min(singles), pytest.approx(np.mean(singles)), max(singles))


def test_callbacks_see_every_iteration_and_may_stop() -> None:
    seen: list[int] = []
    fit = EM(Tagger(2, 4)).run(
        corpus(), tolerance=0, callbacks=[lambda info: seen.append(info.iteration) or len(seen) > 4]
    )
    assert seen == [0, 1, 2, 3, 4]
    assert fit.report.reason == "stopped by a callback"
    assert list(fit.history["iteration"]) == seen


def test_an_interrupt_keeps_what_was_learned() -> None:
    data, em = corpus(), EM(Tagger(2, 4))

    def interrupt(info: pu.infer.Info) -> None:
        if info.iteration == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        em.run(data, tolerance=0, callbacks=[interrupt])
    fit = em.run(data, iterations=2, tolerance=0)
    whole = EM(Tagger(2, 4)).run(data, iterations=5, tolerance=0)
    assert fit.objective == whole.objective


def test_float32_is_close() -> None:
    data = corpus(40)
    double = EM(Tagger(2, 4)).run(data, iterations=10, tolerance=0)
    single = EM(Tagger(2, 4), dtype=torch.float32).run(data, iterations=10, tolerance=0)
    assert single.weights["emission"].dtype == torch.float32
    assert single.objective == pytest.approx(double.objective, rel=1e-5)


def test_estimators_by_table() -> None:
    data = [[0, 0, 1], [1, 0]]  # word 2 never occurs
    fit = EM(Tagger(2, 3), {"emission": AddLambda(1.0)}).run(data, iterations=5, tolerance=0)
    assert (fit.weights["emission"][:, 2] > -torch.inf).all()
    plain = EM(Tagger(2, 3)).run(data, iterations=5, tolerance=0)
    assert (plain.weights["emission"][:, 2] == -torch.inf).all()


def test_structural_zeros_stay() -> None:
    mask = torch.tensor([[True, True, False, True], [False, True, True, True]])
    fit = EM(Tagger(2, 4, dictionary=mask), AddLambda(0.1)).run(corpus(), iterations=10, tolerance=0)
    assert (fit.weights["emission"][~mask] == -torch.inf).all()
    assert (fit.weights["emission"][mask] > -torch.inf).all()


# -- what EM refuses


def test_an_empty_row_is_an_error_that_names_table_and_iteration() -> None:
    data = [[0, 1], [1, 0]]
    w = start_weights(Tagger(2, 2), data)
    w["start"] = torch.tensor([1.0, 0.0]).log()
    w["transition"] = torch.tensor([[1.0, 0.0], [0.5, 0.5]]).log()  # state 1 cannot be reached
    with pytest.raises(
        FitError, match=r"iteration 0: table 'transition': row \(1,\) has no expected counts.*AddLambda"
    ):
        EM(Tagger(2, 2), init=pu.from_weights(w)).run(data)
    assert EM(Tagger(2, 2), AddLambda(0.1), init=pu.from_weights(w)).run(data).report.iterations > 0


def test_rows_of_contexts_that_the_corpus_never_visits_are_kept_and_reported() -> None:
    mask = torch.tensor([[True, False, False], [False, True, False], [False, False, True]])
    fit = EM(Tagger(3, 3, order=2, dictionary=mask)).run([[0, 1, 2], [0, 1]], iterations=3, tolerance=0)
    assert fit.report.unvisited["transition"] == 8
    assert "table 'transition': 8 rows were never visited" in str(fit.report)


def test_an_impossible_sentence_is_named() -> None:
    data = [[0, 1], [1, 0]]
    w = start_weights(Tagger(2, 2), data)
    w["start"] = torch.tensor([1.0, 0.0]).log()
    w["emission"] = torch.tensor([[1.0, 0.0], [0.5, 0.5]]).log()
    with pytest.raises(FitError, match="iteration 0: item 1 of site 'words' has probability zero"):
        EM(Tagger(2, 2), init=pu.from_weights(w)).run(data)


def test_nan_is_never_converged() -> None:
    def model(x: Tensor) -> None:
        z = pu.multinomial("z", 2)
        scale = pyro.param("scale", torch.tensor(1.0))
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", pu.Categorical(z))
            pyro.sample("x", dist.Normal(torch.tensor([0.0, 1.0])[k], (scale - 2).log(), validate_args=False), obs=x)

    pyro.enable_validation(False)
    with pytest.warns(UserWarning, match="Encountered NaN"), pytest.raises(FitError, match=r"iteration 0: .*NaN"):
        EM(model).run(torch.randn(5))


def test_a_falling_objective_is_an_error() -> None:
    calls = {"n": 0}

    def model(x: Tensor) -> None:  # changes its mind between runs
        calls["n"] += 1
        z = pu.multinomial("z", 2)
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", pu.Categorical(z))
            pyro.sample("x", dist.Normal(torch.tensor([0.0, 1.0])[k], float(calls["n"])), obs=x)

    with pytest.raises(FitError, match=r"iteration \d: the objective fell from .* EM cannot do that"):
        EM(model).run(torch.zeros(5), tolerance=0)


def test_a_stock_categorical_where_counts_are_needed_is_refused() -> None:
    def model(x: Tensor) -> None:
        z = pu.multinomial("z", 2)
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", dist.Categorical(logits=z))
            pyro.sample("x", dist.Normal(torch.tensor([0.0, 1.0])[k], 1.0), obs=x)

    with pytest.raises(FitError, match=r"site 'k' uses Categorical with table 'z'.*Use pyro_unsup.Categorical"):
        EM(model).step(torch.zeros(5))


def test_a_table_that_nothing_uses_and_a_model_with_nothing_to_learn() -> None:
    def unused(x: Tensor) -> None:
        pu.multinomial("ghost", 2)
        z = pu.multinomial("z", 2)
        with pyro.plate("data", len(x)):
            pyro.sample("x", pu.Categorical(z), obs=x)

    with pytest.raises(FitError, match="iteration 0: table 'ghost' got no counts at all"):
        EM(unused).step(torch.tensor([0, 1]))
    with pytest.raises(FitError, match="nothing to learn"):
        EM(lambda x: pyro.sample("x", dist.Normal(0.0, 1.0), obs=x)).step(torch.tensor(0.0))


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(FitError, match="restarts must be at least 1"):
        EM(Tagger(2, 2)).run([[0, 1]], restarts=0)
    with pytest.raises(FitError, match="dtype must be"):
        EM(Tagger(2, 2), dtype=torch.float16)
    with pytest.raises(pu.TableError, match="finite and not negative"):
        AddLambda(-1)


# -- a user's own models


def test_an_m_step_of_densities_above_one_is_kept() -> None:
    """In small units densities exceed 1 and log-likelihoods are positive: nothing may depend on their sign."""
    x = torch.cat([0.01 * torch.randn(40), 0.5 + 0.01 * torch.randn(40)])

    def model(x: Tensor) -> None:
        share = pu.multinomial("share", 2)
        centre = pyro.param("centre", torch.tensor([0.1, 0.3]))
        scale = pyro.param("scale", torch.tensor(0.1), constraint=dist.constraints.greater_than(1e-4))
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", pu.Categorical(share))
            pyro.sample("x", dist.Normal(centre[k], scale), obs=x)

    fit = EM(model).run(x, iterations=50)
    assert fit.objective > 0
    torch.testing.assert_close(fit.params["centre"], torch.stack([x[:40].mean(), x[40:].mean()]), atol=1e-6, rtol=0)
    assert fit.log_likelihood(x) == pytest.approx(fit.objective, rel=1e-9)
    assert fit.predict(x)["k"].tolist() == [0] * 40 + [1] * 40


def test_later_runs_do_not_change_an_earlier_fit() -> None:
    def model(x: Tensor) -> None:
        share = pu.multinomial("share", 2)
        centre = pyro.param("centre", torch.tensor([-1.0, 1.0]))
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", pu.Categorical(share))
            pyro.sample("x", dist.Normal(centre[k], 1.0), obs=x)

    x = torch.randn(30)
    em = EM(model)
    first = em.run(x, iterations=2, tolerance=0)
    before = first.params["centre"].clone()
    em.run(x, iterations=3, tolerance=0, resume=first)
    assert torch.equal(first.params["centre"], before)


def test_masked_positions_of_an_enumerated_chain_are_not_counted() -> None:
    lengths = torch.tensor([3, 1, 2])
    words = torch.tensor([[0, 1, 2], [2, 0, 0], [1, 1, 0]])
    tables = {"start": (2,), "transition": (2, 2), "emission": (2, 3)}
    unnormalised = {name: torch.randn(shape) for name, shape in tables.items()}

    def model(words: Tensor) -> None:
        start, transition, emission = (pu.multinomial(name, *shape) for name, shape in tables.items())
        with pyro.plate("sentences", 3):
            z = None
            for t in pyro.markov(range(3)):
                with pyro.poutine.mask(mask=t < lengths):
                    z = pyro.sample(f"z_{t}", pu.Categorical(start if z is None else transition[z]))
                    pyro.sample(f"x_{t}", pu.Categorical(emission[z]), obs=words[:, t])

    em = EM(model, init=lambda declarations, generator: unnormalised)
    em.start(words)
    info = em.look()
    chain = pu.Chain(*unnormalised.values(), lengths).posterior(words)
    assert info.objective == pytest.approx(float(chain.log_partition.sum()), rel=1e-12)
    assert em._expected is not None
    for name, counts in em._expected.counts.items():
        torch.testing.assert_close(counts, chain.counts[name])


def test_a_table_used_as_a_number_is_refused() -> None:
    def model(x: Tensor) -> None:
        w = pu.multinomial("w", 2)
        pyro.sample("x", dist.Normal(w.exp()[0], 1.0), obs=x)

    with pytest.raises(
        FitError, match="iteration 0: table 'w' got negative counts, so the model uses it other than as"
    ):
        EM(model).step(torch.tensor(-3.0))


def test_continuous_latents_are_estimated_at_their_mode() -> None:
    x = torch.tensor([0.9, 1.1, 1.3])

    def model(x: Tensor) -> None:
        mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
        with pyro.plate("data", len(x)):
            pyro.sample("x", dist.Normal(mean, 1.0), obs=x)

    fit = EM(model).run(x)
    assert float(fit.points["mean"]) == pytest.approx(float(x.sum()) / 4, abs=1e-6)


def test_a_collapsing_scale_says_when_and_what_to_do() -> None:
    def model(x: Tensor) -> None:
        scale = pyro.param("scale", torch.tensor(1.0), constraint=dist.constraints.positive)
        with pyro.plate("data", len(x)):
            pyro.sample("x", dist.Normal(0.0, scale), obs=x)

    with pytest.raises(FitError, match=r"iteration \d+: .*greater_than"):
        EM(model).run(torch.zeros(3), iterations=200, tolerance=0)


def test_scores_become_columns_of_the_history() -> None:
    data = corpus()
    states = lambda fit: {"states": len(fit.predict(data).unique())}  # noqa: E731
    fit = EM(Tagger(2, 4)).run(data, iterations=3, tolerance=0, score=states)
    assert list(fit.history["states"]) == [row["states"] for row in fit.rows]
    assert len(fit.rows) == 4
    one = EM(Tagger(2, 4)).run(data, iterations=1, tolerance=0, score=lambda fit: fit.report.iterations)
    assert [row["score"] for row in one.rows] == [0.0, 1.0]
    again = EM(Tagger(2, 4)).run(data, iterations=2, tolerance=0, resume=one, score=lambda fit: fit.report.iterations)
    assert [row["score"] for row in again.rows] == [0.0, 1.0, 2.0]


def test_restarts_begin_anew_and_each_with_its_own_network() -> None:
    fit = EM(Tagger(2, 4)).run(corpus(), iterations=1)
    with pytest.raises(FitError, match="restarts begin anew"):
        EM(Tagger(2, 4)).run(corpus(), restarts=2, resume=fit)
    x = torch.randn(20)
    net = torch.nn.Linear(1, 2)

    def model(x: Tensor) -> None:
        share = pu.multinomial("share", 2)
        centre = pyro.module("net", net)(torch.ones(1))
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", pu.Categorical(share))
            pyro.sample("x", dist.Normal(centre[k], 1.0), obs=x)

    many = EM(model, init=pu.uniform()).run(x, iterations=2, tolerance=0, restarts=2, processes=1, progress=False)
    first, second = many.report.restarts
    assert first == pytest.approx(second, rel=1e-12)  # the same start twice, not the second going on from the first


def test_a_checkpoint_folder_that_cannot_be_used_is_noticed_at_once(tmp_path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not replace")
    with pytest.raises(pu.InputError, match="is not a fit, so it is not replaced"):
        EM(Tagger(2, 4)).run(corpus(), checkpoint=tmp_path / "mine")
    fit = EM(Tagger(2, 4)).run(corpus(), iterations=2, tolerance=0, checkpoint=tmp_path / "run")
    assert pu.load(tmp_path / "run").objective == fit.objective


def test_the_impossible_item_is_the_one_that_no_state_can_explain() -> None:
    support = torch.tensor([[True, False, False], [True, True, False]])

    def model(x: Tensor) -> None:
        share, emission = pu.multinomial("share", 2), pu.multinomial("emission", 2, 3, support=support)
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", pu.Categorical(share))
            pyro.sample("x", pu.Categorical(emission[k]), obs=x)

    with pytest.raises(FitError, match="iteration 0: item 2 of site 'x' has probability zero"):
        EM(model).step(torch.tensor([1, 0, 2]))


def test_a_nan_density_in_a_chain_is_an_error_with_its_iteration() -> None:
    def model(x: Tensor) -> None:
        start, transition = pu.multinomial("start", 2), pu.multinomial("transition", 2, 2)
        density = dist.Normal(torch.tensor([[0.0], [1.0]]), 1.0, validate_args=False).log_prob(x)
        with pyro.plate("sequences", 1):
            pyro.sample("x", pu.Chain(start, transition, density, torch.tensor([3]), flat=True), obs=torch.arange(3))

    with pytest.raises(FitError, match=r"iteration 0: .*emission holds NaN"):
        EM(model).step(torch.tensor([0.0, float("nan"), 1.0]))


def test_an_estimator_for_a_table_that_is_not_there() -> None:
    with pytest.raises(FitError, match=r"estimate names tables that the model does not have: \['emision'\]"):
        EM(Tagger(2, 4), {"emision": AddLambda(1.0)}).step(corpus())

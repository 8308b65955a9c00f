"""Weights of its own for every example: the bound against enumeration and quadrature, and what a fit leaves behind."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import Trace_ELBO
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

import pyro_unsup as pu
from pyro_unsup import FitError, HierarchicalEM, TableError
from pyro_unsup import components as c
from pyro_unsup.distributions import Dependency
from pyro_unsup.estimate.normal.empirical_normal import JITTER
from pyro_unsup.estimate.table_rows import TableRows
from pyro_unsup.infer import hierarchical, own_weights
from pyro_unsup.models import CCM, DMV, DMVCCM, Aligner, Clusterer, Segmenter, Tagger
from pyro_unsup.results.table_posterior import table_posterior, to_table

from ..distributions.dependency_case import enumerate_trees
from ..results.cases import assert_same

SENTENCES = [[0, 1, 2, 0], [2, 1], [0, 1, 1, 3], [3, 3, 0, 1], [1]]
BITEXT = ([[0, 1], [0, 2], [1], [2, 1, 0]], [[3, 4], [3, 5], [4, 3], [5, 4]])
MASK = torch.tensor([[True, True, False, True], [False, True, True, True]])


def clusters(words: Tensor) -> None:
    """Nobody's library model, a ragged table in it: one word an example."""
    share, kinds = pu.multinomial("share", 2), pu.multinomial("kinds", row_lengths=[3, 5])
    with pyro.plate("words", len(words)):
        kind = pyro.sample("kind", pu.Categorical(share))
        table = torch.stack([torch.cat([kinds[:3], kinds.new_full((2,), -torch.inf)]), kinds[3:]])
        pyro.sample("word", pu.Categorical(table[kind]), obs=words)


#: Those that take the weights of many examples at once, and others.
TOGETHER: dict[str, tuple[Any, Any]] = {
    "trees": (DMV(4), SENTENCES),
    "bigram": (Tagger(2, 4), SENTENCES),
    "trigram with a dictionary": (Tagger(2, 4, 2, MASK, stop=True), SENTENCES),
    "brackets": (CCM.of(SENTENCES, vocab=4, empty_spans=True), SENTENCES),
    "brackets given widths": (CCM.of(SENTENCES, vocab=4, variant=2), SENTENCES),
    "both": (DMVCCM.of(SENTENCES, vocab=4), SENTENCES),
    "segments": (Segmenter.of(SENTENCES, vocab=4, max_length=3), SENTENCES),
    "documents": (Clusterer(2, 4), SENTENCES),
}
APART: dict[str, tuple[Any, Any]] = {
    "links": (Aligner.of(BITEXT, source=3, target=6, agreement=None), BITEXT),
    "enumerated": (clusters, torch.tensor([0, 1, 2, 4, 4, 0])),
    "constrained": (pu.constrain(DMV(4), c.short_dependencies(limit=1)), SENTENCES),
}
CASES = {**TOGETHER, **APART}
every = pytest.mark.parametrize(("model", "data"), CASES.values(), ids=CASES)
covariances = pytest.mark.parametrize("covariance", ["diagonal", "full"])


def run(model: Any, data: Any, iterations: int = 6, **options: Any) -> pu.Fit:
    of_run = {
        key: options.pop(key) for key in ("seed", "resume", "restarts", "processes", "checkpoint") & options.keys()
    }
    return HierarchicalEM(model, **options).run(data, iterations=iterations, tolerance=0, progress=False, **of_run)


def objectives(fit: pu.Fit) -> list[float]:
    return [row["objective"] for row in fit.rows]


# -- the bound


@every
@covariances
def test_the_bound_never_falls(model: Any, data: Any, covariance: Any) -> None:
    fit = run(model, data, 8, covariance=covariance, strict=True)
    bounds = objectives(fit)
    assert all(b >= a - 1e-8 * abs(a) for a, b in itertools.pairwise(bounds))
    assert bounds[-1] > bounds[0]


LABELS = {0: "even", 2: "even", "left": "side", "right": "side", (0,): "from 0", (0, 1): "from 0"}
STARTS: dict[str, Any] = {
    "matrix": (0.6 * np.eye(4) + 0.4).tolist(),
    "variances": np.linspace(0.3, 2, 4),
    "families": LABELS,
}


@pytest.mark.parametrize("covariance", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("name", ["trees", "bigram", "trigram with a dictionary", "documents", "links"])
def test_it_never_falls_from_a_covariance_of_ones_own(name: str, covariance: Any) -> None:
    model, data = CASES[name]
    if name == "links" and not isinstance(covariance, dict):
        return  # no table has four outcomes
    bounds = objectives(run(model, data, 8, covariance=covariance, strict=True, variance=2.0, within=0.7))
    assert all(b >= a - 1e-8 * abs(a) for a, b in itertools.pairwise(bounds))
    assert bounds[-1] > bounds[0]


def test_a_covariance_of_ones_own_is_where_it_starts() -> None:
    matrix = 0.6 * torch.eye(4) + 0.4
    first = run(DMV(4), SENTENCES, 0, covariance=matrix, variance=3.0)
    torch.testing.assert_close(first.memory["attach.covariance"], matrix.expand(8, 4, 4))
    assert first.memory["stop.covariance"].unique().tolist() == [3.0]  # two outcomes: it says nothing of them
    assert first.config["covariance"] == "tensor of shape (4, 4)"
    later = run(DMV(4), SENTENCES, 4, covariance=matrix).memory["attach.covariance"]
    assert later.shape == (8, 4, 4)
    assert not torch.allclose(later, first.memory["attach.covariance"])
    one = run(Clusterer(4, 4), SENTENCES, 5, covariance="full", variance=2.0)
    same = run(Clusterer(4, 4), SENTENCES, 5, covariance=2 * torch.eye(4), variance=2.0)
    torch.testing.assert_close(one.memory["words.covariance"], same.memory["words.covariance"])


def test_families_are_where_it_starts() -> None:
    model = DMV(pu.data.Vocab(["NN", "NNS", "VB", "DT"]))
    fit = run(model, SENTENCES, 0, covariance={"NN": "noun", "NNS": "noun"}, variance=2.0, within=0.25)
    expected = 2 * torch.eye(4)
    expected[0, 1] = expected[1, 0] = 0.5
    torch.testing.assert_close(fit.memory["root.covariance"], expected[None])
    torch.testing.assert_close(fit.memory["attach.covariance"], expected.expand(8, 4, 4))
    assert fit.memory["stop.covariance"].dim() == 1
    assert fit.config["covariance"] == "families of 2 labels"
    assert fit.config["within"] == 0.25


@pytest.mark.parametrize("covariance", ["diagonal", "full", LABELS], ids=["diagonal", "full", "families"])
@pytest.mark.parametrize("name", ["trees", "trigram with a dictionary", "brackets given widths", "segments"])
def test_the_guide_draws_the_tables_of_a_new_example(name: str, covariance: Any) -> None:
    model, data = TOGETHER[name]
    fit = run(model, data, 4, covariance=covariance)
    for table, declaration in model.declarations().items():
        q, layout = table_posterior(fit, declaration, torch.float64), declaration.layout
        if f"{table}.mean" not in fit.memory:
            assert isinstance(q, dist.Delta)
            continue
        pyro.set_rng_seed(0)
        draws = to_table(layout, q.sample((6000,)))
        assert bool(torch.isfinite(q.log_prob(q.sample())).all())
        torch.testing.assert_close(layout.row_sum(draws[5]), torch.ones(layout.rows))
        rows = TableRows.of(layout)
        flat = draws.log().flatten(1)
        flat = flat if rows.cells is None else flat[:, rows.cells]
        mean, sigma = fit.memory[f"{table}.mean"], fit.memory[f"{table}.covariance"]
        for row, (a, b) in enumerate(itertools.pairwise(rows.offsets.tolist())):
            own = sigma[a:b].diag() if sigma.dim() == 1 else sigma[row, : b - a, : b - a]
            logit, variance = flat[:, a] - flat[:, a + 1], own[0, 0] + own[1, 1] - 2 * own[0, 1]
            assert abs(float(logit.mean() - (mean[a] - mean[a + 1]))) < 5 * math.sqrt(float(variance) / 6000)
            assert float(logit.var()) == pytest.approx(float(variance), rel=0.12)
    assert math.isfinite(Trace_ELBO().loss(fit.model, fit.guide(), data))


def test_arviz_has_tables_of_new_examples() -> None:
    pytest.importorskip("arviz")
    fit = run(DMV(4), SENTENCES, 4, covariance="full")
    found = fit.to_arviz(draws=50)["posterior"]["attach"].values
    assert found.shape == (1, 50, 4, 2, 4)
    np.testing.assert_allclose(found.sum(-1), 1)
    assert (found.std(1) > 0).all()


@pytest.mark.parametrize("rounds", [3])
@pytest.mark.parametrize("name", ["trees", "links"])
def test_more_rounds_raise_it_further_in_an_iteration(name: str, rounds: int) -> None:
    model, data = CASES[name]
    one, more = run(model, data, 5), run(model, data, 5, rounds=rounds, strict=True)
    bounds = objectives(more)
    assert all(b >= a - 1e-8 * abs(a) for a, b in itertools.pairwise(bounds))
    assert bounds[1] > objectives(one)[1]


@pytest.mark.parametrize(("model", "data"), TOGETHER.values(), ids=TOGETHER)
def test_examples_together_are_examples_one_by_one(model: Any, data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    together = run(model, data)
    monkeypatch.setattr(own_weights, "TOGETHER", 2)  # of five: the last is alone
    some = run(model, data)
    monkeypatch.setattr(type(model), "own_weights", False)
    alone = run(model, data)
    for other in (some, alone):
        np.testing.assert_allclose(objectives(other), objectives(together), rtol=1e-11)
        for key, x in together.memory.items():
            torch.testing.assert_close(other.memory[key], x, rtol=1e-7, atol=1e-9)


def even(length: int) -> Dependency:
    return Dependency(torch.zeros(2), torch.zeros(2, 2, 2), torch.zeros(2, 2, 2, 2), torch.tensor([length]))


class Oracle:
    """Two tags, so that every row has two outcomes: sums over all trees, integrals by quadrature."""

    def __init__(self, sentences: list[list[int]]) -> None:
        self.sentences = sentences
        self.trees = [  # by sentence and tree, the counts of every table
            enumerate_trees(even(len(tags)), 0, tags).counts for tags in sentences
        ]

    @staticmethod
    def gaussians(fit: pu.Fit, name: str) -> list[tuple[Tensor, Tensor]]:
        """The prior of every row."""
        mean, covariance = fit.memory[f"{name}.mean"].reshape(-1, 2), fit.memory[f"{name}.covariance"]
        whole = torch.diag_embed(covariance.reshape(-1, 2)) if covariance.dim() == 1 else covariance
        return list(zip(mean, whole, strict=True))

    def log_evidence(self, fit: pu.Fit) -> float:
        points, weights = (torch.from_numpy(x) for x in np.polynomial.hermite_e.hermegauss(100))
        logs = {}
        for name in fit.weights:
            for row, (mean, S) in enumerate(self.gaussians(fit, name)):
                logit = mean[0] - mean[1] + (S[0, 0] + S[1, 1] - 2 * S[0, 1]).sqrt() * points
                logs[name, row] = torch.nn.functional.logsigmoid(torch.stack([logit, -logit]))
        log_weights = weights.log() - 0.5 * math.log(2 * math.pi)

        def tree(counts: dict[str, Tensor]) -> float:
            rows = [(logs[name, row], f) for name, x in counts.items() for row, f in enumerate(x.reshape(-1, 2))]
            return sum(float((f @ each + log_weights).logsumexp(0)) for each, f in rows if float(f.sum()))

        return sum(float(torch.tensor([tree(one) for one in trees]).logsumexp(0)) for trees in self.trees)

    def bound(self, fit: pu.Fit) -> float:
        """Spelled out: log Z of every sentence under its psi, minus divergences, minus what keeps covariances."""
        total = 0.0
        psi: list[dict[str, Tensor]] = [
            {name: torch.zeros(w.shape) for name, w in fit.weights.items()} for _ in self.trees
        ]
        for name in fit.weights:
            priors, state = self.gaussians(fit, name), {key: fit.state[f"{name}.{key}"] for key in ("examples", "rows")}
            m, s2 = (fit.state[f"{name}.{key}"].reshape(-1, 2) for key in ("mean", "variance"))
            for example, row, mine, spread in zip(*state.values(), m, s2, strict=True):
                mean, S = priors[row]
                q = MultivariateNormal(mine, spread.diag())
                total -= float(kl_divergence(q, MultivariateNormal(mean, S)))
                total -= 0.5 * JITTER * float(torch.linalg.inv(S).trace())
                psi[example][name].view(-1, 2)[row] = mine - (mine + spread / 2).logsumexp(0)
        for own, trees in zip(psi, self.trees, strict=True):
            scores = [sum(float((own[name] * f).sum()) for name, f in one.items()) for one in trees]
            total += float(torch.tensor(scores).logsumexp(0))
        return total

    def used(self, name: str) -> set[tuple[int, int]]:
        return {
            (example, int(row))
            for example, trees in enumerate(self.trees)
            for one in trees
            for row in one[name].reshape(-1, 2).sum(-1).nonzero().flatten()
        }


TWO_TAGS = [[0, 1, 0], [1], [1, 1, 0, 1]]


@covariances
@pytest.mark.parametrize("iterations", [0, 3])
def test_the_objective_is_the_bound_and_pairs_are_those_that_some_tree_uses(covariance: Any, iterations: int) -> None:
    fit, oracle = run(DMV(2), TWO_TAGS, iterations, covariance=covariance, variance=0.7), Oracle(TWO_TAGS)
    assert fit.objective == pytest.approx(oracle.bound(fit), rel=1e-9)
    for name in fit.weights:
        pairs = zip(fit.state[f"{name}.examples"].tolist(), fit.state[f"{name}.rows"].tolist(), strict=True)
        assert set(pairs) == oracle.used(name)


@covariances
def test_the_bound_is_below_the_exact_evidence(covariance: Any) -> None:
    oracle = Oracle(TWO_TAGS)
    for iterations in (0, 1, 2, 10):
        fit = run(DMV(2), TWO_TAGS, iterations, covariance=covariance)
        assert fit.objective < oracle.log_evidence(fit)


def test_the_bound_is_near_the_exact_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """At its best for priors that stay as they are: the nearer, the less weights vary. Weights with variance v sum to
    exp(-v / 2) or more, so a choice loses no more than that."""
    monkeypatch.setattr(hierarchical, "reestimated", lambda prior, pairs, posterior: prior)
    oracle = Oracle(TWO_TAGS)
    choices = sum(float(x.sum()) for trees in oracle.trees for x in trees[0].values())  # as many in any tree
    assert choices == 4 * 8 - 3
    for variance in (1e-3, 0.1, 1.0):
        fit = run(DMV(2), TWO_TAGS, 20, variance=variance)
        cost = JITTER / variance * sum(len(x) for key, x in fit.state.items() if key.endswith(".rows"))
        assert 0 < oracle.log_evidence(fit) - (fit.objective + cost) < 0.5 * variance * choices


@pytest.mark.parametrize("name", ["trees", "bigram", "links"])
def test_without_variance_it_is_the_likelihood(name: str) -> None:
    model, data = CASES[name]
    start = pu.noise(1.0)
    likelihood = pu.EM(model, init=start).run(data, iterations=0).objective
    fit = run(model, data, 0, init=start, variance=1e-11)
    assert fit.rows[0]["log_likelihood"] == pytest.approx(likelihood, abs=1e-8)


# -- what is learned


def test_tables_are_proper_and_decode_new_sentences() -> None:
    model = DMV(4)
    fit = run(model, SENTENCES, init=model.harmonic_start(SENTENCES))
    for name, w in fit.weights.items():
        torch.testing.assert_close(w.exp().sum(-1), torch.ones(w.shape[:-1]))
        torch.testing.assert_close(fit.memory[f"{name}.mean"].reshape(w.shape).log_softmax(-1), w)
    assert fit.predict([[0, 1, 2]]).shape == (3,)
    assert fit.memory["attach.covariance"].shape == (32,)
    assert run(model, SENTENCES, covariance="full").memory["attach.covariance"].shape == (8, 4, 4)
    assert fit.config["engine"] == "HierarchicalEM"
    assert fit.config["estimate"] == "a logistic normal of each example"


def test_sentences_that_differ_make_a_wide_prior() -> None:
    """Half of the documents have only the first word, the others only the second; or all have both."""
    apart = run(Clusterer(1, 2), [[0] * 20, [1] * 20] * 10, 40, init=pu.uniform())
    alike = run(Clusterer(1, 2), [[0, 1] * 10] * 20, 40)
    assert float(apart.memory["words.covariance"].sum()) > 10  # of the difference, which alone matters
    assert float(alike.memory["words.covariance"].sum()) < 0.1
    torch.testing.assert_close(apart.weights["words"].exp(), torch.full((1, 2), 0.5))


def test_the_start_is_the_mean() -> None:
    model = DMV(4)
    start = model.harmonic_start(SENTENCES)
    fit = run(model, SENTENCES, 0, init=start)
    for name, w in start({}, torch.Generator()).items():
        torch.testing.assert_close(fit.weights[name], w)


def test_rows_that_no_example_uses_keep_their_prior_and_are_counted() -> None:
    fit = run(DMV(5), SENTENCES)  # the fifth tag does not occur
    assert fit.report.unvisited["stop"] >= 4
    before = run(DMV(5), SENTENCES, 0)
    assert torch.equal(fit.memory["stop.mean"][-8:], before.memory["stop.mean"][-8:])
    assert not torch.equal(fit.memory["stop.mean"][:8], before.memory["stop.mean"][:8])


def test_tables_without_a_choice_are_left_alone() -> None:
    fit = run(Clusterer(1, 3), [[0, 1], [2, 2, 1]])
    assert fit.weights["cluster"].tolist() == [0.0]
    assert sorted(fit.memory) == ["words.covariance", "words.mean"]


# -- runs


def test_seeds() -> None:
    model, data = CASES["bigram"]
    assert_same(run(model, data, seed=3), run(model, data, seed=3), seconds=False)
    assert run(model, data, seed=3).objective != run(model, data, seed=4).objective
    best = run(model, data, restarts=3, processes=1)
    assert best.report.restarts == [run(model, data, seed=seed).objective for seed in range(3)]
    assert best.objective == max(best.report.restarts)


def test_steps_are_iterations() -> None:
    model, data = CASES["trees"]
    engine = HierarchicalEM(model)
    losses = [engine.step(data) for _ in range(3)] + [engine.evaluate_loss(data)]
    assert [-loss for loss in losses] == objectives(run(model, data, 3))
    assert engine.iteration == 3


RESUMED: dict[str, dict[str, Any]] = {
    "trees": {},
    "bigram": {"dtype": torch.float32, "rounds": 2},
    "brackets given widths": {"covariance": "full"},
    "links": {"covariance": "full"},
    "segments": {"covariance": LABELS, "within": 0.3},
}


@pytest.mark.parametrize(("name", "options"), RESUMED.items(), ids=RESUMED)
def test_eight_iterations_are_three_saved_loaded_and_five_more(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    model, data = CASES[name]
    whole = run(model, data, 8, **options)
    run(model, data, 3, seed=0, checkpoint=tmp_path / "half", **options)
    half = pu.load(tmp_path / "half")
    rest = run(model, data, 8, resume=half, **options)
    assert_same(rest, whole, seconds=False)
    rest.save(tmp_path / "whole")
    assert_same(pu.load(tmp_path / "whole"), rest)


def test_going_on_with_the_same_engine() -> None:
    model, data = CASES["trees"]
    engine = HierarchicalEM(model)
    engine.run(data, iterations=3, tolerance=0)
    assert engine.run(data, iterations=3, tolerance=0).objective == run(model, data, 6).objective


# -- what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"variance": 0.0},
            "the covariance is not positive definite: variance must be a finite number above 0, actual 0.0",
        ),
        ({"variance": "1"}, "variance must be a finite number above 0, actual '1'"),
        ({"within": 1.0}, r"within must be a number in \[0, 1\), actual 1.0"),
        ({"rounds": 0}, "rounds must be a whole number, 1 or more, actual 0"),
        ({"dtype": torch.float16}, "dtype must be torch.float64 or torch.float32"),
    ],
)
def test_settings_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(FitError, match=message):
        HierarchicalEM(DMV(2), **options)


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        ("round", "HierarchicalEM: covariance is 'diagonal', 'full', a tensor or a mapping .*, actual 'round'"),
        (None, "HierarchicalEM: covariance is 'diagonal', 'full', a tensor or a mapping .*, actual None"),
        (2.0, "HierarchicalEM: covariance=2.0 is a number: say variance=2.0 for a diagonal of them"),
        (torch.eye(5), r"a covariance of shape \(5, 5\) suits no table, expected one of {'root': \(4, 4\),"),
        (np.ones((4, 4)), "table 'root': the covariance is not positive definite, its smallest eigenvalue is"),
        (-np.ones(4), "table 'root': variances must be positive and finite"),
        ({"NN": "noun"}, r"HierarchicalEM: none of the labels in the families is a label of \['attach', 'root',"),
    ],
)
def test_covariances_that_make_no_sense(covariance: Any, message: str) -> None:
    with pytest.raises(TableError, match=message):
        run(DMV(4), SENTENCES, covariance=covariance)


def test_models_that_do_not_tell_examples_apart() -> None:
    def model(data: dict[str, Tensor]) -> None:
        clusters(data["words"])

    with pytest.raises(FitError, match=r"cannot tell the examples of these data apart \(dict\): give the model a"):
        run(model, {"words": torch.tensor([0, 1])})


def test_models_that_have_more_than_tables() -> None:
    def model(x: Tensor) -> None:
        share, mean = pu.multinomial("share", 2), pyro.param("mean", torch.tensor([-1.0, 1.0]))
        with pyro.plate("data", len(x)):
            z = pyro.sample("z", pu.Categorical(share))
            pyro.sample("x", dist.Normal(mean[z], 1.0), obs=x)

    engine = HierarchicalEM(model)
    for _ in range(2):  # it is no better the second time
        with pytest.raises(FitError, match=r"examples cannot each have their own \['mean'\], only tables"):
            engine.run(torch.randn(4), progress=False)


def test_initial_weights_with_zeros() -> None:
    zero = {name: d.layout.uniform() for name, d in Tagger(2, 4).declarations().items()}
    zero["emission"][0] = torch.tensor([1.0, 0, 0, 0]).log()
    with pytest.raises(TableError, match="table 'emission': the mean of a logistic normal must be finite: smooth"):
        run(Tagger(2, 4), SENTENCES, init=pu.from_weights(zero))


def test_tables_that_meet_no_data_or_have_no_choice() -> None:
    with pytest.raises(FitError, match="table 'attach' gets no counts at all: does the model use it"):
        run(DMV(2), [[0], [1]])
    with pytest.raises(FitError, match="no row of any table has two outcomes: there is nothing to learn"):
        run(Clusterer(1, 1), [[0, 0]])


def test_too_many_posteriors() -> None:
    with pytest.raises(
        FitError, match=r"the posteriors of 5 examples would take about .* GiB, more than max_gib = 1e-06"
    ):
        run(DMV(4), SENTENCES, max_gib=1e-6)


def test_impossible_examples_are_named() -> None:
    def model(words: Tensor) -> None:
        share = pu.multinomial("share", 2)
        with pyro.plate("words", len(words)):
            kind = pyro.sample("kind", pu.Categorical(share))
            pyro.sample("word", pu.Categorical(torch.tensor([0.5, 0.5, 0.0]).log().expand(2, 3)[kind]), obs=words)

    message = "iteration 0: in examples 2 to 2, item 0 of site 'word' has probability zero: widen the support"
    with pytest.raises(FitError, match=message):
        run(model, torch.tensor([0, 1, 2]))


def test_other_data_are_another_engine() -> None:
    engine = HierarchicalEM(DMV(4))
    engine.step(SENTENCES)
    with pytest.raises(FitError, match="HierarchicalEM remembers the posteriors of the data that it began with"):
        engine.step(SENTENCES[:2])


def test_fits_that_cannot_be_gone_on_from() -> None:
    fit = run(DMV(4), SENTENCES, 2)
    with pytest.raises(FitError, match="has posteriors of other examples for table 'root': resume with the data"):
        run(DMV(4), SENTENCES[:4], 4, resume=fit)
    with pytest.raises(FitError, match=r"has 'root.covariance' of shape \(4,\) in its memory, expected \(1, 4, 4\)"):
        run(DMV(4), SENTENCES, 4, resume=fit, covariance="full")
    fit.memory["stop.covariance"][3] = -1.0
    with pytest.raises(FitError, match="table 'stop': the variance of cell 3 in the fit to go on from is not positive"):
        run(DMV(4), SENTENCES, 4, resume=fit)
    full = run(DMV(4), SENTENCES, 2, covariance="full")
    full.memory["attach.covariance"][5] *= -1
    with pytest.raises(FitError, match="table 'attach': the covariance of row 5 in the fit to go on from is not"):
        run(DMV(4), SENTENCES, 4, resume=full, covariance="full")
    plain = pu.EM(DMV(4), pu.AddLambda(0.1)).run(SENTENCES, iterations=2)
    with pytest.raises(FitError, match=r"the fit to go on from has no 'root.mean' in its memory"):
        run(DMV(4), SENTENCES, 4, resume=plain)


# -- real text


def test_short_sentences_of_newspaper_text(real_data: Path) -> None:
    corpus = pu.data.short_tag_sequences(pu.data.read_conllu(real_data / "wsj_nltk_dep.conll.xz"), 10)
    model = DMV.of(corpus)
    fit = run(model, corpus, 5, init=model.harmonic_start(corpus))
    bounds = objectives(fit)
    assert all(b > a for a, b in itertools.pairwise(bounds))
    assert fit.evaluate(corpus, how="mbr")["directed"] > 0.3

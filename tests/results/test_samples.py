"""What can be said about sampled labels, and what survives their renaming."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import pyro_unsup as pu
from pyro_unsup.errors import InputError, UnsupError
from pyro_unsup.infer.gibbs import CollapsedGibbs
from pyro_unsup.models import Clusterer, Tagger
from pyro_unsup.results.sample_checks import draw_weights
from pyro_unsup.results.samples import Samples

CORPUS = pu.data.toy.sentences(40, seed=1)


@pytest.fixture(scope="module")
def samples() -> Samples:
    return sampled()


def sampled(hyper: Any = "shared", **options: Any) -> Samples:
    dictionary = pu.data.TagDictionary.from_corpus(CORPUS, min_count=2)
    model = Tagger(CORPUS.tagset, CORPUS.vocab, order=2, dictionary=dictionary, stop=True)  # type: ignore[arg-type]
    kernel = CollapsedGibbs(model, hyper=hyper, **options)
    return kernel.run(CORPUS, sweeps=40, burn_in=20, chains=3, progress=False)


def renamed(samples: Samples, seed: int = 0) -> Samples:
    """Each chain with other names for its labels."""
    rng = np.random.default_rng(seed)
    K = len(samples.names)
    labels, best, last = samples.labels.copy(), samples.best.copy(), samples.last.copy()
    for c in range(len(labels)):
        name = rng.permutation(K)
        labels[c], best[c], last[c] = name[labels[c]], name[best[c]], name[last[c]]
    return replace(samples, draws={**samples.draws, "labels": labels}, best=best, last=last)


def test_one_labelling(samples: Samples) -> None:
    top = int(samples.best_log_joint.argmax())
    np.testing.assert_array_equal(samples.predict(), samples.best[top])
    np.testing.assert_array_equal(samples.predict("last", chain=1), samples.labels[1, -1])
    with pytest.raises(UnsupError, match="how must be 'best', 'last' or 'vote', actual 'mean'"):
        samples.predict("mean")  # type: ignore[arg-type]


def test_draws_vote(samples: Samples) -> None:
    found, one = samples.probabilities(), samples.probabilities(chain=1)
    for k in range(samples.K):
        np.testing.assert_allclose(found[:, k], (samples.labels == k).mean((0, 1)))
        np.testing.assert_allclose(one[:, k], (samples.labels[1] == k).mean(0))
    np.testing.assert_array_equal(samples.predict("vote"), found.argmax(1))
    np.testing.assert_array_equal(samples.predict("vote", chain=1), one.argmax(1))
    assert samples.evaluate(CORPUS, how="vote")["accuracy"]["chains"][1] == np.mean(one.argmax(1) == CORPUS.tags)


def test_numbers_vote_only_when_they_mean_the_same() -> None:
    kernel = CollapsedGibbs(Tagger(3, CORPUS.vocab), hyper="shared")
    free = kernel.run(CORPUS, sweeps=20, chains=2, progress=False)
    for ask in (free.probabilities, lambda: free.predict("vote")):
        with pytest.raises(UnsupError, match=r"labels that are but numbers .* or samples.relabel\(\).samples"):
            ask()
    assert free.relabel().samples.probabilities().shape == (CORPUS.tokens, 3)


def test_scores_have_a_mean_and_a_deviation_over_chains(samples: Samples) -> None:
    scores = samples.evaluate(CORPUS)
    assert {"accuracy", "accuracy_ambiguous", "vi_bits", "v_measure", "many_to_one", "one_to_one"} <= set(scores)
    right = [float(np.mean(samples.last[c] == CORPUS.tags)) for c in range(3)]
    assert scores["accuracy"]["chains"] == right
    assert scores["accuracy"]["mean"] == pytest.approx(np.mean(right))
    assert scores["accuracy"]["deviation"] == pytest.approx(np.std(right, ddof=1))
    with pytest.raises(UnsupError, match="no tags"):
        samples.evaluate(replace(CORPUS, tags=None, tagset=None))
    other = pu.data.Vocab(sorted(CORPUS.vocab))
    assert samples.evaluate(CORPUS.with_vocab(other)) == scores  # the same words by other numbers


def test_only_the_text_that_was_sampled_is_scored(samples: Samples) -> None:
    words = CORPUS.words.copy()
    words[3] = (words[3] + 1) % len(CORPUS.vocab)
    for gold in (
        CORPUS.select(np.arange(len(CORPUS))[::-1]),
        replace(CORPUS, words=words),
        pu.data.toy.sentences(40, seed=2),
    ):
        with pytest.raises(UnsupError, match="the gold text is not the one that was sampled"):
            samples.evaluate(gold)


def test_probability_of_sharing_a_label(samples: Samples) -> None:
    same = np.mean([[draw[3] == draw[7] for draw in chain] for chain in samples.labels])
    assert samples.co_clustering(3, 7) == same
    assert samples.co_clustering(3, 3) == 1.0
    table = samples.co_clustering(np.arange(5)[:, None], np.arange(5))
    assert table.shape == (5, 5)
    np.testing.assert_array_equal(table, table.T)
    np.testing.assert_array_equal(renamed(samples).co_clustering(np.arange(5)[:, None], np.arange(5)), table)


def test_diagnostics_survive_a_renaming(samples: Samples) -> None:
    other = renamed(samples)
    for name, x in samples.invariants().items():
        np.testing.assert_allclose(other.invariants()[name], x, err_msg=name)
    found = samples.diagnostics()
    assert set(found) == {"log_joint", "labels_used", "entropy", "largest", "alpha", "beta"}
    assert 0.9 < found["log_joint"]["r_hat"] < 10
    assert 0 < found["log_joint"]["ess"] < 1000
    for name, row in other.diagnostics().items():
        assert row == pytest.approx(found[name], nan_ok=True)
    assert "a name, not a number" in Samples.explain()


def test_a_number_that_stands_still_in_each_chain_has_no_r_hat(samples: Samples) -> None:
    still = samples.draws["alpha"].copy()
    still[:] = np.arange(1.0, 4.0)[:, None, None]
    found = replace(samples, draws={**samples.draws, "alpha": still}).diagnostics()["alpha"]
    assert np.isnan(found["r_hat"])
    assert np.isnan(found["ess"])
    still[0, ::2] += 1.0  # one chain moves
    assert np.isfinite(replace(samples, draws={**samples.draws, "alpha": still}).diagnostics()["alpha"]["r_hat"])


def test_chains_are_compared_by_variation_of_information(samples: Samples) -> None:
    apart = samples.variation_between_chains()
    assert apart.shape == (3, 3)
    assert (np.diag(apart) == 0).all()
    np.testing.assert_allclose(renamed(samples).variation_between_chains(), apart, atol=1e-12)
    same = replace(samples, last=samples.last[[0, 0]])
    assert (same.variation_between_chains() == 0).all()


@pytest.mark.parametrize("hyper", ["fixed", "shared", "separate"])
def test_arviz(hyper: Any) -> None:
    samples = sampled(hyper)
    found = samples.to_arviz()
    K = samples.model.states
    assert found.posterior["token_counts"].shape == (3, 20, K)
    assert found.posterior["token_counts"].coords["tag"].values.tolist() == samples.names
    assert (found.posterior["token_counts"].sum("tag") == CORPUS.tokens).all()
    assert (np.diff(found.posterior["cluster_sizes"].values, axis=-1) <= 0).all()
    assert ("alpha" in found.posterior) == (hyper != "fixed")
    if hyper == "separate":
        assert found.posterior["beta"].dims == ("chain", "draw", "tag")
    np.testing.assert_array_equal(found.sample_stats["lp"], samples.log_joint)
    np.testing.assert_array_equal(found.sample_stats["energy"], -samples.log_joint)
    wanted = {"lp", "energy", "temperature", "acceptance_labels"}
    assert set(found.sample_stats.data_vars) == wanted | (
        set() if hyper == "fixed" else {"acceptance_alpha", "acceptance_beta"}
    )


def test_arviz_plots(samples: Samples) -> None:
    import matplotlib

    matplotlib.use("Agg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ArviZ on itself and on matplotlib
        import arviz
        import matplotlib.pyplot as plt

        data = samples.to_arviz()
        arviz.plot_trace(data, var_names=["alpha"])
        arviz.plot_autocorr(data, var_names=["alpha"])
        arviz.plot_rank(data, var_names=["alpha"])
        arviz.plot_energy(data)
        plt.close("all")
        assert "alpha" in arviz.summary(data, var_names=["alpha"]).index


def test_tables_are_drawn_from_their_posterior() -> None:
    samples = sampled("separate")
    declared = samples.model.declarations()
    torch.manual_seed(0)
    drawn = [draw_weights(samples, 0, -1) for _ in range(150)]
    labels, words = samples.labels[0, -1], samples.data["words"]
    beta = samples.draws["beta"][0, -1]
    mask = declared["emission"].layout.support.numpy()
    counts = np.zeros(mask.shape)
    np.add.at(counts, (labels, words), 1)
    for weights in drawn[:3]:
        for name, w in weights.items():
            declared[name].layout.check(name, w)
            np.testing.assert_allclose(w.exp().sum(-1), 1)
    shape = (counts + beta[:, None]) * mask
    first = np.stack([weights["emission"].exp().numpy() for weights in drawn])
    k, v = np.unravel_index(np.argmax(counts), counts.shape)
    expected = stats.beta(shape[k, v], shape[k].sum() - shape[k, v])
    assert stats.kstest(first[:, k, v], expected.cdf).pvalue > 1e-4
    start = np.bincount(labels[samples.data["offsets"][:-1]], minlength=len(mask)) + samples.draws["alpha"][0, -1, 2]
    mean = np.stack([weights["start"].exp().numpy() for weights in drawn]).mean(0)
    np.testing.assert_allclose(mean, start / start.sum(), atol=0.03)


def test_posterior_predictive_checks(samples: Samples) -> None:
    found = samples.posterior_predictive(draws=8, seed=1)
    assert set(found) == {"types", "once_only", "repeats"}
    assert found["types"]["observed"] == len(np.unique(CORPUS.words))
    assert found["types"]["draws"].shape == (8,)
    assert all(0 <= row["p"] <= 1 for row in found.values())
    again = samples.posterior_predictive({"first": lambda words: float(words[0])}, draws=8, seed=1)
    np.testing.assert_array_equal(
        again["first"]["draws"], samples.posterior_predictive({"first": lambda w: float(w[0])}, 8, 1)["first"]["draws"]
    )


def test_saved_and_loaded(samples: Samples, tmp_path: Path) -> None:
    samples.save(tmp_path / "out")
    found = Samples.load(tmp_path / "out")
    for group in ("draws", "path", "data"):
        for name, x in getattr(samples, group).items():
            np.testing.assert_array_equal(getattr(found, group)[name], x)
            assert getattr(found, group)[name].dtype == x.dtype
    assert repr(found) == repr(samples)
    assert found.config == samples.config
    assert found.evaluate(CORPUS) == samples.evaluate(CORPUS)
    with pytest.raises(InputError, match="exists already"):
        samples.save(tmp_path / "out")
    samples.save(tmp_path / "out", overwrite=True)
    assert len(list((tmp_path / "out").iterdir())) == 2
    record = tmp_path / "out" / "samples.json"
    record.write_text(record.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(InputError, match="altered or cut short"):
        Samples.load(tmp_path / "out")
    record.unlink()
    with pytest.raises(InputError, match=r"samples\.json: missing; the folder holds no samples$"):
        Samples.load(tmp_path / "out")
    with pytest.raises(InputError, match="no such folder"):
        Samples.load(tmp_path / "none")


def test_clusters(tmp_path: Path) -> None:
    documents = pu.data.Documents.count([0, 1, 0, 2, 3, 3, 3, 2], [0, 3, 6, 8], pu.data.Vocab(list("abcd")))
    samples = CollapsedGibbs(Clusterer(2, documents.vocab, prior=0.5)).run(documents, sweeps=30, progress=False)
    gold = replace(documents, labels=np.array([0, 1, 1]), labelset=pu.data.Vocab(["x", "y"]))
    assert 0 <= samples.evaluate(gold)["accuracy"]["mean"] <= 1
    names = pu.data.Vocab(list("dcba"))
    assert samples.evaluate(gold.with_vocab(names)) == samples.evaluate(gold)
    with pytest.raises(UnsupError, match="is not the one that was sampled"):
        samples.evaluate(replace(gold, vocab=names))
    with pytest.raises(UnsupError, match="no labels"):
        samples.evaluate(documents)
    with pytest.raises(UnsupError, match="for taggers"):
        samples.posterior_predictive()
    samples.save(tmp_path / "out")
    np.testing.assert_array_equal(Samples.load(tmp_path / "out").labels, samples.labels)
    assert samples.to_arviz().posterior["token_counts"].shape == (1, 15, 2)


def test_the_next_generation_of_arviz(samples: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    import arviz

    monkeypatch.setattr(arviz, "__version__", "1.0.0")
    found = samples.to_arviz()
    assert list(found.children) == ["posterior", "sample_stats"]
    assert found["posterior"]["alpha"].shape == (3, 20)
    assert found["posterior"]["tag"].values.tolist() == samples.names
    assert found["posterior"]["token_counts"].dims == ("chain", "draw", "tag")
    assert "label" not in found["posterior"].dims  # taken by its summaries

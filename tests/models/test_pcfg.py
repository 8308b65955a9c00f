"""The probabilistic context-free grammar as a model, against all labelled trees one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoNormal
from pyro.optim import Adam
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import StructureError, kernels
from pyro_unsup.distributions import PCFG as Grammar
from pyro_unsup.distributions.bracketing_priors import split_marginals
from pyro_unsup.models import PCFG

from ..distributions.pcfg_case import enumerate_trees

SENTENCES = [[0, 1, 2], [3, 2], [0, 1, 2, 0], [1], [2, 0, 1], [3, 2, 1]]
VOCAB = pu.data.Vocab(["DT", "NN", "VB", "PN"])
CORPUS = pu.data.Corpus(np.concatenate([np.array(s) for s in SENTENCES]), np.cumsum([0, *map(len, SENTENCES)]), VOCAB)


def grammar_of(weights: dict[str, Tensor], n: int, labels: int) -> Grammar:
    rules = weights["rules"].unflatten(-1, (labels, labels))
    return Grammar(weights["root"], rules, weights["emission"], torch.tensor([n]))


def oracle(weights: dict[str, Tensor], labels: int, beta: float = 1.0) -> tuple[float, dict[str, Tensor]]:
    """The log-likelihood, and expected counts, by summing over all trees of all sentences."""
    counts = {name: torch.zeros_like(w) for name, w in weights.items()}
    total = 0.0
    for words in SENTENCES:
        if len(words) == 1:
            continue
        found = enumerate_trees(grammar_of(weights, len(words), labels), words)
        scores = beta * torch.tensor(found.scores)
        total += float(scores.logsumexp(0))
        for p, used in zip(scores.softmax(0).tolist(), found.counts, strict=True):
            for name, n in used.items():
                counts[name] += p * n.reshape(counts[name].shape)
    return total, counts


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize("beta", [1.0, 0.4])
def test_em_is_that_of_all_trees(kernel: bool, beta: float) -> None:
    """Three iterations, the log-likelihood and the counts of each summed tree by tree."""
    model = PCFG(2, 2, VOCAB)
    start = pu.init.noise(2.0)(model.declarations(), torch.Generator().manual_seed(1))
    engine = pu.EM(model if beta == 1 else pu.temper(model, beta), pu.AddLambda(0.1), pu.init.from_weights(start))

    def run(iterations: int) -> pu.Fit:
        return engine.run(CORPUS, iterations=iterations, tolerance=0, progress=False)

    if kernel:
        fits = [run(k) for k in range(4)]
    else:
        with kernels.switched_off():
            fits = [run(k) for k in range(4)]
    weights = start
    for fit in fits:
        for name, w in weights.items():
            torch.testing.assert_close(fit.weights[name].exp(), w.exp(), rtol=1e-10, atol=1e-12)
        total, counts = oracle(weights, 4, beta)
        if beta == 1:
            assert fit.log_likelihood(CORPUS) == pytest.approx(total, abs=1e-10)
        weights = {name: (n + 0.1).log() - (n + 0.1).sum(-1, keepdim=True).log() for name, n in counts.items()}


def test_sentences_of_one_word_are_skipped() -> None:
    model, without = PCFG(2, 2, VOCAB), CORPUS.select([0, 1, 2, 4, 5])
    fit = pu.EM(model, init=model.split_start(CORPUS)).run(CORPUS, iterations=3, seed=1, progress=False)
    other = pu.EM(model, init=model.split_start(without)).run(without, iterations=3, seed=1, progress=False)
    for name, w in fit.weights.items():
        torch.testing.assert_close(w, other.weights[name], rtol=1e-12, atol=1e-12)
    posterior = fit.posterior(CORPUS)
    assert posterior.log_partition[3] == 0
    assert torch.equal(posterior.mode(), fit.posterior(without).mode())
    assert fit.predict([[1]]).shape == (0,)


def test_a_start_by_random_splits() -> None:
    """With labels nearly alike, rules are as often of words and of wider parts as random splits have them."""
    text = pu.data.Corpus([0, 1, 2, 3, 1], [0, 5], VOCAB)
    model = PCFG(2, 3, VOCAB)
    start = model.split_start(text, noise=1e-9, estimate=pu.Normalise())
    weights = start(model.declarations(), torch.Generator().manual_seed(0))
    wide = split_marginals(torch.tensor([5]))
    rules = weights["rules"].exp().unflatten(-1, (5, 5)).mean(0)
    nodes = float(wide[5:].sum())  # constituents of two words or more, each with one rule
    assert nodes == pytest.approx(4)
    assert float(rules[2:].sum() + rules[:, 2:].sum()) * nodes == pytest.approx(5)  # every word is one part
    assert float(rules[:2].sum() + rules[:, :2].sum()) * nodes == pytest.approx(nodes - 1)  # and all nodes but the root
    assert float(rules[2:, 2:].sum()) * nodes == pytest.approx(float(wide[5:9].sum()))  # two words
    unigram = torch.tensor([0.2, 0.4, 0.2, 0.2])
    torch.testing.assert_close(weights["emission"].exp(), unigram.expand(3, 4), rtol=1e-6, atol=1e-6)
    default = model.split_start(text)(model.declarations(), torch.Generator().manual_seed(0))
    for name, table in model.declarations().items():
        torch.testing.assert_close(table.layout.row_sum(default[name].exp()), torch.ones(table.layout.shape[:-1]))


def test_seeds_break_the_tie_in_their_own_ways() -> None:
    model = PCFG(2, 3, VOCAB)
    em = pu.EM(model, pu.AddLambda(0.01), init=model.split_start(CORPUS))
    first, second = (em.run(CORPUS, iterations=20, seed=seed, progress=False) for seed in (1, 2))
    assert first.objective != second.objective
    assert float((first.weights["rules"].exp()[0] - first.weights["rules"].exp()[1]).abs().max()) > 0.01
    even = pu.EM(model, init=pu.init.uniform()).run(CORPUS, iterations=20, progress=False)
    assert float((even.weights["rules"].exp()[0] - even.weights["rules"].exp()[1]).abs().max()) < 1e-12


def test_names_of_labels_and_cells() -> None:
    model = PCFG(1, 2, VOCAB)
    assert model.labels == ("N0", "P0", "P1")
    axes = {name: [axis.name for axis in table.axes] for name, table in model.declarations().items()}
    assert axes == {
        "root": ["nonterminal"], "rules": ["nonterminal", "parts"], "emission": ["preterminal", "word"]
    }  # fmt: skip
    assert model.declarations()["rules"].axes[1].labels[5] == ("P0", "P1")


def test_constraints_speak_of_words_and_labels() -> None:
    model = pu.constrain(PCFG(2, 2, VOCAB), ~pu.components.ends_in("DT"))
    fit = pu.EM(model, pu.AddLambda(0.1), pu.init.noise(1.0)).run(CORPUS, iterations=3, progress=False)
    text = pu.data.Corpus([2, 0, 1], [0, 3], VOCAB)  # VB DT NN
    with_rule = pu.EM(model, init=pu.init.from_weights(fit)).run(text, iterations=0, progress=False).posterior(text)
    assert float(with_rule.marginals[3].sum()) == 0  # VB DT is no constituent
    assert float(with_rule.marginals[4].sum()) == pytest.approx(1)


def test_fragments_do_not_break_off() -> None:
    model = pu.constrain(PCFG(2, 2, VOCAB), pu.components.fragments("VB"))
    text = pu.data.Corpus([0, 1, 2, 0, 1], [0, 5], VOCAB)
    posterior = pu.EM(model, init=pu.init.noise(1.0)).run(text, iterations=0, progress=False).posterior(text)
    torch.testing.assert_close(posterior.marginals[5:9].sum(-1), torch.tensor([1.0, 0.0, 0.0, 1.0]))


def test_saved_and_loaded(tmp_path: Path) -> None:
    model = PCFG(2, 3, VOCAB, prior={"rules": 1.5})
    fit = pu.EM(model, pu.DirichletMAP(), model.split_start(CORPUS)).run(CORPUS, iterations=5, progress=False)
    fit.save(tmp_path / "fit")
    loaded = pu.load(tmp_path / "fit")
    assert repr(loaded.model) == repr(model) == "PCFG(nonterminals=2, preterminals=3, vocab=4)"
    for name, table in model.declarations().items():
        assert torch.equal(loaded.weights[name], fit.weights[name])
        assert torch.equal(loaded.model.declarations()[name].prior, table.prior)
    assert torch.equal(loaded.predict(CORPUS), fit.predict(CORPUS))


@pytest.mark.parametrize("guide", [AutoDelta, AutoNormal])
def test_stock_svi(guide: type) -> None:
    model = PCFG(2, 2, VOCAB, prior=2.0)
    for particles in (1, 2):
        pyro.clear_param_store()
        elbo = Trace_ELBO(num_particles=particles, vectorize_particles=particles > 1, max_plate_nesting=1)
        svi = SVI(model, guide(model), Adam({"lr": 0.05}), elbo)
        losses = [svi.step(CORPUS) for _ in range(40)]
        assert np.isfinite(losses).all()
        assert np.mean(losses[-10:]) < np.mean(losses[:10])


def test_nuts_and_predictive() -> None:
    model = PCFG(2, 2, VOCAB)
    mcmc = MCMC(NUTS(model, max_tree_depth=3), num_samples=8, warmup_steps=8, disable_progbar=True)
    mcmc.run(CORPUS)
    for parallel in (False, True):
        drawn = Predictive(model, mcmc.get_samples(), parallel=parallel)(None, CORPUS.lengths)
        assert drawn["words"].shape == (8, CORPUS.tokens - 1)  # that of the sentence of one word is not drawn
        assert int(drawn["words"].max()) < 4


def test_the_trace_has_three_tables_and_one_structure() -> None:
    trace = poutine.trace(PCFG(2, 2, VOCAB)).get_trace(CORPUS)
    trace.compute_log_prob()
    sites = [name for name, site in trace.nodes.items() if site["type"] == "sample"]
    assert sites == ["root", "rules", "emission", "sentences", "words"]


def test_what_is_refused() -> None:
    with pytest.raises(StructureError, match="nonterminals must be a whole number of at least 1, actual = 0"):
        PCFG(0, 2, VOCAB)
    with pytest.raises(StructureError, match=r"preterminals must be a whole number of at least 1, actual = 2\.0"):
        PCFG(1, 2.0, VOCAB)  # type: ignore[arg-type]
    with pytest.raises(StructureError, match="prior names tables that a PCFG does not have"):
        PCFG(1, 2, VOCAB, prior={"attach": 1.0})
    with pytest.raises(StructureError, match="noise must be positive and finite, or all labels stay alike, actual = 0"):
        PCFG(1, 2, VOCAB).split_start(CORPUS, noise=0)
    with pytest.raises(StructureError, match="the settings should be nonterminals, preterminals, vocab and prior"):
        PCFG.from_settings({"vocab": 3}, {})
    with pytest.raises(StructureError, match=r"symbol numbers must lie in 0 \.\. 3"):
        pu.EM(PCFG(1, 2, VOCAB)).run([[0, 4]], iterations=1, progress=False)

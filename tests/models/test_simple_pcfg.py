"""The factored grammar as a model, against all labelled trees one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoNormal
from pyro.optim import Adam
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import StructureError, kernels
from pyro_unsup.distributions import SimplePCFG as Grammar
from pyro_unsup.distributions.bracketing_priors import split_marginals
from pyro_unsup.models import PCFG, SimplePCFG, grammar

from ..distributions.pcfg_case import enumerate_trees
from .test_pcfg import CORPUS, SENTENCES, VOCAB


def oracle(weights: dict[str, Tensor]) -> tuple[float, dict[str, Tensor]]:
    """The log-likelihood, and expected counts, by summing over all trees of all sentences."""
    counts, total = {name: torch.zeros_like(w) for name, w in weights.items()}, 0.0
    for words in SENTENCES:
        if len(words) > 1:
            found = enumerate_trees(Grammar(**weights, lengths=torch.tensor([len(words)])), words)
            total += found.log_z
            for p, used in zip(found.probabilities(), found.counts, strict=True):
                for name, n in used.items():
                    counts[name] += p * n
    return total, counts


@pytest.mark.parametrize("kernel", [True, False])
def test_em_is_that_of_all_trees(kernel: bool) -> None:
    model = SimplePCFG(2, 2, VOCAB)
    weights = pu.init.noise(2.0)(model.declarations(), torch.Generator().manual_seed(1))
    engine = pu.EM(model, pu.AddLambda(0.1), pu.init.from_weights(weights))

    def run(iterations: int) -> pu.Fit:
        return engine.run(CORPUS, iterations=iterations, tolerance=0, progress=False)

    if kernel:
        fits = [run(k) for k in range(4)]
    else:
        with kernels.switched_off():
            fits = [run(k) for k in range(4)]
    for fit in fits:
        for name, w in weights.items():
            torch.testing.assert_close(fit.weights[name].exp(), w.exp(), rtol=1e-10, atol=1e-12)
        total, counts = oracle(weights)
        assert fit.log_likelihood(CORPUS) == pytest.approx(total, abs=1e-10)
        weights = {name: (n + 0.1).log() - (n + 0.1).sum(-1, keepdim=True).log() for name, n in counts.items()}


def test_it_is_a_pcfg_with_products_for_rules() -> None:
    simple, full = SimplePCFG(2, 3, VOCAB), PCFG(2, 3, VOCAB)
    w = pu.init.noise(2.0)(simple.declarations(), torch.Generator().manual_seed(2))
    rules = (w["left"].unsqueeze(-1) + w["right"].unsqueeze(-2)).flatten(-2)
    fits = [
        pu.EM(model, init=pu.init.from_weights(start)).run(CORPUS, iterations=0, progress=False)
        for model, start in ((simple, w), (full, {"root": w["root"], "rules": rules, "emission": w["emission"]}))
    ]
    one, other = (fit.posterior(CORPUS) for fit in fits)
    torch.testing.assert_close(one.log_partition, other.log_partition, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(one.marginals, other.marginals, rtol=1e-10, atol=1e-10)
    assert torch.equal(fits[0].predict(CORPUS), fits[1].predict(CORPUS))
    for top in (1, 4, 1000):
        first, second = (fit.model.strongest(fit.weights, top) for fit in fits)
        for mine, theirs in zip(first, second, strict=True):
            torch.testing.assert_close(mine, theirs)
        assert first[0].shape == (2, min(top, 25))


def test_a_start_by_random_splits() -> None:
    """With labels nearly alike, parts are as often words as random splits have them."""
    text = pu.data.Corpus([0, 1, 2, 3, 1], [0, 5], VOCAB)
    model = SimplePCFG(2, 3, VOCAB)
    weights = model.split_start(text, noise=1e-9, estimate=pu.Normalise())(
        model.declarations(), torch.Generator().manual_seed(0)
    )
    nodes = float(split_marginals(torch.tensor([5]))[5:].sum())
    words = sum(float(weights[name].exp().mean(0)[2:].sum()) * nodes for name in ("left", "right"))
    assert words == pytest.approx(5)  # every word is one part
    torch.testing.assert_close(
        weights["emission"].exp(), torch.tensor([0.2, 0.4, 0.2, 0.2]).expand(3, 4), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("kind", [PCFG, SimplePCFG])
def test_a_start_is_the_same_found_in_parts(kind: type[PCFG | SimplePCFG], monkeypatch: pytest.MonkeyPatch) -> None:
    model = kind(2, 3, VOCAB)
    whole: dict[str, Tensor] = {}
    parts: dict[str, Tensor] = {}
    for found, numbers in ((whole, 2**22), (parts, 40)):
        monkeypatch.setattr(grammar, "NUMBERS_AT_A_TIME", numbers)
        found |= model.split_start(CORPUS)(model.declarations(), torch.Generator().manual_seed(0))
    for name, w in whole.items():
        torch.testing.assert_close(w, parts[name], rtol=1e-12, atol=1e-12)


def test_names_of_labels_and_cells() -> None:
    model = SimplePCFG(1, 2, VOCAB)
    axes = {name: [axis.name for axis in table.axes] for name, table in model.declarations().items()}
    assert axes == {
        "root": ["nonterminal"],
        "left": ["nonterminal", "part"],
        "right": ["nonterminal", "part"],
        "emission": ["preterminal", "word"],
    }
    assert model.declarations()["left"].axes[1].labels == ("N0", "P0", "P1")


def test_saved_and_loaded(tmp_path: Path) -> None:
    model = SimplePCFG(2, 3, VOCAB, prior={"left": 1.5})
    fit = pu.EM(model, pu.DirichletMAP(), model.split_start(CORPUS)).run(CORPUS, iterations=5, progress=False)
    fit.save(tmp_path / "fit")
    loaded = pu.load(tmp_path / "fit")
    assert repr(loaded.model) == repr(model) == "SimplePCFG(nonterminals=2, preterminals=3, vocab=4)"
    for name, w in fit.weights.items():
        assert torch.equal(loaded.weights[name], w)
    assert torch.equal(loaded.predict(CORPUS), fit.predict(CORPUS))


def test_stock_pyro() -> None:
    model = SimplePCFG(2, 2, VOCAB, prior=2.0)
    trace = poutine.trace(model).get_trace(CORPUS)
    sites = [name for name, site in trace.nodes.items() if site["type"] == "sample"]
    assert sites == ["root", "left", "right", "emission", "sentences", "words"]
    guide = AutoNormal(model)
    svi = SVI(
        model, guide, Adam({"lr": 0.05}), Trace_ELBO(num_particles=2, vectorize_particles=True, max_plate_nesting=1)
    )
    losses = [svi.step(CORPUS) for _ in range(40)]
    assert np.mean(losses[-10:]) < np.mean(losses[:10])
    for parallel in (False, True):
        drawn = Predictive(model, guide=guide, num_samples=4, parallel=parallel)(None, CORPUS.lengths)
        assert drawn["words"].shape == (4, CORPUS.tokens - 1)
    pyro.clear_param_store()


def test_what_is_refused() -> None:
    with pytest.raises(StructureError, match="nonterminals must be a whole number of at least 1, actual = 0"):
        SimplePCFG(0, 2, VOCAB)
    with pytest.raises(StructureError, match="prior names tables that a SimplePCFG does not have"):
        SimplePCFG(1, 2, VOCAB, prior={"rules": 1.0})

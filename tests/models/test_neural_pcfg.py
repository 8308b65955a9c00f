"""Neural and compound grammars: against grammars of tables, finite differences and each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Predictive, Trace_ELBO, TraceMeanField_ELBO
from pyro.optim import Adam
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import StructureError, kernels
from pyro_unsup.distributions import PCFG as Grammar
from pyro_unsup.distributions.bracketing import check_trees
from pyro_unsup.models import CompoundPCFG, NeuralPCFG

from ..distributions.pcfg_case import enumerate_trees

SENTENCES = [[0, 1, 2], [3, 2], [0, 1, 2, 0], [1], [2, 0, 1], [3, 2, 1]]
VOCAB = pu.data.Vocab(["DT", "NN", "VB", "PN"])
CORPUS = pu.data.Corpus(np.concatenate([np.array(s) for s in SENTENCES]), np.cumsum([0, *map(len, SENTENCES)]), VOCAB)
SMALL: dict[str, Any] = {"dim": 6, "hidden": 5}

on_both_rules = pytest.mark.parametrize("factored", [False, True])


def compound(factored: bool = False, z_dim: int = 3) -> CompoundPCFG:
    return CompoundPCFG(2, 3, VOCAB, z_dim=z_dim, factored=factored, **SMALL)


def log_joint(model: NeuralPCFG, z: Tensor | None = None) -> Tensor:
    """log p(words | z) of each sentence, by running the model."""
    run = model if z is None else poutine.condition(model, data={"z": z})
    trace = poutine.trace(run).get_trace(CORPUS)
    trace.compute_log_prob()
    found: Tensor = trace.nodes["words"]["log_prob"]
    return found


def test_it_sums_over_all_trees_by_the_tables_of_its_network() -> None:
    model = NeuralPCFG(2, 2, VOCAB, dim=6)
    tables = {name: x.detach() for name, x in model.network().items()}
    for name, x in tables.items():
        dims = (-2, -1) if name == "rules" else (-1,)
        torch.testing.assert_close(x.logsumexp(dims), torch.zeros(x.shape[: x.dim() - len(dims)]))
    found = log_joint(model)
    for words, log_z in zip(SENTENCES, found.tolist(), strict=True):
        one = Grammar(**tables, lengths=torch.tensor([len(words)]))
        expected = enumerate_trees(one, words).log_z if len(words) > 1 else 0.0
        assert log_z == pytest.approx(expected, rel=1e-10)


@on_both_rules
def test_each_sentence_is_weighed_by_the_tables_of_its_own_z(factored: bool) -> None:
    model, z = compound(factored), torch.randn(6, 3)
    together = log_joint(model, z).detach()
    for b in range(6):
        tables = model.network(z[b])
        alone = model.grammar(torch.tensor([len(SENTENCES[b])]), z[b])
        assert {name: x.shape for name, x in alone.weights.items()} == {name: x.shape for name, x in tables.items()}
        if len(SENTENCES[b]) > 1:
            torch.testing.assert_close(together[b], alone.log_prob(torch.tensor(SENTENCES[b]))[0])
    assert together[3] == 0
    assert float((together[[0, 4]] - log_joint(model, torch.zeros(6, 3)).detach()[[0, 4]]).abs().min()) > 1e-4


@on_both_rules
def test_networks_that_ignore_z_make_a_neural_grammar(factored: bool) -> None:
    model = compound(factored)
    plain = NeuralPCFG(2, 3, VOCAB, factored=factored, dim=6)
    with torch.no_grad():
        for name, x in model.network.named_parameters():
            if ".of_z." in name:
                x.zero_()
    shared = {name: x for name, x in model.network.state_dict().items() if ".of_z." not in name}
    plain.network.load_state_dict(shared)
    torch.testing.assert_close(log_joint(model, torch.randn(6, 3)), log_joint(plain), rtol=1e-12, atol=1e-12)


@on_both_rules
def test_without_z_it_is_the_neural_grammar(factored: bool) -> None:
    model, plain = compound(factored, z_dim=0), NeuralPCFG(2, 3, VOCAB, factored=factored, dim=6)
    plain.load_state_dict(model.state_dict())
    first, losses = -float(log_joint(plain).sum().detach()), []
    for one in (model, plain):
        svi = SVI(one, one.guide, Adam({"lr": 0.05}), Trace_ELBO())
        losses.append([svi.step(CORPUS) for _ in range(5)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    assert losses[0][0] == pytest.approx(first, rel=1e-12)
    assert torch.equal(model.predict(CORPUS), plain.predict(CORPUS))


@on_both_rules
def test_gradients_against_finite_differences(factored: bool) -> None:
    """Of the ELBO with one z a sentence, in every parameter of both networks."""
    model = compound(factored, z_dim=2)
    noise = torch.randn(6, 2)
    parameters = list(model.parameters())

    def loss() -> Tensor:
        assert model.encoder is not None
        words, lengths = model._parsed(CORPUS, None)
        mean, scale = model.encoder(words, lengths)
        z = mean + scale * noise
        log_q = torch.distributions.Normal(mean, scale).log_prob(z).sum(-1)
        log_p = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(-1)
        mask = lengths > 0
        found: Tensor = (log_q - log_p - model.grammar(lengths, z).log_prob(words))[mask].sum()
        return found

    grads = torch.autograd.grad(loss(), parameters, allow_unused=True, materialize_grads=True)
    g, step = torch.Generator().manual_seed(1), 1e-6
    for x, grad in zip(parameters, grads, strict=True):
        direction = torch.randn(x.shape, generator=g)
        with torch.no_grad():
            x += step * direction
            up = loss()
            x -= 2 * step * direction
            down = loss()
            x += step * direction
        assert float((grad * direction).sum()) == pytest.approx(float(up - down) / (2 * step), rel=1e-5, abs=1e-6)


@on_both_rules
def test_the_elbo_is_that_of_its_formula(factored: bool) -> None:
    """Pyro's loss, averaged over many draws of z, against the same by hand."""
    model = compound(factored, z_dim=2)
    options = {"num_particles": 1500, "vectorize_particles": True, "max_plate_nesting": 1}
    assert model.encoder is not None
    with torch.no_grad():
        words, lengths = model._parsed(CORPUS, None)
        mean, scale = model.encoder(words, lengths)
        z = mean + scale * torch.randn(1500, 6, 2)
        likelihood = model.grammar(lengths, z).log_prob(words).sum(-1)
        kl = 0.5 * (mean.square() + scale.square() - 1 - 2 * scale.log()).sum(-1)[lengths > 0].sum()
        normal = torch.distributions.Normal
        ratio = (normal(0.0, 1.0).log_prob(z) - normal(mean, scale).log_prob(z)).sum(-1)[:, lengths > 0].sum(-1)
    # Both sides are means over draws, and vary alike: four standard errors of their difference.
    error = 4 * 2**0.5 * float((likelihood + ratio).std()) / 1500**0.5
    assert error < 1
    for elbo in (Trace_ELBO, TraceMeanField_ELBO):
        found = elbo(**options).loss(model, model.guide, CORPUS)
        assert found == pytest.approx(float(kl - likelihood.mean()), abs=error)


@on_both_rules
@pytest.mark.parametrize("z_dim", [0, 3])
@pytest.mark.parametrize("on", [True, False])
def test_stock_svi_by_mini_batches(factored: bool, z_dim: int, on: bool) -> None:
    model = compound(factored, z_dim)
    svi = SVI(model, model.guide, Adam({"lr": 0.02}), Trace_ELBO())
    batches = [CORPUS.select([0, 1, 2]), CORPUS.select([3, 4, 5])]

    def epochs(count: int) -> list[float]:
        return [sum(svi.step(batch) for batch in batches) for _ in range(count)]

    if on:
        losses = epochs(40)
    else:
        with kernels.switched_off():
            losses = epochs(40)
    assert np.isfinite(losses).all()
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 1
    rows = [model.brackets(CORPUS, how=how) for how in ("mbr", "viterbi")]
    lengths = torch.tensor([len(s) if len(s) > 1 else 0 for s in SENTENCES])
    for how, found in zip(("mbr", "viterbi"), rows, strict=True):
        assert len(found) == sum(2 * len(s) - 1 for s in SENTENCES if len(s) > 1)
        check_trees((model.predict(CORPUS, how=how) >= 0).long(), lengths)
    assert model.log_likelihood(CORPUS).shape == (6,)
    assert model.log_likelihood(CORPUS)[3] == 0


def test_the_same_steps_with_kernels_and_without() -> None:
    losses = []
    for on in (True, False):
        pyro.set_rng_seed(4)
        model = compound()
        svi = SVI(model, model.guide, Adam({"lr": 0.02}), Trace_ELBO())
        if on:
            losses.append([svi.step(CORPUS) for _ in range(5)])
        else:
            with kernels.switched_off():
                losses.append([svi.step(CORPUS) for _ in range(5)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)


def test_two_models_train_apart() -> None:
    """Names in the parameter store are those of one object: the second model is not the first one again."""
    first, second = compound(), compound()
    start = {name: x.clone() for name, x in second.state_dict().items()}
    for model in (first, second):
        SVI(model, model.guide, Adam({"lr": 0.02}), Trace_ELBO()).step(CORPUS)
    assert any(not torch.equal(x, start[name]) for name, x in second.state_dict().items())
    assert len(pyro.get_param_store()) == 2 * len(list(first.parameters()))


def test_words_are_drawn_from_the_prior() -> None:
    for model in (compound(), compound(True), NeuralPCFG(2, 3, VOCAB, dim=6)):
        drawn = Predictive(model, num_samples=3)(None, CORPUS.lengths)
        assert drawn["words"].shape == (3, CORPUS.tokens - 1)  # that of the sentence of one word is not drawn
        assert int(drawn["words"].max()) < 4
        assert ("z" in drawn) == bool(model.z_dim)


def test_a_sentence_is_parsed_alike_alone_and_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    model = compound()
    whole = model.predict(CORPUS)
    monkeypatch.setattr("pyro_unsup.models.neural_pcfg.AT_A_TIME", 2)
    assert torch.equal(model.predict(CORPUS), whole)
    assert torch.equal(torch.cat([model.predict(CORPUS.select([k])) for k in range(6)]), whole)
    assert torch.equal(model.predict(SENTENCES), whole)
    assert torch.equal(model.predict(model.index(SENTENCES).select([0, 1, 2, 3, 4, 5])), whole)
    assert model.predict(CORPUS.select([3])).shape == (0,)


@on_both_rules
@pytest.mark.parametrize("kind", [NeuralPCFG, CompoundPCFG])
def test_saved_and_loaded(kind: type[NeuralPCFG], factored: bool, tmp_path: Path) -> None:
    model = compound(factored) if kind is CompoundPCFG else NeuralPCFG(2, 3, VOCAB, factored=factored, dim=6)
    SVI(model, model.guide, Adam({"lr": 0.02}), Trace_ELBO()).step(CORPUS)
    model.save(tmp_path / "model.pt")
    loaded = kind.load(tmp_path / "model.pt")
    assert repr(loaded) == repr(model)
    assert "nonterminals=2, preterminals=3, vocab=4" in repr(model)
    assert torch.equal(loaded.log_likelihood(CORPUS), model.log_likelihood(CORPUS))
    assert torch.equal(loaded.predict(CORPUS), model.predict(CORPUS))
    assert loaded.labels == ("N0", "N1", "P0", "P1", "P2")
    assert tuple(loaded.vocab) == tuple(VOCAB)
    torch.save({"other": 1}, tmp_path / "other.pt")
    with pytest.raises(StructureError, match=rf"expected a file that {kind.__name__}.save wrote, actual '.*other.pt'"):
        kind.load(tmp_path / "other.pt")


def test_what_is_refused() -> None:
    with pytest.raises(StructureError, match="nonterminals must be a whole number of at least 1, actual = 0"):
        NeuralPCFG(0, 2, VOCAB)
    with pytest.raises(StructureError, match=r"dim must be a whole number of at least 1, actual = 2\.5"):
        NeuralPCFG(1, 2, VOCAB, dim=2.5)  # type: ignore[arg-type]
    with pytest.raises(StructureError, match="z_dim must be a whole number, 0 for none, actual = -1"):
        CompoundPCFG(1, 2, VOCAB, z_dim=-1)
    with pytest.raises(StructureError, match="hidden must be a whole number of at least 1, actual = 0"):
        CompoundPCFG(1, 2, VOCAB, z_dim=1, hidden=0)
    with pytest.raises(StructureError, match="how must be 'mbr' or 'viterbi', actual = 'best'"):
        compound().predict(CORPUS, how="best")
    with pytest.raises(StructureError, match=r"symbol numbers must lie in 0 \.\. 3"):
        compound().predict([[0, 4]])
    with pytest.raises(StructureError, match="the settings should be nonterminals, preterminals, vocab, z_dim"):
        NeuralPCFG.from_settings({"vocab": 3}, {})

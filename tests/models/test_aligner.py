"""The aligner: against Model 1 in plain loops, against the enumerated twin, under EM, under stock Pyro, and on text."""

from __future__ import annotations

import importlib.util
import itertools
import math
import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from pyro.optim import Adam
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import StructureError
from pyro_unsup.data import Bitext, Corpus, Vocab
from pyro_unsup.data.bitext import concatenate
from pyro_unsup.models import Aligner
from pyro_unsup.tasks import find
from pyro_unsup.tasks.decoding.aligner import decode

scores = find("aligner").scores

PAIRS = [([0, 1], [0, 1]), ([0, 2], [0, 2]), ([3, 2], [3, 2, 2]), ([3, 4, 1], [3, 4]), ([1], [1, 0]), ([0, 0], [0])]
SOURCE = Corpus([w for s, _ in PAIRS for w in s], np.cumsum([0, *(len(s) for s, _ in PAIRS)]), Vocab([*"ABCDE"]))
TARGET = Corpus([w for _, t in PAIRS for w in t], np.cumsum([0, *(len(t) for _, t in PAIRS)]), Vocab([*"abcdef"]))
BITEXT = Bitext(SOURCE, TARGET)
AGREEMENTS = pytest.mark.parametrize("agreement", [None, "product", "2008"])
NULLS = pytest.mark.parametrize("null", [None, 0.2, 0.0])

Tables = tuple[dict[tuple, float], dict[tuple, float]]


def named(model: Aligner, weights: dict[str, Tensor]) -> Tables:
    """The two tables by words: (e, f) forward and backward, None for the null word."""
    met = [*zip(torch.repeat_interleave(model.lexicon.sizes).tolist(), model.lexicon.met.tolist(), strict=True)]
    forward = [*met, *((None, f) for f in range(model.target_words))]
    backward = [*sorted(met, key=lambda pair: pair[::-1]), *((e, None) for e in range(model.source_words))]
    one, other = (weights[f"translation_{way}"].tolist() for way in ("forward", "backward"))
    return dict(zip(forward, one, strict=True)), dict(zip(backward, other, strict=True))


def choice(null: float | None, others: int) -> list[float]:
    """Probabilities of the null word and of each other."""
    if null is None:
        return [1 / (others + 1)] * (others + 1)
    return [null] + [(1 - null) / max(others, 1)] * others


def oracle(tables: Tables, pairs: list, agreement: str | None, null: float | None, beta: float = 1.0) -> tuple:
    """The objective and the expected counts, link by link."""
    counts = tuple(dict.fromkeys(table, 0.0) for table in tables)
    total = 0.0
    for source, target in pairs:
        posteriors = []
        for way, (choosers, others) in enumerate(((target, source), (source, target))):
            p = {}
            for x, chooser in enumerate(choosers):
                scores = []
                for y, (other, prior) in enumerate(zip([None, *others], choice(null, len(others)), strict=True)):
                    key = (other, chooser) if way == 0 else (chooser, other)
                    log = math.log(prior) if prior else -math.inf
                    log += tables[way][key]
                    if agreement == "2008" and other is not None:
                        log += tables[1 - way][key]
                    scores.append((beta * log, key, (y - 1, x) if way == 0 else (x, y - 1)))
                z = sum(math.exp(s) for s, _, _ in scores)
                total += math.log(z) / beta * (0.5 if agreement == "2008" else 1)
                for s, key, place in scores:
                    p[place, key] = math.exp(s) / z
            posteriors.append(p)
        for way, p in enumerate(posteriors):
            for (place, key), q in p.items():
                if None in key:
                    counts[way][key] += 0.5 * q if agreement == "2008" else q
                elif agreement is None:
                    counts[way][key] += q
                elif agreement == "product":
                    counts[way][key] += q * posteriors[1 - way][place, key]
                else:
                    counts[0][key] += 0.5 * q
                    counts[1][key] += 0.5 * q
    return total, counts


@pytest.mark.parametrize("beta", [0.3, 1.0, 2.0])
@NULLS
@AGREEMENTS
def test_the_e_step_is_that_of_all_links(agreement: str | None, null: float | None, beta: float) -> None:
    model = Aligner.of(BITEXT, agreement=agreement, null=null)
    em = pu.EM(pu.temper(model, beta))
    for some in ([0, 1, 2, 3, 4, 5], [3], [5, 1]):  # the small ones touch only a part of the tables
        state = em.init(BITEXT.select(some))
        info, expected = em.e_step(state)
        total, counts = oracle(named(model, state.weights), [PAIRS[b] for b in some], agreement, null, beta)
        assert info.objective == pytest.approx(total, rel=1e-10)
        for found, right in zip(named(model, expected.counts), counts, strict=True):
            assert found == pytest.approx(right, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("estimate", [pu.Normalise(), pu.AddLambda(0.1)])
@pytest.mark.parametrize("agreement", [None, "2008"])
@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_exact_training_never_falls(agreement: str | None, estimate: Any, beta: float) -> None:
    model = Aligner.of(BITEXT, agreement=agreement)
    em = pu.EM(pu.temper(model, beta), estimate, pu.init.uniform())
    fit = em.run(BITEXT, iterations=30, tolerance=0, progress=False)
    values = [row["objective"] for row in fit.rows]
    assert values[-1] > values[0]
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(values))
    for name, d in model.declarations().items():
        torch.testing.assert_close(d.layout.row_logsumexp(fit.weights[name]).exp(), torch.ones(d.layout.rows))


def test_agreement_by_product_sharpens_and_says_what_it_is() -> None:
    model = Aligner.of(BITEXT)
    assert repr(model) == "Aligner(source=5, target=6, 15 pairs of words, agreement='product')"
    site = poutine.trace(model).get_trace(BITEXT).nodes["links"]
    assert site["fn"].exact is False
    fits = {}
    for agreement in (None, "product"):
        em = pu.EM(Aligner.of(BITEXT, agreement=agreement), init=pu.init.uniform()).session()
        for _ in range(10):
            em.step(BITEXT)
        fits[agreement] = em.weights["translation_forward"].exp().max()
    assert fits["product"] >= fits[None]


def twin() -> ModuleType:
    path = Path(__file__).parents[2] / "docs" / "examples" / "model1_enumerated.py"
    spec = importlib.util.spec_from_file_location("model1_enumerated", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_enumerated_twin_has_the_same_em() -> None:
    """One direction alone: its log-likelihood, and its table after every step."""
    module, pairs = twin(), [(torch.tensor(s), torch.tensor(t)) for s, t in PAIRS]
    args = (pairs, 5, 6)
    slow = pu.EM(module.model, init=pu.init.uniform()).session()
    fast = pu.EM(Aligner.of(BITEXT, agreement=None), init=pu.init.uniform()).session()
    fast.start(BITEXT)
    model = fast.model
    assert isinstance(model, Aligner)
    for _ in range(10):
        direction = poutine.trace(pu.given(model, fast.weights)).get_trace(BITEXT).nodes["forward"]
        loss = slow.step(*args)
        assert -loss == pytest.approx(float(direction["fn"].log_prob(direction["value"]).sum()), rel=1e-12)
        fast.step(BITEXT)
        dense = slow.weights["translation"]
        for (e, f), log in named(model, fast.weights)[0].items():
            assert math.exp(log) == pytest.approx(float(dense[5 if e is None else e, f].exp()), rel=1e-9, abs=1e-12)
        assert int(dense.isfinite().sum()) <= len(model.lexicon) + 6


def test_the_twin_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    twin().main()
    assert "100% of the words are linked to a word" in capsys.readouterr().out


def test_a_text_is_looked_up_once() -> None:
    model = Aligner.of(BITEXT)
    first = model.index(BITEXT)
    assert model.index(BITEXT) is first
    assert model.index(first) is first
    again = BITEXT.select(range(6))
    assert model.index(again) is not first
    assert torch.equal(model.index(again).cells, first.cells)
    lists = ([s for s, _ in PAIRS], [t for _, t in PAIRS])
    assert torch.equal(model.index(lists).cells, first.cells)
    em = pu.EM(model).session()
    assert em.evaluate_loss(first) == em.evaluate_loss(BITEXT) == em.evaluate_loss(lists)
    assert em.evaluate_loss(first.select(range(6))) == pytest.approx(em.evaluate_loss(first))
    copy = pickle.loads(pickle.dumps(model))
    assert torch.equal(copy.index(BITEXT).cells, first.cells)


@AGREEMENTS
def test_words_that_never_met(agreement: str | None) -> None:
    """They have no weight, but the null word has: a known pair of words in new company is possible, just unlinked."""
    model = Aligner.of(BITEXT, agreement=agreement)
    em = pu.EM(model, init=pu.init.uniform()).session()
    new = ([[4, 1], [0]], [[2], [0, 4]])
    loss = em.evaluate_loss(new)
    tables = tuple(
        {key: table.get(key, -math.inf) for e in [*range(5), None] for f in [*range(6), None] if (key := (e, f))}
        for table in named(model, em.weights)
    )
    total, _ = oracle(tables, list(zip(*new, strict=True)), agreement, None)
    assert -loss == pytest.approx(total)


@AGREEMENTS
def test_saved_and_loaded(tmp_path: Path, agreement: str | None) -> None:
    prior = {"translation_forward": 1.5}
    model = Aligner.of(BITEXT, agreement=agreement, null=0.2, prior=prior)
    em = pu.EM(model, init=pu.init.uniform())
    fit = em.run(BITEXT, iterations=0, progress=False)
    fit.save(tmp_path / "fit")
    loaded = pu.load(tmp_path / "fit")
    assert repr(loaded.model) == repr(model)
    assert (loaded.model.source, loaded.model.target) == (SOURCE.vocab, TARGET.vocab)
    for name, d in model.declarations().items():
        assert torch.equal(loaded.weights[name], fit.weights[name])
        assert torch.equal(loaded.model.declarations()[name].prior, d.prior)
    assert loaded.log_likelihood(BITEXT) == fit.log_likelihood(BITEXT)


@AGREEMENTS
def test_stock_svi(agreement: str | None) -> None:
    model = Aligner.of(BITEXT, agreement=agreement, prior=2.0)
    svi = SVI(model, AutoDelta(model), Adam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step(BITEXT) for _ in range(40)]
    assert np.isfinite(losses).all()
    assert np.mean(losses[-10:]) < np.mean(losses[:10])


def test_vectorised_particles_nuts_and_predictive() -> None:
    model = Aligner.of(BITEXT, agreement="2008")
    elbo = Trace_ELBO(num_particles=2, vectorize_particles=True, max_plate_nesting=1)
    assert math.isfinite(SVI(model, AutoDelta(model), Adam({"lr": 0.05}), elbo).step(BITEXT))
    mcmc = MCMC(NUTS(model, max_tree_depth=3), num_samples=4, warmup_steps=4, disable_progbar=True)
    mcmc.run(BITEXT)
    samples = mcmc.get_samples()
    assert all(torch.isfinite(value).all() for value in samples.values())
    assert Predictive(model, samples)(BITEXT)["forward"].shape[0] == 4


def test_the_trace_has_two_tables_and_one_structure_a_direction() -> None:
    for agreement, sites in (
        (None, ["forward", "backward"]),
        ("2008", ["forward", "backward"]),
        ("product", ["links"]),
    ):
        trace = poutine.trace(Aligner.of(BITEXT, agreement=agreement)).get_trace(BITEXT)
        trace.compute_log_prob()
        names = [name for name, site in trace.nodes.items() if site["type"] == "sample"]
        assert names == ["translation_forward", "translation_backward", "pairs", *sites]
        assert trace.nodes[sites[-1]]["log_prob"].shape == (6,)


def test_a_vocabulary_may_have_words_that_do_not_occur() -> None:
    model = Aligner.of(BITEXT)  # target word f is in no pair
    assert model.declarations()["translation_backward"].layout.rows == (6,)  # five words and null
    assert model.declarations()["translation_forward"].layout.shape == (15 + 6,)
    assert model.best_translation(torch.zeros(21)).tolist() == [0, 0, 0, 2, 3]
    alone = Aligner.of(([[0]], [[0]]), source=2, target=1)
    assert alone.best_translation(torch.zeros(2)).tolist() == [0, -1]


def test_errors_say_what_was_expected() -> None:
    model = Aligner.of(BITEXT)
    with pytest.raises(StructureError, match="agreement must be 'product', '2008' or None, actual 'both'"):
        Aligner.of(BITEXT, agreement="both")
    with pytest.raises(StructureError, match=r"null must be a probability below 1, or None, actual 1\.5"):
        Aligner.of(BITEXT, null=1.5)
    with pytest.raises(StructureError, match=r"prior names tables that this aligner does not have: \['emission'"):
        Aligner.of(BITEXT, prior={"emission": 1.0})
    with pytest.raises(StructureError, match=r"say how many words there are \(source=...\)"):
        Aligner.of(([[0]], [[0]]))
    with pytest.raises(StructureError, match="expected pairs of sentences: a bitext, or a tuple of source and target"):
        model([[0]])
    with pytest.raises(StructureError, match=r"target words must lie in 0 .. 5, actual largest 6"):
        model(([[0]], [[6]]))
    with pytest.raises(StructureError, match="no source words"):
        model(([[]], [[0]]))
    with pytest.raises(StructureError, match="1 source sentences but 2 target sentences"):
        model(([[0]], [[0], [1]]))
    with pytest.raises(StructureError, match="the target sentences number their words by another vocabulary"):
        model(Bitext(SOURCE, Corpus(TARGET.words, TARGET.offsets, Vocab([*"bacdef"]))))
    with pytest.raises(StructureError, match="the lexicon is of 5 and 6 words, the vocabularies have 5 and 7"):
        Aligner(5, 7, model.lexicon)
    plain, tensors = model.settings()
    with pytest.raises(StructureError, match="the settings should be source, target, agreement, null and prior"):
        Aligner.from_settings({**plain, "extra": 1}, tensors)
    with pytest.raises(StructureError, match="cannot draw words"):
        poutine.trace(poutine.uncondition(model)).get_trace(BITEXT)


def test_hansards(real_data: Path, tmp_path: Path) -> None:
    """2,000 pairs and the gold sentences without their links: agreement helps, as it does with more text."""
    folder = real_data / "align"
    gold = pu.data.read_bitext(folder / "naacl2003-enfr.test.lc-ascii.en-fr", links=folder / "naacl2003-enfr.test.wa")
    text = pu.data.read_bitext(folder / "hansards36.001-003.egypt.en-fr", lowercase=True)
    both = concatenate(text, gold)
    found = {}
    for agreement in (None, "product", "2008"):
        em = pu.EM(Aligner.of(both, agreement=agreement), init=pu.init.uniform()).session()
        for _ in range(5):
            em.step(both)
        fit = pu.EM(em.model, init=pu.init.from_weights(em.weights)).run(both, iterations=0, progress=False)
        decoded = decode(fit, gold)
        found[agreement] = scores(fit, gold, decoded)
        assert decoded.unseen == (0, 0)
    assert found[None]["aer"] < 0.40
    assert found["product"]["aer"] < found[None]["aer"] - 0.02
    assert found["2008"]["aer"] < found[None]["aer"] - 0.02
    pyro.clear_param_store()

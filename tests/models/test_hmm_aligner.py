"""The aligner by jumps: against all alignments in plain loops, under EM and other engines, stock Pyro, and on text."""

from __future__ import annotations

import itertools
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from pyro.optim import Adam

import pyro_unsup as pu
from pyro_unsup import StructureError
from pyro_unsup.data import toy
from pyro_unsup.data.bitext import concatenate
from pyro_unsup.models import Aligner, HMMAligner
from pyro_unsup.tasks import find
from pyro_unsup.tasks.decoding.aligner import decode

from .test_aligner import BITEXT, PAIRS, SOURCE, TARGET, Tables, named

scores = find("aligner").scores

AGREEMENTS = pytest.mark.parametrize("agreement", [None, "product", "2008"])


def jump_probability(weights: list[list[float]], old: int, new: int, size: int) -> tuple[float, int, int, list[float]]:
    """Of a jump that is drawn until it stays in the sentence: its kind, its offset, and how often each was in vain."""
    end = new == size + 1
    kind = 2 if end else 0 if old == 0 else 1
    if end:
        starts = range(size + 1)
        inside = {min(new - i, 5) for i in starts}
        many = sum(new - i >= 5 for i in starts)
    else:
        places = range(1, size + 1)
        inside = {max(-5, min(5, m - old)) for m in places}
        many = sum((m - old >= 5) if new > old else (old - m >= 5) for m in places)
    offset = max(-5, min(5, new - old))
    p = [math.exp(w) for w in weights[kind]]
    room = sum(p[5 + d] for d in inside)
    share = 1 / many if abs(new - old) >= 5 else 1.0
    vain = [0.0 if d in inside else p[5 + d] / room for d in range(-5, 6)]
    return p[5 + offset] * share / room, kind, offset, vain


def oracle(tables: Tables, jumps: list, pairs: list, agreement: str | None, nulls: Any, beta: float = 1.0) -> tuple:
    """The objective, and expected counts of translations, jumps, and of links and none, by all alignments."""
    counts: list[dict] = [dict.fromkeys(table, 0.0) for table in tables]
    jumped, linked = np.zeros((2, 3, 11)), np.zeros((2, 2))
    total = 0.0
    for source, target in pairs:
        links: list[dict] = [{}, {}]
        for way, (choosers, others) in enumerate(((target, source), (source, target))):
            size, found = len(others), []
            null = nulls(way, size)
            for a in itertools.product(range(size + 1), repeat=len(choosers)):
                log, at, uses, moves = 0.0, 0, [], np.zeros((3, 11))
                for t, place in enumerate(a):
                    other = others[place - 1] if place else None
                    key = (other, choosers[t]) if way == 0 else (choosers[t], other)
                    uses.append((key, (place - 1, t) if way == 0 else (t, place - 1)))
                    log += tables[way][key] + (math.log(1 - null) if place else math.log(null))
                    if place and agreement == "2008":
                        log += tables[1 - way][key]
                    for old, new in [(at, place)] * bool(place) + [(place or at, size + 1)] * (t == len(a) - 1):
                        p, kind, offset, vain = jump_probability(jumps[way], old, new, size)
                        log += math.log(p)
                        moves[kind, 5 + offset] += 1
                        moves[kind] += vain
                    at = place or at
                found.append((beta * log, uses, moves))
            z = sum(math.exp(score) for score, _, _ in found)
            half = 0.5 if agreement == "2008" else 1.0
            total += half * math.log(z) / beta
            for score, uses, moves in found:
                q = math.exp(score) / z
                jumped[way] += half * q * moves
                for key, place in uses:
                    links[way][key, place] = links[way].get((key, place), 0.0) + q
                    linked[way, int(None not in key)] += half * q
        for way in (0, 1):
            for (key, place), q in links[way].items():
                if None in key:
                    counts[way][key] += 0.5 * q if agreement == "2008" else q
                elif agreement is None:
                    counts[way][key] += q
                elif agreement == "product":
                    counts[way][key] += q * links[1 - way][key, place]
                else:
                    counts[0][key] += 0.5 * q
                    counts[1][key] += 0.5 * q
    return total, counts, jumped, linked


@pytest.mark.parametrize("beta", [0.5, 1.0])
@pytest.mark.parametrize("null", [None, 0.2, "learn"])
@AGREEMENTS
def test_the_e_step_is_that_of_all_alignments(agreement: str | None, null: Any, beta: float) -> None:
    model = HMMAligner.of(BITEXT, agreement=agreement, null=null)
    em = pu.EM(pu.temper(model, beta))
    for some in ([0, 1, 2, 3, 4, 5], [3]):  # the small one touches only a part of the tables
        state = em.init(BITEXT.select(some))
        info, expected = em.e_step(state)
        w = state.weights

        def nulls(way: int, size: int) -> float:
            if null is None:
                return 1 / (size + 1)
            return 0.2 if null == 0.2 else float(w[f"null_{('forward', 'backward')[way]}"][0].exp())  # noqa: B023

        jumps = [w[f"jump_{way}"].tolist() for way in ("forward", "backward")]
        total, counts, jumped, linked = oracle(named(model, w), jumps, [PAIRS[b] for b in some], agreement, nulls, beta)
        assert info.objective == pytest.approx(total, rel=1e-10)
        found = expected.counts
        for one, expected in zip(named(model, found), counts, strict=True):
            assert one == pytest.approx(expected, rel=1e-9, abs=1e-9)
        for way, name in enumerate(("forward", "backward")):
            np.testing.assert_allclose(found[f"jump_{name}"], jumped[way], rtol=1e-9, atol=1e-9)
            if null == "learn":
                np.testing.assert_allclose(found[f"null_{name}"], linked[way], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("estimate", [pu.Normalise(), pu.AddLambda(0.1), pu.DirichletVB()])
@pytest.mark.parametrize("agreement", [None, "2008"])
@pytest.mark.parametrize("options", [{}, {"null": "learn"}, {"null_words": "uniform"}])
def test_exact_training_never_falls(agreement: str | None, estimate: Any, options: dict[str, Any]) -> None:
    text = toy.bitext(30, seed=1)
    model = HMMAligner.of(text, agreement=agreement, **options)
    for handled in (model, pu.temper(model, 0.5)):
        fit = pu.EM(handled, estimate).run(text, iterations=8, tolerance=0, progress=False)
        values = [row["objective"] for row in fit.rows]
        assert values[-1] > values[0]
        assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(values))


def test_it_starts_where_model_1_ends() -> None:
    text = toy.bitext(150, seed=3)
    first = pu.EM(Aligner.of(text), init=pu.init.uniform()).run(text, iterations=5, progress=False)
    model = HMMAligner.like(first.model)  # type: ignore[arg-type]
    assert (model.agreement, model.null) == ("product", None)
    start = model.start_from(first)(model.declarations(), torch.Generator())
    assert torch.equal(start["translation_forward"], first.weights["translation_forward"])
    jumps = start["jump_forward"].exp()
    torch.testing.assert_close(jumps.sum(-1), torch.ones(3))
    assert jumps.argmax(-1).tolist() == [6, 6, 6]
    assert bool((jumps[[0, 2], :6] == 0).all())
    em = pu.EM(model, init=model.start_from(first))
    fit = em.run(text, iterations=5, progress=False)
    assert fit.evaluate(text)["aer"] < first.evaluate(text)["aer"]
    assert fit.predict(text).shape[1] == 3
    learns = HMMAligner.like(first.model, null="learn")  # type: ignore[arg-type]
    even = learns.start_from(first.weights)(learns.declarations(), torch.Generator())["null_forward"]
    assert even.exp().tolist() == pytest.approx([0.5, 0.5])
    again = learns.start_from(fit)(learns.declarations(), torch.Generator())
    assert torch.equal(again["jump_backward"], fit.weights["jump_backward"])
    with pytest.raises(StructureError, match=r"the other fit has no table \['translation_backward'\]: it has \['tr"):
        model.start_from({"translation_forward": torch.zeros(3)})


def test_every_engine() -> None:
    text = toy.bitext(40, seed=2)
    model = HMMAligner.of(text, null="learn")
    start = model.start_from(pu.EM(Aligner.of(text), init=pu.init.uniform()).run(text, iterations=2, progress=False))
    engines = [
        pu.StepwiseEM(model, init=start, batch_size=7),
        pu.IncrementalEM(model, init=start, batch_size=10),
        pu.EM(pu.harden(model), pu.AddLambda(0.01), init=start),
        pu.Anneal(model, init=start, schedule=pu.schedules.geometric(0.5, 2)),
        pu.EM(model, init=start, dtype=torch.float32),
    ]
    for engine in engines:
        fit = engine.run(text, iterations=8, tolerance=0.01, progress=False)
        assert math.isfinite(fit.objective), engine
    assert fit.weights["jump_forward"].dtype == torch.float32


@AGREEMENTS
def test_saved_and_loaded(tmp_path: Path, agreement: str | None) -> None:
    prior = {"translation_forward": 1.5, "jump_backward": 2.0}
    model = HMMAligner.of(BITEXT, agreement=agreement, null="learn", prior=prior, null_words="uniform")
    fit = pu.EM(model, init=pu.init.uniform()).run(BITEXT, iterations=0, progress=False)
    fit.save(tmp_path / "fit")
    loaded = pu.load(tmp_path / "fit")
    assert repr(loaded.model) == repr(model)
    assert repr(model).startswith("HMMAligner(source=5, target=6, 15 pairs of words, agreement=")
    assert repr(model).endswith(", null='learn', null_words='uniform')")
    assert (loaded.model.source, loaded.model.target) == (SOURCE.vocab, TARGET.vocab)  # type: ignore[attr-defined]
    for name, d in model.declarations().items():
        assert torch.equal(loaded.weights[name], fit.weights[name])
        assert torch.equal(loaded.model.declarations()[name].prior, d.prior)  # type: ignore[attr-defined]
    assert loaded.log_likelihood(BITEXT) == fit.log_likelihood(BITEXT)
    copy = pickle.loads(pickle.dumps(model))
    assert torch.equal(copy.index(BITEXT).cells, model.index(BITEXT).cells)


@AGREEMENTS
def test_stock_pyro(agreement: str | None) -> None:
    model = HMMAligner.of(BITEXT, agreement=agreement, null="learn", prior=2.0)
    svi = SVI(model, AutoDelta(model), Adam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step(BITEXT) for _ in range(30)]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    if agreement != "product":
        elbo = Trace_ELBO(num_particles=2, vectorize_particles=True, max_plate_nesting=1)
        assert math.isfinite(SVI(model, AutoDelta(model), Adam({"lr": 0.05}), elbo).step(BITEXT))
    trace = poutine.trace(model).get_trace(BITEXT)
    names = [name for name, site in trace.nodes.items() if site["type"] == "sample"]
    tables = ["translation_forward", "translation_backward", "jump_forward", "null_forward", "jump_backward"]
    assert names[:6] == [*tables, "null_backward"]


def test_words_never_met(tmp_path: Path) -> None:
    """An unknown word goes with an unknown one; known words keep their links."""
    text = toy.bitext(100, seed=1)
    first = pu.EM(Aligner.of(text), init=pu.init.uniform()).run(text, iterations=5, progress=False)
    model = HMMAligner.like(first.model)  # type: ignore[arg-type]
    fit = pu.EM(model, init=model.start_from(first)).run(text, iterations=5, progress=False)
    words = [text.source.sentence(0), text.target.sentence(0)]
    known = decode(fit, text.select([0])).links.rows.tolist()
    (tmp_path / "new.txt").write_text(" ||| ".join(" ".join(["xyzzy", *side]) for side in words) + "\n")
    found = decode(fit, pu.data.read_bitext(tmp_path / "new.txt"))
    assert found.unseen == (1, 1)
    assert [0, 0, 0] in found.links.rows.tolist()
    assert sum([0, i + 1, j + 1] in found.links.rows.tolist() for _, i, j in known) >= len(known) - 1
    assert not math.isfinite(float(found.log_likelihood))
    assert bool(torch.isfinite(found.forward).all())


def test_errors_say_what_was_expected() -> None:
    model = HMMAligner.of(BITEXT)
    with pytest.raises(StructureError, match="null must be a probability below 1, 'learn' or None, actual 'some'"):
        HMMAligner.of(BITEXT, null="some")
    with pytest.raises(StructureError, match=r"null must be a probability below 1, or None, actual 1\.5"):
        HMMAligner.of(BITEXT, null=1.5)
    with pytest.raises(StructureError, match="null_words must be 'learn' or 'uniform', actual 'none'"):
        HMMAligner.of(BITEXT, null_words="none")
    with pytest.raises(StructureError, match=r"prior names tables that this aligner does not have: \['null_forward'"):
        HMMAligner.of(BITEXT, prior={"null_forward": 1.0})
    plain, tensors = model.settings()
    with pytest.raises(
        StructureError, match="the settings should be source, target, agreement, null, prior, null_words and order"
    ):
        HMMAligner.from_settings({**plain, "extra": 1}, tensors)


def test_hansards(real_data: Path) -> None:
    """2,000 pairs and the gold sentences without their links: jumps help much, and so does agreement."""
    folder = real_data / "align"
    gold = pu.data.read_bitext(folder / "naacl2003-enfr.test.lc-ascii.en-fr", links=folder / "naacl2003-enfr.test.wa")
    text = pu.data.read_bitext(folder / "hansards36.001-003.egypt.en-fr", lowercase=True)
    both = concatenate(text, gold)
    found = {}
    for agreement in (None, "product"):
        first = pu.EM(Aligner.of(both, agreement=agreement), init=pu.init.uniform())
        fit = first.run(both, iterations=5, tolerance=0, progress=False)
        model = HMMAligner.like(fit.model)  # type: ignore[arg-type]
        fit = pu.EM(model, init=model.start_from(fit)).run(both, iterations=5, tolerance=0, progress=False)
        found[agreement] = {how: scores(fit, gold, decode(fit, gold, how))["aer"] for how in ("viterbi", "competitive")}
    assert found[None]["viterbi"] < 0.23
    assert found[None]["competitive"] < 0.18
    assert found["product"]["viterbi"] < 0.15
    assert found["product"]["competitive"] < 0.15

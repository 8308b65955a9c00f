"""The segmenter: against all segmentations in plain strings, its enumerated twin, stock Pyro, and on real text."""

from __future__ import annotations

import importlib.util
import itertools
import math
import pickle
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from pyro.optim import Adam

import pyro_unsup as pu
from pyro_unsup import StructureError
from pyro_unsup.data import Corpus, Segmented, Vocab
from pyro_unsup.models import Segmenter

LINES = ["abab", "ab", "ccab", "abcc", "babcc", "c"]
VOCAB = Vocab(list("abc"))
CORPUS = Corpus(VOCAB.encode("".join(LINES)), np.cumsum([0, *map(len, LINES)]), VOCAB)


def all_segmentations(line: str, longest: int) -> list[list[str]]:
    ways = []
    for cuts in itertools.product((False, True), repeat=len(line) - 1):
        edges = [0, *(i for i, cut in enumerate(cuts, 1) if cut), len(line)]
        ways.append([line[i:j] for i, j in itertools.pairwise(edges)])
    return [way for way in ways if max(map(len, way)) <= longest]


def oracle(lines: list[str], longest: int, penalty: float, theta: dict[str, float], go: float) -> tuple[float, Counter]:
    """Log-likelihood and expected counts of words, from the words of the paper and nothing else."""
    total, counts = 0.0, Counter()
    for line in lines:
        ways = all_segmentations(line, longest)
        weights = [
            math.prod(go * theta.get(word, 0.0) * math.exp(-(len(word) ** penalty)) for word in way) * (1 - go)
            for way in ways
        ]
        total += math.log(sum(weights))
        for way, weight in zip(ways, weights, strict=True):
            counts.update({word: n * weight / sum(weights) for word, n in Counter(way).items()})
            counts["<go>"] += len(way) * weight / sum(weights)
        counts["<stop>"] += 1
    return total, counts


@pytest.mark.parametrize(("longest", "penalty"), [(3, 1.6), (5, 1.0), (2, 2.5)])
def test_em_is_brute_force_em(longest: int, penalty: float) -> None:
    model = Segmenter.of(CORPUS, max_length=longest, penalty=penalty)
    names = model.types.strings(VOCAB.types)
    fit = pu.EM(model, init=pu.init.uniform()).run(CORPUS, iterations=4, tolerance=0.0, progress=False)
    theta, go = dict.fromkeys(names, 1 / (len(names) + 1)), 0.5
    for row in fit.rows:
        log_likelihood, counts = oracle(LINES, longest, penalty, theta, go)
        assert row["log_likelihood"] == pytest.approx(log_likelihood, rel=1e-12)
        mass = sum(counts[name] for name in names)
        last = theta, go
        theta, go = {name: counts[name] / mass for name in names}, counts["<go>"] / (counts["<go>"] + counts["<stop>"])
    expected = torch.tensor([*(last[0][name] for name in names), 0.0])
    torch.testing.assert_close(fit.weights["segments"].exp(), expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(fit.weights["stop"].exp(), torch.tensor([last[1], 1 - last[1]]))


# -- the enumerated twin


def twin() -> ModuleType:
    path = Path(__file__).parents[2] / "docs" / "examples" / "segmenter_enumerated.py"
    spec = importlib.util.spec_from_file_location("segmenter_enumerated", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("tempered", [False, True])
def test_enumerated_twin_is_the_same_model(tempered: bool) -> None:
    example, longest = twin(), 3
    words, lengths, types = example.numbered(LINES, longest)
    data = (words, lengths, len(types))
    model = Segmenter.of(CORPUS, max_length=longest)
    order = [types.index(name) for name in model.types.strings(VOCAB.types)]
    start = torch.randn(len(types), generator=torch.Generator().manual_seed(1)).log_softmax(-1)
    stop = torch.tensor([0.6, 0.4]).log()
    padded = torch.cat([start[order], torch.tensor([-torch.inf])])
    inits = [pu.init.from_weights({"segments": w, "stop": stop}) for w in (start, padded)]
    programs = [pu.temper(m, 0.5) if tempered else m for m in (example.model, model)]
    runs = [(pu.EM(m, init=init), args) for m, init, args in zip(programs, inits, (data, (CORPUS,)), strict=True)]
    slow, fast = (em.run(*args, iterations=5, tolerance=0.0, progress=False) for em, args in runs)
    for one, other in zip(slow.rows, fast.rows, strict=True):
        assert one["objective"] == pytest.approx(other["objective"], rel=1e-11)
    torch.testing.assert_close(slow.weights["segments"].exp()[order], fast.weights["segments"].exp()[:-1])
    torch.testing.assert_close(slow.weights["stop"], fast.weights["stop"])
    assert fast.weights["segments"][-1] == -torch.inf
    if not tempered:
        assert torch.equal(example.ends(slow.predict(*data), lengths), fast.predict(CORPUS))


def test_enumerated_twin_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    torch.set_default_dtype(torch.float32)  # what a user has
    twin().main()
    assert "of the cuts found (F1)" in capsys.readouterr().out


# -- as a Pyro model


def test_sites() -> None:
    trace = poutine.trace(Segmenter.of(CORPUS, max_length=2)).get_trace(CORPUS)
    assert {name for name, site in trace.nodes.items() if site["type"] == "sample"} == {
        "segments",
        "stop",
        "sentences",
        "symbols",
    }
    assert trace.nodes["symbols"]["is_observed"]
    assert trace.nodes["symbols"]["fn"].batch_shape == (len(LINES),)


def test_stock_svi_runs_it() -> None:
    model = Segmenter.of(CORPUS, max_length=3, prior=2.0)
    guide = AutoDelta(poutine.block(model, expose=["segments", "stop"]))
    svi = SVI(model, guide, Adam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step(CORPUS) for _ in range(30)]
    assert losses[-1] < losses[0]


def test_a_mini_batch_touches_what_it_uses() -> None:
    model = Segmenter.of(CORPUS, max_length=3)
    weights = {name: d.layout.uniform() for name, d in model.declarations().items()}
    weights["segments"] = torch.randn(len(model.types) + 1).log_softmax(-1)
    seen = model.index(CORPUS)
    small, whole = seen.select([1]), seen.select([1, *range(6)])  # the second has more cells than the table
    assert small.cells.numel() < len(model.types) < whole.cells.numel()
    with pu.handlers.Counting(weights) as counting:
        log_z = poutine.trace(model).get_trace(small).log_prob_sum()
    touched = counting.found["segments"].touched
    assert touched is not None
    assert set(touched.tolist()) == set(seen.cells[4:6].flatten().tolist()) - {-1}
    counts = counting.found["segments"].whole(counting.counts(log_z)["segments"])
    with pu.handlers.Counting(weights) as both:
        log_both = poutine.trace(model).get_trace(whole).log_prob_sum()
    with pu.handlers.Counting(weights) as rest:
        log_rest = poutine.trace(model).get_trace(seen).log_prob_sum()
    assert rest.found["segments"].touched is None
    torch.testing.assert_close(log_both, log_z + log_rest)
    torch.testing.assert_close(both.counts(log_both)["segments"], counts + rest.counts(log_rest)["segments"])


def test_the_same_under_other_ways_to_give_the_data() -> None:
    model = Segmenter.of(CORPUS, max_length=3)
    fit = pu.EM(model, init=pu.init.uniform()).run(CORPUS, iterations=2, progress=False)
    expected = fit.log_likelihood(CORPUS)
    rows = [CORPUS.words[i:j].tolist() for i, j in itertools.pairwise(CORPUS.offsets)]
    flat, lengths = torch.from_numpy(CORPUS.words), torch.from_numpy(CORPUS.lengths)
    for args in (
        (rows,),
        (flat, lengths),
        (model.index(CORPUS),),
        (Segmented(CORPUS),),
        (CORPUS.select(np.arange(6)),),
    ):
        assert fit.log_likelihood(*args) == pytest.approx(expected, rel=1e-12)
    assert fit.predict(CORPUS).tolist() == fit.predict(rows).tolist()


def test_what_a_corpus_looks_like_is_remembered_and_forgotten() -> None:
    corpus = CORPUS.select(np.arange(6))
    model = Segmenter.of(corpus, max_length=3)
    found = model.index(corpus)
    assert model.index(corpus) is found
    assert model.index(CORPUS) is not found
    copy = pickle.loads(pickle.dumps(model))
    assert copy._last is None
    assert torch.equal(copy.index(corpus).cells, found.cells)
    assert model.index(found) is found


def test_unknown_segments_have_weight_only_if_smoothed() -> None:
    model = Segmenter.of(CORPUS, max_length=3)
    new = [VOCAB.encode("cba").tolist()]  # cb is nowhere
    plain = pu.EM(model, init=pu.init.uniform()).run(CORPUS, iterations=3, progress=False)
    smooth = pu.EM(model, pu.AddLambda(0.1), init=pu.init.uniform()).run(CORPUS, iterations=3, progress=False)
    assert plain.weights["segments"][-1] == -torch.inf
    assert smooth.weights["segments"][-1] > -torch.inf
    counts = smooth.posterior(new).counts["segments"]
    assert float(counts.sum()) > 0


def test_a_given_lexicon() -> None:
    model = Segmenter.listed(["ab", "c", "cc", "b"], VOCAB, penalty=None)
    assert repr(model) == "Segmenter(vocab=3, 4 types, max_length=2, penalty=None)"
    fit = pu.EM(model, init=pu.init.uniform()).run(CORPUS, iterations=20, progress=False)
    found = Segmented(CORPUS).lines(fit.predict(CORPUS))
    assert [line.replace("c c", "cc") for line in found] == ["ab ab", "ab", "cc ab", "ab cc", "b ab cc", "c"]
    wide = Segmenter.listed([["a", "b"], ["c"]], VOCAB, max_length=4)
    assert wide.max_length == 4
    assert wide.types.strings(VOCAB.types) == ["ab", "c"]


@pytest.mark.parametrize("penalty", [1.6, 0.0, None, 3])
def test_penalty(penalty: float | None) -> None:
    model = Segmenter.of(CORPUS, max_length=3, penalty=penalty)
    weights = poutine.trace(model).get_trace(CORPUS).nodes["symbols"]["fn"].weights["length"]
    assert weights.shape == (4,)
    expected = [0.0 if penalty is None else -(float(w) ** penalty) for w in range(1, 4)]
    torch.testing.assert_close(weights[1:], torch.tensor(expected))


# -- saving


@pytest.mark.parametrize("listed", [False, True])
def test_settings(listed: bool, tmp_path: Path) -> None:
    prior = {"segments": 0.5}
    model = (
        Segmenter.listed(["ab", "c", "b"], VOCAB, 3, 2.0, prior)
        if listed
        else Segmenter.of(CORPUS, max_length=3, penalty=2.0, prior=prior)
    )
    plain, tensors = model.settings()
    assert plain["vocab"] == {"types": ["a", "b", "c"], "unknown": None}
    again = Segmenter.from_settings({**plain, "vocab": VOCAB}, tensors)
    assert repr(again) == repr(model)
    assert torch.equal(again.index([[0, 1, 2]]).cells, model.index([[0, 1, 2]]).cells)
    assert float(again.declarations()["segments"].prior) == 0.5
    fit = pu.EM(model, pu.AddLambda(0.1), init=pu.init.uniform()).run(CORPUS, iterations=2, progress=False)
    fit.save(tmp_path / "fit")
    loaded = pu.load(tmp_path / "fit")
    assert torch.equal(loaded.predict(CORPUS), fit.predict(CORPUS))
    assert repr(loaded.model) == repr(model)
    with pytest.raises(StructureError, match="the settings should be vocab, max_length, penalty and prior"):
        Segmenter.from_settings({"vocab": 3}, {})


# -- errors


def test_errors() -> None:
    model = Segmenter.of(CORPUS, max_length=2)
    for wrong, message in (
        (lambda: Segmenter.of([[0, 1]]), "sentences without a vocabulary: say how many symbols there are (vocab=...)"),
        (lambda: Segmenter.of(CORPUS, max_length=0), "max_length must be a whole number, 1 or more, actual 0"),
        (lambda: Segmenter.of(CORPUS, penalty=-1.0), "penalty must be an exponent, 0 or more, or None for none"),
        (lambda: Segmenter.of(CORPUS, penalty=math.nan), "penalty must be an exponent"),
        (lambda: Segmenter.of(CORPUS, prior={"words": 1.0}), "does not have: ['words']"),
        (lambda: Segmenter.of([[0, 3]], vocab=3), "symbol numbers must lie in 0 .. 2, actual range 0 .. 3"),
        (lambda: Segmenter.of([[]], vocab=3), "no symbols: expected at least one sentence with a symbol in it"),
        (lambda: Segmenter(4, model.types), "the types are of 3 symbols, the vocabulary has 4"),
        (lambda: Segmenter.listed(["abx"], VOCAB), "segment 'abx' has 'x', which is not in the vocabulary"),
        (lambda: model([[0, 3]]), "symbol numbers must lie in 0 .. 2, actual range 0 .. 3"),
        (lambda: model(CORPUS.with_vocab(Vocab(list("cba")))), "another vocabulary than the model's: re-encode them"),
    ):
        with pytest.raises(StructureError) as error:
            wrong()
        assert message in str(error.value)


# -- real text


def test_phonemes_of_child_directed_speech(real_data: Path) -> None:
    """Deterministic, from the uniform start: the values of independent code."""
    text = pu.data.read_segmented(real_data / "br-phono.txt")
    assert (len(text), text.tokens, int(text.ends.sum())) == (9_790, 95_809, 33_399)
    model = Segmenter.of(text)
    assert len(model.types) == 174_560
    em = pu.EM(model, init=pu.init.uniform())
    # At the start many segmentations are equally good, and any of them may be taken: no score to compare.
    golden = (
        (0, None, -5.1468),
        (19, 0.8047, -4.1111),
        (20, 0.8055, -4.1108),
        (100, 0.7687, -4.1076),
        (300, 0.7687, -4.1074),
    )
    fit = None
    for updates, f1, loglik in golden:
        fit = em.run(text, iterations=updates, tolerance=0.0, progress=False, resume=fit)
        scores = fit.evaluate(text)
        assert f1 is None or scores["token_f1"] == pytest.approx(f1, abs=5e-4)
        assert scores["loglik_per_token"] == pytest.approx(loglik, abs=5e-4)
        if updates == 19:
            assert float(fit.weights["stop"].exp()[1]) == pytest.approx(0.2396, abs=1e-4)
            assert scores["token_precision"] == pytest.approx(0.8373, abs=1e-4)
            assert scores["token_recall"] == pytest.approx(0.7745, abs=1e-4)
    pyro.clear_param_store()

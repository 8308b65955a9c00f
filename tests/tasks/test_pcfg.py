"""What a grammar is for: parsing text that training never met, labelled brackets, scores and tables."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import Corpus, Vocab
from pyro_unsup.distributions import PCFG as Grammar
from pyro_unsup.errors import UnsupError
from pyro_unsup.tasks import find
from pyro_unsup.tasks.agreement import mean_posterior
from pyro_unsup.tasks.decoding import FLOOR
from pyro_unsup.tasks.decoding.pcfg import decode

from ..distributions.pcfg_case import all_spans, enumerate_trees

TRAIN = ["D N V", "V D N", "P", "D N P D", "N V", "P V D N"]
NEW = ["D N V", "N N Q D", "Q", "Q R", "V V P", "P"]  # Q and R are new; others in new company


def corpus(lines: list[str], vocab: list[str] | None = None) -> Corpus:
    words = [word for line in lines for word in line.split()]
    known = Vocab(sorted(set(words), reverse=True) if vocab is None else vocab)
    return Corpus(known.encode(words), np.cumsum([0, *(len(line.split()) for line in lines)]), known)


@pytest.fixture(scope="module")
def fit() -> pu.Fit:
    text = corpus(TRAIN, ["D", "N", "V", "P"])
    model = pu.models.PCFG.of(text, 2, 2)
    return pu.EM(model, init=model.split_start(text, noise=3.0)).run(text, iterations=6, progress=False)


def test_new_words_against_all_trees(fit: pu.Fit) -> None:
    """The best tree among all, where what training holds impossible weighs as little as the unknown."""
    text = corpus(NEW)
    found = decode(fit, text, how="viterbi")
    assert found.unseen == 4
    weights = {name: w.clamp(min=FLOOR) for name, w in fit.weights.items()}
    emission = torch.cat([weights["emission"], torch.full((2, 1), FLOOR)], -1)
    number = {"D": 0, "N": 1, "V": 2, "P": 3}
    edge = 0
    for i, line in enumerate(NEW):
        words = [number.get(word, 4) for word in line.split()]
        n = len(words)
        if n == 1:
            assert found.log_likelihood[i] == 0
            continue
        grammar = Grammar(weights["root"], weights["rules"].unflatten(-1, (4, 4)), emission, torch.tensor([n]))
        trees = enumerate_trees(grammar, words)
        mine = tuple(found.structure[edge : edge + n * (n + 1) // 2].tolist())
        assert trees.scores[trees.structures.index(mine)] == pytest.approx(max(trees.scores), abs=1e-6)
        if "Q" in line:
            assert found.log_likelihood[i] == -torch.inf
        edge += n * (n + 1) // 2
    assert edge == len(found.structure)


def test_brackets_and_labels(fit: pu.Fit) -> None:
    text = corpus(TRAIN)
    for how in ("mbr", "viterbi"):
        found = decode(fit, text, how=how)
        assert len(found.brackets) == len(found.labels) == sum(2 * n - 1 for n in text.lengths.tolist() if n > 1)
        for (sentence, i, j), label in zip(found.brackets.tolist(), found.labels, strict=True):
            assert (label[0] == "P") == (j - i == 1)
            assert 0 <= i < j <= text.lengths[sentence]
    with pytest.raises(UnsupError, match="expected the fit of a probabilistic context-free grammar, actual Tagger"):
        decode(pu.EM(pu.models.Tagger(2, text.vocab)).run(text, iterations=1, progress=False), text)


def test_written_brackets_are_the_trees(fit: pu.Fit) -> None:
    text = corpus(TRAIN)
    found, out = fit.decode(text), io.StringIO()
    find("pcfg").write(fit, text, found, SimpleNamespace(out=out))
    lines = out.getvalue().splitlines()
    assert len(lines) == len(TRAIN)
    assert lines[2] == "(X (_ P))"
    nltk = pytest.importorskip("nltk")
    at = 0
    for line, words in zip(lines, TRAIN, strict=True):
        tree = nltk.Tree.fromstring(line)
        assert tree.leaves() == words.split()
        n = len(tree.leaves())
        if n == 1:
            continue
        mine = found.structure[at : at + n * (n + 1) // 2].tolist()
        labels = {span: found.names[k] for span, k in zip(all_spans(n), mine, strict=True) if k >= 0}
        assert spans_of_tree(tree) == labels
        at += n * (n + 1) // 2


def spans_of_tree(tree: object) -> dict[tuple[int, int], str]:
    """The label of every node, single words included."""
    found: dict[tuple[int, int], str] = {}

    def walk(node: object, start: int) -> int:
        if isinstance(node, str):
            return start + 1
        end = start
        for child in node:  # type: ignore[attr-defined]
            end = walk(child, end)
        found[start, end] = node.label()  # type: ignore[attr-defined]
        return end

    walk(tree, 0)
    return found


def test_tags_of_a_text_stay(fit: pu.Fit) -> None:
    tags = corpus(["D N V"])
    text = Corpus([0, 1, 2], [0, 3], Vocab(["the", "dog", "barks"]), tags.words, tags.vocab)
    out = io.StringIO()
    find("pcfg").write(fit, text, fit.decode(text), SimpleNamespace(out=out))
    assert all(f"({pair})" in out.getvalue() for pair in ("D the", "N dog", "V barks"))


def test_scores(fit: pu.Fit) -> None:
    text = corpus(TRAIN)
    found = decode(fit, text)
    inner = found.brackets[found.brackets[:, 2] - found.brackets[:, 1] > 1]
    offsets = np.searchsorted(inner[:, 0], np.arange(len(text) + 1))
    gold = Corpus(text.words, text.offsets, text.vocab, spans=inner[:, 1:], span_offsets=offsets)
    scores = fit.evaluate(gold)
    assert scores["f1"] == scores["f1_klein_manning_2004"] == 1.0
    bits = -float(found.log_likelihood.sum()) / np.log(2) / (text.tokens - 1)  # one word is a sentence of its own
    assert scores["bits_per_tag"] == pytest.approx(bits)


def test_table_of_constituents(fit: pu.Fit) -> None:
    text = corpus(TRAIN)
    frame, found = fit.to_frame(text), fit.decode(text)
    assert list(frame.columns) == ["sentence", "first", "last", "words", "label", "probability"]
    assert len(frame) == sum(n - 1 for n in text.lengths.tolist())
    spans = {key: k for k, key in enumerate(zip(*(x.tolist() for x in found.spans), strict=True))}
    for row in frame.itertuples():
        k = spans[row.sentence, row.first - 1, row.last]
        label = int(found.structure[k])
        assert row.label == found.names[label]
        assert row.probability == pytest.approx(float(found.posterior.marginals[k, label]))
        assert row.words == " ".join(text.sentence(row.sentence)[row.first - 1 : row.last])


def test_what_is_shown(fit: pu.Fit) -> None:
    shown = find("pcfg").show(fit, 3)
    assert shown.record["nonterminals"] == 2
    first = shown.record["rules"]["N0"][0]
    best = int(fit.weights["rules"][0].argmax())
    names = ("N0", "N1", "P0", "P1")
    assert first["parts"] == f"{names[best // 4]} {names[best % 4]}"
    assert first["probability"] == pytest.approx(float(fit.weights["rules"][0].max().exp()))
    assert "strongest rules" in str(shown)


def test_runs_with_other_names_for_labels_agree(fit: pu.Fit) -> None:
    text = corpus(TRAIN, ["D", "N", "V", "P"])
    one = decode(fit, text)
    order = torch.tensor([1, 0, 3, 2])
    weights = {
        "root": fit.weights["root"].flip(0),
        "rules": fit.weights["rules"].unflatten(-1, (4, 4))[order[:2]][:, order][:, :, order].flatten(-2),
        "emission": fit.weights["emission"].flip(0),
    }
    other = pu.EM(fit.model, init=pu.init.from_weights(weights)).run(text, iterations=0, progress=False)
    mean, structures, _ = mean_posterior(fit.model, [one, decode(other, text)])
    torch.testing.assert_close(mean, one.posterior.marginals.double())
    assert torch.equal(structures[0] < 0, structures[1] < 0)
    assert torch.equal(structures[0], structures[1])


def test_labels_are_scored_where_gold_has_them(fit: pu.Fit, tmp_path: Path) -> None:
    text = corpus(TRAIN)
    rows = [row for row in fit.decode(text).brackets.tolist() if row[2] - row[1] > 1]
    labels = ["A" if row[1] == 0 else "B" for row in rows]
    pu.data.write_brackets(text, rows, tmp_path / "gold.mrg", label=labels)
    gold = pu.data.read_brackets(tmp_path / "gold.mrg", labels=True)
    found, beside = fit.evaluate(gold), find("pcfg").baselines(gold)
    assert found["f1"] == 1.0
    assert 0 < found["labelled_f1"] <= 1.0
    assert beside["right_branching"]["labelled_f1"] <= beside["right_branching"]["f1"]
    assert "labelled_f1" not in fit.evaluate(pu.data.read_brackets(tmp_path / "gold.mrg"))

"""Scores of dependency heads, against hand-made cases, a slow definition, and what others report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.data import read_conllu, short_tag_sequences, toy
from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate import (
    SignTest,
    chain_to_next,
    chain_to_previous,
    head_counts,
    head_scores,
    jackknife,
    sign_test_heads,
)
from pyro_unsup.evaluate.dependencies import MEASURES


def test_a_pair_of_sentences_by_hand() -> None:
    #        the  dog  will bark loudly         |  yes  sir
    gold = [2, 3, 0, 3, 4, 0, 1]
    ours = [2, 4, 4, 0, 4, 2, 0]
    # the: right. dog: not linked to bark. will: a gold child. bark: the root is its grandparent. loudly: right.
    # yes: a gold child. sir: the root is its grandparent.
    assert head_scores(gold, ours, [5, 2]) == {
        "directed": 2 / 7, "undirected": 4 / 7, "ned": 6 / 7, "sentences": 2, "words": 7,
    }  # fmt: skip
    counts = head_counts(torch.tensor(gold), torch.tensor(ours), torch.tensor([5, 2]))
    assert counts.lengths.tolist() == counts.scored.tolist() == [5, 2]
    assert counts.directed.tolist() == [2, 0]
    assert counts.undirected.tolist() == [3, 1]
    assert counts.ned.tolist() == [4, 2]
    assert counts.select([1]).scores()["ned"] == 1


def test_words_at_the_root_may_be_left_out() -> None:
    gold, ours = [2, 0, 2, 0], [2, 3, 0, 0]
    assert head_scores(gold, ours, [3, 1])["directed"] == 2 / 4
    assert head_scores(gold, ours, [3, 1], count_root=False) == {
        "directed": 1 / 2, "undirected": 1 / 2, "ned": 2 / 2, "sentences": 2, "words": 2,
    }  # fmt: skip


def test_unknown_heads() -> None:
    counts = head_counts([-1, 1, 0, -1], [2, 0, -1, 0], [2, 1, 1])
    assert counts.scored.tolist() == [1, 1, 0]
    assert counts.directed.tolist() == counts.undirected.tolist() == counts.ned.tolist() == [0, 0, 0]
    with pytest.raises(UnsupError, match="no word with a gold head to score in 1 sentences; score a treebank"):
        counts.select([2]).scores()
    assert counts.by_length().index.tolist() == [1, 2]


@st.composite
def instance(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]]]:
    sides: list[list[list[int]]] = [[], []]
    for n in draw(st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any)):
        for side in sides:
            order, heads = draw(st.permutations(range(1, n + 1))), [0] * n
            for place, word in enumerate(order):
                heads[word - 1] = draw(st.sampled_from([-1, *order[: max(place, 1)]])) if place else 0
            side.append(heads)
    return sides[0], sides[1]


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(instance(), st.booleans())
def test_scores_are_those_of_a_slow_definition(case: tuple[list[list[int]], list[list[int]]], count_root: bool) -> None:
    gold, ours = case
    lengths = [len(one) for one in gold]
    counts = head_counts(np.concatenate(gold).astype(int), np.concatenate(ours).astype(int), lengths, count_root)
    for b, (right, found) in enumerate(zip(gold, ours, strict=True)):
        parent = dict(enumerate(right, 1))
        expected = dict.fromkeys(("scored", *MEASURES), 0)
        for word, head in enumerate(found, 1):
            if parent[word] < (0 if count_root else 1):
                continue
            allowed = {"directed": {parent[word]}}
            allowed["undirected"] = allowed["directed"] | {child for child in parent if parent[child] == word}
            allowed["ned"] = allowed["undirected"] | {parent.get(parent[word], -1)}
            expected["scored"] += 1
            for name in MEASURES:
                expected[name] += head >= 0 and head in allowed[name]
        assert {name: getattr(counts, name)[b] for name in expected} == expected


def test_chains_and_frames() -> None:
    assert chain_to_next([3, 0, 1]).tolist() == [2, 3, 0, 0]
    assert chain_to_previous([3, 0, 1]).tolist() == [0, 1, 2, 0]
    corpus = toy.sentences(200, seed=2)
    heads = chain_to_previous(corpus.lengths)
    counts = head_counts(corpus.heads, heads, corpus.lengths)  # type: ignore[arg-type]
    table = counts.by_length()
    assert table.index.name == "length"
    assert table["sentences"].sum() == 200
    assert table["words"].sum() == corpus.tokens
    for length, row in table.iterrows():
        some = corpus.filter(length, length)
        expected = head_scores(some.heads, chain_to_previous(some.lengths), some.lengths)  # type: ignore[arg-type]
        assert row.to_dict() == expected
    spread = jackknife(lambda kept: counts.select(kept).scores()["directed"], len(counts), parts=10)
    assert spread.mean == pytest.approx(counts.scores()["directed"], abs=1e-3)


def test_sign_tests() -> None:
    gold, ours, theirs = [2, 0, 2, 0, 1, 0], [2, 0, 2, 2, 0, 0], [0, 1, 2, 0, 1, 0]
    lengths = [3, 2, 1]
    assert sign_test_heads(gold, ours, theirs, lengths) == SignTest(1, 1, 1, 1.0)
    assert sign_test_heads(gold, ours, theirs, lengths, by="words") == SignTest(2, 2, 2, 1.0)
    assert sign_test_heads(gold, ours, theirs, lengths, "words", "undirected") == SignTest(1, 1, 4, 1.0)
    assert sign_test_heads(gold, ours, theirs, lengths, measure="ned") == SignTest(0, 0, 3, 1.0)
    assert sign_test_heads([2, 0, -1], [2, 0, 0], [0, 1, 0], [2, 1]) == SignTest(1, 0, 0, 1.0)
    assert sign_test_heads(gold, ours, theirs, lengths, count_root=False, by="words") == SignTest(1, 1, 1, 1.0)


def test_errors_say_what_was_expected() -> None:
    with pytest.raises(UnsupError, match="lengths must be whole numbers, one a sentence"):
        head_scores([0], [0], [0.5])
    with pytest.raises(UnsupError, match="predicted has 1 heads but the sentences have 2 words: give one a word"):
        head_scores([0, 1], [0], [2])
    message = "gold has head 3 for word 2 of sentence 1, expected another of its 2 words, or 0 for the root"
    with pytest.raises(UnsupError, match=message):
        head_scores([0, 0, 3], [0, 0, 1], [1, 2])
    with pytest.raises(
        UnsupError, match="predicted has head 1 for word 1 of sentence 0, expected another of its 1 words"
    ):
        head_scores([0], [1], [1])
    with pytest.raises(UnsupError, match="predicted has id -2 at token 0, expected -1 or more"):
        head_scores([0], [-2], [1])
    with pytest.raises(UnsupError, match="measure must be one of directed, undirected, ned, actual 'f1'"):
        sign_test_heads([0], [0], [0], [1], measure="f1")  # type: ignore[arg-type]
    with pytest.raises(UnsupError, match="by must be 'sentences' or 'words', actual 'text'"):
        sign_test_heads([0], [0], [0], [1], by="text")  # type: ignore[arg-type]
    with pytest.raises(UnsupError, match="no word with a gold head to compare by"):
        sign_test_heads([-1], [0], [0], [1])


@pytest.mark.parametrize(
    ("name", "column", "expected"),
    [
        ("wsj", "xpos", 0.369),
        ("en_ewt", "xpos", 0.363),
        ("zh_gsd_v1", "xpos", 0.382),
        ("fr_sequoia", "upos", 0.319),
    ],
)
def test_chains_on_real_treebanks(real_data: Path, name: str, column: str, expected: float) -> None:
    if name == "wsj":
        corpus = short_tag_sequences(read_conllu(real_data / "wsj_nltk_dep.conll.xz"))
    else:
        path = real_data / "ud" / f"{name}-ud-train.conllu.xz"
        corpus = read_conllu(path, column, drop_upos={"PUNCT", "SYM"}).filter(max_length=10)  # type: ignore[arg-type]
    scores = head_scores(corpus.heads, chain_to_next(corpus.lengths), corpus.lengths)  # type: ignore[arg-type]
    assert scores["directed"] == pytest.approx(expected, abs=6e-4)
    assert scores["ned"] > scores["undirected"] > scores["directed"]

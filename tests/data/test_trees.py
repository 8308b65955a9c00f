"""Heads and brackets: cycles are found, and trees are mended when words go."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.trees import find_cycle
from pyro_unsup.data.vocab import Vocab
from pyro_unsup.errors import InputError

from .cases import small

FUZZ = settings(max_examples=200, derandomize=True, deadline=None)


def test_drop_tags_mends_heads_and_brackets() -> None:
    corpus = small().drop_tags("P", "X", "not there")
    assert [corpus.sentence(i) for i in range(len(corpus))] == [["the", "dog", "barks"], ["it", "stopped"]]
    assert corpus.heads is not None
    assert corpus.heads.tolist() == [2, 3, 0, 2, 0]
    assert corpus.spans is not None
    assert corpus.spans.tolist() == [[0, 2], [0, 3], [0, 2]]
    assert corpus.span_offsets is not None
    assert corpus.span_offsets.tolist() == [0, 2, 3]
    assert small().drop_tags("P").compact().tagset == Vocab(["D", "N", "V", "X"])
    with pytest.raises(InputError, match="this corpus has no tags; read it from a tagged file"):
        Corpus([0], [0, 1], Vocab(["a"])).drop_tags("P")  # type: ignore[arg-type]


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[list[int]], list[bool]]:
    """Random dependency trees (words attached in random order to an earlier one), some unknown heads, and a mask."""
    sentences = []
    for _ in range(draw(st.integers(1, 4))):
        n = draw(st.integers(1, 8))
        order = draw(st.permutations(range(1, n + 1)))
        heads = [0] * n
        for place, word in enumerate(order):
            heads[word - 1] = draw(st.sampled_from([0, -1, *order[:place]]))
        sentences.append(heads)
    total = sum(map(len, sentences))
    return sentences, draw(st.lists(st.booleans(), min_size=total, max_size=total))


@FUZZ
@given(trees())
def test_kept_words_climb_to_the_nearest_kept_ancestor(case: tuple[list[list[int]], list[bool]]) -> None:
    sentences, mask = case
    lengths = [len(heads) for heads in sentences]
    flat = np.array([head for heads in sentences for head in heads])
    corpus = Corpus(np.zeros(len(flat), int), np.cumsum([0, *lengths]), Vocab(["w"]), heads=flat)
    expected, start = [], 0
    for heads in sentences:
        kept = mask[start : start + len(heads)]
        start += len(heads)
        rank = np.cumsum(kept)
        for word, head in enumerate(heads):
            if kept[word]:
                while head > 0 and not kept[head - 1]:
                    head = heads[head - 1]
                expected.append(rank[head - 1] if head > 0 else head)
    smaller = corpus.keep_tokens(np.array(mask))
    assert smaller.heads is not None
    assert smaller.heads.tolist() == expected
    assert smaller.lengths.tolist() == [
        count for i, n in enumerate(lengths) if (count := sum(mask[sum(lengths[:i]) : sum(lengths[:i]) + n]))
    ]
    assert Corpus(smaller.words, smaller.offsets, smaller.vocab, heads=smaller.heads) == smaller  # passes the checks


@FUZZ
@given(st.lists(st.lists(st.integers(-1, 6), min_size=6, max_size=6), min_size=1, max_size=3))
def test_find_cycle_agrees_with_walking(sentences: list[list[int]]) -> None:
    def on_cycle(heads: list[int], word: int) -> bool:
        at = heads[word - 1]
        for _ in heads:
            if at == word or at <= 0:
                break
            at = heads[at - 1]
        return at == word

    cyclic = [on_cycle(heads, word) for heads in sentences for word in range(1, 7)]
    found = find_cycle(np.array(sentences, dtype=np.int32).ravel(), np.arange(0, 6 * len(sentences) + 1, 6))
    assert found == (cyclic.index(True) if any(cyclic) else None)

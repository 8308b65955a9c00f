"""Yields and contexts against dictionaries of tuples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup import StructureError
from pyro_unsup.models.inventory import Inventory

Sentences = list[list[int]]


def flat(sentences: Sentences) -> tuple[torch.Tensor, torch.Tensor]:
    words = [word for sentence in sentences for word in sentence]
    return torch.tensor(words, dtype=torch.long), torch.tensor([len(s) for s in sentences])


def spelled(inventory: Inventory) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for narrower, last in inventory.yields.tolist():
        found.append((*(found[narrower] if narrower >= 0 else ()), last))
    return found


def spans(sentence: list[int], symbols: int) -> list[tuple[tuple[int, ...], tuple[int, int]]]:
    edges = [symbols, *sentence, symbols]
    n = len(sentence)
    return [
        (tuple(sentence[i : i + w]), (edges[i], edges[i + w + 1])) for w in range(1, n + 1) for i in range(n - w + 1)
    ]


texts = st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=1, max_size=5).filter(any)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(known=texts, new=texts)
def test_numbers_are_those_of_a_dictionary(known: Sentences, new: Sentences) -> None:
    inventory = Inventory.of(*flat(known), symbols=3)
    seen = [span for sentence in known for span in spans(sentence, 3)]
    yields = spelled(inventory)
    assert len(set(yields)) == len(yields)
    assert set(yields) == {y for y, _ in seen}
    assert [len(y) for y in yields] == sorted(len(y) for y in yields)
    assert inventory.widths.tolist() == np.bincount([len(y) for y in yields])[1:].tolist()
    contexts = [tuple(pair) for pair in inventory.contexts.tolist()]
    assert set(contexts) == {c for _, c in seen}
    found = inventory.find(*flat(new))
    expected = [span for sentence in new for span in spans(sentence, 3)]
    assert found.widths.tolist() == [len(y) for y, _ in expected]
    assert found.yields.tolist() == [yields.index(y) if y in yields else len(yields) for y, _ in expected]
    assert found.contexts.tolist() == [contexts.index(c) if c in contexts else len(contexts) for _, c in expected]


def test_start_and_end_are_different_contexts() -> None:
    inventory = Inventory.of(*flat([[0, 0]]), symbols=1)
    assert inventory.contexts.tolist() == [[0, 1], [1, 0], [1, 1]]  # before the end, after the start, between them


@pytest.mark.parametrize(
    ("yields", "contexts", "what"),
    [
        ([[-1, 0], [-1, 0]], [[0, 0]], "yields must be all different"),
        ([[-1, 0], [1, 0]], [[0, 0]], "yield 1 goes on from yield 1, which is not one symbol narrower"),
        ([[-1, 0], [0, 0], [0, 1]], [[0, 0]], None),
        ([[-1, 0], [0, 0], [-1, 1]], [[0, 0]], "yield 2 goes on from yield -1, which is not one symbol narrower"),
        ([[-1, 0], [-7, 0]], [[0, 0]], "yield 1 goes on from yield -7"),
        ([[-1, 2]], [[0, 0]], "yields should name symbols 0 .. 1, actual range 2 .. 2"),
        ([[-1, 0]], [[0, 3]], "contexts should name symbols 0 .. 2, actual range 0 .. 3"),
        ([[-1, 0]], [[0, 1], [0, 1]], "contexts must be all different"),
        ([-1, 0], [[0, 1]], r"yields should be pairs of int64, shape \(n, 2\), actual \(2,\)"),
        ([[-1, 0]], [[0.0, 1.0]], "contexts should be pairs of int64.*float64"),
    ],
)
def test_what_is_not_an_inventory(yields: list, contexts: list, what: str | None) -> None:
    pairs = torch.tensor(yields), torch.tensor(contexts)
    if what is None:
        Inventory(2, *pairs)
        return
    with pytest.raises(StructureError, match=what):
        Inventory(2, *pairs)

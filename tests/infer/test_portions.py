"""One pass over data in portions: the same as a pass in memory, on disk too, and resumable in the middle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import Corpus, Portions, toy, write_flat

TEXT = toy.sentences(300, seed=2)


def engine(**options: Any) -> pu.StepwiseEM:
    return pu.StepwiseEM(pu.models.Tagger(4, TEXT.vocab), pu.AddLambda(0.1), batch_size=7, **options)


def same(one: pu.Fit, other: pu.Fit) -> None:
    assert one.weights.keys() == other.weights.keys()
    for name, w in one.weights.items():
        assert torch.equal(w, other.weights[name]), name
    assert one.config["updates"] == other.config["updates"]


def test_one_portion_is_one_pass() -> None:
    whole = engine().run(TEXT, iterations=1, seed=3, progress=False)
    stream = engine().run_stream(Portions(TEXT, tokens=10**9), seed=3, progress=False, cut=True)
    same(stream, whole)
    assert stream.rows[-1]["objective"] < 0


def test_portions_on_disk_are_those_in_memory(tmp_path: Path) -> None:
    write_flat(TEXT, tmp_path / "text")
    fits = [
        engine().run_stream(Portions(data, tokens=400, seed=1), progress=False, cut=True)
        for data in (TEXT, Corpus.open(tmp_path / "text"))
    ]
    same(*fits)
    # Every sentence was learned from once; the last mini-batch of a portion may be short.
    sizes = [len(portion) for portion in Portions(TEXT, tokens=400)]
    assert sum(sizes) == len(TEXT)
    assert fits[0].config["updates"] == sum(-(-n // 7) for n in sizes)


def test_pseudo_counts_are_weighed_against_all_data() -> None:
    """However the data are cut: with a mini-batch a portion, as in one pass."""
    alike = Corpus.of([TEXT.sentence(0)] * 28, vocab=TEXT.vocab)
    many = engine(order_seed=0).run_stream(Portions(alike, tokens=7 * alike.tokens // 28), progress=False, cut=True)
    one = engine(order_seed=0).run(alike, iterations=1, progress=False)
    assert many.config["updates"] == one.config["updates"] == 4
    for name, w in one.weights.items():
        torch.testing.assert_close(many.weights[name], w, rtol=1e-9, atol=1e-9)


class Broken(Portions):
    """Reading is interrupted after some portions."""

    least = 3

    def __iter__(self) -> Iterator[Any]:
        for number, portion in enumerate(super().__iter__()):
            if number == self.least:
                raise KeyboardInterrupt
            yield portion


def test_a_pass_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    whole = engine().run_stream(Portions(TEXT, tokens=300, seed=5), seed=1, progress=False, cut=True)
    assert len(Portions(TEXT, tokens=300)) > 6
    with pytest.raises(KeyboardInterrupt):
        engine().run_stream(
            Broken(TEXT, tokens=300, seed=5), seed=1, progress=False, cut=True, checkpoint=tmp_path / "kept"
        )
    kept = pu.load(tmp_path / "kept")
    assert int(kept.state["portions"]) == 3
    rest = engine().run_stream(Portions(TEXT, tokens=300, seed=5), seed=1, progress=False, cut=True, resume=kept)
    same(rest, whole)
    again = engine().run_stream(Portions(TEXT, tokens=300, seed=5), seed=1, progress=False, cut=True, resume=rest)
    same(again, whole)  # nothing was left


def test_portions_of_other_data_and_without_a_known_end() -> None:
    documents = pu.data.Documents.of([sentence.split() for sentence in ["a b", "b c c", "a", "c c"] * 5])
    fit = pu.StepwiseEM(pu.models.Clusterer(2, documents.vocab), pu.AddLambda(0.1), batch_size=2).run_stream(
        Portions(documents, tokens=10), progress=False, cut=True
    )
    assert fit.config["updates"] == sum(-(-len(portion) // 2) for portion in Portions(documents, tokens=10))
    endless = engine().run_stream((portion for portion in Portions(TEXT, tokens=500)), progress=False, cut=True)
    assert endless.config["updates"] > 40


@pytest.mark.parametrize("tokens", [0, 1.5, True])
def test_bad_sizes(tokens: Any) -> None:
    with pytest.raises(pu.InputError, match="tokens should be a whole number, 1 or more"):
        Portions(TEXT, tokens=tokens)
    with pytest.raises(pu.InputError, match="nothing in the data"):
        Portions(TEXT.select([]))

"""Rules about the words that links join, against plain loops, and what they do to an aligner."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from pyro import poutine

import pyro_unsup as pu
from pyro_unsup import components as c
from pyro_unsup.cli.constraints import component_of, preferences_of
from pyro_unsup.distributions import Alignment
from pyro_unsup.distributions.alignment.grid import Grid
from pyro_unsup.distributions.parts import Links
from pyro_unsup.tasks import find

TEXT = [
    ("la Nation est libre , oui !", "the nation is free , yes !"),
    ("des élections en 1998 .", "elections in 1998 ."),
    ("une été", "a summer"),
]
AGREEMENTS = pytest.mark.parametrize("agreement", [None, "product", "2008"])


def looked(model: Any, data: Any, *rules: Any) -> list[tuple[Links, list[torch.Tensor]]]:
    """What rules say of all links, site by site."""
    seen: list[tuple[Links, list[torch.Tensor]]] = []

    def look(parts: Links) -> torch.Tensor:
        seen.append((parts, [rule(parts).expand(parts.shape) for rule in rules]))
        return seen[-1][1][0]

    poutine.trace(pu.prefer(model, look)).get_trace(data)
    return seen


def letters(word: str) -> str:
    return word.lower().replace("é", "e")


@AGREEMENTS
def test_cognates_and_punctuation_by_loops(agreement: str | None) -> None:
    text = pu.data.Bitext.of(TEXT)
    model = pu.models.Aligner.of(text, agreement=agreement)
    sites = looked(model, text, c.cognates(4), c.punctuation_alike(), lambda p: p.has("source_word", {"la", "1998"}))
    assert len(sites) == (1 if agreement == "product" else 2)
    for parts, found in sites:
        pairs, sources, targets = (
            x.expand(parts.shape).reshape(-1).tolist() for x in (parts.pair, parts.source, parts.target)
        )
        for k, (pair, i, j) in enumerate(zip(pairs, sources, targets, strict=True)):
            one, other = (side.split() for side in TEXT[pair])
            source, target = (one[i - 1] if i else None), (other[j - 1] if j else None)
            alike, marks, listed = (bool(x.reshape(-1)[k]) for x in found)
            assert listed == (source in {"la", "1998"})
            if source is None or target is None:
                assert not alike
                assert marks
                continue
            assert alike == (letters(source)[:4] == letters(target)[:4])
            plain = [re.search(r"\w", word) is not None for word in (source, target)]
            assert marks == (all(plain) or (not any(plain) and source == target))


def test_some_pairs_and_words_that_are_not_known() -> None:
    """Pairs that are taken out keep their words; a word that is not known is like no other."""
    text = pu.data.Bitext.of(TEXT)
    model = pu.models.HMMAligner.of(text)
    [(_, [found])] = looked(model, text.select([1]), c.cognates(4))
    assert int(found[..., 0].sum()) == 3  # elections, 1998 and the full stop
    n = model.source_words, model.target_words
    pairs = model.pairs_of(torch.tensor([n[0]]), torch.tensor([1]), torch.tensor([n[1]]), torch.tensor([1]))
    [(_, [found])] = looked(model, pairs, c.cognates(4))
    assert not found.any()


def test_names_help_to_align(tmp_path: Path) -> None:
    """Words that occur once could be linked with any other; their letters decide, in decoding too."""
    text = pu.data.Bitext.of([("Anna mange Berlin", "Berlin eats Anna"), ("Carla voit Dublin", "Dublin sees Carla")])
    plain = pu.models.Aligner.of(text)
    fit = pu.EM(pu.prefer(plain, c.cognates(), 3.0), init=pu.init.uniform()).run(text, iterations=5, progress=False)
    fit.save(tmp_path / "m")
    for one in (fit, pu.load(tmp_path / "m")):
        links = one.predict(text).tolist()
        assert all(link in links for link in ([0, 0, 2], [0, 2, 0], [1, 0, 2], [1, 2, 0]))
    assert "prefer(cognates(letters=4) x 3)" in repr(fit.model)


def test_a_grid_alone_does_not_tell_words() -> None:
    grid = Grid(torch.tensor([1]), torch.tensor([1]))
    parts = Alignment(torch.zeros(1), grid).parts(torch.zeros(grid.cells, dtype=torch.int32))
    with pytest.raises(
        pu.StructureError, match="these pairs do not tell their words: rules about words need a model of"
    ):
        c.cognates()(parts)
    with pytest.raises(pu.StructureError, match="'tag' has no labels: expected one of source_word, target_word"):
        parts.has("tag", {"NN"})


@pytest.mark.parametrize(
    ("task", "text", "wanted"),
    [
        ("aligner", "cognates=5", "cognates(letters=5)"),
        ("aligner", "cognates & near-diagonal=0.2", "both(cognates(letters=4), near_diagonal(width=0.2))"),
        ("aligner", "~punctuation-alike", "~punctuation_alike()"),
        ("dmv", "NOUN->ADJ,DET:left", "arc(heads=['NOUN'], children=['ADJ', 'DET'], direction='left')"),
        (
            "dmv",
            "VERB->NOUN:right & ~short-dependencies=1",
            "both(arc(heads=['VERB'], children=['NOUN'], direction='right'), ~short_dependencies(limit=1))",
        ),
        (
            "tagger",
            "closed-classes=DET|PRON:the|a|it",
            "closed_classes(tags=['DET', 'PRON'], words=['the', 'a', 'it'])",
        ),
    ],
)
def test_rules_as_the_command_line_writes_them(task: str, text: str, wanted: str) -> None:
    assert [repr(one) for one in preferences_of([text], find(task))] == [wanted]


def test_rules_that_are_not_written_so() -> None:
    for task, text, what in (
        ("dmv", "VERB->NOUN & ", "a rule is missing beside & or |"),
        (
            "dmv",
            "VERB->:left",
            "a rule for arcs is written TAG,TAG->TAG,TAG, with :left or :right behind it for one side only",
        ),
        (
            "tagger",
            "closed-classes=DET",
            "needs tags and their words, as in closed-classes=TAG|TAG:WORD|WORD, actual 'DET'",
        ),
        ("aligner", "cognates=0", "cognates needs letters, a whole number, 1 or more, as in cognates=4, actual '0'"),
        (
            "aligner",
            "near-diagonal=7",
            "near-diagonal needs width, a number from 0 to 1, as in near-diagonal=0.2, actual '7'",
        ),
    ):
        with pytest.raises(pu.UnsupError, match=re.escape(what)):
            preferences_of([text], find(task))
    with pytest.raises(pu.UnsupError, match="aligner has no constraint of this name; there are near-diagonal"):
        component_of("cognates", find("aligner"))
    model = pu.models.Tagger(3, pu.data.Vocab(["the", "dog"]))
    with pytest.raises(
        pu.UnsupError, match="closed-classes: without a dictionary tags are numbers, 0 to 2, actual 'DET'"
    ):
        preferences_of(["closed-classes=DET:the"], find("tagger"), model)

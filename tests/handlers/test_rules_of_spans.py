"""Rules for the width and the edges of spans, and for how far apart the words of an arc are, against enumeration."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyro import poutine

import pyro_unsup as pu
from pyro_unsup import components as c
from pyro_unsup.distributions.cells import arcs_of, spans_of
from pyro_unsup.distributions.parts import Brackets, Labels
from pyro_unsup.models import CCM, DMV, Aligner, Clusterer, Segmenter, SimplePCFG, Tagger
from pyro_unsup.testing import Case
from pyro_unsup.testing.case import log_sum

from ..distributions.cases import (
    BRACKETING,
    DEPENDENCY,
    GRAMMAR,
    HEADED_BRACKETING,
    SEGMENTATION,
    SEMIMARKOV,
    SIMPLE_GRAMMAR,
    VALENCE,
)

WEIGHT = 1.3


@dataclass(frozen=True)
class Asked:
    """A rule, and the same in plain words: from what is known of a part to yes or no."""

    rule: Any
    plain: Callable[[dict[str, int]], bool]


WIDTHS = [
    Asked(c.width(2, 3), lambda at: 2 <= at["width"] <= 3),
    Asked(c.width(most=2), lambda at: at["width"] < 3),
    Asked(~c.width(3), lambda at: at["width"] < 3),
    Asked(c.width(1, 1) | c.width(3), lambda at: at["width"] != 2),
]
DISTANCES = [
    Asked(c.distance(most=2), lambda at: at["head"] > 0 and abs(at["head"] - at["child"]) <= 2),
    Asked(c.distance(2), lambda at: at["head"] > 0 and abs(at["head"] - at["child"]) >= 2),
    Asked(~c.distance(2, 3), lambda at: at["head"] == 0 or abs(at["head"] - at["child"]) not in (2, 3)),
    Asked(c.distance(1, 1) & c.arc(direction="left"), lambda at: at["head"] > 0 and at["head"] - at["child"] == 1),
]
EDGES = [
    Asked(c.starts_with([0]), lambda at: at["width"] > 1 and at["first"] == 0),
    Asked(
        ~c.starts_with([0]) & c.width(most=3), lambda at: at["width"] < 4 and not (at["width"] > 1 and at["first"] == 0)
    ),
    Asked(c.starts_with([0]) | c.ends_in([0]), lambda at: at["width"] > 1 and 0 in (at["first"], at["last"])),
]
OF_CASE = [
    (BRACKETING, WIDTHS),
    (GRAMMAR, WIDTHS + EDGES),
    (SIMPLE_GRAMMAR, WIDTHS + EDGES),
    (SEGMENTATION, WIDTHS),
    (SEMIMARKOV, WIDTHS),
    (DEPENDENCY, DISTANCES),
    (VALENCE, DISTANCES),
    (HEADED_BRACKETING, DISTANCES),
]


def known_of(case: Case, dist: Any, value: Any, shape: Any) -> list[dict[str, int]]:
    """Of every part, in the order of the marginals, what rules speak of, found by plain loops."""
    parts = dist.parts(value)
    if case in (DEPENDENCY, VALENCE, HEADED_BRACKETING):
        _, heads, children = (x.tolist() for x in arcs_of(parts.lengths))
        return [{"head": head, "child": child} for head, child in zip(heads, children, strict=True)]
    if case is SEGMENTATION:
        return [{"width": w} for _ in range(shape[0]) for w in range(1, shape[1] + 1)]
    if case is SEMIMARKOV:
        return [
            {"width": d} for _ in range(shape[:-2].numel()) for d in range(1, shape[-2] + 1) for _ in range(shape[-1])
        ]
    firsts = [sum(parts.lengths.tolist()[:k]) for k in range(len(parts.lengths))]
    spans = zip(*(x.tolist() for x in spans_of(parts.lengths)), strict=True)
    if case is BRACKETING:
        return [{"width": end - start} for _, start, end in spans]
    words = value.tolist()
    return [
        {"width": end - start, "first": words[firsts[b] + start], "last": words[firsts[b] + end - 1]}
        for b, start, end in spans
        for _ in range(shape[1])
    ]


@pytest.mark.parametrize(("case", "asked"), OF_CASE, ids=[case.name for case, _ in OF_CASE])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_what_obeys_is_counted_in_every_structure(case: Case, asked: list[Asked], data: Any) -> None:
    instance = data.draw(case.instances)
    one = data.draw(st.sampled_from(asked))
    dist, value = instance.dist.laid_flat(instance.value)
    if not value.numel():
        return
    shape = dist.posterior(value).marginals.shape
    obeys = torch.tensor([one.plain(at) for at in known_of(case, dist, value, shape)]).reshape(shape)

    def model() -> None:
        pyro.sample("x", dist, obs=value)

    found = poutine.trace(pu.prefer(model, one.rule, WEIGHT)).get_trace().nodes["x"]["fn"].log_prob(value)
    for k, (item, cells) in enumerate(zip(instance.items, instance.cells, strict=True)):
        here = obeys[cells]
        each = [
            score + math.fsum(WEIGHT * bool(here[part]) for part in parts)
            for score, parts in zip(item.scores, item.parts, strict=True)
        ]
        expected = log_sum(each)
        assert float(found[k]) == expected or abs(float(found[k]) - expected) < 1e-10 * max(1, abs(expected))


def test_first_tags_of_brackets() -> None:
    yields = [("DT", "NN"), ("DT",), ("NN", "DT"), (), ("NN", "NN", "DT")]
    # Three words have six spans: of one word, of two and of three. Yield 9 is not known.
    numbers, widths = [1, 1, 1, 0, 2, 9], [1, 1, 1, 2, 2, 3]
    spans = torch.tensor([[number, 0] for number in numbers])
    parts = replace(Brackets(spans, torch.tensor([3])), labels={"yield": Labels(yields)})
    assert sorted(parts.width.tolist()) == widths
    order = parts.width.argsort(stable=True)
    parts = replace(parts, spans=spans[order.argsort()])
    expected = [w > 1 and n < 5 and yields[n][0] == "DT" for n, w in zip(numbers, widths, strict=True)]
    assert c.starts_with("DT")(parts)[order].tolist() == expected == [False, False, False, True, False, False]
    assert c.ends_in(["DT"])(parts)[order].tolist() == [False, False, False, False, True, False]


def test_saved_shown_and_loaded(tmp_path: Path) -> None:
    text = pu.data.toy.sentences(60, seed=1)
    corpus = pu.data.short_tag_sequences(text, 8, ["PUNCT"])
    letters = pu.data.Corpus([0, 1, 2, 3, 4, 5], [0, 6], pu.data.Vocab(["t", "h", "e", "d", "o", "g"]))
    cases: list[tuple[Any, Any, Any, str]] = [
        (DMV.of(corpus), corpus, c.distance(most=1), "distance(least=1, most=1)"),
        (CCM.of(corpus), corpus, ~c.starts_with("DET"), "~starts_with(tags='DET')"),
        (
            SimplePCFG(2, 3, corpus.vocab),
            corpus,
            c.width(2, 3) & c.starts_with("NOUN"),
            "both(width(least=2, most=3), ",
        ),
        (Segmenter.of(letters), letters, c.width(1, 1), "width(least=1, most=1)"),
    ]
    for number, (model, data, rule, said) in enumerate(cases):
        fit = pu.EM(pu.prefer(model, rule, weight=20.0), init=pu.init.noise(2.0)).run(data, iterations=0, seed=3)
        found, alone = fit.decode(data), fit.without_preferences().decode(data)
        assert not torch.equal(found.structure, alone.structure), model
        fit.save(tmp_path / str(number))
        loaded = pu.load(tmp_path / str(number))
        assert repr(loaded.model) == repr(fit.model)
        assert torch.equal(loaded.decode(data).structure, found.structure)
        assert any(said in one for one in map(str, loaded.show().record["preferences"])), loaded.show().record


@pytest.mark.parametrize(
    ("rule", "model", "said"),
    [
        (c.width(2), DMV(3), r"width\(least=2, most=None\) is a rule for brackets or constituents or pieces or "
         r"stretches, and the hidden structure of this model is made of arcs"),
        (c.starts_with("a"), DMV(3), r"a rule for brackets or constituents, .* made of arcs"),
        (c.distance(most=3), Tagger(2, 3), r"distance\(least=1, most=3\) is a rule for arcs, .* made of states"),
        (c.short_dependencies(), Tagger(2, 3), r"a rule for arcs, .* made of states"),
        (~(c.width(2) | c.ends_in("a")), Tagger(2, 3), r"a rule for brackets .* made of states"),
        (c.distance(0, 3), DMV(3), r"distance: bounds should be whole numbers, 1 or more, actual 0"),
        (c.distance(None), DMV(3), r"distance: the lower bound should be a whole number, 1 or more, actual None"),
        (c.distance(1, True), DMV(3), r"distance: bounds should be whole numbers, 1 or more, actual True"),
        (c.distance(3, 2), DMV(3), r"distance: the lower bound 3 is above the upper bound 2, so nothing obeys"),
        (c.distance("2"), DMV(3), r"bounds should be whole numbers, 1 or more, actual '2'"),
    ],
)  # fmt: skip
def test_refused(rule: Any, model: Any, said: str) -> None:
    with pytest.raises(pu.StructureError, match=said):
        pu.EM(pu.prefer(model, rule), init=pu.init.uniform()).run([[0, 1, 2]], iterations=0)


def test_refused_where_words_are_linked_or_put_into_clusters() -> None:
    documents, pairs = pu.data.toy.documents(5, seed=1).corpus, pu.data.toy.bitext(5, seed=1)
    for model, data, kind in (
        (Clusterer(2, documents.vocab), documents, "clusters"),
        (Aligner.of(pairs), pairs, "links"),
    ):
        with pytest.raises(pu.StructureError, match=f"is made of {kind}: use a rule for those"):
            pu.EM(pu.prefer(model, c.width(2))).run(data, iterations=0)


@pytest.mark.parametrize("make", [CCM.of, lambda text: SimplePCFG(2, 2, text.vocab)], ids=["CCM", "SimplePCFG"])
def test_misspelt_tags_of_spans(make: Any) -> None:
    text = pu.data.Corpus.of(["DT NN VB", "NN VB DT NN"])
    for rule in (c.ends_in, c.starts_with, c.fragments):
        with pytest.warns(pu.handlers.UnknownLabel, match="'DTT' is unknown as a tag"):
            pu.EM(pu.prefer(make(text), rule(["DT", "DTT"]))).run(text, iterations=1)
        with pytest.raises(pu.StructureError, match="none of 'DTT' is known as a tag: there are"):
            pu.EM(pu.prefer(make(text), rule("DTT"))).run(text, iterations=1)

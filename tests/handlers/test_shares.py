"""Rules whose share is bounded in training keep their weight: decoding heeds it, and it is shown and saved."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup import components as c
from pyro_unsup.distributions.parts import Arcs, Labels
from pyro_unsup.models import DMV, Segmenter

from ..distributions.dependency_case import all_trees

TAGS = pu.data.Vocab(["DET", "NOUN", "VERB"])
SENTENCES = [[0, 1, 2], [2, 0, 1], [1, 2], [0, 1, 2, 0, 1]]
RULE = c.arc("VERB", "NOUN") | c.root("VERB")


def trained(share: float, iterations: int = 15, **options: object) -> pu.Fit:
    model = pu.regularise(DMV(TAGS), c.at_least(RULE, share), bound=0)
    return pu.EM(model, pu.AddLambda(0.1), init=pu.init.noise(1.0)).run(
        SENTENCES, iterations=iterations, progress=False, **options
    )


def test_the_weight_is_that_of_a_preference(tmp_path: Path) -> None:
    """Under the learned weight as a preference, posteriors are those of the bounded model on the text of training."""
    fit = trained(0.6, iterations=0)
    (weight,) = fit.config["rule_weights"]
    assert weight > 0.1
    bare = fit.unhandled()
    (preference,) = bare.preferences
    assert preference.rules == [RULE]
    assert preference.weight == [weight]
    liked = pu.prefer(DMV(TAGS), RULE, weight)
    again = pu.EM(liked, init=pu.init.from_weights(fit.weights)).run(SENTENCES, iterations=0)
    torch.testing.assert_close(bare.posterior(SENTENCES).marginals, again.posterior(SENTENCES).marginals)
    torch.testing.assert_close(
        bare.posterior(SENTENCES).marginals, fit.posterior(SENTENCES).marginals, rtol=0, atol=1e-5
    )
    fit.save(tmp_path / "m")
    loaded = pu.load(tmp_path / "m")
    assert repr(loaded.unhandled().preferences) == repr(bare.preferences)
    assert loaded.predict(SENTENCES).tolist() == bare.predict(SENTENCES).tolist()
    alone = loaded.without_preferences()
    assert alone.unhandled().preferences == ()
    assert repr(alone.model) == "DMV(tags=3)"


def test_restarts_bring_their_own_weights() -> None:
    fit = trained(0.45, restarts=2, processes=2)
    assert all(len(run.config["rule_weights"]) == 1 for run in fit.runs)
    assert fit.config["rule_weights"] in [run.config["rule_weights"] for run in fit.runs]


def test_other_bounds_have_no_such_weights() -> None:
    model = pu.regularise(DMV(TAGS), [lambda parts: parts.distance > 1], [0.3])
    fit = pu.EM(model, init=pu.init.uniform()).run(SENTENCES, iterations=1, progress=False)
    assert "rule_weights" not in fit.config
    assert fit.unhandled().preferences == ()
    each = pu.regularise(DMV(TAGS), c.at_least(RULE, 0.2), bound=0, each=True)
    fit = pu.EM(each, init=pu.init.uniform()).run(SENTENCES, iterations=1, progress=False)
    assert fit.unhandled().preferences == ()


def test_several_rules() -> None:
    rules = [c.at_least(RULE, 0.3), c.at_least(c.short_dependencies(1), 0.5)]
    fit = pu.EM(pu.regularise(DMV(TAGS), rules, [0.0, 0.0]), pu.AddLambda(0.1), init=pu.init.noise(1.0)).run(
        SENTENCES, iterations=3, progress=False
    )
    (preference,) = fit.unhandled().preferences
    assert len(preference.weight) == 2
    assert preference.weight == pytest.approx(fit.config["rule_weights"])


def refused(model: Any, share: Any, data: Any) -> str:
    """What the error says of a share that cannot be reached."""
    with pytest.raises(pu.StructureError) as found:
        pu.EM(pu.regularise(model, share, bound=0), init=pu.init.uniform()).run(data, iterations=0)
    return str(found.value)


def test_the_share_that_the_error_suggests_can_be_reached() -> None:
    model, tags = DMV(TAGS), list(TAGS)
    arcs = [c.arc(head, child, way) for head in tags for child in tags for way in (None, "left")]
    for rule in (*arcs, *map(c.root, tags), c.arc("NOUN", "DET") | c.root("VERB"), c.distance(4, 4)):
        said = refused(model, c.at_least(rule, 1.0), SENTENCES)
        if "no structure of these data has a part that obeys" in said:
            each = [(tags_, heads) for tags_ in SENTENCES for heads in all_trees(len(tags_))]
            assert sum(obeying(rule, *one) for one in each) == 0
            continue
        best = sum(max(obeying(rule, one, heads) for heads in all_trees(len(one))) for one in SENTENCES) / 13
        largest, asked = map(float, re.findall(r"is ([0-9.]+): ask for ([0-9.]+), say", said)[0])
        assert 0 <= best - largest <= 1e-3 * best
        assert 0.88 * best < asked < best
        bounded = pu.regularise(model, c.at_least(rule, asked), bound=0)
        pu.EM(bounded, init=pu.init.uniform()).run(SENTENCES, iterations=0)


def obeying(rule: Any, tags: list[int], heads: tuple[int, ...]) -> int:
    """Arcs of a tree that obey, looked up one by one."""
    parts = Arcs(torch.tensor(tags), torch.tensor([len(tags)]), labels={x: Labels(TAGS) for x in ("head", "child")})
    table = rule(parts).expand(parts.shape).reshape(len(tags), len(tags) + 1)
    return sum(bool(table[child, head]) for child, head in enumerate(heads))


@pytest.mark.parametrize("text", ["abc xxxxxxxxxx", "abcab bx", "xb", "babb xxx ab"])
def test_the_largest_share_of_segments_by_enumeration(text: str) -> None:
    """Segmentations differ in how many segments they have."""
    lines, vocab = text.split(), pu.data.Vocab(list("abcx"))
    symbols = [vocab.index[one] for line in lines for one in line]
    corpus = pu.data.Corpus(symbols, [0, *itertools.accumulate(map(len, lines))], vocab)
    model = Segmenter.of(corpus, max_length=4)
    rule = c.width(1, 1) & c.spelled_with("b")
    counts = {(0, 0)}  # segments that obey, and all, of any segmentation of the lines so far
    for line in lines:
        mine = set()
        for cuts in itertools.product((False, True), repeat=len(line) - 1):
            at = [0, *(k for k, cut in enumerate(cuts, 1) if cut), len(line)]
            pieces = [line[a:b] for a, b in itertools.pairwise(at)]
            if max(map(len, pieces)) <= 4:
                mine.add((pieces.count("b"), len(pieces)))
        counts = {(a + b, n + m) for a, n in counts for b, m in mine}
    best = max(a / n for a, n in counts)
    for share in (1.0, (1 + best) / 2, best + 1e-6):
        said = refused(model, c.at_least(rule, share), corpus)
        assert float(re.findall(r"in these data is ([0-9.]+):", said)[0]) == pytest.approx(best, rel=1e-3)
    fine = pu.regularise(model, c.at_least(rule, 0.98 * best), bound=0)
    pu.EM(fine, init=pu.init.uniform()).run(corpus, iterations=0)


def test_what_else_is_preferred_does_not_change_the_largest_share() -> None:
    liked = pu.prefer(DMV(TAGS), c.arc("NOUN", "VERB"), 9.0)
    assert refused(liked, c.at_least(RULE, 1.0), SENTENCES) == refused(DMV(TAGS), c.at_least(RULE, 1.0), SENTENCES)


def test_a_rule_that_nothing_obeys() -> None:
    said = refused(DMV(TAGS), c.at_least(c.distance(9, 9), 0.1), SENTENCES)
    assert said.startswith("at_least(distance(least=9, most=9), 0.1): no structure of these data has a part that obeys")

"""Preferences against enumeration, under EM, saved, and where rules cannot be heeded."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pyro import poutine

import pyro_unsup as pu
from pyro_unsup import components as c
from pyro_unsup.distributions import Dependency
from pyro_unsup.distributions.parts import Arcs
from pyro_unsup.handlers.components.universal_rules import CLASSES, HEADS, RULES, tag_set
from pyro_unsup.handlers.prefer import without_preferences
from pyro_unsup.models import CCM, DMV, Clusterer, HMMAligner, Segmenter, Tagger

from ..distributions.dependency_case import all_trees

TAGS = pu.data.Vocab(["DET", "NOUN", "VERB", "ADP"])
SENTENCES = [[0, 1, 2, 3], [2, 1], [0, 1, 2, 3, 1]]


def random_fit(model: Any, data: Any, seed: int = 3) -> Any:
    return pu.EM(model, init=pu.init.noise(2.0)).run(data, iterations=0, seed=seed)


def obeying(heads: tuple[int, ...], tags: list[int]) -> int:
    """Arcs from VERB to NOUN, and the root's to VERB, by a plain loop."""
    found = 0
    for child, head in enumerate(heads, 1):
        names = (TAGS[tags[head - 1]] if head else "ROOT", TAGS[tags[child - 1]])
        found += names in (("VERB", "NOUN"), ("ROOT", "VERB"))
    return found


def obeyed(model: Any, rule: Any, data: Any) -> torch.Tensor:
    """What a rule says of all arcs of some sentences."""
    seen: list[torch.Tensor] = []

    def look(parts: Arcs) -> torch.Tensor:
        seen.append(rule(parts))
        return seen[-1]

    poutine.trace(pu.prefer(model, look)).get_trace(data)
    return seen[0]


def test_trees_by_enumeration() -> None:
    rules, weight = [c.arc("VERB", "NOUN") | c.root("VERB"), c.short_dependencies(1)], [1.7, -0.6]
    plain = random_fit(DMV(TAGS), SENTENCES)
    fit = pu.EM(pu.prefer(DMV(TAGS), rules, weight), init=pu.init.from_weights(plain.weights)).run(
        SENTENCES, iterations=0
    )
    total = 0.0
    for tags in SENTENCES:
        n = torch.tensor([len(tags)])
        dist = Dependency(*(plain.weights[name] for name in ("root", "attach", "stop")), n)
        trees = all_trees(len(tags))
        logs = []
        for heads in trees:
            near = sum(head == 0 or abs(head - child) == 1 for child, head in enumerate(heads, 1))
            score = dist.score(torch.tensor(tags), torch.tensor(heads))
            logs.append(score + 1.7 * obeying(heads, tags) - 0.6 * near)
        each = torch.stack(logs).reshape(-1)
        total += float(each.logsumexp(0))
        posterior = fit.posterior([tags])
        shares = each.softmax(0)
        for part, p in zip(posterior.marginals.reshape(len(tags), -1), range(len(tags)), strict=True):
            for head in range(len(tags) + 1):
                brute = sum(float(q) for q, heads in zip(shares, trees, strict=True) if heads[p] == head)
                assert float(part[head]) == pytest.approx(brute, abs=1e-10)
        assert tuple(posterior.mode().tolist()) == trees[int(each.argmax())]
    assert fit.log_likelihood(SENTENCES) == pytest.approx(total, abs=1e-9)


def test_universal_rules_are_those_of_the_table() -> None:
    for tags, classes in CLASSES.items():
        names = [tag for one in classes.values() for tag in one] + ["X"]
        assert tag_set(names) == tags
        vocab = pu.data.Vocab(names)
        class_of = {tag: one for one, several in classes.items() for tag in several}
        for heads in RULES:
            one = DMV(vocab)
            rule = c.universal(tags, heads)
            pairs = [[a, b] for a in range(len(names)) for b in range(len(names))]
            for (a, b), found in zip(pairs, obeyed(one, rule, pairs).reshape(-1, 6).tolist(), strict=True):
                # Cells of two words: child 1 (root, 1, 2), child 2 (root, 1, 2).
                expected = class_of.get(names[b]) in RULES[heads].get(class_of.get(names[a], "-"), ())
                assert found[4] == expected, (tags, heads, names[a], names[b])
                assert found[0] == (class_of.get(names[a]) in RULES[heads][None])
    assert set(HEADS) == set(CLASSES)


@pytest.mark.parametrize(
    ("tags", "some"),
    [
        (["a", "b"], ""),
        (["S", "V", "E", "RD", "VA"], "; of these, ctb has VA alone"),  # Italian: VA is an auxiliary
        (["D", "N", "V", "P"], "; of these, ctb has P alone"),  # P may be a pronoun
    ],
)
def test_universal_rules_want_nouns_and_verbs_that_they_know(tags: list[str], some: str) -> None:
    said = (
        rf"universal rules know the nouns and verbs of upos, penn, ctb, but the model has the tags .*{some}. Take the"
    )
    with pytest.raises(pu.StructureError, match=said):
        random_fit(pu.prefer(DMV(pu.data.Vocab(tags)), c.universal()), [[0, 1]])
    random_fit(
        pu.prefer(DMV(pu.data.Vocab(tags)), c.universal("ctb")), [[0, 1]]
    )  # who says which has what is asked for


def test_the_page_lists_the_tags_of_every_class() -> None:
    page = (Path(__file__).parents[2] / "docs" / "preferences.md").read_text()
    for one in CLASSES["upos"]:
        row = " | ".join(", ".join(f"`{tag}`" for tag in CLASSES[tags][one]) for tags in CLASSES)
        assert f"| {one} | {row} |" in page, one


@pytest.mark.parametrize("how", ["em", "replayed", "batches"])
def test_training_never_lowers_the_preferred_objective(how: str) -> None:
    corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(80, seed=1), 8, ["PUNCT"])
    model = DMV.of(corpus)
    liked = pu.prefer(model, c.universal())
    engine: Any = pu.IncrementalEM(liked) if how == "batches" else pu.EM(liked)
    fit = engine.run(corpus, iterations=8, tolerance=0)
    values = [row["objective"] for row in fit.rows]
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(values))
    if how == "replayed":
        liked.model.replayable = False
        again = pu.EM(liked).run(corpus, iterations=8, tolerance=0)
        assert [row["objective"] for row in again.rows] == values


def test_strength_is_heeded_at_once() -> None:
    handled = pu.prefer(DMV(TAGS), c.arc("VERB", "NOUN"), weight=2.0)
    plain = random_fit(DMV(TAGS), SENTENCES)
    fit = pu.EM(handled, init=pu.init.from_weights(plain.weights)).run(SENTENCES, iterations=0)
    strong = fit.log_likelihood(SENTENCES)
    handled.handler.strength = 0.0
    assert fit.log_likelihood(SENTENCES) == plain.log_likelihood(SENTENCES) < strong
    handled.handler.strength = 1.0
    assert fit.log_likelihood(SENTENCES) == strong
    assert "strength" not in repr(handled)


def test_decoding_with_and_without(tmp_path: Path) -> None:
    text = pu.data.toy.sentences(60, seed=1)
    corpus, bitext = pu.data.short_tag_sequences(text, 8, ["PUNCT"]), pu.data.toy.bitext(20, seed=1)
    documents = pu.data.toy.documents(20, seed=1).corpus
    letters = pu.data.Corpus([0, 1, 2, 3, 4, 5], [0, 6], pu.data.Vocab(["t", "h", "e", "d", "o", "g"]))
    first = text.vocab[0]
    cases: list[tuple[Any, Any, Any]] = [
        (DMV.of(corpus), corpus, c.arc("NOUN", "VERB")),
        (CCM.of(corpus), corpus, ~c.ends_in("DET")),
        (Tagger(tags=4, vocab=text.vocab), text, c.word_tags({first: [1]})),
        (Tagger(tags=4, vocab=text.vocab), text, c.closed_classes([1], [first])),
        (Segmenter.of(letters), letters, ~c.spelled_with("eo")),
        (Clusterer(2, documents.vocab), documents, c.seeds({1: [documents.sentence(0)[0]]})),
        (HMMAligner.of(bitext), bitext, c.near_diagonal(0.05)),
    ]
    for number, (model, data, rule) in enumerate(cases):
        fit = random_fit(pu.prefer(model, rule, weight=30.0), data)
        found, alone = fit.decode(data), fit.without_preferences().decode(data)
        assert torch.equal(found.log_likelihood, alone.log_likelihood), model
        assert not torch.equal(torch.as_tensor(found.structure), torch.as_tensor(alone.structure)), model
        fit.save(tmp_path / str(number))
        loaded = pu.load(tmp_path / str(number))
        assert repr(loaded.model) == repr(fit.model)
        assert torch.equal(torch.as_tensor(loaded.decode(data).structure), torch.as_tensor(found.structure))
        assert without_preferences(loaded.model) is pu.handlers.bare(loaded.model)
        page = loaded.show()
        assert "prefers" in str(page)
        assert page.record["preferences"]


def test_a_tag_that_training_never_met() -> None:
    corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(60, seed=1), 8, ["PUNCT"])
    fit = pu.EM(pu.prefer(DMV.of(corpus), c.universal())).run(corpus, iterations=2)
    new = pu.data.Corpus([0, 1, 2], [0, 3], pu.data.Vocab(["DET", "FOREIGN", "VERB"]))
    decoded = fit.decode(new)
    assert decoded.unseen == 1
    assert decoded.structure.tolist().count(0) == 1
    # Rules go by the names of the other tags.
    new = pu.data.Corpus([0, 1, 2, 3], [0, 4], pu.data.Vocab(["DET", "NOUN", "FOREIGN", "VERB"]))
    for rule, heads in ((c.arc("VERB", "NOUN"), 4), (c.arc("DET", "NOUN"), 1)):
        both = pu.EM(pu.prefer(pu.models.DMVCCM.of(corpus), rule, 40.0), pu.AddLambda(0.1)).run(corpus, iterations=1)
        assert both.decode(new).structure[1] == heads
    for rule, spans in ((c.ends_in("NOUN") & c.width(2, 2), 1), (c.starts_with("NOUN") & c.width(3, 3), 0)):
        ccm = pu.EM(pu.prefer(CCM.of(corpus), rule, 40.0), pu.AddLambda(0.1)).run(corpus, iterations=1)
        assert ([0, 0, 2] in ccm.decode(new).brackets.tolist()) is bool(spans)


def test_under_other_handlers_and_around_them() -> None:
    inner = pu.temper(pu.prefer(DMV(TAGS), c.root("VERB")), 0.5)
    assert repr(without_preferences(inner)) == "temper(beta=0.5) of DMV(tags=4)"
    plain = random_fit(DMV(TAGS), SENTENCES)
    heated, cold = (
        pu.EM(m, init=pu.init.from_weights(plain.weights)).run(SENTENCES, iterations=0) for m in (inner, inner.model)
    )
    # Tempering a preferred model heats what it prefers too: its posterior is that of half of all log-weights.
    half = pu.EM(pu.prefer(pu.temper(DMV(TAGS), 0.5), c.root("VERB"), 1.0), init=pu.init.from_weights(plain.weights))
    same = half.run(SENTENCES, iterations=0)
    a, b = heated.posterior(SENTENCES).marginals, same.posterior(SENTENCES).marginals
    assert torch.allclose(a, b, atol=1e-9)
    assert not torch.allclose(a, cold.posterior(SENTENCES).marginals, atol=1e-3)


def test_refused() -> None:
    with pytest.raises(pu.StructureError, match=r"a component is a function of the parts of the data, actual 3"):
        pu.prefer(DMV(TAGS), 3)  # type: ignore[arg-type]
    with pytest.raises(pu.StructureError, match=r"expected a finite weight for each of 1 rules, actual \[inf\]"):
        pu.prefer(DMV(TAGS), c.root("VERB"), float("inf"))
    with pytest.raises(pu.StructureError, match=r"gives numbers of type .*, expected truth values"):
        random_fit(pu.prefer(DMV(TAGS), lambda parts: parts.distance * 1.0), SENTENCES)
    with pytest.raises(
        pu.StructureError,
        match=r"none of 'VERV' is known as the tag of a child: there are 'DET', 'NOUN', 'VERB', 'ADP'$",
    ):
        random_fit(pu.prefer(DMV(TAGS), c.root("VERV")), SENTENCES)
    with pytest.raises(pu.StructureError, match=r"arc: direction should be one of 'left', 'right', None, actual 'up'"):
        c.arc("VERB", "NOUN", "up")
    with pytest.raises(pu.UnsupError, match=r"actual 'universal': write pu.components.universal\(...\)"):
        pu.prefer(DMV(TAGS), "universal")  # type: ignore[arg-type]
    with pytest.raises(pu.StructureError, match=r"heads should be one of content, function, actual 'x'"):
        random_fit(pu.prefer(DMV(TAGS), c.universal(heads="x")), SENTENCES)


def test_what_is_no_rule_and_no_model() -> None:
    for wrong, said in (
        (c.universal, r"prefer: universal makes a component when it is called: write universal\(\.\.\.\)"),
        (c.symmetric, r"prefer: symmetric makes a component when it is called"),
        (c.symmetric(), r"prefer: symmetric\(tolerance=0.001\) ties two structures, and only regularise takes it"),
        (c.at_least(c.root("VERB"), 0.5), r"prefer: at_least\(root\(tags='VERB'\), 0.5\) bounds a share, for regul"),
    ):
        with pytest.raises(pu.StructureError, match=said):
            pu.prefer(DMV(TAGS), wrong)
    with pytest.raises(pu.UnsupError, match=r"either.*: universal makes a component when it is called"):
        c.either(c.root("VERB"), c.universal)
    for use in (pu.constrain, pu.regularise):
        bound = () if use is pu.constrain else (0.5,)
        with pytest.raises(pu.StructureError, match="left_chain makes a component when it is called"):
            use(DMV(TAGS), c.left_chain, *bound)
        with pytest.raises(pu.StructureError, match=r"a model is a Pyro program, such as .*, actual 3"):
            use(3, c.left_chain(), *bound)
    with pytest.raises(pu.StructureError, match=r"prefer: a model is a Pyro program, such as .*, actual 3"):
        pu.prefer(3, c.root("VERB"))  # type: ignore[arg-type]
    for share in ("x", None, float("nan"), 0, 2):
        with pytest.raises(pu.StructureError, match="should be above 0 and at most 1, actual"):
            c.at_least(c.root("VERB"), share)  # type: ignore[arg-type]
    with pytest.raises(pu.StructureError, match=r"has its share already: the bound that goes with it is 0, actual 0.3"):
        pu.regularise(DMV(TAGS), c.at_least(c.root("VERB"), 0.5), bound=0.3)
    for rule, said in ((c.near_diagonal(7), "from 0 to 1, actual 7"), (c.cognates(0), "1 or more, actual 0")):
        bitext = pu.data.toy.bitext(5, seed=1)
        with pytest.raises(pu.StructureError, match=said):
            random_fit(pu.prefer(HMMAligner.of(bitext), rule), bitext)


@pytest.mark.parametrize(
    "weight",
    [
        1.5,
        np.float32(1.5),
        np.float64(1.5),
        np.array(1.5),
        torch.tensor(1.5),
        np.array([1.5, 1.5]),
        torch.full((2,), 1.5),
    ],
)
def test_weights_of_any_make(weight: Any) -> None:
    rules = [c.root("VERB"), c.arc("VERB", "NOUN")]
    handler: Any = pu.prefer(DMV(TAGS), rules, weight).handler
    assert handler.weight == [1.5, 1.5]
    assert all(type(x) is float for x in handler.weight)
    assert c.at_least(rules[0], torch.tensor(0.5)).share == 0.5  # type: ignore[arg-type]
    for wrong in ("2", None, [1.0], np.array([1.0, np.nan]), torch.ones(2, 2)):
        with pytest.raises(pu.StructureError, match="expected a finite weight for each of 2 rules"):
            pu.prefer(DMV(TAGS), rules, wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (c.arc(["VERB", "Nn"], "NOUN"), ["'Nn' is unknown as the tag of a head"]),
        (c.arc("VERB", ["NOUN", "X", "Y"]), ["'X', 'Y' are unknown as the tag of a child"]),
        (c.arc("VERB", "NOUN") | c.root(["VERB", "AXU"]), ["'AXU' is unknown as the tag of a child"]),
        (c.arc(["VERB", "ADP"], "NOUN"), []),
    ],
)
def test_misspelt_tags_are_told_once(rule: Any, said: list[str]) -> None:
    model = pu.prefer(DMV(TAGS), rule)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fit = pu.EM(model, init=pu.init.noise(1.0)).run(SENTENCES, iterations=2)
        pu.EM(model, init=pu.init.noise(1.0)).run(SENTENCES[:2], iterations=2)
        fit.decode(SENTENCES)
        fit.posterior(SENTENCES)
    assert [str(one.message).partition(":")[0] for one in found] == said
    assert all(one.category is pu.handlers.UnknownLabel for one in found)
    with pytest.raises(pu.StructureError, match="none of 'A', 'B' is known as the tag of a head: there are 'DET'"):
        random_fit(pu.prefer(DMV(TAGS), c.arc(["A", "B"], "NOUN")), SENTENCES)


def test_at_least_a_share() -> None:
    rule = c.arc("VERB", "NOUN") | c.root("VERB")
    words = sum(map(len, SENTENCES))
    best = sum(max(obeying(heads, tags) for heads in all_trees(len(tags))) for tags in SENTENCES) / words
    model = pu.regularise(DMV(TAGS), c.at_least(rule, 0.9 * best), bound=0)
    plain = random_fit(DMV(TAGS), SENTENCES)
    fit = pu.EM(model, init=pu.init.from_weights(plain.weights)).run(SENTENCES, iterations=0)
    marginals = fit.posterior(SENTENCES).marginals
    share = float((marginals * obeyed(DMV(TAGS), rule, SENTENCES)).sum()) / words
    assert share == pytest.approx(0.9 * best, abs=1e-4)
    with pytest.raises(pu.StructureError, match=f"they can reach in these data is {str(best)[:6]}"):
        random_fit(pu.regularise(DMV(TAGS), c.at_least(rule, best + 0.01), bound=0), SENTENCES)
    with pytest.raises(pu.StructureError, match=r"should be above 0 and at most 1, actual 1\.5"):
        c.at_least(rule, 1.5)

"""Every component against plain loops over all structures."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import components as c
from pyro_unsup.distributions import Alignment, Bracketing, Dependency, Mixture, Segmentation
from pyro_unsup.distributions.alignment.grid import Grid
from pyro_unsup.distributions.cells import spans_of
from pyro_unsup.distributions.parts import Labels, Parts
from pyro_unsup.handlers import component
from pyro_unsup.handlers.parts import Component

from ..distributions.bracketing_case import all_trees as all_brackets
from ..distributions.dependency_case import Heads, all_trees

TAGS = ["DT", "NN", "VV", "VC"]
SENTENCE = [1, 1, 2, 3, 1, 1]


def count(component: Component, tags: list[int]) -> int:
    """Trees that a component allows, by the sum with all weights 1."""
    return round(float(left(component, tags)[0]))


def left(component: Component, tags: list[int]) -> tuple[Tensor, Tensor]:
    """The same, and how many of these trees have each arc."""
    K, n = len(TAGS), torch.tensor([len(tags)])
    dist = Dependency(torch.zeros(K), torch.zeros(K, 2, K), torch.zeros(K, 2, 2, 2), n)
    value = torch.tensor(tags)
    parts = named(dist.parts(value), child=TAGS, head=TAGS)
    posterior = dist.with_potentials(**{dist.part: component(parts)}).posterior(value)
    total = posterior.log_partition.exp()
    return total, posterior.marginals * total


def named(parts: Parts, **labels: list) -> Parts:
    from dataclasses import replace

    return replace(parts, labels={axis: Labels(names) for axis, names in labels.items()})


def nouns_attached(heads: Heads, tags: list[int]) -> bool:
    for first, last in itertools.combinations(range(len(tags)), 2):
        run = all(tags[k] == 1 for k in range(first, last + 1)) and (last + 1 == len(tags) or tags[last + 1] != 1)
        if run and heads[first] != last + 1:
            return False
    return True


TREES: list[tuple[Component, Callable[[Heads, list[int]], bool], list[int]]] = [
    (c.right_attach(), lambda h, t: all(x == 0 or x > k for k, x in enumerate(h, 1)), [1, 1, 2, 5, 14, 42]),
    (c.all_right(), lambda h, t: all(x == len(h) for x in h[:-1]), [1] * 6),
    (c.left_chain(), lambda h, t: all(x == k + 1 for k, x in enumerate(h[:-1], 1)), [1] * 6),
    (
        c.short_dependencies(),
        lambda h, t: all(x == 0 or abs(x - k) <= 4 for k, x in enumerate(h, 1)),
        [1, 2, 7, 30, 143, 442],
    ),
    (c.short_dependencies(limit=1), lambda h, t: all(x == 0 or abs(x - k) <= 1 for k, x in enumerate(h, 1)), []),
    (c.verb_as_root(["VV", "VC"]), lambda h, t: t[h.index(0)] in (2, 3), []),
    (c.noun_sequence(), nouns_attached, []),
    (
        c.right_attach() & c.short_dependencies(2),
        lambda h, t: all(x == 0 or 0 < x - k <= 2 for k, x in enumerate(h, 1)),
        [],
    ),
]


@pytest.mark.parametrize(("component", "allowed", "known"), TREES, ids=[str(tree[0]) for tree in TREES])
def test_dependency_trees_are_filtered(component: Component, allowed: Callable[..., bool], known: list[int]) -> None:
    sentences = [SENTENCE[:n] for n in range(1, 7)]
    found = [count(component, tags) for tags in sentences]
    assert found == [sum(allowed(heads, tags) for heads in all_trees(len(tags))) for tags in sentences]
    assert not known or found == known
    for tags in sentences:
        arcs = torch.zeros(len(tags), len(tags) + 1)
        for heads in all_trees(len(tags)):
            if allowed(heads, tags):
                arcs[torch.arange(len(tags)), torch.tensor(heads)] += 1
        torch.testing.assert_close(left(component, tags)[1], arcs.flatten(), rtol=1e-9, atol=1e-9)


def test_runs_of_nouns_end_with_their_sentence() -> None:
    K, value = len(TAGS), torch.tensor([1, 1, 1, 1, 0])
    dist = Dependency(torch.zeros(K), torch.zeros(K, 2, K), torch.zeros(K, 2, 2, 2), torch.tensor([2, 3]))
    allowed = c.noun_sequence("NN")(named(dist.parts(value), child=TAGS))
    trees = dist.with_potentials(**{dist.part: allowed}).log_prob(value).exp().round().tolist()
    assert trees == [count(c.noun_sequence(), [1, 1]), count(c.noun_sequence(), [1, 1, 0])]


def test_fragments_are_not_broken() -> None:
    symbols = ["NN", "VB", ","]
    chance = random.Random(0)
    text = [[0, 2, 1, 0, 2, 1], [0, 1], [2], [0, 1, 0, 1]]
    text += [[chance.choice([0, 1, 0, 1, 2]) for _ in range(chance.randint(1, 7))] for _ in range(25)]
    lengths = torch.tensor([len(s) for s in text])
    contexts = [(a, b) for a in [*symbols, "<start>"] for b in [*symbols, "<end>"]]
    numbers = []
    for b, i, j in zip(*(x.tolist() for x in spans_of(lengths)), strict=True):
        left = symbols[text[b][i - 1]] if i > 0 else "<start>"
        right = symbols[text[b][j]] if j < len(text[b]) else "<end>"
        numbers.append([0, contexts.index((left, right))])
    value = torch.tensor(numbers)
    dist = Bracketing(torch.zeros(2, 1), torch.zeros(2, len(contexts)), lengths)
    allowed = c.fragments([","])(named(dist.parts(value), context=contexts))
    trees = dist.with_potentials(**{dist.part: allowed}).log_prob(value).exp().round().long().tolist()
    for sentence, found in zip(text, trees, strict=True):
        pieces, begin = [], 0
        for k, symbol in enumerate([*sentence, 2]):
            if symbol == 2:
                pieces += [(a, b) for a, b in ((begin, k), (k, k + 1)) if a < b <= len(sentence)]
                begin = k + 1
        kept = [
            tree
            for tree in all_brackets(0, len(sentence))
            if not any(i < a < j < b or a < i < b < j for i, j in tree for a, b in pieces)
        ]
        assert found == len(kept)
    assert trees[3] == 5  # nothing to break


def test_words_with_tags_of_their_own() -> None:
    words, tags = ["the", "dog", "runs"], ["DT", "NN", "VB"]
    chain = pu.Chain(torch.zeros(3), torch.zeros(3, 3), torch.zeros(3, 3), torch.tensor([3, 1]), flat=True)
    value = torch.tensor([0, 1, 2, 2])
    parts = named(chain.parts(value), word=words, tag=tags)
    allowed = c.word_tags({"the": "DT", "runs": ["VB", "NN"]})(parts)
    assert allowed.tolist() == [[True, False, False], [True] * 3, [False, True, True], [False, True, True]]
    assert chain.with_potentials(**{chain.part: allowed}).log_prob(value).exp().round().tolist() == [6.0, 2.0]


def test_segments_with_a_vowel() -> None:
    dist = Segmentation(torch.zeros(4), torch.zeros(3), torch.zeros(2), torch.tensor([2]))
    value = torch.tensor([[0, -1], [1, 2]])  # t, h, th, and something
    labels = ["t", "a", "ta", ""]
    allowed = c.spelled_with("aeiou")(named(dist.parts(value), segment=labels))
    assert allowed.tolist() == [[False, False], [True, True]]
    assert c.spelled_with("aeiou")(named(dist.parts(value.clamp(min=3)), segment=labels)).all()  # unknown: anything


def test_links_near_the_diagonal() -> None:

    grid = Grid(torch.tensor([4, 1]), torch.tensor([2, 0]))
    value = torch.zeros(grid.cells, dtype=torch.int32)
    for turned in (False, True):
        parts = Alignment(torch.zeros(1), grid, turned=turned).parts(value)
        allowed = c.near_diagonal(0.25)(parts)
        for k, ok in enumerate(allowed.tolist()):
            i, j = int(parts.source[k]), int(parts.target[k])
            size = (4, 2) if int(parts.pair[k]) == 0 else (1, 1)
            assert ok == (i == 0 or j == 0 or abs(i / size[0] - j / size[1]) <= 0.25)


def test_seeds_of_clusters() -> None:
    words = ["puck", "goal", "orbit", "the"]
    value = torch.tensor([[3, 2], [0, 1], [3, 1], [1, 1], [2, 3], [3, 1]])
    dist = Mixture(torch.zeros(3), torch.zeros(3, 4), torch.tensor([2, 1, 2, 1]))
    parts = named(dist.parts(value), word=words)
    allowed = c.seeds({0: ["puck", "goal"], 2: ["goal", "orbit"]})(parts)
    assert allowed.tolist() == [[True, False, False], [True] * 3, [True, False, True], [True] * 3]


def test_combinations() -> None:
    short, verbs = c.short_dependencies(1), c.verb_as_root(("VV",))
    assert repr(short & verbs) == "both(short_dependencies(limit=1), verb_as_root(tags=['VV']))"

    def soft(parts: Parts) -> torch.Tensor:
        return -0.5 * parts.distance  # type: ignore[attr-defined]

    assert repr(c.both(soft, short)) == "both(soft, short_dependencies(limit=1))"
    both, dist = (
        c.both(soft, short),
        Dependency(torch.zeros(1), torch.zeros(1, 2, 1), torch.zeros(1, 2, 2, 2), torch.tensor([3])),
    )
    value = torch.zeros(3, dtype=torch.long)
    found = both(dist.parts(value))
    assert found.tolist() == [
        0.0 if d == 0 else -0.5 if d == 1 else -torch.inf for d in dist.parts(value).distance.tolist()
    ]
    with pytest.raises(pu.UnsupError, match="a component is a function of the parts of the data, actual 3"):
        c.both(short, 3)  # type: ignore[arg-type]


def test_from_name_and_settings_and_back() -> None:
    some = [
        c.right_attach(),
        c.short_dependencies(3) & (c.verb_as_root({"VV", "VC"}) & c.noun_sequence()),
        c.seeds({0: ("a", "b"), 1: ["c"]}),
        c.word_tags({"the": ["DT"]}),
    ]
    for one in some:
        assert repr(component.build(component.describe(one))) == repr(one)  # type: ignore[arg-type]

    @component.component
    def right_attach(parts: Parts) -> torch.Tensor:
        return parts.example >= 0

    assert repr(right_attach()) == "right_attach()"
    assert component.describe(right_attach()) is None  # another one of that name
    assert component.describe(right_attach() & c.right_attach()) is None
    with pytest.raises(pu.UnsupError, match="unknown component 'component': known are all_right, arc, at_least, both"):
        component.build({"name": "component", "settings": {}})
    with pytest.raises(pu.UnsupError, match=r"component right_attach: .*unexpected keyword argument 'x'"):
        component.build({"name": "right_attach", "settings": {"x": 1}})

"""New data of segmenters, aligners and constituent-context models follow their stories, by enumeration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import pyro_unsup as pu
from pyro_unsup.distributions.cells import spans_of
from pyro_unsup.workflow.table_draws import draw_outcomes
from tests.matrix.models import BITEXT, LETTERS, TAGS

from .cases import fit

DRAWS = 4000
#: Below this a right sampler falls once in ten thousand runs; seeds are fixed.
LEAST = 1e-4


def drawn(model: Any, data: Any, tables: Mapping[str, Any]) -> Any:
    """Data sets, all from the same tables."""
    many = {name: np.repeat(np.asarray(x)[None, None], DRAWS, 1) for name, x in tables.items()}
    return pu.to_arviz(many, data, model=model, groups=["posterior_predictive"], progress=False)["posterior_predictive"]


def random_tables(model: Any, seed: int) -> dict[str, Any]:
    """Rows drawn evenly."""
    g = torch.Generator().manual_seed(seed)
    return {
        name: d.layout.normalise(torch.rand(d.layout.shape, generator=g, dtype=torch.float64).log() / 2).exp().numpy()
        for name, d in model.declarations().items()
    }


def fits(found: Any, expected: Mapping[tuple[int, ...], float]) -> float:
    """The p-value of a chi-squared test; rare outcomes go together."""
    total = sum(expected.values())
    counts = Counter(tuple(int(x) for x in np.ravel(one)) for one in found)
    assert counts.keys() <= {key for key, p in expected.items() if p > 0}
    keys = sorted(expected, key=lambda key: -expected[key])
    p = np.array([expected[key] / total for key in keys])
    n = np.array([counts[key] for key in keys])
    common = p * DRAWS >= 5
    if not common.all():
        p = np.append(p[common], p[~common].sum())
        n = np.append(n[common], n[~common].sum())
        if p[-1] * DRAWS < 1:
            p, n = p[:-1], n[:-1]
    return float(stats.chisquare(n, p / p.sum() * n.sum()).pvalue)


def test_outcomes_of_rows_side_by_side() -> None:
    g = torch.Generator().manual_seed(0)
    table = torch.rand(2, 7, generator=g, dtype=torch.float64)
    table[:, 4] = 0.0
    first, last = torch.tensor([0, 3]), torch.tensor([3, 7])
    torch.manual_seed(0)
    wide = first.repeat_interleave(DRAWS), last.repeat_interleave(DRAWS)
    found = draw_outcomes(table, *wide).reshape(2, 2, DRAWS).numpy()
    for i, k in product(range(2), range(2)):
        row = {(c,): float(table[i, c]) for c in range(int(first[k]), int(last[k]))}
        assert fits(found[i, k], row) > LEAST


# -- the segmenter


@pytest.mark.parametrize("penalty", [None, 1.6])
def test_symbols_are_those_of_all_sequences_of_segments(penalty: float | None) -> None:
    vocab = pu.data.Vocab(["a", "b"])
    segments = ["a", "b", "ab", "aab", "ba"]
    model = pu.models.Segmenter.listed(segments, vocab, penalty=penalty)
    tables = random_tables(model, 0)
    names = model.types.strings(["a", "b"])
    weight = {s: tables["segments"][names.index(s)] * np.exp(-(len(s) ** penalty) if penalty else 0.0) for s in names}
    expected: dict[tuple[int, ...], float] = dict.fromkeys(product(range(2), repeat=4), 0.0)
    for k in range(1, 5):
        for words in product(names, repeat=k):
            text = "".join(words)
            if len(text) == 4:
                p = tables["stop"][0] ** k * np.prod([weight[w] for w in words])
                expected[tuple("ab".index(c) for c in text)] += p
    data = [[0, 0, 1, 0], [1, 0]]
    found = drawn(model, data, tables)["symbols"].values[0]
    assert fits(found[:, :4], expected) > LEAST
    both = pu.to_arviz({n: x[None, None] for n, x in tables.items()}, data, model=model, groups=["observed_data"])
    assert both["observed_data"]["symbols"].values.tolist() == [0, 0, 1, 0, 1, 0]
    assert both["observed_data"]["symbols_example"].values.tolist() == [0, 0, 0, 0, 1, 1]


# -- aligners


BOTH = ([[0, 1], [1], [0]], [[0, 1, 2], [2, 1, 0], [1, 0, 2]])


@pytest.mark.parametrize("agreement", [None, "product"])
@pytest.mark.parametrize("null", [None, 0.3])
def test_translations_of_model_1(agreement: Any, null: Any) -> None:
    model = pu.models.Aligner.of(BOTH, agreement, null, source=2, target=3)
    tables = random_tables(model, 1)
    forward, backward = (tables[f"translation_{way}"] for way in ("forward", "backward"))
    rows = [forward[0:3], forward[3:6], forward[6:9]]  # all words meet: source 0, source 1, the null word
    found = drawn(model, BOTH, tables)
    none = 1 / 3 if null is None else null
    word = none * rows[2] + (1 - none) / 2 * (rows[0] + rows[1])
    expected = {f: float(np.prod(word[list(f)])) for f in product(range(3), repeat=3)}
    assert fits(found["target"].values[0, :, :3], expected) > LEAST
    back = [backward[2 * f : 2 * f + 2] for f in range(4)]
    none = 1 / 4 if null is None else null
    word = none * back[3] + (1 - none) / 3 * (back[0] + back[1] + back[2])
    expected = {e: float(np.prod(word[list(e)])) for e in product(range(2), repeat=2)}
    assert fits(found["source"].values[0, :, :2], expected) > LEAST


@pytest.mark.parametrize("options", [{}, {"null": "learn"}, {"null_words": "uniform"}])
def test_translations_by_jumps_have_the_probabilities_of_the_model(options: Any) -> None:
    model = pu.models.HMMAligner.of(BOTH, None, source=2, target=3, **options)
    tables = random_tables(model, 2)
    found = drawn(model, BOTH, tables)["target"].values[0, :, :3]
    every = list(product(range(3), repeat=3))
    program = pu.to_arviz(
        {n: x[None, None] for n, x in tables.items()},
        ([[0, 1]] * len(every), [list(f) for f in every]),
        model=_Forward(model),
        groups=["log_likelihood"],
    )
    log_p = program["log_likelihood"]["forward"].values[0, 0]
    assert fits(found, dict(zip(every, np.exp(log_p).tolist(), strict=True))) > LEAST


class _Forward:
    """An aligner that observes one direction alone."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def declarations(self) -> Any:
        return self.model.declarations()

    def __call__(self, bitext: Any) -> None:
        from pyro import poutine

        with poutine.block(hide=["backward"]):
            self.model(bitext)


def test_products_of_tables_draw_nothing() -> None:
    model = pu.models.Aligner.of(BITEXT, agreement="2008")
    learned = fit(model, (BITEXT,))
    with pytest.raises(pu.UnsupError, match="agreement='2008' cannot draw new data"):
        pu.to_arviz(learned, BITEXT, draws=2, groups=["posterior_predictive"])
    assert "posterior_predictive" not in pu.to_arviz(learned, BITEXT, draws=2)


# -- spans


@pytest.mark.parametrize("variant", [1, 2])
def test_spans_of_a_constituent_context_model(variant: int) -> None:
    """Sentences of three words have two trees, with a span of two words each."""
    data = [[0, 1, 2], [1, 0]]
    model = pu.models.CCM.of(data, vocab=3, variant=variant)
    tables = random_tables(model, 3)
    found = drawn(model, data, tables)["spans"].values[0]  # (draws, spans, 2)
    yields, contexts = tables["yield"].reshape(2, -1), tables["context"]
    observed = model.index(data).cells.numpy()
    places = list(zip(*(x.tolist() for x in spans_of(torch.tensor([3, 2]))), strict=True))  # sentence, start, end
    two = [places.index((0, 0, 2)), places.index((0, 1, 3))]
    allowed = np.zeros(yields.shape[1], bool)
    rows = model._rows
    low, high = (rows[1], rows[2]) if variant == 2 else (0, rows[-1])
    allowed[low:high] = True
    share = np.where(allowed, yields, 0.0) / np.where(allowed, yields, 0.0).sum(1, keepdims=True)
    expected: dict[tuple[int, ...], float] = {}
    for a, b in product(range(yields.shape[1]), repeat=2):
        expected[a, b] = 0.5 * (share[1, a] * share[0, b] + share[0, a] * share[1, b])
    assert fits(found[:, two, 0], expected) > LEAST
    contexts_of = {(c,): float(contexts[1, c]) for c in range(contexts.shape[1])}
    assert fits(found[:, places.index((1, 0, 2)), 1], contexts_of) > LEAST  # a whole sentence is a constituent
    assert found.shape[1:] == observed.shape


def test_tags_of_a_product_are_drawn_by_its_dependency_model() -> None:
    data = [[0, 1, 0], [1, 1]]
    model = pu.models.DMVCCM.of(data, vocab=2)
    tables = random_tables(model, 4)
    found = drawn(model, data, tables)["tags"].values[0]
    every = list(product(range(2), repeat=3))
    own = {name: tables[name][None, None] for name in model.dmv.declarations()}
    log_p = pu.to_arviz(own, [list(x) for x in every], model=model.dmv, groups=["log_likelihood"])
    p = np.exp(log_p["log_likelihood"]["tags"].values[0, 0])
    assert fits(found[:, :3], dict(zip(every, p.tolist(), strict=True))) > LEAST


# -- checks of them


@pytest.mark.parametrize("name", ["symbols", "tags", "target", "spans"])
def test_checks_by_the_task(name: str) -> None:
    model, data = {
        "symbols": (pu.models.Segmenter.of(LETTERS), LETTERS),
        "tags": (pu.models.DMVCCM.of(TAGS), TAGS),
        "target": (pu.models.Aligner.of(BITEXT), BITEXT),
        "spans": (pu.models.CCM.of(TAGS), TAGS),
    }[name]
    found = pu.to_arviz(fit(model, (data,)), data, draws=20)
    check = pu.predictive_check(found, model=model, variable=name)
    assert ({"yields", "contexts"} if name == "spans" else {"types", "repeats"}) == set(check.table.index)
    assert check.table["p"].between(0, 1).all()
    seen = found["observed_data"][name]
    lengths = np.bincount(seen[f"{name}_example"].values)
    same = pu.predictive_check(found["posterior_predictive"][name], seen.values, lengths=lengths, model=model)
    assert same.table.equals(check.table)
    prior = pu.prior_predictive(model, data, draws=5)
    assert prior["prior_predictive"][name].shape == (1, 5, *seen.shape)

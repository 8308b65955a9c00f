"""Rules for the states of series by their steps, against all sequences of states one by one."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup import components as c
from pyro_unsup.models import HMM, Tagger

SERIES = [torch.tensor([0.3, -1.0, 2.0, 0.5]).double(), torch.tensor([1.5, 0.1]).double()]
RULES: list[tuple[Any, Any]] = [
    (c.states_at({0: (1, 2)}), lambda state, step: step > 2 or state == 0),
    (c.states_at({1: (2, None), 2: 1}), lambda state, step: state == (2 if step == 1 else 1)),
    (c.states_at({0: [(1, 1), (4, 9)], 1: (4, 4)}), lambda state, step: step in (2, 3) or state in (0, step // 4)),
    (~c.states_at({2: (1, 3)}), lambda state, step: step < 4 and state != 2),
]


def start(seed: int) -> Any:
    g = torch.Generator().manual_seed(seed)
    init = {"loc": torch.randn(3, generator=g).tolist(), "scale": [0.7, 1.0, 1.6]}
    return HMM(3, init=init)


@pytest.mark.parametrize("number", range(len(RULES)))
def test_by_enumeration(number: int) -> None:
    rule, obeys = RULES[number]
    plain = pu.EM(start(number), init=pu.init.noise(2.0)).run(SERIES, iterations=0, seed=number)
    weight, (first, move) = 1.3, (plain.weights["start"], plain.weights["transition"])
    emission = torch.distributions.Normal(plain.params["loc"], plain.params["scale"])
    total = 0.0
    liked = pu.EM(pu.prefer(start(number), rule, weight), init=pu.init.from_weights(plain)).run(SERIES, iterations=0)
    marginals, at = liked.posterior(SERIES).marginals, 0
    for x in SERIES:
        scores, paths = [], list(itertools.product(range(3), repeat=len(x)))
        for path in paths:
            log = float(first[path[0]]) + sum(float(move[a, b]) for a, b in itertools.pairwise(path))
            log += sum(float(emission.log_prob(value)[k]) for k, value in zip(path, x, strict=True))
            scores.append(log + weight * sum(obeys(k, step) for step, k in enumerate(path, 1)))
        each = torch.tensor(scores, dtype=torch.float64)
        total += float(each.logsumexp(0))
        shares = each.softmax(0).tolist()
        for t in range(len(x)):
            for k in range(3):
                brute = math.fsum(p for p, path in zip(shares, paths, strict=True) if path[t] == k)
                assert float(marginals[at + t, k]) == pytest.approx(brute, abs=1e-9)
        best = paths[int(each.argmax())]
        assert tuple(liked.predict(SERIES)[at : at + len(x)].tolist()) == best
        at += len(x)
    assert liked.log_likelihood(SERIES) == pytest.approx(total, abs=1e-9)
    # What is decoded heeds the rule, and its log-likelihood is that of the model alone.
    decoded = liked.decode(SERIES)
    assert float(decoded.log_likelihood.sum()) == pytest.approx(plain.log_likelihood(SERIES), abs=1e-9)


def test_training_never_lowers_the_objective_and_is_saved(tmp_path: Path) -> None:
    g = torch.Generator().manual_seed(1)
    x = torch.randn(60, generator=g).double() + 2.0 * (torch.arange(60) >= 30)
    model = pu.prefer(HMM(2), c.states_at({1: (31, 60)}), weight=3.0)
    fit = pu.EM(model).run(x, iterations=15, tolerance=0, progress=False)
    values = [row["objective"] for row in fit.rows]
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(values))
    fit.save(tmp_path / "m")
    loaded = pu.load(tmp_path / "m")
    assert repr(loaded.model) == repr(fit.model)
    assert torch.equal(loaded.predict(x), fit.predict(x))


def test_forbidding() -> None:
    model = pu.constrain(HMM(2), c.states_at({1: (1, 2), 0: (3, 3)}))
    fit = pu.EM(model).run(SERIES, iterations=0, progress=False)
    assert fit.posterior(SERIES).mode()[[0, 1, 2, 4, 5]].tolist() == [1, 1, 0, 1, 1]


def test_the_largest_share_of_a_series() -> None:
    """Densities do not matter for it."""
    rule = c.states_at({0: (1, 2)}) & c.states_at({1: (2, 2)})  # all but the second steps
    with pytest.raises(pu.StructureError, match=r"reach in these data is 0\.6666: ask for 0\.65"):
        pu.EM(pu.regularise(HMM(2), c.at_least(rule, 0.9), bound=0)).run(SERIES, iterations=0)


def test_taggers_have_steps_too() -> None:
    corpus = pu.data.Corpus.of(["a b c", "b a"])
    rule = c.states_at({1: (1, 1)})
    fit = pu.EM(pu.constrain(Tagger(2, corpus.vocab), rule)).run(corpus, iterations=0)
    assert fit.posterior(corpus).mode()[[0, 3]].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (lambda: c.word_tags({9: [0]}), "word_tags is a rule about words, and a series of numbers has none"),
        (lambda: c.closed_classes([0], [1]), "closed_classes is a rule about words, and a series of numbers has none"),
        (lambda: c.states_at({5: (1, 2)}), "none of 5 is known as a state: there are 0, 1"),
        (lambda: c.states_at({0: (0, 2)}), "states_at: bounds should be whole numbers, 1 or more, actual 0"),
        (lambda: c.states_at({0: (3, 2)}), "states_at: the lower bound 3 is above the upper bound 2"),
        (lambda: c.states_at({0: (1, 2, 3)}), "states_at needs the first and the last step of each state"),
        (lambda: c.states_at({0: "1-2"}), "states_at needs the first and the last step of each state"),
        (lambda: c.states_at(3), "states_at needs steps by state, such as {0: (1, 100)}, actual 3"),
        (lambda: c.states_at({}), "states_at needs steps by state"),
    ],
)
def test_refused(rule: Any, said: str) -> None:
    with pytest.raises(pu.StructureError) as found:
        pu.EM(pu.prefer(HMM(2), rule())).run(SERIES, iterations=0)
    assert said in str(found.value)

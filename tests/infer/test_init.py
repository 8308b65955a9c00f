"""Where training starts, against formulas and counting by hand."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pyro
import pytest
import torch
from scipy import stats
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import EM, AddLambda, Normalise, table
from pyro_unsup.errors import FitError, StructureError, TableError
from pyro_unsup.handlers import declared
from pyro_unsup.infer.init import from_labelled, from_weights, noise, uniform
from pyro_unsup.models import Tagger
from pyro_unsup.tables import Declaration

SUPPORT = torch.tensor([[True, True, False], [False, True, True]])


def tables() -> dict[str, Declaration]:
    def model() -> None:
        table("vector", 4)
        table("cube", 2, 3, 4)
        table("known", 2, 3, support=SUPPORT)
        table("ragged", row_lengths=[2, 1, 5])

    return declared(model)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_uniform_is_even() -> None:
    found = uniform()(tables(), seeded())
    assert found["known"].exp().tolist() == [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]
    torch.testing.assert_close(found["ragged"].exp(), torch.tensor([0.5, 0.5, 1.0, 0.2, 0.2, 0.2, 0.2, 0.2]))
    torch.testing.assert_close(found["cube"].exp(), torch.full((2, 3, 4), 0.25))


@pytest.mark.parametrize("scale", [1e-3, 0.1, 1.0, 20.0])
def test_noise_is_exp_of_scale_times_one_plus_uniform(scale: float) -> None:
    found = noise(scale)(tables(), seeded())
    for name, d in tables().items():
        w = d.layout.check(name, found[name])
        torch.testing.assert_close(d.layout.row_sum(w.exp()), torch.ones(d.layout.rows))
    spread = found["cube"].amax(-1) - found["cube"].amin(-1)
    assert (spread > 0).all()
    assert (spread <= scale).all()
    (row,) = noise(scale)(
        {"long": Declaration("long", pu.tables.Layout.dense(20_000), torch.tensor(1.0))}, seeded()
    ).values()
    a = (row - row.min()) / scale  # up to the smallest draw, which is about 1 / 20,000
    assert stats.kstest(a.numpy(), stats.uniform.cdf).pvalue > 1e-4
    # Normalised from exp(scale * (1 + a)): the constant drops out, so the mean of the weights' logs is known.
    expected = scale * 0.5 - math.log((math.exp(scale) - 1) / scale * 20_000)
    assert float(row.mean()) == pytest.approx(expected, abs=0.02 * scale)


def test_the_same_seed_gives_the_same_start_and_another_another() -> None:
    one, same, other = (noise()(tables(), seeded(s)) for s in (3, 3, 4))
    for name in one:
        assert torch.equal(one[name], same[name])
        assert not torch.equal(one[name], other[name])
    pyro.set_rng_seed(99)  # the global seed has no say
    assert torch.equal(noise()(tables(), seeded(3))["cube"], one["cube"])


def test_em_starts_from_noise_by_its_seed() -> None:
    data = [[0, 1, 2], [2, 1]]
    starts = []
    for seed in (1, 1, 2):
        starts.append(EM(Tagger(tags=2, vocab=3)).init(data, seed=seed).weights["transition"])
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])


def test_from_weights_copies_them() -> None:
    given = noise()(tables(), seeded())
    found = from_weights(given)(tables(), seeded())
    for name in given:
        assert torch.equal(found[name], given[name])
        assert found[name].data_ptr() != given[name].data_ptr()
    single = {name: w.float() for name, w in given.items()}
    assert from_weights(single)(tables(), seeded())["cube"].dtype == torch.float64


def test_from_weights_takes_a_fit() -> None:
    data = [[0, 1, 2], [2, 1], [0, 0]]
    fit = EM(Tagger(tags=2, vocab=3)).run(data, iterations=3, progress=False)
    em = EM(Tagger(tags=2, vocab=3), init=pu.init.from_weights(fit))
    assert em.loss(em.init(data)) == pytest.approx(-fit.objective, rel=1e-12)


def test_jitter_is_noise_on_top() -> None:
    given = noise(5.0)(tables(), seeded())
    found = from_weights(given, jitter=0.5)(tables(), seeded(1))
    for name, d in tables().items():
        w = d.layout.check(name, found[name])
        torch.testing.assert_close(d.layout.row_sum(w.exp()), torch.ones(d.layout.rows))
        moved = (w - given[name])[d.layout.allowed()]
        assert moved.abs().max() <= 0.5
        assert torch.equal(w == -torch.inf, given[name] == -torch.inf)
    assert not torch.equal(found["cube"], given["cube"])
    again = from_weights(given, jitter=0.5)(tables(), seeded(1))
    assert torch.equal(again["cube"], found["cube"])


def test_noise_keeps_what_rows_sum_to() -> None:
    """Those of variational Bayes sum to less than one, and no other sum has a bound."""
    data = [[0, 1, 2], [2, 1], [0, 0]]
    fit = EM(Tagger(tags=2, vocab=3), pu.DirichletVB()).run(data, iterations=3, progress=False)
    noisy = from_weights(fit, jitter=0.5)(declared(fit.model, data), seeded())
    for name, w in noisy.items():
        torch.testing.assert_close(w.logsumexp(-1), fit.weights[name].logsumexp(-1))
        assert not torch.allclose(w, fit.weights[name])
    annealed = pu.Anneal(Tagger(tags=2, vocab=3), pu.DirichletVB(), schedule=[0.5, 0.8, 1.0], steps=2, jitter=0.3)
    found = annealed.run(data, iterations=20, progress=False)
    assert all(row["objective"] > -math.inf for row in found.rows[1:])


def test_from_weights_names_what_does_not_fit() -> None:
    given = noise()(tables(), seeded())
    missing = {name: w for name, w in given.items() if name != "cube"}
    with pytest.raises(
        FitError, match=r"the other fit has no table \['cube'\]: it has \['known', 'ragged', 'vector'\]"
    ):
        from_weights(missing)(tables(), seeded())
    with pytest.raises(TableError, match=r"table 'vector': expected log-weights of shape \(4,\), actual \(5,\)"):
        from_weights({**given, "vector": torch.zeros(5)})(tables(), seeded())
    with pytest.raises(TableError, match="table 'known': a structural zero has weight"):
        from_weights({**given, "known": torch.zeros(2, 3)})(tables(), seeded())
    with pytest.raises(TableError, match="table 'vector': log-weights must be finite or -inf"):
        from_weights({**given, "vector": torch.full((4,), torch.nan)})(tables(), seeded())


SENTENCES = [[0, 1, 2, 1], [2], [1, 0], [3, 3, 0]]
TAGS = [[0, 1, 1, 0], [1], [0, 0], [2, 1, 0]]
GOLD = torch.tensor([tag for sentence in TAGS for tag in sentence])


def count_by_hand(order: int, stop: bool) -> dict[str, Tensor]:
    """Tables of counts, one event at a time."""
    counts: dict[str, Counter[Any]] = {name: Counter() for name in ("start", "second", "transition", "emission")}
    for words, tags in zip(SENTENCES, TAGS, strict=True):
        counts["emission"].update(zip(tags, words, strict=True))
        counts["start"][(tags[0],)] += 1
        events = [*tags, 3] if stop else tags  # tag number 3 is the end
        for t in range(1, len(events)):
            if order == 1:
                counts["transition"][events[t - 1], events[t]] += 1
            elif t == 1:
                counts["second"][events[0], events[1]] += 1
            else:
                counts["transition"][events[t - 2], events[t - 1], events[t]] += 1
    out = 3 + stop
    shapes = {"start": (3,), "emission": (3, 4), "transition": (3, out) if order == 1 else (3, 3, out)}
    if order == 2:
        shapes["second"] = (3, out)
    result = {}
    for name, shape in shapes.items():
        result[name] = torch.zeros(shape)
        for cell, n in counts[name].items():
            result[name][cell] += n
    return result


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.parametrize("vocab", [4, 50], ids=["all words", "touched words"])
def test_labelled_sentences_become_relative_frequencies(order: int, stop: bool, vocab: int) -> None:
    model = Tagger(tags=3, vocab=vocab, order=order, stop=stop)
    start = from_labelled(model, SENTENCES, structure=GOLD, estimate=AddLambda(0.25))
    found = start(declared(model, SENTENCES), seeded())
    counts = count_by_hand(order, stop)
    assert set(found) == set(counts)
    for name, n in counts.items():
        if name == "emission":
            n = torch.cat([n, torch.zeros(3, vocab - 4)], -1)
        expected = (n + 0.25) / (n + 0.25).sum(-1, keepdim=True)
        torch.testing.assert_close(found[name].exp(), expected)


def test_without_smoothing_they_are_the_supervised_estimate() -> None:
    model = Tagger(tags=3, vocab=4)
    start = from_labelled(model, SENTENCES, structure=GOLD, estimate=Normalise())
    found = start(declared(model, SENTENCES), seeded())
    for name, n in count_by_hand(1, False).items():
        torch.testing.assert_close(found[name].exp(), n / n.sum(-1, keepdim=True))


def test_by_default_labelled_counts_are_smoothed_by_a_tenth() -> None:
    model = Tagger(tags=3, vocab=4)
    found = from_labelled(model, SENTENCES, structure=GOLD)(declared(model, SENTENCES), seeded())
    n = count_by_hand(1, False)["start"] + 0.1
    torch.testing.assert_close(found["start"].exp(), n / n.sum())


def test_em_may_start_from_labels_on_other_data() -> None:
    model = Tagger(tags=3, vocab=4)
    fit = EM(model, init=from_labelled(model, SENTENCES, structure=GOLD)).run(
        [[3, 0, 1], [2, 2]], iterations=0, progress=False
    )
    n = count_by_hand(1, False)["emission"] + 0.1
    torch.testing.assert_close(fit.weights["emission"].exp(), n / n.sum(-1, keepdim=True))


def test_structural_zeros_get_no_pseudo_counts() -> None:
    mask = torch.ones(3, 4, dtype=torch.bool)
    mask[2, 0] = False
    model = Tagger(tags=3, vocab=4, dictionary=mask)
    found = from_labelled(model, SENTENCES, structure=GOLD)(declared(model, SENTENCES), seeded())
    assert found["emission"][2, 0] == -torch.inf
    n = (count_by_hand(1, False)["emission"] + 0.1) * mask
    torch.testing.assert_close(found["emission"].exp(), n / n.sum(-1, keepdim=True))


def test_labels_that_the_dictionary_forbids_are_an_error() -> None:
    mask = torch.ones(3, 4, dtype=torch.bool)
    mask[0, 0] = False  # but the first word of the first sentence has it
    model = Tagger(tags=3, vocab=4, dictionary=mask)
    start = from_labelled(model, SENTENCES, structure=GOLD)
    with pytest.raises(FitError, match="the labelled structure uses a part that the model's supports forbid"):
        start(declared(model, SENTENCES), seeded())


def test_labels_of_the_wrong_number_are_an_error() -> None:
    model = Tagger(tags=3, vocab=4)
    with pytest.raises(StructureError, match=r"a structure has shape \(10,\), actual shape \(3,\)"):
        from_labelled(model, SENTENCES, structure=torch.zeros(3))(declared(model, SENTENCES), seeded())


def test_a_model_without_structure_has_no_labels() -> None:
    def model() -> None:
        pyro.sample("x", pu.Categorical(table("t", 3)), obs=torch.tensor(1))

    with pytest.raises(FitError, match="from_labelled wants a model with one structured site, found 0"):
        from_labelled(model, structure=torch.tensor([0]))(declared(model), seeded())


def test_noise_around_what_is_no_start() -> None:
    for wrong in ("harmonic", None, 3):
        with pytest.raises(pu.FitError, match=r"around\(\) puts noise on a start, such as pu.init.uniform\(\), actual"):
            pu.init.around(wrong, 0.3)  # type: ignore[arg-type]
    for scale in (-1, "1", None, float("nan"), float("inf"), True):
        with pytest.raises(pu.FitError, match=r"the scale of noise should be a number, 0 or more, actual"):
            pu.init.around(pu.init.uniform(), scale)  # type: ignore[arg-type]
    pu.init.around(pu.init.uniform(), 0)

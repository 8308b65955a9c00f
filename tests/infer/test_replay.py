"""E steps by replay: bit for bit those of the model itself, and only where a model always does the same."""

from __future__ import annotations

from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup.infer.expectation import Expectation, Marginal
from pyro_unsup.infer.parameters import Parameters
from pyro_unsup.infer.replay import Recorder
from pyro_unsup.tables import LazyTable
from pyro_unsup.tables.derived import derived
from tests.matrix.models import MODELS, TAGS, WORDS, Model

#: The models that hand their tables on, or say what they compute from them; the others go the ordinary way.
RECORDED = {"bigram tagger", "trigram tagger", "DMV", "CCM 1", "CCM 2", "DMV + CCM", "segmenter", "clusterer"}
RECORDED |= {"Model 1", "HMM aligner", "PCFG", "SimplePCFG"}


def marginal(model: Any, plates: int = 1) -> Marginal:
    """Every model here promises to do the same whenever it runs, some of them falsely."""
    pu.handlers.bare(model).replayable = True
    return Marginal(model, Parameters(), torch.float64, plates)


def tables(model: Any, data: tuple[Any, ...], seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for name, declaration in pu.handlers.declared(model, *data).items():
        layout = declaration.layout
        noise = torch.rand(layout.shape, generator=generator, dtype=torch.float64) + 0.1
        found[name] = layout.normalise(noise.log())
    return found


def is_recorded(one: Marginal) -> bool:
    return one._recorder._replay is not None


def equal(one: Expectation, other: Expectation) -> None:
    assert one.log_marginal == other.log_marginal
    assert one.counts.keys() == other.counts.keys()
    for name, counts in one.counts.items():
        assert torch.equal(counts, other.counts[name]), name
    assert one.touched.keys() == other.touched.keys()


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("model", [m for m in MODELS.values() if not m.hidden], ids=lambda m: m.name)
def test_replay_is_the_model_bit_for_bit(model: Model, whole: bool) -> None:
    """The first two runs on the same data are ordinary, later ones replay."""
    program = model.make()
    replayed = marginal(program)
    for seed in range(12):
        weights = tables(program, model.data, seed)
        found = replayed.expect(weights, model.data, {}, whole=whole)
        assert is_recorded(replayed) == (model.name in RECORDED and seed > 0)
        equal(found, marginal(program).expect(weights, model.data, {}, whole=whole))
        assert replayed.log_marginal(weights, model.data, {}) == pytest.approx(found.log_marginal, rel=1e-14)


@pytest.mark.parametrize("beta", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("name", ["bigram tagger", "DMV", "CCM 1"])
def test_temperature_is_part_of_the_record(name: str, beta: float) -> None:
    case = MODELS[name]
    program = pu.temper(case.make(), beta)
    replayed = marginal(program)
    for seed in range(4):
        weights = tables(program, case.data, seed)
        equal(replayed.expect(weights, case.data, {}), marginal(program).expect(weights, case.data, {}))
    assert is_recorded(replayed)
    program.handler.beta = 0.7
    weights = tables(program, case.data, 9)
    equal(replayed.expect(weights, case.data, {}), marginal(program).expect(weights, case.data, {}))
    assert not is_recorded(replayed)


def bitext(pairs: int, seed: int) -> Any:
    return pu.data.toy.bitext(pairs, seed=seed)


@pytest.mark.parametrize("agreement", ["product", "2008", None])
@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("kind", [pu.models.Aligner, pu.models.HMMAligner])
def test_aligners_say_what_they_compute(kind: Any, agreement: str | None, beta: float) -> None:
    """Tables in another order, the room of jumps, weights of both tables, padding for words that never met."""
    known, unknown = bitext(30, 1), bitext(30, 2)
    extra: dict[str, Any] = {}
    if kind is pu.models.HMMAligner:
        extra = {"null": "learn", "null_words": "uniform" if agreement is None else "learn"}
    program = kind.of(known, agreement=agreement, **extra)
    for data in (known, unknown, known.select([3, 5])):
        tempered = program if beta == 1 else pu.temper(program, beta)
        replayed = marginal(tempered)
        for seed in range(7):
            weights = tables(program, (data,), seed)
            found = replayed.expect(weights, (data,), {})
            assert is_recorded(replayed) == (seed > 0)
            equal(found, marginal(tempered).expect(weights, (data,), {}))
            assert replayed.log_marginal(weights, (data,), {}) == pytest.approx(found.log_marginal, rel=1e-14)


def test_running_counts_are_read_as_they_are() -> None:
    model = pu.models.Tagger(2, WORDS.vocab)
    replayed = marginal(model)
    layouts = {name: d.layout for name, d in model.declarations().items()}
    for seed in range(4):
        lazy = {name: LazyTable(layouts[name], w.exp()) for name, w in tables(model, (WORDS,), seed).items()}
        equal(replayed.expect(lazy, (WORDS,), {}), marginal(model).expect(lazy, (WORDS,), {}))
    assert is_recorded(replayed)


def test_other_data_are_no_replay() -> None:
    model = pu.models.DMV.of(TAGS)
    one, other = TAGS.select([0, 1]), TAGS.select([2, 3])
    replayed = marginal(model)
    for seed, data in enumerate([one, one, one, other, one, other, other, other]):
        weights = tables(model, (data,), seed)
        equal(replayed.expect(weights, (data,), {}), marginal(model).expect(weights, (data,), {}))
    assert is_recorded(replayed)


def coins(sides: Tensor, count: int = 3) -> Any:
    """A chain over the data, as a model of one's own has it."""
    K, V = 2, 3
    start, transition, emission = pu.table("start", K), pu.table("transition", K, K), pu.table("emission", K, V)
    with pyro.plate("series", len(sides)):
        lengths = torch.full((len(sides),), count)
        return pyro.sample("sides", pu.Chain(start, transition, emission, lengths), obs=sides)


coins.replayable = True  # type: ignore[attr-defined]
SIDES = torch.tensor([[0, 1, 2, 0], [2, 1, 0, 1]])


class Changing:
    """A model with something to change."""

    def __init__(self) -> None:
        self.count, self.bonus, self.table = 3, torch.zeros(2), {"factor": 1.0}

    def __call__(self, sides: Tensor) -> Any:
        with pyro.poutine.scale(scale=self.table["factor"]):
            return coins(sides, self.count)


def changed_count(model: Changing) -> None:
    model.count = 2


def changed_inside(model: Changing) -> None:
    model.table["factor"] = 0.5


@pytest.mark.parametrize("change", [changed_count, changed_inside])
def test_a_model_that_changes_is_noticed_at_once(change: Any) -> None:
    model = Changing()
    replayed = marginal(model)
    weights = tables(model, (SIDES,), 0)
    for _ in range(3):
        before = replayed.expect(weights, (SIDES,), {})
    assert is_recorded(replayed)
    change(model)
    after = replayed.expect(weights, (SIDES,), {})
    assert after.log_marginal != before.log_marginal
    equal(after, marginal(model).expect(weights, (SIDES,), {}))


def test_a_variable_of_a_function_that_changes_is_noticed() -> None:
    factor = 1.0
    shift = torch.zeros(2)

    def model(sides: Tensor) -> Any:
        with pyro.poutine.scale(scale=factor + float(shift[0])):
            return coins(sides)

    replayed = marginal(model)
    weights = tables(model, (SIDES,), 0)
    for _ in range(3):
        first = replayed.expect(weights, (SIDES,), {})
    assert is_recorded(replayed)
    shift += 1.0
    assert replayed.expect(weights, (SIDES,), {}).log_marginal == 2 * first.log_marginal
    factor = 2.0
    assert replayed.expect(weights, (SIDES,), {}).log_marginal == 3 * first.log_marginal


def test_hidden_state_far_away_is_noticed_in_the_end() -> None:
    """What no attribute tells is found by running the model again after 4, 8, 16, ... uses."""
    deep = [[[[3]]]]

    def model(sides: Tensor) -> Any:
        return coins(sides, deep[0][0][0][0])

    replayed = marginal(model)
    weights = tables(model, (SIDES,), 0)
    for _ in range(3):
        replayed.expect(weights, (SIDES,), {})
    deep[0][0][0][0] = 2
    found = [replayed.expect(weights, (SIDES,), {}).log_marginal for _ in range(4)]
    assert found[-1] == marginal(model).expect(weights, (SIDES,), {}).log_marginal


def never(model: Any) -> None:
    replayed = marginal(model, plates=2)
    for seed in range(4):
        replayed.expect(tables(model, (SIDES,), seed), (SIDES,), {})
    assert not is_recorded(replayed)


def test_a_model_that_looks_at_its_weights_is_never_recorded() -> None:
    def looks(sides: Tensor) -> Any:
        start, transition, emission = pu.table("start", 2), pu.table("transition", 2, 2), pu.table("emission", 2, 3)
        allowed = emission.detach() > -1.5
        with pyro.plate("series", len(sides)):
            chain = pu.Chain(start, transition, emission, torch.full((len(sides),), 4)).with_potentials(
                states=torch.where(allowed.any(-1), 0.0, -3.0).double()
            )
            return pyro.sample("sides", chain, obs=sides)

    never(looks)


def test_a_model_that_draws_is_never_recorded() -> None:
    def subsampled(sides: Tensor) -> Any:
        with pyro.plate("some", len(sides), subsample_size=1) as some:
            lengths = torch.full((1,), 4)
            tables = pu.table("start", 2), pu.table("transition", 2, 2), pu.table("emission", 2, 3)
            return pyro.sample("sides", pu.Chain(*tables, lengths), obs=sides[some])

    def noisy(sides: Tensor) -> Any:
        torch.rand(1)
        return coins(sides)

    never(subsampled)
    never(noisy)


def test_weights_that_are_computed_are_never_recorded() -> None:
    def computed(sides: Tensor) -> Any:
        tables = pu.table("start", 2), pu.table("transition", 2, 2), pu.table("emission", 2, 3)
        with pyro.plate("series", len(sides)):
            return pyro.sample("sides", pu.Chain(tables[0] + 1, *tables[1:], torch.full((2,), 4)), obs=sides)

    never(computed)


def test_weights_that_say_how_they_are_computed_are_recorded() -> None:
    def computed(sides: Tensor) -> Any:
        start, transition, emission = pu.table("start", 2), pu.table("transition", 2, 2), pu.table("emission", 2, 3)
        with pyro.plate("series", len(sides)):
            chain = pu.Chain(derived(torch.mul, start, 2.0), transition, emission, torch.full((2,), 4))
            return pyro.sample("sides", chain, obs=sides)

    def changed(sides: Tensor) -> Any:
        start, transition, emission = pu.table("start", 2), pu.table("transition", 2, 2), pu.table("emission", 2, 3)
        with pyro.plate("series", len(sides)):
            twice = derived(torch.mul, start, 2.0)
            twice += 1.0
            return pyro.sample("sides", pu.Chain(twice, transition, emission, torch.full((2,), 4)), obs=sides)

    replayed = marginal(computed)
    for seed in range(6):
        weights = tables(computed, (SIDES,), seed)
        equal(replayed.expect(weights, (SIDES,), {}), marginal(computed).expect(weights, (SIDES,), {}))
    assert is_recorded(replayed)
    never(changed)


def test_a_table_that_is_there_many_times_is_never_recorded() -> None:
    def spread(sides: Tensor) -> Any:
        start, transition, emission = pu.table("start", 1), pu.table("transition", 2, 2), pu.table("emission", 2, 3)
        with pyro.plate("series", len(sides)):
            chain = pu.Chain(start.expand(2), transition, emission, torch.full((2,), 4))
            return pyro.sample("sides", chain, obs=sides)

    never(spread)


def test_enumerated_variables_and_masks_are_never_recorded() -> None:
    def enumerated(sides: Tensor) -> Any:
        share, emission = pu.table("share", 2), pu.table("emission", 2, 3)
        with pyro.plate("a", 2, dim=-1):
            k = pyro.sample("k", pu.Categorical(share), infer={"enumerate": "parallel"})
            pyro.sample("x", pu.Categorical(emission[k]), obs=sides[:, 0])

    def masked(sides: Tensor) -> Any:
        with pyro.poutine.mask(mask=torch.tensor([True, False])):
            return coins(sides)

    def latent(sides: Tensor) -> Any:
        pyro.sample("z", dist.Normal(0.0, 1.0), obs=torch.tensor(0.5))
        return coins(sides)

    never(enumerated)
    never(masked)
    never(latent)


def test_handlers_that_look_at_weights_are_never_recorded() -> None:
    case = MODELS["DMV"]
    program = pu.constrain(case.make(), case.component)
    replayed = marginal(program)
    for seed in range(4):
        replayed.expect(tables(program, case.data, seed), case.data, {})
    assert not is_recorded(replayed)


def test_impossible_data_are_told_by_the_model() -> None:
    engine = pu.EM(coins, init=pu.init.from_weights(tables(coins, (SIDES,), 0)))
    state = engine.init(SIDES)
    for _ in range(4):
        state, _ = engine.step(state)
    assert is_recorded(state.problem.marginal)
    state.tables["emission"] = torch.full((2, 3), -torch.inf, dtype=torch.float64)
    with pytest.raises(pu.FitError, match="item 0 of site 'sides' has probability zero"):
        engine.step(state)


def test_a_recorder_forgets_data_that_came_once() -> None:
    recorder = Recorder(coins)
    assert recorder.replay((SIDES,), {}) is None


def test_tensors_that_change_are_noticed() -> None:
    sides = SIDES.clone()
    replayed = marginal(coins)
    weights = tables(coins, (sides,), 0)
    for _ in range(3):
        before = replayed.expect(weights, (sides,), {})
    assert is_recorded(replayed)
    sides[0, 0] = 2
    after = replayed.expect(weights, (sides,), {})
    assert after.log_marginal != before.log_marginal
    equal(after, marginal(coins).expect(weights, (sides,), {}))


def test_lists_and_named_arguments_are_never_recorded() -> None:
    """A list may be changed unnoticed."""
    model, data = pu.models.Tagger(2, 3), [[0, 1, 2], [1, 1]]
    replayed = marginal(model)
    weights = tables(model, (data,), 0)
    for _ in range(4):
        before = replayed.expect(weights, (data,), {})
    assert not is_recorded(replayed)
    data[0][0] = 2
    assert replayed.expect(weights, (data,), {}).log_marginal != before.log_marginal
    for other in (SIDES, SIDES.flip(0), SIDES.flip(1)):
        marginal(coins).expect(tables(coins, (other,), 0), (), {"sides": other})
    named = marginal(coins)
    for other in (SIDES, SIDES.flip(1), SIDES.flip(1)):
        equal(
            named.expect(tables(coins, (SIDES,), 0), (), {"sides": other}),
            marginal(coins).expect(tables(coins, (SIDES,), 0), (other,), {}),
        )


def test_a_model_that_promises_nothing_is_never_recorded() -> None:
    def silent(sides: Tensor) -> Any:
        return coins(sides)

    plain = Marginal(silent, Parameters(), torch.float64, 1)
    for _ in range(4):
        plain.expect(tables(silent, (SIDES,), 0), (SIDES,), {})
    assert not is_recorded(plain)
    assert all(type(m.make()).replayable for m in MODELS.values() if not m.hidden)


def test_handlers_around_the_engine_are_heard() -> None:
    replayed = marginal(coins)
    weights = tables(coins, (SIDES,), 0)
    for _ in range(3):
        plain = replayed.expect(weights, (SIDES,), {})
    assert is_recorded(replayed)
    with pyro.poutine.scale(scale=0.5):
        half = replayed.expect(weights, (SIDES,), {})
    assert half.log_marginal == plain.log_marginal / 2
    equal(replayed.expect(weights, (SIDES,), {}), plain)
    fresh = marginal(coins)
    with pyro.poutine.scale(scale=0.5):
        for _ in range(3):
            fresh.expect(weights, (SIDES,), {})
    assert not is_recorded(fresh)


def test_a_session_may_use_one_buffer_for_all_batches() -> None:
    data = torch.randint(0, 3, (60, 4), generator=torch.Generator().manual_seed(1))
    one, other = (pu.EM(coins, pu.AddLambda(0.1)).session(seed=1) for _ in range(2))
    buffer = torch.empty(6, 4, dtype=torch.long)
    for i in range(10):
        batch = data[6 * i : 6 * i + 6]
        buffer.copy_(batch)
        assert one.step(buffer) == other.step(batch.clone())

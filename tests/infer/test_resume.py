"""Going on from where training stopped: the same, bit for bit, as if it had never stopped."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor
from torch.distributions import constraints

import pyro_unsup as pu
from pyro_unsup import EM, AddLambda, DirichletMAP, InputError
from pyro_unsup.data import TagDictionary, toy
from pyro_unsup.infer.loop import Checkpoints, Info
from pyro_unsup.models import Tagger

from ..results.cases import assert_same

CORPUS = toy.sentences(30, seed=3)
DICTIONARY = TagDictionary.from_corpus(CORPUS, min_count=4)
SEED = 7


def with_params(x: Tensor) -> None:
    """Under a constraint there and back is not exact, and L-BFGS makes much of the difference."""
    share = pu.table("share", 2)
    mean = pyro.param("mean", lambda: torch.randn(2))
    scale = pyro.param("scale", lambda: torch.ones(2), constraint=constraints.greater_than(0.01))
    with pyro.plate("data", len(x)):
        z = pyro.sample("z", pu.Categorical(share))
        pyro.sample("x", dist.Normal(mean[z], scale[z]), obs=x)


def with_points(x: Tensor) -> None:
    share = pu.table("share", 2, prior=1.5)
    with pyro.plate("components", 2):
        mean = pyro.sample("mean", dist.Normal(torch.tensor([-1.0, 2.0]), 5.0))
        scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
    with pyro.plate("data", len(x)):
        z = pyro.sample("z", pu.Categorical(share))
        pyro.sample("x", dist.Normal(mean[z], scale[z]), obs=x)


class Bend(torch.nn.Module):
    """A network inside a model. Each run starts with a new one, as another process would."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x[:, None])[:, 0]  # type: ignore[no-any-return]


def with_network() -> Callable[[Tensor], None]:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        bend = Bend().double()

    def model(x: Tensor) -> None:
        share = pu.table("share", 2)
        middle = pyro.module("bend", bend)(torch.linspace(-1, 1, len(x)))
        with pyro.plate("data", len(x)):
            z = pyro.sample("z", pu.Categorical(share))
            pyro.sample("x", dist.Normal(middle + 3.0 * z, 1.0), obs=x)

    return model


def numbers() -> Tensor:
    draws = torch.randn(40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return torch.where(torch.arange(40) % 3 > 0, draws - 1, draws + 2)


@dataclass
class Case:
    """A model, how to train it, and on what."""

    make: Callable[[], Callable[..., Any]]
    data: Any = field(default_factory=lambda: CORPUS)
    options: dict[str, Any] = field(default_factory=dict)

    def engine(self) -> EM:
        pyro.clear_param_store()  # as in another process
        return EM(self.make(), **self.options)

    def run(self, iterations: int, **options: Any) -> pu.Fit:
        options = {"seed": SEED, "tolerance": 0, "progress": False, **options}
        return self.engine().run(self.data, iterations=iterations, **options)

    def load(self, folder: Path) -> pu.Fit:
        return pu.load(folder, self.make())


CASES = {
    "bigram": Case(lambda: Tagger(3, CORPUS.vocab)),
    "float32": Case(lambda: Tagger(3, CORPUS.vocab), options={"dtype": torch.float32}),
    "trigram": Case(lambda: Tagger(3, CORPUS.vocab, order=2, stop=True), options={"estimate": AddLambda(0.1)}),
    "dictionary": Case(lambda: Tagger(toy.TAGSET, CORPUS.vocab, dictionary=DICTIONARY)),
    "priors": Case(lambda: Tagger(3, CORPUS.vocab, prior=1.3), options={"estimate": {"start": DirichletMAP()}}),
    "parameters": Case(lambda: with_params, numbers()),
    "points": Case(lambda: with_points, numbers(), {"estimate": DirichletMAP()}),
    "network": Case(with_network, numbers()),
}
every = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def assert_same_run(one: pu.Fit, other: pu.Fit) -> None:
    """Weights, rows and reports are equal; only the time that it took may differ."""
    assert_same(one, other, seconds=False)


# -- 10 = 5 + 5


@every
def test_ten_iterations_are_five_saved_loaded_and_five_more(case: Case, tmp_path: Path) -> None:
    whole = case.run(10)
    case.run(5).save(tmp_path / "half")
    rest = case.run(10, resume=case.load(tmp_path / "half"))
    assert [row["iteration"] for row in rest.rows] == list(range(11))
    assert_same_run(rest, whole)
    assert rest.seed == SEED


@pytest.mark.parametrize("name", ["bigram", "float32", "trigram", "dictionary", "priors"])
def test_weights_alone_go_on_as_exactly(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    whole = case.run(10)
    case.run(5).save(tmp_path / "half")
    half = case.load(tmp_path / "half")
    rest = Case(case.make, options={**case.options, "init": pu.init.from_weights(half)}).run(5, seed=0)
    for name, w in whole.weights.items():
        assert torch.equal(rest.weights[name], w)
        assert rest.weights[name].dtype == w.dtype
    assert [row["objective"] for row in rest.rows] == [row["objective"] for row in whole.rows[5:]]


@pytest.mark.parametrize("name", ["trigram", "dictionary"])
@pytest.mark.parametrize("cuts", [[0], [1], [9], [10], [1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 0, 4, 4, 10]])
def test_however_often_it_stops(name: str, cuts: list[int], tmp_path: Path) -> None:
    case = CASES[name]
    fit = None
    for i, cut in enumerate([*cuts, 10]):
        case.run(cut, resume=fit).save(tmp_path / str(i))
        fit = case.load(tmp_path / str(i))
    assert fit is not None
    assert_same_run(fit, case.run(10))


def test_convergence_is_found_at_the_same_iteration(tmp_path: Path) -> None:
    case = CASES["priors"]
    whole = case.run(500, tolerance=1e-4)
    assert whole.report.converged
    n = whole.report.iterations
    for cut in (n - 1, n):
        case.run(cut, tolerance=1e-4).save(tmp_path / str(cut))
        rest = case.run(500, tolerance=1e-4, resume=case.load(tmp_path / str(cut)))
        assert rest.report.converged
        assert_same_run(rest, whole)


def test_time_goes_on_too(tmp_path: Path) -> None:
    case = CASES["bigram"]
    half = case.run(5)
    rest = case.run(10, resume=half)
    times = [row["seconds"] for row in rest.rows]
    assert times == sorted(times)
    assert times[5] > half.rows[-2]["seconds"]


def test_callbacks_hear_only_of_what_is_new() -> None:
    case, heard = CASES["bigram"], []

    def note(info: Info) -> None:
        heard.append(info.iteration)

    case.run(10, resume=case.run(5), callbacks=[note])
    assert heard == [5, 6, 7, 8, 9, 10]  # the last weights are looked at again


def test_a_fit_that_does_not_belong_to_the_model_is_refused() -> None:
    half = CASES["bigram"].run(2)
    with pytest.raises(pu.TableError, match=r"table 'start': expected log-weights of shape \(4,\), actual \(3,\)"):
        EM(Tagger(4, CORPUS.vocab)).run(CORPUS, resume=half, progress=False)
    with pytest.raises(pu.FitError, match=r"the fit to go on from has no table 'start': it has \['share'\]"):
        EM(Tagger(3, CORPUS.vocab)).run(CORPUS, resume=CASES["parameters"].run(2), progress=False)


# -- checkpoints


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint every iteration."""
    monkeypatch.setattr(Checkpoints.__init__, "__defaults__", (0.0,))


def interrupt_at(iteration: int) -> Callable[[Info], None]:
    def callback(info: Info) -> None:
        if info.iteration == iteration:
            raise KeyboardInterrupt

    return callback


@every
@pytest.mark.parametrize("iteration", [0, 2, 5])
def test_an_interrupt_in_a_callback_leaves_a_checkpoint_to_go_on_from(
    case: Case, tmp_path: Path, iteration: int
) -> None:
    whole = case.run(5)
    with pytest.raises(KeyboardInterrupt):
        case.run(5, checkpoint=tmp_path / "kept", callbacks=[interrupt_at(iteration)])
    kept = case.load(tmp_path / "kept")
    assert kept.report.reason == "checkpoint"
    assert kept.report.iterations == kept.rows[-1]["iteration"] == iteration
    assert len(kept.rows) == iteration + 1
    assert_same_run(case.run(5, resume=kept), whole)


@pytest.mark.parametrize("name", ["bigram", "float32", "parameters", "points"])
@pytest.mark.parametrize("where", ["e_step", "m_step"])
@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_inside_a_step_does_too(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, after: bool
) -> None:
    case = CASES[name]
    whole = case.run(5)
    real, calls = getattr(EM, where), [0]

    def step(*args: Any) -> Any:
        calls[0] += 1
        if calls[0] == 3 and not after:
            raise KeyboardInterrupt
        result = real(*args)
        if calls[0] == 3:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(EM, where, step)
        with pytest.raises(KeyboardInterrupt):
            case.run(5, checkpoint=tmp_path / "kept")
    kept = case.load(tmp_path / "kept")
    assert kept.report.iterations == (1 if where == "e_step" else 2)  # what had been looked at, not half a step
    assert_same_run(case.run(5, resume=kept), whole)


WATCHED = ("pyro_unsup/infer/", "pyro_unsup/results/", "pyro_unsup/estimate/", "torch/optim/lbfgs.py")


@cache
def watched(filename: str) -> bool:
    return any(part in filename for part in WATCHED)


class Interrupt:
    """Ctrl-C at the n-th line that runs in the files that matter; without a number it only counts lines."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.lines = at, 0

    def __enter__(self) -> Interrupt:
        self.before = sys.gettrace()
        sys.settrace(self.trace)
        return self

    def __exit__(self, *args: object) -> None:
        sys.settrace(self.before)

    def trace(self, frame: FrameType, event: str, arg: object) -> Any:
        return self.line if watched(frame.f_code.co_filename) else None

    def line(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self.line


# Python skips the end of a `with` block if a tracer raises on the way out. The file is closed later, with a warning.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ["bigram", "parameters", "points"])
@pytest.mark.parametrize("every_iteration", [False, True])
def test_an_interrupt_at_any_line_loses_nothing(
    name: str, every_iteration: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Within steps, between them, and while a checkpoint is being written."""
    if every_iteration:
        request.getfixturevalue("eager")
    case, n = CASES[name], 3
    whole = case.run(n)
    with Interrupt() as counter:
        case.run(n, checkpoint=tmp_path / "all")
    rng, saved = random.Random(0), 0
    for at in sorted(rng.sample(range(1, counter.lines), 10)):
        folder = tmp_path / str(at)
        with Interrupt(at) as interrupt, pytest.raises(KeyboardInterrupt):
            case.run(n, checkpoint=folder)
        assert interrupt.lines == at
        assert not list(tmp_path.rglob(".*"))
        if folder.exists():
            saved += 1
            assert_same_run(case.run(n, resume=case.load(folder)), whole)
    assert saved > 3


def test_checkpoints_do_not_change_the_run(eager: None, tmp_path: Path) -> None:
    case = CASES["trigram"]
    assert_same_run(case.run(10, checkpoint=tmp_path / "kept"), case.run(10))
    kept = case.load(tmp_path / "kept")
    assert_same_run(case.run(10, resume=kept), case.run(10))
    assert len(list((tmp_path / "kept").iterdir())) == 2  # one fit, not one an iteration


def test_a_run_that_fails_keeps_its_last_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, real = CASES["bigram"], EM.e_step

    def e_step(engine: EM, state: Any) -> Any:
        info, found = real(engine, state)
        return Info(3, -1e9, -1e9) if info.iteration == 3 else info, found  # falls, which is an error

    with monkeypatch.context() as patch:
        patch.setattr(EM, "e_step", e_step)
        with pytest.raises(pu.FitError, match="the objective fell"):
            case.run(10, checkpoint=tmp_path / "kept")
    assert case.load(tmp_path / "kept").report.iterations == 2


def test_a_checkpoint_never_replaces_what_is_not_a_fit(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("words")
    with pytest.raises(InputError, match="thesis: exists and is not a fit, so it is not replaced"):
        CASES["bigram"].run(3, checkpoint=tmp_path / "thesis", callbacks=[interrupt_at(2)])
    assert [one.name for one in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


def test_a_resumed_run_may_keep_its_checkpoint_in_the_same_place(tmp_path: Path) -> None:
    case, folder = CASES["dictionary"], tmp_path / "kept"
    whole = case.run(10)
    for stop in (2, 5, 9):
        resume = case.load(folder) if folder.exists() else None
        with pytest.raises(KeyboardInterrupt):
            case.run(10, checkpoint=folder, resume=resume, callbacks=[interrupt_at(stop)])
    assert_same_run(case.run(10, checkpoint=folder, resume=case.load(folder)), whole)


# -- restarts


def test_each_restart_has_its_own_checkpoint(eager: None, tmp_path: Path) -> None:
    case = CASES["bigram"]
    best = case.run(6, restarts=3, processes=1, checkpoint=tmp_path / "kept")
    assert sorted(one.name for one in (tmp_path / "kept").iterdir()) == ["seed-7", "seed-8", "seed-9"]
    for i in range(3):
        kept = case.load(tmp_path / "kept" / f"seed-{SEED + i}")
        assert kept.seed == kept.report.seed == SEED + i
        alone = case.run(6, seed=SEED + i)
        assert_same_run(case.run(6, resume=kept), alone)
        assert best.report.restarts[i] == alone.objective


def test_an_interrupted_restart_can_be_gone_on_with(tmp_path: Path) -> None:
    case, calls = CASES["bigram"], [0]

    def interrupt(info: Info) -> None:
        calls[0] += 1
        if calls[0] == 11:  # 7 rows of the first start, then 4 of the second
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        case.run(6, restarts=3, processes=1, checkpoint=tmp_path / "kept", callbacks=[interrupt])
    kept = case.load(tmp_path / "kept" / f"seed-{SEED + 1}")
    assert kept.report.iterations == 3
    assert_same_run(case.run(6, resume=kept), case.run(6, seed=SEED + 1))


def test_the_best_of_several_restarts_can_be_saved_and_trained_on(tmp_path: Path) -> None:
    case = CASES["parameters"]
    best = case.run(5, restarts=3, processes=1)
    best.save(tmp_path / "best")
    loaded = case.load(tmp_path / "best")
    assert_same(loaded, best)
    assert loaded.config["restarts"] == 3
    further = case.run(10, resume=loaded)
    alone = case.run(10, seed=best.seed)
    for name in alone.weights:
        assert torch.equal(further.weights[name], alone.weights[name])
    for name in alone.params:
        assert torch.equal(further.params[name], alone.params[name])

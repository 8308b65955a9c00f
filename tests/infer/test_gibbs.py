"""Chains of the collapsed sampler: the same however they run, resumed exactly, and under Pyro's MCMC."""

from __future__ import annotations

import itertools
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from pyro.infer import MCMC
from pyro.infer.mcmc.api import StreamingMCMC

import pyro_unsup as pu
from pyro_unsup.errors import FitError, InputError, StructureError
from pyro_unsup.infer.gibbs import CollapsedGibbs
from pyro_unsup.infer.hyperparameters import LogUniform
from pyro_unsup.infer.schedules import Cooling
from pyro_unsup.models import Clusterer, Segmenter, Tagger
from pyro_unsup.models.gibbs_tags import TagState

SENTENCES = [[0, 1, 2, 1], [3, 2], [0, 0, 3, 1, 2], [1]]
RUN: dict[str, Any] = {"sweeps": 12, "burn_in": 4, "thin": 2, "chains": 2, "seed": 3, "progress": False}


def kernel(how: Any = "pointwise", order: int = 2, **options: Any) -> CollapsedGibbs:
    return CollapsedGibbs(Tagger(3, 4, order, stop=True, prior=0.5), how=how, **{"hyper": "separate", **options})


def same(a: Any, b: Any) -> None:
    """Two results are equal, bit for bit."""
    for group in ("draws", "path", "data"):
        for name, x in getattr(a, group).items():
            np.testing.assert_array_equal(x, getattr(b, group)[name], err_msg=name)
    for name in ("best", "best_log_joint", "last", "kept"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def test_what_a_run_gives() -> None:
    samples = kernel().run(SENTENCES, **RUN)
    assert samples.labels.shape == (2, 4, 12)
    assert samples.labels.dtype == np.int8
    assert samples.alpha.shape == (2, 4)
    assert samples.beta.shape == (2, 4, 3)
    assert samples.kept.tolist() == [5, 7, 9, 11]
    assert samples.path["log_joint"].shape == (2, 12)
    np.testing.assert_array_equal(samples.labels[:, -1], samples.last)
    assert (samples.best_log_joint == samples.path["log_joint"].max(1)).all()
    assert not np.array_equal(samples.labels[0], samples.labels[1])


@pytest.mark.parametrize("how", ["pointwise", "blocked", "uncollapsed"])
def test_the_same_seed_gives_the_same_chains_in_sequence_and_in_parallel(how: Any) -> None:
    found = [kernel(how).run(SENTENCES, parallel=n, **RUN) for n in (1, 2, 2)]
    same(found[0], found[1])
    same(found[1], found[2])


def test_chains_have_the_seeds_that_follow() -> None:
    both = kernel().run(SENTENCES, **RUN)
    second = kernel().run(SENTENCES, **{**RUN, "chains": 1, "seed": 4})
    np.testing.assert_array_equal(both.labels[1:], second.labels)


@pytest.mark.parametrize("how", ["pointwise", "blocked", "uncollapsed"])
@pytest.mark.parametrize("hyper", ["fixed", "shared", "separate"])
def test_interrupted_at_any_sweep_and_resumed(how: Any, hyper: Any, tmp_path: Path) -> None:
    made = kernel(how, hyper=hyper, temperature=Cooling())
    whole = made.run(SENTENCES, **RUN)
    for at in range(1, 13, 1 if how == "pointwise" else 4):
        folder = tmp_path / str(at)

        def stop(sweep: Any, at: int = at) -> None:
            if sweep.sweep == at:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            made.run(SENTENCES, checkpoint=folder, callbacks=[stop], parallel=1, **RUN)
        same(made.run(SENTENCES, checkpoint=folder, resume=True, parallel=1 + at % 2, **RUN), whole)
        same(made.run(SENTENCES, checkpoint=folder, resume=True, **RUN), whole)  # nothing is left to be done


def test_a_resumed_chain_clears_away_what_a_killed_run_left(tmp_path: Path) -> None:
    """Even if the run had ended, and was killed between writing its last file and removing the one before."""
    made, run = kernel(), {**RUN, "chains": 1}
    whole = made.run(SENTENCES, checkpoint=tmp_path, **run)
    folder = tmp_path / "chain-0"
    (current,) = folder.glob("*.safetensors")
    (folder / f"{'0' * len(current.stem)}.safetensors").write_bytes(current.read_bytes())
    same(made.run(SENTENCES, checkpoint=tmp_path, resume=True, **run), whole)
    assert sorted(one.name for one in folder.glob("*.safetensors")) == [current.name]


def test_an_interrupt_in_the_middle_of_a_sweep_loses_only_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, run = kernel(), {**RUN, "chains": 1}
    whole = made.run(SENTENCES, **run)
    calls = []

    def step(self: Any, *args: Any) -> Any:
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt  # the labels have moved, the concentrations have not
        return real(self, *args)

    from pyro_unsup.infer.hyperparameters import Hyperparameters

    real = Hyperparameters.step
    monkeypatch.setattr(Hyperparameters, "step", step)
    with pytest.raises(KeyboardInterrupt):
        made.run(SENTENCES, checkpoint=tmp_path / "run", **run)
    same(made.run(SENTENCES, checkpoint=tmp_path / "run", resume=True, **run), whole)


def test_a_callback_may_end_a_run(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt, match="stopped by a callback"):
        kernel().run(SENTENCES, callbacks=[lambda sweep: sweep.sweep == 5], **RUN)


def test_a_resume_of_something_else_is_refused(tmp_path: Path) -> None:
    kernel().run(SENTENCES, checkpoint=tmp_path / "run", **RUN)
    again: Any = {"checkpoint": tmp_path / "run", "resume": True}
    with pytest.raises(InputError, match="holds a chain of another corpus; resume with what it was started with"):
        kernel().run([*SENTENCES, [0]], **again, **RUN)
    with pytest.raises(InputError, match="holds a chain of another model"):
        kernel(order=1).run(SENTENCES, **again, **RUN)
    with pytest.raises(InputError, match="other settings: seed was 3, now 4"):
        kernel().run(SENTENCES, **again, **{**RUN, "seed": 4})
    with pytest.raises(InputError, match="other settings: sweeps was 12, now 20"):
        kernel().run(SENTENCES, **again, **{**RUN, "sweeps": 20})
    with pytest.raises(InputError, match="holds a chain of other temperatures; resume with"):
        kernel(temperature=Cooling()).run(SENTENCES, **again, **RUN)
    with pytest.raises(InputError, match="holds a chain of another hyperprior; resume with"):
        kernel(hyperprior="log_uniform").run(SENTENCES, **again, **RUN)
    same(kernel().run(SENTENCES, **again, **RUN), kernel().run(SENTENCES, **RUN))  # and nothing was lost
    with pytest.raises(FitError, match="resume needs the checkpoint folder"):
        kernel().run(SENTENCES, resume=True, **RUN)


def test_schedules_and_priors_are_told_apart_by_what_they_say(tmp_path: Path) -> None:
    """Not by their names: functions share those, and objects have addresses in theirs."""

    class Own:
        def __init__(self, power: float) -> None:
            self.power = power

        def log_density(self, x: Any) -> Any:
            return -x * self.power

    def cool(sweep: int, sweeps: int, start: float) -> float:
        return start - sweep / sweeps

    def begun(folder: str, **options: Any) -> Any:
        kernel(**options).run(SENTENCES, checkpoint=tmp_path / folder, **RUN)
        return {"checkpoint": tmp_path / folder, "resume": True}

    again = begun("lambda", temperature=lambda sweep, sweeps: 1.0)
    kernel().run(SENTENCES, **again, **RUN)  # another way to say the same
    with pytest.raises(InputError, match="other temperatures"):
        kernel(temperature=lambda sweep, sweeps: 7.0).run(SENTENCES, **again, **RUN)
    again = begun("partial", temperature=partial(cool, start=3.0))
    kernel(temperature=partial(cool, start=3.0)).run(SENTENCES, **again, **RUN)
    with pytest.raises(InputError, match="other temperatures"):
        kernel(temperature=partial(cool, start=2.0)).run(SENTENCES, **again, **RUN)
    again = begun("prior", hyperprior=Own(1.0))
    kernel(hyperprior=Own(1.0)).run(SENTENCES, **again, **RUN)
    with pytest.raises(InputError, match="another hyperprior"):
        kernel(hyperprior=Own(1.01)).run(SENTENCES, **again, **RUN)
    again = begun("bounds", hyperprior=LogUniform(1e-6, 1e3))
    with pytest.raises(InputError, match="another hyperprior"):
        kernel(hyperprior=LogUniform(1e-6, 1.01e3)).run(SENTENCES, **again, **RUN)


def test_chains_of_an_older_run_are_not_in_the_way(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    kernel().run(SENTENCES, checkpoint=folder, **{**RUN, "chains": 3, "seed": 20})
    (folder / "chain-2" / ".samples.json.0a1b2c3d4e5f").touch()  # as a write that was cut short leaves it
    (folder / "chain-notes").mkdir()
    with pytest.raises(KeyboardInterrupt):
        kernel().run(SENTENCES, checkpoint=folder, callbacks=[lambda found: found.sweep == 5], parallel=1, **RUN)
    assert sorted(one.name for one in folder.iterdir()) == ["chain-0", "chain-notes"]
    run = {**RUN, "chains": 3}
    same(kernel().run(SENTENCES, checkpoint=folder, resume=True, **run), kernel().run(SENTENCES, **run))
    wrong = kernel(temperature=lambda sweep, sweeps: 1.0 - sweep)
    with pytest.raises(FitError, match="a temperature must be"):  # refused before anything is removed
        wrong.run(SENTENCES, checkpoint=folder, **RUN)
    same(kernel().run(SENTENCES, checkpoint=folder, resume=True, **run), kernel().run(SENTENCES, **run))
    (folder / "chain-1" / "mine.txt").touch()
    with pytest.raises(InputError, match=r"chain-1: cannot be removed: Directory not empty"):
        kernel().run(SENTENCES, checkpoint=folder, **RUN)


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    kernel().run(SENTENCES, checkpoint=tmp_path, **RUN)
    (tensors,) = (tmp_path / "chain-0").glob("*.safetensors")
    tensors.write_bytes(tensors.read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match="checksum differs"):
        kernel().run(SENTENCES, checkpoint=tmp_path, resume=True, **RUN)
    record = tmp_path / "chain-1" / "samples.json"
    record.write_text(record.read_text().replace('"sweep": 12', '"sweep": 11'))
    tensors.unlink()
    (tmp_path / "chain-0" / "samples.json").unlink()
    (tmp_path / "chain-0").rmdir()
    with pytest.raises(InputError, match="altered or cut short"):
        kernel().run(SENTENCES, checkpoint=tmp_path, resume=True, **RUN)
    (tmp_path / "other" / "chain-0").mkdir(parents=True)
    (tmp_path / "other" / "chain-0" / "mine.txt").touch()
    with pytest.raises(InputError, match="does not hold samples"):
        kernel().run(SENTENCES, checkpoint=tmp_path / "other", **RUN)


def test_annealing_cools_and_ends_near_a_mode() -> None:
    corpus = pu.data.toy.sentences(60, seed=2)
    model = Tagger(6, corpus.vocab, order=2)
    warm = CollapsedGibbs(model, 0.1, 0.1).run(corpus, sweeps=150, progress=False)
    cool = CollapsedGibbs(model, 0.1, 0.1, temperature=Cooling()).run(corpus, sweeps=150, progress=False)
    np.testing.assert_allclose(cool.path["temperature"][0, [0, -1]], [2.0, 0.08])
    assert cool.path["log_joint"][0, -1] > warm.path["log_joint"][0, -100:].mean()
    assert np.ptp(cool.path["log_joint"][0, -5:]) < np.ptp(warm.path["log_joint"][0, -5:])
    own = CollapsedGibbs(model, temperature=lambda sweep, sweeps: 1.0 + sweep / sweeps)
    assert own.run(corpus, sweeps=4, progress=False).path["temperature"][0].tolist() == [1.0, 1.25, 1.5, 1.75]


def test_errors() -> None:
    with pytest.raises(FitError, match="a temperature must be positive and finite, actual 0"):
        kernel(temperature=0)
    with pytest.raises(FitError, match="a temperature must be positive and finite, actual -1"):
        kernel(temperature=lambda sweep, sweeps: 1.0 if sweep < 3 else -1.0).run(SENTENCES, **RUN)
    for bad in (0.0, -0.5):
        with pytest.raises(FitError, match="alpha must be positive and finite"):
            kernel(alpha=bad)
        with pytest.raises(FitError, match="beta must be positive and finite"):
            kernel(beta=bad)
        with pytest.raises(FitError, match="beta must be positive and finite"):
            kernel(beta=[1.0, bad, 1.0])
    with pytest.raises(FitError, match="beta must be a number or 3, one a label, actual 2"):
        kernel(beta=[1.0, 2.0]).run(SENTENCES, **RUN)
    with pytest.raises(FitError, match="beta must be a number or 1, one a label, actual 2"):
        CollapsedGibbs(Tagger(1, 4), beta=[1.0, 2.0]).run(SENTENCES, **RUN)
    with pytest.raises(FitError, match="drawn how = 'pointwise' or 'blocked' or 'uncollapsed', actual 'parallel'"):
        kernel("parallel")
    with pytest.raises(FitError, match="hyper must be 'fixed', 'shared' or 'separate'"):
        kernel(hyper="all")
    with pytest.raises(FitError, match=r"HMM.*sample other models with pu\.BlockedGibbs"):
        CollapsedGibbs(pu.models.HMM(2))
    with pytest.raises(FitError, match="needs a model that can integrate its tables out"):
        CollapsedGibbs(lambda x: x).run(SENTENCES, **RUN)
    with pytest.raises(FitError, match="burn_in below that"):
        kernel().run(SENTENCES, sweeps=5, burn_in=5)
    mask = torch.ones(3, 4, dtype=torch.bool)
    mask[:, 2] = False
    with pytest.raises(StructureError, match="word 2 has no allowed tag"):
        Tagger(3, 4, dictionary=mask)
    mask[0, 2] = True
    made = CollapsedGibbs(Tagger(3, 4, dictionary=mask))
    with pytest.raises(StructureError, match="tag 1 of token 2 is not one that its word may have"):
        made.run(SENTENCES, initial=np.ones(12, int), **RUN)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"alpha": "a"}, "alpha must be a number, actual 'a'"),
        ({"alpha": [1, 2, 3]}, r"alpha must be a number, actual \[1, 2, 3\]"),
        ({"beta": [[1, 2, 3]]}, "beta must be a number, or one a label, actual"),
        ({"beta": [1, [2, 3]]}, "beta must be a number, or one a label, actual"),
        ({"alpha": 1e-61}, r"alpha must be positive and finite, between 1e-60 and 1e\+60, actual \[1.e-61\]"),
        ({"alpha": 1e200}, r"alpha must be positive and finite, between 1e-60 and 1e\+60, actual \[1.e\+200\]"),
        ({"temperature": "hot"}, "a temperature must be positive and finite, actual hot"),
        ({"temperature": lambda sweep, sweeps: None}, "a temperature must be positive and finite, actual None"),
        ({"width": "wide"}, "width must be positive and finite, actual wide"),
        ({"hyper_steps": 1.5}, "hyper_steps must be a whole number, 1 or more, actual 1.5"),
        ({"hyper_steps": 0}, "hyper_steps must be a whole number, 1 or more, actual 0"),
        ({"hyperprior": 3}, r"a hyperprior is one of 'gamma', 'log_uniform', 'flat' or has log_density\(x\), actual 3"),
    ],
)
def test_what_is_no_number(options: dict[str, Any], what: str) -> None:
    with pytest.raises(FitError, match=what):
        kernel(**options)


def test_more_that_is_refused() -> None:
    for run in ({"sweeps": 2.5}, {"sweeps": 5, "thin": 1.0}, {"sweeps": 5, "burn_in": "1"}):
        with pytest.raises(FitError, match="all whole numbers"):
            kernel().run(SENTENCES, **run)
    for run in ({"chains": 1.5}, {"chains": 0}, {"seed": -1}, {"seed": "0"}):
        with pytest.raises(FitError, match="one chain or more and a seed that is a whole number"):
            kernel().run(SENTENCES, **run)
    with pytest.raises(FitError, match=r"mcmc.run takes the data and nothing else .* actual 2 arguments"):
        MCMC(kernel(), 5, 5, disable_progbar=True).run(torch.tensor([0, 1]), torch.tensor([2]))
    with pytest.raises(FitError, match="the labels of a Clusterer are drawn how = 'pointwise', actual 'blocked'"):
        CollapsedGibbs(Clusterer(2, 4), how="blocked")
    with pytest.raises(FitError, match="of a Segmenter are drawn how = 'pointwise' or 'blocked', actual 'uncollapsed'"):
        CollapsedGibbs(Segmenter.of(SENTENCES, vocab=4), how="uncollapsed")


def test_a_start_that_the_prior_holds_impossible() -> None:
    far = kernel(alpha=1e-8, hyper="shared", hyperprior="log_uniform")
    with pytest.raises(FitError, match=r"alpha = 1e-08 and beta = \[0.5\] have no density under LogUniform"):
        far.run(SENTENCES, **RUN)
    kernel(alpha=1e-8, hyper="fixed", hyperprior="log_uniform").run(SENTENCES, **RUN)  # no prior, no harm


def test_the_warning_of_a_flat_prior_points_to_its_user() -> None:
    with pytest.warns(UserWarning, match="improper") as told:
        kernel(hyperprior="flat")
    assert told[0].filename == __file__


def test_a_sampler_that_accepts_nothing_says_so() -> None:
    cold = kernel("blocked", temperature=1e-4)
    with pytest.warns(UserWarning, match=r"temperature 0.0001: no proposal of the last 10 sweeps.*how='pointwise'"):
        cold.run(SENTENCES, **{**RUN, "chains": 1})


class Refusing:
    """Labels of which every proposal is refused, and that cannot be drawn one by one."""

    ways, labels = ("blocked",), np.zeros(2, np.int32)

    def draw_start(self, rng: Any) -> None: ...

    def sweep(self, *told: Any) -> float:
        return 0.0


class Known:
    alpha = beta = np.ones(1)

    def log_joint(self, state: Any) -> float:
        return -1.0

    def step(self, state: Any, rng: Any) -> tuple[dict[str, float], float]:
        return {}, -1.0


def test_refused_proposals_are_no_sign_of_anything_unless_it_is_cold() -> None:
    """Trees of small data are refused for ten sweeps by chance, and they have no other way to move."""
    from pyro_unsup.infer.gibbs_chain import GibbsChain

    state: Any = Refusing()
    warm, cold = (GibbsChain(state, Known(), "blocked", at, 20, 0) for at in (1.0, 0.1))  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(20):
            warm.step()
    for _ in range(9):
        cold.step()
    with pytest.warns(UserWarning, match="Take a higher one, or stop cooling earlier$"):
        cold.step()


def test_huge_and_tiny_concentrations() -> None:
    for alpha, beta in itertools.product((1e-59, 1e59), repeat=2):
        for how in ("pointwise", "blocked", "uncollapsed"):
            found = kernel(how, alpha=alpha, beta=beta, hyper="fixed").run(SENTENCES, **RUN)
            assert np.isfinite(found.path["log_joint"]).all()


def test_start_from_given_labels() -> None:
    start = np.array([0, 1, 2, 1, 0, 2, 0, 0, 0, 1, 2, 1])  # one tag a word, or nearly so: cold, it stays like that
    cold = kernel(alpha=0.1, beta=1e-6, hyper="fixed", temperature=1e-3, order=1)
    found = cold.run(SENTENCES, initial=start, **RUN)
    assert (found.labels == start).all()


def test_under_pyros_mcmc() -> None:
    alone = kernel().run(SENTENCES, sweeps=30, burn_in=10, chains=2, seed=5, progress=False)
    made = kernel()
    with pytest.warns(UserWarning, match="drawn sequentially") if torch.multiprocessing.cpu_count() < 3 else _quiet():
        mcmc = MCMC(made, 20, 10, num_chains=2, disable_progbar=True, initial_params=made.seeds(5, chains=2))
    mcmc.run(SENTENCES)
    found = mcmc.get_samples(group_by_chain=True)
    np.testing.assert_array_equal(found["alpha"], alone.alpha)
    np.testing.assert_array_equal(found["beta"], alone.beta)
    np.testing.assert_array_equal(found["log_joint"], alone.log_joint)
    told = mcmc.diagnostics()
    labels = torch.stack([told["labels"][f"chain {i}"] for i in range(2)])
    np.testing.assert_array_equal(labels, alone.labels)
    assert not labels.is_floating_point()
    assert 0 < told["acceptance rate"]["chain 0"]["alpha"] <= 1
    mcmc.summary()


def test_draws_are_of_double_precision_whatever_the_default() -> None:
    alone = kernel().run(SENTENCES, sweeps=8, burn_in=4, seed=5, progress=False)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float32)
        made = kernel()
        mcmc = MCMC(made, 4, 4, disable_progbar=True, initial_params=made.seeds(5))
        mcmc.run(SENTENCES)
    finally:
        torch.set_default_dtype(before)
    for name, x in mcmc.get_samples(group_by_chain=True).items():
        assert x.dtype == torch.float64, name
    np.testing.assert_array_equal(mcmc.get_samples(group_by_chain=True)["log_joint"], alone.log_joint)


def test_chains_in_processes_of_pyros_mcmc(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = kernel().run(SENTENCES, sweeps=8, burn_in=4, chains=2, seed=5, progress=False)
    monkeypatch.setattr("torch.multiprocessing.cpu_count", lambda: 3)
    made = kernel()
    mcmc = MCMC(
        made, 4, 4, num_chains=2, disable_progbar=True, mp_context="fork", initial_params=made.seeds(5, chains=2)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python on forking with threads around
        mcmc.run(SENTENCES)
    np.testing.assert_array_equal(mcmc.get_samples(group_by_chain=True)["log_joint"], alone.log_joint)
    told = mcmc.diagnostics()["labels"]
    np.testing.assert_array_equal(torch.stack([told["chain 0"], told["chain 1"]]), alone.labels)


def test_without_seeds_pyros_own_seed_rules() -> None:
    found = []
    for _ in range(2):
        pyro.set_rng_seed(11)
        mcmc = MCMC(kernel(), 5, 5, disable_progbar=True)
        mcmc.run(SENTENCES)
        found.append(mcmc.get_samples()["log_joint"])
    np.testing.assert_array_equal(*found)


def test_streaming_mcmc() -> None:
    made = kernel(keep_labels=False)
    mcmc = StreamingMCMC(made, 20, 10, num_chains=2, disable_progbar=True, initial_params=made.seeds(5, chains=2))
    mcmc.run(SENTENCES)
    alone = kernel().run(SENTENCES, sweeps=30, burn_in=10, chains=2, seed=5, progress=False)
    for i in range(2):
        found = mcmc.get_statistics()[i, "log_joint"]
        assert found["count"] == 20
        assert float(found["mean"]) == pytest.approx(alone.log_joint[i].mean())
    with pytest.raises(FitError, match=r"initial_params should be kernel\.seeds"):
        made.initial_params = {"alpha": torch.ones(1)}


def test_clusters_of_documents() -> None:
    documents = [[0, 1, 0, 0], [0, 0, 1], [2, 3, 3], [3, 2, 2, 3, 1], [0, 1]]
    made = CollapsedGibbs(Clusterer(2, 4, prior=0.3), hyper="shared")
    samples = made.run(documents, sweeps=300, burn_in=100, chains=2, progress=False)
    assert samples.labels.shape == (2, 200, 5)
    assert samples.co_clustering(0, 1) > 0.7 > 0.3 > samples.co_clustering(0, 3)


def _quiet() -> Any:
    from contextlib import nullcontext

    return nullcontext()


@pytest.mark.parametrize("hyper", ["fixed", "shared", "separate"])
def test_the_log_joint_is_that_of_labels_and_concentrations(hyper: Any) -> None:
    samples = kernel(hyper=hyper).run(SENTENCES, **RUN)
    state = TagState(samples.model, SENTENCES)
    for chain in range(2):
        for draw in range(4):
            state.labels = samples.labels[chain, draw]
            alpha, beta = samples.draws["alpha"][chain, draw], samples.draws["beta"][chain, draw]
            learned = {"fixed": [], "shared": [alpha[0], beta[0]], "separate": [alpha[0], *beta]}[hyper]
            wanted = state.log_choices(alpha) + state.log_emissions(beta).sum() - sum(learned)  # of Gamma(1, 1)
            assert samples.log_joint[chain, draw] == pytest.approx(wanted, abs=1e-10)

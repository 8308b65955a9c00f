"""The examples run as they stand, and their EM is the EM of a brute-force sum over all hidden configurations.

The oracle knows nothing of Pyro, gradients or dynamic programming. For each independent piece of data it lists every
hidden configuration, takes the log joint probability of each, and updates every parameter by its textbook formula.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import pyro_unsup as pu

Array = NDArray[np.float64]
Params = dict[str, Array]

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

#: Closed form on both sides: rounding only.
EXACT = {"objective": 1e-10, "params": 1e-9}
#: Parameters by L-BFGS, against their formulas. L-BFGS compares losses, which tells parameters apart down to
#: about the square root of rounding: they end some 1e-8 from the formulas, and objectives on the way some 1e-9.
LBFGS = {"objective": 1e-8, "params": 1e-6}


@cache
def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def brute_force_em(
    joint: Callable[[Params], list[Array]],
    update: Callable[[list[Array]], Params],
    params: Params,
    iterations: int,
    log_prior: Callable[[Params], float] = lambda params: 0.0,
) -> tuple[list[float], Params]:
    """EM from the definition.

    :param joint: log p(data, configuration) of every configuration of every piece of data.
    :param update: parameters from the posterior probability of every configuration.
    :return: the objective at the start and after every update, and the last parameters.
    """
    objectives = []
    for i in range(iterations + 1):
        logs = joint(params)
        log_marginals = [float(np.logaddexp.reduce(row)) for row in logs]
        objectives.append(sum(log_marginals) + log_prior(params))
        if i < iterations:
            params = update([np.exp(row - total) for row, total in zip(logs, log_marginals, strict=True)])
    return objectives, params


def library_em(engine: pu.EM, args: tuple[Any, ...], iterations: int) -> tuple[Params, tuple[list[float], Params]]:
    """Where the library starts; its objectives, and where it ends."""
    first = engine.run(*args, iterations=0, progress=False)
    start = {name: w.exp().numpy() for name, w in first.weights.items()}
    start |= {name: value.numpy() for name, value in first.params.items()}
    fit = engine.run(*args, iterations=iterations, tolerance=0.0, progress=False)
    end = {name: w.exp().numpy() for name, w in fit.weights.items()}
    end |= {name: value.numpy() for name, value in fit.params.items()}
    return start, ([row["objective"] for row in fit.rows], end)


def assert_same(ours: tuple[list[float], Params], oracle: tuple[list[float], Params], within: dict[str, float]) -> None:
    np.testing.assert_allclose(ours[0], oracle[0], rtol=within["objective"])
    assert ours[1].keys() == oracle[1].keys()
    for name in ours[1]:
        np.testing.assert_allclose(ours[1][name], oracle[1][name], rtol=0, atol=within["params"], err_msg=name)
    assert oracle[0][-1] > oracle[0][0] + 0.1  # a start that is already the end would show nothing


def normal(x: Array, mean: Array, scale: Array) -> Array:
    return np.asarray(-0.5 * ((x - mean) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi))


def chain_log_prob(paths: NDArray[np.int64], start: Array, transition: Array) -> Array:  # (paths, T) -> (paths,)
    return np.asarray(np.log(start)[paths[:, 0]] + np.log(transition)[paths[:, :-1], paths[:, 1:]].sum(-1))


def count_chain(paths: NDArray[np.int64], posterior: Array, start: Array, transition: Array) -> None:
    np.add.at(start, paths[:, 0], posterior)
    for t in range(1, paths.shape[1]):
        np.add.at(transition, (paths[:, t - 1], paths[:, t]), posterior)


def rows(counts: Array) -> Array:
    return np.asarray(counts / counts.sum(-1, keepdims=True))


# -- Gaussian HMM


def small_hmm() -> tuple[torch.Tensor, torch.Tensor, int]:
    x, lengths, _ = example("gaussian_hmm").draw(sequences=20, longest=5)
    lengths[0] = 1
    x[~example("gaussian_hmm").real(x, lengths)] = 1e3  # padding that would be noticed
    return x, lengths, 3


@pytest.mark.parametrize("name", ["enumerated_model", "chain_model"])
def test_gaussian_hmm_is_brute_force_em(name: str) -> None:
    x, lengths, K = args = small_hmm()
    data = [row[:n] for row, n in zip(x.numpy(), lengths.tolist(), strict=True)]
    paths = [np.array(list(itertools.product(range(K), repeat=len(row)))) for row in data]

    def joint(p: Params) -> list[Array]:
        return [
            chain_log_prob(z, p["start"], p["transition"]) + normal(row, p["mean"][z], p["scale"][z]).sum(-1)
            for row, z in zip(data, paths, strict=True)
        ]

    def update(posteriors: list[Array]) -> Params:
        start, transition = np.zeros(K), np.zeros((K, K))
        weight, first, second = np.zeros(K), np.zeros(K), np.zeros(K)  # posterior mass, sum of x, sum of x squared
        for row, z, posterior in zip(data, paths, posteriors, strict=True):
            count_chain(z, posterior, start, transition)
            for t, value in enumerate(row):
                here = np.bincount(z[:, t], posterior, K)
                weight, first, second = weight + here, first + here * value, second + here * value**2
        mean = first / weight
        scale = np.sqrt(second / weight - mean**2)
        return {"start": rows(start), "transition": rows(transition), "mean": mean, "scale": scale}

    begin, ours = library_em(pu.EM(getattr(example("gaussian_hmm"), name)), args, iterations=8)
    assert_same(ours, brute_force_em(joint, update, begin, iterations=8), EXACT)


def test_gaussian_hmm_written_twice_is_one_model() -> None:
    hmm, args = example("gaussian_hmm"), small_hmm()
    fits = {}
    for name in ("enumerated_model", "chain_model"):
        engine = pu.EM(getattr(hmm, name), init=pu.init.noise(3.0))
        fits[name] = engine.run(*args, iterations=0, seed=1, progress=False)
    slow, fast = fits["enumerated_model"], fits["chain_model"]
    assert slow.objective == pytest.approx(fast.objective, rel=1e-12)
    decoded = torch.stack(list(slow.predict(*args).values()), -1)  # (B, T)
    here = hmm.real(*args[:2])
    assert torch.equal(decoded[here], fast.predict(*args)[here])


# -- mixture of products


@pytest.mark.parametrize("amount", [0.0, 0.5])
def test_mixture_of_products_is_brute_force_em(amount: float) -> None:
    mixture, K = example("mixture_of_products"), 3
    answers, _ = mixture.draw(people=50)
    sizes, people = mixture.SIZES, answers.numpy()
    allowed = np.arange(max(sizes)) < np.array(sizes)[:, None]  # (Q, V)

    def joint(p: Params) -> list[Array]:
        logs = []
        for person in people:
            row = np.log(p["share"])
            for q, answer in enumerate(person):
                row = row + (np.log(p["answers"][:, q, answer]) if answer >= 0 else 0.0)
            logs.append(row)
        return logs

    def update(posteriors: list[Array]) -> Params:
        share, table = np.full(K, amount), np.zeros((K, *allowed.shape)) + amount * allowed
        for person, posterior in zip(people, posteriors, strict=True):
            share += posterior
            for q, answer in enumerate(person):
                if answer >= 0:
                    table[:, q, answer] += posterior
        return {"share": rows(share), "answers": rows(table)}

    def log_prior(p: Params) -> float:
        return float(amount * (np.log(p["share"]).sum() + np.log(p["answers"][:, allowed]).sum())) if amount else 0.0

    engine = pu.EM(mixture.model, estimate=pu.AddLambda(amount) if amount else None)
    begin, ours = library_em(engine, (answers, sizes, K), iterations=20)
    assert_same(ours, brute_force_em(joint, update, begin, 20, log_prior), EXACT)
    assert (ours[1]["answers"][:, ~allowed] == 0).all()


# -- factorial HMM


def test_factorial_hmm_is_brute_force_em() -> None:
    factorial = example("factorial_hmm")
    readings, _ = factorial.draw(days=20, steps=4)
    days, steps = readings.shape
    names = ("heater", "kettle")
    # Every joint path: (256, T) for each appliance.
    pairs = np.array(list(itertools.product(itertools.product((0, 1), repeat=2), repeat=steps)))
    paths = dict(zip(names, np.moveaxis(pairs, -1, 0), strict=True))

    def joint(p: Params) -> list[Array]:
        prior = sum(chain_log_prob(paths[name], p[f"{name} start"], p[f"{name} transition"]) for name in names)
        mean = p["base"] + p["heater"] * paths["heater"] + p["kettle"] * paths["kettle"]
        return [prior + normal(day, mean, p["noise"]).sum(-1) for day in readings.numpy()]

    def update(posteriors: list[Array]) -> Params:
        new: Params = {}
        for name in names:
            start, transition = np.zeros(2), np.zeros((2, 2))
            count_chain(paths[name], sum(posteriors), start, transition)  # type: ignore[arg-type]
            new |= {f"{name} start": rows(start), f"{name} transition": rows(transition)}
        # The meter: least squares of every reading on (1, heater, kettle) in every path, weighted by the posterior.
        design = np.stack([np.ones_like(paths["heater"]), paths["heater"], paths["kettle"]], -1)  # (paths, T, 3)
        weight = np.stack(posteriors)[..., None]  # (B, paths, 1)
        x = readings.numpy()[:, None, :]  # (B, 1, T)
        square = np.einsum("bp,pti,ptj->ij", weight[..., 0], design, design)
        fitted = np.linalg.solve(square, np.einsum("bpt,pti->i", weight * x, design))
        residual = x - design @ fitted
        new |= dict(zip(("base", *names), fitted, strict=True))
        new["noise"] = np.sqrt((weight * residual**2).sum() / (days * steps))
        return new

    begin, ours = library_em(pu.EM(factorial.model), (readings,), iterations=8)
    assert_same(ours, brute_force_em(joint, update, begin, iterations=8), LBFGS)


# -- the scripts themselves


@pytest.mark.parametrize(("name", "least"), [("gaussian_hmm", 95), ("mixture_of_products", 85), ("factorial_hmm", 90)])
def test_example_runs_as_it_stands(name: str, least: int, capsys: pytest.CaptureFixture[str]) -> None:
    torch.set_default_dtype(torch.float32)  # what a user has
    example(name).main()
    found = re.findall(r"(\d+)% of (?:the|its) (?:states|people) (?:found|are in)", capsys.readouterr().out)
    assert found
    assert min(map(int, found)) >= least

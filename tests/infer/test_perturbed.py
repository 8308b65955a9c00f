"""Noise on what estimators remember, without which annealing stays where all states are alike."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.estimate.normal.logistic_normal_updates import Posterior
from pyro_unsup.estimate.variational import concentration_of
from pyro_unsup.models import Tagger
from pyro_unsup.tables import Declaration, Layout

DATA = [[0, 1, 0, 1, 0], [1, 0, 1], [0, 1, 0, 2], [2, 0, 1, 0]] * 50
ESTIMATES = [
    pu.LogisticNormal("uniform", variance=10.0),
    pu.LogisticNormal("uniform", "full", variance=10.0),
    pu.EmpiricalDirichlet(start=0.1),
    pu.EmpiricalDirichlet("outcome", start=0.1),
]
every = pytest.mark.parametrize("how", ESTIMATES, ids=repr)


def annealed(how: Any, jitter: float) -> pu.Fit:
    """One step at each beta but the last: a prior that is learned soon takes rows that are alike for a law."""
    engine = pu.Anneal(Tagger(2, 3), how, pu.init.uniform(), schedule=[0.8, 1.0], jitter=jitter, steps=1)
    return engine.run(DATA, iterations=60, tolerance=1e-6, progress=False)


@every
def test_annealing_leaves_the_point_where_all_states_are_alike(how: Any) -> None:
    still, away = annealed(how, 0.0), annealed(how, 3.0)
    emission = still.weights["emission"].exp()
    torch.testing.assert_close(emission[0], emission[1])
    emission = away.weights["emission"].exp()
    assert float((emission[0] - emission[1]).abs().max()) > 0.9
    assert away.objective > still.objective + 100
    for before, after in itertools.pairwise(away.rows):
        if before["stage"] == after["stage"]:
            assert after["objective"] >= before["objective"] - 1e-9 * abs(before["objective"])


TABLES = {
    "dense": Declaration("dense", Layout.dense(3, 4), torch.tensor(0.5)),
    "some": Declaration("some", Layout.dense(2, 3, support=torch.tensor([[1, 1, 0], [0, 1, 0]])), torch.tensor(1.0)),
    "ragged": Declaration("ragged", Layout.ragged([2, 1, 4]), torch.tensor(2.0)),
}


def remembered(how: Any) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    counts = {
        name: 4 * torch.rand(d.layout.shape, generator=generator) * d.layout.allowed() for name, d in TABLES.items()
    }
    start = how.begin(TABLES, {name: d.layout.uniform() for name, d in TABLES.items()}, generator)
    found: dict[str, torch.Tensor] = how.update(TABLES, counts, start)
    return found


def perturbed(how: Any, memory: dict[str, torch.Tensor], jitter: float, seed: int = 0) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = how.perturbed(TABLES, memory, jitter, torch.Generator().manual_seed(seed))
    return found


@pytest.mark.parametrize("how", [pu.LogisticNormal(), pu.EmpiricalDirichlet()], ids=repr)
def test_noise_is_in_proportion_and_of_a_seed(how: Any) -> None:
    memory = remembered(how)
    before = {key: x.clone() for key, x in memory.items()}
    for jitter in (0.0, 0.01, 0.5):
        new = how.tables(TABLES, perturbed(how, memory, jitter))
        for name, w in how.tables(TABLES, memory).items():
            allowed = TABLES[name].layout.allowed()
            change = (new[name] - w)[allowed].abs()
            assert float(change.max()) <= 3 * jitter + 1e-9
            assert (float(change.max()) > 0.1 * jitter) or not jitter
            assert (new[name][~allowed] == -torch.inf).all()
    assert all(torch.equal(x, memory[key]) for key, x in before.items())
    again = [perturbed(how, memory, 0.1, seed) for seed in (1, 1, 2)]
    assert all(torch.equal(again[0][key], again[1][key]) for key in memory)
    assert how.log_prior(again[0]) != how.log_prior(again[2])


def test_the_log_prior_goes_with_the_noise() -> None:
    """Minus the divergence from the prior, as torch has it."""
    normal = pu.LogisticNormal("uniform", variance=2.0)
    new = perturbed(normal, remembered(normal), 0.5)
    for name in TABLES:
        q = Posterior(new[f"{name}.mean"].numpy(), new[f"{name}.variance"].numpy())
        own = torch.distributions.Normal(torch.from_numpy(q.mean), torch.from_numpy(q.variance).sqrt())
        prior = torch.distributions.Normal(new[f"{name}.prior_mean"], 2**0.5)
        cost = torch.distributions.kl_divergence(own, prior).sum()
        torch.testing.assert_close(new[f"{name}.log_prior"], -cost)
    learned = pu.EmpiricalDirichlet()
    new = perturbed(learned, remembered(learned), 0.5)
    layout = TABLES["dense"].layout
    posterior = concentration_of(layout, new["dense.weights"])
    assert posterior is not None
    flat = torch.distributions.Dirichlet(new["dense.concentration"].expand(3, 4))
    cost = torch.distributions.kl_divergence(torch.distributions.Dirichlet(posterior), flat).sum()
    torch.testing.assert_close(new["dense.log_prior"], -cost)


def test_points_stay_points() -> None:
    how = pu.EmpiricalDirichlet()
    begun = how.begin(TABLES, {name: d.layout.uniform() for name, d in TABLES.items()}, torch.Generator())
    new = perturbed(how, begun, 0.5)
    assert how.log_prior(new) == -torch.inf
    for name, w in how.tables(TABLES, new).items():
        sums = TABLES[name].layout.row_logsumexp(w)
        torch.testing.assert_close(sums, torch.zeros_like(sums))
    assert not torch.equal(new["dense.weights"], begun["dense.weights"])

"""The example of partial pooling: its likelihood by hand, and what pooling does under NUTS and SVI."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine

import pyro_unsup as pu
from pyro_unsup.workflow.densities import Densities

from .test_examples import example


def test_every_series_has_the_transitions_of_its_group() -> None:
    """The likelihood is the sum over all paths of states."""
    pooled = example("pooled_hmm")
    x = torch.tensor([[-1.0, 2.0, 1.5], [0.3, -2.0, 9.0], [2.0, 2.5, -1.0]])
    lengths, group = torch.tensor([3, 2, 3]), torch.tensor([0, 1, 1])
    trace = poutine.trace(pooled.model).get_trace(x, lengths, group)
    trace.compute_log_prob()
    loc, transition = trace.nodes["loc"]["value"], trace.nodes["transition"]["value"]
    for b, found in enumerate(trace.nodes["x"]["log_prob"].tolist()):
        paths = []
        for z in itertools.product(range(2), repeat=int(lengths[b])):
            total = math.log(0.5) + sum(float(dist.Normal(loc[k], 1.0).log_prob(x[b, t])) for t, k in enumerate(z))
            total += sum(float(transition[group[b], i, j].log()) for i, j in itertools.pairwise(z))
            paths.append(total)
        assert found == pytest.approx(float(torch.tensor(paths).logsumexp(0)), rel=1e-9)
    density = Densities(pooled.model, (x, lengths, group))
    draws = density.prior(4)
    one = torch.stack([density._run(draw)[1].sum() for draw in density._each(draws)])
    torch.testing.assert_close(density.log_likelihood(draws), one)


@pytest.mark.deep
def test_little_data_borrow_from_other_groups_and_both_engines_agree() -> None:
    pooled = example("pooled_hmm")
    pyro.set_rng_seed(0)
    x, lengths, group, _ = pooled.draw()
    data = (x, lengths, group)
    nuts = pooled.by_nuts(data, draws=250, warmup=100)
    guide = pooled.by_svi(data, steps=800)
    found = pu.importance(guide, *data, model=pooled.model, draws=400, progress=False)
    stays = nuts["transition"].mean((0, 1))[:, 0, 0]
    torch.testing.assert_close(stays, found.mean("transition")[:, 0, 0], atol=0.06, rtol=0)
    assert (nuts["strength"].mean() - found.mean("strength")).abs() < 0.5 * nuts["strength"].std()

    def alone(own: Any) -> Any:  # the transitions of a group without the others
        return pooled.by_nuts((x[own], lengths[own], torch.zeros(int(own.sum()), dtype=torch.long)), 250, 100)

    little, much = alone(group == 3), alone(group == 0)
    spread = nuts["transition"].std((0, 1))[:, 0, 0]
    assert spread[3] < 0.75 * little["transition"].std((0, 1))[0, 0, 0]
    assert spread[0] > 0.6 * much["transition"].std((0, 1))[0, 0, 0]

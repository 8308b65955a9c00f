"""The clusterer written twice, as an enumerated Pyro program and as a structured distribution, is one model."""

from __future__ import annotations

import re

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.models import Clusterer

from .test_examples import example

DOCUMENTS = [[0, 1, 0, 0], [0, 0, 1, 4], [2], [3, 2, 2, 3, 1], [4, 4, 3], [0, 3, 1, 1, 1, 2]]
K, V = 3, 5


@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("estimate", [pu.Normalise(), pu.AddLambda(0.1)])
def test_the_same_steps_of_em(estimate: pu.estimate.Estimator, beta: float) -> None:
    twin, fast = pu.temper(example("clusterer_enumerated").model, beta), pu.temper(Clusterer(K, V), beta)
    padded = example("clusterer_enumerated").pad(DOCUMENTS)
    settings = {"iterations": 15, "tolerance": 0.0, "seed": 4, "progress": False}
    slow = pu.EM(twin, estimate, init=pu.init.noise(1.0)).run(padded, K, V, **settings)
    quick = pu.EM(fast, estimate, init=pu.init.noise(1.0)).run(DOCUMENTS, **settings)
    ours, theirs = ([row["objective"] for row in fit.rows] for fit in (quick, slow))
    assert ours == pytest.approx(theirs, rel=1e-12)
    assert ours[-1] > ours[0] + 0.5
    for name in ("cluster", "words"):
        torch.testing.assert_close(quick.weights[name].exp(), slow.weights[name].exp(), rtol=0, atol=1e-12)


def test_the_same_clusters() -> None:
    padded = example("clusterer_enumerated").pad(DOCUMENTS)
    fit = pu.EM(Clusterer(K, V)).run(DOCUMENTS, iterations=5, progress=False)
    start = pu.init.from_weights(fit)
    twin = pu.EM(example("clusterer_enumerated").model, init=start).run(padded, K, V, iterations=0, progress=False)
    assert torch.equal(twin.predict(padded, K, V)["topic"], fit.posterior(DOCUMENTS).mode())


def test_the_example_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    torch.set_default_dtype(torch.float32)  # what a user has
    example("clusterer_enumerated").main()
    (share,) = re.findall(r"(\d+)% of the documents are in the cluster", capsys.readouterr().out)
    assert int(share) >= 90

"""Pictures of series: what is drawn is what the posterior says."""

from __future__ import annotations

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgba

import pyro_unsup as pu
from pyro_unsup.distributions import ChainPosterior
from pyro_unsup.plot.series import colour


@pytest.fixture(scope="module")
def posterior() -> ChainPosterior:
    x = torch.tensor([1.0, 2.0, 1.0, 9.0, 8.0, 9.0, 1.0, 2.0])
    found = pu.EM(pu.models.HMM(2, "poisson")).run(x, progress=False).posterior(x)
    assert isinstance(found, ChainPosterior)
    return found


def test_points_have_the_colour_of_their_state(posterior: ChainPosterior) -> None:
    ax = pu.plot.series_by_state(posterior, time=np.arange(1900, 1908))
    states = posterior.mode()
    for k, cloud in enumerate(ax.collections):
        assert tuple(cloud.get_facecolor()[0]) == to_rgba(colour(k))
        assert cloud.get_offsets()[:, 0].tolist() == (1900 + (states == k).nonzero()[:, 0]).tolist()


@pytest.mark.parametrize("which", ["smoothed", "filtered", "predicted"])
def test_probabilities_are_stacked(posterior: ChainPosterior, which: str) -> None:
    ax = pu.plot.state_probabilities(posterior, which=which)
    lower = ax.collections[0].get_paths()[0].vertices
    assert lower[:, 1].max() == pytest.approx(float(getattr(posterior, which)[:, 0].max()))


def test_the_fan_holds_the_quantiles(posterior: ChainPosterior) -> None:
    forecast = posterior.forecast(3)
    ax = pu.plot.forecast_fan(posterior, forecast)
    widest = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert widest.max() == float(forecast.quantile(0.975).max())
    assert widest.min() == float(forecast.quantile(0.025).min())


def test_residuals_and_graph(posterior: ChainPosterior) -> None:
    points = pu.plot.residual_plot(posterior).lines[1].get_ydata()
    np.testing.assert_allclose(points, np.sort(posterior.residuals().numpy()))
    ax = pu.plot.transition_graph(torch.tensor([[0.7, 0.3], [0.0, 1.0]]).log(), labels=["up", "down"])
    assert {"up", "down", "0.70", "0.30", "1.00"} == {text.get_text() for text in ax.texts}


def test_refusals(posterior: ChainPosterior) -> None:
    with pytest.raises(pu.UnsupError, match="there are 1 series, numbered from 0; actual number 4"):
        pu.plot.series_by_state(posterior, series=4)
    with pytest.raises(pu.UnsupError, match="which must be smoothed, filtered or predicted"):
        pu.plot.state_probabilities(posterior, which="best")
    words = pu.Chain(torch.zeros(2), torch.zeros(2, 2), torch.zeros(2, 3), 3).posterior(torch.tensor([0, 1, 2]))
    with pytest.raises(pu.UnsupError, match="emits words by a table"):
        pu.plot.series_by_state(words)

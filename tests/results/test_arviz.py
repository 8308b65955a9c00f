"""Fits in ArviZ, of either generation."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from pyro_unsup.results.arviz import from_groups

from .cases import anonymous, latent, own, with_dictionary


def test_the_learned_probabilities_are_one_draw_of_one_chain() -> None:
    fit = anonymous(order=2, stop=True)
    found = fit.to_arviz()
    assert found.groups() == ["posterior", "sample_stats"]
    assert dict(found.posterior.sizes)["chain"] == dict(found.posterior.sizes)["draw"] == 1
    assert set(found.posterior.data_vars) == {"start", "transition", "second", "emission"}
    for name, w in fit.weights.items():
        assert found.posterior[name].shape == (1, 1, *w.shape)
        np.testing.assert_array_equal(found.posterior[name].values[0, 0], w.exp().numpy())
    np.testing.assert_allclose(found.posterior["transition"].sum("transition_dim_2"), 1)


def test_the_history_is_beside_them() -> None:
    fit = anonymous()
    stats = fit.to_arviz().sample_stats
    assert set(stats.data_vars) == {"objective", "total_log_likelihood", "change"}
    for key in stats.data_vars:
        assert stats[key].shape == (1, 4)
        assert stats[key].values[0].tolist() == [row[key.removeprefix("total_")] for row in fit.rows]


def test_structural_zeros_are_zeros() -> None:
    fit = with_dictionary()
    mask = fit.model.declarations()["emission"].layout.support  # type: ignore[attr-defined]
    emission = fit.to_arviz().posterior["emission"].values[0, 0]
    assert (emission[~mask.numpy()] == 0).all()
    assert not np.isnan(emission).any()


def test_points_and_parameters_are_there_as_they_are() -> None:
    for model in (None, latent):
        fit = own(model) if model else own()
        found = fit.to_arviz().posterior
        for name in ("mean", "scale"):
            np.testing.assert_array_equal(found[name].values[0, 0], {**fit.points, **fit.params}[name].numpy())


def test_float32_stays_float32() -> None:
    assert anonymous(dtype=torch.float32).to_arviz().posterior["emission"].dtype == np.float32


class Later(ModuleType):
    """ArviZ 1.x as far as it matters: one nested dict, and keyword arguments of its own."""

    @staticmethod
    def from_dict(
        data: dict[str, dict[str, Any]],
        *,
        name: str | None = None,
        sample_dims: Any = None,
        save_warmup: bool | None = None,
        coords: Any = None,
        dims: Any = None,
    ) -> Any:
        return "tree", data, {"coords": coords, "dims": dims}


def test_the_next_generation_takes_one_nested_dict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "arviz", Later("arviz"))
    fit = anonymous()
    kind, groups, _ = fit.to_arviz()
    assert kind == "tree"
    assert list(groups) == ["posterior", "sample_stats"]
    assert groups["posterior"]["start"].shape == (1, 1, 4)
    assert groups["sample_stats"]["objective"].shape == (1, 4)
    options = {"dims": {"x": ["state"]}, "coords": {"state": ["a"]}}
    _, groups, got = from_groups({"posterior": {"x": np.zeros((1, 1, 1))}}, **options)
    assert list(groups) == ["posterior"]
    assert got == options


def test_dims_and_coords_are_handed_on() -> None:
    found = from_groups({"posterior": {"x": np.zeros((2, 5, 2))}}, dims={"x": ["tag"]}, coords={"tag": ["N", "V"]})
    assert found.posterior["x"].dims == ("chain", "draw", "tag")
    assert found.posterior["x"].sel(tag="V").shape == (2, 5)


def test_arviz_can_work_with_it() -> None:
    import arviz

    draws = arviz.extract(anonymous().to_arviz(), var_names="start")
    np.testing.assert_array_equal(draws.values[:, 0], anonymous().weights["start"].exp().numpy())

"""A hidden Markov model that is saved comes back with its priors, or is asked for."""

from __future__ import annotations

from pathlib import Path

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup.errors import NotDescribable, StructureError
from pyro_unsup.models import HMM

X = torch.tensor([2.0, 1.0, 3.0, 2.0, 9.0, 8.0, 11.0, 10.0, 7.0, 1.0, 2.0])
OTHER = 5 * X


def test_values_of_variables_with_a_prior_are_those_that_were_saved(tmp_path: Path) -> None:
    model = HMM(2, "poisson", prior={"rate": dist.Gamma(2.0, 0.1), "transition": 1.5})
    fit = pu.EM(model, pu.DirichletMAP(), init=pu.init.noise(1.0)).run(X, progress=False)
    fit.save(tmp_path / "fit")
    back = pu.load(tmp_path / "fit")
    assert torch.equal(back.posterior(OTHER).log_partition, fit.posterior(OTHER).log_partition)
    assert isinstance(back.model, HMM)
    assert (back.model.prior["rate"].concentration, back.model.prior["rate"].rate) == (2.0, 0.1)
    assert back.model.prior["transition"] == 1.5


def own(states: int) -> dist.TorchDistribution:
    return dist.Poisson(pyro.param("mine", lambda: torch.tensor([2.0, 9.0])))


@pytest.mark.parametrize(
    "model",
    [
        HMM(2, own),
        HMM(2, "poisson", prior={"rate": dist.TransformedDistribution(dist.Normal(1.5, 1.0), [dist.transforms.ExpTransform()])}),
    ],
    ids=["emission", "prior"],
)  # fmt: skip
def test_what_cannot_be_described_is_passed_to_load(model: HMM, tmp_path: Path) -> None:
    with pytest.raises(NotDescribable, match="is not saved"):
        model.settings()
    fit = pu.EM(model).run(X, progress=False)
    fit.save(tmp_path / "fit")
    found: Tensor = pu.load(tmp_path / "fit", model=model).posterior(OTHER).log_partition
    assert torch.equal(found, fit.posterior(OTHER).log_partition)
    assert model.with_states(3).states == 3


def test_a_prior_of_no_family_is_an_error() -> None:
    plain, tensors = HMM(2, "poisson", prior={"rate": dist.Gamma(2.0, 0.1)}).settings()
    with pytest.raises(StructureError, match="the prior of 'rate' should be a family of Pyro, actual 'constraints'"):
        HMM.from_settings({**plain, "prior": {"rate": "constraints"}}, tensors)

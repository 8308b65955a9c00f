"""Posteriors: what the contract suite does not ask of every structure."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyro_unsup import Chain, StructureError
from pyro_unsup.distributions import PCFG, SemiMarkov


def chain(seed: int, lengths: list[int], draws: int = 0) -> Chain:
    g = torch.Generator().manual_seed(seed)

    def table(*shape: int) -> Tensor:
        return torch.randn((draws, 1, *shape) if draws else shape, generator=g)

    return Chain(table(2), table(2, 2), table(2, 3), torch.tensor(lengths), flat=True)


VALUE = torch.tensor([0, 1, 2, 0, 1])


def test_divergence_is_of_the_same_data() -> None:
    one, other = chain(0, [3, 2]), chain(1, [3, 2])
    found = one.posterior(VALUE).kl(other.posterior(VALUE))
    assert (found > 0).all()
    with pytest.raises(StructureError, match="same data"):
        one.posterior(VALUE).kl(other.posterior(VALUE.flip(0)))
    with pytest.raises(StructureError, match="same data"):
        one.posterior(VALUE).kl(chain(1, [2, 3]).posterior(VALUE))
    with pytest.raises(StructureError, match=r"one shape of draws, actual Chain \(\) and Chain \(4,\)"):
        one.posterior(VALUE).kl(chain(1, [3, 2], draws=4).posterior(VALUE))
    trees = PCFG(torch.zeros(1), torch.zeros(1, 2, 2), torch.zeros(1, 3), torch.tensor([3, 2]))
    with pytest.raises(StructureError, match="one kind of structure"):
        one.posterior(VALUE).kl(trees.posterior(VALUE))


def test_divergence_to_what_is_impossible_is_infinite() -> None:
    one = chain(0, [3, 2])
    never = one.weights["emission"].clone()
    never[:, 2] = -torch.inf  # the first sequence has this word
    found = one.posterior(VALUE).kl(one.with_weights({"emission": never}).posterior(VALUE))
    assert found.tolist() == [torch.inf, pytest.approx(0.0, abs=1e-12)]


@pytest.mark.parametrize("lengths", [[], [0, 0], [1], [1, 1]])
def test_sentences_too_short_for_a_tree(lengths: list[int]) -> None:
    trees = PCFG(torch.zeros(2), torch.zeros(2, 3, 3), torch.zeros(1, 4), torch.tensor(lengths, dtype=torch.long))
    posterior = trees.posterior(torch.zeros(sum(lengths), dtype=torch.long))
    assert posterior.log_partition.tolist() == [-torch.inf if n else 0.0 for n in lengths]
    assert (posterior.mode() == -1).all()
    assert (posterior.mbr() == -1).all()
    assert (posterior.sample((2,)) == -1).all()
    assert (posterior.marginals == 0).all()
    assert (posterior.entropy == 0).all()
    assert all((counts == 0).all() for counts in posterior.counts.values())


def test_the_best_structures_of_draws_have_scores() -> None:
    for dist in (
        chain(0, [3, 2], draws=3),
        SemiMarkov(*(torch.randn(3, 1, *s) for s in ((2,), (2, 2), (2, 2), (2, 3))), torch.tensor([3, 2])),
    ):
        posterior = dist.posterior(VALUE)
        best = dist.score(VALUE, posterior.mode())
        assert best.shape == (3, 2)
        assert (best <= posterior.log_partition).all()


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), "2"])
def test_a_temperature_is_above_zero(temperature: float) -> None:
    with pytest.raises(StructureError, match="a temperature is a number above 0, actual"):
        chain(0, [3, 2]).with_temperature(temperature)

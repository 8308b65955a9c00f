"""The semi-Markov chain of measurements, for the contract suite: densities, durations by distributions, and gaps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyro.distributions as dist
import torch
from hypothesis import strategies as st
from torch import Tensor

from pyro_unsup.distributions import SemiMarkov, Structure
from pyro_unsup.distributions.ragged import pad
from pyro_unsup.testing import Case, Instance

from .semimarkov_case import LENGTHS, enumerated, longest

FAMILIES = {
    "poisson": lambda x: dist.Poisson(x.exp()),
    "negative binomial": lambda x: dist.NegativeBinomial(1 + x.abs(), logits=x),
    "geometric": lambda x: dist.Geometric(logits=x),
}


@st.composite
def series(draw: Any, scale: float) -> Instance:
    """Densities of every observation, as they are once a value was laid flat. The variants begin before that."""
    K, D, lengths = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(LENGTHS)
    normal, gaps, itself = draw(st.booleans()), draw(st.sampled_from([0.0, 0.3])), draw(st.booleans())
    censored, renormalise = draw(st.booleans()), draw(st.booleans())
    lasts = FAMILIES[draw(st.sampled_from(sorted(FAMILIES)))]
    g = torch.Generator().manual_seed(draw(st.integers(0, 2**31 - 1)))

    def table(*shape: int) -> Tensor:
        return torch.randn(shape, generator=g, dtype=torch.float64)

    steps = table(K, K) if itself else table(K, K).masked_fill(torch.eye(K, dtype=torch.bool), -torch.inf)
    n, mask = sum(lengths), None
    hidden = torch.rand(n, generator=g) < gaps
    if normal:
        emission, value = dist.Normal(table(K), scale), table(n).masked_fill(hidden, torch.nan)
    else:
        emission, value = dist.Poisson((table(K) / scale).exp()), torch.randint(6, (n,), generator=g).double()
        mask = ~hidden
    flat = SemiMarkov(
        table(K),
        steps,
        lasts(table(K)),
        emission,
        torch.tensor(lengths),
        mask=mask,
        censored=censored,
        longest=D,
        renormalise=renormalise,
    )
    return enumerated(*flat.laid_flat(value))


def variants(instance: Instance) -> Iterator[tuple[str, Structure, Tensor, list[int]]]:
    bound = instance.dist
    assert isinstance(bound, SemiMarkov)
    assert bound.data is not None
    density, value = bound.data
    w, order = bound.weights, list(range(len(bound.lengths)))
    arguments = (w["start"], w["transition"], w["duration"], density.emission, bound.lengths)
    last = {"last": w["last"]} if bound.censored else {}
    flat = SemiMarkov(*arguments, mask=density.mask, censored=bound.censored).with_weights(last)
    yield "before it was laid flat", flat, value, order
    for extra in (0, 2):
        time = longest(bound) + extra
        mask = None if density.mask is None else pad(density.mask, bound.lengths, True, time)
        padded = SemiMarkov(*arguments, flat=False, mask=mask, censored=bound.censored).with_weights(last)
        yield f"padded by {extra}", padded, pad(value, bound.lengths, torch.nan, time), order


SEMIMARKOV_SERIES = Case("semimarkov series", series(1.0), series(0.03), None, variants)

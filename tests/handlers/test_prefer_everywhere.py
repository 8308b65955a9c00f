"""Weighted preferences on every structure of the library, against all structures one by one."""

from __future__ import annotations

import math
from typing import Any

import pyro
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyro import poutine

import pyro_unsup as pu
from pyro_unsup.testing import Case
from pyro_unsup.testing.case import log_sum

from ..distributions.cases import on_every_structure

WEIGHTS = [1.3, -0.7]


@on_every_structure
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_every_structure_is_weighed_by_its_obeying_parts(case: Case, data: Any) -> None:
    instance = data.draw(case.instances)
    dist, value = instance.dist.laid_flat(instance.value)
    if not value.numel():
        return
    shape = dist.parts(value).shape
    g = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    obeys = [torch.rand(shape, generator=g) < 0.5 for _ in WEIGHTS]

    def model() -> None:
        pyro.sample("x", dist, obs=value)

    rules = [lambda parts, mask=mask: mask for mask in obeys]
    weighed = poutine.trace(pu.prefer(model, rules, WEIGHTS)).get_trace().nodes["x"]["fn"]
    found = weighed.log_prob(value)
    for k, (item, cells) in enumerate(zip(instance.items, instance.cells, strict=True)):
        here = [mask.expand(dist.posterior(value).marginals.shape)[cells] for mask in obeys]
        each = [
            score + math.fsum(w * bool(mask[part]) for w, mask in zip(WEIGHTS, here, strict=True) for part in parts)
            for score, parts in zip(item.scores, item.parts, strict=True)
        ]
        expected = log_sum(each)
        assert float(found[k]) == expected or abs(float(found[k]) - expected) < 1e-9 * max(1, abs(expected))

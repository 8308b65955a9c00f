"""The guide's code runs, and the errors that it explains are the ones that the library raises."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch

import pyro_unsup as pu

GUIDE = (Path(__file__).parents[2] / "docs" / "your_own_model.md").read_text()


def test_guide_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "your_own_model.md", "exec"), names)


def stock(x: torch.Tensor) -> None:
    table = pu.table("table", 2)
    with pyro.plate("data", len(x)):
        pyro.sample("z", dist.Categorical(logits=table))


def stock_inside(x: torch.Tensor) -> None:
    table = pu.table("table", 2)
    inside = dist.MixtureSameFamily(dist.Categorical(logits=table), dist.Normal(torch.tensor([-1.0, 1.0]), 1.0))
    with pyro.plate("data", len(x)):
        pyro.sample("x", inside, obs=x)


def unused(x: torch.Tensor) -> None:
    table, _ = pu.table("table", 2), pu.table("other", 2)
    with pyro.plate("data", len(x)):
        pyro.sample("x", pu.Categorical(table), obs=(x > 0).long())


def unreached(x: torch.Tensor) -> None:
    table = pu.table("table", 2, 2)
    with pyro.plate("data", len(x)):
        pyro.sample("x", pu.Categorical(table[0]), obs=(x > 0).long())


def impossible(x: torch.Tensor) -> None:
    table = pu.table("table", 2, support=torch.tensor([True, False]))
    with pyro.plate("data", len(x)):
        pyro.sample("x", pu.Categorical(table), obs=(x > 0).long())


def declared_twice(x: torch.Tensor) -> None:
    for i in range(2):
        pyro.sample(f"z_{i}", pu.Categorical(pu.table("table", 2)))


def endless(x: torch.Tensor) -> None:
    rate = pyro.param("rate", lambda: torch.tensor(1.0))
    with pyro.plate("data", len(x)):
        pyro.sample("x", dist.Normal(pyro.sample("z", dist.Poisson(rate)), 1.0), obs=x)


def nothing(x: torch.Tensor) -> None:
    with pyro.plate("data", len(x)):
        pyro.sample("x", dist.Normal(0.0, 1.0), obs=x)


def subsample(x: torch.Tensor) -> None:
    table = pu.table("table", 2)
    with pyro.plate("data", len(x), subsample_size=3) as picked:
        z = pyro.sample("z", pu.Categorical(table))
        pyro.sample("x", dist.Normal(2.0 * z - 1.0, 1.0), obs=x[picked])


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (stock, "Pyro's own normalises its weights"),
        (stock_inside, "Pyro's own normalises its weights"),
        (unused, "got no counts at all: does the model use it?"),
        (unreached, "has no expected counts"),
        (impossible, "has probability zero"),
        (declared_twice, "is declared twice in one run of the model"),
        (endless, "is a discrete latent variable that cannot be enumerated"),
        (nothing, "the model has nothing to learn"),
        (subsample, "the objective fell from"),
    ],
)
def test_guide_quotes_the_errors(model: Callable[[torch.Tensor], None], says: str) -> None:
    with pytest.raises(pu.UnsupError, match=re.escape(says)):
        pu.EM(model).run(torch.linspace(-3, 3, 20), tolerance=0.0, progress=False)
    assert f"`{says}`" in GUIDE

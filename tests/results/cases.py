"""Fits to test with, and what it means for two of them to be the same."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor
from torch.distributions import constraints

import pyro_unsup as pu
from pyro_unsup.data import Corpus, TagDictionary, toy
from pyro_unsup.models import Tagger


@cache
def text(seed: int = 1, n: int = 60) -> Corpus:
    """Toy sentences whose rare words are one unknown symbol."""
    return toy.sentences(n, seed=seed).merge_rare(3)


@cache
def anonymous(order: int = 1, stop: bool = False, dtype: torch.dtype = torch.float64) -> pu.Fit:
    """A tagger with numbered states."""
    model = Tagger(4, text().vocab, order, stop=stop)
    return pu.EM(model, pu.AddLambda(0.1), dtype=dtype).run(text(), iterations=3, tolerance=0, progress=False)


@cache
def with_dictionary(dtype: torch.dtype = torch.float64) -> pu.Fit:
    """A tagger with named tags and a dictionary that knows the words seen five times."""
    tagset = text().tagset
    assert tagset is not None
    model = Tagger(tagset, text().vocab, dictionary=TagDictionary.from_corpus(text(), min_count=5), prior=0.3)
    return pu.EM(model, dtype=dtype).run(text(), iterations=3, tolerance=0, progress=False)


def mixture(x: Tensor) -> None:
    """A model of a user's own, with parameters under a constraint and without."""
    share = pu.table("share", 2)
    mean = pyro.param("mean", lambda: torch.tensor([-1.0, 1.3]))
    scale = pyro.param("scale", lambda: torch.ones(2), constraint=constraints.greater_than(0.01))
    with pyro.plate("data", len(x)):
        z = pyro.sample("z", pu.Categorical(share))
        pyro.sample("x", dist.Normal(mean[z], scale[z]), obs=x)


def latent(x: Tensor) -> None:
    """The same with continuous latent variables."""
    share = pu.table("share", 2, prior=2.0)
    with pyro.plate("components", 2):
        mean = pyro.sample("mean", dist.Normal(torch.tensor([-1.0, 1.3]), 5.0))
        scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
    with pyro.plate("data", len(x)):
        z = pyro.sample("z", pu.Categorical(share))
        pyro.sample("x", dist.Normal(mean[z], scale[z]), obs=x)


def points(n: int = 60) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(n, generator=generator, dtype=torch.float64)
    return torch.where(torch.arange(n) % 3 > 0, draws - 1, 0.5 * draws + 1)


def own(model: Any = mixture) -> pu.Fit:
    """A fit of a model that no folder can hold."""
    return pu.EM(model).run(points(), iterations=3, tolerance=0, progress=False)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by name."""
    return {str(one.relative_to(folder)): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


def assert_same(one: pu.Fit, other: pu.Fit, seconds: bool = True) -> None:
    """Both fits are equal: tensors bit for bit and in dtype, rows and settings in type and value."""
    for group in ("weights", "points", "params", "unconstrained", "state", "memory"):
        ours, theirs = getattr(one, group), getattr(other, group)
        assert ours.keys() == theirs.keys()
        for name, x in ours.items():
            assert x.dtype == theirs[name].dtype
            assert x.shape == theirs[name].shape
            assert x.detach().numpy().tobytes() == theirs[name].detach().numpy().tobytes(), name
    left: list[Any] = [one.rows, asdict(one.report), one.seed, one.config, one.labels]
    right: list[Any] = [other.rows, asdict(other.report), other.seed, other.config, other.labels]
    if not seconds:
        for row in (*one.rows, *other.rows, left[1], right[1]):
            row["seconds"] = 0.0
    assert repr(left) == repr(right)  # tells 3 from 3.0, and NaN is itself

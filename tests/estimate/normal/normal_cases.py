"""What the tests of logistic-normal priors share: tables, priors, and the bound written down once more."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from pyro_unsup.estimate.normal.logistic_normal_updates import NormalRows, Posterior
from pyro_unsup.tables import Axis, Declaration, Layout

SUPPORT = torch.rand(4, 7, generator=torch.Generator().manual_seed(2)) < 0.6
SUPPORT[:, 0] = True
SUPPORT[0, 1:] = False  # a row with one outcome
LETTERS = list("abcdefg")
FAMILIES = {"a": "vowel", "e": "vowel", "b": "stop", "d": "stop", "g": "stop"}


def table(kind: str) -> Declaration:
    """A small table of one kind, its outcomes called by letters."""
    prior = torch.tensor(1.0, dtype=torch.float64)
    if kind == "ragged":
        cells = torch.tensor([3, 0, 1, 4, *range(7), 6, 2])
        axes = (Axis("row", 4), Axis("letter", LETTERS, cells))
        return Declaration("t", Layout.ragged([1, 3, 7, 2]), prior, axes=axes)
    layout = {
        "vector": Layout.dense(7),
        "matrix": Layout.dense(4, 7),
        "support": Layout.dense(4, 7, support=SUPPORT),
    }[kind]
    axes = (Axis("row", ["a", "e", "b", "x"]), Axis("letter", LETTERS))[-len(layout.shape) :]
    return Declaration("t", layout, prior, axes=axes)


KINDS = ("vector", "matrix", "support", "ragged")


def spd(size: int, seed: int = 0) -> Tensor:  # (size, size)
    """Some covariance."""
    root = torch.randn(size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return root @ root.mT / size + 0.1 * torch.eye(size, dtype=torch.float64)


def some_rows(lengths: list[int], full: bool, seed: int) -> NormalRows:
    """Rows with a mean and a covariance of their own."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    mean = rng.normal(size=offsets[-1])
    if not full:
        return NormalRows(offsets, mean, rng.gamma(2.0, 1.0, size=offsets[-1]))
    size = max(lengths)
    blocks = np.stack([np.eye(size) for _ in lengths])
    for r, n in enumerate(lengths):
        blocks[r, :n, :n] = np.linalg.inv(spd(n, seed + r).numpy())
    diagonal = np.concatenate([np.diagonal(blocks[r])[:n] for r, n in enumerate(lengths)])
    return NormalRows(offsets, mean, diagonal, blocks, np.arange(len(lengths)), np.linalg.slogdet(blocks)[1])


def precision_of(rows: NormalRows, r: int) -> Tensor:  # (n, n)
    a, b = rows.offsets[r : r + 2]
    if rows.blocks is None:
        return torch.from_numpy(rows.precision[a:b]).diag()
    assert rows.which is not None
    return torch.from_numpy(rows.blocks[rows.which[r], : b - a, : b - a])


def bound_of(f: Tensor, mu: Tensor, P: Tensor, m: Tensor, s2: Tensor, zeta: Tensor | None = None) -> Tensor:
    """One row's bound, by its definition: E log N(eta; mu, Sigma) + H(N(m, diag s2)) + f . psi."""
    n = len(m)
    prior = 0.5 * (torch.logdet(P) - n * math.log(2 * math.pi)) - 0.5 * (
        (P.diagonal() * s2).sum() + (m - mu) @ P @ (m - mu)
    )
    entropy = 0.5 * (math.log(2 * math.pi) + 1 + s2.log()).sum()
    total = (m + s2 / 2).exp().sum()
    zeta = total if zeta is None else zeta
    psi = m - zeta.log() + 1 - total / zeta
    return prior + entropy + f @ psi


def total_bound(counts: np.ndarray, rows: NormalRows, q: Posterior) -> float:
    """The same for all rows."""
    found = 0.0
    for r in range(len(rows.lengths)):
        part = slice(*rows.offsets[r : r + 2])
        flat = (torch.from_numpy(x[part]) for x in (q.mean, q.variance))
        f, mu = torch.from_numpy(counts[part]), torch.from_numpy(rows.mean[part])
        found += float(bound_of(f, mu, precision_of(rows, r), *flat))
    return found

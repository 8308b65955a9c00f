"""Segmentations on CPU: log Z and expected counts in one pass over a flat ragged corpus, and decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from .limits import LEAST, LIMIT, kept_exp
from .plumbing import OnePass, Tables, in_shards, uniform_numbers
from .segmentation_pass import best_pass, draw_pass, log_pass, scaled_pass

#: So many symbols take the time of one token of a chain, by which :func:`.threads_for` counts.
SYMBOLS_A_TOKEN = 16


@dataclass
class Pieces:
    """Log-weights as the passes want them, and the segments that use them. All float64.

    :param segments: (S + 1,) of each type of segment, and of one more that is impossible.
    :param length: (L + 1,) of a segment of w symbols, by w, going on included.
    :param stop: of stopping.
    :param cells: (symbols, L) int32, which type ends at each symbol and has each length; -1 for none.
    :param offsets: (B + 1,).
    """

    segments: Array
    length: Array
    stop: float
    cells: Array
    offsets: Array

    @staticmethod
    def of_weights(dist: Any, weights: Tables, value: Tensor) -> Pieces:
        go, stop = weights["stop"].double().tolist()
        segments = np.append(weights["segments"].double().numpy(), -np.inf)
        cells = value.to(torch.int32).contiguous().numpy()
        return Pieces(segments, weights["length"].double().numpy() + go, stop, cells, dist.rows.offsets.numpy())

    @staticmethod
    def of_potentials(dist: Any, potentials: Tables) -> Pieces:
        """Every piece is a type of its own."""
        flat = potentials["pieces"].contiguous().numpy()
        cells = np.arange(flat.size, dtype=np.int32).reshape(flat.shape)
        cells[flat == -np.inf] = -1
        length = np.zeros(flat.shape[1] + 1)
        return Pieces(np.append(flat.reshape(-1), -np.inf), length, 0.0, cells, dist.rows.offsets.numpy())

    @property
    def sizes(self) -> Array:  # (B,)
        return np.diff(self.offsets)

    @property
    def work(self) -> int:
        return len(self.cells) // SYMBOLS_A_TOKEN


def sums(dist: Any, weights: Tables, value: Tensor, wanted: frozenset[str]) -> OnePass:
    """log Z and expected counts, from weights."""
    data, dtype = Pieces.of_weights(dist, weights, value), weights["segments"].dtype

    def run(scale: Array | None, want: bool) -> tuple[Tensor, Tables]:
        log_z, counts = segmentation_pass(data, scale, want)
        found = [torch.from_numpy(x).to(dtype) for x in (counts[0][:-1], *counts[1:])]
        return torch.from_numpy(log_z), dict(zip(("segments", "length", "stop"), found, strict=True))

    return OnePass(run, bool(wanted))


def solve(dist: Any, potentials: Tables, scale: Tensor | None) -> tuple[Tensor, Tables]:
    """log Z and marginals, from potentials."""
    data = Pieces.of_potentials(dist, potentials)
    log_z, counts = segmentation_pass(data, None, True)
    found = torch.from_numpy(log_z)
    found = torch.where(dist.skipped, found, found + potentials["ends"])
    there = ((found > -torch.inf) & ~dist.skipped).double()
    pieces = torch.from_numpy(counts[0][:-1].reshape(data.cells.shape)).clamp(max=1.0)
    return found, {"pieces": pieces * there[dist.rows.owner].unsqueeze(-1), "ends": there}


def marginals(dist: Any, weights: Tables, value: Tensor) -> tuple[Tensor, Tensor]:
    """log Z and posteriors of pieces, from weights."""
    data = Pieces.of_weights(dist, weights, value)
    pieces = torch.from_numpy(data.segments[data.cells] + data.length[1:])
    ends = torch.full((len(dist.rows),), data.stop, dtype=torch.float64)
    log_z, found = solve(dist, {"pieces": pieces, "ends": ends}, None)
    return log_z, found["pieces"]


def decode(dist: Any, weights: Tables, value: Tensor, draw: bool, generator: torch.Generator | None) -> Tensor:
    """Where segments end in the best segmentation, or in a drawn one, from weights; -1 where there is none."""
    data = Pieces.of_weights(dist, weights, value)
    found = segmentation_decode(data, draw, generator)
    return found.fill_(-1) if data.stop == -np.inf else found  # no segmentation may end


def pick(dist: Any, potentials: Tables, draw: bool, generator: torch.Generator | None) -> Tensor:
    """The same from potentials."""
    return segmentation_decode(Pieces.of_potentials(dist, potentials), draw, generator)


def segmentation_pass(data: Pieces, scale: Array | None, want_counts: bool) -> tuple[Array, list[Array]]:
    """log Z of each sentence, (B,), and how often each weight is expected to be used."""
    B = len(data.offsets) - 1
    weigh = np.empty(0) if not want_counts else np.ones(B) if scale is None else scale
    log_z, trouble = np.zeros(B), np.zeros(B, bool)
    with np.errstate(over="ignore"):  # which the passes notice
        real = kept_exp(data.segments), kept_exp(data.length)
    dtype = np.dtype(np.float64)
    where, bounds = (data.stop, data.cells, data.offsets), (LIMIT[dtype], LEAST[dtype])

    def run(first: int, last: int, *counts: Array) -> None:
        scaled_pass(*real, *where, np.arange(first, last), *bounds, weigh, log_z, trouble, *counts)

    counts = in_shards(run, data.sizes, data.work, [data.segments.shape, data.length.shape, (2,)])
    again = np.flatnonzero(trouble)
    if len(again):
        log_pass(data.segments, data.length, *where, again, *bounds, weigh, log_z, trouble, *counts)
    return log_z, counts


def segmentation_decode(data: Pieces, draw: bool, generator: torch.Generator | None) -> Tensor:
    """Where segments end in the best segmentation, or in a drawn one."""
    structure = np.empty(len(data.cells), np.int64)
    uniforms = uniform_numbers(draw, len(structure), generator=generator)
    go, where = draw_pass if draw else best_pass, (data.segments, data.length, data.cells, data.offsets)
    in_shards(lambda a, b: go(*where, np.arange(a, b), uniforms, structure), data.sizes, data.work)
    return torch.from_numpy(structure)

"""What stepwise EM has seen of a model's observations: a few weighted points a distribution, for M steps by formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import FitError
from ..estimate.closed_forms import Summary, summary_of
from .closed_form import arguments_of
from .leaves import Leaf

PREFIX = "seen."


@dataclass(frozen=True)
class Seen:
    """Points that stand for all observations so far, by distribution (:mod:`.closed_forms.summaries`).

    :param points: for each, values and weights: (points, *cells, *event) and (points, *cells).
    """

    points: tuple[tuple[Tensor, Tensor], ...] = ()

    def with_batch(self, leaves: list[Leaf], step: float, mass: float) -> tuple[list[Leaf], Seen]:
        """All that was seen, weighed by ``1 - step``, and a mini-batch, weighed by ``step``; and these in few points.

        :param leaves: the distributions of a mini-batch, with their observations.
        :param mass: what the initial distributions weigh, if nothing was seen yet.
        """
        leaves = [by_rows(leaf) for leaf in leaves]
        summaries = [summary(leaf) for leaf in leaves]
        before = self.points or tuple(
            (x.detach(), mass * w.detach())
            for x, w in (how.of_distribution(leaf.dist) for how, leaf in zip(summaries, leaves, strict=True))
        )
        merged, points = [], []
        for leaf, how, (x, w) in zip(leaves, summaries, before, strict=True):
            value, weight = torch.cat([x.to(leaf.value), leaf.value]), torch.cat([(1 - step) * w, step * leaf.weight])
            merged.append(Leaf(leaf.dist, value, weight))
            points.append(how.of_data(value, weight))
        return merged, Seen(tuple(points))

    def tensors(self) -> dict[str, Tensor]:
        """All of it, by name, to be saved."""
        return {
            f"{PREFIX}{i}.{what}": x for i, pair in enumerate(self.points) for what, x in zip(PARTS, pair, strict=True)
        }

    @staticmethod
    def of(tensors: Mapping[str, Tensor]) -> Seen:
        """The way back."""
        found = {name: x for name, x in tensors.items() if name.startswith(PREFIX)}
        try:
            pairs = [tuple(found[f"{PREFIX}{i}.{what}"] for what in PARTS) for i in range(-(-len(found) // 2))]
        except KeyError as error:
            raise FitError(f"the fit to go on from has no {error}: what it has seen is not complete") from None
        return Seen(tuple(pairs))  # type: ignore[arg-type]


PARTS = ("values", "weights")


def by_rows(leaf: Leaf) -> Leaf:
    """The same observations with an axis of rows first, and after it the cells that have parameters of their own.

    A chain has these (rows, K) from the beginning. Data of an enumerated variable lie (K, rows) in a plate.
    """
    shape, event = leaf.weight.shape, leaf.dist.event_shape
    value = leaf.value.expand(*shape, *event)
    found, given = Leaf(leaf.dist, value, leaf.weight), dict(arguments_of(leaf.dist))
    if all(x.dim() <= len(leaf.dist.batch_shape) for x in given.values()):  # else a parameter has axes of its own
        own = [any(_varies(x, axis - len(shape)) for x in given.values()) for axis in range(len(shape))]
        single = not any(own) and shape[-1:] == (1,)  # one state, whose axis is still its own
        own[-1:] = [single or own[-1]] if own else []
        rows = [axis for axis, varies in enumerate(own) if not varies]
        order = [*rows, *(axis for axis, varies in enumerate(own) if varies)]
        # Axes that do not vary become the rows. In their old places stays a 1, unless they come before all others.
        cells = [size if varies else 1 for size, varies in zip(shape, own, strict=True)]
        cells = cells[next((axis for axis, varies in enumerate(own) if varies), len(own)) :]
        new = {name: _first(x).reshape(1) if single else _first(x) for name, x in given.items()}
        flat = [x.permute(order).reshape(-1, *cells) for x in (value, leaf.weight)]
        found = Leaf(type(leaf.dist)(**new, validate_args=False), flat[0], flat[1]) if rows else found
    if found.dist.batch_shape != found.weight.shape[1:]:
        raise FitError(
            f"StepwiseEM learns distributions that are the same for all observations: expected a batch shape "
            f"{tuple(found.weight.shape[1:])}, one a state, actual {tuple(found.dist.batch_shape)} of a "
            f"{type(leaf.dist).__name__}. Where they vary, train the model with EM on all data, or with pyro.infer.SVI"
        )
    return found


def _varies(x: Tensor, axis: int) -> bool:
    return -axis <= x.dim() and x.shape[axis] > 1 and x.stride(axis) != 0


def _first(x: Tensor) -> Tensor:
    """A tensor without copies of itself along an axis."""
    while x.dim() and not _varies(x, -x.dim()):
        x = x[0]
    return x[tuple(slice(None) if _varies(x, axis - x.dim()) else slice(0, 1) for axis in range(x.dim()))]


def summary(leaf: Leaf) -> Summary:
    """How the observations of a distribution are summed up."""
    kind: Any = type(leaf.dist)
    how = summary_of(kind)
    if how is None:
        raise FitError(
            f"StepwiseEM cannot sum up observations of a {kind.__name__}: train the model with EM on all data, with "
            "pyro.infer.SVI, or say how by register_summary (pyro_unsup.estimate.closed_forms)"
        )
    return how

"""Catching the mistake that would make EM silently wrong: a distribution that normalises its weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyro.distributions as dist
import torch.distributions as td
from pyro.poutine import Trace
from torch import Tensor

from ..errors import FitError

NORMALISING = (
    td.Categorical,
    td.OneHotCategorical,
    td.Bernoulli,
    td.Binomial,
    td.Multinomial,
    td.Geometric,
    dist.DiscreteHMM,
)
_WEIGHTS = ("logits", "initial_logits", "transition_logits")


def refuse_stock_categorical(trace: Trace, leaves: Mapping[str, Tensor]) -> None:
    """Raise if a site hands a declared table to one of Pyro's own discrete distributions.

    Those subtract a normaliser, so the gradient in the table would not be expected counts.
    """
    owners = {id(leaf): name for name, leaf in leaves.items()}
    for name, site in trace.nodes.items():
        if site["type"] != "sample":
            continue
        for fn in _parts(site["fn"]):
            if not isinstance(fn, NORMALISING):
                continue
            used = (_depends_on(getattr(fn, key), owners) for key in _WEIGHTS if hasattr(fn, key))
            table = next((found for found in used if found is not None), None)
            if table is not None:
                raise FitError(
                    f"site '{name}' uses {type(fn).__name__} with table '{table}': Pyro's own normalises its weights, "
                    "so its gradient is not expected counts. Use pyro_unsup.Categorical(log_weights) there, or "
                    "pyro_unsup.Chain for a hidden Markov model"
                )


def _parts(fn: Any) -> Iterator[Any]:
    """A distribution, and those that it wraps or is made of: masked, independent, mixed, emitted by a chain."""
    yield fn
    for inner in vars(fn).values():
        if isinstance(inner, td.Distribution):
            yield from _parts(inner)


def _depends_on(tensor: Tensor, owners: Mapping[int, str]) -> str | None:
    """The name of a table that the tensor was computed from, by walking the graph of its gradient."""
    todo, seen = [tensor.grad_fn], set()
    if id(tensor) in owners:
        return owners[id(tensor)]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if id(getattr(node, "variable", None)) in owners:
            return owners[id(node.variable)]  # type: ignore[attr-defined]
        todo.extend(parent for parent, _ in node.next_functions)
    return None

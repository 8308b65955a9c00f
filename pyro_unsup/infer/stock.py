"""Catching the mistake that would make EM silently wrong: a distribution that normalises its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.distributions as td
from pyro.poutine import Trace
from torch import Tensor

from ..errors import FitError

NORMALISING = (td.Categorical, td.OneHotCategorical, td.Bernoulli, td.Binomial, td.Multinomial, td.Geometric)


def refuse_stock_categorical(trace: Trace, leaves: Mapping[str, Tensor]) -> None:
    """Raise if a site hands a declared table to one of Pyro's own discrete distributions.

    Those subtract a normaliser, so the gradient in the table would not be expected counts.
    """
    owners = {id(leaf): name for name, leaf in leaves.items()}
    for name, site in trace.nodes.items():
        if site["type"] != "sample":
            continue
        fn = _unwrapped(site["fn"])
        if isinstance(fn, NORMALISING):
            table = _depends_on(fn.logits, owners)
            if table is not None:
                raise FitError(
                    f"site '{name}' uses {type(fn).__name__} with table '{table}': Pyro's own normalises its weights, so "
                    "its gradient is not expected counts. Use pyro_unsup.Categorical(log_weights) there"
                )


def _unwrapped(fn: Any) -> Any:
    while hasattr(fn, "base_dist"):
        fn = fn.base_dist
    return fn


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

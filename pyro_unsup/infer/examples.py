"""Data as a number of examples, of which engines for mini-batches take some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..errors import FitError
from ..handlers import bare


def taken(model: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments of a model that can be looked at again: what comes one by one is gathered in a list. For a model that
    does not read its data itself (by ``index``), arrays become tensors."""
    reads = hasattr(bare(model), "index")
    return tuple(
        list(one)
        if isinstance(one, Iterator)
        else torch.tensor(one)
        if isinstance(one, np.ndarray) and one.dtype.kind in "fiub" and not reads
        else one
        for one in args
    )


@dataclass(frozen=True)
class Examples:
    """How many examples there are, and how to call the model with some of them.

    :param select: from the numbers of examples to the model's arguments.
    :param source: what they are selected from.
    """

    size: int
    select: Callable[[Array], tuple[Any, ...]]
    source: Any = None

    @staticmethod
    def of(model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Examples:
        """Tell the examples of a model's arguments apart.

        A model with ``index(...)`` does so itself. Otherwise the data are anything with ``__len__`` and ``select``, a
        list with one item an example, or tensors and arrays with one row an example. Data on disk are never indexed
        as a whole, which would take them all into memory: the model sees what was selected, and indexes that.
        """
        lies_on_disk = len(args) == 1 and not kwargs and getattr(args[0], "on_disk", False)
        index = None if lies_on_disk else getattr(bare(model), "index", None)
        found: Any = index(*args, **kwargs) if index is not None else args[0] if len(args) == 1 else None
        if hasattr(found, "select") and hasattr(found, "__len__") and not isinstance(found, Tensor):
            return _checked(len(found), lambda chosen: (found.select(chosen),), found)
        if isinstance(found, list | tuple) and not kwargs:
            return _checked(len(found), lambda chosen: ([found[i] for i in chosen],))
        if args and not kwargs and all(isinstance(x, Tensor | np.ndarray) and x.ndim for x in args):
            sizes = {len(x) for x in args}
            if len(sizes) == 1:
                return _checked(sizes.pop(), lambda chosen: tuple(x[chosen] for x in args))
        kinds = ", ".join([type(x).__name__ for x in args] + [f"{name}=" for name in kwargs])
        raise FitError(
            f"cannot tell the examples of these data apart ({kinds}): give the model a method index(data) whose result "
            "has __len__ and select(numbers), or hand over mini-batches yourself, engine.step(batch)"
        )

    def offsets(self) -> Array:  # (size + 1,)
        """Tokens before each example, and all of them; of examples that do not tell how long they are, examples."""
        offsets = getattr(self.source, "offsets", None)
        if offsets is not None:
            return np.asarray(offsets)
        lengths = getattr(self.source, "lengths", None)
        return np.concatenate(
            [[0], np.cumsum(np.ones(self.size, np.int64) if lengths is None else np.asarray(lengths))]
        )

    def batches(self, batch_size: int, seed: tuple[int, int] | None) -> Iterator[Array]:
        """All examples once, in mini-batches of which the last may be short; in their order if there is no seed."""
        order = self.order(seed)
        for at in range(0, self.size, batch_size):
            yield order[at : at + batch_size]

    def order(self, seed: tuple[int, int] | None) -> Array:
        """A permutation of the examples."""
        return np.arange(self.size) if seed is None else np.random.default_rng(seed).permutation(self.size)


def _checked(size: int, select: Callable[[Array], tuple[Any, ...]], source: Any = None) -> Examples:
    if size == 0:
        raise FitError("no examples: expected at least one")
    return Examples(size, select, source)

"""Incremental EM: one mini-batch's counts replaced at a time, all of them remembered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import FitError
from ..handlers import declared
from ..kernels.threads import plain_torch
from .estimation import Estimate
from .init import Initial
from .loop import Info
from .online import Online
from .statistics import Parts, expect_parts
from .store import Store, product

#: Mini-batches that the estimate of memory looks at.
SAMPLED = 32


class IncrementalEM(Online):
    """EM that updates the weights after every mini-batch, by replacing its expected counts in the sum of all:

        mu <- mu + s_i' - s_i,      s_i <- s_i'

    Each update raises a lower bound of the log-likelihood (plus the log prior), the negative free energy of Neal and
    Hinton: sum_i [s_i . log theta + entropy of the posterior behind s_i]. It is the objective, and never falls.

    Nothing is forgotten, so the counts of every mini-batch are kept: :meth:`memory` says how much that is before any
    of it is needed, and a run that would take more than ``max_gib`` is refused. They are part of a saved fit.

    :param batch_size: examples in a mini-batch. Mini-batches stay the same; each pass takes them in another order.
    :param order_seed: orders the mini-batches; ``run(seed=...)`` makes the initial weights.
    :param from_zero: start with no counts but those of the initial weights, one a row, which are dropped after the
        first pass. That pass is then stepwise EM with power 1 (Liang & Klein 2009, 3.3). Otherwise all mini-batches are
        looked at under the initial weights first.
    :param max_gib: most memory for the counts of mini-batches.

        >>> import pyro_unsup as pu
        >>> data, model = [[0, 1], [0, 1, 1], [1, 0, 1], [0, 0, 1]], pu.models.Tagger(tags=2, vocab=2)
        >>> fit = pu.IncrementalEM(model).run(data, iterations=5)
        >>> fit.objective <= fit.log_likelihood(data)  # a bound
        True

    In a loop of your own::

        >>> data, engine = [[0, 1], [0, 1, 1], [1, 0, 1]], pu.IncrementalEM(pu.models.Tagger(tags=2, vocab=2))
        >>> engine.memory(data) > 0  # bytes that the counts of all mini-batches will take
        True
        >>> info = engine.look()
        >>> engine.move()  # a pass; engine.visit(batch) is one mini-batch
        >>> before = engine.bound()
        >>> log_likelihood = engine.visit(batch=0)
        >>> before <= engine.bound() + 1e-9
        True
        >>> engine.add_up()

    **References:** [1] R. Neal and G. Hinton (1998) "A view of the EM algorithm that justifies incremental, sparse, and
    other variants".
    """

    def __init__(
        self,
        model: Callable[..., Any],
        estimate: Estimate | None = None,
        init: Initial | None = None,
        *,
        batch_size: int = 1,
        order_seed: int = 0,
        from_zero: bool = False,
        max_gib: float = 4.0,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__(model, estimate, init, batch_size, order_seed, dtype)
        self.from_zero, self.max_gib = from_zero, max_gib
        self._store = Store()
        self._seen: tuple[Any, ...] | None = None  # the data that the store is of

    def memory(self, *args: Any, **kwargs: Any) -> int:
        """About how many bytes the counts of all mini-batches of these data will take."""
        self.start(*args, **kwargs)
        return self._memory()

    def visit(self, batch: int) -> float:
        """Replace the counts of one mini-batch. Returns its log-likelihood before the update."""
        found, parts = self._look_at(batch)
        old = self._store.parts(batch)
        with plain_torch():
            self._store.put(batch, found, parts, self.statistics.current)
            self.statistics.shift({name: (at, new - old[name][1] if old else new) for name, (at, new) in parts.items()})
        self._stale = True
        return found

    def bound(self) -> float:
        """The lower bound of the log-likelihood that every update raises, log priors included."""
        with plain_torch():
            counts = {name: (None, table.counts()) for name, table in self.statistics.tables.items()}
            return self._store.rest() + product(counts, self.weights) + self._log_prior()

    def look(self) -> Info:
        """The bound of the current weights. At the start it is the log-likelihood."""
        if self.iteration == 0:
            self._begin()
            if self.from_zero:
                found = self.marginal.log_marginal(self.statistics.current, *self._data)
            else:
                found = self._store.bound(self.statistics.current)
            with plain_torch():
                return Info(0, found + self._log_prior(), found, stage=0 if self.from_zero else None)
        found, prior = self.bound(), self._log_prior()
        return Info(self.iteration, found, found - prior, stage=1 if self.from_zero else None)

    def move(self) -> None:
        """Visit every mini-batch once."""
        if self.iteration == 0 and not self.from_zero:
            self.add_up()
        for i in np.random.default_rng((self.order_seed, self.iteration)).permutation(self._batches):
            self.visit(int(i))
        self.add_up()
        self.iteration += 1

    def add_up(self) -> None:
        """Make the weights those of all counts that are kept, added up anew: rounding must not gather."""
        with plain_torch():
            self.statistics.fill(self._store.totals(self.declarations, self.dtype))
        self._stale = True

    def _begin(self) -> None:
        """Look at every mini-batch under the initial weights, if there is room for what that finds."""
        if len(self._store):
            return
        need = self._memory()
        if need > self.max_gib * 2**30:
            raise FitError(
                f"the counts of {self._batches} mini-batches would take about {need / 2**30:.3g} GiB, more than "
                f"max_gib = {self.max_gib:g}: take larger mini-batches (batch_size), raise max_gib, or use StepwiseEM, "
                "which keeps none"
            )
        found = Store()
        for i in () if self.from_zero else range(self._batches):
            found.put(i, *self._look_at(i), self.statistics.current)
        self._store = found  # all of it or, after an interrupt, nothing

    def _took_data(self) -> None:
        now, before = (*self._data[0], *self._data[1].values()), self._seen
        same = before is None or (len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True)))
        if len(self._store) and not (same and self._store.fits(self._batches)):
            raise FitError(
                "IncrementalEM remembers the mini-batches of the data that it began with, and these are others: make a "
                "new engine for them, with init=pu.init.from_weights(fit) to start from what was learned"
            )
        self._seen = now

    def _look_at(self, batch: int) -> tuple[float, Parts]:
        return expect_parts(self.marginal, self.statistics.current, self._batch(batch), {}, self.iteration)

    @property
    def _batches(self) -> int:
        return -(-self.examples.size // self.batch_size)

    def _batch(self, number: int) -> tuple[Any, ...]:
        first = number * self.batch_size
        return self.examples.select(np.arange(first, min(first + self.batch_size, self.examples.size)))

    def _memory(self) -> int:
        total = self._batches
        some = min(SAMPLED, total)
        found = [declared(self.model, *self._batch(i * total // some)).values() for i in range(some)]
        return sum(Store.size(d, self.dtype) for tables in found for d in tables) * total // some

    # -- what there is to know, and to keep

    def described(self) -> dict[str, Any]:
        """What a fit tells of how it was trained."""
        return {"batch_size": self.batch_size, "order_seed": self.order_seed, "from_zero": self.from_zero}

    @property
    def _mass(self) -> float:
        return 1.0

    def _settings(self) -> dict[str, Any]:
        own = ("model", "estimate", "init", "batch_size", "order_seed", "from_zero", "max_gib", "dtype")
        return {name: getattr(self, name) for name in own}

    def _own_state(self) -> dict[str, Tensor]:
        return self._store.tensors()

    def _restore(self, state: Mapping[str, Tensor]) -> bool:
        self._store, self._seen = Store(), None
        if "store.batches" not in state:
            return False
        self._store.restore(state, self.declarations)
        return self.iteration > 0

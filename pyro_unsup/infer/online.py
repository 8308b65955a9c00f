"""What engines share that change counts a mini-batch at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..errors import FitError
from ..kernels.threads import plain_torch
from ..results import Fit
from .engine import Engine
from .estimation import Estimate
from .examples import Examples
from .expectation import Marginal
from .init import Initial
from .outcome import State
from .statistics import Statistics


class Online(Engine):
    """An engine whose weights follow running counts (:class:`.Statistics`), and that takes examples in mini-batches.

    :param batch_size: examples in a mini-batch.
    :param order_seed: orders the examples or mini-batches of each pass; ``run(seed=...)`` makes the initial weights.
    """

    ITERATIONS, ADDS_UP = 20, False

    def __init__(
        self,
        model: Callable[..., Any],
        estimate: Estimate | None,
        init: Initial | None,
        batch_size: int,
        order_seed: int,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(model, estimate, init, dtype=dtype)
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise FitError(f"batch_size must be a whole number, 1 or more, actual {batch_size!r:.80}")
        self.batch_size = batch_size
        self._set_order(order_seed)

    @property
    @abstractmethod
    def _mass(self) -> float:
        """Counts of each row at the start."""

    @abstractmethod
    def _own_state(self) -> dict[str, Tensor]:
        """What is to be kept besides weights and counts."""

    @abstractmethod
    def _restore(self, state: Mapping[str, Tensor]) -> bool:
        """Go on from :meth:`_own_state`, which is empty for a fit of another engine. Whether counts have changed."""

    def run(self, *args: Any, order_seed: int | None = None, **options: Any) -> Fit:
        """Train on these data; see :meth:`.Engine.run`. An iteration is a pass over them.

        :param order_seed: orders the examples, instead of the engine's own.
        """
        if order_seed is not None:
            self._set_order(order_seed)
        return super().run(*args, **options)

    _stale = False
    _weights: dict[str, Tensor]
    _remembered: dict[str, Tensor]
    _statistics: Statistics | None = None
    _examples: tuple[Any, Examples] | None = None

    @property
    def weights(self) -> dict[str, Tensor]:
        """Log-weights by table, as they are now."""
        if self._stale and self._statistics is not None:
            with plain_torch():
                self._weights = self._statistics.weights()
            self._stale = False
        return self._weights

    @weights.setter
    def weights(self, new: dict[str, Tensor]) -> None:
        self._weights, self._stale, self._statistics, self._examples = new, False, None, None

    @property
    def remembered(self) -> dict[str, Tensor]:
        """What estimators remember, as it is now.

        >>> import pyro_unsup as pu
        >>> engine = pu.StepwiseEM(pu.models.Tagger(tags=2, vocab=2), batch_size=1)
        >>> engine.start([[0, 1], [1, 1, 0]])
        >>> engine.remembered  # nothing, but with features or priors that are learned
        {}
        """
        return self._remembered if self._statistics is None else self._statistics.memory

    @remembered.setter
    def remembered(self, new: dict[str, Tensor]) -> None:
        self._remembered, self._statistics = new, None

    def start(self, *args: Any, seed: int = 0, **kwargs: Any) -> None:
        if self._marginal is not None:
            self._data = (args, kwargs)
            return
        super().start(*args, seed=seed, **kwargs)
        self.seed = seed
        others = [f"parameter '{name}'" for name in self._params]
        others += [f"latent variable '{name}'" for name in self._points.unconstrained]
        if others:
            self._marginal = None
            raise FitError(
                f"{type(self).__name__} learns tables only, and the model also has {', '.join(others)}: train it with "
                "pyro.infer.SVI, or with EM on all data"
            )

    @property
    def statistics(self) -> Statistics:
        """The running counts.

        >>> import pyro_unsup as pu
        >>> engine = pu.StepwiseEM(pu.models.Tagger(tags=2, vocab=2), batch_size=1)
        >>> engine.start([[0, 1], [1, 1, 0]])
        >>> sorted(engine.statistics.tensors())[:2]
        ['emission.row_sums', 'emission.scale']
        """
        if self._statistics is None:
            self._statistics = Statistics(
                self.declarations, self.estimation, self._weights, self._remembered, self._mass, self.dtype
            )
        return self._statistics

    @property
    def marginal(self) -> Marginal:
        """The model's log marginal.

        >>> import pyro_unsup as pu
        >>> engine = pu.StepwiseEM(pu.models.Tagger(tags=2, vocab=2), batch_size=1)
        >>> engine.start([[0, 1], [1, 1, 0]])
        >>> type(engine.marginal).__name__
        'Marginal'
        """
        assert self._marginal is not None
        return self._marginal

    @property
    def examples(self) -> Examples:
        """The data, example by example.

        >>> import pyro_unsup as pu
        >>> engine = pu.StepwiseEM(pu.models.Tagger(tags=2, vocab=2), batch_size=1)
        >>> engine.start([[0, 1], [1, 1, 0]])
        >>> engine.examples.size
        2
        """
        if self._examples is None or self._examples[0] is not self._data:
            self._examples = (self._data, Examples.of(self.model, *self._data))
            try:
                self._took_data()
            except BaseException:
                self._examples = None
                raise
        return self._examples[1]

    def _took_data(self) -> None:
        """Called when there are new data."""

    def _set_order(self, order_seed: int) -> None:
        if isinstance(order_seed, bool) or not isinstance(order_seed, int) or order_seed < 0:
            raise FitError(f"order_seed must be a whole number, 0 or more, actual {order_seed!r:.80}")
        self.order_seed = order_seed

    def _state(self) -> State:
        return {**super()._state(), "state": {**self.statistics.tensors(), **self._own_state()}}

    def _adopt(self, fit: Fit, args: Any, kwargs: Any) -> None:
        super()._adopt(fit, args, kwargs)
        self.weights, self.remembered = dict(self.weights), dict(self.remembered)  # and counts that stand for them
        if self._restore(fit.state):
            self.statistics.restore(fit.state)

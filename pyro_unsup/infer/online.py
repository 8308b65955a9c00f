"""What engines share that change counts a mini-batch at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from ..errors import FitError
from ..results import Fit
from .engine import Engine
from .estimation import Estimate
from .examples import Examples
from .init import Initial
from .state import Problem, State
from .statistics import Statistics


@dataclass
class OnlineState(State):
    """A state whose tables are running counts.

    :param statistics: the running counts. Within a pass they change in place, and ``tables`` and ``memory`` with them.
    :param examples: the data, example by example, once a pass has begun.
    """

    statistics: Statistics = None  # type: ignore[assignment]
    examples: Examples | None = None

    def own(self) -> dict[str, Tensor]:
        return self.statistics.tensors()

    def copy(self) -> Self:
        """The same, with counts that can be changed apart from these."""
        statistics = self.statistics.copy()
        return replace(self, statistics=statistics, tables=statistics.current, memory=statistics.memory)


OnlineStateT = TypeVar("OnlineStateT", bound=OnlineState)


class Online(Engine):
    """An engine whose weights follow running counts (:class:`.Statistics`), and that takes examples in mini-batches.

    :param batch_size: examples in a mini-batch.
    :param order_seed: orders the examples or mini-batches of each pass; ``run(seed=...)`` makes the initial weights.
        None takes the seed of the start for both.
    """

    ITERATIONS, ADDS_UP = 20, False

    def __init__(
        self,
        model: Callable[..., Any],
        estimate: Estimate | None,
        init: Initial | None,
        batch_size: int,
        order_seed: int | None,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(model, estimate, init, dtype=dtype)
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise FitError(f"batch_size must be a whole number, 1 or more, actual {batch_size!r:.80}")
        self.batch_size, self.order_seed = batch_size, _checked_order(order_seed)

    @property
    @abstractmethod
    def _mass(self) -> float:
        """Counts of each row at the start."""

    def run(self, *args: Any, order_seed: int | None = None, **options: Any) -> Fit:
        """Train on these data; see :meth:`.Engine.run`. An iteration is a pass over them.

        :param order_seed: orders the examples, instead of the engine's own.
        """
        if order_seed is None:
            return super().run(*args, **options)
        ordered = copy(self)
        ordered.order_seed = _checked_order(order_seed)
        return ordered.run(*args, **options)

    def order_of(self, state: State) -> int:
        """The seed that orders the examples of a run."""
        return state.seed if self.order_seed is None else self.order_seed

    def _with_counts(self, state: OnlineStateT) -> OnlineStateT:
        """A state with the running counts that its weights stand for."""
        problem = state.problem
        self._check_parameters(problem)
        weights, memory = state.weights, state.memory
        statistics = Statistics(problem.declarations, problem.estimation, weights, memory, self._mass, self.dtype)
        return replace(state, tables=statistics.current, memory=statistics.memory, statistics=statistics, examples=None)

    def _check_parameters(self, problem: Problem) -> None:
        """Raise if the model has more to learn than tables. (Some engines can learn some parameters.)"""
        others = [f"parameter '{name}'" for name in problem.parameters.names]
        others += [f"latent variable '{name}'" for name in problem.parameters.points.unconstrained]
        if others:
            raise FitError(
                f"{type(self).__name__} learns tables only, and the model also has {', '.join(others)}: train it with "
                "EM on all data, with StepwiseEM, or with pyro.infer.SVI"
            )

    def examples_of(self, state: OnlineState) -> Examples:
        """The data of a state, example by example."""
        if state.examples is None:
            state.examples = Examples.of(self.model, *state.problem.data)
            try:
                self._take_data(state)
            except BaseException:
                state.examples = None
                raise
        return state.examples

    def _take_data(self, state: Any) -> None:
        """Called when the first pass begins."""

    def on(self, state: Any, data: Any) -> Any:
        return replace(super().on(state, data), examples=None)


def _checked_order(order_seed: int | None) -> int | None:
    if order_seed is not None and (isinstance(order_seed, bool) or not isinstance(order_seed, int) or order_seed < 0):
        raise FitError(f"order_seed must be a whole number, 0 or more, actual {order_seed!r:.80}")
    return order_seed

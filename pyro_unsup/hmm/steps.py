"""EM with the M steps of hmmlearn: priors of its own form, and parameters that stay as they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..errors import UnsupError
from ..infer import EM
from ..infer.expectation import Expectation
from ..infer.init import Initial
from ..infer.leaves import Leaf
from ..infer.state import State


class Learner(Protocol):
    """What knows the M steps."""

    def new_tables(self, counts: Mapping[str, Array]) -> dict[str, Array]:
        """Probabilities by table, from expected counts."""

    def new_parameters(self, seen: Seen) -> dict[str, Array]:
        """Parameters of the emission, by the names that the model has for them."""


class Seen:
    """Observations with the posterior of their states.

    :param found: an E step.
    :param values: (N, D) observations; NaN where they are missing.
    """

    def __init__(self, found: Expectation, values: Array) -> None:
        self.values, self._found = values, found

    @property
    def leaf(self) -> Leaf | None:
        """The emission as one distribution of a family, with its observations and weights; None if it is none."""
        return self._found.leaves[0] if len(self._found.leaves) == 1 else None

    @property
    def post(self) -> Array:  # (N, K)
        """Posterior probabilities of the states; zeros where all is missing."""
        if self.leaf is not None and self.leaf.weight.dim() == 2:
            return self.leaf.weight.detach().numpy()
        weight = self._found.factors["x", "emission"].detach().numpy()
        found: Array = np.where(np.isnan(self.values).all(-1, keepdims=True), 0.0, weight)
        return found


class LearnerEM(EM):
    """EM whose M steps are those of a learner. The objective is the log-likelihood, which priors may lower.

    :param learner: knows the M steps.
    :param values: (N, D) observations.
    """

    def __init__(self, learner: Learner, model: Callable[..., Any], init: Initial, values: Array) -> None:
        super().__init__(model, None, init)
        self.learner, self.values = learner, values

    def m_step(self, state: State, found: Expectation) -> State:
        counts = {name: x.detach().numpy() for name, x in found.counts.items()}
        with np.errstate(divide="ignore"):
            tables = {name: torch.from_numpy(np.log(x)) for name, x in self.learner.new_tables(counts).items()}
        parameters = state.problem.parameters
        new = {} if not state.unconstrained else self.learner.new_parameters(Seen(found, self.values))
        moved = {name: _unconstrained(name, parameters, x) for name, x in new.items()}
        return replace(
            state,
            tables={**state.tables, **tables},
            unconstrained={**state.unconstrained, **moved},
            iteration=state.iteration + 1,
        )

    def may_fall(self, state: State) -> float:
        return math.inf


def _unconstrained(name: str, parameters: Any, value: Array) -> Tensor:
    """A parameter, in the space that its model keeps it in."""
    x = torch.as_tensor(np.ascontiguousarray(value), dtype=torch.float64)
    ok = parameters.support(name).check(x)
    if not bool(ok.all()):
        place = (~ok).nonzero()[0].tolist()
        raise UnsupError(
            f"{name} of state {place[0] if place else 0} has run to the edge of what is possible: a state may have "
            "shrunk onto one observation. Use fewer states, another random_state, or a larger covars_prior"
        )
    found: Tensor = parameters.transform(name).inv(x)
    return found


def normalised(rows: Array, old: Array) -> Array:
    """Rows that sum to one. What was impossible stays so, and a row without counts stays as it was."""
    rows = np.where(old == 0, 0.0, np.maximum(rows, 0.0))
    total = rows.sum(-1, keepdims=True)
    found: Array = np.where(total > 0, rows / np.where(total > 0, total, 1.0), old)
    return found

"""An engine with its state, for loops that were written for :class:`pyro.infer.SVI`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI
from torch import Tensor

from ..results import Fit, Reason
from .loop import Info
from .runs import outcome

if TYPE_CHECKING:
    from .engine import Engine


@SVI.register
class Session:
    """What an engine has learned so far, one batch after another.

    It is a :class:`pyro.infer.SVI` without an optimiser or a loss to choose, and loops written for one run unchanged:
    ``step(batch)`` and ``evaluate_loss(batch)`` return a loss, and ``guide`` has what was learned, for
    :class:`pyro.infer.Predictive`.

    :param seed: of the start.

    >>> import pyro_unsup as pu
    >>> session = pu.StepwiseEM(pu.models.Tagger(tags=2, vocab=2), batch_size=1).session()
    >>> losses = [session.step([sentence]) for sentence in ([0, 1], [0, 1, 1], [1, 0, 1])]
    >>> session.partial_fit([[0, 0, 1]]).result().report.iterations
    4
    """

    def __init__(self, engine: Engine, seed: int = 0) -> None:
        self.engine, self.seed = engine, seed
        self.state: Any = None  # there is none before the first batch
        self._last: Info | None = None

    @property
    def model(self) -> Any:
        """The model that it learns."""
        return self.engine.model

    @property
    def weights(self) -> dict[str, Tensor]:
        """Log-weights by table, as they are now."""
        return self.state.weights  # type: ignore[no-any-return]

    def start(self, *args: Any, **kwargs: Any) -> None:
        """Take a batch without an update. The first one makes the state."""
        self._on(args, kwargs)

    def step(self, *args: Any, **kwargs: Any) -> float:
        """One update from a batch. Returns its loss before the update, as ``SVI.step`` does."""
        self.state, self._last = self.engine.batch_step(self._on(args, kwargs))
        return -self._last.objective

    def evaluate_loss(self, *args: Any, **kwargs: Any) -> float:
        """The loss of the current weights on a batch, without an update."""
        return self.engine.loss(self._on(args, kwargs))

    def partial_fit(self, *args: Any, **kwargs: Any) -> Session:
        """One update from a batch, as scikit-learn calls it. Nothing of the batch is kept."""
        self.step(*args, **kwargs)
        return self

    def guide(self, *args: Any, **kwargs: Any) -> None:
        """The tables as they are now, each a point mass at the site that the model has for it."""
        state = self._on(args, kwargs)
        weights = state.weights
        for name, declaration in state.problem.declarations.items():
            layout = declaration.layout
            value = layout.normalise(weights[name]).exp().to(torch.get_default_dtype())
            value = value if layout.support is None else value[layout.support]
            pyro.sample(name, dist.Delta(value, event_dim=value.dim()))

    def result(self) -> Fit:
        """What has been learned so far."""
        updates = self.engine.updates(self.state)
        found = -math.inf if self._last is None else self._last.log_likelihood
        rows = [Info(updates, found, found)]
        saved, config = self.state.saved(), self.engine.config(self.state)
        return outcome(self.engine, self.state, saved, config, rows, Reason.SO_FAR, updates, 0.0)

    def _on(self, args: Any, kwargs: Any) -> Any:
        """The state on a batch. The first batch makes it."""
        data = (args, kwargs)
        if self.state is None:
            self.state = self.engine.start(data, self.seed)
        else:
            self.state = self.engine.on(self.state, data)
        return self.state

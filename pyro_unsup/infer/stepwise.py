"""Stepwise EM: stochastic approximation in the space of sufficient statistics, a mini-batch at a time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI
from torch import Tensor

from ..errors import FitError
from ..kernels.threads import plain_torch
from ..results import Fit
from .estimation import Estimate
from .init import Initial
from .loop import Callback, Info
from .online import Online
from .outcome import outcome
from .shortcut import Shortcut
from .statistics import expect_parts, refuse
from .streaming import follow


@SVI.register
class StepwiseEM(Online):
    """Online EM that forgets: after every mini-batch, the running counts of all tables move towards its own.

        s   <- expected counts of the mini-batch, summed over its examples
        mu  <- (1 - eta_k) mu + eta_k s,      eta_k = (k + 2)^-power,      k = 0, 1, ... updates

    and the weights are what an estimator makes of mu, which starts as the initial weights, ``mass`` counts a row.
    (Tables are normalised lazily: an update costs what its mini-batch touches. With an estimator that looks at whole
    tables it costs what they hold: :class:`.LogLinear` takes a few L-BFGS steps after each mini-batch, so make those
    large.) With :class:`.DirichletVB` for the estimator this is stochastic variational inference by natural gradients
    [2].

    It is a :class:`pyro.infer.SVI` without an optimiser or a loss to choose, and loops written for one run unchanged:
    ``step(batch)`` and ``evaluate_loss(batch)`` return the negative log-likelihood of the batch as the model scales it,
    and ``guide`` has what was learned, for :class:`pyro.infer.Predictive`.
    A subsampling plate makes each step an estimate of the whole data, as under SVI; otherwise counts are sums over the
    mini-batch, and pseudo-counts compare with those.

    ``run(data)`` takes all examples in a fresh order in every pass; the last mini-batch of a pass may be short, and
    counts by its own size. There pseudo-counts mean what they mean to :class:`.EM`: they are weighed against estimates
    for the whole data. The history has one row a pass, with the log-likelihood accumulated during it (of all data, as
    the weights went along); row 0 is that of the start. It need not rise: stopping early on a ``score`` is part of
    the method.

    :param power: how fast step sizes fall, in (0.5, 1]; 0.5 warns, for convergence needs more.
    :param batch_size: examples in a mini-batch of ``run``.
    :param order_seed: orders the examples; ``run(seed=...)`` makes the initial weights.
    :param schedule: another step size, as a function of k, instead of ``power``.
    :param exact: evaluate the exact log-likelihood after each pass. It is then the objective, and the accumulated one a
        column ``online_log_likelihood`` of the history.

    A few passes, and batch EM from there (the hybrid of [1], 4.2)::

        >>> import pyro_unsup as pu
        >>> data, model = [[0, 1], [0, 1, 1], [1, 0, 1], [0, 0, 1]], pu.models.Tagger(tags=2, vocab=2)
        >>> quick = pu.StepwiseEM(model, batch_size=2).run(data, iterations=5)
        >>> fit = pu.EM(model, init=pu.init.from_weights(quick)).run(data)
        >>> fit.objective > quick.log_likelihood(data)
        True

    In a loop of your own, or on a stream::

        >>> engine = pu.StepwiseEM(pu.models.Tagger(tags=2, vocab=2), batch_size=1)
        >>> losses = [engine.step([sentence]) for sentence in ([0, 1], [0, 1, 1], [1, 0, 1])]
        >>> engine.partial_fit([[0, 0, 1]]).result().report.iterations, round(engine.step_size(0), 3)
        (4, 0.616)
        >>> fit = engine.run_stream(iter([[[0, 1]], [[1, 1]]]), progress=False)
        >>> sorted(engine.weights)
        ['emission', 'start', 'transition']

    **References:**

    [1] P. Liang and D. Klein (2009) "Online EM for unsupervised models".
    [2] M. Hoffman, D. Blei, C. Wang and J. Paisley (2013) "Stochastic variational inference".
    """

    def __init__(
        self,
        model: Callable[..., Any],
        estimate: Estimate | None = None,
        init: Initial | None = None,
        *,
        power: float = 0.7,
        batch_size: int = 100,
        order_seed: int = 0,
        schedule: Callable[[int], float] | None = None,
        mass: float = 1.0,
        exact: bool = False,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__(model, estimate, init, batch_size, order_seed, dtype)
        check_power(power)
        if power == 0.5:
            warnings.warn(
                "power 0.5: Liang & Klein (2009) use it too, but convergence is only guaranteed above 0.5", stacklevel=2
            )
        if not 0 < mass < math.inf:
            raise FitError(f"the mass of the initial counts must be positive and finite, actual {mass}")
        self.power, self.schedule, self.mass, self.exact = power, schedule, mass, exact
        self.updates = 0
        self._found: float | None = None  # log-likelihood accumulated in the last pass, or of the last mini-batch
        self._shortcut: Shortcut | None = None

    # -- one update

    def step(self, *args: Any, **kwargs: Any) -> float:
        """One update from a mini-batch. Returns its loss before the update, as ``SVI.step`` does."""
        self.start(*args, **kwargs)
        self._found = self._update(args, kwargs)
        return -self._found

    def evaluate_loss(self, *args: Any, **kwargs: Any) -> float:
        """The loss of the current weights on a batch, without an update."""
        self.start(*args, **kwargs)
        return -self.marginal.log_marginal(self.statistics.current, args, kwargs)

    def guide(self, *args: Any, **kwargs: Any) -> None:
        """The tables as they are now, each a point mass at the site that the model has for it.

        >>> from pyro import poutine
        >>> import pyro_unsup as pu
        >>> engine = pu.StepwiseEM(pu.models.Tagger(tags=2, vocab=2), batch_size=1)
        >>> loss = engine.step([[0, 1, 1]])
        >>> sorted(poutine.trace(engine.guide).get_trace([[0, 1]]).stochastic_nodes)
        ['emission', 'start', 'transition']
        """
        self.start(*args, **kwargs)
        for name, declaration in self.declarations.items():
            layout = declaration.layout
            value = layout.normalise(self.weights[name]).exp().to(torch.get_default_dtype())
            value = value if layout.support is None else value[layout.support]
            pyro.sample(name, dist.Delta(value, event_dim=value.dim()))

    def partial_fit(self, *args: Any, **kwargs: Any) -> StepwiseEM:
        """One update from a mini-batch, as scikit-learn calls it. Nothing of the batch is kept."""
        self.step(*args, **kwargs)
        return self

    def step_size(self, update: int) -> float:
        """How much the update with this number, from 0, counts."""
        eta = (update + 2) ** -self.power if self.schedule is None else float(self.schedule(update))
        if not 0 <= eta <= 1:
            raise FitError(f"update {update}: a step size must lie in [0, 1], actual {eta}")
        return eta

    def _update(self, args: Any, kwargs: Any) -> float:
        found, parts = expect_parts(self.marginal, self.statistics.current, args, kwargs, self.iteration)
        with plain_torch():
            self.statistics.update(parts, self.step_size(self.updates))
        self.updates, self._stale = self.updates + 1, True
        return found

    # -- a pass

    def look(self) -> Info:
        """What the pass before found, or what the start is worth."""
        found = self._found if self.iteration else None
        scores = {"online_log_likelihood": found} if self.exact and found is not None else {}
        if self.exact or found is None:
            found = self.marginal.log_marginal(self.statistics.current, *self._data)
            refuse(found, self.marginal, self.iteration)
        with plain_torch():
            return Info(self.iteration, found + self._log_prior(), found, scores=scores)

    def move(self) -> None:
        """One pass over the examples, in an order of its own."""
        order = self.examples.order((self.order_seed, self.iteration))
        m, total, at = self.batch_size, 0.0, 0
        while at < len(order):
            if self._shortcut is not None and self.updates > 0:
                found, done = self._shortcut.advance(order[at:], self.step_size, self.updates)
                total, at = total + found, at + done * m
                self.updates, self._stale = self.updates + done, True
            if at < len(order):
                total += self._update(self.examples.select(order[at : at + m]), {})
                at += m
        self._found = total
        self.iteration += 1

    def settled(self, info: Info, tolerance: float) -> bool:
        """Whether two passes found the same. What the first one accumulates tells of the start, so it is not enough."""
        return (self.exact or self.iteration > 1) and super().settled(info, tolerance)

    def _took_data(self) -> None:
        n, m = self.examples.size, self.batch_size
        self.statistics.value(max(1.0, n / m))
        tables = self.statistics.tables if self.statistics.all_additive else None
        self._shortcut = None if tables is None else Shortcut.of(self.model, tables, *self._data, n, m)

    # -- streams

    def run_stream(
        self,
        batches: Iterable[Any],
        *,
        seed: int = 0,
        callbacks: Sequence[Callback] = (),
        progress: bool = True,
        checkpoint: str | PathLike[str] | None = None,
        resume: Fit | None = None,
    ) -> Fit:
        """Learn from mini-batches as they come, as many as there are: memory does not grow with them.

        The history has a row at updates 1, 2, 4, 8, ... and at the end, with the mean log-likelihood of a mini-batch
        since the row before.

        :param batches: each is what the model is called with.
        :param seed: of the start.
        :param callbacks: called with every row; a true answer ends the run.
        :param progress: show how far it is.
        :param checkpoint: a folder in which to keep the fit as it is so far, written every few seconds and at the end.
        :param resume: a fit to go on from; the batches are then those that it has not seen.
        """
        return follow(self, batches, seed, callbacks, progress, checkpoint, resume)

    def result(self) -> Fit:
        """What has been learned so far."""
        found = -math.inf if self._found is None else self._found
        last = Info(self.updates, found, found)
        return outcome(self, [last], "so far", self._state(), seed=self.seed, iterations=self.updates, tolerance=0.0)

    # -- what there is to know, and to keep

    def start(self, *args: Any, seed: int = 0, **kwargs: Any) -> None:
        super().start(*args, seed=seed, **kwargs)
        self._exact = False  # the objective may fall

    def described(self) -> dict[str, Any]:
        """What a fit tells of how it was trained."""
        how = {"power": self.power} if self.schedule is None else {"schedule": repr(self.schedule)}
        own = {name: getattr(self, name) for name in ("batch_size", "order_seed", "mass", "updates")}
        return {**how, **own}

    @property
    def _mass(self) -> float:
        return self.mass

    def _settings(self) -> dict[str, Any]:
        own = ("model", "estimate", "init", "power", "batch_size", "order_seed", "schedule", "mass", "exact", "dtype")
        return {name: getattr(self, name) for name in own}

    def _own_state(self) -> dict[str, Tensor]:
        found = {} if self._found is None else {"found": torch.tensor(self._found, dtype=torch.float64)}
        return {"updates": torch.tensor(self.updates), **found}

    def _restore(self, state: Mapping[str, Tensor]) -> bool:
        odd = next((name for name in ("updates", "found") if name in state and state[name].numel() != 1), None)
        if odd is not None or ("updates" in state and not int(state["updates"]) >= 0):
            raise FitError(f"the fit to go on from holds no number of updates: '{odd or 'updates'}' makes no sense")
        self.updates = int(state["updates"]) if "updates" in state else 0
        self._found = float(state["found"]) if "found" in state else None
        return self.updates > 0


def check_power(power: float) -> None:
    """Raise unless step sizes that fall by this power lead somewhere."""
    if isinstance(power, bool) or not isinstance(power, int | float):
        raise FitError(f"power must be a number in (0.5, 1], actual {power!r:.80}")
    if not 0.5 <= power <= 1:
        raise FitError(
            "power must lie in (0.5, 1], so that step sizes add up to infinity and their squares do not, "
            f"actual {power}"
        )

"""``leave_future_out``: how well a model predicts what comes next, with as few refits as importance weights allow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import UnsupError
from ..infer.progress import progress_bar
from ..models.series import Series
from .arguments import check_mapping, check_model, check_seed, check_whole, own_errors
from .elpd import ROOM, Elpd, Predictive
from .engines import Engine, check_engine, infer
from .psis import GOOD, psis


@own_errors()
def leave_future_out(
    model: Any,
    data: Any,
    engine: Engine,
    *,
    first: int,
    ahead: int = 1,
    threshold: float = GOOD,
    draws: int = 1000,
    seed: int = 0,
    progress: bool | None = None,
    run: Mapping[str, Any] | None = None,
) -> Elpd:
    """The log density of the next observations of a series given all before them, at each time [1].

    The engine runs on the first observations. As time goes on, its draws are weighed by how probable they make what has
    come since (Pareto-smoothed importance sampling). Where the weights get too uneven, k-hat above the threshold, the
    engine runs again on all observations so far.

    :param model: as the engine takes it.
    :param data: one series: as :class:`.models.HMM` takes it, or a tensor whose first axis is time.
    :param engine: ``"nuts"``, ``"vb"``; or a function from the model to an object with ``run(data)``. It has to draw
        from a posterior: a point estimate has no draws to weigh.
    :param first: how many observations the first prediction knows.
    :param ahead: how many observations are predicted together.
    :param threshold: of k-hat. ``-inf`` refits at each time, which is exact and slow.
    :param draws: from a fit, which can give any number.
    :param seed: of the engine.
    :param progress: show a bar; by default where there is a terminal.
    :param run: options of the engine's ``run``; of ``"nuts"``, ``draws`` and ``warmup``.
    :return: :class:`.Elpd` with a row a time: ``time`` (how many observations are known), ``elpd``, ``k``, ``refit``.

    >>> import pyro, pyro.distributions as dist, torch
    >>> import pyro_unsup as pu
    >>> def model(x):
    ...     mean = pyro.sample("mean", dist.Normal(0.0, 10.0))
    ...     with pyro.plate("time", len(x)):
    ...         pyro.sample("x", dist.Normal(mean, 1.0), obs=x)
    >>> class Exact:
    ...     def __init__(self, model):
    ...         pass
    ...     def run(self, x):
    ...         precision = len(x) + 0.01
    ...         return {"mean": dist.Normal(x.sum() / precision, precision**-0.5).sample((1, 1000))}
    >>> x = torch.tensor([0.5, -0.3, 1.1, 0.2, -0.6, 0.4])
    >>> found = pu.leave_future_out(model, x, Exact, first=3, progress=False)
    >>> found.frame["time"].tolist(), bool(found.frame["refit"][0])
    ([3, 4, 5], True)

    **References:** [1] P.-C. Bürkner, J. Gabry and A. Vehtari (2020) "Approximate leave-future-out cross-validation for
    Bayesian time series models".
    """
    import pandas

    check_model("leave_future_out", model)
    check_engine(engine)
    check_whole("draws", draws)
    check_seed(seed)
    check_mapping("run", run, "run={'draws': 500}")
    if not isinstance(threshold, int | float) or math.isnan(threshold):
        raise UnsupError(f"threshold must be a number, as in threshold=0.7, actual {threshold!r:.80}")
    series = _Prefixes(model, data)
    if type(first) is not int or type(ahead) is not int or first < 1 or ahead < 1 or first + ahead > series.size:
        raise UnsupError(
            f"first and ahead must be whole numbers, 1 or more, that leave something to predict of {series.size} "
            f"observations; actual {first!r:.40} and {ahead!r:.40}"
        )
    rows: list[dict[str, Any]] = []
    fitted: _Fitted | None = None
    times = range(first, series.size - ahead + 1)
    for t in progress_bar(times, progress, unit="time"):
        weights, k = (None, np.inf) if fitted is None else fitted.weights(t)
        refit = fitted is None or k > threshold
        if refit:
            known = series.upto(t)
            result = infer(engine, model, (known,), seed + t, run, draws=draws)
            predictive = Predictive(model, result, (known,), draws, seed)
            if predictive.size < 2:
                raise UnsupError(
                    "leave-future-out weighs draws from a posterior, and this engine finds a point: use NUTS, Gibbs "
                    "sampling or variational Bayes; or k_fold"
                )
            fitted = _Fitted(series, predictive, t)
            weights, k = fitted.weights(t)
        assert fitted is not None
        assert weights is not None
        new = fitted.total(t + ahead) - fitted.total(t)
        elpd = float(torch.logsumexp(torch.from_numpy(weights) + new, 0))
        rows.append({"time": t, "elpd": elpd, "k": k, "refit": refit})
    frame = pandas.DataFrame(rows)
    return Elpd(frame, f"leave-future-out, {int(frame['refit'].sum())} refits")


class _Prefixes:
    """The beginnings of a series."""

    def __init__(self, model: Any, data: Any) -> None:
        found = model.index(data) if hasattr(model, "index") else data
        self.indexed = isinstance(found, Series)
        if self.indexed and len(found) != 1:
            raise UnsupError(f"leave-future-out is for one series, actual {len(found)}: use k_fold for several")
        if not self.indexed and not isinstance(found, Tensor):
            raise UnsupError(f"expected a series or a tensor whose first axis is time, actual {type(found).__name__}")
        self.values: Tensor = found.values if self.indexed else found
        self.size = len(self.values)

    def upto(self, t: int) -> Any:
        values = self.values[:t]
        return Series(values, torch.tensor([t])) if self.indexed else values

    def totals(self, predictive: Predictive, times: list[int]) -> Tensor:  # (draws, len(times))
        """The log density of each beginning, draw by draw; several at once, as series of their own."""
        if not self.indexed:
            return torch.stack([predictive.pointwise(self.upto(t)).sum(1) for t in times], 1)
        every = Series(torch.cat([self.values[:t] for t in times]), torch.tensor(times))
        return predictive.pointwise(every)


class _Fitted:
    """A posterior of some beginning, and what it says of longer ones."""

    def __init__(self, series: _Prefixes, predictive: Predictive, since: int) -> None:
        self.series, self.predictive, self.since = series, predictive, since
        self._known: dict[int, Tensor] = {}

    def total(self, t: int) -> Tensor:  # (draws,)
        """log p of the first t observations, of each draw."""
        if t not in self._known:
            many = max(1, min(16, ROOM // max(1, self.predictive.size * self.series.size)))
            times = [s for s in range(t, min(t + many, self.series.size + 1)) if s not in self._known]
            found = self.series.totals(self.predictive, times)
            self._known |= {s: found[:, i] for i, s in enumerate(times)}
        return self._known[t]

    def weights(self, t: int) -> tuple[np.ndarray[Any, Any], float]:  # (draws,)
        """Log weights of the draws at a later time, and their tail index."""
        if t == self.since:
            size = self.predictive.size
            return np.full(size, -np.log(size)), -np.inf
        return psis((self.total(t) - self.total(self.since)).double().numpy())

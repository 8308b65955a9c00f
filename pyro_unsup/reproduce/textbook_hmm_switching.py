"""Markov switching: regressions and autoregressions whose parameters depend on a hidden regime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pyro.distributions as dist
import torch
from torch import Tensor

import pyro_unsup as pu

from .corpora import Corpora
from .experiment import Column, Found, Published, Row, Table
from .textbook_hmm_tools import doubles, logs, maximum

Given = Mapping[str, Tensor]


def steps(p: Given, drivers: Tensor | None = None) -> Tensor:  # (K, K), or (T, K, K) with drivers (T, D)
    """Log-probabilities of moves: a matrix, or logits of a move to regime 0 that follow from drivers."""
    if drivers is None:
        return logs(p["gamma"])
    logits = drivers @ p["logits"].mT  # (T, 2)
    return torch.stack([torch.nn.functional.logsigmoid(logits), torch.nn.functional.logsigmoid(-logits)], -1)


def regression(y: Tensor, x: Tensor, p: Given) -> pu.Chain:
    """A regression with coefficients (K, D) for each regime. The first regime follows the stationary law."""
    moves = steps(p)
    emission = dist.Normal(x @ p["coefficients"].mT, p["scale"])  # (T, K)
    return pu.Chain(pu.stationary(moves), moves, emission, len(y))


def autoregression(y: Tensor, drivers: Tensor | None, p: Given) -> pu.Chain:
    """Hamilton's form, ``y_t - mu(S_t) = sum_j phi_j (y_(t-j) - mu(S_(t-j))) + e``, as a chain over the last regimes.

    A state is the regimes at t, t - 1, ..., t - order. The first ``order`` values are given; the regime of the first of
    them follows the stationary law.

    :param y: (T,).
    :param drivers: (T, D), if the moves vary.
    :param p: ``mu`` (2,), ``phi`` (order,) or (2, order), ``log_sigma`` (), and ``gamma`` or ``logits``.
    """
    phi = p["phi"] if p["phi"].dim() == 2 else p["phi"].expand(2, -1)
    order = phi.shape[1]
    regimes = torch.tensor(list(product(range(2), repeat=order + 1)))  # (states, order + 1)
    follows = (regimes[:, None, :-1] == regimes[None, :, 1:]).all(-1)  # (old, new)
    moves = steps(p, drivers)
    each = moves if drivers is not None else moves.expand(len(y), 2, 2)
    now, before = regimes[:, 0], regimes[:, 1]
    wide = each[order:][:, before, now].unsqueeze(1).masked_fill(~follows, -torch.inf)  # (T - order, old, new)
    start = pu.stationary(each[0])[regimes[:, order]]
    for j in range(order):  # from the oldest regime to that of now
        start = start + each[j + 1, regimes[:, order - j], regimes[:, order - j - 1]]
    away = y.unfold(0, order + 1, 1).flip(-1).unsqueeze(1) - p["mu"][regimes]  # (T - order, states, order + 1)
    mean = p["mu"][now] + (phi[now] * away[..., 1:]).sum(-1)
    emission = dist.Normal(mean, p["log_sigma"].exp())
    if drivers is None:
        return pu.Chain(start, wide[0], emission, len(y) - order)
    return pu.Chain(start, wide, emission, len(y) - order, by_step=True)


@dataclass(frozen=True)
class Case:
    """A published example.

    :param corpus: that it is of.
    :param given: the published parameters.
    :param log_likelihood: published.
    :param column: of the series.
    :param skip: rows at the beginning that are left out.
    :param regressors: names of columns; ``1`` is a constant, ``lag`` the value before. None for an autoregression.
    :param drivers: the column that drives the moves, and how many rows before.
    :param maximise: whether to search for the maximum from there.
    """

    corpus: str
    given: Mapping[str, Any]
    log_likelihood: float
    column: str
    skip: int = 0
    regressors: tuple[str, ...] | None = None
    drivers: tuple[str, int] | None = None
    maximise: bool = True
    also: Mapping[str, Published] = field(default_factory=dict)


def stay(p00: float, p10: float) -> list[list[float]]:
    return [[p00, 1 - p00], [p10, 1 - p10]]


CASES = {
    "GNP, AR(4), switching mean": Case(
        "gnp",
        {"gamma": stay(0.754673, 0.095915), "mu": (-0.358811, 1.163516),
         "phi": (0.013486, -0.057521, -0.246983, -0.212923), "log_sigma": -0.262658},
        -181.26339, "growth", also={"first": 0.776712, "last": 0.927714, "smoothed": 0.968096},
    ),
    "GNP, AR(2), mean and phi switching": Case(
        "gnp",
        {"gamma": stay(0.3812383, 0.3564492), "mu": (-0.0055216, 1.195482),
         "phi": ((0.3710719, 0.7002937), (0.4621503, -0.3206652)), "log_sigma": np.log(0.6677098)},
        -179.32354, "growth", maximise=False,
    ),
    "GNP, AR(1), mean and phi switching": Case(
        "gnp",
        {"gamma": stay(0.85472458, 0.53662099), "mu": (1.041419, -0.479157), "phi": ((0.243128,), (0.713029,)),
         "log_sigma": -0.231404},
        -186.7575, "growth",
    ),
    "GNP, AR(1), moves driven by recession": Case(
        "gnp",
        {"logits": ((6.564923, -8.064123), (7.846371, -15.37636)), "mu": (1.027190, -0.719760),
         "phi": ((0.161489,), (0.022536,)), "log_sigma": -0.217003},
        -163.914049, "growth", drivers=("recession", 0), maximise=False,
    ),
    "fedfunds, constant": Case(
        "fedfunds",
        {"gamma": stay(0.9820939, 0.0503587), "coefficients": ((3.70877,), (9.556793,)), "scale": 2.107562},
        -508.63592, "fedfunds", regressors=("1",),
    ),
    "fedfunds, constant and lag": Case(
        "fedfunds",
        {"gamma": stay(0.6378175, 0.1306295), "coefficients": ((0.724457, 0.7631424), (-0.0988764, 1.061174)),
         "scale": 0.6915759},
        -264.71069, "fedfunds", 1, ("1", "lag"),
    ),
    "fedfunds, lag, output gap, inflation": Case(
        "fedfunds",
        {"gamma": stay(0.7279288, 0.2114578), "scale": 0.5764495,
         "coefficients": ((0.6554954, 0.8314458, 0.1355425, -0.0273928),
                          (-0.0944924, 0.9292574, 0.0343072, 0.2125275))},
        -229.25614, "fedfunds", 4, ("1", "lag", "ogap", "inflation"),
    ),
    "fedfunds, the same, 3 regimes": Case(
        "fedfunds",
        {"gamma": [[0.7253684, 0.2564055, 1 - 0.9817739], [0.1641252, 0.7994204, 1 - 0.9635456],
                   [0.6178282, 0.3821718, 0.0]], "scale": 0.438375,
         "coefficients": ((0.5261292, 0.8464551, 0.1201952, -0.0425603), (-0.0034106, 0.9690088, 0.0464136, 0.1298906),
                          (0.6015991, 0.4178913, 0.1075357, 0.9099168))},
        -189.89493, "fedfunds", 4, ("1", "lag", "ogap", "inflation"), maximise=False,
    ),
    "areturns, lag, variance switching": Case(
        "areturns",
        {"gamma": stay(0.7530865, 0.6825357), "coefficients": ((0.7641424, 0.0790744), (1.972771, 0.527953)),
         "scale": (0.5895792, 1.605333)},
        -745.7977, "areturns", 1, ("1", "lag"),
    ),
    "mumps, lag without constant, variance switching": Case(
        "mumps",
        {"gamma": stay(0.762733, 0.1473767), "coefficients": ((0.420275,), (0.9847369,)),
         "scale": (0.0562405, 0.2611362)},
        131.7225, "mumpspc", 1, ("lag",),
    ),
    "filardo, AR(4), moves driven by the leading index": Case(
        "filardo",
        {"logits": ((4.35941747, 1.7702123), (-1.6493936, 0.9945672)), "mu": (0.517298, -0.865888),
         "phi": (0.189474, 0.079344, 0.110944, 0.122251), "log_sigma": -0.362469},
        -586.5718, "dlip", 1, drivers=("dmdlleading", 1), maximise=False,
    ),
}  # fmt: skip


def data(corpora: Corpora, case: Case) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The series, its regressors (T, D), and what drives the moves (T, 2), a constant first."""
    table = corpora[case.corpus]

    def column(name: str, lag: int = 0) -> Tensor:
        values = torch.as_tensor(table[name].astype(np.float64))
        return values[case.skip - lag : len(values) - lag]

    y = column(case.column)
    ones = torch.ones_like(y)
    if case.regressors is not None:
        made = {"1": ones, "lag": column(case.column, 1) if case.skip else ones}
        return y, torch.stack([made[name] if name in made else column(name) for name in case.regressors], -1), None
    return y, None, torch.stack([ones, column(*case.drivers)], -1) if case.drivers else None


def run(name: str, corpora: Corpora, seed: int, small: bool) -> Found:
    case = CASES[name]
    y, x, drivers = data(corpora, case)
    build = partial(autoregression, y, drivers) if x is None else partial(regression, y, x)
    given = doubles(case.given)
    chain = build(given)
    value = y[len(y) - chain.event_shape[0] :]
    posterior, found = chain.posterior(value), {"given": float(chain.log_prob(value).sum())}
    if x is None:  # the later half of the states has regime 1 now
        half = chain.sizes["K"] // 2
        filtered, smoothed = (p[:, half:].sum(-1) for p in (posterior.filtered, posterior.smoothed))
        found |= {"first": float(filtered[0]), "last": float(filtered[-1]), "smoothed": float(smoothed[0])}
        if case.also:
            calls = torch.as_tensor(corpora[case.corpus]["recession"][len(y) - len(value) :] == 1)
            found["agree"] = int(((smoothed < 0.5) == calls).sum())
    if case.maximise and not small:
        found["maximum"] = maximum(build, case.given, value)[0]
    return found


COLUMNS = (
    Column("given", "l at the published values", 5),
    Column("maximum", "l maximised from there", 5),
    Column("first", "P(regime 1), first filtered", 6),
    Column("last", "last filtered", 6),
    Column("smoothed", "first smoothed", 6),
    Column("agree", "quarters as NBER calls them", 0),
)


def _published(case: Case) -> dict[str, Published]:
    found: dict[str, Published] = {"given": case.log_likelihood, **case.also}
    return {**found, "maximum": case.log_likelihood} if case.maximise else found


SWITCHING = Table(
    "switching",
    "Markov switching: GNP, interest rates, returns, mumps, industrial production",
    "Published by EViews and Stata, as the tests of statsmodels quote them. An autoregression with a switching mean is "
    "a chain over the last order + 1 regimes. Quarters that agree with the calls of recessions are ours only.",
    COLUMNS,
    tuple(Row(name, partial(run, name), (case.corpus,), _published(case), 1) for name, case in CASES.items()),
    minutes=1,
    bars=(),
)
TABLES = (SWITCHING,)

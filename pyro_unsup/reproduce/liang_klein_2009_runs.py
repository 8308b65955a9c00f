"""Stepwise EM, looked at on its way."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyro_unsup as pu

from ..infer.select import BATCH_SIZES, POWERS
from .experiment import Column, Curve, Found, Published, Row, Run, Table

SMALL_SIZES = (10, 100)
LOG_LIKELIHOOD = "log-likelihood a token"


def online(model: Any, power: float, m: int, init: pu.infer.Initial) -> pu.StepwiseEM:
    """Stepwise EM; the paper's grid has powers down to 0.5, which warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pu.infer.SlowForgetting)
        return pu.StepwiseEM(model, init=init, power=power, batch_size=m)


def along(
    engine: pu.EM | pu.StepwiseEM,
    data: Any,
    at: Sequence[int],
    judge: Callable[[pu.Fit], Found],
    seed: int = 0,
    order: int | None = None,
) -> dict[int, Found]:
    """What a judge says of one run, by the number of passes or iterations there have been.

    :param seed: of the start.
    :param order: of examples, where there is one; by default the seed of the start is that of the order, too.
    """
    orders = {"order_seed": seed if order is None else order} if isinstance(engine, pu.StepwiseEM) else {}
    seeds: dict[str, Any] = {"seed": seed, **orders}
    found, fit = {}, None
    for passes in at:
        fit = engine.run(data, iterations=passes, tolerance=0.0, progress=False, resume=fit, **seeds)
        found[passes] = judge(fit)
    return found


def told(by_passes: dict[int, Found], score: str) -> Found:
    """What there was at the end; the score after 1, 2, 5 and 20 passes; and curves of score and likelihood."""
    return {
        **by_passes[max(by_passes)],
        **{f"after_{passes}": by_passes[passes][score] for passes in (1, 2, 5, 20) if passes in by_passes},
        "passes": max(by_passes),
        "score": [(passes, one[score]) for passes, one in by_passes.items()],
        "likelihood": [(passes, one["log_likelihood"]) for passes, one in by_passes.items()],
    }


# -- all settings of the paper's grid


def settings(model: Any, data: Any, power: float, score: str, small: bool) -> Found:
    """Score and log-likelihood a token of stepwise EM with all sizes of mini-batches."""
    tried = pu.select_steps(
        model,
        data,
        powers=[power],
        batch_sizes=SMALL_SIZES if small else BATCH_SIZES,
        iterations=2 if small else 20,
        init=pu.init.noise(1e-3),
        score=lambda fit: 100 * fit.evaluate(data)[score],
        processes=1,
        progress=False,
    )
    good = {row["batch_size"]: row for row in tried.rows if math.isfinite(row["log_likelihood"])}
    likelihood = {m: row["log_likelihood"] / data.tokens for m, row in good.items()}
    best = max(likelihood, key=likelihood.__getitem__)
    return {
        **{f"{m}": f"{row['score']:.1f} / {likelihood[m]:.3f}" for m, row in good.items()},
        "best": best,
        "log_likelihood": likelihood[best],
        "score": [(m, row["score"]) for m, row in good.items()],
        "likelihood": list(likelihood.items()),
    }


def chosen(found: Mapping[str, Found]) -> dict[str, Found]:
    """Which setting has the highest likelihood."""
    best = max(found, key=lambda row: float(found[row]["log_likelihood"]))
    return {best: {"chosen": f"m = {found[best]['best']:,}"}}


def grid(
    name: str,
    title: str,
    about: str,
    run: Callable[[float], Run],
    needs: tuple[str, ...],
    minutes: float,
    published: Mapping[float, tuple[Sequence[float], Sequence[float]]] | None = None,
) -> Table:
    """A table of all settings.

    :param run: makes that of a power.
    :param published: scores and log-likelihoods by power, from the smallest mini-batches to the largest.
    """

    def paper(power: float) -> dict[str, Published]:
        both = zip(*(published or {}).get(power, ((), ())), strict=True)
        return {f"{m}": f"{score:.1f} / {x:.3f}" for m, (score, x) in zip(BATCH_SIZES, both, strict=False)}

    return Table(
        name,
        title,
        "Accuracy / log-likelihood a token after 20 passes of stepwise EM from noise of 0.001, one run a setting: "
        "powers by rows, sizes of mini-batches by columns. The last column has the setting that likelihood chooses. "
        + about,
        (*(Column(f"{m}", f"{m:,}") for m in BATCH_SIZES), Column("chosen", "chosen")),
        tuple(Row(f"power {power:g}", run(power), needs, paper(power), trials=1) for power in POWERS),
        minutes,
        chosen,
        curves=(
            Curve("score", "examples in a mini-batch", "accuracy, %", log=True),
            Curve("likelihood", "examples in a mini-batch", LOG_LIKELIHOOD, log=True),
        ),
    )

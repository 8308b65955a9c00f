"""Words in phonemes and in Chinese characters: EM, stepwise EM, and annealing."""

from __future__ import annotations

import itertools
from functools import cache, partial

import numpy as np

import pyro_unsup as pu

from ..models import Segmenter
from .corpora import Corpora
from .experiment import Column, Curve, Found, Published, Row, Table
from .liang_klein_2009_runs import along, online

SMALL = 300  # utterances
LONGEST = {"speech": 10, "sinica": 5}
PENALTY = {"speech": 1.6, "sinica": 2.5}
#: Updates of EM after which to look. The paper's iteration 20 is after 19, the rest shows where EM goes from there.
TWENTIETH = 19
UPDATES = (1, 2, 4, 9, 14, TWENTIETH, 20, 29, 39, 49, 74, 99, 100, 300)
PASSES = (1, 2, 3, 5, 10, 20)
SEEDS = 5  # of starts, and of orders


@cache
def text(corpora: Corpora, language: str, small: bool) -> pu.data.Segmented:
    whole: pu.data.Segmented = corpora[language]
    return whole.select(np.arange(SMALL)) if small else whole


@cache
def segmenter(corpora: Corpora, language: str, small: bool) -> Segmenter:
    """All substrings up to a length."""
    return Segmenter.of(text(corpora, language, small), max_length=LONGEST[language], penalty=PENALTY[language])


def judged(words: pu.data.Segmented, fit: pu.Fit) -> Found:
    found = fit.evaluate(words)
    return {
        "log_likelihood": found["loglik_per_token"],
        **{name: 100 * value for name, value in found.items() if name.endswith("f1")},
    }


def in_batch(language: str, corpora: Corpora, seed: int, small: bool) -> Found:
    """EM from the uniform start, in which nothing is symmetric that noise would have to break."""
    words = text(corpora, language, small)
    engine = pu.EM(segmenter(corpora, language, small), init=pu.init.uniform())
    found = along(engine, words, UPDATES[: 6 if small else None], partial(judged, words))
    return {**found[TWENTIETH], **_converged(found[max(found)]), "e_steps": TWENTIETH + 1, **_curves([found])}


def _converged(found: Found) -> Found:
    return {"converged": found["token_f1"], "converged_likelihood": found["log_likelihood"]}


def _curves(runs: list[dict[int, Found]]) -> Found:
    """Means over runs, by passes."""
    return {
        name: [(passes, float(np.mean([run[passes][key] for run in runs]))) for passes in runs[0]]
        for name, key in (("score", "token_f1"), ("likelihood", "log_likelihood"))
    }


def stepwise(language: str, power: float, m: int, corpora: Corpora, seed: int, small: bool) -> Found:
    """All starts by all orders, and which of them makes how much of a difference."""
    words, model = text(corpora, language, small), segmenter(corpora, language, small)
    runs = {}
    for start, order in itertools.product(range(2 if small else SEEDS), repeat=2):
        engine = online(model, power, m, pu.init.noise(1e-3))
        runs[start, order] = along(engine, words, PASSES[: 2 if small else None], partial(judged, words), start, order)
    last = max(PASSES[: 2 if small else None])
    f1 = {pair: run[last]["token_f1"] for pair, run in runs.items()}
    parts = pu.evaluate.seed_variance(f1)
    return {
        "token_f1": parts.mean,
        "log_likelihood": float(np.mean([run[last]["log_likelihood"] for run in runs.values()])),
        "start": parts.initial,
        "order": parts.order,
        "lowest": min(f1.values()),
        "highest": max(f1.values()),
        "e_steps": last,
        "runs": [{"start": start, "order": order, "by_passes": run} for (start, order), run in runs.items()],
        **_curves(list(runs.values())),
    }


def annealing(beta: float, rise: float, corpora: Corpora, seed: int, small: bool) -> Found:
    """From the uniform start; when beta arrives at 1, and when EM has then converged."""
    words = text(corpora, "speech", small)
    schedule = pu.schedules.geometric(beta, 10.0 if small else rise)
    engine = pu.Anneal(segmenter(corpora, "speech", small), init=pu.init.uniform(), schedule=schedule, jitter=0.0)
    fit = engine.run(words, tolerance=1e-5, callbacks=[lambda info: info.beta == 1.0], progress=False)
    found = judged(words, fit)
    rest = engine.run(words, tolerance=1e-7, progress=False)
    return {**found, **_converged(judged(words, rest)), "e_steps": len(fit.rows)}


def _steps(language: str, title: str, power: float, m: int, **paper: Published) -> Row:
    return Row(f"{title}, stepwise EM ({power:g}, {m})", partial(stepwise, language, power, m), (language,), paper,
               trials=1)  # fmt: skip


SEGMENTATION = Table(
    "segmentation",
    "Tables 1 and 2, figures 1(c) and 1(d): words",
    "A unigram model with a penalty for long words: all substrings of up to 10 phonemes, exponent 1.6, in the "
    "child-directed speech of the paper, 9,790 utterances; up to 5 characters, exponent 2.5, in Chinese of Academia "
    "Sinica, 14,429 lines of another part than the paper's 100,000. F1 of tokens, log-likelihood a phoneme or "
    "character. EM starts from uniform tables and is looked at where the paper does (its 20th iteration is after 19 "
    "updates), and after 300 updates (converged). Stepwise EM has 20 passes from five starts (noise of 0.001) by five "
    "orders: mean, deviations due to start and to order as in the paper's Table 2 (by n, so that squares add up), "
    "lowest and highest. (0.7, 1000) and (0.6, 10000) are what the paper chose by likelihood, (1, 100) and (1, 10000) "
    "by score, one run of each. Annealing is not in the paper: EM to a relative change of 1e-5 at each beta, looked "
    "at when beta arrives at 1, and converged, to 1e-7.",
    (
        Column("token_f1", "F1", 2),
        Column("log_likelihood", "log-likelihood", 3),
        Column("start", "due to start", 2),
        Column("order", "due to order", 2),
        Column("lowest", "lowest", 2),
        Column("highest", "highest", 2),
        Column("e_steps", "passes", 0),
        Column("converged", "converged", 2),
        Column("converged_likelihood", "log-likelihood, converged", 3),
    ),
    (
        Row("English, EM", partial(in_batch, "speech"), ("speech",), {"token_f1": 80.5, "log_likelihood": -4.11},
            trials=1),
        _steps("speech", "English", 0.7, 1000, token_f1=81.0, start=0.0, order=0.42, log_likelihood=-4.1),
        _steps("speech", "English", 1.0, 100, token_f1=83.5),
        Row("Chinese, EM", partial(in_batch, "sinica"), ("sinica",), {"token_f1": 78.2, "log_likelihood": -7.27},
            trials=1),
        _steps("sinica", "Chinese", 0.6, 10_000, token_f1=77.2, start=0.0, order=0.04, log_likelihood=-7.27),
        _steps("sinica", "Chinese", 1.0, 10_000, token_f1=78.1),
        *(Row(f"English, annealing from {beta:g}, beta x {rise:g}", partial(annealing, beta, rise), ("speech",),
              trials=1)
          for beta in (0.01, 0.1) for rise in (1.2, 1.5)),
    ),
    minutes=8,
    bars=("token_f1",),
    curves=(Curve("score", "passes", "F1 of tokens, %", log=True),
            Curve("likelihood", "passes", "log-likelihood a symbol", log=True)),
)  # fmt: skip

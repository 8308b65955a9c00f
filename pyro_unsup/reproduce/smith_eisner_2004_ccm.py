"""EM, annealing (DA) and annealing toward random splits (SDA) for the constituent-context model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

import pyro_unsup as pu

from ..data import bracket_rows, short_tag_sequences
from ..evaluate import left_branching, random_parts, right_branching, upper_bound
from ..evaluate.parsing import bracket_counts
from ..evaluate.significance import sign_test_tokens
from ..models import CCM
from ..tasks import find
from ..tasks.decoding.ccm import decode
from .corpora import Corpora
from .experiment import Column, Found, Published, Row, Table

scores = find("ccm").scores

SMOOTHING = ((0.1, 0.1), (0.5, 2.0), (2.0, 8.0))
METHODS = ("EM (uniform)", "DA", "EM (split)", "SDA (split)")
START = {"DA": "EM (uniform)", "SDA (split)": "EM (split)"}  # EM from the same start
TOLERANCE = {10: 1e-9, 20: 1e-7}  # relative change of the objective, by the longest sentence
SMALL = 60  # sentences
SAME = 1e-6  # two objectives that differ by less, relatively, are called the same


@cache
def text(corpora: Corpora, longest: int, small: bool) -> pu.data.Corpus:
    """Tags of short sentences without punctuation."""
    corpus = short_tag_sequences(corpora["wsj"], longest)
    return corpus.select(np.arange(SMALL)).compact() if small else corpus


def engine(
    corpus: pu.data.Corpus, variant: int, smoothing: tuple[float, float], method: str, factor: float = 1.5
) -> pu.EM:
    """EM or annealing of a model that has the yields and contexts of this text.

    :param factor: by which beta rises.
    """
    estimate = pu.DirichletMAP()
    ccm = CCM.of(corpus, variant=variant, prior=(1 + smoothing[0], 1 + smoothing[1]))
    start: Any = (ccm.split_start if "split" in method else ccm.uniform_start)(corpus, estimate=estimate)
    if method.startswith("EM"):
        return pu.EM(ccm, estimate, start)
    toward = "split" if method.startswith("SDA") else None
    return pu.Anneal(ccm, estimate, start, schedule=pu.schedules.geometric(0.01, factor), toward=toward, jitter=0)


def limits(longest: int, small: bool) -> dict[str, Any]:
    """How long to run."""
    return {"iterations": 100_000, "tolerance": 1e-3 if small else TOLERANCE[longest], "progress": False}


def percent(found: Mapping[str, float]) -> Found:
    return {key: 100 * x if key.startswith(("recall", "precision", "f1")) else x for key, x in found.items()}


def baseline(trees: str, longest: int, corpora: Corpora, seed: int, small: bool) -> Found:
    corpus = text(corpora, longest, small)
    gold = bracket_rows(corpus)
    brackets: dict[str, Callable[[], Any]] = {
        "right-branching": lambda: right_branching(corpus.lengths),
        "left-branching": lambda: left_branching(corpus.lengths),
        "upper bound": lambda: upper_bound(gold, corpus.lengths),
    }
    return percent(pu.evaluate.bracket_scores(gold, brackets[trees](), corpus.lengths))


def induce(
    variant: int,
    smoothing: tuple[float, float],
    method: str,
    longest: int,
    corpora: Corpora,
    seed: int,
    small: bool,
    factor: float = 1.5,
) -> Found:
    """Learn from a text, and parse it."""
    corpus = text(corpora, longest, small)
    fit = engine(corpus, variant, smoothing, method, factor).run(corpus, **limits(longest, small))
    decoded = decode(fit, corpus)
    counts = bracket_counts(bracket_rows(corpus), decoded.brackets, corpus.lengths)
    return {
        **percent(scores(fit, corpus, decoded)),
        "e_steps": len(fit.rows),
        "objective": fit.objective,
        "matched_by_sentence": counts.matched,
        "crossing_by_sentence": counts.crossing,
    }


def name_of(variant: int, smoothing: tuple[float, float], method: str) -> str:
    return f"model {variant}, {smoothing[0]:g} / {smoothing[1]:g}, {method}"


def beside(found: Mapping[str, Found]) -> dict[str, Found]:
    """How much higher annealing ends than EM from the same start; and sign tests against EM from random splits."""
    added: dict[str, Found] = {}
    for name, one in found.items():
        settings, _, method = name.rpartition(", ")
        em, split = (found.get(f"{settings}, {other}") for other in (START.get(method), "EM (split)"))
        extra: Found = {}
        if em is not None:
            over = one["objective"] - em["objective"]
            extra["over"] = f"{over:+.1f}" if abs(over) > SAME * abs(one["objective"]) else "the same"
        if split is not None and split is not one and "e_steps" in one:
            for key, sign in (("matched", 1), ("crossing", -1)):
                lead = sign * (np.array(one[f"{key}_by_sentence"]) - split[f"{key}_by_sentence"])
                # A sentence is right for whoever is not behind on it.
                test = sign_test_tokens(np.zeros_like(lead), (lead < 0).astype(int), (lead > 0).astype(int))
                extra[f"{key}_test"] = f"{test.wins} : {test.losses}, {max(test.p_value, 1e-99):.1g}"
        added[name] = extra
    return added


def _paper(variant: int, method: str) -> dict[str, Published]:
    return dict(zip(("e_steps", "bits_per_tag", "recall", "precision", "f1", "crossing"), TABLE_2[variant, method],
                    strict=True))  # fmt: skip


TABLE_2: dict[tuple[int, str], tuple[float, ...]] = {
    (1, "EM (uniform)"): (146, 103.1654, 61.20, 45.62, 52.27, 1.69),
    (1, "DA"): (403, 103.1542, 55.13, 41.10, 47.09, 1.91),
    (1, "EM (split)"): (124, 103.1951, 78.14, 58.24, 66.74, 0.98),
    (1, "SDA (split)"): (339, 103.1651, 62.71, 46.75, 53.57, 1.62),
    (2, "EM (uniform)"): (26, 84.8106, 57.60, 42.94, 49.20, 1.86),
    (2, "DA"): (331, 84.7899, 40.81, 30.42, 34.86, 2.66),
    (2, "EM (split)"): (44, 84.8049, 78.56, 58.56, 67.10, 0.98),
    (2, "SDA (split)"): (290, 84.7940, 79.64, 59.37, 68.03, 0.93),
}
COLUMNS = (
    Column("e_steps", "E steps", 0),
    Column("bits_per_tag", "bits a tag", 4),
    Column("recall", "UR", 2),
    Column("precision", "UP", 2),
    Column("f1", "F", 2),
    Column("crossing", "CB", 2),
)
ABOUT = (
    "The WSJ sample without punctuation, tags in the place of words. Smoothing: pseudo-counts for constituents / "
    "distituents, in every M step and in the start. DA runs from the uniform start, of which nothing is left at beta "
    "= 0.01; SDA from the split start and toward the split distribution. Betas 0.01, 0.015, ..., 0.865, 1. Scores are "
    "of the text learned from, by Viterbi: UR, UP and F over all brackets but single tags and whole sentences, CB "
    "crossing brackets a sentence. Objective (log-likelihood and log prior, in nats) is how much higher annealing "
    "ends than EM from the same start. The last two columns are sign tests against EM (split) with the same model and "
    "smoothing: sentences with more : fewer gold brackets and p, sentences with fewer : more crossing brackets and p. "
)


def _learned(name: str, title: str, about: str, longest: int, minutes: float) -> Table:
    return Table(
        name,
        title,
        ABOUT + about,
        (*COLUMNS, Column("over", "objective"), Column("matched_test", "matches"),
         Column("crossing_test", "crossings")),
        (
            *(Row(trees, partial(baseline, trees, longest), ("wsj",), trials=1)
              for trees in ("right-branching", "left-branching", "upper bound")),
            *(
                Row(name_of(variant, smoothing, method), partial(induce, variant, smoothing, method, longest), ("wsj",),
                    _paper(variant, method) if longest == 10 else {}, trials=1)
                for variant in (1, 2)
                for smoothing in SMOOTHING
                for method in METHODS
            ),
        ),
        minutes,
        beside,
        bars=("f1", "crossing"),
    )  # fmt: skip


SHORT = _learned(
    "ccm",
    "Table 2: constituents of sentences of at most 10 tags, EM, DA and SDA",
    "The paper learns from 7,519 sentences of the whole WSJ, we from 555, to a relative change of 1e-9. It does not "
    "say how it smooths, so its figures are beside all of ours; bits compare within one model and one corpus only.",
    10,
    minutes=3,
)
LONG = _learned(
    "ccm-longer",
    "Table 2 on longer sentences: at most 20 tags",
    "The paper has no sentences of this length: 2,036 of them, to a relative change of 1e-7.",
    20,
    minutes=20,
)

# -- how fast beta rises


def over_em(found: Mapping[str, Found]) -> dict[str, Found]:
    added = {}
    for name, one in found.items():
        model, method, *_ = name.split(", ")
        em = found.get(f"{model}, {START.get(method)}")
        if em is not None:
            added[name] = {"over": f"{one['objective'] - em['objective']:+.1f}"}
    return added


def _schedule(variant: int, method: str, factor: float | None) -> Row:
    name = f"model {variant}, {method}" + ("" if factor is None else f", beta x {factor:g}")
    run = partial(induce, variant, (0.5, 2.0), method, 10, factor=factor or 1.5)
    return Row(name, run, ("wsj",), trials=1)


SCHEDULES = Table(
    "ccm-schedules",
    "Table 2 by other schedules: how fast beta rises",
    "At most 10 tags, smoothing 0.5 / 2, all else as for Table 2. The paper has a factor of 1.5.",
    (*COLUMNS, Column("over", "objective")),
    tuple(
        _schedule(variant, method, factor)
        for variant in (1, 2)
        for annealed, em in START.items()
        for method, factor in ((em, None), *((annealed, factor) for factor in (1.5, 1.3, 1.15, 1.05)))
    ),
    minutes=4,
    compare=over_em,
    bars=("f1", "e_steps"),
)

# -- parts of the text


def learn_parts(
    variant: int, smoothing: tuple[float, float], method: str, corpora: Corpora, seed: int, small: bool
) -> Found:
    """F on one of ten parts, and on all but that one, each after learning from it."""
    corpus = text(corpora, 10, small)
    part = random_parts(len(corpus), 10)[seed]
    found = {}
    for name, mine in (("part", part), ("rest", np.setdiff1d(np.arange(len(corpus)), part))):
        some = corpus.select(mine)
        fit = engine(some, variant, smoothing, method).run(some, seed=seed, **limits(10, small))
        found[name] = 100 * fit.evaluate(some)["f1"]
    return found


TABLE_3: dict[tuple[int, str], dict[str, Published]] = {
    (1, "EM (split)"): {"part": (65.00, 1.091), "rest": (66.12, 0.6643)},
    (1, "SDA (split)"): {"part": (63.00, 4.689), "rest": (53.53, 0.2135)},
    (2, "EM (split)"): {"part": (66.74, 1.402), "rest": (67.24, 0.7077)},
    (2, "SDA (split)"): {"part": (66.77, 1.034), "rest": (68.07, 0.1193)},
}
TRIALS = Table(
    "ccm-parts",
    "Table 3: constituents, ten parts of the text and ten times all but one",
    "At most 10 tags, F on the text learned from: ten random parts of 55 or 56 sentences each (in the paper 752), and "
    "ten times all parts but one. The rest as for Table 2.",
    (Column("part", "F, 10%", 2), Column("rest", "F, 90%", 2)),
    tuple(
        Row(name_of(variant, smoothing, method), partial(learn_parts, variant, smoothing, method), ("wsj",),
            TABLE_3[variant, method], trials=10)
        for variant in (1, 2)
        for smoothing in SMOOTHING
        for method in ("EM (split)", "SDA (split)")
    ),
    minutes=4,
)  # fmt: skip

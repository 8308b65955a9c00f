"""What was published of series of measurements, beside :mod:`.textbook_hmm_measures`."""

from __future__ import annotations

from functools import partial

from .experiment import Column, Published, Row, Table
from .textbook_hmm_measures import (
    chorales,
    geyser_fit,
    long_or_short,
    one_normal,
    speed_fit,
    speed_given,
    stocks,
    umbrella,
    weather,
    wind,
)
from .textbook_hmm_tools import CRITERIA, NLL

GEYSER = {  # series, states, independent: -l, AIC, BIC
    ("duration", 2, False): (1168.955, 2349.9, 2372.1),
    ("duration", 3, False): (1127.185, 2278.4, 2322.8),
    ("duration", 4, False): (1109.147, 2258.3, 2332.3),
    ("duration", 2, True): (1230.920, 2471.8, 2490.3),
    ("duration", 3, True): (1203.872, 2423.7, 2453.3),
    ("duration", 4, True): (1203.636, 2429.3, 2470.0),
    ("waiting", 2, False): (1092.794, 2197.6, 2219.8),
    ("waiting", 3, False): (1051.138, 2126.3, 2170.7),
    ("waiting", 4, False): (1038.600, 2117.2, 2191.2),
}
TRUTH = {
    ("duration", 3, False): "mu 1.894 3.400 4.459; sigma .139 .841 .320; gamma 0 0 1 / .053 .113 .834 / .546 .337 .117",
    (
        "waiting",
        3,
        False,
    ): "mu 55.30 75.30 84.93; sigma 5.809 3.808 5.433; gamma 0 0 1 / .298 .575 .127 / .662 .276 .062",
}


def _published(key: tuple[str, int, bool], values: tuple[float, ...]) -> dict[str, Published]:
    found: dict[str, Published] = dict(zip(("nll", "aic", "bic"), values, strict=True))
    return {**found, "estimates": TRUTH[key]} if key in TRUTH else found


OLD_FAITHFUL = Table(
    "geyser",
    "Old Faithful: normal states of which intervals are seen; long and short",
    "Stationary starts, direct search. The interval likelihood is a distribution of its own. Of densities in its "
    "place, and of durations cut at 3 minutes, there are no published figures.",
    CRITERIA,
    (
        *(
            Row(f"{name}, {'mixture of ' if alone else ''}{m}{'' if alone else ' states'}",
                partial(geyser_fit, name, m, alone, False), ("geyser",), _published((name, m, alone), x), 1)
            for (name, m, alone), x in GEYSER.items()
        ),
        *(
            Row(f"waiting, {m} states, density", partial(geyser_fit, "waiting", m, False, True), ("geyser",), {}, 1)
            for m in (2, 3, 4)
        ),
        *(Row(f"long or short, {kind}", partial(long_or_short, kind), ("geyser",), {}, 1)
          for kind in ("independent", "chain", "hidden")),
    ),
    minutes=3,
)  # fmt: skip

LIKELIHOOD = (Column("l", "l", 6), Column("estimates", "estimates"))
RESPONSES = Table(
    "speed",
    "depmixS4: response times and accuracy; stocks",
    "Response times are normal and accuracy Bernoulli, independent given the state; the pay-off at t - 1 drives the "
    "move to t. Free starts. Three series, or all 439 as one. Of stocks there are no published figures.",
    LIKELIHOOD,
    (
        Row("rt, 1 state", partial(one_normal, "speed", "rt"), ("speed",), {"l": -305.33}, 1),
        Row("rt and corr, given", partial(speed_given, False), ("speed",), {"l": -296.115107102}, 1),
        Row("rt and corr, given, driven", partial(speed_given, True), ("speed",), {"l": -296.0333}, 1),
        Row("rt, 2 states, one series", partial(speed_fit, 1, False, True), ("speed",),
            {"l": -88.73, "estimates": "mu 5.510 6.385; sd .192 .244; gamma stay .884 .916"}, 1),
        Row("rt, driven, one series", partial(speed_fit, 1, True, True), ("speed",), {"l": -44.2}, 1),
        Row("rt and corr, driven, one series", partial(speed_fit, 2, True, True), ("speed",),
            {"l": -255.5, "estimates": "mu 5.517 6.391; sd .197 .239; P(corr) .525 .902"}, 1),
        Row("rt and corr, driven, three series", partial(speed_fit, 2, True, False), ("speed",), {"l": -248.972219}, 1),
        Row("rt and corr, three series", partial(speed_fit, 2, False, False), ("speed",), {}, 1),
        Row("rt and corr, one series", partial(speed_fit, 2, False, True), ("speed",), {}, 1),
        Row("rt, three series", partial(speed_fit, 1, False, False), ("speed",), {}, 1),
        Row("stocks, 1 state", partial(one_normal, "sp500", "logret"), ("sp500",), {}, 1),
        Row("stocks, 2 states", partial(stocks, 2), ("sp500",), {}, 1),
        Row("stocks, 3 states", partial(stocks, 3), ("sp500",), {}, 1),
    ),
    minutes=2,
)  # fmt: skip

WIND = Table(
    "wind",
    "Wind at Koeberg: 16 sectors by the hour",
    "No published figures. Independent hours, a first-order chain given the first hour, and hidden chains by EM.",
    (NLL, Column("estimates", "estimates")),
    (
        Row("independent", partial(wind, 1), ("wind",), {}, 1),
        Row("first-order chain", partial(wind, 0), ("wind",), {}, 1),
        Row("2 states", partial(wind, 2), ("wind",), {}, 1),
        Row("3 states", partial(wind, 3), ("wind",), {}, 1),
    ),
    minutes=3,
)
CHORALES = Table(
    "chorales",
    "Bach's chorales: keys that sound, independent given the state",
    "Nats a step. No published figures. EM with .01 added to each count, 80 iterations.",
    (Column("train", "train", 3), Column("test", "test", 3)),
    (
        Row("independent", partial(chorales, 1), ("chorales",), {}, 1),
        Row("16 states", partial(chorales, 16), ("chorales",), {}, 3),
    ),
    minutes=4,
)
SMALL = Table(
    "exact",
    "Small cases that are known exactly (hmmlearn, after Wikipedia)",
    "Filtered probabilities of rain, and the likelihood of the second, are ours only.",
    (
        Column("l", "l", 4),
        Column("smoothed", "smoothed"),
        Column("filtered", "filtered"),
        Column("path", "Viterbi"),
        Column("probability", "its probability", 5),
    ),
    (
        Row("umbrella", umbrella, (), {"l": -3.3725, "smoothed": "0.8673 0.8204 0.3075 0.8204 0.8673"}, 1),
        Row("rainy or sunny", weather, (), {"path": "sunny rainy rainy", "probability": 0.01344}, 1),
    ),
    minutes=0.1,
    bars=(),
)
TABLES = (SMALL, OLD_FAITHFUL, RESPONSES, WIND, CHORALES)

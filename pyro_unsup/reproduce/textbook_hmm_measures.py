"""Series of measurements: the geyser, response times, stocks, wind, chorales; and small cases, known exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

import pyro_unsup as pu

from ..models import HMM, Series
from .corpora import Corpora
from .experiment import Found
from .textbook_hmm_tools import best, by_mean, criteria, listed, logs, maximum, moves

Given = Mapping[str, Tensor]


class IntervalNormal(TorchDistribution):
    """A normal distribution of which only an interval is seen: a value is (from, to)."""

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real_vector

    def __init__(self, loc: Tensor, scale: Tensor) -> None:
        self.loc, self.scale = loc, scale
        super().__init__(loc.shape, torch.Size([2]), validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        low, high = ((value[..., i] - self.loc) / self.scale for i in (0, 1))
        flip = low > 0  # the lower tail has the digits
        low, high = torch.where(flip, -high, low), torch.where(flip, -low, high)
        upper, lower = torch.special.log_ndtr(high), torch.special.log_ndtr(low)
        found: Tensor = upper + torch.log1p(-(lower - upper).exp().clamp(max=1 - 1e-15))
        return found


# -- the geyser


def geyser(corpora: Corpora, name: str) -> Tensor:  # (N, 2)
    """Intervals of waiting times or durations."""
    table = corpora["geyser"]
    if name == "waiting":
        w = table["waiting"].astype(np.float64)
        return torch.as_tensor(np.stack([w - 0.5, w + 0.5], -1))
    d, code = table["duration"].astype(np.float64), table["code"]
    low = np.select([code == 1, code == 2, code == 3], [0.0, 2.5, 3.0], d - 1 / 120)
    high = np.select([code == 1, code == 2, code == 3], [3.0, 3.5, 20.0], d + 1 / 120)
    return torch.as_tensor(np.stack([low, high], -1))


def normal_chain(kind: Callable[..., Any], n: int, independent: bool, p: Given) -> pu.Chain:
    """A stationary chain; or a mixture, every observation a series of its own."""
    emission = kind(p["loc"], p["scale"])
    if independent:
        K = len(p["delta"])
        nothing = torch.zeros(K, K, dtype=torch.float64)
        return pu.Chain(logs(p["delta"]), nothing, emission, torch.ones(n, dtype=torch.long), flat=True)
    steps = logs(p["gamma"])
    return pu.Chain(pu.stationary(steps), steps, emission, n)


def geyser_fit(
    name: str, states: int, independent: bool, exact: bool, corpora: Corpora, seed: int, small: bool
) -> Found:
    """The best of a few direct searches.

    :param exact: the density of the value in place of the probability of its interval.
    """
    x = geyser(corpora, name)
    value, kind = (x.mean(-1), dist.Normal) if exact else (x, IntervalNormal)
    begin = []
    for share in (0.3, 0.5) if independent or not small else (0.3,):
        shares = (np.arange(states) + share) / states
        loc = np.quantile(x.mean(-1).numpy(), shares)
        first: dict[str, Any] = {"loc": loc, "scale": np.full(states, float(x.mean(-1).std()) / states)}
        first["delta" if independent else "gamma"] = np.full(states, 1 / states) if independent else _turns(states)
        begin.append(first)
        begin.append({**first, "gamma": moves(states)} if not independent else {**first, "scale": 2 * first["scale"]})
    found, p = best(partial(normal_chain, kind, len(x), independent), begin, value)
    order = p["loc"].argsort()
    shown = {"mu": p["loc"][order], "sigma": p["scale"][order]}
    if not independent:
        shown |= {"gamma": p["gamma"][order][:, order]}
    parameters = 3 * states - 1 if independent else states * (states + 1)
    return criteria(found, parameters, len(x), **shown)


def _turns(states: int) -> Tensor:
    """Short waiting times follow long ones."""
    found = torch.full((states, states), 0.1, dtype=torch.float64).fill_diagonal_(0.2)
    found[0, -1] += 2
    return found / found.sum(-1, keepdim=True)


def long_or_short(kind: str, corpora: Corpora, seed: int, small: bool) -> Found:
    x = torch.as_tensor((corpora["geyser"]["duration"] >= 3).astype(np.float64))
    if kind == "independent":
        return criteria(float(dist.Bernoulli(x.mean()).log_prob(x).sum()), 1, len(x))

    def build(p: Given) -> pu.Chain:
        steps = logs(p["gamma"])
        probs = p["probs"] if kind == "hidden" else torch.tensor([1e-12, 1 - 1e-12], dtype=torch.float64)
        return pu.Chain(pu.stationary(steps), steps, dist.Bernoulli(probs), len(x))

    first = {"gamma": [[0.05, 0.95], [0.5, 0.5]]}
    found, p = maximum(build, {**first, "probs": [0.3, 0.95]} if kind == "hidden" else first, x)
    return criteria(found, 4 if kind == "hidden" else 2, len(x), **p)


# -- response times, stocks


def speed(corpora: Corpora) -> tuple[Tensor, Tensor, Tensor]:
    """rt and corr, (N, 2); pacc; lengths of the three series."""
    table = corpora["speed"]
    x = torch.as_tensor(np.stack([table["rt"], table["corr"]], -1).astype(np.float64))
    lengths = torch.as_tensor(np.unique(table["series"], return_counts=True)[1])
    return x, torch.as_tensor(table["pacc"].astype(np.float64)), lengths


def speed_chain(corpora: Corpora, parts: int, one_series: bool, p: Given) -> tuple[pu.Chain, Tensor]:
    """rt alone or with corr; moves may follow pacc at the step before."""
    x, pacc, lengths = speed(corpora)
    lengths = lengths.sum().reshape(1) if one_series else lengths
    emission: Any = dist.Normal(p["loc"], p["scale"])
    if parts == 2:
        emission = pu.Joint(emission, dist.Bernoulli(p["probs"]))
    start = logs(p["delta"])
    value = x if parts == 2 else x[:, 0]
    if "slope" not in p:
        return pu.Chain(start, logs(p["gamma"]), emission, lengths, flat=True), value
    logits = p["intercept"] + p["slope"] * pacc.roll(1).unsqueeze(-1)  # (N, 2) of a move to state 2
    steps = torch.stack([torch.zeros_like(logits), logits], -1).log_softmax(-1)
    return pu.Chain(start, steps, emission, lengths, flat=True, by_step=True), value


SPEED = {
    "loc": (5.52, 6.39),
    "scale": (0.202, 0.24),
    "probs": (0.528, 0.902),
    "gamma": ((0.899, 0.101), (0.084, 0.916)),
}
LOGITS = {"intercept": (np.log(0.104 / 0.896), np.log(0.916 / 0.084)), "slope": (0.01, 0.01)}


def speed_given(driven: bool, corpora: Corpora, seed: int, small: bool) -> Found:
    given = {**SPEED, "delta": (0.0, 1.0), **(LOGITS if driven else {})}
    chain, value = speed_chain(corpora, 2, False, {n: torch.tensor(x, dtype=torch.float64) for n, x in given.items()})
    return {"l": float(chain.log_prob(value).sum())}


def speed_fit(parts: int, driven: bool, one_series: bool, corpora: Corpora, seed: int, small: bool) -> Found:
    given: dict[str, Any] = {**SPEED, "delta": (0.1, 0.9)}
    if parts == 1:
        del given["probs"]
    if driven:
        del given["gamma"]
        given |= {"intercept": (-1.0, 1.0), "slope": (1.0, 1.0)}
    value = speed(corpora)[0] if parts == 2 else speed(corpora)[0][:, 0]
    found, p = maximum(lambda p: speed_chain(corpora, parts, one_series, p)[0], given, value)
    shown = {"mu": p["loc"], "sd": p["scale"], **({"P(corr)": p["probs"]} if parts == 2 else {})}
    shown |= {name: p[name] for name in ("gamma", "intercept", "slope") if name in p}
    return {"l": found, "estimates": "; ".join(f"{name} {listed(x)}" for name, x in shown.items())}


def one_normal(corpus: str, column: str, corpora: Corpora, seed: int, small: bool) -> Found:
    x = torch.as_tensor(corpora[corpus][column].astype(np.float64))
    return {"l": float(dist.Normal(x.mean(), x.std(unbiased=False)).log_prob(x).sum())}


def stocks(states: int, corpora: Corpora, seed: int, small: bool) -> Found:
    x = corpora["sp500"]["logret"].astype(np.float64)
    fits = []
    for one in range(1 if small else 6):
        engine = pu.EM(HMM(states, "normal", init="quantiles" if one == 0 else "kmeans", floor=1e-3))
        fits.append(engine.run(x, seed=one, iterations=3000, tolerance=1e-11, progress=False))
    fit = max(fits, key=lambda one: one.objective)
    _, loc, gamma = by_mean(fit.params["loc"], fit.weights["transition"].exp())
    return {"l": fit.objective, "estimates": f"mu {listed(loc)}; stay {listed(gamma.diagonal())}"}


# -- longer ones


@cache
def sectors(corpora: Corpora) -> Tensor:
    return torch.as_tensor(corpora["wind"]["sector"].astype(np.int64)) - 1


def wind(states: int, corpora: Corpora, seed: int, small: bool) -> Found:
    x = sectors(corpora)
    if states == 1:
        counts = torch.bincount(x).double()
        return {"nll": float(-(counts * (counts / len(x)).log()).sum())}
    if states == 0:
        pairs = torch.bincount(x[:-1] * 16 + x[1:], minlength=256).double().reshape(16, 16)
        return {"nll": float(-torch.special.xlogy(pairs, pairs / pairs.sum(-1, keepdim=True)).sum())}
    rounds, seeds = (5, 1) if small else (600, 1 if states == 2 else 3)
    data = Series.of(x.double())
    model = HMM(states, "categorical", categories=16)
    fits = [pu.EM(model).run(data, seed=i, iterations=rounds, tolerance=1e-10, progress=False) for i in range(seeds)]
    fit = max(fits, key=lambda one: one.objective)
    return {"nll": -fit.objective, "estimates": f"gamma {listed(fit.weights['transition'].exp())}"}


def chorales(states: int, corpora: Corpora, seed: int, small: bool) -> Found:
    """Keys that sound, independent given the state; nats a step."""
    songs = corpora["chorales"]
    keys = sorted({key for song in songs["train"] for step in song for key in step})
    place = {key: i for i, key in enumerate(keys)}

    def rolls(part: str) -> Series:
        each = [np.zeros((len(song), len(keys))) for song in songs[part]]
        for roll, song in zip(each, songs[part], strict=True):
            for t, step in enumerate(song):
                roll[t, [place[key] for key in step if key in place]] = 1.0
        return Series.of(each)

    train, test = rolls("train"), rolls("test")
    if states == 1:
        rate = train.values.mean(0).clamp(1e-6, 1 - 1e-6)
        return {part: float(dist.Bernoulli(rate).log_prob(x.values).sum(-1).mean()) for part, x in
                (("train", train), ("test", test))}  # fmt: skip
    model = HMM(states, "bernoulli", dim=len(keys), prior={"probs": dist.Beta(*torch.full((2,), 1.01).double())})
    rounds = 3 if small else 80
    fit = pu.EM(model, estimate=pu.AddLambda(0.01)).run(train, seed=seed, iterations=rounds, progress=False)
    found = {
        part: float(fit.posterior(x).log_partition.sum()) / x.tokens for part, x in (("train", train), ("test", test))
    }
    return {**found}


# -- known exactly


def umbrella(corpora: Corpora, seed: int, small: bool) -> Found:
    steps = torch.tensor([[0.7, 0.3], [0.3, 0.7]], dtype=torch.float64).log()
    seen = torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    emission = dist.Bernoulli(torch.tensor([0.9, 0.2], dtype=torch.float64))
    chain = pu.Chain(torch.full((2,), 0.5, dtype=torch.float64).log(), steps, emission, 5)
    found = chain.posterior(seen)
    return {"l": float(chain.log_prob(seen)), "smoothed": listed(found.smoothed[:, 0]), "path": "",
            "filtered": listed(found.filtered[:, 0])}  # fmt: skip


def weather(corpora: Corpora, seed: int, small: bool) -> Found:
    start, steps = (torch.tensor(x, dtype=torch.float64).log() for x in ((0.6, 0.4), ((0.7, 0.3), (0.4, 0.6))))
    words = torch.tensor([[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]], dtype=torch.float64).log()
    chain, seen = pu.Chain(start, steps, words, 3), torch.tensor([0, 1, 2])
    path = chain.posterior(seen).mode()
    said = " ".join(("rainy", "sunny")[k] for k in path.tolist())
    return {"l": float(chain.log_prob(seen)), "path": said, "probability": float(chain.score(seen, path).exp())}

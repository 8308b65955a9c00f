"""Posterior predictive checks: does text drawn from the sampled model look like the text it was learned from?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pyro import poutine
from torch import Tensor

from ..distributions import Structure
from ..errors import UnsupError
from ..handlers.given import given

if TYPE_CHECKING:
    from .samples import Samples

Array = np.ndarray[Any, Any]
Statistic = Callable[[Array], float]


def types_used(words: Array) -> float:
    """How many different words there are."""
    return float(len(np.unique(words)))


def once_only(words: Array) -> float:
    """How many words occur once."""
    return float((np.unique(words, return_counts=True)[1] == 1).sum())


def repeats(words: Array) -> float:
    """The share of words that follow themselves."""
    return float(np.mean(words[1:] == words[:-1])) if len(words) > 1 else 0.0


STATISTICS: dict[str, Statistic] = {"types": types_used, "once_only": once_only, "repeats": repeats}


def draw_weights(samples: Samples, chain: int, draw: int) -> dict[str, Tensor]:
    """Tables drawn given the labels of one draw, as log-weights: a Dirichlet on top of their counts.

    The counts are the gradient of the log-probability of labels and data in the log-weights.
    """
    declared = samples.model.declarations()
    zeros = {
        name: d.layout.mask(torch.zeros(d.layout.shape, dtype=torch.float64)).requires_grad_()
        for name, d in declared.items()
    }
    trace = poutine.trace(given(samples.model, zeros)).get_trace(samples.sentences())
    site = next(s for s in trace.nodes.values() if s["type"] == "sample" and isinstance(s["fn"], Structure))
    labels = torch.from_numpy(samples.labels[chain, draw].astype(np.int64))
    counts = torch.autograd.grad(site["fn"].score(site["value"], labels).sum(), list(zeros.values()), allow_unused=True)
    rows, emitted = samples.tables
    found = {}
    for (name, declaration), n in zip(declared.items(), counts, strict=True):
        if name == emitted:
            prior = torch.from_numpy(samples.draws["beta"][chain, draw])[:, None]
        else:
            prior = torch.tensor(samples.draws["alpha"][chain, draw, rows.index(name)])
        shape = torch.zeros(declaration.layout.shape, dtype=torch.float64) + prior + (0 if n is None else n)
        # Gamma(a) as Gamma(a + 1) times a power of a uniform number, in logs: small shapes would underflow.
        more = torch.distributions.Gamma(shape + 1, torch.ones_like(shape)).sample().log()
        found[name] = declaration.layout.mask(more + torch.rand_like(shape).log() / shape).log_softmax(-1)
    return found


def posterior_predictive(
    samples: Samples, statistics: Mapping[str, Statistic] | None, draws: int, seed: int
) -> dict[str, dict[str, Any]]:
    """See :meth:`.Samples.posterior_predictive`."""
    chosen = STATISTICS if statistics is None else statistics
    if samples.tables[1] != "emission":
        raise UnsupError(
            f"posterior predictive checks draw tagged sentences, so they are for taggers, actual {samples.model!r}"
        )
    lengths = torch.from_numpy(np.diff(samples.data["offsets"]))
    pick = np.random.default_rng(seed)
    chains, kept = samples.labels.shape[:2]
    at = [divmod(int(i), kept) for i in pick.integers(chains * kept, size=draws)]
    found: dict[str, list[float]] = {name: [] for name in chosen}
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        for chain, draw in at:
            with torch.enable_grad():
                weights = draw_weights(samples, chain, draw)
            words = given(samples.model, weights)(None, lengths).numpy()
            for name, statistic in chosen.items():
                found[name].append(statistic(words))
    report = {}
    for name, statistic in chosen.items():
        observed, values = statistic(samples.data["words"]), np.array(found[name])
        report[name] = {
            "observed": observed,
            "draws": values,
            "p": float((np.mean(values >= observed) + np.mean(values > observed)) / 2),
        }
    return report

"""Posterior predictive checks: does text drawn from the sampled model look like the text it was learned from?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..errors import UnsupError
from ..handlers.given import given
from .sample_tables import draw_tables

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
    """Tables drawn given the labels of one draw, as log-weights: a Dirichlet on top of their counts."""
    state = samples.model.gibbs_state()(samples.model, samples.sentences())
    state.labels = samples.labels[chain, draw]
    return draw_tables(samples.model, state, samples.draws["alpha"][chain, draw], samples.draws["beta"][chain, draw])


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

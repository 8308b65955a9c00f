"""What ``sample aligner`` needs beside the aligner: links that were sampled, as links and as counts of words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import pyro_unsup as pu

from ..errors import UnsupError
from . import sampled_trees
from .option import Given

if TYPE_CHECKING:
    from ..data import Bitext
    from ..models import Aligner
    from ..results import Samples


def check_sampled(given: Given) -> None:
    """Refuse options of ``sample`` that do not go together."""
    sampled_trees.check(given)
    if given.fertility is not None and not 0 < given.fertility < float("inf"):
        raise UnsupError(f"--fertility must be positive and finite, actual {given.fertility:g}")


def links_of_model_1(model: Aligner, data: Bitext, sweeps: int, beta: float, seed: int) -> Any:  # (words,)
    """The labels after some sweeps of Model 1, with the words and the null of another aligner."""
    simple = pu.models.Aligner(model.source, model.target, model.lexicon, None, model.null)
    first = pu.CollapsedGibbs(simple, beta=beta)
    return first.run(data, sweeps=sweeps, burn_in=sweeps - 1, seed=seed, progress=False).last[0]


def chosen_by_both(data: Bitext, labels: Any) -> tuple[Any, Any]:
    """The links that the words of both directions chose: as links, and as truth values (cells,)."""
    from ..models.gibbs_links import link_shares

    lengths = data.source.lengths, data.target.lengths
    one, other = link_shares(np.asarray(labels)[None], lengths)
    chosen = pu.evaluate.symmetrise(one > 0, other > 0, *lengths)
    return pu.data.Links(len(data), pu.evaluate.link_rows(chosen, *lengths)), chosen  # type: ignore[arg-type]


def shares_of(samples: Samples) -> Any:  # (cells,)
    """The share of draws that have each link, the mean of both directions: pair by pair, source words down."""
    from ..models.gibbs_links import link_shares

    draws = samples.labels.reshape(-1, samples.labels.shape[-1])
    lengths = samples.data["source_lengths"], samples.data["target_lengths"]
    return np.mean(link_shares(draws, lengths), 0)


def linked(samples: Samples) -> Any:  # (pairs of words,)
    """How often words are linked in a draw, on average over draws and both directions."""
    cells, source, target = (samples.data[name] for name in ("cells", "source_lengths", "target_lengths"))
    sizes = (source + 1) * (target + 1)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    row, column = np.divmod(np.arange(len(cells)) - (np.cumsum(sizes) - sizes)[owner], target[owner] + 1)
    inner = cells[(row > 0) & (column > 0)]  # the others are of words and no word
    return np.bincount(inner, shares_of(samples), len(samples.model.lexicon))

"""The links of words under an aligner whose translations are integrated out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..array import Array
from ..errors import StructureError
from .pairs import Pairs

if TYPE_CHECKING:
    from .aligner import Aligner

#: Numbers of links that fertility tells apart; the last one stands for more, too.
FERTILITIES = 8
WAYS = ("forward", "backward")


@dataclass
class Way:
    """One direction: which words choose, and how often everything is chosen. Fields are those of the kernel."""

    turned: bool
    sizes: Array  # (2, B)
    at: Array  # (2, B)
    rows: Array
    outcomes: Array  # (R,)
    choice: Array  # (2, B)
    cells: int  # of the table
    labels: Array
    n: Array
    totals: Array
    links: Array
    fertile: Array

    def settle(self, cells: Array, starts: Array, labels: Array, fertility: bool) -> None:
        """Take over links, and count them."""
        from ..kernels.gibbs_links import count_links

        self.labels = labels.astype(np.int32)
        self.n, self.totals = np.zeros(self.cells, np.int32), np.zeros(len(self.outcomes), np.int32)
        self.links = np.zeros(len(self.rows), np.int32)
        where = (cells, starts, self.sizes, self.turned, self.at, self.rows, self.labels)
        count_links(*where, self.n, self.totals, self.links)
        if fertility:
            keys = self.rows * FERTILITIES + np.minimum(self.links, FERTILITIES - 1)
            found = np.bincount(keys, minlength=len(self.outcomes) * FERTILITIES)
            self.fertile = found.reshape(-1, FERTILITIES).astype(np.int32)


class LinkState:
    """For every target word the place of the source word that it chose, and for every source word likewise; 0 is none.

    :param model: an aligner whose directions learn on their own.
    :param bitext: what the model accepts as data.
    :param fertility: the concentration of fertilities: how many links a place has is drawn from a row for each word, of
        which the last outcome is seven or more. The target is then the posterior of the model times the probability of
        these numbers. Without it, just the posterior of the model.
    """

    ways = ("pointwise",)
    #: It knows what fertility is.
    fertile = True
    #: The tables that alpha and beta are the concentrations of; beta is that of both tables of translations.
    tables: tuple[tuple[str, ...], str] = ((), "translation")

    def __init__(self, model: Aligner, bitext: Any, fertility: float | None = None) -> None:
        if model.agreement is not None:
            raise StructureError(
                f"links are sampled where the directions learn on their own, agreement=None, actual {model.agreement!r}"
            )
        pairs: Pairs = model.index(bitext)
        if pairs.unseen:
            raise StructureError("the bitext has words that never met in the model's lexicon: make it by .of(bitext)")
        self.fertility, self._turned = fertility, model.lexicon.turned.numpy()
        ordered, where = pairs.grid.select(torch.arange(len(pairs)))
        self.cells = np.ascontiguousarray(pairs.cells[where].numpy())
        self.lengths = np.stack([x.numpy() for x in (ordered.source_lengths, ordered.target_lengths)])  # (2, B)
        self.starts = _offsets((self.lengths[0] + 1) * (self.lengths[1] + 1))
        self._choosers, self.shared = int(self.lengths[1].sum()), len(model.lexicon)
        self._both = [self._way(model, turned) for turned in (False, True)]
        self.K = int(self.lengths.max()) + 1
        declared = model.declarations()
        beta = np.array([float(declared[f"translation_{way}"].prior) for way in WAYS])
        self.concentrations = np.ones(1), beta
        self.labels = np.zeros(len(self), np.int32)

    def _way(self, model: Aligner, turned: bool) -> Way:
        source, target = self.lengths
        chosen, choosers = (target, source) if turned else (source, target)
        sizes = np.stack([choosers, chosen])
        at = np.stack([_offsets(x)[:-1] for x in sizes])
        # The number of a word stands where it meets the null word: in the first column, or in the first row.
        owner = np.repeat(np.arange(len(chosen)), chosen)
        place = np.arange(len(owner)) - at[1][owner] + 1
        edge = place if turned else place * (target[owner] + 1)
        rows = (self.cells[self.starts[owner] + edge] - self.shared).astype(np.int64)
        lexicon, words = model.lexicon, (model.source_words, model.target_words)
        own, others = (words[1], words[0]) if turned else words
        met = lexicon.turned_sizes if turned else lexicon.sizes
        outcomes = np.append(met.numpy(), others).astype(np.float64)
        assert len(outcomes) == own + 1
        choice = self._choice(model, chosen)
        nothing, none = np.zeros(0, np.int32), np.zeros((0, 1), np.int32)
        return Way(turned, sizes, at, rows, outcomes, choice, self.shared + others, nothing, nothing, nothing, nothing,
                   none)  # fmt: skip

    def _choice(self, model: Any, chosen: Array) -> Array:  # (B,) -> (2, B)
        """The weight of no word, and of each place, by pair."""
        return np.stack([x.exp().numpy() for x in model._choice(torch.from_numpy(chosen), torch.float64)])

    def __len__(self) -> int:
        return int(self.lengths.sum())

    @property
    def data(self) -> dict[str, Array]:
        """What tells this bitext from others."""
        return {"cells": self.cells, "source_lengths": self.lengths[0], "target_lengths": self.lengths[1]}

    @property
    def labels(self) -> Array:  # (target words + source words,) int32
        """The place that each target word chose, then the place that each source word chose."""
        return np.concatenate([way.labels for way in self._both])

    @labels.setter
    def labels(self, places: Array) -> None:
        if places.shape != (len(self),):
            raise StructureError(f"expected {len(self)} places, one a word of either language, actual {places.shape}")
        most = np.concatenate([np.repeat(way.sizes[1], way.sizes[0]) for way in self._both])
        if len(wrong := np.flatnonzero((places < 0) | (places > most))):
            k = int(wrong[0])
            raise StructureError(f"word {k} chose place {places[k]}, expected 0 (no word) to {most[k]}")
        for way, own in zip(self._both, np.split(places, [self._choosers]), strict=True):
            way.settle(self.cells, self.starts, own, self.fertility is not None)

    def draw_start(self, rng: np.random.Generator) -> None:
        """Places drawn evenly, no word among them."""
        most = np.concatenate([np.repeat(way.sizes[1], way.sizes[0]) for way in self._both])
        self.labels = (rng.random(len(most)) * (most + 1)).astype(np.int32)

    def table_counts(self) -> dict[str, Array]:
        """How often the links use every cell of the model's tables."""
        forward, backward = (way.n for way in self._both)
        by_target = np.empty_like(backward)
        by_target[self._turned] = backward
        return {"translation_forward": forward, "translation_backward": by_target}

    def log_choices(self, alpha: Array) -> float:
        """log p(places), and of fertilities. No alpha changes it."""
        return sum(self._log_links(way) + self._log_fertility(way) for way in self._both)

    def _log_links(self, way: Way) -> float:
        owner = np.repeat(np.arange(len(way.sizes[0])), way.sizes[0])
        with np.errstate(divide="ignore"):
            return float(np.log(way.choice)[(way.labels > 0).astype(np.int64), owner].sum())

    def _log_fertility(self, way: Way) -> float:
        from ..kernels.gibbs_links import log_rows

        if self.fertility is None:
            return 0.0
        totals, a = way.fertile.sum(1), float(self.fertility)
        return float(log_rows(way.fertile.reshape(-1), totals, a, np.full(len(totals), FERTILITIES * a)))

    def log_emissions(self, beta: Array) -> Array:  # (2,) -> (2,)
        """log p(words | links, beta), translations integrated out, of each direction."""
        from ..kernels.gibbs_links import log_rows

        both = zip(self._both, beta.tolist(), strict=True)
        return np.array([log_rows(way.n, way.totals, b, b * way.outcomes) for way, b in both])

    def sweep(self, how: str, alpha: Array, beta: Array, power: float, rng: np.random.Generator) -> float:
        """Draw every word's place once."""
        for way, b in zip(self._both, beta.tolist(), strict=True):
            self._sweep(way, b, power, rng, np.zeros((0, 1, 1)), np.zeros(0, np.int64))
        return 1.0

    def _sweep(
        self, way: Way, beta: float, power: float, rng: np.random.Generator, jumps: Array, length: Array
    ) -> None:
        from ..kernels.gibbs_links import sweep

        where = (self.cells, self.starts, way.sizes, way.turned, way.at, way.rows, way.labels)
        counts = (way.n, way.totals, beta, beta * way.outcomes, way.choice, jumps, length)
        more = (way.fertile, way.links, 0.0 if self.fertility is None else float(self.fertility))
        sweep(*where, *counts, *more, power, rng.random(len(way.labels)))


def link_shares(labels: Array, lengths: Sequence[Array]) -> tuple[Array, Array]:  # (draws, units) -> (cells,), (cells,)
    """The share of draws that have each link, in both directions: cells pair by pair, source words down.

    :param labels: draws of the labels of a :class:`LinkState`.
    :param lengths: (B,) source words, and (B,) target words.

    >>> import numpy as np
    >>> from pyro_unsup.models.gibbs_links import link_shares
    >>> one, other = link_shares(np.array([[1, 0, 1], [2, 0, 1]]), (np.array([2]), np.array([1])))
    >>> one.tolist(), other.tolist()
    ([0.5, 0.5], [0.0, 1.0])
    """
    source, target = lengths
    starts = _offsets(source * target)
    found = []
    for way, (T, S) in enumerate(((target, source), (source, target))):
        owner, first = np.repeat(np.arange(len(T)), T), _offsets(T)[:-1]
        t = np.arange(len(owner)) - first[owner]
        own = labels[:, : len(owner)] if way == 0 else labels[:, len(labels[0]) - len(owner) :]
        shares = np.zeros(int(starts[-1]))
        for draw in own:
            some = np.flatnonzero((draw > 0) & (draw <= S[owner]))
            b, i, j = owner[some], draw[some] - 1, t[some]
            shares[starts[b] + (i * target[b] + j if way == 0 else j * target[b] + i)] += 1
        found.append(shares / len(labels))
    return found[0], found[1]


def _offsets(sizes: Array) -> Array:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

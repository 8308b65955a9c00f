"""The tags of a corpus under a tagger whose tables are integrated out: counts, joint probability, and the moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..array import Array
from ..errors import StructureError
from .sentences import as_flat, check_numbers, check_vocab

if TYPE_CHECKING:
    from .tagger import Tagger


class TagState:
    """One tag a token, and how often everything occurs.

    The tables of the model are the rows of two tables of counts. ``n`` has a row for every context: for bigrams the tag
    before, K at the start of a sentence; for trigrams the two tags before it, (K, K) at the start and (K, b) out of the
    first position. Its columns are tags, the last one the end of a sentence, which is counted only if the model has
    ``stop``. ``n_cell`` counts words with tags, only those pairs that the dictionary allows.

    :param model: a tagger, bigram or trigram.
    :param corpus: what the model accepts as data.
    """

    ways = ("pointwise", "blocked", "uncollapsed")

    def __init__(self, model: Tagger, corpus: Any) -> None:
        declared = model.declarations()
        rows = ("transition", "second", "start") if model.order == 2 else ("transition", "start")
        self.tables: tuple[tuple[str, ...], str] = (rows, "emission")
        self.concentrations = (
            np.array([float(declared[name].prior) for name in self.tables[0]]),
            np.full(model.states, float(declared["emission"].prior)),
        )
        words, lengths = as_flat(corpus, None, model.vocab)
        check_vocab(corpus, model.vocab)
        check_numbers(words, model.words)
        self.K, self.order, self.stop = model.states, model.order, model.stop
        self.offsets = np.concatenate([[0], np.cumsum(lengths.numpy())]).astype(np.int64)
        support = declared["emission"].layout.support
        allowed = np.ones((model.states, model.words), np.bool_) if support is None else support.numpy()
        self.types = allowed.sum(1)  # (K,) how many words each tag may have
        self.corpus = words.numpy().astype(np.int64)
        self._seen, self.words = np.unique(self.corpus, return_inverse=True)  # only words that occur
        self._vocabulary = model.words
        seen = self._seen
        of_word, tags = np.nonzero(allowed[:, seen].T)
        self.tag_of = tags.astype(np.int32)
        self.at = np.searchsorted(of_word, np.arange(len(seen) + 1)).astype(np.int64)
        if len(barred := np.flatnonzero(np.diff(self.at) == 0)):
            raise StructureError(
                f"word {seen[barred[0]]} has no allowed tag; list it in the dictionary or leave it out"
            )
        owner = np.repeat(np.arange(len(lengths)), np.diff(self.offsets))
        self.places = np.arange(len(self.words)) + 2 * (owner + 1)  # of the tokens among tags and pads
        self.padded = np.full(len(self.words) + 2 * (len(lengths) + 1), self.K, np.int32)
        self.open = np.flatnonzero(np.diff(self.at)[self.words] > 1)  # tokens with a choice
        self._open_places, self._open_words = self.places[self.open], self.words[self.open]
        row = np.arange((self.K + 1) ** self.order)
        # 0 for a row of the transitions; at the start of a sentence the contexts have pads in them.
        self.kind = (row % (self.K + 1) == self.K).astype(np.int64)
        if self.order == 2:
            self.kind += row // (self.K + 1) == self.K
        self.outcomes = np.array([self.K + self.stop] * self.order + [self.K])  # of each kind of row
        self.labels = np.zeros(0)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def data(self) -> dict[str, Array]:
        """What tells this corpus from others."""
        return {"words": self.corpus, "offsets": self.offsets}

    @property
    def labels(self) -> Array:  # (tokens,) int32
        """The tags."""
        found: Array = self.padded[self.places]
        return found

    @labels.setter
    def labels(self, tags: Array) -> None:
        if len(tags) == 0:  # not drawn yet
            tags = self.tag_of[self.at[self.words]]
        if tags.shape != self.words.shape:
            raise StructureError(f"expected {len(self.words)} tags, one a token, actual shape {tags.shape}")
        size = np.diff(self.at)[self.words]
        match = np.zeros(len(tags), np.int64) - 1
        for j in range(int(size.max())):
            inside = np.flatnonzero(size > j)
            cell = self.at[self.words[inside]] + j
            match[inside] = np.where(self.tag_of[cell] == tags[inside], cell, match[inside])
        if len(wrong := np.flatnonzero(match < 0)):
            raise StructureError(f"tag {tags[wrong[0]]} of token {wrong[0]} is not one that its word may have")
        self._settle(match)

    def _settle(self, cells: Array) -> None:
        """Take over the tags that these cells stand for, and count them."""
        self.cells = cells
        self.padded[self.places] = tags = self.tag_of[cells]
        S, p = self.K + 1, self.places
        n = np.bincount(self._row(p) * S + tags, minlength=S ** (self.order + 1))
        if self.stop:
            last = p[self.offsets[1:][np.diff(self.offsets) > 0] - 1]
            n += np.bincount(self._row(last + 1) * S + self.K, minlength=len(n))
        self.n = n.reshape(-1, S).astype(np.int32)
        self.totals = self.n.sum(1, dtype=np.int32)
        self.n_cell = np.bincount(cells, minlength=len(self.tag_of)).astype(np.int32)
        self.n_tag = np.bincount(tags, minlength=self.K).astype(np.int32)
        self._laid_out: Any = None  # the same counts as the kernel wants them, once it was called

    def table_counts(self) -> dict[str, Array]:
        """How often the tags use every cell of the model's tables."""
        K, S = self.K, self.K + 1
        outcomes = K + int(self.stop)
        n = self.n.reshape((S,) * (self.order + 1))
        emission = np.zeros((K, self._vocabulary), np.int64)
        emission[self.tag_of, np.repeat(self._seen, np.diff(self.at))] = self.n_cell
        if self.order == 1:
            return {"start": n[K, :K], "transition": n[:K, :outcomes], "emission": emission}
        return {
            "start": n[K, K, :K],
            "second": n[K, :K, :outcomes],
            "transition": n[:K, :K, :outcomes],
            "emission": emission,
        }

    def _row(self, places: Array) -> Array:
        """The row of ``n`` that stands for what comes before these places."""
        before = self.padded[places - 1].astype(np.int64)
        found: Array = before if self.order == 1 else self.padded[places - 2] * np.int64(self.K + 1) + before
        return found

    def draw_start(self, rng: np.random.Generator) -> None:
        """Tags drawn evenly from those that each word may have."""
        size = np.diff(self.at)[self.words]
        self._settle(self.at[self.words] + (rng.random(len(size)) * size).astype(np.int64))

    def log_choices(self, alpha: Array) -> float:
        """log p(tags | alpha), the transitions integrated out. ``alpha`` is by kind of row."""
        from ..kernels.gibbs_joint import log_choices

        return float(log_choices(self.n, self.totals, self.kind, alpha, alpha * self.outcomes))

    def log_emissions(self, beta: Array) -> Array:  # (K,) -> (K,)
        """log p(words | tags, beta), the emissions integrated out, of each tag."""
        from ..kernels.gibbs_joint import log_emissions

        return np.asarray(log_emissions(self.n_cell, self.tag_of, self.n_tag, self.types, beta))

    def sweep(self, how: str, alpha: Array, beta: Array, power: float, rng: np.random.Generator) -> float:
        """Move every tag once. What share of the proposals was accepted: all of them, if the draws were exact."""
        move = {"pointwise": self._pointwise, "blocked": self._blocked, "uncollapsed": self._uncollapsed}[how]
        return move(alpha, alpha * self.outcomes, beta, beta * self.types, power, rng)

    def _pointwise(
        self, alpha: Array, mass: Array, beta: Array, beta_mass: Array, power: float, rng: np.random.Generator
    ) -> float:
        from ..kernels import gibbs_bigram, gibbs_trigram

        S, kernel = self.K + 1, gibbs_bigram if self.order == 1 else gibbs_trigram
        if self._laid_out is None:
            shape = (S,) * self.order
            self._laid_out = kernel.counts_of(
                self.n.reshape(*shape, S), self.totals.reshape(shape), self.n_cell, self.n_tag
            )
        cells = self.cells[self.open].astype(np.int32)
        tokens = (self.padded, self._open_places, self._open_words, cells, self.at, self.tag_of)
        prior = gibbs_bigram.Prior(alpha, mass, beta, beta_mass, self.stop)
        kernel.sweep(*tokens, *self._laid_out, *prior, power, rng.random(len(cells)), np.empty(self.K))
        self.cells[self.open] = cells
        return 1.0

    def _blocked(
        self, alpha: Array, mass: Array, beta: Array, beta_mass: Array, power: float, rng: np.random.Generator
    ) -> float:
        from ..kernels.gibbs_blocked import sweep

        tokens = (self.words, self.offsets, self.cells, self.at, self.tag_of)
        counts = (self.n_cell, self.n_tag, self.n, self.totals, self.kind)
        prior = (alpha, mass, beta, beta_mass, self.order == 2, self.stop)
        uniforms, decisions = rng.random(len(self.words)), rng.random(len(self.offsets) - 1)
        proposed, accepted = sweep(*tokens, *counts, *prior, power, uniforms, decisions)
        self._laid_out = None
        self.padded[self.places] = self.tag_of[self.cells]
        return accepted / proposed if proposed else 1.0

    def _uncollapsed(
        self, alpha: Array, mass: Array, beta: Array, beta_mass: Array, power: float, rng: np.random.Generator
    ) -> float:
        from ..kernels.gibbs_sentences import draw_sentences
        from ..kernels.plumbing import in_shards

        log_num, log_cell = self.draw_tables(alpha, beta, rng)
        num, num_cell = np.exp(power * log_num), np.exp(power * log_cell)
        ones, ones_tag, uniforms = np.ones(len(num)), np.ones(self.K), rng.random(len(self.words))
        weights = (num, ones, num_cell, ones_tag)
        rest = (self.at, self.tag_of, *weights, self.order == 2, self.stop, uniforms, self.cells)

        def work(first: int, last: int) -> None:
            draw_sentences(self.words, self.offsets, first, last, *rest)

        in_shards(work, np.diff(self.offsets), len(self.words))
        self._settle(self.cells)
        return 1.0

    def draw_tables(self, alpha: Array, beta: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Log-weights of transitions, shaped as ``n``, and of the allowed pairs of words that occur and tags.

        Drawn from their Dirichlet distributions given the counts. The words that do not occur share what is left.
        """
        shape = self.n + alpha[self.kind][:, None]
        shape[self.kind == self.order, self.K] = 0.0  # no sentence ends before it starts
        if not self.stop:
            shape[:, self.K] = 0.0
        num = log_gamma_draws(shape, rng)
        num -= np.logaddexp.reduce(num, axis=1, keepdims=True)
        cell = log_gamma_draws(self.n_cell + beta[self.tag_of], rng)
        unseen = self.types - np.bincount(self.tag_of, minlength=self.K)
        total = log_gamma_draws(unseen * beta, rng)
        np.logaddexp.at(total, self.tag_of, cell)
        return num, cell - total[self.tag_of]


def log_gamma_draws(shape: Array, rng: np.random.Generator) -> Array:
    """Logs of Gamma(shape, 1) draws, also where the draws themselves would underflow; -inf for a shape of 0."""
    some = shape > 0
    more = np.log(rng.standard_gamma(np.where(some, shape, 1.0) + 1.0))
    less = np.log1p(-rng.random(shape.shape)) / np.where(some, shape, 1.0)  # a power of a uniform number
    return np.where(some, more + less, -np.inf)

"""The words of sentences under a bigram Dirichlet process, its lexicon and the restaurants of words integrated out."""

from __future__ import annotations

from math import lgamma
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array import Array
from ..errors import FitError
from .gibbs_adaptor import AdaptorState

if TYPE_CHECKING:
    from .adaptor import Adaptor


class BigramWordState(AdaptorState):
    """For every sentence its words, and the table at which each word, and the end, sits after the word before.

    Numbers by level: those of the lexicon first, then those of the restaurants of words, which share theirs.

    :param model: an adaptor grammar of order 2.
    :param sentences: what the model accepts as data.
    """

    def __init__(self, model: Adaptor, sentences: Any) -> None:
        from ..kernels.adaptor.records import Lattice

        super().__init__(model, sentences)
        longest, places = int(np.diff(self.offsets).max(initial=1)), (lambda n: np.zeros(n, np.int64))
        self._lattice = Lattice(
            word=np.zeros((longest + 1) ** 2),
            reach=np.zeros((longest + 1) ** 2),
            show=np.zeros(longest),
            power=self._work.power,
            **{name: places(longest + 1) for name in ("known", "old", "new", "seat", "gone", "gone_words")},
        )
        self._seats = self._empty(len(self.words), 0)
        self._pairs = self._no_pairs()

    def _no_pairs(self) -> Any:
        from ..kernels.adaptor.records import Pairs

        # At most so many tokens have seats at a time. A sweep may seat as many again, and no slot is given back before
        # its end; more than half of them are always free.
        tokens = len(self.words) + len(self.offsets) - 1
        slots = 1 << (4 * tokens).bit_length()
        capacity = 2 * tokens + 2
        by_table = {name: np.zeros(capacity, np.int32) for name in ("size", "after", "ahead", "slot", "parent", "free")}
        return Pairs(
            key=np.full(slots, -1, np.int64),
            **{name: np.zeros(slots, np.int32) for name in ("customers", "tables", "head")},
            all_customers=np.zeros(self._strings + 1, np.int64),
            all_tables=np.zeros(self._strings + 1, np.int64),
            used=np.zeros(4, np.int64),
            seat=np.full(tokens, -1, np.int32),
            **by_table,
        )

    def sweep(self, how: str, alpha: Array, beta: Array, power: float, rng: np.random.Generator) -> float:
        """New words for every sentence. What share of them was accepted.

        :param alpha: concentrations of the levels.
        :param beta: their discounts.
        """
        from ..kernels.adaptor.sweeps import AGAIN

        if power != 1:
            raise FitError("adaptor grammars are sampled at temperature 1 only: leave the temperature out")
        accepted = self._over_sentences(AGAIN, alpha, beta, rng)
        self._finish()
        return float(accepted[1] / accepted[0]) if accepted[0] else 1.0

    def _over_sentences(self, how: int, alpha: Array, beta: Array, rng: np.random.Generator) -> Array:
        from ..kernels.adaptor.bigram_sweeps import over_sentences

        order, accepted = rng.permutation(len(self.offsets) - 1), np.zeros(2, np.int64)
        state = rng.integers(2**63, size=1).astype(np.uint64)
        records = (self.grammar, self._seats, self._pairs, self._lattice, self.text)
        at = int(over_sentences(*records, order, how, beta, alpha, state, accepted))
        if at < 0:
            raise self._no_analysis(-at)
        return accepted

    def _finish(self) -> None:
        """Number the tables anew, and count everything from the seats: so does a chain that is resumed."""
        from ..kernels.adaptor.bigram_books import pack

        self._settle(*pack(self._pairs, self.text))

    def _settle(self, seat: Array, parent: Array) -> None:
        from ..kernels.adaptor.bigram_books import settle

        settle(self.grammar, self._seats, self._pairs, self.text, seat, parent)
        self._labels = (seat[: len(self.words)] >= 0).astype(np.int32)

    @property
    def pairs(self) -> Any:
        """The restaurants of words after words, as the kernels have them."""
        return self._pairs

    def _restaurants(self) -> tuple[Array, Array, Array, Array]:
        """Customers and tables of those of words that are open; sizes of tables, and how many have each."""
        from ..kernels.adaptor.records import FRESH

        p = self._pairs
        open_ = np.flatnonzero(p.all_customers)
        sizes, many = np.unique(p.size[: p.used[FRESH]], return_counts=True)
        return p.all_customers[open_], p.all_tables[open_], sizes.astype(np.int64), many

    def draw_numbers(self, alpha: Array, beta: Array, prior: Array, discounts: bool, rng: np.random.Generator) -> None:
        """Draw concentrations and discounts of both levels anew, in place."""
        from ..kernels.adaptor.hyper import draw_both, move

        state = rng.integers(2**63, size=1).astype(np.uint64)
        move(self._seats, self.text, beta[:1], alpha[:1], prior, discounts, state)
        draw_both(beta, alpha, 1, *self._restaurants(), prior, discounts, state)

    def log_joint(self, alpha: Array, beta: Array) -> float:
        """log p(words, seats, data), lexicon, restaurants, spelling and the share of ends integrated out."""
        from ..kernels.adaptor.hyper import log_seats
        from ..kernels.adaptor.records import ENDS

        p, words = self._pairs, int(self._seats.all_customers[0])
        ends = int(p.used[ENDS])
        found = super().log_joint(alpha[:1], beta[:1])  # the lexicon, and how its words are spelled
        found += lgamma(1 + ends) + lgamma(1 + words) - lgamma(2 + ends + words)
        return found + float(log_seats(beta[1], alpha[1], *self._restaurants()))

    @property
    def extra(self) -> dict[str, Array]:
        """All that the next sweep depends on: the table of every token, and that of the lexicon of every table."""
        from ..kernels.adaptor.records import FRESH

        p, first = self._pairs, len(self.offsets) - 1
        parent = p.parent[: int(p.used[FRESH])]
        return {"seat": p.seat.copy(), "parent": np.where(parent < 0, -1, parent - first).astype(np.int32)}

    @extra.setter
    def extra(self, arrays: dict[str, Array]) -> None:
        from ..kernels.adaptor.bigram_books import is_sound

        given = [arrays[name] for name in ("seat", "parent")]
        whole = all(x.ndim == 1 and x.dtype.kind == "i" for x in given)
        if not whole or len(given[0]) != len(self._pairs.seat) or len(given[1]) > len(given[0]):
            raise ValueError("the analyses are not those of these sentences")
        seat, parent = (np.ascontiguousarray(x, np.int64) for x in given)
        if not is_sound(self.grammar, self.text, seat, parent):
            raise ValueError("the analyses are not those of these sentences")
        self._settle(seat.astype(np.int32), parent.astype(np.int32))

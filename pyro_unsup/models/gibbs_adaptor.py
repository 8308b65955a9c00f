"""The analyses of sentences under an adaptor grammar whose lexicons are integrated out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import gammaincc, gammaln

from ..array import Array
from ..errors import FitError, StructureError

if TYPE_CHECKING:
    from .adaptor import Adaptor

#: Room for so many tables and entries is made in advance, for each symbol of the text.
TABLES, ENTRIES = 0.5, 4.0
#: Concentrations that are sampled lie between these. Those far below the discount differ in nothing that data can tell,
#: nor do small ones where all units of a level sit at one table. They end where 25 new units in a sentence still have a
#: weight, 1e-300, that is a float. Above the upper bound the density of the prior is 0 as a float.
LEAST, MOST = 1e-12, 1e20
#: What the arrays of tables are, between two sweeps.
_KEPT = ("string", "room", "start", "entries")


@dataclass(frozen=True)
class PitmanYorPrior:
    """Of the discount of a level, Beta; of its concentration, Gamma, which is vague (Johnson & Goldwater 2009).

    The Gamma distribution is truncated: no concentration is below ``least``. That leaves out 73 % of Gamma(0.01, rate
    0.01), and the other 27 % are the prior. A posterior reaches down to ``least`` where data cannot tell concentrations
    apart: those far below the discount, and with a discount of 0 all small ones while all units sit at one table.
    """

    beta: tuple[float, float] = (1.0, 1.0)
    shape: float = 0.01
    rate: float = 0.01
    least: float = LEAST

    def log_density(self, x: Array) -> Array:
        """Of log x, for concentrations x. The density of x itself would grow without bound as x becomes small, and a
        draw would look the better the smaller its concentrations are.
        """
        scale = gammaln(self.shape) + np.log(gammaincc(self.shape, self.rate * self.least))
        found = self.shape * np.log(self.rate * x) - self.rate * x - scale
        return np.where(x < self.least, -np.inf, found)

    @property
    def numbers(self) -> Array:  # (5,)
        """As the sampler takes it."""
        return np.array([*self.beta, self.shape, self.rate, np.log(self.least)])


class PitmanYor:
    """The discount and the concentration of every level of one chain.

    :param alpha: (levels,) concentrations.
    :param beta: (levels,) discounts.
    :param learn: ``"separate"``: both are sampled, for each level. ``"fixed"``: they stay as they are.
    """

    def __init__(self, alpha: Array, beta: Array, learn: Literal["fixed", "separate"]) -> None:
        if learn not in ("fixed", "separate"):
            raise FitError(f"hyper must be 'separate', one for each level, or 'fixed'; actual {learn!r:.80}")
        if not (np.all(alpha > 0) and np.all(np.isfinite(alpha))):
            raise FitError(f"alpha, the concentration of each level, must be positive and finite, actual {alpha!s:.80}")
        if learn != "fixed" and not np.all((alpha >= LEAST) & (alpha <= MOST)):
            raise FitError(
                f"alpha, the concentration of each level, is sampled between {LEAST:g} and {MOST:g}, and cannot start "
                f"outside, actual {alpha!s:.80}: start within, or take hyper='fixed'"
            )
        if not np.all((beta >= 0) & (beta < 1)):
            raise FitError(f"beta, the discount of each level, must lie from 0 to below 1, actual {beta!s:.80}")
        self.alpha, self.beta, self.learn, self.prior = alpha.astype(float), beta.astype(float), learn, PitmanYorPrior()

    def check_start(self) -> None:
        """Every start has some density."""

    @property
    def learns_discounts(self) -> bool:
        """Whether discounts are sampled: one of 0 is a Dirichlet process, and stays one."""
        return self.learn != "fixed" and bool((self.beta > 0).any())

    @property
    def record(self) -> dict[str, Any]:
        """Where the numbers start, and their priors if they are sampled, in plain values."""
        prior = f"Gamma(shape={self.prior.shape:g}, rate={self.prior.rate:g}) of concentrations, "
        prior += f"none below {self.prior.least:g}"
        if self.learns_discounts:
            prior += f", Beta({self.prior.beta[0]:g}, {self.prior.beta[1]:g}) of discounts"
        alpha, beta = (float(x[0]) for x in (self.alpha, self.beta))
        return {"alpha": alpha, "beta": beta, "hyperprior": None if self.learn == "fixed" else prior}

    @property
    def sampled(self) -> dict[str, Array]:
        """The numbers that are learned."""
        return {} if self.learn == "fixed" else {"concentration": self.alpha, "discount": self.beta}

    def step(self, state: AdaptorState, rng: np.random.Generator) -> tuple[dict[str, float], float]:
        """Draw them anew by slice sampling: rates of acceptance, and the log joint afterwards."""
        if self.learn == "fixed":
            return {}, self.log_joint(state)
        self.alpha, self.beta = self.alpha.copy(), self.beta.copy()
        state.draw_numbers(self.alpha, self.beta, self.prior.numbers, self.learns_discounts, rng)
        return {"alpha": 1.0, **({"beta": 1.0} if self.learns_discounts else {})}, self.log_joint(state)

    def log_joint(self, state: AdaptorState) -> float:
        """Of analyses and data, given the present numbers, and of those that are learned: discounts, and logs of
        concentrations."""
        found = state.log_joint(self.alpha, self.beta)
        if self.learn == "fixed":
            return found
        return found + float(self.prior.log_density(self.alpha).sum())  # discounts are uniform


class AdaptorState:
    """For every sentence an analysis into nested units, and the tables at which its units sit.

    :param model: an adaptor grammar.
    :param sentences: what the model accepts as data.
    """

    ways = ("blocked",)
    #: What is sampled beside the analyses.
    hyperparameters = PitmanYor
    #: The levels whose concentrations and discounts are alpha and beta; there are no finite tables.
    tables: tuple[tuple[str, ...], str]
    #: Labels: a word ends, or it does not.
    K = 2

    def __init__(self, model: Adaptor, sentences: Any) -> None:
        from ..kernels.adaptor.records import Text, Work

        found = model.index(sentences)
        lengths = found.lengths.numpy()
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        cells = np.ascontiguousarray(found.cells.numpy(), dtype=np.int32)
        self.grammar, self.model = model.compiled, model
        self.offsets, self.cells, self.words = offsets, cells, found.words.numpy().astype(np.int32)
        end, width = np.nonzero(cells >= 0)
        strings = int(cells.max()) + 1
        place, widths = np.zeros(strings, np.int64), np.zeros(strings, np.int32)
        place[cells[end, width]], widths[cells[end, width]] = end - width, width + 1
        self.text = Text(self.words, offsets, cells, place, widths)
        g, longest = self.grammar, int(lengths.max(initial=1))
        spans, many = (longest + 1) ** 2, 2 * longest * len(g.symbol) + 8
        self._work = Work(
            inside=np.zeros((spans, len(g.klass))),
            base=np.zeros((spans, len(g.symbol))),
            old=np.zeros((spans, len(g.symbol))),
            sums=np.zeros(len(g.pair_left)),
            active=np.zeros((spans, len(g.pair_left)), np.int16),
            actives=np.zeros(spans, np.int16),
            prob=np.zeros(len(g.left)),
            show=np.zeros((len(g.members), longest)),
            customers=np.zeros(len(g.symbol)),
            tables=np.zeros(len(g.symbol)),
            power=_powers(_scale(self.words), cells.shape[1]),
            stack=np.zeros((2 * longest + len(g.klass) + 8, 3), np.int64),
            queue=np.zeros((many, 3), np.int64),
            gone=np.zeros(many, np.int64),
            touched=np.zeros(many, np.int64),
        )
        levels = len(model.adapted)
        self.concentrations = np.full(levels, model.concentration), np.full(levels, model.discount)
        self.tables = (tuple(model.adapted), "lexicon")
        self._strings = strings
        self._seats = self._empty(int(TABLES * len(self.words)), int(ENTRIES * len(self.words)))
        self._labels = np.zeros(len(self.words), np.int32)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def data(self) -> dict[str, Array]:
        """What tells these sentences from others."""
        return {"words": self.words, "offsets": self.offsets}

    def _empty(self, tables: int, entries: int) -> Any:
        from ..kernels.adaptor.records import Seats

        g, sentences = self.grammar, len(self.offsets) - 1
        most = 4 * (len(self._work.stack) + 1) * len(g.symbol)
        capacity = sentences + tables + most
        rooms = len(g.symbol)
        by_string = {name: np.zeros((self._strings, rooms), np.int32) for name in ("customers", "tables")}
        by_table = {
            name: np.zeros(capacity, np.int64 if name == "start" else np.int32)
            for name in ("size", "after", "ahead", "string", "room", "start", "entries", "made", "added", "free")
        }
        used = np.array([sentences, 0, 0, 0])
        return Seats(
            **by_string,
            head=np.full((self._strings, rooms), -1, np.int32),
            all_customers=np.zeros(rooms, np.int64),
            all_tables=np.zeros(rooms, np.int64),
            pool=np.zeros(entries + 4 * most * len(g.klass), np.int32),
            used=used,
            rules=np.zeros(len(g.left), np.int64),
            rules_of=np.zeros(len(g.klass), np.int64),
            shown=np.zeros(g.member.shape, np.int64),
            shown_of=np.zeros(len(g.members), np.int64),
            **by_table,
        )

    def _grow(self) -> None:
        """More room, and everything as it was."""
        s = self._seats
        longer = {name: _twice(getattr(s, name)) for name in (
            "size", "after", "ahead", "string", "room", "start", "entries", "made", "added", "free", "pool"
        )}  # fmt: skip
        self._seats = s._replace(**longer)

    def draw_start(self, rng: np.random.Generator) -> None:
        """Analyses of all sentences, as the model's ``start`` says."""
        from ..kernels.adaptor.sweeps import BLANK, FIRST

        how = BLANK if self.model.start == "batch" else FIRST
        a, b = self.concentrations[1], self.concentrations[0]
        self._over_sentences(how, b, a, rng)
        self._finish()

    def _over_sentences(self, how: int, alpha: Array, beta: Array, rng: np.random.Generator) -> Array:
        from ..kernels.adaptor.sweeps import over_sentences

        order, accepted = rng.permutation(len(self.offsets) - 1), np.zeros(2, np.int64)
        state, at = rng.integers(2**63, size=1).astype(np.uint64), 0
        while at < len(order):
            told = (self._work, self.text, order, at, how, beta, alpha, state, accepted)
            try:
                at = int(over_sentences(self.grammar, self._seats, *told))
            except ZeroDivisionError:
                raise self._too_small() from None
            if at < 0:
                raise self._no_analysis(-at)
            if at < len(order):
                self._grow()
        return accepted

    def _no_analysis(self, sentence: int) -> FitError:
        """Of a sentence by its number, from 1."""
        symbols = self.words[self.offsets[sentence - 1] : self.offsets[sentence]].tolist()
        return FitError(
            f"sentence {sentence}, {self.model.spelled(symbols)!r}, has no analysis under the grammar: "
            f"{self.model.unfit(symbols)}"
        )

    def _too_small(self) -> FitError:
        longest = int(np.diff(self.offsets).max())
        return FitError(
            f"units of many symbols have probabilities below the least number that there is; lines have up to "
            f"{longest} symbols here: give max_length, 30 or so"
        )

    def _over_tables(self, alpha: Array, beta: Array, rng: np.random.Generator) -> Array:
        from ..kernels.adaptor.records import FRESH
        from ..kernels.adaptor.sweeps import over_tables

        accepted = np.zeros(2, np.int64)
        at, last = len(self.offsets) - 1, int(self._seats.used[FRESH])
        state = rng.integers(2**63, size=1).astype(np.uint64)
        while at < last:
            told = (self._work, self.text, at, last, beta, alpha, state, accepted)
            try:
                at = int(over_tables(self.grammar, self._seats, *told))
            except ZeroDivisionError:
                raise self._too_small() from None
            if at < last:
                self._grow()
        return accepted

    def _finish(self) -> None:
        """Number the tables anew, and read the cuts."""
        from ..kernels.adaptor.records import POOL
        from ..kernels.adaptor.sweeps import cuts, pack, settle

        s = self._seats
        into = np.zeros(int(s.used[POOL]) + 1, np.int32)
        tables, entries = pack(self.grammar, s, self.text, into)
        s.pool[:entries] = into[:entries]
        settle(self.grammar, s, self._work, self.text, tables, entries)
        cuts(self.grammar, s, self._work, self.text, self._labels)

    @property
    def labels(self) -> Array:  # (symbols,) int32
        """1 where a word ends."""
        return self._labels.copy()

    @labels.setter
    def labels(self, ends: Array) -> None:
        if not np.array_equal(ends, self._labels):
            raise StructureError(
                "chains of an adaptor grammar start from whole analyses, not from cuts: leave initial out"
            )

    @property
    def seats(self) -> Any:
        """The restaurants, as the kernels have them."""
        return self._seats

    def draw_numbers(self, alpha: Array, beta: Array, prior: Array, discounts: bool, rng: np.random.Generator) -> None:
        """Draw the concentration and the discount of every level anew, in place.

        :param prior: what :attr:`PitmanYorPrior.numbers` says.
        :param discounts: draw these, too.
        """
        from ..kernels.adaptor.hyper import move

        move(self._seats, self.text, beta, alpha, prior, discounts, rng.integers(2**63, size=1).astype(np.uint64))

    def log_joint(self, alpha: Array, beta: Array) -> float:
        """log p(analyses, data), lexicons and rules integrated out."""
        from ..kernels.adaptor.hyper import log_joint

        return float(log_joint(self.grammar, self._seats, self.text, beta, alpha))

    @property
    def extra(self) -> dict[str, Array]:
        """All that the next sweep depends on: tables, and analyses end to end."""
        from ..kernels.adaptor.records import FRESH, POOL

        s = self._seats
        tables, entries = int(s.used[FRESH]), int(s.used[POOL])
        return {**{name: getattr(s, name)[:tables].copy() for name in _KEPT}, "pool": s.pool[:entries].copy()}

    @extra.setter
    def extra(self, arrays: dict[str, Array]) -> None:
        from ..kernels.adaptor.sweeps import cuts, settle

        tables, entries = len(arrays["room"]), len(arrays["pool"])
        self._check(arrays)
        self._seats = s = self._empty(tables + int(TABLES * len(self.words)), 2 * entries + int(ENTRIES * len(self)))
        for name in _KEPT:
            getattr(s, name)[:tables] = arrays[name]
        s.pool[:entries] = arrays["pool"]
        settle(self.grammar, s, self._work, self.text, tables, entries)
        cuts(self.grammar, s, self._work, self.text, self._labels)

    def _check(self, arrays: dict[str, Array]) -> None:
        """Refuse analyses that do not fit the sentences: they may come from a file."""
        from ..kernels.adaptor.sweeps import is_sound

        sizes = {len(arrays[name]) for name in _KEPT}
        kinds = all(x.ndim == 1 and x.dtype.kind == "i" for x in arrays.values())
        if len(sizes) != 1 or not kinds or sizes.pop() < len(self.offsets) - 1:
            raise ValueError("the analyses are not those of these sentences")
        given = [np.ascontiguousarray(arrays[name], np.int64) for name in (*_KEPT, "pool")]
        if not is_sound(self.grammar, self.text, *given):
            raise ValueError("the analyses are not those of these sentences")

    def sweep(self, how: str, alpha: Array, beta: Array, power: float, rng: np.random.Generator) -> float:
        """A new analysis of every sentence and of every table's string. What share of them was accepted.

        :param alpha: concentrations of the levels.
        :param beta: their discounts.
        """
        if power != 1:
            raise FitError("adaptor grammars are sampled at temperature 1 only: leave the temperature out")
        accepted = self._over_sentences(2, alpha, beta, rng) + self._over_tables(alpha, beta, rng)
        self._finish()
        return float(accepted[1] / accepted[0]) if accepted[0] else 1.0


def _twice(x: Array) -> Array:
    return np.concatenate([x, np.zeros_like(x)])


def _powers(scale: float, longest: int) -> Array:  # (longest + 1,)
    """The scale to the power of the width of every unit that can be remembered."""
    most = int(np.log(np.finfo(np.float64).max) / max(np.log(scale), 1e-9)) - 1
    if longest > most:
        raise StructureError(
            f"a unit may have {longest} symbols here, and weights of more than {most} are beyond the range of numbers: "
            f"give max_length, {min(most, 30)} or so"
        )
    found: Array = scale ** np.arange(longest + 1)
    return found


def _scale(words: Array) -> float:
    """What keeps the weight of a sentence near 1, whatever its length: symbols are about as rare as this."""
    p = np.bincount(words) / max(len(words), 1)
    p = p[p > 0]
    return float(np.exp(-0.75 * (p * np.log(p)).sum()))

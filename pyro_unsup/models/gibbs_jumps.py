"""The links of words under an aligner by jumps: translations integrated out, tables of jumps drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.special import gammaln
from torch import Tensor

from ..array import Array
from ..distributions.alignment.jumps import Jumps, again, evenly, jumps_to_the_end, jumps_within, possible_jumps
from ..errors import StructureError
from .gibbs_links import WAYS, LinkState, Way

if TYPE_CHECKING:
    from .hmm_aligner import HMMAligner


class JumpState(LinkState):
    """As :class:`.LinkState`, neighbours likely choosing neighbours.

    A jump that would leave the sentence is drawn again, so the tables of jumps cannot be integrated out in closed form.
    They are part of the state. After each sweep over the links, the jumps that were drawn in vain are drawn, given the
    tables, then the tables given all jumps: both exactly. A learned probability of no link goes with them.

    :param model: an aligner by jumps whose directions learn on their own.
    :param bitext: what the model accepts as data.
    :param fertility: as of :class:`.LinkState`.
    """

    def __init__(self, model: HMMAligner, bitext: Any, fertility: float | None = None) -> None:
        if model.null_words != "learn":
            raise StructureError("links are sampled where null_words='learn', actual 'uniform'")
        if model.order != 1 or any(x is not None for x in model.classes):
            raise StructureError(
                "links are sampled where all jumps from link to link are of one kind: leave order and classes out, or "
                "learn by EM"
            )
        self._learns_null = model.learns_null
        declared = model.declarations()
        kinds = ("jump", "null") if model.learns_null else ("jump",)
        rows = tuple(f"{kind}_{way}" for kind in kinds for way in WAYS)
        self.tables = (rows, "translation")
        self._supports = {
            name: np.broadcast_to(True, layout.shape) if layout.support is None else layout.support.numpy()
            for name in rows
            for layout in [declared[name].layout]
        }
        super().__init__(model, bitext, fertility)
        self.concentrations = np.array([float(declared[name].prior) for name in rows]), self.concentrations[1]
        self._places = [_Places(way.sizes[1]) for way in self._both]
        start = model.start_from({f"translation_{way}": torch.zeros(0) for way in WAYS})
        own = {name: declared[name] for name in rows}
        self.extra = {name: w.exp().numpy() for name, w in start(own, torch.Generator()).items()}

    def _choice(self, model: Any, chosen: Array) -> Array:  # (B,) -> (2, B)
        alone = 1 / (chosen + 1.0) if model.null is None else np.full(len(chosen), model.null)
        return np.stack([alone, 1 - alone])

    @property
    def extra(self) -> dict[str, Array]:
        """The tables of jumps, and of whether there is a link, by name, as probabilities."""
        return dict(self._drawn)

    @extra.setter
    def extra(self, tables: dict[str, Array]) -> None:
        if tables.keys() != self._supports.keys():
            raise StructureError(f"expected the tables {sorted(self._supports)}, actual {sorted(tables)}")
        self._drawn = {name: np.asarray(tables[name], np.float64) for name in self._supports}
        self._weights = []
        for name, way, places in zip(WAYS, self._both, self._places, strict=True):
            self._weights.append(places.weights(self._drawn[f"jump_{name}"]))
            if self._learns_null:
                way.choice = np.repeat(self._drawn[f"null_{name}"][:, None], way.sizes.shape[1], 1)

    @property
    def drawn(self) -> dict[str, Array]:
        """The same. They are kept with every draw: links do not tell what they were."""
        return self.extra

    def log_choices(self, alpha: Array) -> float:
        """log p(links | tables), and of the tables given alpha; and of fertilities."""
        found = super().log_choices(alpha)
        for way, places, w in zip(self._both, self._places, self._weights, strict=True):
            n = places.count(way)
            found += float((n[n > 0] * np.log(w[n > 0])).sum())
        return found + sum(
            _log_dirichlet(self._drawn[name], support, a)
            for (name, support), a in zip(self._supports.items(), alpha.tolist(), strict=True)
        )

    def sweep(self, how: str, alpha: Array, beta: Array, power: float, rng: np.random.Generator) -> float:
        """Draw every word's place once, then the tables of jumps."""
        for way, b, places, w in zip(self._both, beta.tolist(), self._places, self._weights, strict=True):
            self._sweep(way, b, power, rng, w, places.length)
        self.draw_jumps(alpha, rng)
        return 1.0

    def draw_jumps(self, alpha: Array, rng: np.random.Generator) -> None:
        """Draw the jumps that were in vain, given the tables; then the tables, given all jumps."""
        new = {}
        for (name, support), a in zip(self._supports.items(), alpha.tolist(), strict=True):
            kind, _, side = name.partition("_")
            k = WAYS.index(side)
            way = self._both[k]
            if kind == "null":
                counts = np.bincount((way.labels > 0).astype(np.int64), minlength=2).astype(np.float64)
            else:
                counts = self._places[k].all_jumps(self._places[k].count(way), self._drawn[name], rng)
            new[name] = _draw_rows(np.where(support, counts + a, 0.0), rng)
        self.extra = new


class _Places:
    """Jumps between all places of sentences of some lengths: which weight and which room each has.

    :param sizes: (B,) how many places each sentence has.
    """

    def __init__(self, sizes: Array) -> None:
        distinct, self.length = np.unique(sizes, return_inverse=True)
        self._sizes, self._most = torch.from_numpy(distinct), int(distinct.max())
        self._known: dict[int, tuple[Jumps, Jumps]] = {}

    def _jumps(self, reach: int) -> tuple[Jumps, Jumps]:
        if reach not in self._known:
            within = jumps_within(self._sizes, reach, self._most)  # of one kind and direction
            within = Jumps(*(x.squeeze(1) for x in (within.weight, within.room, within.many, within.there)))
            self._known[reach] = within, jumps_to_the_end(self._sizes, reach, self._most)
        return self._known[reach]

    def weights(self, jump: Array) -> Array:  # (3, 2 W + 1) -> (lengths, most + 1, most + 1)
        """The probability of each, from place to next place; next place 0 is the end."""
        with np.errstate(divide="ignore"):
            logs = torch.from_numpy(np.log(jump))
        tables = [x.unsqueeze(0) for x in (logs, again(logs), evenly(self._most + 1, logs))]
        within, out = (one.logs(*tables).exp() for one in self._jumps((jump.shape[1] - 1) // 2))
        return torch.cat([out.unsqueeze(-1), within], -1).contiguous().numpy()

    def count(self, way: Way) -> Array:  # (lengths, most + 1, most + 1)
        """How often each is there."""
        from ..kernels.gibbs_links import count_jumps

        found = np.zeros((len(self._sizes), self._most + 1, self._most + 1), np.int64)
        count_jumps(way.sizes, way.at, way.labels, self.length, found)
        return found

    def all_jumps(self, n: Array, jump: Array, rng: np.random.Generator) -> Array:  # (3, 2 W + 1)
        """How often each weight was drawn, with those in vain, which are drawn here.

        From a room with so many jumps that stay, of which any one is drawn in vain with probability q, there are
        negative binomially many in vain; which they are goes by their weights.
        """
        W = (jump.shape[1] - 1) // 2
        within, out = self._jumps(W)
        possible, kinds = (x.numpy() for x in possible_jumps(W))
        found, rooms = np.zeros(3 * (2 * W + 1)), np.zeros(len(kinds), np.int64)
        for jumps, own in ((within, n[..., 1:]), (out, n[..., 0])):
            used = own > 0
            np.add.at(found, _at(jumps.weight, used), own[used])
            np.add.at(rooms, _at(jumps.room, used), own[used])
        found = found.reshape(3, -1)
        for room in np.flatnonzero(rooms):
            vain = np.where(possible[room], 0.0, jump[kinds[room]])
            q = float(vain.sum())
            if q > 0:
                many = rng.negative_binomial(rooms[room], max(1 - q, np.finfo(np.float64).tiny))
                found[kinds[room]] += rng.multinomial(many, vain / q)
        return found


def _at(x: Tensor, used: Array) -> Array:
    return np.asarray(x.numpy()[used])


def _draw_rows(shape: Array, rng: np.random.Generator) -> Array:
    """Rows drawn from Dirichlet distributions; a concentration of 0 is an impossible outcome."""
    from .gibbs_tags import log_gamma_draws

    logs = log_gamma_draws(shape, rng)
    found: Array = np.exp(logs - np.logaddexp.reduce(logs, axis=-1, keepdims=True))
    return found


def _log_dirichlet(rows: Array, support: Array, alpha: float) -> float:
    """Log density of rows under a Dirichlet prior with one concentration."""
    sizes = support.sum(-1)
    with np.errstate(divide="ignore"):
        logs = np.where(support, np.log(np.where(support, rows, 1.0)), 0.0)
    each = gammaln(sizes * alpha) - sizes * gammaln(alpha)
    # A probability of 0 (rounding of a tiny one) has a density of its own; its log is kept finite.
    return float(each.sum() + (alpha - 1) * np.maximum(logs, -1e4).sum())

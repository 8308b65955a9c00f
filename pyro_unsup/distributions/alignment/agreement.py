"""Two directions of alignment that learn from where they agree."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import torch
from torch import Generator, Size, Tensor

from ...errors import StructureError
from ...kernels.running import Place
from ..parts import Links
from ..posterior import Posterior
from ..ragged import Rows
from ..semiring import Sum
from ..stretch import CompiledStretch, is_large
from ..structure import Potentials, Stretch, Structure
from .grid import Grid
from .hmm import AlignmentHMM
from .model1 import Alignment, check_links, one_way, where_grids_lie

WAYS = ("forward", "backward")
Self = TypeVar("Self", bound="Agreement")


class Agreement(Structure):
    """Both directions of :class:`.Alignment` over the same grids, trained to agree (Liang, Taskar & Klein 2006).

    The value is what it would be without agreement: the sum of the two log-likelihoods. The gradient is not its
    gradient. It is the counts of a heuristic E step, in which a link counts as often as both directions expect it, on
    their own::

        q(i, j) = p_forward(i, j) p_backward(i, j)

    and that is not renormalised; words that choose the null word count as they do in their own direction. Hence
    ``exact`` is False: EM that uses these counts is not sure to raise the objective at every step (though it mostly
    does), and the expected counts of a word add up to less than one. There is no gradient of the gradient.

    Two other ways to train both directions are exact, and need no distribution of their own: two independent
    alignments; and the agreement of Liang, Klein & Jordan (2008), where each direction weighs links by the product of
    both tables (:class:`pyro_unsup.models.Aligner`).

    :param forward: target words choose source words.
    :param backward: source words choose target words (``turned``), over the same grids.
    :param shared: how many cells of the tables, the first ones, stand for the same two words in both. The others are
        those of the null words.

    Weights are those of the two, named ``forward.translation``, ``backward.translation``, and so on. A structure is a
    table (cells, 2): a link forward, a link backward.

    >>> import torch
    >>> from pyro_unsup.distributions import Agreement, Alignment
    >>> from pyro_unsup.distributions.alignment.grid import Grid
    >>> grid = Grid(torch.tensor([2]), torch.tensor([2]))  # one pair of sentences, of two words each
    >>> value = torch.tensor([1, 1, 1, 1, 0, 0, 1, 0, 0])  # a null row, then null column and two cells of each word
    >>> weights = torch.zeros(2)
    >>> both = Agreement(Alignment(weights, grid), Alignment(weights, grid, turned=True), shared=1)
    >>> both.forward.posterior(value).counts["translation"], both.posterior(value).counts["forward.translation"]
    (tensor([1.3333, 0.6667]), tensor([0.4444, 0.6667]))

    **References:**

    [1] P. Liang, B. Taskar and D. Klein (2006) "Alignment by agreement".
    [2] P. Liang, D. Klein and M. I. Jordan (2008) "Agreement-based learning".
    """

    part = "links"
    what = "cells"
    exact = False
    kernel: ClassVar[str | None] = "pyro_unsup.kernels.alignment.agreement"

    def __init__(self, forward: Alignment, backward: Alignment, shared: int) -> None:
        if forward.turned or not backward.turned or forward.grid is not backward.grid:
            raise StructureError("agreement is between one direction and the other (turned=True) over the same grid")
        if not 0 <= shared <= min(one.sizes["C"] for one in (forward, backward)):
            raise StructureError(f"the tables cannot share {shared} cells: one of them has fewer")
        self._ways: tuple[Alignment, Alignment] = (forward, backward)
        self.grid, self.shared = forward.grid, shared
        super().__init__(self._all_weights(), self._words(self.grid), forward.event_shape, self._axes())

    @property
    def forward(self) -> Alignment:
        """Target words choose source words."""
        return self._way(0)

    @property
    def backward(self) -> Alignment:
        """Source words choose target words."""
        return self._way(1)

    def _way(self, k: int) -> Alignment:
        """One direction, with its weights and its column of added potentials."""
        one = self._plain(k)
        return one.with_potentials(links=self._links()[..., k]) if "links" in self.extra else one

    def _plain(self, k: int) -> Alignment:
        """The same without added potentials."""
        way = self._ways[k]
        return way.with_weights({name: self.weights[f"{WAYS[k]}.{name}"] for name in way.weights})

    def _links(self) -> Tensor:  # (*draws, cells, 2)
        """Added potentials."""
        x = self.extra["links"]
        return x.expand(*x.shape[:-2], self.grid.cells, 2)

    def with_potentials(self: Self, **more: Tensor) -> Self:
        new = super().with_potentials(**more)
        check_links(new.extra, (self.grid.cells, 2))
        return new

    def _all_weights(self) -> dict[str, Tensor]:
        return {f"{way}.{n}": w for way, one in zip(WAYS, self._ways, strict=True) for n, w in one.weights.items()}

    def _axes(self) -> dict[str, str]:
        both = zip(WAYS, self._ways, strict=True)
        return {f"{way}.{n}": " ".join(axes) for way, one in both for n, axes in one.table_axes.items()}

    @staticmethod
    def _words(grid: Grid) -> Tensor:  # (B,)
        return grid.source_lengths + grid.target_lengths

    def _measure(self) -> None:
        self.sizes = {}  # each direction has its own
        self._ways = (self._plain(0), self._plain(1))
        self.weights, self.all_axes = self._all_weights(), self._axes()
        self.table_axes = {name: tuple(axes.split()) for name, axes in self.all_axes.items()}

    # -- two structures side by side

    def potentials(self, value: Tensor) -> Potentials:
        """Of links, (*draws, cells, 2); groups that are tables by the name of the direction."""
        both = [one.potentials(value) for one in (self._plain(0), self._plain(1))]
        links = torch.stack(torch.broadcast_tensors(*(one["links"] for one in both)), -1)
        tables = {f"{way}.{n}": one[n] for way, one in zip(WAYS, both, strict=True) for n in one if n != "links"}
        return {"links": links, **tables}

    def total(self, potentials: Potentials, sum_: Sum) -> Tensor:
        found = []
        for k, way in enumerate(WAYS):
            one = self._plain(k)
            own = {name: potentials[f"{way}.{name}"] for name in one.shared_groups}
            found.append(one.total({"links": potentials["links"][..., k], **own}, sum_))
        return found[0] + found[1]

    def to_structure(self, parts: Tensor) -> Tensor:  # (*draws, cells, 2) -> (*draws, cells, 2) int8
        return self._ways[0].to_structure(parts)

    def to_parts(self, structure: Tensor) -> Tensor:  # (*draws, cells, 2) -> (*draws, cells, 2) bool
        return self._ways[0].to_parts(structure)

    def owner(self, group: str) -> Tensor:  # (cells,)
        return self.grid.owner

    def parts(self, value: Tensor) -> Links:
        return Links(self.grid, torch.tensor([False, True]))

    def check_value(self, value: Tensor) -> None:
        for one in self._ways:
            one.check_value(value)
        # Kernels count the null word's cells of the second table apart, so those must not be among the shared ones.
        first = value.index_select(0, self.grid.null_column.to(value.device))
        if len(first) and int(first.min()) < self.shared:
            raise StructureError(
                f"the cells of null words come after the {self.shared} that both tables share, actual cell "
                f"{int(first.min())}: put them last, or share fewer"
            )

    def score(self, value: Tensor, structure: Tensor) -> Tensor:  # (cells,), (cells, 2) -> batch_shape
        each = [one.score(value, structure[..., k]) for k, one in enumerate((self.forward, self.backward))]
        return self.by_example(each[0] + each[1])

    def posterior(self, value: Tensor) -> AgreementPosterior:
        return AgreementPosterior(*self.laid_flat(value))

    def defined(self, value: Tensor) -> Tensor:  # (cells,) -> (*draws, B)
        """Both log-likelihoods, and the merged counts as their gradient.

        That is the gradient of something linear: expectations, taken as constants, times the log-weights that they
        count.
        """
        ways = (self.forward, self.backward)
        both = [one.posterior(value) for one in ways]
        with torch.no_grad():
            total = both[0]._log_z + both[1]._log_z  # (*draws, B)
            possible = total > -torch.inf
            p = torch.broadcast_tensors(*(one.expected["links"] for one in both))  # (*draws, cells) each
            links = (self.grid.used(False) & self.grid.used(True)).to(total.device)
            there = possible.index_select(-1, self.grid.owner.to(total.device))
            q = [torch.where(there, torch.where(links, p[0] * p[1], own), 0.0) for own in p]
        one, other = (self._slope(way, value, expected, possible) for way, expected in zip(ways, q, strict=True))
        slope = one + other
        return total + (slope - slope.detach())

    def _slope(self, one: Alignment, value: Tensor, expected: Tensor, possible: Tensor) -> Tensor:  # -> (*draws, B)
        """Something whose gradient is the counts of one direction.

        :param expected: (*draws, cells) how often links count.
        :param possible: (*draws, B) which pairs count.
        """
        return self._weighed(expected, one.potentials_of(value)["links"])

    def _weighed(self, expected: Tensor, logs: Tensor) -> Tensor:  # (*draws, cells) each -> (*draws, B)
        each = torch.where(expected > 0, expected * torch.where(expected > 0, logs, 0.0), 0.0)
        empty = each.new_zeros(*each.shape[:-1], len(self.grid))
        return empty.index_add(-1, self.grid.owner.to(each.device), each)

    def with_tables(self: Self, weights: Mapping[str, Tensor]) -> Self:
        new = super().with_tables(weights)
        one, other = (
            way.with_tables({name: new.weights[f"{WAYS[k]}.{name}"] for name in way.weights})
            for k, way in enumerate(self._ways)
        )
        new._ways = (one, other)
        return new

    def hollow(self: Self) -> Self:
        new = super().hollow()
        new._ways = (self._ways[0].hollow(), self._ways[1].hollow())
        return new

    def select(self: Self, value: Tensor, examples: Tensor) -> tuple[Self, Tensor]:
        grid, cells = self.grid.select(examples)
        new = copy(self)
        one, other = (way.of_pairs(grid, cells, examples) for way in (self._plain(0), self._plain(1)))
        new._ways, new.grid, new.lengths = (one, other), grid, self._words(grid)
        new.rows, new.weights = Rows(new.lengths), new._all_weights()
        new.all_axes = new._axes()
        new.table_axes = {name: tuple(axes.split()) for name, axes in new.all_axes.items()}
        if "links" in self.extra:
            links = self._links()
            new.extra = {"links": links.index_select(-2, cells.to(links.device))}
        new._batch_shape, new._event_shape = new._weights_batch(), Size([grid.cells])
        return new, value.index_select(0, cells.to(value.device))

    def stepwise(self, value: Tensor, places: Mapping[str, Place], batch_size: int) -> Stretch | None:
        names = ("forward.translation", "backward.translation")
        if type(self) is not Agreement or places.keys() != set(names):
            return None
        if is_large(2 * self.grid.cells / 16, len(self.grid), batch_size):
            return None
        ways = (one_way(one, value, places[name]) for one, name in zip(self._ways, names, strict=True))
        return CompiledStretch("alignment.agreement_stepwise", names, (where_grids_lie(self.grid), *ways))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.forward.sample(sample_shape)


class HMMAgreement(Agreement):
    """:class:`.Agreement` of two :class:`.AlignmentHMM`.

    A link counts for the tables of translations as often as both directions expect it, one expectation times the other.
    Everything else counts as it does in its own direction: words without a link, jumps, and how often there is a link
    at all.

    >>> import torch
    >>> from pyro_unsup.distributions import AlignmentHMM, HMMAgreement
    >>> from pyro_unsup.distributions.alignment.grid import Grid
    >>> grid, jump = Grid(torch.tensor([2]), torch.tensor([2])), torch.zeros(3, 11)
    >>> value = torch.tensor([1, 1, 1, 1, 0, 0, 1, 0, 0])  # a null row, then null column and two cells of each word
    >>> forward, backward = (AlignmentHMM(torch.zeros(2), grid, jump, turned=turned) for turned in (False, True))
    >>> HMMAgreement(forward, backward, shared=1).posterior(value).counts["forward.translation"]
    tensor([0.4444, 0.6667])

    **References:** [1] P. Liang, B. Taskar and D. Klein (2006) "Alignment by agreement".
    """

    kernel = "pyro_unsup.kernels.alignment.hmm_agreement"
    shared_groups = tuple(f"{way}.{name}" for way in WAYS for name in AlignmentHMM.shared_groups)

    def __init__(self, forward: AlignmentHMM, backward: AlignmentHMM, shared: int) -> None:
        super().__init__(forward, backward, shared)

    def _slope(self, one: Alignment, value: Tensor, expected: Tensor, possible: Tensor) -> Tensor:
        own = one.with_weights({"translation": one.weights["translation"].detach()})
        own.extra = {name: x.detach() for name, x in one.extra.items()}
        links = one.translations(value) + one.extra.get("links", 0.0)
        return self._weighed(expected, links) + torch.where(possible, own.log_partition(value), 0.0)


class AgreementPosterior(Posterior):
    """The posteriors of the two directions, each on its own, side by side."""

    prior: Agreement

    @cached_property
    def forward(self) -> Posterior:
        return self.prior.forward.posterior(self.value)

    @cached_property
    def backward(self) -> Posterior:
        return self.prior.backward.posterior(self.value)

    @cached_property
    def log_partition(self) -> Tensor:  # (*draws, B)
        return self.prior.by_example(self.forward.log_partition + self.backward.log_partition)

    @cached_property
    def counts(self) -> dict[str, Tensor]:
        """Those of the agreement: the gradient of ``log_prob``."""
        leaves = {name: w.clone().requires_grad_() for name, w in self.prior.weights.items()}
        with torch.enable_grad():
            total = self.prior.with_weights(leaves).log_partition(self.value).sum()
        return dict(zip(leaves, torch.autograd.grad(total, list(leaves.values())), strict=True))

    @cached_property
    def marginals(self) -> Tensor:  # (*draws, cells, 2)
        return _beside(self.forward.marginals, self.backward.marginals)

    def mode(self) -> Tensor:  # (*draws, cells, 2)
        return _beside(self.forward.mode(), self.backward.mode())

    def mbr(self, marginals: Tensor | None = None) -> Tensor:  # (*draws, cells, 2)
        both = (None, None) if marginals is None else marginals.unbind(-1)
        return _beside(self.forward.mbr(both[0]), self.backward.mbr(both[1]))

    def sample(self, sample_shape: Any = (), generator: Generator | None = None) -> Tensor:  # (..., cells, 2)
        return _beside(*(one.sample(sample_shape, generator) for one in (self.forward, self.backward)))

    @cached_property
    def entropy(self) -> Tensor:  # (*draws, B)
        return self.prior.by_example(self.forward.entropy + self.backward.entropy)

    def kl(self, other: Posterior) -> Tensor:  # (*draws, B)
        if not isinstance(other, AgreementPosterior):
            return super().kl(other)
        return self.forward.kl(other.forward) + self.backward.kl(other.backward)


def _beside(one: Tensor, other: Tensor) -> Tensor:  # (*draws, cells) each -> (*draws, cells, 2)
    return torch.stack(torch.broadcast_tensors(one, other), -1)

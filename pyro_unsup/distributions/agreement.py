"""Two directions of alignment that learn from where they agree."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor
from torch.autograd.function import once_differentiable
from torch.distributions import constraints

from ..errors import StructureError
from ..kernels.threads import plain_torch
from .alignment import Alignment
from .alignment_grid import Grid
from .alignment_posterior import AlignmentPosterior
from .alignment_sum import AlignmentParts, hard_pairs, of_pairs, posteriors, sweep
from .parts import Links
from .structured import Posterior, Structure
from .weighed import as_mask

if TYPE_CHECKING:
    from ..kernels.alignment import Real, Totals


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
    >>> from pyro_unsup.distributions.alignment_grid import Grid
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

    exact = False

    def __init__(self, forward: Alignment, backward: Alignment, shared: int) -> None:
        if forward.turned or not backward.turned or forward.grid is not backward.grid:
            raise StructureError("agreement is between one direction and the other (turned=True) over the same grid")
        if not 0 <= shared <= min(x.translation.shape[-1] for x in (forward, backward)):
            raise StructureError(f"the tables cannot share {shared} cells: one of them has fewer")
        self.forward, self.backward, self.shared = forward, backward, shared
        super().__init__(forward.batch_shape, forward.event_shape, validate_args=False)

    @property
    def weights(self) -> dict[str, Tensor]:
        both = {"forward": self.forward, "backward": self.backward}
        return {f"{way}.{name}": w for way, one in both.items() for name, w in one.weights.items()}

    def with_weights(self, weights: dict[str, Tensor]) -> Agreement:
        new = copy(self)
        for way in ("forward", "backward"):
            mine = {name.partition(".")[2]: w for name, w in weights.items() if name.startswith(f"{way}.")}
            setattr(new, way, getattr(self, way).with_weights(mine))
        return new

    def expand(self, batch_shape: Any, _instance: Any = None) -> Agreement:
        new = copy(self)
        new._batch_shape = Size(batch_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        most = max(self.forward.translation.shape[-1], self.backward.translation.shape[-1]) - 1
        return constraints.independent(constraints.integer_interval(-1, most), 1)

    def _check_null(self, value: Tensor) -> None:
        """Kernels count the null word's cells of the second table apart, so those must not be among the shared ones."""
        rows = self.forward.grid.rows
        first = value[torch.from_numpy(rows.starts[:-1][~rows.null])]
        if len(first) and int(first.min()) < self.shared:
            raise StructureError(
                f"the cells of null words come after the {self.shared} that both tables share, actual cell "
                f"{int(first.min())}: put them last, or share fewer"
            )

    def log_prob(self, value: Tensor) -> Tensor:  # (cells,) -> batch_shape
        both = []
        for one in (self.forward, self.backward):
            one._data(value)
            if one._parts.batch_shape.numel() != 1:
                raise StructureError(f"agreement wants one set of weights, actual {tuple(one._parts.batch_shape)}")
            both.append(one._parts.squeezed())
        self._check_null(value)
        with plain_torch():
            total: Tensor = _Agreed.apply(*both[0].tables(), *both[1].tables(), value, self)
        return total.expand(torch.broadcast_shapes(total.shape, self._batch_shape))

    def score(self, value: Tensor, structure: Tensor) -> Tensor:  # (cells,), (cells, 2) -> (B,)
        return self.forward.score(value, structure[..., 0]) + self.backward.score(value, structure[..., 1])

    def posterior(self, value: Tensor) -> AgreementPosterior:
        return AgreementPosterior(self, value)

    def parts(self, value: Tensor) -> Links:
        return Links(self.forward.grid, torch.tensor([False, True]))

    def apart(self, value: Tensor, factors: Tensor) -> tuple[Agreement, Tensor]:
        new, both = copy(self), (self.forward, self.backward)
        allowed = as_mask(factors)
        if allowed is not None and torch.equal(allowed[:, 0], allowed[:, 1]):
            cell = max(one.translation.shape[-1] for one in both)
            new.forward, new.backward = (one.without(value, ~allowed[:, 0], cell)[0] for one in both)
            return new, value.masked_fill(~allowed[:, 0], cell)
        order, numbers, new.shared = self.forward.grid.links_first
        own = [one.cell_weights(value, more).index_select(-1, order) for one, more in zip(both, factors.T, strict=True)]
        new.forward, new.backward = (
            one.with_weights({"translation": mine}) for one, mine in zip(both, own, strict=True)
        )
        return new, numbers

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.forward.sample(sample_shape)


class AgreementPosterior(Posterior):
    """The posteriors of the two directions, each on its own, side by side."""

    def __init__(self, dist: Agreement, value: Tensor) -> None:
        self.forward: AlignmentPosterior = dist.forward.posterior(value)
        self.backward: AlignmentPosterior = dist.backward.posterior(value)
        self._dist, self._value = dist, value

    @property
    def log_partition(self) -> Tensor:  # type: ignore[override]  # (B,)
        return self.forward.log_partition + self.backward.log_partition

    @property
    def counts(self) -> dict[str, Tensor]:  # type: ignore[override]
        """Those of the agreement: the gradient of ``log_prob``."""
        weights = {name: w.detach().clone().requires_grad_() for name, w in self._dist.weights.items()}
        with torch.enable_grad():
            total = self._dist.with_weights(weights).log_prob(self._value).sum()
        return dict(zip(weights, torch.autograd.grad(total, list(weights.values())), strict=True))

    @property
    def marginals(self) -> Tensor:  # type: ignore[override]  # (cells, 2)
        return torch.stack([self.forward.marginals, self.backward.marginals], -1)

    def mode(self) -> Tensor:  # (cells, 2)
        return torch.stack([self.forward.mode(), self.backward.mode()], -1)

    def mbr(self) -> Tensor:  # (cells, 2)
        return torch.stack([self.forward.mbr(), self.backward.mbr()], -1)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:  # (cells, 2)
        return torch.stack([self.forward.sample(generator), self.backward.sample(generator)], -1)

    @property
    def entropy(self) -> Tensor:  # (B,)
        return self.forward.entropy + self.backward.entropy


class _Agreed(torch.autograd.Function):
    """Both log-likelihoods forward, merged counts backward."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *weights, value, dist = inputs
        ctx.save_for_backward(*weights, value)
        ctx.grid, ctx.shared = dist.forward.grid, dist.shared
        ctx.swept = one, other = _sweeps(weights, value, ctx.grid)
        total = one[2] + other[2]
        ctx.possible = total > -torch.inf
        return total.to(weights[0].dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from ..kernels.alignment import agreed_counts

        *weights, value = ctx.saved_tensors
        both = AlignmentParts(*weights[:3]), AlignmentParts(*weights[3:])
        reals, found, _ = zip(*(ctx.swept or _sweeps(weights, value, ctx.grid)), strict=True)
        ctx.swept = None  # large, and seldom asked for twice
        scale = torch.where(ctx.possible, grad.double(), 0.0)
        with plain_torch():
            rows = ctx.grid.rows
            hard = found[0].small | found[1].small
            easy = torch.where(torch.from_numpy(hard), 0.0, scale).numpy()
            tables = agreed_counts(reals, value.numpy(), rows, ctx.shared, found, easy)
            counts = [torch.from_numpy(x) for x in tables]
            if hard.any():
                again, small, cells = hard_pairs(hard, ctx.grid)
                more = _merged([of_pairs(parts, again) for parts in both], value[cells], small, scale[again])
                counts = [into + extra[0] for into, extra in zip(counts, more, strict=True)]
            needs, by_input = ctx.needs_input_grad, {0: counts[0], 3: counts[1]}
            if any(needs[k] for k in (1, 2, 4, 5)):  # the weights of a pair may be learnt, but seldom are
                one, other = _merged(both, value, ctx.grid, scale)
                by_input |= {1: one[1], 2: one[2], 4: other[1], 5: other[2]}
        return *(by_input[k].to(weights[0].dtype) if needs[k] else None for k in range(6)), None, None


def _sweeps(weights: Sequence[Tensor], value: Tensor, grid: Grid) -> list[tuple[Real, Totals, Tensor]]:
    """One sweep for each direction."""
    return [sweep(AlignmentParts(*weights[3 * way : 3 * way + 3]), value, grid, way == 1) for way in range(2)]


def _merged(
    both: Sequence[AlignmentParts],
    value: Tensor,  # (cells,)
    grid: Grid,
    scale: Tensor,  # (B,)
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Counts of table, null and word in both directions, by the definition."""
    row, column = grid.parts()
    pair, down = grid.pair[row], grid.place[row]
    forward, backward = (posteriors(parts, value, grid, way == 1).spread() for way, parts in enumerate(both))
    # Along the edges there are the null words, of one direction each: the other has a probability of 0 there.
    q = torch.where((down > 0) & (column > 0), forward * backward, forward + backward) * scale[pair]
    found = []
    for parts, chooser, other in zip(both, (column, down), (down, column), strict=True):
        used, null = chooser > 0, torch.where(other == 0, q, 0.0)
        table = torch.zeros(len(parts.translation), dtype=q.dtype).index_add(0, value[used].long(), q[used])
        empty = torch.zeros(len(grid), dtype=q.dtype)
        alone = empty.index_add(0, pair[used], null[used])
        found.append((table, alone, empty.index_add(0, pair[used], q[used]) - alone))
    return found

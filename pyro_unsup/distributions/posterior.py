"""What is known about hidden structure, given the data: gradients of one recursion in three semirings."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Size, Tensor

from ..errors import StructureError
from ..kernels.threads import plain_torch
from .compiled import by_potentials, by_weights, kernel_of, potential_sets, stacked, weight_sets
from .semiring import LOG, MAX, SAMPLE, Sum

if TYPE_CHECKING:
    from .structure import Potentials, Structure

#: Examples whose expected log-weight is found at a time, where that needs a table of expectations an example.
EXAMPLES_AT_A_TIME = 256


class Posterior:
    """The posterior over the structures of some data. Results have the form of the data, after the axes of draws.

    A structure is -1 throughout where an example has none.

    :param prior: the distribution. Gradients stop here.
    :param value: (rows, ...) the data, lying flat.

    >>> import torch
    >>> import pyro_unsup as pu
    >>> emission = torch.tensor([[0.9, 0.1], [0.2, 0.8]]).log()
    >>> chain = pu.Chain(torch.zeros(2), torch.zeros(2, 2), emission, torch.tensor([3]), flat=True)
    >>> posterior = chain.posterior(torch.tensor([0, 1, 1]))
    >>> posterior.mode(), posterior.mbr(), posterior.marginals.shape
    (tensor([0, 1, 1]), tensor([0, 1, 1]), torch.Size([3, 2]))
    >>> posterior.counts["emission"].sum().round(), posterior.entropy
    (tensor(3.), tensor([1.1718]))
    """

    def __init__(self, prior: Structure, value: Tensor) -> None:
        self.prior, self.value = prior.detached(), value

    @cached_property
    def log_partition(self) -> Tensor:  # (*draws, B)
        """log Z."""
        with torch.no_grad():
            return self.prior.by_example(self._log_z)

    @cached_property
    def counts(self) -> dict[str, Tensor]:
        """Expected uses of every weight, over the whole batch, shaped as the weights."""
        leaves = {name: w.clone().requires_grad_() for name, w in self.prior.weights.items()}
        with torch.enable_grad():
            dist = self.prior.with_weights(leaves)
            if self._kernel is not None:
                total = dist.log_partition(self.value).sum()
                found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True, materialize_grads=True)
                return dict(zip(leaves, found, strict=True))
            made = {name: x for name, x in dist.potentials_of(self.value).items() if x.requires_grad}
        expected = [self.expected[name].sum_to_size(x.shape) for name, x in made.items()]
        found = torch.autograd.grad(
            list(made.values()), list(leaves.values()), expected, allow_unused=True, materialize_grads=True
        )
        return dict(zip(leaves, found, strict=True))

    @cached_property
    def potentials(self) -> Potentials:
        """The log-potential of every part, by group: (*draws, rows, ...)."""
        with torch.no_grad():
            return self._wide(self.prior.potentials_of(self.value))

    @property
    def expected(self) -> Potentials:
        """The posterior probability of every part, by group; of groups that are shared tables, expected uses in all."""
        return self._solved[1]

    @cached_property
    def marginals(self) -> Tensor:  # (*draws, rows, ...)
        """The posterior probability of the parts that tell a structure."""
        return self.prior.shaped(self._marginals, 0)

    @cached_property
    def _marginals(self) -> Tensor:  # flat
        dist, kernel = self.prior, self._kernel
        if "_solved" in self.__dict__ or not by_weights(dist, kernel, "marginals"):
            return self.expected[dist.part]
        with plain_torch():
            found = [kernel.marginals(dist, one, self.value) for one in weight_sets(dist)]
        like = next(iter(dist.weights.values()))
        self.__dict__.setdefault("_summed", stacked([log_z for log_z, _ in found], dist.draws).to(like))
        return stacked([one for _, one in found], dist.draws).to(like)

    def mode(self) -> Tensor:
        """The structure of highest posterior probability (Viterbi)."""
        return self.prior.shaped(self._decode(False, None), -1)

    def mbr(self, marginals: Tensor | None = None) -> Tensor:  # (*draws, rows, ...)
        """The structure with the highest expected number of right parts (minimum Bayes risk).

        Only parts of some possible structure are used, so that what is forbidden stays so.

        :param marginals: probabilities of the parts, such as the mean of several posteriors'; by default its own.
        """
        dist, kernel = self.prior, self._kernel
        marginals = self._marginals if marginals is None else marginals.reshape(self._marginals.shape)
        gain = marginals.masked_fill(marginals == 0, -torch.inf)
        found = dist.best_parts(gain)
        if found is None and by_potentials(dist, kernel, "pick"):
            with plain_torch():
                each = [kernel.pick(dist, one, False, None) for one in potential_sets(dist, {dist.part: gain})]
            found = stacked(each, dist.draws)
        if found is None:
            found = self._best({**{name: torch.zeros_like(x) for name, x in self.potentials.items()}, dist.part: gain})
        return dist.shaped(self._masked(found), -1)

    def sample(self, sample_shape: Any = (), generator: Generator | None = None) -> Tensor:
        """Exact draws of the structure, (*sample_shape, *draws, ...)."""
        shape = Size(sample_shape)
        if shape.numel() == 0:
            one = self._decode(False, None)
            return self.prior.shaped(one.new_empty(*shape, *one.shape), -1)
        drawn = self._drawn(shape.numel(), generator)
        found = torch.stack(drawn).reshape(*shape, *drawn[0].shape) if shape else drawn[0]
        return self.prior.shaped(found, -1)

    @cached_property
    def entropy(self) -> Tensor:  # (*draws, B)
        """Entropy of the posterior over structures, in nats: log Z - E[log weight]. 0 where there is no structure."""
        found = self._log_z - self._mean_of_each[0]
        found = torch.where(self._log_z > -torch.inf, found, torch.zeros_like(found)).clamp(min=0)
        return self.prior.by_example(found)

    def kl(self, other: Posterior) -> Tensor:  # (*draws, B)
        """The Kullback-Leibler divergence from this posterior to another one of the same data, in nats.

        It is infinite where the other holds impossible what this one does not, and 0 where this one has no structure.

        :param other: of the same kind of structure, data and shape of draws. Its weights and potentials may differ.
        """
        mine, theirs = self.prior, other.prior
        if type(theirs) is not type(mine) or mine.draws != theirs.draws:
            raise StructureError(
                f"kl needs two posteriors of one kind of structure and one shape of draws, actual "
                f"{type(mine).__name__} {tuple(mine.draws)} and {type(theirs).__name__} {tuple(theirs.draws)}"
            )
        if not torch.equal(self.value, other.value) or not torch.equal(mine.rows.lengths, theirs.rows.lengths):
            raise StructureError("kl needs two posteriors of the same data: these have other values or lengths")
        own, others = self._means([mine, theirs])
        found = other._log_z - others - (self._log_z - own)
        found = torch.where(other._log_z == -torch.inf, torch.inf, found)
        return mine.by_example(torch.where(self._log_z > -torch.inf, found, torch.zeros_like(found)))

    # -- how it is found

    @cached_property
    def _kernel(self) -> Any:
        return kernel_of(self.prior)

    @property
    def _log_z(self) -> Tensor:  # (*draws, B)
        if "_solved" in self.__dict__ or not by_weights(self.prior, self._kernel, "sums"):
            return self._solved[0]
        return self._summed

    @cached_property
    def _summed(self) -> Tensor:
        with torch.no_grad():
            return self.prior.log_partition(self.value)

    @cached_property
    def _solved(self) -> tuple[Tensor, Potentials]:
        """log Z, and the posterior probability of every part."""
        dist = self.prior
        if not by_potentials(dist, self._kernel, "solve"):
            return _gradient(dist, self.potentials, LOG)
        with plain_torch():
            found = [self._kernel.solve(dist, one, None) for one in potential_sets(dist, self.potentials)]
        like = next(iter(dist.weights.values()))
        log_z = torch.stack([one for one, _ in found]).reshape(*dist.draws, -1).to(like)
        marginals = {}
        for name, x in self.potentials.items():
            each = torch.stack([one[name] for _, one in found])
            marginals[name] = each.reshape(x.shape).to(like)
        return log_z, marginals

    def _decode(self, draw: bool, generator: Generator | None) -> Tensor:
        dist, kernel = self.prior, self._kernel
        if by_weights(dist, kernel, "decode"):
            with plain_torch():
                found = [kernel.decode(dist, one, self.value, draw, generator) for one in weight_sets(dist)]
            return stacked(found, dist.draws)
        return self._masked(self._best(self.potentials, draw, generator))

    def _best(self, potentials: Potentials, draw: bool = False, generator: Generator | None = None) -> Tensor:
        """The best structure under some potentials, or a drawn one."""
        dist, kernel = self.prior, self._kernel
        if by_potentials(dist, kernel, "pick"):
            with plain_torch():
                found = [kernel.pick(dist, one, draw, generator) for one in potential_sets(dist, potentials)]
            return stacked(found, dist.draws)
        return next(self._by_definition(potentials, SAMPLE(generator) if draw else MAX, 1))

    def _by_definition(self, potentials: Potentials, sum_: Sum, times: int) -> Iterator[Tensor]:
        """Structures that the gradients of a total mark."""
        for total, parts in _gradients(self.prior, potentials, sum_, times):
            structure = self.prior.to_structure(parts[self.prior.part])
            yield _fill(structure, total == -torch.inf, self.prior)

    def _drawn(self, times: int, generator: Generator | None) -> list[Tensor]:
        """So many draws. By the definition, they share one pass upwards."""
        dist, kernel = self.prior, self._kernel
        if by_weights(dist, kernel, "decode") or by_potentials(dist, kernel, "pick"):
            return [self._decode(True, generator) for _ in range(times)]
        return [self._masked(one) for one in self._by_definition(self.potentials, SAMPLE(generator), times)]

    def _masked(self, structure: Tensor) -> Tensor:
        """The structure; -1 throughout where an example has none."""
        return _fill(structure, self._log_z == -torch.inf, self.prior)

    @cached_property
    def _mean_of_each(self) -> list[Tensor]:
        return self._means([self.prior])

    def _means(self, priors: list[Structure]) -> list[Tensor]:  # (*draws, B) each
        """The expected log-weight of a structure under each of some distributions over the same structures."""
        with torch.no_grad():
            each = [
                self.potentials if one is self.prior else self._wide(one.potentials_of(self.value)) for one in priors
            ]
        if not self.prior.shared_groups:
            return [_expectation(self.prior, self.expected, x) for x in each]
        # Of a table that is used all over an example, the uses in each example are wanted: not for all of them at once.
        pieces = []
        for some in torch.arange(len(self.prior.rows)).split(EXAMPLES_AT_A_TIME):
            dist, _ = self._bare.select(self.value, some)
            wide = [
                {name: _for_each(self.prior.rows_of(name, x, some), name, dist) for name, x in potentials.items()}
                for potentials in each
            ]
            expected = _gradient(dist, wide[0], LOG)[1]
            pieces.append([_expectation(dist, expected, x) for x in wide])
        if not pieces:
            return [self._log_z for _ in priors]
        return [torch.cat(found, -1) for found in zip(*pieces, strict=True)]

    @cached_property
    def _bare(self) -> Structure:
        """The distribution without added potentials, for those who have all potentials at hand."""
        new = copy(self.prior)
        new.extra = {}
        return new

    def _wide(self, potentials: Potentials) -> Potentials:
        """Potentials with all axes of draws."""
        draws = self.prior.draws
        return (
            {name: x.expand(*draws, *x.shape[len(draws) :]) for name, x in potentials.items()} if draws else potentials
        )


def _gradient(dist: Structure, potentials: Potentials, sum_: Sum) -> tuple[Tensor, Potentials]:
    """The total in a semiring, and its gradient in every potential."""
    return next(_gradients(dist, potentials, sum_, 1))


def _gradients(dist: Structure, potentials: Potentials, sum_: Sum, times: int) -> Iterator[tuple[Tensor, Potentials]]:
    """The total in a semiring, and its gradient, so many times: each is another draw where gradients are drawn."""
    leaves = {name: x.detach().clone().requires_grad_() for name, x in potentials.items()}
    with torch.enable_grad():
        total = dist.sum_over(leaves, sum_)
        top = total.sum()
    for left in reversed(range(times)):
        if not total.requires_grad:  # data so small that there is nothing to choose: no part is used
            yield total, {name: torch.zeros_like(x) for name, x in potentials.items()}
            continue
        found = torch.autograd.grad(
            top, list(leaves.values()), retain_graph=left > 0, allow_unused=True, materialize_grads=True
        )
        yield total.detach(), dict(zip(leaves, found, strict=True))


def _expectation(dist: Structure, expected: Potentials, potentials: Potentials) -> Tensor:  # (*draws, B)
    """Expected log-weight. 0 times -inf is 0: what is impossible does not happen."""
    lead = len(dist.draws)
    total = next(iter(expected.values())).new_zeros(*dist.draws, len(dist.rows))
    for name, p in expected.items():
        each = torch.where(p > 0, p * potentials[name], 0.0)
        each = each.flatten(lead + 1).sum(-1) if each.dim() > lead + 1 else each
        if name in dist.shared_groups:
            total = total + each
        else:
            total = total.index_add(lead, dist.owner(name).to(p.device), each.expand(*dist.draws, -1))
    return total


def _for_each(x: Tensor, name: str, dist: Structure) -> Tensor:
    """Potentials with all axes of draws; those of a shared group once for each example."""
    lead = len(dist.draws)
    if name in dist.shared_groups:
        return x.expand(*dist.draws, len(dist.rows), *x.shape[lead + 1 :])
    return x.expand(*dist.draws, *x.shape[lead:])


def _fill(structure: Tensor, impossible: Tensor, dist: Structure) -> Tensor:
    """-1 in the examples that have no structure, (*draws, B)."""
    if not bool(impossible.any()):
        return structure
    lead = len(dist.draws)
    rows = impossible.index_select(lead, dist.owner("structure").to(impossible.device))  # (*draws, rows)
    return structure.masked_fill(rows.reshape(*rows.shape, *(1,) * (structure.dim() - rows.dim())), -1)

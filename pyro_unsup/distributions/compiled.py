"""Kernels behind the definition of a structure: the same numbers from compiled code, on CPU.

A kernel is a module. It may have functions at two levels, and whatever it lacks is done by the definition:

* from weights: ``sums`` gives log Z and expected counts in one pass (for EM), ``marginals`` log Z and the posterior of
  the parts that tell a structure, ``decode`` the best or a drawn structure;
* from potentials: ``solve`` gives log Z and marginals, ``pick`` the best or a drawn structure (for constraints, minimum
  Bayes risk, and weights that differ from example to example).

Each call has one set of weights or potentials. Batches of draws are a loop here. A kernel with ``OWN_SETS`` also takes
one set for each example: then all tables, shared groups and counts of them have an axis of examples in front, of size 1
or B.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Generator, Tensor

from .. import kernels
from ..kernels.threads import plain_torch

if TYPE_CHECKING:
    from .structure import Potentials, Structure

Tables = dict[str, Tensor]

#: Numbers of an intermediate result, up to which the definition takes all sets of weights in one operation.
DEFINITION = 2**23


class Pass(Protocol):
    """What a pass over the data found."""

    log_z: Tensor  # (B,) float64

    def counts(self, scale: Tensor) -> Tables:  # (B,) float64
        """Expected uses of each weight, examples weighed by a scale; and marginals of added potentials, if wanted."""


class Kernel(Protocol):
    """What the module of a kernel may have."""

    #: Groups of parts whose added potentials ``sums`` and ``decode`` take beside the weights.
    TAKES: tuple[str, ...]
    #: Whether examples may have weights of their own.
    OWN_SETS: bool

    def sums(self, dist: Structure, weights: Tables, value: Tensor, wanted: frozenset[str]) -> Pass:
        """:param wanted: the weights and groups that counts are wanted of; empty if only log Z is needed."""

    def decode(
        self, dist: Structure, weights: Tables, value: Tensor, draw: bool, generator: Generator | None
    ) -> Tensor:  # structure, -1 where there is none
        ...

    def marginals(self, dist: Structure, weights: Tables, value: Tensor) -> tuple[Tensor, Tensor]:
        """log Z, (B,), and the posterior of the parts that tell a structure."""

    def solve(self, dist: Structure, potentials: Tables, scale: Tensor | None) -> tuple[Tensor, Tables]:
        """log Z, (B,), and marginals by group. Those of shared groups are summed, examples weighed by a scale."""

    def pick(
        self, dist: Structure, potentials: Tables, draw: bool, generator: Generator | None
    ) -> Tensor:  # structure, -1 where there is none
        """Groups that are not there have potential 0."""


def kernel_of(dist: Structure) -> Any:
    """The kernel of a distribution; None if it has none, is not on CPU, or kernels are switched off."""
    if dist.kernel is None or not kernels.enabled() or not all(w.is_cpu for w in dist.weights.values()):
        return None
    return _module(dist.kernel)


_module = cache(import_module)


def by_weights(dist: Structure, kernel: Any, function: str) -> bool:
    """Whether a function of a kernel that starts from weights applies: it takes as many sets of them as there are, and
    added potentials are of groups that it takes, one value a part."""
    takes = getattr(kernel, "TAKES", ())
    if not (hasattr(kernel, function) and _takes_sets(dist, kernel)) or (dist.extra and dist.draws):
        return False
    # What is added may differ from draw to draw, or wait to be broadcast: then it goes into the potentials.
    return all(name in takes and x.shape == (len(dist.owner(name)),) for name, x in dist.extra.items())


def by_potentials(dist: Structure, kernel: Any, function: str) -> bool:
    """Whether a function of a kernel that starts from potentials applies: it takes as many sets as there are of the
    groups that are tables."""
    return hasattr(kernel, function) and (_takes_sets(dist, kernel) or not dist.shared_groups)


def _takes_sets(dist: Structure, kernel: Any) -> bool:
    return dist.one_set or getattr(kernel, "OWN_SETS", False)


def faster_by_definition(dist: Structure) -> bool:
    """Whether many sets of weights on small data go faster through the definition, which takes all of them in one
    operation a position, than through a kernel, which takes them one by one. The numbers are the same."""
    if not dist.wide_definition or not dist.draws or getattr(dist, "second_order", False):  # which has K^3 numbers
        return False
    draws, K = dist.draws.numel(), dist.sizes["K"]
    return dist.rows.longest <= draws and draws * dist.rows.size * K * K <= DEFINITION


def compiled_sum(dist: Structure, value: Tensor) -> Tensor | None:  # (*draws, B)
    """log Z by a kernel; None if none applies, or the definition is faster."""
    kernel = kernel_of(dist)
    if kernel is None or faster_by_definition(dist):
        return None
    with plain_torch():
        if by_weights(dist, kernel, "sums"):
            inputs = {**dist.weights, **dist.extra}
            total: Tensor = _WeightSum.apply(dist, kernel, value, tuple(inputs), *inputs.values())
            return total
        if by_potentials(dist, kernel, "solve"):
            potentials = dist.potentials_of(value)
            found: Tensor = _PotentialSum.apply(dist, kernel, tuple(potentials), *potentials.values())
            return found
    return None


def expected_counts(
    dist: Structure, value: Tensor, scale: float, wanted: Collection[str]
) -> tuple[Tensor, Tables]:  # (B,)
    """log Z of each example, and the expected counts of these weights times a scale. One set of weights, lying flat."""
    kernel = kernel_of(dist)
    if kernel is not None and by_weights(dist, kernel, "sums"):
        like = next(iter(dist.weights.values()))
        found = kernel.sums(dist, next(weight_sets(dist)), value, frozenset(wanted))
        counts = found.counts(_same(scale, len(dist.rows))) if wanted else {}
        return found.log_z.to(like.dtype), {name: _fit(counts[name], dist.weights[name], dist, name) for name in wanted}
    leaves = {name: dist.weights[name].detach().requires_grad_() for name in wanted}
    with torch.set_grad_enabled(bool(wanted)):
        total = dist.with_tables(leaves).log_partition(value)
    if not total.requires_grad:
        return total, {name: torch.zeros_like(w) for name, w in leaves.items()}
    grads = torch.autograd.grad((total * scale).sum(), list(leaves.values()), allow_unused=True, materialize_grads=True)
    return total.detach(), dict(zip(leaves, grads, strict=True))


@lru_cache(8)
def _same(scale: float, size: int) -> Tensor:  # (size,)
    """One scale for all examples."""
    return torch.tensor([scale], dtype=torch.float64).expand(size)


class _WeightSum(torch.autograd.Function):
    """log Z from weights. Counts are its gradient, and come from the same pass."""

    @staticmethod
    def forward(
        ctx: Any, dist: Structure, kernel: Any, value: Tensor, names: tuple[str, ...], *inputs: Tensor
    ) -> Tensor:
        # Torch lets go of inputs after a backward pass. Nothing else that is large is kept: a trace of Pyro's lives on.
        ctx.dist, ctx.kernel, ctx.value, ctx.names = dist.hollow(), kernel, value, names
        ctx.save_for_backward(*inputs)
        wanted = frozenset(name for name, need in zip(names, ctx.needs_input_grad[4:], strict=True) if need)
        found = [kernel.sums(dist, one, value, wanted) for one in weight_sets(dist)]
        ctx.wanted, ctx.passes = wanted, found if wanted else None
        return stacked([one.log_z for one in found], dist.draws).to(inputs[0].dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        needs, inputs = ctx.needs_input_grad[4:], ctx.saved_tensors
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: go through the definition
            return None, None, None, None, *_again(ctx, _defined_weights, grad)
        dist: Structure = ctx.dist
        with plain_torch():
            passes, ctx.passes = ctx.passes or _passes(ctx, list(inputs)), None  # seldom asked for twice
            counts = [
                one.counts(scale)
                for one, scale in zip(passes, grad.reshape(dist.draws.numel(), len(dist.rows)).double(), strict=True)
            ]
            found = [
                _fit(stacked([c[name] for c in counts], dist.draws), w, dist, name) if need else None
                for name, w, need in zip(ctx.names, inputs, needs, strict=True)
            ]
        return None, None, None, None, *found


def _passes(ctx: Any, inputs: list[Tensor]) -> list[Pass]:
    dist = _filled(ctx, inputs)
    return [ctx.kernel.sums(dist, one, ctx.value, ctx.wanted) for one in weight_sets(dist)]


class _PotentialSum(torch.autograd.Function):
    """log Z from potentials. Marginals are its gradient."""

    @staticmethod
    def forward(ctx: Any, dist: Structure, kernel: Any, names: tuple[str, ...], *inputs: Tensor) -> Tensor:
        ctx.dist, ctx.kernel, ctx.names = dist.hollow(), kernel, names
        ctx.save_for_backward(*inputs)
        sets = list(potential_sets(dist, dict(zip(names, inputs, strict=True))))
        found = [kernel.solve(dist, one, None) for one in sets]
        ctx.found = found if any(ctx.needs_input_grad) else None
        return stacked([log_z for log_z, _ in found], dist.draws).to(inputs[0].dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        needs, inputs, dist = ctx.needs_input_grad[3:], ctx.saved_tensors, ctx.dist
        if torch.is_grad_enabled():
            return None, None, None, *_again(ctx, _defined_potentials, grad)
        grads: list[Tensor | None] = []
        with plain_torch():
            scales = grad.reshape(dist.draws.numel(), len(dist.rows)).double()
            given = dict(zip(ctx.names, inputs, strict=True))
            again = [] if ctx.found else [ctx.kernel.solve(dist, one, None) for one in potential_sets(dist, given)]
            solved, ctx.found = ctx.found or again, None  # seldom asked for twice
            sets = potential_sets(dist, given) if dist.shared_groups else iter(())
            shared = [
                _shared_counts(dist, ctx.kernel, one, marginals, scale)
                for one, (_, marginals), scale in zip(sets, solved, scales, strict=False)
            ]
            for name, x, need in zip(ctx.names, inputs, needs, strict=True):
                if not need:
                    grads.append(None)
                elif name in dist.shared_groups:
                    grads.append(_fit(stacked([one[name] for one in shared], dist.draws), x, dist, name))
                else:
                    owner = dist.owner(name)
                    each = [_times(found[name], scale[owner]) for (_, found), scale in zip(solved, scales, strict=True)]
                    grads.append(_fit(stacked(each, dist.draws), x, dist, name))
        return None, None, None, *grads


def _shared_counts(dist: Structure, kernel: Any, potentials: Tables, found: Tables, scale: Tensor) -> Tables:
    """Expected uses of the tables that examples share, each example weighed by its scale, (B,)."""
    if len(scale) and not bool((scale == scale[0]).all()):
        found = kernel.solve(dist, potentials, scale)[1]
        return {name: found[name] for name in dist.shared_groups}
    factor = float(scale[0]) if len(scale) else 1.0
    return {name: found[name] * factor for name in dist.shared_groups}


def weight_sets(dist: Structure) -> Iterator[Tables]:
    """Weights and added potentials, one set a draw, without batch axes; but for those of examples that have their own
    weights, (1 or B)."""
    if not dist.draws:
        one = dist.one_set
        yield {
            **{
                name: _last_axes(w.detach(), len(dist.table_axes[name])) if one else dist.table(name).detach()
                for name, w in dist.weights.items()
            },
            **{name: x.detach() for name, x in dist.extra.items()},
        }
        return
    tables = {name: dist.table(name).detach() for name in dist.weights}
    tables = {
        name: w.expand(*dist.draws, *w.shape[len(dist.draws) :]).flatten(0, len(dist.draws) - 1)
        for name, w in tables.items()
    }
    for i in range(dist.draws.numel()):
        yield {
            **{name: w[i].squeeze(0) if dist.one_set else w[i] for name, w in tables.items()},
            **{name: x.detach() for name, x in dist.extra.items()},
        }


def _last_axes(x: Tensor, n: int) -> Tensor:
    return x if x.dim() == n else x.reshape(x.shape[x.dim() - n :])


def potential_sets(dist: Structure, potentials: Potentials) -> Iterator[Tables]:
    """Potentials, one set a draw, without batch axes; but for those of examples that have their own tables."""
    n = len(dist.draws)
    for i in range(dist.draws.numel()):
        one = {}
        for name, x in potentials.items():
            x = x.detach().double()
            x = x.expand(*dist.draws, *x.shape[n:]).flatten(0, n - 1)[i] if n else x
            one[name] = x.squeeze(0) if name in dist.shared_groups and dist.one_set else x
        yield one


def stacked(each: list[Tensor], draws: torch.Size) -> Tensor:  # draws of (*rest) -> (*draws, *rest)
    """What was found draw by draw, in one tensor."""
    return each[0] if not draws else torch.stack(each).reshape(*draws, *each[0].shape)


def _fit(found: Tensor, like: Tensor, dist: Structure, name: str) -> Tensor:
    """A gradient in the shape of what it is the gradient of, axes that were broadcast being summed."""
    if not dist.draws and found.numel() == like.numel():
        found = found if found.shape == like.shape else found.reshape(like.shape)
        return found.to(like.dtype)
    if name in dist.weights or name in dist.shared_groups:  # they have an axis for examples
        found = found.unsqueeze(len(dist.draws)) if dist.one_set else found
        lost = found.dim() - like.dim()
        wide = like.reshape(*(1,) * lost, *like.shape) if lost > 0 else like
        return found.sum_to_size(wide.shape).reshape(like.shape).to(like.dtype)
    return found.sum_to_size(like.shape).to(like.dtype)


def _times(x: Tensor, scale: Tensor) -> Tensor:  # (rows, *rest), (rows,)
    return x * scale.reshape(-1, *(1,) * (x.dim() - 1))


def _filled(ctx: Any, inputs: list[Tensor]) -> Structure:
    """The distribution with its numbers."""
    found = dict(zip(ctx.names, inputs, strict=True))
    new: Structure = ctx.dist.with_weights({name: found[name] for name in ctx.dist.weights})
    new.extra = {name: found[name] for name in ctx.dist.extra}
    return new


def _defined_weights(ctx: Any, inputs: list[Tensor]) -> Tensor:
    return _filled(ctx, inputs).defined(ctx.value)


def _defined_potentials(ctx: Any, inputs: list[Tensor]) -> Tensor:
    from .semiring import LOG

    total: Tensor = ctx.dist.sum_over(dict(zip(ctx.names, inputs, strict=True)), LOG)
    return total


def _again(ctx: Any, define: Callable[[Any, list[Tensor]], Tensor], grad: Tensor) -> list[Tensor | None]:
    """A gradient that can be differentiated again, by the definition."""
    inputs = list(ctx.saved_tensors)
    needs = ctx.needs_input_grad[len(ctx.needs_input_grad) - len(inputs) :]
    wanted = [x for x, need in zip(inputs, needs, strict=True) if need]
    found = iter(
        torch.autograd.grad(
            define(ctx, inputs), wanted, grad, create_graph=True, materialize_grads=True, allow_unused=True
        )
    )
    return [next(found) if need else None for need in needs]

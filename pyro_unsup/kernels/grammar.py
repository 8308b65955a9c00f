"""What the kernels of grammars have in common: tables and words as the passes want them, and how passes are called.

A kernel of one kind of grammar is a subclass of :class:`Rules`, and the functions of this module with it in front.

Sentences may have weights of their own. So all tables have an axis of sets in front: one set for all, or one for each.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from .dependency import as_array
from .limits import LIMIT
from .plumbing import OnePass, Tables, in_shards, offsets, uniform_numbers

#: There are less than 4^m binary trees with m nodes.
NODE = 1 / 4

Blocks = tuple[Array, ...]


@dataclass
class Rules:
    """Log-weights as the passes want them, and the words that use them.

    :param root: (1 or B, N).
    :param tables: of rules, (1 or B, ...) each.
    :param emit: (types, P).
    :param types: (tokens,) among the rows of ``emit``.
    :param labels: (spans of two words or more, N) more for the label of each span, or no rows.
    :param lengths: (B,).
    """

    #: Names of the tables of rules, and their axes: M is N + P.
    NAMES: ClassVar[tuple[str, ...]]
    AXES: ClassVar[str]
    #: Uniform numbers that a draw takes for each word.
    CHOICES: ClassVar[int]
    #: Multiplications of the recursion that take the time of one token of a chain, as :func:`.threads_for` counts them.
    STEPS_A_TOKEN: ClassVar[int] = 1000

    root: Array
    tables: Blocks
    emit: Array
    types: Array
    labels: Array
    lengths: Array

    @abstractmethod
    def blocks(self, tables: Blocks) -> Blocks:
        """Tables in the form that passes use, (1 or B, ...) each, all with as many sets."""

    @abstractmethod
    def whole(self, blocks: Blocks) -> Blocks:
        """The way back."""

    @property
    @abstractmethod
    def scaled(self) -> tuple[Blocks, Array]:
        """Blocks of real numbers, and the logs of what each rule of a set was divided by, (1 or B,).

        They are divided so that the sum over any two of the three labels of a rule is at most ``NODE``. Then no sum
        over trees exceeds 1.
        """

    @property
    @abstractmethod
    def cost(self) -> Array:  # (B,)
        """About how many multiplications each sentence takes."""

    @property
    @abstractmethod
    def passes(self) -> tuple[Any, Any]:
        """Sums by scaled real numbers, and by logs."""

    @property
    @abstractmethod
    def decoders(self) -> tuple[Any, Any, Any]:
        """Draws by scaled real numbers, draws by logs, and best trees."""

    @cached_property
    def logs(self) -> Blocks:
        """Blocks of log-weights."""
        return self.blocks(self.tables)

    @property
    def sizes(self) -> tuple[int, int]:
        """N and P."""
        return self.root.shape[1], self.emit.shape[1]

    @property
    def places(self) -> tuple[Array, Array]:
        """The first word and the first span of each sentence, (B + 1,) both."""
        return offsets(self.lengths), offsets(self.lengths * (self.lengths + 1) // 2)

    @property
    def work(self) -> int:
        """How much there is to do, in tokens of a chain."""
        return int(self.cost.sum() / self.STEPS_A_TOKEN)


@dataclass
class GrammarSums:
    """What a pass finds, all float64.

    :param log_z: (B,).
    :param root: (1 or B, N) expected counts, each sentence weighed by its scale; so are the next two. Empty if not
        wanted.
    :param rules: as the tables of rules.
    :param emit: (types, P).
    :param marginals: (spans, N + P) posteriors of labels, no rows if not wanted.
    """

    log_z: Array
    root: Array
    rules: Blocks
    emit: Array
    marginals: Array


def with_sets(table: Tensor, shared: bool) -> Array:
    """A table with an axis of sets."""
    found = as_array(table)
    return found[None] if shared else found


def of_weights(kind: type[Rules], dist: Any, weights: Tables, value: Tensor) -> Rules:
    """Words of one type share a row of emissions, if all sentences share the weights."""
    shared, types = dist.one_set, value.long().contiguous().numpy()
    root, *tables = (with_sets(weights[name], shared) for name in ("root", *kind.NAMES))
    emission = with_sets(weights["emission"], shared)  # (1 or B, P, V)
    if len(emission) == 1:
        emit = np.ascontiguousarray(emission[0].T)
    else:
        emit = np.ascontiguousarray(emission[dist.rows.owner.numpy(), :, types])
        types = np.arange(len(types))
    return kind(root, tuple(tables), emit, types, np.empty((0, root.shape[1])), dist.rows.lengths.numpy())


def of_potentials(kind: type[Rules], dist: Any, potentials: Tables) -> Rules:
    """Every word is a type of its own, and the root's weights are among those of labels."""
    labels, N = as_array(potentials["labels"]), dist.sizes["N"]
    shape = (1, *({"N": N, "M": labels.shape[1]}[axis] for axis in kind.AXES))
    tables = tuple(
        with_sets(potentials[name], dist.one_set) if name in potentials else np.zeros(shape) for name in kind.NAMES
    )
    wide = dist.span_cells.width.numpy() > 1
    emit, inner = np.ascontiguousarray(labels[~wide, N:]), np.ascontiguousarray(labels[wide, :N])
    return kind(np.zeros((1, N)), tables, emit, np.arange(dist.rows.size), inner, dist.rows.lengths.numpy())


def sums(kind: type[Rules], dist: Any, weights: Tables, value: Tensor, wanted: frozenset[str]) -> OnePass:
    """log Z and expected counts, from weights."""
    data, dtype, shared = of_weights(kind, dist, weights, value), weights["root"].dtype, dist.one_set

    def run(scale: Array | None, want: bool) -> tuple[Tensor, Tables]:
        found = grammar_pass(data, scale, want, False)
        if not want:
            return torch.from_numpy(found.log_z), {}
        counts = {"root": found.root, **dict(zip(kind.NAMES, found.rules, strict=True))}
        counts = {name: x[0] if shared else x for name, x in counts.items()}
        counts["emission"] = found.emit.T if shared else _emitted(found.emit, dist, value, weights["emission"].shape)
        return torch.from_numpy(found.log_z), {name: torch.from_numpy(x).to(dtype) for name, x in counts.items()}

    return OnePass(run, bool(wanted))


def _emitted(found: Array, dist: Any, value: Tensor, shape: Any) -> Array:  # (1 or B, P, V)
    """Counts of words in the table of their sentence; if all sentences have one, their types are its columns."""
    sets, P, V = shape
    if sets == 1:
        return found.T[None]
    counts = torch.zeros(sets * V, P, dtype=torch.float64)
    counts.index_add_(0, dist.rows.owner * V + value.long(), torch.from_numpy(found))
    whole: Array = counts.unflatten(0, (sets, V)).mT.numpy()
    return whole


def solve(kind: type[Rules], dist: Any, potentials: Tables, scale: Tensor | None) -> tuple[Tensor, Tables]:
    """log Z and marginals, from potentials."""
    weigh = None if scale is None else scale.contiguous().numpy()
    found = grammar_pass(of_potentials(kind, dist, potentials), weigh, True, True)
    parts = {name: x[0] if dist.one_set else x for name, x in zip(kind.NAMES, found.rules, strict=True)}
    tables = {"labels": found.marginals, **parts}
    return torch.from_numpy(found.log_z), {name: torch.from_numpy(x) for name, x in tables.items()}


def marginals(kind: type[Rules], dist: Any, weights: Tables, value: Tensor) -> tuple[Tensor, Tensor]:
    """log Z and posteriors of labels, from weights."""
    found = grammar_pass(of_weights(kind, dist, weights, value), None, False, True)
    return torch.from_numpy(found.log_z), torch.from_numpy(found.marginals)


def decode(
    kind: type[Rules], dist: Any, weights: Tables, value: Tensor, draw: bool, generator: torch.Generator | None
) -> Tensor:
    """The labels of the best tree of each sentence, or of a drawn one, from weights; -1 for all that is not in it."""
    return grammar_decode(of_weights(kind, dist, weights, value), draw, generator)


def pick(kind: type[Rules], dist: Any, potentials: Tables, draw: bool, generator: torch.Generator | None) -> Tensor:
    """The same from potentials."""
    if not draw and potentials.keys() == {"labels"}:
        return _best_labels(kind, dist, potentials["labels"])
    return grammar_decode(of_potentials(kind, dist, potentials), draw, generator)


def _best_labels(kind: type[Rules], dist: Any, labels: Tensor) -> Tensor:  # (spans, N + P) -> (spans,)
    """The best trees if rules weigh nothing: then every span takes its best label, and only splits are to be chosen."""
    wide, N = dist.span_cells.width > 1, dist.sizes["N"]
    nonterminal, preterminal = labels[:, :N].max(1), labels[:, N:].max(1)
    best = torch.where(wide, nonterminal.indices, N + preterminal.indices)
    data = kind(
        np.zeros((1, 1)),
        tuple(np.zeros((1, *(1 if axis == "N" else 2 for axis in kind.AXES))) for _ in kind.NAMES),
        as_array(preterminal.values[~wide].unsqueeze(1)),
        np.arange(dist.rows.size),
        as_array(nonterminal.values[wide].unsqueeze(1)),
        dist.rows.lengths.numpy(),
    )
    return torch.where(grammar_decode(data, False, None) >= 0, best, -1)


def grammar_pass(data: Rules, scale: Array | None, want_counts: bool, want_marginals: bool) -> GrammarSums:
    """log Z of each sentence, expected counts, and the posteriors of labels."""
    starts, edges = data.places
    B, (N, P) = len(data.lengths), data.sizes
    weigh = np.empty(0) if not want_counts else np.ones(B) if scale is None else scale
    log_z, trouble = np.zeros(B), np.zeros(B, bool)
    found = np.empty((edges[-1] if want_marginals else 0, N + P))
    real, unit = data.scaled
    limit, where = LIMIT[np.dtype(np.float64)], (data.emit, data.types, data.labels, starts, edges)
    out = (limit, weigh, log_z, trouble, found)
    scaled_pass, log_pass = data.passes

    def run(first: int, last: int, root: Array, *counts: Array) -> None:
        *blocks, emit = counts
        scaled_pass(data.root, real, unit, *where, np.arange(first, last), *out, root, tuple(blocks), emit)

    shapes = [data.root.shape, *(x.shape for x in real), data.emit.shape]
    shapes = shapes if want_counts else [(1, *(0,) * (len(shape) - 1)) for shape in shapes]
    root, *blocks, emit = in_shards(run, data.cost, data.work, shapes, blas=True)
    if want_counts:
        for x, rules in zip(blocks, real, strict=True):
            x *= rules
    again = np.flatnonzero(trouble)
    if len(again):  # logs add to the counts what they find, the rules included
        log_pass(data.root, data.logs, np.zeros(len(unit)), *where, again, *out, root, tuple(blocks), emit)
    return GrammarSums(log_z, root, data.whole(tuple(blocks)) if want_counts else (), emit, found)


def grammar_decode(data: Rules, draw: bool, generator: torch.Generator | None) -> Tensor:  # (spans,)
    """The labels of the best tree of each sentence, or of a drawn one; -1 for spans that are not in it."""
    starts, edges = data.places
    structure, trouble = np.empty(edges[-1], np.int64), np.zeros(len(data.lengths), bool)
    uniforms = uniform_numbers(draw, data.CHOICES * len(data.types), generator=generator)
    limit, where = LIMIT[np.dtype(np.float64)], (data.emit, data.types, data.labels, starts, edges)
    out = (limit, uniforms, trouble, structure)
    scaled_draw, log_draw, best_trees = data.decoders
    one: Callable[..., None] = scaled_draw if draw else best_trees
    blocks = data.scaled[0] if draw else data.logs

    def run(first: int, last: int) -> None:
        one(data.root, blocks, *where, np.arange(first, last), *out)

    in_shards(run, data.cost, data.work, blas=True)
    again = np.flatnonzero(trouble)
    if len(again):
        log_draw(data.root, data.logs, *where, again, *out)
    return torch.from_numpy(structure)


def below_node(real: Array, most: Array) -> Array:  # (sets,)
    """What to divide rules by, given the largest of their sums over two labels, set by set."""
    found: Array = np.where(most > 0, most, NODE) / NODE
    real /= found.reshape(-1, *(1,) * (real.ndim - 1))
    return found

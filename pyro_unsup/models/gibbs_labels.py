"""The labelled trees of sentences under a grammar whose tables are integrated out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..distributions import Posterior
from ..distributions.bracketing import check_trees
from ..distributions.cells import span_lengths, spans_of
from ..distributions.ragged import offsets_of
from ..errors import StructureError
from .gibbs_trees import LABELLED_SPANS, TreeState
from .grammar import TreeGrammar
from .sentences import as_parsed


class LabelState(TreeState):
    """The label of every constituent, -1 for all other spans, in the order of :func:`.spans_of`. Sentences of one word
    have no tree, and no spans in it. Alpha is the concentration of ``root`` and of the tables of rules, beta that of
    ``emission``. Chains start from trees that are drawn by the tables of the grammar's ``split_start``.

    A subclass says which tables there are, and where their cells lie.

    :param model: a grammar.
    :param sentences: what the model accepts as data.
    """

    structure = LABELLED_SPANS
    #: Uniform numbers that a tree is drawn by, for each word.
    choices: ClassVar[int]

    def __init__(self, model: TreeGrammar, sentences: Any) -> None:
        self._places, at = self._lay_out(model.nonterminals, model.preterminals, model.symbols)
        words, lengths = as_parsed(sentences, None, model.vocab)
        rows, emission = self.tables
        super().__init__(model, sentences, words, lengths, {name: i for i, name in enumerate((*rows, emission))}, at)
        declared = model.declarations()
        alpha, beta = ([float(declared[name].prior) for name in names] for names in (rows, [emission]))
        self.concentrations = np.array(alpha), np.array(beta)
        self._trees = torch.from_numpy(np.where(self.lengths == 1, 0, self.lengths))  # words of each tree
        self._edges = offsets_of(span_lengths(self._trees)).numpy()
        self.K = len(model.labels)
        self._structure = np.zeros(0, np.int64)

    @abstractmethod
    def _lay_out(self, N: int, P: int, V: int) -> tuple[Any, dict[str, Array]]:
        """Where tables lie, as the kernel wants to know it, and the order of cells as :class:`TreeState` does."""

    @property
    @abstractmethod
    def _kernel(self) -> Any:
        """The module that moves and counts these trees."""

    def __len__(self) -> int:
        return int(self._edges[-1])

    @property
    def labels(self) -> Array:  # (spans,) int32
        """The labels."""
        return self._structure.astype(np.int32)

    @labels.setter
    def labels(self, structure: Array) -> None:
        given = torch.from_numpy(np.asarray(structure)).long()
        chosen = check_trees((given >= 0).long(), self._trees).numpy()
        found = np.where(chosen, given.numpy(), -1)
        _, start, end = (x.numpy() for x in spans_of(self._trees))
        single, N = (end - start == 1)[chosen], self._places.N
        mine = found[chosen]
        if len(wrong := np.flatnonzero((mine >= self.K) | ((mine < N) == single))):
            raise StructureError(
                f"expected preterminals, {N} to {self.K - 1}, over words and nonterminals, 0 to {N - 1}, over wider "
                f"spans, actual {mine[wrong[0]]} over {'a word' if single[wrong[0]] else 'a wider span'}"
            )
        n = np.zeros_like(self.n)
        self._kernel.count_labels(self.words, self.offsets, self._edges, found, self._places, n)
        self._structure = found
        self._counted(n)

    def posterior(self, weights: Mapping[str, Tensor]) -> Posterior:
        trees = self._model._grammar(weights, self._trees)
        found: Posterior = trees.posterior(torch.from_numpy(self.words[np.repeat(self.lengths > 1, self.lengths)]))
        return found

    def _start(self) -> Any:
        return self._model.split_start(self._given)

    def _sweep(self, urns: Any, rng: np.random.Generator) -> tuple[int, int]:
        from ..kernels.threads import one_blas_thread

        uniforms, decisions = rng.random(self.choices * len(self.words)), rng.random(len(self.lengths))
        with one_blas_thread():
            where = (self.words, self.offsets, self._edges, self._structure)
            proposed, accepted = self._kernel.sweep(*where, self._places, urns, uniforms, decisions)
            return proposed, accepted


class RuleState(LabelState):
    """Trees of a :class:`.PCFG`, whose rules have a table (:class:`LabelState`)."""

    tables = (("root", "rules"), "emission")
    choices = 1

    def _lay_out(self, N: int, P: int, V: int) -> tuple[Any, dict[str, Array]]:
        M, first = N + P, N + N * (N + P) ** 2
        rules = np.empty((N, M, M), np.int64)
        left, right, two = N + N**3, N + N**3 + P * N * N, N + N**3 + 2 * P * N * N
        rules[:, :N, :N] = N + np.arange(N**3).reshape(N, N, N)
        rules[:, N:, :N] = left + np.arange(P * N * N).reshape(P, N, N).transpose(1, 0, 2)
        rules[:, :N, N:] = right + np.arange(P * N * N).reshape(P, N, N).transpose(1, 2, 0)
        rules[:, N:, N:] = two + np.arange(P * N * P).reshape(P, N, P).transpose(1, 0, 2)
        at = {"rules": rules - N, "emission": np.arange(V * P).reshape(V, P).T}
        return self._kernel.Places(N, P, left, right, two, first), at

    @property
    def _kernel(self) -> Any:
        from ..kernels import gibbs_labels

        return gibbs_labels


class FactoredState(LabelState):
    """Trees of a :class:`.SimplePCFG`, whose left and right parts have tables of their own (:class:`LabelState`)."""

    tables = (("root", "left", "right"), "emission")
    choices = 3

    def _lay_out(self, N: int, P: int, V: int) -> tuple[Any, dict[str, Array]]:
        M, narrow, emit = N + P, N + 2 * N * N, N + 2 * N * (N + P)
        parts = np.empty((2 * N, M), np.int64)
        parts[:, :N] = N + np.arange(2 * N * N).reshape(2 * N, N)
        parts[:, N:] = narrow + np.arange(2 * N * P).reshape(2 * N, P)
        # A table counts cells from where it would begin if all lay as declared: left parts at N, right ones N M later.
        at = {"left": parts[:N] - N, "right": parts[N:] - N - N * M, "emission": np.arange(V * P).reshape(V, P).T}
        return self._kernel.Places(N, P, narrow, emit), at

    @property
    def _kernel(self) -> Any:
        from ..kernels import gibbs_factored

        return gibbs_factored

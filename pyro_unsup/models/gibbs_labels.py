"""The labelled trees of sentences under a grammar whose rules are integrated out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from .. import distributions
from ..array import Array
from ..distributions import Posterior
from ..distributions.bracketing import check_trees
from ..distributions.cells import span_lengths, spans_of
from ..distributions.ragged import offsets_of
from ..errors import StructureError
from .gibbs_trees import LABELLED_SPANS, TreeState
from .sentences import as_parsed

if TYPE_CHECKING:
    from .pcfg import PCFG


class LabelState(TreeState):
    """The label of every constituent, -1 for all other spans, in the order of :func:`.spans_of`. Sentences of one word
    have no tree, and no spans in it. Alpha is the concentration of ``root`` and ``rules``, beta that of ``emission``.
    Chains start from trees that are drawn by the tables of :meth:`.PCFG.split_start`.

    :param model: a probabilistic context-free grammar.
    :param sentences: what the model accepts as data.
    """

    structure = LABELLED_SPANS
    tables = (("root", "rules"), "emission")

    def __init__(self, model: PCFG, sentences: Any) -> None:
        from ..kernels.gibbs_labels import Places

        words, lengths = as_parsed(sentences, None, model.vocab)
        N, P, V = model.nonterminals, model.preterminals, model.symbols
        M = N + P
        first = N + N * M * M
        rules = np.empty((N, M, M), np.int64)
        left, right, two = N + N**3, N + N**3 + P * N * N, N + N**3 + 2 * P * N * N
        rules[:, :N, :N] = N + np.arange(N**3).reshape(N, N, N)
        rules[:, N:, :N] = left + np.arange(P * N * N).reshape(P, N, N).transpose(1, 0, 2)
        rules[:, :N, N:] = right + np.arange(P * N * N).reshape(P, N, N).transpose(1, 2, 0)
        rules[:, N:, N:] = two + np.arange(P * N * P).reshape(P, N, P).transpose(1, 0, 2)
        at = {"rules": rules - N, "emission": np.arange(V * P).reshape(V, P).T}
        super().__init__(model, sentences, words, lengths, {"root": 0, "rules": 1, "emission": 2}, at)
        declared = model.declarations()
        alpha, beta = ([float(declared[name].prior) for name in names] for names in (self.tables[0], ["emission"]))
        self.concentrations = np.array(alpha), np.array(beta)
        self._places = Places(N, P, left, right, two, first)
        self._trees = torch.from_numpy(np.where(self.lengths == 1, 0, self.lengths))  # words of each tree
        self._edges = offsets_of(span_lengths(self._trees)).numpy()
        self.K = N + P
        self._structure = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return int(self._edges[-1])

    @property
    def labels(self) -> Array:  # (spans,) int32
        """The labels."""
        return self._structure.astype(np.int32)

    @labels.setter
    def labels(self, structure: Array) -> None:
        from ..kernels.gibbs_labels import count_labels

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
        count_labels(self.words, self.offsets, self._edges, found, self._places, n)
        self._structure = found
        self._counted(n)

    def posterior(self, weights: Mapping[str, Tensor]) -> Posterior:
        M = self._places.N + self._places.P
        rules = weights["rules"].unflatten(-1, (M, M))
        trees = distributions.PCFG(weights["root"], rules, weights["emission"], self._trees)
        return trees.posterior(torch.from_numpy(self.words[np.repeat(self.lengths > 1, self.lengths)]))

    def _start(self) -> Any:
        return self._model.split_start(self._given)

    def _sweep(self, urns: Any, rng: np.random.Generator) -> tuple[int, int]:
        from ..kernels.gibbs_labels import sweep
        from ..kernels.threads import one_blas_thread

        uniforms, decisions = rng.random(len(self.words)), rng.random(len(self.lengths))
        with one_blas_thread():
            where = (self.words, self.offsets, self._edges, self._structure)
            proposed, accepted = sweep(*where, self._places, urns, uniforms, decisions)
            return proposed, accepted

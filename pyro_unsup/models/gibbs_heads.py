"""The heads of words under a dependency model whose tables are integrated out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..distributions import Dependency, Posterior
from ..distributions.dependency import check_heads
from .gibbs_trees import HEADS, TreeState
from .sentences import as_parsed

if TYPE_CHECKING:
    from .dmv import DMV


def places_of(dmv: DMV) -> Any:
    """Where the tables of a dependency model lie, end to end, as the kernel wants to know it."""
    from ..kernels.gibbs_heads import Places

    K, V = dmv.symbols, dmv.valence
    return Places(K, V, attach=K, attach_row=1, stop=K + 2 * K * V * K, stop_row=1 + 2 * K * V)


class HeadState(TreeState):
    """The head of each word: 0 for the root, k for the k-th word of its sentence. Alpha is the concentration of the
    tables ``root`` and ``stop``, beta that of ``attach``. Chains start from trees with short dependencies
    (:meth:`.DMV.harmonic_start`).

    :param model: a dependency model with valence.
    :param sentences: what the model accepts as data.
    """

    structure = HEADS
    tables: tuple[tuple[str, ...], str] = (("root", "stop"), "attach")

    def __init__(self, model: DMV, sentences: Any) -> None:
        words, lengths = as_parsed(sentences, None, model.tags)
        super().__init__(model, sentences, words, lengths, {"root": 0, "attach": 2, "stop": 1})
        declared = model.declarations()
        alpha, beta = ([float(declared[name].prior) for name in names] for names in (self.tables[0], ["attach"]))
        self.concentrations = np.array(alpha), np.array(beta)
        self._begin(model)

    def _begin(self, dmv: DMV) -> None:
        """What does not depend on how many other tables there are."""
        self._places = places_of(dmv)
        self.K = 1 + int(self.lengths.max(initial=0))
        self._heads = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def labels(self) -> Array:  # (tokens,) int32
        """The heads."""
        return self._heads.astype(np.int32)

    @labels.setter
    def labels(self, heads: Array) -> None:
        self._heads = check_heads(torch.from_numpy(np.asarray(heads)), torch.from_numpy(self.lengths)).numpy().copy()
        self._counted(self._draws())

    def _draws(self) -> Array:  # (cells,)
        """How often the trees draw every cell."""
        from ..kernels.gibbs_heads import count_heads

        n = np.zeros_like(self.n)
        count_heads(self.words, self.offsets, self._heads, self._places, n)
        return n

    def posterior(self, weights: Mapping[str, Tensor]) -> Posterior:
        root, attach, stop = (weights[name] for name in ("root", "attach", "stop"))
        trees = Dependency(root, attach, stop, torch.from_numpy(self.lengths), self._model.valence)
        return trees.posterior(torch.from_numpy(self.words))

    def _start(self) -> Any:
        return self._model.harmonic_start(self._given)

    def _sweep(self, urns: Any, rng: np.random.Generator) -> tuple[int, int]:
        from ..kernels.gibbs_heads import sweep

        uniforms, decisions = rng.random((len(self), 2)), rng.random(len(self.lengths))
        proposed, accepted = sweep(self.words, self.offsets, self._heads, self._places, urns, uniforms, decisions)
        return proposed, accepted

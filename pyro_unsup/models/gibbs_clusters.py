"""The clusters of documents under a clusterer whose tables are integrated out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..array import Array
from ..errors import StructureError

if TYPE_CHECKING:
    from .clusterer import Clusterer


class ClusterState:
    """One cluster a document, and how often everything occurs.

    :param model: a clusterer.
    :param documents: what the model accepts as data.
    """

    ways = ("pointwise",)
    #: The tables that alpha and beta are the concentrations of.
    tables: tuple[tuple[str, ...], str] = (("cluster",), "words")

    def __init__(self, model: Clusterer, documents: Any) -> None:
        bags = model.index(documents)
        cells = bags.cells.numpy()
        self.K = model.clusters
        self.types = np.full(self.K, model.words)
        seen, words = np.unique(cells[:, 0], return_inverse=True)
        self._seen, self._vocabulary = seen, model.words
        self._known, self._words = cells[:, 0].astype(np.int64), words.astype(np.int64)  # only words that occur
        self._times = cells[:, 1].astype(np.int64)
        self.offsets = bags.offsets.numpy()
        self._owner = np.repeat(np.arange(len(bags)), np.diff(self.offsets))
        self.lengths = np.bincount(self._owner, self._times, minlength=len(bags)).astype(np.int64)
        self._column = np.tile(np.arange(self.K, dtype=np.int32), len(seen))
        alpha, beta = (float(model.declarations()[name].prior) for name in ("cluster", "words"))
        self.concentrations = np.array([alpha]), np.full(self.K, beta)
        self.labels = np.zeros(len(bags), np.int32)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def data(self) -> dict[str, Array]:
        """What tells these documents from others."""
        return {"words": self._known, "times": self._times, "offsets": self.offsets}

    @property
    def labels(self) -> Array:  # (B,) int32
        """The clusters."""
        return self._labels.copy()

    @labels.setter
    def labels(self, clusters: Array) -> None:
        if clusters.shape != self.lengths.shape:
            raise StructureError(f"expected {len(self)} clusters, one a document, actual shape {clusters.shape}")
        if clusters.min() < 0 or clusters.max() >= self.K:
            raise StructureError(
                f"clusters must lie in 0 .. {self.K - 1}, actual range {clusters.min()} .. {clusters.max()}"
            )
        self._labels = clusters.astype(np.int32)
        self.n_doc = np.bincount(self._labels, minlength=self.K).astype(np.int32)
        self.n_all = np.bincount(self._labels, self.lengths, minlength=self.K).astype(np.int64)
        cell = self._words * self.K + self._labels[self._owner]
        counts = np.bincount(cell, self._times, minlength=len(self._column))
        self.n_word = counts.astype(np.int32).reshape(-1, self.K)

    def table_counts(self) -> dict[str, Array]:
        """How often the clusters use every cell of the model's tables."""
        words = np.zeros((self.K, self._vocabulary), np.int64)
        words[:, self._seen] = self.n_word.T
        return {"cluster": self.n_doc, "words": words}

    def draw_start(self, rng: np.random.Generator) -> None:
        """Clusters drawn evenly."""
        self.labels = rng.integers(self.K, size=len(self))

    def log_choices(self, alpha: Array) -> float:
        """log p(clusters | alpha), their shares integrated out."""
        from ..kernels.gibbs_joint import log_choices

        row = self.n_doc[None]
        return float(log_choices(row, row.sum(1), np.zeros(1, np.int64), alpha, alpha * self.K))

    def log_emissions(self, beta: Array) -> Array:  # (K,) -> (K,)
        """log p(words | clusters, beta), as sequences, the tables integrated out, of each cluster."""
        from ..kernels.gibbs_joint import log_emissions

        return np.asarray(log_emissions(self.n_word.reshape(-1), self._column, self.n_all, self.types, beta))

    def sweep(self, how: str, alpha: Array, beta: Array, power: float, rng: np.random.Generator) -> float:
        """Draw every document's cluster once."""
        from ..kernels.gibbs_mixture import sweep

        documents = (self._words, self._times, self.offsets, self.lengths, self._labels)
        counts = (self.n_doc, self.n_word, self.n_all)
        sweep(*documents, *counts, alpha[0], beta, beta * self.types, power, rng.random(len(self)))
        return 1.0

"""Models as transformers of scikit-learn, for its pipelines and searches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_random_state

from ..array import Array
from ..data import Corpus, Documents
from ..errors import InputError
from ..estimate import AddLambda
from ..infer import EM
from ..models import Clusterer, Tagger

if TYPE_CHECKING:
    from ..results import Fit

__all__ = ["DocumentClusterer", "TagFeatures"]

MAX_SEED = 2**31 - 1


class DocumentClusterer(ClusterMixin, TransformerMixin, BaseEstimator):
    """Clusters documents by their counts of words, such as ``CountVectorizer`` makes: :class:`.models.Clusterer` by EM.

    After ``fit``, ``labels_`` has the cluster of each document, and ``fit_`` the :class:`.Fit`.

    :param n_clusters: how many.
    :param alpha: added to every count of words in a cluster and of documents, so that new documents are possible.
    :param n_init: starts; the one with the best likelihood is kept.
    :param max_iter: most iterations of EM.
    :param tol: the relative change of the objective at which EM ends.
    :param random_state: a seed, or a generator of numpy's to take one from.

    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> from pyro_unsup.interop.sklearn import DocumentClusterer
    >>> texts = ["ball goal ball", "goal ball team", "moon orbit", "orbit moon star"]
    >>> labels = make_pipeline(CountVectorizer(), DocumentClusterer(2, n_init=4, random_state=0)).fit_predict(texts)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    labels_: Array
    fit_: Fit

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        alpha: float = 0.1,
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-6,
        random_state: Any = None,
    ) -> None:
        self.n_clusters, self.alpha, self.n_init, self.max_iter, self.tol = n_clusters, alpha, n_init, max_iter, tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> DocumentClusterer:
        """Learn the clusters.

        :param X: counts, shape ``(documents, words)``, sparse or dense; a data frame names the words.
        :param y: ignored.
        """
        names = _column_names(X)
        data = Documents.of_matrix(X, names)
        self.vocabulary_, self.n_features_in_ = data.vocab, len(names)
        model = Clusterer(clusters=self.n_clusters, vocab=data.vocab)
        self.fit_ = EM(model, AddLambda(self.alpha)).run(data, **_training(self))
        self.labels_ = self._decoded(data).structure.cpu().numpy()
        return self

    def predict(self, X: Any) -> Array:
        """The most probable cluster of each document.

        :param X: counts, shape ``(documents, words)``.
        """
        return np.asarray(self._of_counts(X).structure.cpu().numpy())

    def transform(self, X: Any) -> Array:
        """The probability of each cluster, shape ``(documents, clusters)``.

        :param X: counts, shape ``(documents, words)``.
        """
        return np.asarray(self._of_counts(X).posterior.marginals.double().cpu().numpy())

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log-likelihood of a document.

        :param X: counts, shape ``(documents, words)``.
        :param y: ignored.
        """
        return float(self._of_counts(X).log_likelihood.mean())

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """What the columns of :meth:`transform` are called, shape ``(columns,)``."""
        return _numbered("cluster", self.n_clusters)

    def _of_counts(self, X: Any) -> Any:
        check_is_fitted(self, "fit_")
        return self._decoded(Documents.of_matrix(X, self.vocabulary_))

    def _decoded(self, data: Documents) -> Any:
        return self.fit_.decode(data)


class TagFeatures(TransformerMixin, BaseEstimator):
    """How much of a sentence each hidden tag has: features of texts from :class:`.models.Tagger`, learned by EM.

    A row of :meth:`transform` is the mean posterior probability of every tag over the words of a sentence. After
    ``fit``, ``fit_`` is the :class:`.Fit`.

    :param n_tags: how many.
    :param n_init: starts; the one with the best likelihood is kept.
    :param max_iter: most iterations of EM.
    :param tol: the relative change of the objective at which EM ends.
    :param random_state: a seed, or a generator of numpy's to take one from.

    >>> from pyro_unsup.interop.sklearn import TagFeatures
    >>> features = TagFeatures(3, max_iter=5, random_state=0).fit_transform(["the dog barks", "a cat"])
    >>> features.shape, features.sum(1).round(6).tolist()
    ((2, 3), [1.0, 1.0])
    """

    fit_: Fit

    def __init__(
        self, n_tags: int = 12, *, n_init: int = 1, max_iter: int = 100, tol: float = 1e-6, random_state: Any = None
    ) -> None:
        self.n_tags, self.n_init, self.max_iter, self.tol = n_tags, n_init, max_iter, tol
        self.random_state = random_state

    def fit(self, X: Iterable[str | Iterable[str]], y: Any = None) -> TagFeatures:
        """Learn the tags.

        :param X: sentences: strings, or lists of words.
        :param y: ignored.
        """
        data = Corpus.of(X)
        self.fit_ = EM(Tagger(tags=self.n_tags, vocab=data.vocab)).run(data, **_training(self))
        return self

    def transform(self, X: Iterable[str | Iterable[str]]) -> Array:
        """The share of each tag, shape ``(sentences, tags)``. Context decides the tags of new words.

        :param X: sentences: strings, or lists of words.
        """
        check_is_fitted(self, "fit_")
        data = Corpus.of(X)
        marginals = self.fit_.decode(data).posterior.marginals.double().cpu().numpy()
        sums = np.add.reduceat(marginals, np.asarray(data.offsets[:-1]), axis=0)
        return np.asarray(sums / data.lengths[:, None])

    def predict(self, X: Iterable[str | Iterable[str]]) -> list[list[int]]:
        """The tags of the words of each sentence.

        :param X: sentences: strings, or lists of words.
        """
        check_is_fitted(self, "fit_")
        data = Corpus.of(X)
        tags = self.fit_.predict(data).cpu().numpy()
        return [one.tolist() for one in np.split(tags, np.asarray(data.offsets[1:-1]))]

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """What the columns of :meth:`transform` are called, shape ``(columns,)``."""
        return _numbered("tag", self.n_tags)


def _training(estimator: Any) -> dict[str, Any]:
    """The settings of a run."""
    if estimator.n_init < 1 or estimator.max_iter < 1:
        raise InputError(f"n_init and max_iter must be 1 or more, actual {estimator.n_init} and {estimator.max_iter}")
    state = estimator.random_state
    seed = int(state) if isinstance(state, int | np.integer) else int(check_random_state(state).randint(MAX_SEED))
    return {
        "iterations": estimator.max_iter,
        "tolerance": estimator.tol,
        "restarts": estimator.n_init,
        "seed": seed,
        "progress": False,
    }


def _column_names(matrix: Any) -> list[str]:
    """The names of the columns of a data frame; numbers for other matrices."""
    if hasattr(matrix, "columns"):
        return [str(name) for name in matrix.columns]
    shape = np.shape(matrix) if not hasattr(matrix, "shape") else matrix.shape
    if len(shape) != 2:
        raise InputError(f"expected counts of shape (documents, words), actual shape {tuple(shape)}")
    return [str(number) for number in range(shape[1])]


def _numbered(what: str, many: int) -> Array:
    return np.array([f"{what}{number}" for number in range(many)], dtype=object)

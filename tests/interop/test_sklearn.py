"""Estimators of scikit-learn: they work in its pipelines and searches, and give the library's own numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import pyro_unsup as pu
from pyro_unsup.interop.sklearn import DocumentClusterer, TagFeatures

DOCUMENTS = pu.data.toy.documents(120, seed=2).bags
TEXTS = [" ".join(word for word, n in DOCUMENTS.bag(i).items() for _ in range(n)) for i in range(len(DOCUMENTS))]


def counts() -> csr_array:
    shape = (len(DOCUMENTS), len(DOCUMENTS.vocab))
    return csr_array((DOCUMENTS.counts, DOCUMENTS.words, DOCUMENTS.offsets), shape=shape)


def test_it_is_the_clusterer() -> None:
    found = DocumentClusterer(3, max_iter=20, random_state=4).fit(counts())
    model = pu.models.Clusterer(clusters=3, vocab=len(DOCUMENTS.vocab))
    data = pu.data.Documents.of_matrix(counts(), found.vocabulary_)
    fit = pu.EM(model, pu.AddLambda(0.1)).run(data, iterations=20, tolerance=1e-6, seed=4, progress=False)
    assert found.fit_.objective == fit.objective
    np.testing.assert_array_equal(found.labels_, fit.predict(data).numpy())
    shares = found.transform(counts())
    assert shares.shape == (len(DOCUMENTS), 3)
    np.testing.assert_allclose(shares.sum(1), 1)
    np.testing.assert_array_equal(shares.argmax(1), found.predict(counts()))
    assert found.score(counts()) == pytest.approx(fit.log_likelihood(data) / len(DOCUMENTS), rel=1e-9)
    assert found.get_feature_names_out().tolist() == ["cluster0", "cluster1", "cluster2"]


def test_sparse_dense_and_frames_agree() -> None:
    dense = counts().toarray()
    one, other, third = (
        DocumentClusterer(3, max_iter=5, random_state=1).fit(x).labels_
        for x in (counts(), dense, pd.DataFrame(dense, columns=list(DOCUMENTS.vocab)))
    )
    assert (one == other).all()
    assert (one == third).all()


def test_in_a_pipeline_and_a_search() -> None:
    pipeline = make_pipeline(CountVectorizer(), DocumentClusterer(random_state=0, max_iter=10))
    search = GridSearchCV(pipeline, {"documentclusterer__n_clusters": [1, 3]}, cv=2).fit(TEXTS)
    scores = search.cv_results_["mean_test_score"]
    assert scores[1] > scores[0]  # held-out likelihood: more than one topic


def test_new_words_and_empty_documents() -> None:
    vectoriser = CountVectorizer().fit(TEXTS)
    clusters = DocumentClusterer(3, max_iter=10, random_state=0).fit(vectoriser.transform(TEXTS))
    shares = clusters.transform(vectoriser.transform([TEXTS[0], "unheard of"]))
    np.testing.assert_allclose(shares[1], clusters.fit_.weights["cluster"].exp().numpy(), atol=1e-9)


def test_tag_features(corpus: pu.data.Corpus) -> None:
    sentences = [corpus.sentence(i) for i in range(len(corpus))]
    features = TagFeatures(4, max_iter=5, random_state=0).fit(sentences)
    shares = features.transform(sentences)
    marginals = features.fit_.decode(pu.data.Corpus.of(sentences)).posterior.marginals.numpy()
    expected = [marginals[a:b].mean(0) for a, b in zip(corpus.offsets[:-1], corpus.offsets[1:], strict=True)]
    np.testing.assert_allclose(shares, expected, atol=1e-12)
    tags = features.predict(sentences)
    assert [len(one) for one in tags] == corpus.lengths.tolist()
    assert [tag for one in tags for tag in one] == features.fit_.predict(pu.data.Corpus.of(sentences)).tolist()
    assert features.transform(["zebras yawn", " ".join(sentences[0])]).shape == (2, 4)


def test_tag_features_feed_a_classifier(corpus: pu.data.Corpus) -> None:
    sentences = [corpus.sentence(i) for i in range(len(corpus))]
    long = corpus.lengths > np.median(corpus.lengths)
    made = make_pipeline(TagFeatures(4, max_iter=5, random_state=0), LogisticRegression())
    assert made.fit(sentences, long).predict(sentences).shape == long.shape


@pytest.mark.parametrize("estimator", [DocumentClusterer(3, n_init=2), TagFeatures(5, tol=1e-3)])
def test_parameters_and_clones(estimator: DocumentClusterer | TagFeatures) -> None:
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params()
    assert copy.set_params(max_iter=7).max_iter == 7


def test_seeds() -> None:
    generators = [np.random.RandomState(3) for _ in range(2)]
    one, other = (DocumentClusterer(3, max_iter=3, random_state=g).fit(counts()).fit_.objective for g in generators)
    assert one == other


def test_what_is_refused() -> None:
    with pytest.raises(pu.InputError, match="n_init and max_iter must be 1 or more, actual 0 and 100"):
        DocumentClusterer(2, n_init=0).fit(counts())
    with pytest.raises(pu.InputError, match="whole numbers, 0 or more"):
        DocumentClusterer(2).fit([[0.5, 1.0]])
    with pytest.raises(pu.InputError, match=r"expected counts of shape \(documents, words\), actual shape \(3,\)"):
        DocumentClusterer(2).fit([1, 2, 3])

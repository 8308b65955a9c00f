"""Clustering 20 Newsgroups: one E step against sparse products, and what EM, online or not, and annealing make of it.

    python -m benchmarks.clustering             # all of it, a quarter of an hour or more on two cores
    python -m benchmarks.clustering --quick     # the ratios only
    python -m benchmarks.clustering --only stepwise --seeds 2    # rows with this in their name, and no ratios

Words are filtered as Liang & Klein (2009) did: without the 50 most frequent, and without those that occur fewer than
five times. 20 clusters; scores on the documents that were clustered, many-to-one for ``accuracy``. Each row is the mean
and standard deviation over starts that differ only in their seed, which also orders the documents of stepwise EM. The
paper has an accuracy of 41.2 (2.0) for 20 iterations of batch EM, and 51.4 for stepwise EM, on a version of the corpus
with 18 documents fewer.

Nothing is chosen by labels. Schedules of annealing begin below the beta at which clusters part, and take eight E steps
at each beta; of those that rise at different rates, the one to quote is the one that ends with the highest likelihood
on average. ``best_start`` is the accuracy of the start that ended with the highest likelihood.

The peer of the E step is what one would write with scipy: a sparse matrix of counts times the log-weights for the
scores, and posteriors times that matrix for the expected counts, as scikit-learn's MultinomialNB does. It is timed with
the transposed matrix kept ready, on one thread (it has no more); ours, through Pyro, with one thread and with all.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.infer import geometric
from pyro_unsup.models import Clusterer

from .common import DATA, arguments, figure, report, side_by_side, spread
from .stepwise import along, online

CLUSTERS = 20

Method = Callable[[Clusterer, pu.data.Documents, int], pu.Fit]


def em(noise: float) -> Method:
    def run(model: Clusterer, documents: pu.data.Documents, seed: int) -> pu.Fit:
        engine = pu.EM(model, init=pu.noise(noise))
        return engine.run(documents, iterations=20, tolerance=0.0, seed=seed, progress=False)

    return run


def stepwise(power: float, m: int, passes: int) -> Method:
    def run(model: Clusterer, documents: pu.data.Documents, seed: int) -> pu.Fit:
        engine = online(model, power, m, pu.noise(1e-3))
        seeds = {"seed": seed, "order_seed": seed}
        return along(engine, documents, [passes], lambda fit: fit, **seeds)[0]  # type: ignore[no-any-return]

    return run


def annealing(rise: float) -> Method:
    def run(model: Clusterer, documents: pu.data.Documents, seed: int) -> pu.Fit:
        engine = pu.Anneal(model, schedule=geometric(1e-3, rise), steps=8, early=0.0, jitter=1e-3)
        return engine.run(documents, seed=seed, progress=False)

    return run


#: One entry a method: a function of the model, the documents and a seed.
METHODS: dict[str, Method] = {
    "EM, noise 1e-3": em(1e-3),
    "EM, noise 1": em(1.0),
    "stepwise EM (0.8, 1000), 5 passes": stepwise(0.8, 1000, 5),
    "stepwise EM (0.8, 1000), 20 passes": stepwise(0.8, 1000, 20),
    "stepwise EM (0.5, 3000), 5 passes": stepwise(0.5, 3000, 5),
    "stepwise EM (0.5, 3000), 20 passes": stepwise(0.5, 3000, 20),
    "annealing, beta x 2": annealing(2.0),
    "annealing, beta x 1.4": annealing(1.4),
    "annealing, beta x 1.2": annealing(1.2),
}


def read() -> pu.data.Documents:
    path = DATA / "20news-bydate.txt.gz"
    if not path.exists():
        sys.exit(f"no 20 Newsgroups at {path}: set PYRO_UNSUP_DATA to the folder that has it")
    return pu.data.read_documents(path).drop_frequent(50).drop_rare(5)


def sparse_products(
    documents: pu.data.Documents, cluster: np.ndarray, words: np.ndarray
) -> Callable[[], tuple[float, np.ndarray, np.ndarray]]:
    """An E step by scipy: log-likelihood, and expected counts of clusters and words."""
    from scipy.sparse import csr_matrix
    from scipy.special import logsumexp

    shape = len(documents), len(documents.vocab)
    counts = csr_matrix((documents.counts.astype(np.float64), documents.words, documents.offsets), shape=shape)
    turned, rows = counts.T.tocsr(), np.ascontiguousarray(words.T)

    def run() -> tuple[float, np.ndarray, np.ndarray]:
        scores = counts @ rows + cluster
        total = logsumexp(scores, axis=1, keepdims=True)
        posterior = np.exp(scores - total)
        return float(total.sum()), posterior.sum(0), turned @ posterior

    return run


def naive_bayes(documents: pu.data.Documents, cluster: np.ndarray, words: np.ndarray) -> Callable[[], Any]:
    """The same by scikit-learn: probabilities of the clusters, and a naive Bayes that counts by them."""
    from scipy.sparse import csr_matrix
    from sklearn.naive_bayes import MultinomialNB

    shape = len(documents), len(documents.vocab)
    counts = csr_matrix((documents.counts.astype(np.float64), documents.words, documents.offsets), shape=shape)
    model = MultinomialNB()
    model.classes_, model.n_features_in_ = np.arange(len(cluster)), shape[1]
    model.class_log_prior_, model.feature_log_prob_ = cluster, words

    def run() -> Any:
        posterior = model.predict_proba(counts)
        model._init_counters(len(cluster), shape[1])
        model._count(counts, posterior)
        return model.class_count_, model.feature_count_

    return run


def ratios(documents: pu.data.Documents) -> None:
    engine = pu.EM(Clusterer(CLUSTERS, documents.vocab))
    for _ in range(3):  # weights as training meets them
        engine.step(documents)
    engine.look()
    arrays = engine.weights["cluster"].numpy(), engine.weights["words"].numpy()
    peers = {"scipy.sparse": sparse_products(documents, *arrays), "MultinomialNB": naive_bayes(documents, *arrays)}
    log_likelihood, n_cluster, n_words = peers["scipy.sparse"]()
    info, found = engine.look(), engine._expected
    assert found is not None
    assert abs(info.log_likelihood - log_likelihood) < 1e-9 * abs(log_likelihood)
    assert np.allclose(found.counts["words"].numpy(), n_words.T, rtol=1e-7, atol=1e-7)
    assert np.allclose(found.counts["cluster"].numpy(), n_cluster, rtol=1e-7, atol=1e-7)
    assert np.allclose(peers["MultinomialNB"]()[1], n_words.T, rtol=1e-7, atol=1e-7)
    threads = torch.get_num_threads()

    def on_one_thread() -> None:
        torch.set_num_threads(1)
        engine.look()
        torch.set_num_threads(threads)

    seconds = side_by_side({"ours": engine.look, "ours, one thread": on_one_thread, **peers}, repeats=15)
    for ours, used in (("ours", threads), ("ours, one thread", 1)):
        for peer in peers:
            about = {"threads": used, "documents": len(documents), "cells": len(documents.words)}
            report("clusterer E step", seconds[ours], peer, seconds[peer], **about)


def learning(documents: pu.data.Documents, seeds: int, only: str) -> None:
    for name, method in METHODS.items():
        if only not in name:
            continue
        scores, began = [], time.perf_counter()
        for seed in range(seeds):
            fit = method(Clusterer(CLUSTERS, documents.vocab), documents, seed)
            scores.append({**fit.evaluate(documents), "e_steps": len(fit.rows)})
        columns = {key: np.array([one[key] for one in scores]) for key in scores[0]}
        shown = {
            key: spread(100 * x, 1) for key, x in columns.items() if key in ("accuracy", "one_to_one", "v_measure")
        }
        figure(
            name,
            **shown,
            loglik_per_token=spread(columns["loglik_per_token"], 4),
            vi_bits=round(float(columns["vi_bits"].mean()), 3),
            clusters_used=float(columns["clusters_used"].mean()),
            best_start=round(100 * float(columns["accuracy"][columns["loglik_per_token"].argmax()]), 1),
            accuracies=[round(100 * float(x), 1) for x in columns["accuracy"]],
            logliks=[round(float(x), 4) for x in columns["loglik_per_token"]],
            e_steps=float(columns["e_steps"].mean()),
            starts=seeds,
            seconds=round(time.perf_counter() - began, 1),
        )


if __name__ == "__main__":
    asked = arguments(__doc__, quick=False, only="", seeds=5)
    newsgroups = read()
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    figure(
        "20 Newsgroups",
        documents=len(newsgroups),
        tokens=newsgroups.tokens,
        types=len(newsgroups.vocab),
        left_out=newsgroups.left_out,
    )
    if not asked.only:
        ratios(newsgroups)
    if not asked.quick:
        learning(newsgroups, asked.seeds, asked.only)

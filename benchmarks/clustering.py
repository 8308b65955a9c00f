"""Clustering 20 Newsgroups: one E step against sparse products.

    python -m benchmarks.clustering --data FOLDER

Words are filtered as Liang & Klein (2009) did: without the 50 most frequent, and without those that occur fewer than
five times. 20 clusters. What is learned: ``pyro-unsup reproduce liang-klein-2009 --only documents``.

The E step is compared with what one would write with scipy: a sparse matrix of counts times the log-weights for the
scores, and posteriors times that matrix for the expected counts. It is timed with the transposed matrix kept ready, on
one thread (it has no more); ours, through Pyro, with one thread and with all. Other libraries: ``python -m
benchmarks.peers --only mixture``.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.reproduce.liang_klein_2009_clusters import clusterer, documents

from .common import arguments, corpora, figure, report, side_by_side


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


def ratios(texts: pu.data.Documents) -> None:
    engine = pu.EM(clusterer(texts))
    state = engine.init(texts)
    for _ in range(3):  # weights as training meets them
        state, _ = engine.step(state)
    arrays = state.weights["cluster"].numpy(), state.weights["words"].numpy()
    products = sparse_products(texts, *arrays)
    log_likelihood, n_cluster, n_words = products()
    info, found = engine.e_step(state)
    assert abs(info.log_likelihood - log_likelihood) < 1e-9 * abs(log_likelihood)
    assert np.allclose(found.counts["words"].numpy(), n_words.T, rtol=1e-7, atol=1e-7)
    assert np.allclose(found.counts["cluster"].numpy(), n_cluster, rtol=1e-7, atol=1e-7)
    threads = torch.get_num_threads()

    def on_one_thread() -> None:
        torch.set_num_threads(1)
        engine.e_step(state)
        torch.set_num_threads(threads)

    runs = {"ours": lambda: engine.e_step(state), "ours, one thread": on_one_thread, "scipy.sparse": products}
    seconds = side_by_side(runs, repeats=15)
    for ours, used in (("ours", threads), ("ours, one thread", 1)):
        about = {"threads": used, "documents": len(texts), "cells": len(texts.words)}
        report("clusterer E step", seconds[ours], "scipy.sparse", seconds["scipy.sparse"], **about)


if __name__ == "__main__":
    asked = arguments(__doc__, data="")
    newsgroups = documents(corpora(asked.data, "newsgroups"), small=False)
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    figure(
        "20 Newsgroups",
        documents=len(newsgroups),
        tokens=newsgroups.tokens,
        types=len(newsgroups.vocab),
        left_out=newsgroups.left_out,
    )
    ratios(newsgroups)

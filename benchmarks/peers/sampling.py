"""One label a token by collapsed Gibbs sampling, beside topics of latent Dirichlet allocation; and a mixture by EM.

Samplers draw from different models on the same tokens with the same number of outcomes; the log joint probability a
token is told, and cannot be compared. Of the mixture, log-likelihood and tables after an iteration must be the same.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np

from .problem import Contender, Curve, Job, Problem, squares, threads
from .texts import Arrays, documents, offsets, sentences

SWEEPS = 20
ALPHA, BETA = 0.1, 0.01


def ours(order: int) -> Any:
    def prepare(data: Arrays) -> Job:
        import pyro_unsup as pu
        from pyro_unsup.models.gibbs_tags import TagState

        K, V = data["emission"].shape
        corpus = pu.data.Corpus(data["words"], offsets(data["lengths"]), pu.data.Vocab(str(k) for k in range(V)))
        state, rng = TagState(pu.models.Tagger(K, corpus.vocab, order), corpus), np.random.default_rng(0)
        state.draw_start(rng)
        alpha, beta = np.full(order + 1, ALPHA), np.full(K, BETA)

        def run() -> dict[str, float]:
            began = time.perf_counter()
            for _ in range(SWEEPS):
                state.sweep("pointwise", alpha, beta, 1.0, rng)
            return {"seconds": (time.perf_counter() - began) / SWEEPS}

        def answer(_: Any) -> dict[str, float]:
            joint = state.log_choices(alpha) + float(state.log_emissions(beta).sum())
            return {"log_joint_a_token": joint / len(state)}

        return Job(run, answer)

    return prepare


def lda(data: Arrays) -> Job:
    import logging

    from lda import LDA

    logging.getLogger("lda").setLevel(logging.ERROR)
    K, V = data["emission"].shape
    counts = np.zeros((len(data["lengths"]), V), np.int64)
    np.add.at(counts, (np.repeat(np.arange(len(counts)), data["lengths"]), data["words"]), 1)

    def sweeps(number: int) -> tuple[float, Any]:
        began = time.perf_counter()
        model = LDA(K, number, ALPHA, BETA, random_state=1, refresh=10**6).fit(counts)
        return time.perf_counter() - began, model

    def run() -> dict[str, Any]:
        (few, _), (many, model) = sweeps(5), sweeps(5 + SWEEPS)
        return {"seconds": max(many - few, 1e-6) / SWEEPS, "model": model}

    return Job(run, lambda found: {"log_joint_a_token": found["model"].loglikelihood() / len(data["words"])})


def tomotopy(data: Arrays) -> Job:
    import tomotopy as tp

    K = len(data["emission"])
    model = tp.LDAModel(k=K, alpha=ALPHA, eta=BETA, seed=1)
    ends = offsets(data["lengths"]).tolist()
    words = [str(k) for k in data["words"].tolist()]
    for a, b in pairwise(ends):
        model.add_doc(words[a:b])
    model.train(0)

    def run() -> dict[str, float]:
        began = time.perf_counter()
        model.train(SWEEPS, workers=threads())
        return {"seconds": (time.perf_counter() - began) / SWEEPS}

    return Job(run, lambda _: {"log_joint_a_token": model.ll_per_word})


def _answer(log_likelihood: float, share: Any, topics: Any) -> dict[str, float]:
    """:param share: (K,) counts or probabilities; so are the topics, (K, V)."""
    share, topics = (np.asarray(x, dtype=np.float64) for x in (share, topics))
    return {
        "log_likelihood": log_likelihood,
        "share": squares(share / share.sum()),
        "topics": squares(topics / topics.sum(1, keepdims=True)),
    }


def our_mixture(data: Arrays) -> Job:
    import torch

    import pyro_unsup as pu

    K, V = data["topics"].shape
    vocab = pu.data.Vocab(str(k) for k in range(V))
    bags = pu.data.Documents.count(data["words"], offsets(data["lengths"]), vocab)
    start = {"cluster": torch.from_numpy(data["share"]).log(), "words": torch.from_numpy(data["topics"]).log()}
    em = pu.EM(pu.models.Clusterer(K, vocab), init=pu.init.from_weights(start))
    first = em.init(bags)

    def answer(found: Any) -> Any:
        state, info = found
        return _answer(info.objective, state.weights["cluster"].exp(), state.weights["words"].exp())

    return Job(lambda: em.step(first), answer)


def _bags(data: Arrays) -> Any:
    """Counts of words by document, sparse."""
    from scipy.sparse import csr_matrix

    owner = np.repeat(np.arange(len(data["lengths"])), data["lengths"])
    return csr_matrix((np.ones(len(owner)), (owner, data["words"])), (len(data["lengths"]), data["topics"].shape[1]))


def scikit_learn(data: Arrays) -> Job:
    from scipy.special import logsumexp
    from sklearn.naive_bayes import MultinomialNB

    bags = _bags(data)
    model = MultinomialNB()
    model.classes_, model.n_features_in_ = np.arange(len(data["share"])), bags.shape[1]
    model.class_log_prior_, model.feature_log_prob_ = np.log(data["share"]), np.log(data["topics"])
    turned = bags.T.tocsr()

    def run() -> tuple[float, np.ndarray, np.ndarray]:
        joint = model.predict_joint_log_proba(bags)
        total = logsumexp(joint, axis=1, keepdims=True)
        posterior = np.exp(joint - total)
        topics = (turned @ posterior).T
        return float(total.sum()), posterior.sum(0), topics / topics.sum(1, keepdims=True)

    return Job(run, lambda found: _answer(*found))


def pyro_trace_enum(data: Arrays) -> Job:
    import pyro
    import pyro.distributions as dist
    import torch
    from pyro.infer import TraceEnum_ELBO, config_enumerate

    pyro.enable_validation(False)
    rows = _bags(data)
    arrays = (torch.from_numpy(x) for x in (rows.indptr, rows.indices, rows.data))
    bags = torch.sparse_csr_tensor(*arrays, size=rows.shape)
    share, topics = (torch.from_numpy(data[name]).log().requires_grad_() for name in ("share", "topics"))

    @config_enumerate
    def model() -> None:
        scores = torch.sparse.mm(bags, topics.t())
        with pyro.plate("documents", len(scores)) as place:
            cluster = pyro.sample("cluster", dist.Categorical(logits=share))
            pyro.factor("words", scores[place, cluster])

    elbo = TraceEnum_ELBO(max_plate_nesting=1, strict_enumeration_warning=False)

    def run() -> float:
        share.grad = topics.grad = None
        found = -elbo.differentiable_loss(model, lambda: None)
        found.backward()
        return float(found.detach())

    def answer(total: float) -> dict[str, float]:
        # The Categorical normalises its logits, so the gradient is what is left after the expected share.
        counts = share.grad + len(data["lengths"]) * torch.softmax(share.detach(), 0)
        return _answer(total, counts, topics.grad)

    return Job(run, answer)


SAME = ("log_likelihood", "share", "topics")
LDA_DIFFERS = "topics of sentences: three counts an outcome, where a bigram has five and a trigram seven"

PROBLEMS = (
    Problem(
        "Gibbs",
        "sweep",
        sentences,
        {"sentences": 8, "states": 3, "words": 50},
        {
            "tokens": Curve(
                "sentences",
                tuple({"sentences": n, "states": 17, "words": 2_000} for n in (273, 1_091, 4_364, 17_456)),
                tuple({"sentences": n, "states": 17, "words": 500} for n in (100, 400)),
                "tokens",
                22,
            ),
            "states": Curve(
                "states",
                tuple({"sentences": 1_091, "states": n, "words": 2_000} for n in (8, 16, 32, 64, 128)),
                ({"sentences": 100, "states": 8, "words": 500},),
                "outcomes",
            ),
        },
        (
            Contender("ours, bigram", ours(1)),
            Contender("ours, trigram", ours(2), differs="seven counts an outcome"),
            Contender("lda", lda, "lda", f"{LDA_DIFFERS}; one thread",
                      "an outcome takes three counts, where a bigram has five and a trigram seven"),
            Contender("tomotopy", tomotopy, "tomotopy", LDA_DIFFERS,
                      "an outcome takes three counts, which lie side by side, in float32 by vector instructions; ours "
                      "takes five, one by one, in float64"),
        ),
        1,
    ),
    Problem(
        "mixture",
        "EM iteration",
        documents,
        {"documents": 8, "clusters": 3, "words": 50},
        {
            "documents": Curve(
                "documents",
                tuple({"documents": n, "clusters": 20, "words": 10_000} for n in (500, 2_000, 8_000, 32_000)),
                tuple({"documents": n, "clusters": 10, "words": 1_000} for n in (50, 200)),
                "documents",
            )
        },
        (
            Contender("ours", our_mixture),
            Contender("scikit-learn", scikit_learn, "scikit-learn", "MultinomialNB and sparse products, by hand",
                      "on small texts a pass through Pyro and over the tables, a few milliseconds, is most of ours",
                      agrees=SAME),
            Contender("Pyro TraceEnum", pyro_trace_enum, "pyro", "gradient only; sparse products by hand",
                      agrees=SAME),
        ),
        2,
    ),
)  # fmt: skip

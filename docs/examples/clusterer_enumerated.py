"""Document clustering spelled out: a hidden topic behind the words of each document (naive Bayes without labels).

    topic[i] --> word[i, t]           topic[i]   ~ cluster
                 for each position t  word[i, t] ~ words[topic[i]]

This is the model of ``pyro_unsup.models.Clusterer``, written as a plain Pyro program with one enumerated variable a
document. It pads documents to one length and looks every word up in every topic, so it is for small data and for
reading; the class counts each document's words once and sums the topics out in compiled code.

Checked in tests/docs/test_clusterer_enumerated.py: both have the same likelihood and take the same EM steps.
"""

from __future__ import annotations

import pyro
import torch
from pyro import poutine
from torch import Tensor

import pyro_unsup as pu


def model(
    documents: Tensor,  # (N, T) word numbers, -1 after the end of a document
    topics: int,
    types: int,  # how many different words there are
) -> None:
    """Documents and positions are plates, so nothing is a Python loop."""
    cluster = pu.table("cluster", topics)
    words = pu.table("words", topics, types, unvisited="keep")
    everyone = pyro.plate("documents", len(documents), dim=-1)
    positions = pyro.plate("positions", documents.shape[1], dim=-2)
    with everyone:
        topic = pyro.sample("topic", pu.Categorical(cluster))
    with everyone, positions, poutine.mask(mask=documents.mT >= 0):
        rows = words[topic]  # (topics, 1, 1, types) while the topic is enumerated
        pyro.sample("word", pu.Categorical(rows), obs=documents.mT.clamp(min=0))


def pad(documents: list[list[int]]) -> Tensor:  # (N, T)
    """Documents of any lengths as a rectangle."""
    longest = max(map(len, documents))
    return torch.tensor([[*words, *[-1] * (longest - len(words))] for words in documents])


def main() -> None:
    corpus, labels, names = pu.data.toy.documents(200, seed=3, topics=4)
    corpus = corpus.compact()
    documents = pad([corpus.words[a:b].tolist() for a, b in zip(corpus.offsets, corpus.offsets[1:], strict=False)])
    engine = pu.EM(model, estimate=pu.AddLambda(0.01))
    # EM finds a local optimum: several starts, and the report says how far apart they ended.
    fit = engine.run(documents, len(names), len(corpus.vocab), restarts=4, processes=1, progress=False)
    print(fit.report)

    found = fit.predict(documents, len(names), len(corpus.vocab))["topic"]
    titles = pu.evaluate.relabel(labels, found, predicted_size=len(names))
    for k, title in enumerate(titles):
        best = fit.weights["words"][k].argsort(descending=True)[:8]
        print(f"\n{names[title] if title >= 0 else '?'}: {' '.join(corpus.vocab.decode(best.tolist()))}")
    print(f"\n{100 * pu.evaluate.one_to_one(labels, found):.0f}% of the documents are in the cluster of their topic")


if __name__ == "__main__":
    main()

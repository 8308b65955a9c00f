"""What log-linear features cost: a direct gradient of the tagger against an iteration of EM without features.

    python -m benchmarks.features --data FOLDER

The text is the one that EM is timed on, its words spelled like those of the WSJ sample, which has to be in the folder.
What is learned: ``pyro-unsup reproduce berg-kirkpatrick-2010``.
"""

from __future__ import annotations

import os
from functools import partial

import torch

import pyro_unsup as pu
from pyro_unsup.models import Tagger

from .common import arguments, corpora, figure, report, side_by_side
from .hmm_em import problem
from .peers.texts import offsets


def speed(data: str) -> None:
    words, lengths, weights = problem()
    K, V = weights["emission"].shape
    vocab = pu.data.Vocab(corpora(data, "wsj")["wsj"].vocab.types[:V])
    corpus = pu.data.Corpus(words.numpy(), offsets(lengths.numpy()), vocab)
    em = pu.EM(Tagger(K, vocab), init=pu.init.from_weights(weights)).session()
    em.start(corpus)
    for ngram in ("suffix", "any"):
        climber = pu.Gradient(Tagger(K, vocab), pu.LogLinear(pu.templates.tagging(ngram=ngram), 1.0))
        state = climber.init(corpus)
        runs = {"em": lambda: em.step(corpus), "gradient": partial(climber.gradient, state)}
        seconds = side_by_side(runs, repeats=15)
        report(
            f"direct gradient of the tagger, {ngram} n-grams",
            seconds["gradient"],
            "EM iteration without features",
            seconds["em"],
            threads=torch.get_num_threads(),
            tokens=corpus.tokens,
            features=sum(len(w) for w in state.memory.values()),
            times_an_iteration=round(seconds["gradient"] / seconds["em"], 2),
        )


if __name__ == "__main__":
    asked = arguments(__doc__, data="")
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    speed(asked.data)

"""Stepwise EM of a bigram tagger: what a pass with tiny mini-batches costs.

    python -m benchmarks.stepwise             # a minute

8,000 sentences of mean length 22, 45 states, 10,000 words, mini-batches of 3; whole passes, all updates included,
against whole iterations of batch EM on the same data, in the same run. What is learned: ``pyro-unsup reproduce
liang-klein-2009``.
"""

from __future__ import annotations

import torch

import pyro_unsup as pu

from .common import arguments, figure, report, side_by_side
from .hmm_em import problem
from .peers.texts import offsets

BATCH_SIZE = 3


def speed() -> None:
    words, lengths, weights = problem()
    K, V = weights["emission"].shape
    corpus = pu.data.Corpus(words.numpy(), offsets(lengths.numpy()), pu.data.Vocab([f"w{i}" for i in range(V)]))
    model, init = pu.models.Tagger(K, corpus.vocab), pu.init.from_weights(weights)
    batch, online = pu.EM(model, init=init).session(), pu.StepwiseEM(model, init=init, batch_size=BATCH_SIZE)
    batch.start(corpus)
    state = online.init(corpus)
    runs = {"batch": lambda: batch.step(corpus), "stepwise": lambda: online.step(state)}
    seconds = side_by_side(runs, repeats=7)
    report(
        f"stepwise pass, mini-batches of {BATCH_SIZE}",
        seconds["stepwise"],
        "pass of batch EM",
        seconds["batch"],
        threads=torch.get_num_threads(),
        tokens=corpus.tokens,
        updates=-(-len(corpus) // BATCH_SIZE),
        times_a_batch_pass=round(seconds["stepwise"] / seconds["batch"], 2),
        microseconds_an_update=round(1e6 * seconds["stepwise"] / (len(corpus) / BATCH_SIZE), 1),
    )


if __name__ == "__main__":
    arguments(__doc__)
    figure("machine", threads=torch.get_num_threads(), torch=torch.__version__)
    speed()

"""Alignment by jumps on Hansards: error, time and memory.

    python -m benchmarks.hmm_alignment                            # 30,000 pairs, two or three minutes
    python -m benchmarks.hmm_alignment --pairs 30000,100000,all   # each in a process of its own
    python -m benchmarks.hmm_alignment --pairs 100000 --gate      # one joint training, timed

The first pairs of Hansards and the 447 + 37 sentences of the NAACL 2003 task without their links
(in ``--data`` or ``PYRO_UNSUP_DATA``): 5 iterations of Model 1 from uniform tables, then 5 by jumps, in float64;
the two directions on their own, and by agreement. Alignment error rates are in percent on the 447. Those by posteriors
are of the mean of both directions, with the threshold in the name.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import torch

import pyro_unsup as pu
from pyro_unsup.models import Aligner, HMMAligner
from pyro_unsup.reproduce.berg_kirkpatrick_2010_alignment import errors, trained
from pyro_unsup.reproduce.liang_klein_2009_alignment import NEEDS, hansards

from .common import arguments, corpora, figure, plain

NULLS: tuple[float | str | None, ...] = (None, 0.1, "learn")


def memory() -> float:
    """The most that this process has had so far, in GiB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)


def learning(size: int | None, gate: bool, data: str) -> None:
    began = time.perf_counter()
    text, gold = hansards(corpora(data, *NEEDS), size)
    read = time.perf_counter()
    words = Aligner.of(text)
    pairs = words.index(text)
    tokens = text.source.tokens + text.target.tokens
    about = {"pairs": len(text), "threads": torch.get_num_threads()}
    figure(
        "Hansards",
        **about,
        tokens=[text.source.tokens, text.target.tokens],
        cells=len(pairs.cells),
        pairs_of_words=len(words.lexicon),
        reading_s=round(read - began, 1),
        indexing_s=round(time.perf_counter() - read, 1),
    )
    for agreement in ("product",) if gate else (None, "product"):
        first = trained(Aligner(words.source, words.target, words.lexicon, agreement), pu.init.uniform(), pairs)
        name = f"Model 1, agreement {agreement}"
        figure(name, **about, **plain(errors(first, gold)), seconds=round(first.seconds, 1))
        for null in NULLS[:1] if gate else NULLS:
            model = HMMAligner.like(first.model, null=null)
            fit = trained(model, model.start_from(first), pairs)
            figure(
                f"HMM, agreement {agreement}, null {'1/(I+1)' if null is None else null}",
                **about,
                **plain(errors(fit, gold)),
                loglik_per_token=round(-fit.loss / tokens, 4),
                seconds=round(fit.seconds, 1),
                peak_gib=memory(),
            )


def main() -> None:
    asked = arguments(__doc__, pairs="30000", gate=False, data="")
    gate, sizes = asked.gate, asked.pairs.split(",")
    if len(sizes) == 1:
        learning(None if sizes[0] == "all" else int(sizes[0]), gate, asked.data)
        return
    for size in sizes:
        command = [sys.executable, "-m", "benchmarks.hmm_alignment", "--pairs", size, "--data", asked.data]
        subprocess.run(command + (["--gate"] if gate else []), check=True)


if __name__ == "__main__":
    main()

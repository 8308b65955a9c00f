"""Links by Gibbs sampling, with fertility: the time of a sweep beside eflomal's, and errors on Hansards.

    pip install eflomal
    OMP_NUM_THREADS=1 python -m benchmarks.gibbs_alignment                 # 30,000 pairs, a few minutes
    OMP_NUM_THREADS=1 python -m benchmarks.gibbs_alignment --prefix 5      # of words only the first letters are seen
    OMP_NUM_THREADS=1 python -m benchmarks.gibbs_alignment --pairs all --prefix 6 --errors-only

The first pairs of Hansards and the 447 + 37 sentences of the NAACL 2003 task without their links (in ``--data`` or
``PYRO_UNSUP_DATA``). A sweep draws every link of both directions once, on one thread. eflomal's is the time of 11
sweeps less that of one, over ten. Ours: ``pu.CollapsedGibbs`` of an ``HMMAligner`` without agreement, with fertility
0.5, concentrations 0.001 of translations and 0.5 of jumps, as eflomal has them. 20 sweeps of Model 1 come first, then
so many by jumps. Links are those of competitive thresholding, at 0.5, of the share of draws that have them, of every
fifth sweep of the last half, of all chains. Alignment error rates are in per cent.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from typing import Any

import numpy as np

import pyro_unsup as pu
from pyro_unsup.data import Bitext, Links
from pyro_unsup.data.forms import Forms
from pyro_unsup.evaluate import alignment_error_rate, competitive, link_rows
from pyro_unsup.models import Aligner, HMMAligner
from pyro_unsup.models.gibbs_links import link_shares
from pyro_unsup.reproduce.liang_klein_2009_alignment import NEEDS, hansards

from .alignment_settings import seen
from .common import arguments, corpora, figure, report

LEXICAL, JUMP, FERTILITY = 0.001, 0.5, 0.5
REPEATS, SWEEPS = 3, 10
#: Of the draws of a large text, memory holds some.
THIN = 5


def lines(text: Any) -> list[str]:
    return [" ".join(text.sentence(k)) for k in range(len(text))]


def eflomal_run(source: list[str], target: list[str], sweeps: int) -> float:
    """Seconds of so many sweeps of eflomal's third model, reading included."""
    from eflomal import Aligner as Peer

    with tempfile.TemporaryDirectory() as folder:
        peer = Peer(model=3, n_iterations=(0, 0, sweeps), n_samplers=1)
        began = time.perf_counter()
        peer.align(source, target, links_filename_fwd=f"{folder}/f", links_filename_rev=f"{folder}/r", quiet=True)
        return time.perf_counter() - began


def timed(text: Bitext, pairs: int) -> None:
    model = HMMAligner.of(text, agreement=None, null=0.2)
    state, rng = model.gibbs_state()(model, text, FERTILITY), np.random.default_rng(0)
    alpha, beta = np.full(len(state.tables[0]), JUMP), np.full(2, LEXICAL)
    state.draw_start(rng)
    state.sweep("pointwise", alpha, beta, 1.0, rng)  # compiles
    source, target = lines(text.source), lines(text.target)
    ours, theirs = [], []
    for _ in range(REPEATS):
        began = time.perf_counter()
        for _ in range(SWEEPS):
            state.sweep("pointwise", alpha, beta, 1.0, rng)
        ours.append((time.perf_counter() - began) / SWEEPS)
        one = eflomal_run(source, target, 1)
        theirs.append((eflomal_run(source, target, 1 + SWEEPS) - one) / SWEEPS)
    report(
        "a sweep with jumps and fertility", statistics.median(ours), "eflomal", statistics.median(theirs), pairs=pairs
    )


def sampled(text: Bitext, golds: dict[str, tuple[Bitext, int]], sweeps: int, chains: int) -> None:
    """Errors of gold sentences, which lie in the text from a place on: of each chain, with its best log joint, and of
    all chains together."""
    first = pu.CollapsedGibbs(Aligner.of(text, agreement=None, null=0.2), beta=LEXICAL)
    model = HMMAligner.of(text, agreement=None, null=0.2)
    kernel = pu.CollapsedGibbs(model, alpha=JUMP, beta=LEXICAL, fertility=FERTILITY)
    lengths = text.source.lengths, text.target.lengths
    starts = np.concatenate([[0], np.cumsum(lengths[0] * lengths[1])])
    together, began = [np.zeros(int(starts[-1])) for _ in range(2)], time.perf_counter()

    def errors(shares: Any) -> dict[str, float]:
        found = {}
        for name, (gold, at) in golds.items():
            inside = slice(starts[at], starts[at + len(gold)])
            sizes = gold.source.lengths, gold.target.lengths
            chosen = competitive(*(x[inside] for x in shares), *sizes, 0.5)
            error = alignment_error_rate(gold.links, Links(len(gold), link_rows(chosen, *sizes)))  # type: ignore[arg-type]
            found[name] = round(100 * error, 2)
        return found

    for seed in range(chains):
        start = first.run(text, sweeps=20, burn_in=19, seed=seed, progress=False).last[0]
        samples = kernel.run(text, sweeps=sweeps, seed=seed, initial=start, thin=THIN, progress=False)
        shares = link_shares(samples.labels[0], lengths)
        figure(f"chain {seed}", **errors(shares), log_joint=round(float(samples.best_log_joint[0])))
        for into, own in zip(together, shares, strict=True):
            into += own / chains
    figure(f"{chains} chains of {sweeps} sweeps", **errors(together), seconds=round(time.perf_counter() - began))


def main() -> None:
    asked = arguments(__doc__, pairs="30000", prefix=0, sweeps=100, chains=1, data="", errors_only=False)
    known = corpora(asked.data, *NEEDS)
    whole, test = hansards(known, None if asked.pairs == "all" else int(asked.pairs))
    trial, forms = known["hansards-trial"], Forms(prefix=asked.prefix or None)
    text = Bitext(seen(whole.source, forms), seen(whole.target, forms))
    if not asked.errors_only:
        timed(text, len(text))
    last = len(text) - len(trial)
    sampled(text, {"trial": (trial, last), "test": (test, last - len(test))}, asked.sweeps, asked.chains)


if __name__ == "__main__":
    main()

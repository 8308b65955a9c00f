"""Word segmentation by adaptor grammars: what chains find in a corpus of phonemes, and in Chinese.

    python -m benchmarks.adaptor --only words                    # English phonemes; so collocations, syllables
    python -m benchmarks.adaptor --only function-words --chains 4 --seed 11
    python -m benchmarks.adaptor --only bigram --seed 31         # words, each of which depends on the word before
    python -m benchmarks.adaptor --only chinese                  # words and collocations
    python -m benchmarks.adaptor                                 # all of these, one after the other

Of each chain: the score of its last sweep, and that of the vote of the second half of its sweeps. Of all chains: the
vote over the first three, and over all. No score is used to choose anything; the log joint stands beside each chain.
Real corpora are in the folder that PYRO_UNSUP_DATA names.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import pyro_unsup as pu

from .common import arguments, corpora, figure

#: The vowels of the corpus, and its three consonants that make a syllable, as in "bottle", "rhythm" and "button".
VOWELS = "&679AEIOQUaeiou#%()*3RLM~"
#: Sweeps of each grammar.
SWEEPS = {"words": 300, "bigram": 300, "collocations": 300, "syllables": 400, "function-words": 700}
#: Symbols of the longest unit, and sweeps, for the Chinese text.
LONGEST, CHINESE = 12, 200


def scores(text: Any, ends: Any) -> dict[str, float]:
    found = pu.evaluate.segmentation_report(text.ends, ends, text.words, text.lengths)
    return {name: round(100 * float(found[name]), 2) for name in ("token_f1", "boundary_f1", "lexicon_f1")}


def run(name: str, text: Any, model: Any, sweeps: int, given: Any) -> None:
    """Sample, and tell all chains."""
    chains, seed = given.chains, given.seed
    began, ended = np.zeros(chains), np.zeros(chains)

    def note(sweep: Any) -> None:
        (began if sweep.sweep == 1 else ended)[sweep.chain] = time.perf_counter()

    thin = max(1, sweeps // 200)
    samples = pu.CollapsedGibbs(model).run(
        text,
        sweeps=sweeps,
        thin=thin,
        chains=chains,
        parallel=given.parallel,
        seed=seed,
        progress=False,
        callbacks=[note],
    )
    seconds = (ended - began) / (sweeps - 1) * sweeps  # of the first sweep, only the end is known
    for chain in range(chains):
        last, vote = scores(text, samples.predict("last", chain)), scores(text, samples.predict("vote", chain))
        joint = round(float(samples.log_joint[chain].mean()), 1)
        told = {"chain": chain, "seed": seed + chain, "sweeps": sweeps, "seconds": round(float(seconds[chain]), 1)}
        figure(name, **told, log_joint=joint, last=last["token_f1"], **vote)
    mean = np.mean([scores(text, samples.predict("vote", chain))["token_f1"] for chain in range(chains)])
    together = {"vote_of_all": scores(text, samples.predict("vote"))}
    if chains > 3:
        three = samples.labels[:3].reshape(-1, samples.labels.shape[-1]).mean(0) > 0.5
        together["vote_of_three"] = scores(text, three.astype(np.int32))
    figure(name, mean_of_chains=round(float(mean), 2), accepted=float(samples.rates["labels"].mean()), **together)


def main() -> None:
    given = arguments(
        __doc__, [*SWEEPS, "chinese"], only="", chains=4, seed=11, sweeps=0, parallel=1, start="", data=""
    )
    for name in [name for name in SWEEPS if given.only in ("", name)]:
        text = corpora(given.data, "speech")["speech"]
        vowels = VOWELS if name in ("syllables", "function-words") else None
        known, order = ("words", 2) if name == "bigram" else (name, 1)
        model = pu.models.Adaptor(text.vocab, known, vowels=vowels, start=given.start or None, order=order)
        run(name, text, model, given.sweeps or SWEEPS[name], given)
    if given.only in ("", "chinese"):
        text = corpora(given.data, "sinica")["sinica"]
        for name in ("words", "collocations"):
            model = pu.models.Adaptor(text.vocab, name, max_length=LONGEST)
            run(f"Chinese, {name}", text, model, given.sweeps or CHINESE, given)


if __name__ == "__main__":
    main()

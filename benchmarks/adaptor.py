"""Word segmentation by adaptor grammars: what chains find in a corpus of phonemes, and in Chinese.

    python -m benchmarks.adaptor --only words                    # English phonemes; so collocations, syllables
    python -m benchmarks.adaptor --only function-words --seed 31
    python -m benchmarks.adaptor --only bigram                   # words, each of which depends on the word before
    python -m benchmarks.adaptor --only chinese                  # words and collocations
    python -m benchmarks.adaptor                                 # all of these, one after the other

Of each chain: the score of its last sweep, that of the vote of the second half of its sweeps, and its mean log joint in
that half; the seconds that passed, and those that it had a processor, which say more where a machine is shared. Of all
chains: the vote over the first three, and over all; and what would be chosen without labels, the chain of the highest
mean log joint. No score is used to choose anything. Real corpora are in the folder that PYRO_UNSUP_DATA names.
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
    began, ended = np.zeros((chains, 2)), np.zeros((chains, 2))

    def note(sweep: Any) -> None:  # in the thread of its chain
        (began if sweep.sweep == 1 else ended)[sweep.chain] = time.perf_counter(), time.thread_time()

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
    a_sweep = (ended - began) / (sweeps - 1)  # of the first sweep, only the end is known
    joints, votes = samples.log_joint.mean(1), [scores(text, samples.predict("vote", chain)) for chain in range(chains)]
    for chain in range(chains):
        seconds, busy = a_sweep[chain].tolist()
        told = {"chain": chain, "seed": seed + chain, "sweeps": sweeps, "seconds": round(seconds * sweeps, 1)}
        told |= {"seconds_a_sweep": round(seconds, 4), "processor_seconds_a_sweep": round(busy, 4)}
        last = scores(text, samples.predict("last", chain))["token_f1"]
        figure(name, **told, log_joint=round(float(joints[chain]), 1), last=last, **votes[chain])
    together: dict[str, Any] = {"vote_of_all": scores(text, samples.predict("vote"))}
    if chains > 3:
        three = samples.labels[:3].reshape(-1, samples.labels.shape[-1]).mean(0) > 0.5
        together["vote_of_three"] = scores(text, three.astype(np.int32))
    best = int(joints.argmax())
    together["chosen_by_log_joint"] = {"seed": seed + best, **votes[best]}
    mean = round(float(np.mean([one["token_f1"] for one in votes])), 2)
    figure(name, mean_of_chains=mean, accepted=round(float(samples.rates["labels"].mean()), 5), **together)
    seconds, busy = a_sweep.mean(0).tolist()
    speed = {"utterances": len(text), "levels": len(samples.levels), "seconds_a_sweep": round(seconds, 4)}
    each = busy / len(text) * 1e6
    speed |= {"processor_seconds_a_sweep": round(busy, 4), "processor_microseconds_an_utterance": round(each, 1)}
    speed["processor_microseconds_an_utterance_and_level"] = round(each / len(samples.levels), 1)
    figure(f"{name}, speed", **speed)


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

"""Bayesian tagging of real text: what sampling makes of a trigram tagger that maximum likelihood does not.

    python -m benchmarks.bayesian_tagging                       # all of it, two chains at a time
    python -m benchmarks.bayesian_tagging --sweeps 20000        # as long as in the paper
    python -m benchmarks.bayesian_tagging --only sizes --words 12000,24000
    python -m benchmarks.bayesian_tagging --only dictionaries --d 10,inf --chains 2 --processes 1

Tables 1 to 3 of Goldwater & Griffiths (2007) on the WSJ sample (in ``PYRO_UNSUP_DATA``, or ``../shared/data``), on its
sentences that begin within the first 12,000, 24,000 and 48,000 words, and on all:

- MLHMM: EM until the relative change is below 1e-7 (at most 1,000 iterations, 200 without a dictionary), by Viterbi.
  It starts with noise 1e-3, without a dictionary with noise 1.
- BHMM: concentrations (0.003, 1), the best that the paper found by looking at the gold tags.
- BHMM1: one alpha and one beta sampled, from 1 and 1, under Gamma(1, 1). BHMM2: a beta for each tag.

Chains cool from 2 to 0.08, and their last sample is scored on the text itself. The dictionary lists what tags a word
has in the whole sample; tags that no word of the text may have are left out, and so are words that it does not have.
Ending is an event that the tags predict, for all models alike. Dictionaries are diluted as in the paper: they list only
words that the text has at least d times, by 17 tags. Without one the tags are anonymous, so there is no accuracy.

JSON lines as chains end, and tables in Markdown at last: mean and standard deviation over chains.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

import pyro_unsup as pu
from pyro_unsup.data.tagmaps import SMITH_EISNER_17
from pyro_unsup.models import Tagger

from .common import DATA, Job, arguments, figure, in_processes, markdown, plain, spread

BHMM: dict[str, dict[str, Any]] = {
    "BHMM (.003, 1)": {"alpha": 0.003, "beta": 1.0},
    "BHMM1": {"hyper": "shared"},
    "BHMM2": {"hyper": "separate"},
}
SHOWN = ("accuracy", "accuracy_ambiguous", "vi_bits", "many_to_one", "one_to_one", "clusters_used")


def first(corpus: pu.data.Corpus, words: float) -> pu.data.Corpus:
    """The sentences that begin within so many words, with the words that they have."""
    sentences = min(len(corpus), int(np.searchsorted(corpus.offsets, words)))
    return corpus.select(np.arange(sentences)).compact()


def tagger(dictionary: pu.data.TagDictionary, text: pu.data.Corpus) -> Tagger:
    """A trigram tagger of the text by the tags that its words may have."""
    if not len(dictionary):
        return Tagger(len(dictionary.tagset), text.vocab, 2, stop=True)
    mask = dictionary.mask(text.vocab)
    used = mask.any(1)
    tags = pu.data.Vocab(tag for tag, one in zip(dictionary.tagset, used, strict=True) if one)
    return Tagger(tags, text.vocab, 2, mask[used], stop=True)


def maximum_likelihood(model: Tagger, text: pu.data.Corpus, seed: int) -> dict[str, Any]:
    named = not isinstance(model.tags, int)
    engine = pu.EM(model, init=pu.noise(1e-3 if named else 1.0))
    fit = engine.run(text, seed=seed, iterations=1000 if named else 200, tolerance=1e-7, progress=False)
    return {**fit.evaluate(text), "iterations": fit.report.iterations}


def bayesian(model: Tagger, text: pu.data.Corpus, seed: int, name: str, sweeps: int) -> dict[str, Any]:
    kernel = pu.CollapsedGibbs(model, temperature=pu.Cooling(), **BHMM[name])
    samples = kernel.run(text, sweeps, burn_in=sweeps - 1, parallel=1, seed=seed, progress=False)
    found = {key: score["mean"] for key, score in samples.evaluate(text).items()}
    beta = samples.draws["beta"][0, 0]
    return {
        **found,
        "sweeps": sweeps,
        "log_joint": float(samples.log_joint[0, -1]),
        "alpha": float(samples.alpha[0, 0]),
        "beta": [round(float(x), 4) for x in np.quantile(beta, [0, 0.5, 1])],  # least, middle, most
    }


def jobs_of(about: str, model: Tagger, text: pu.data.Corpus, names: list[str], chains: int, sweeps: int) -> list[Job]:
    """MLHMM and the given samplers, once for each seed."""
    jobs: list[Job] = [(f"{about}|MLHMM|{seed}", maximum_likelihood, (model, text, seed)) for seed in range(chains)]
    for name in names:
        jobs += [(f"{about}|{name}|{seed}", bayesian, (model, text, seed, name, sweeps)) for seed in range(chains)]
    return jobs


def describe(name: str, model: Tagger, text: pu.data.Corpus) -> dict[str, Any]:
    """How much the dictionary leaves open, and what tags drawn evenly from it are worth."""
    support = model.declarations()["emission"].layout.support
    mask = np.ones((model.states, len(text.vocab)), np.bool_) if support is None else support.numpy()
    choices = mask.sum(0)[text.words]
    named = support is not None
    drawn = np.where(mask.T[text.words], np.random.default_rng(0).random((text.tokens, model.states)), -1).argmax(1)
    found = {
        "tokens": text.tokens,
        "types": len(text.vocab),
        "tags": model.states,
        "tags_a_token": float(choices.mean()),
        "ambiguous": 100 * float((choices > 1).mean()),
        **({"random": 100 * float((1 / choices).mean())} if named else {}),
        **({"random_ambiguous": 100 * float((1 / choices[choices > 1]).mean())} if named else {}),
        "random_vi": pu.evaluate.variation_of_information(text.tags, drawn),
    }
    figure(name, **plain(found))
    return found


def run(cells: dict[str, tuple[Tagger, pu.data.Corpus]], names: list[str], chains: int, sweeps: int, n: int) -> None:
    """Everything for texts and models by name, and a table of it."""
    about = {name: describe(name, *cell) for name, cell in cells.items()}
    jobs = [job for name, cell in cells.items() for job in jobs_of(name, *cell, names, chains, sweeps)]
    scores: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for job, found in in_processes(jobs, n):
        cell, name, seed = job.split("|")
        found = {key: 100 * x if key in SHOWN[:2] + SHOWN[3:5] else x for key, x in found.items()}
        figure(f"{cell}, {name}", seed=int(seed), **plain(found))
        scores.setdefault((cell, name), []).append(found)
    rows = []
    for cell, told in about.items():
        even = [f"{told[key]:.1f}" if key in told else "" for key in ("random", "random_ambiguous")]
        rows.append([cell, "random", *even, f"{told['random_vi']:.2f}", *[""] * 5])
        for name in ("MLHMM", *names):
            rows.append([cell, name, *(_mean(scores[cell, name], key) for key in SHOWN)])
            steps = [one.get("sweeps", one.get("iterations")) for one in scores[cell, name]]
            rows[-1] += [f"{np.mean(steps):.0f}", len(steps)]
    names = ["accuracy", "ambiguous", "VI, bits", "many-to-1", "1-to-1", "tags used"]
    markdown(["", "", *names, "sweeps or iterations", "chains"], rows)


def _mean(found: list[dict[str, Any]], key: str) -> str:
    values = [one[key] for one in found if key in one]
    if not values:
        return ""
    return spread(values, {"vi_bits": 2, "clusters_used": 0}.get(key, 1))


def numbers(listed: str) -> list[float]:
    return [float(x) for x in listed.split(",")]


def main() -> None:
    asked = arguments(__doc__, only="", words="", d="1,2,3,5,10,inf", sweeps=2000, chains=3, processes=2)
    path = DATA / "wsj_nltk.mrg.xz"
    if not path.exists():
        sys.exit(f"the WSJ sample is not at {path}: set PYRO_UNSUP_DATA to the folder that has it")
    corpus = pu.data.read_brackets(path)
    only, sweeps, chains, processes = asked.only, asked.sweeps, asked.chains, asked.processes
    if only in ("", "sizes"):
        listed = pu.data.TagDictionary.from_corpus(corpus)
        texts = [first(corpus, words) for words in numbers(asked.words or "12000,24000,48000,inf")]
        cells = {f"{text.tokens:,} words": (tagger(listed, text), text) for text in texts}
        run(cells, list(BHMM), chains, sweeps, processes)
    if only in ("", "dictionaries"):
        coarse = corpus.with_tags(SMITH_EISNER_17)
        cells = {}
        for words in numbers(asked.words or "24000")[:1]:
            text = first(coarse, words)
            for d in numbers(asked.d):
                diluted = pu.data.TagDictionary.from_corpus(coarse, d, counted_in=text)
                cells[f"d = {d:.0f}" if d < math.inf else "d = infinity"] = (tagger(diluted, text), text)
        run(cells, ["BHMM1", "BHMM2"], chains, sweeps, processes)


if __name__ == "__main__":
    main()

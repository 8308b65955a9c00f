"""Tags of the WSJ sample with a full dictionary, by chains that vote.

    python -m benchmarks.tag_dictionary --data FOLDER                     # the first 24,000 words
    python -m benchmarks.tag_dictionary --data FOLDER --portions 4        # all four portions of so many words
    python -m benchmarks.tag_dictionary --data FOLDER --recipe features

The text is that of Goldwater & Griffiths (2007), with a dictionary from the whole sample: sentences that begin within
the first 24,000 words, or within the next ones. There are two recipes.

``open``: every word starts with the tag that most kinds of words may have, of those that its own entry allows. Chains
of a Bayesian bigram tagger (BHMM1: concentrations are sampled) go on from there, warm, and cool. Their last labels
vote.

``features``, which was found with gold tags in sight:

1. A bigram tagger with features (suffixes, by the direct gradient) tags the text, once for each kappa of ``KAPPAS``.
2. Chains of a bigram BHMM1 start from each of these tags, warm, and cool. Of all these starts, the one that leads to
   the highest log joint is taken.
3. Chains of a trigram BHMM1 start from random tags, as in the paper.
4. The last labels of all chains vote, half of the votes for each model.

The log joint does not look at gold tags. Scores are the accuracy on all words, and on those the dictionary leaves open.
"""

from __future__ import annotations

import time

import numpy as np

import pyro_unsup as pu
from pyro_unsup.models import Tagger
from pyro_unsup.reproduce.goldwater_griffiths_2007 import tagger

from .common import arguments, corpora, figure, spread

WORDS = 24_000
KAPPAS = (1.0, 3.0, 10.0)
CHAINS = {"open": 8, "features": 4}
#: Warm enough to change much of the start, and not all of it.
WARM = pu.schedules.Cooling(1.0, 0.08)
HOT = pu.schedules.Cooling(2.0, 0.08)


class Text:
    """A portion of a corpus, both models, and scores."""

    def __init__(self, corpus: pu.data.Corpus, portion: int) -> None:
        begin, end = np.searchsorted(corpus.offsets[:-1], [portion * WORDS, (portion + 1) * WORDS])
        self.corpus = corpus.select(np.arange(begin, end)).compact()
        self.trigram = tagger(pu.data.TagDictionary.from_corpus(corpus), self.corpus)
        mask = self.trigram.declarations()["emission"].layout.support
        assert mask is not None
        assert self.corpus.tagset is not None
        self.bigram = Tagger(self.trigram.tags, self.corpus.vocab, 1, mask, stop=True)
        names = np.array(list(self.corpus.tagset))[self.corpus.tags]
        self.right = np.array(list(self.trigram.tags)), names  # type: ignore[call-overload]
        self.open = (mask.sum(0) > 1).numpy()[self.corpus.words]
        self.openest = (mask * mask.sum(1, keepdim=True)).argmax(0).numpy()[self.corpus.words]

    def scores(self, labels: np.ndarray) -> list[float]:
        """Accuracy on all words, and on those that may have several tags."""
        tags, gold = self.right
        right = tags[labels] == gold
        return [round(100 * float(some.mean()), 2) for some in (right, right[self.open])]


def chains(
    name: str, text: Text, model: Tagger, sweeps: int, seed: int, many: int, start: np.ndarray | None = None
) -> pu.Samples:
    """The last labels of some chains, which are shown."""
    kernel = pu.CollapsedGibbs(model, hyper="shared", temperature=HOT if start is None else WARM)
    found = kernel.run(
        text.corpus, sweeps, sweeps - 1, chains=many, parallel=1, seed=seed, initial=start, progress=False
    )
    for chain, labels in enumerate(found.last):
        figure(name, seed=seed + chain, accuracy=text.scores(labels), log_joint=round(found.log_joint[chain, -1]))
    return found


def by_open_tags(text: Text, sweeps: int, seed: int) -> dict[str, list[float]]:
    """Scores of the answer of one set of chains, and of its chain of the highest log joint."""
    began = time.perf_counter()
    found = chains("bigram from open tags", text, text.bigram, sweeps, seed, CHAINS["open"], text.openest)
    scores = {"best chain": text.scores(found.predict("last")), "vote": text.scores(found.predict("vote"))}
    figure("one set", seed=seed, **scores, seconds=round(time.perf_counter() - began))
    return scores


def by_features(text: Text, sweeps: int, seed: int) -> dict[str, list[float]]:
    """Scores of the answer of one set of chains, and of what it is made of."""
    began, bigrams = time.perf_counter(), []
    for kappa in KAPPAS:
        engine = pu.Gradient(text.bigram, pu.LogLinear(pu.templates.tagging(), kappa))
        fit = engine.run(text.corpus, iterations=100, tolerance=0.0, seed=seed, progress=False)
        tags = fit.predict(text.corpus, how="mbr").numpy()
        figure(f"features, kappa {kappa:g}", seed=seed, accuracy=text.scores(tags), objective=round(fit.objective))
        bigrams.append(
            chains(f"bigram from features, kappa {kappa:g}", text, text.bigram, sweeps, seed, CHAINS["features"], tags)
        )
    bigram = max(bigrams, key=lambda one: one.log_joint.max())
    trigram = chains("trigram", text, text.trigram, sweeps, seed, CHAINS["features"])
    found = {
        "best bigram chain": text.scores(bigram.predict("last")),
        "best trigram chain": text.scores(trigram.predict("last")),
        "bigram chains": text.scores(bigram.predict("vote")),
        "trigram chains": text.scores(trigram.predict("vote")),
        "both": text.scores((bigram.probabilities() + trigram.probabilities()).argmax(1)),
    }
    kappa = KAPPAS[bigrams.index(bigram)]
    figure("one set", seed=seed, kappa_by_log_joint=kappa, **found, seconds=round(time.perf_counter() - began))
    return found


RECIPES = {"open": by_open_tags, "features": by_features}


if __name__ == "__main__":
    asked = arguments(__doc__, data="", recipe="open", first=0, sets=3, portions=1, sweeps=2_000)
    for portion in range(asked.portions):
        made = Text(corpora(asked.data, "wsj")["wsj"], portion)
        about = {"tokens": made.corpus.tokens, "open": round(100 * float(made.open.mean()), 1)}
        figure(f"portion {portion + 1}", **about, start=made.scores(made.openest))
        sets = [RECIPES[asked.recipe](made, asked.sweeps, asked.first + 100 * k) for k in range(asked.sets)]
        for what in sets[0]:
            both = np.array([found[what] for found in sets])
            figure(f"all sets: {what}", accuracy=spread(both[:, 0], 2), ambiguous=spread(both[:, 1], 2))

"""Made-up texts for everything that is timed, drawn with fixed seeds. Each maker takes a size and gives flat arrays.

Settings that peers do not need are off unless asked for; with them, these are the texts of the other benchmarks.
"""

from __future__ import annotations

import numpy as np

Arrays = dict[str, np.ndarray]

#: Lengths of sentences, 22 on average. They are few, which is kind to peers that must batch by length.
LENGTHS = np.array([6, 10, 14, 18, 22, 26, 34, 46])
TAGS = 34
PHONEMES = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN"


def zipf(n: int) -> np.ndarray:
    weight = 1 / (np.arange(n) + 3.0)
    return weight / weight.sum()


def offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)])


def _draw(cumulative: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An outcome from the given row for each of them."""
    found = np.empty(len(rows), np.int64)
    for row in np.unique(rows):
        here = np.flatnonzero(rows == row)
        found[here] = np.searchsorted(cumulative[row], rng.random(len(here)) * cumulative[row, -1], side="right")
    return np.minimum(found, cumulative.shape[1] - 1)


def _among(values: np.ndarray, weights: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
    """So many of the values, drawn by weights that need not sum to one."""
    return rng.choice(values, number, p=weights / weights.sum())


def sentences(sentences: int, states: int, words: int, any_length: bool = False) -> Arrays:
    """Words by a hidden Markov model, and another one to start from.

    The start is ``first`` after one transition, because Pyro's ``DiscreteHMM`` makes one before the first word.

    :param any_length: of 5 to 40 words, most often about 22, which is the mean too; not a few lengths only.
    """
    rng = np.random.default_rng([1, sentences, states, words])
    if any_length:
        sizes = np.arange(5, 41)
        lengths = _among(sizes, 1 / (2.0 * abs(sizes - 22) + 8), sentences, rng)
    else:
        lengths = LENGTHS[rng.permutation(np.arange(sentences) % len(LENGTHS))]
    start = offsets(lengths)
    move = np.cumsum(rng.dirichlet(np.full(states, 0.1), states), 1)
    say = np.cumsum(rng.gamma(0.1, size=(states, words)) * zipf(words) + 1e-3 * zipf(words), 1)
    tags = np.empty(start[-1], np.int64)
    tags[start[:-1]] = rng.integers(states, size=sentences)
    for place in range(1, int(lengths.max())):
        here = start[:-1][lengths > place] + place
        tags[here] = _draw(move, tags[here - 1], rng)
    first, transition = rng.dirichlet(np.full(states, 10.0)), rng.dirichlet(np.full(states, 10.0), states)
    return {
        "words": _draw(say, tags, rng),
        "lengths": lengths,
        "first": first,
        "start": first @ transition,
        "transition": transition,
        "emission": rng.dirichlet(np.full(words, 10.0), states),
    }


def tag_sequences(sentences: int, length: int, single: bool = False) -> Arrays:
    """Tag sequences, all of one length, or from 2 to 10 if that is 0; and log-weights of what trees are made of.

    :param single: from 1 to 10: there are sequences of a single tag, which peers do not have.
    """
    rng = np.random.default_rng([2, sentences, length])
    sizes = np.arange(1, 11)
    if length:
        lengths = np.full(sentences, length)
    elif single:
        lengths = _among(sizes, np.minimum(2 * sizes, sizes + 6), sentences, rng)
    else:
        lengths = rng.choice(sizes[1:], sentences, p=zipf(9)[::-1])
    return {
        "tags": rng.choice(TAGS, lengths.sum(), p=zipf(TAGS)),
        "lengths": lengths,
        "root": rng.normal(size=TAGS),
        "attach": rng.normal(size=(TAGS, 2, TAGS)),  # by head, direction and child
        "span": rng.normal(size=(TAGS, TAGS)),  # by first and last tag
    }


def bitext(pairs: int, words: int, twice: bool = False) -> Arrays:
    """Sentences and their translations, word for word but for noise, a little out of order; and the true links.

    :param twice: a word may occur twice in a translation. Not where there are peers: nltk counts such words too little.
    """
    rng = np.random.default_rng([3, pairs, words])
    lengths = np.clip(rng.poisson(20, pairs), 3, 45)
    owner = np.repeat(np.arange(pairs), lengths)
    place = np.arange(len(owner)) - offsets(lengths)[owner]
    source, noise = (rng.choice(words, len(owner), p=zipf(words)) for _ in range(2))
    senses = rng.integers(words, size=(words, 3))
    target = senses[source, rng.choice(3, len(owner), p=[0.7, 0.2, 0.1])]
    linked = rng.random(len(owner)) > 0.15
    target = np.where(linked, target, noise)
    order = np.lexsort((place + rng.normal(0, 1.5, len(owner)), owner))
    owner, place, target, linked = owner[order], place[order], target[order], linked[order]
    if not twice:
        _, once = np.unique(owner * words + target, return_index=True)
        once.sort()
        owner, place, target, linked = owner[once], place[once], target[once], linked[once]
    target_lengths = np.bincount(owner, minlength=pairs)
    target_place = np.arange(len(owner)) - offsets(target_lengths)[owner]
    links = np.stack([owner, place, target_place], 1)[linked]
    return {"source": source, "source_lengths": lengths, "target": target, "target_lengths": target_lengths,
            "links": links, "words": np.array(words)}  # fmt: skip


def utterances(sentences: int, lexicon: int = 1_300) -> Arrays:
    """Utterances without spaces, of 3.4 words on average, and where words end."""
    rng = np.random.default_rng([4, sentences])
    spelling = rng.choice(len(PHONEMES), (lexicon, 8), p=zipf(len(PHONEMES)))
    sizes = np.clip(rng.poisson(2.0, lexicon) + 1, 1, 8)
    number = rng.poisson(2.4, sentences) + 1
    drawn = rng.choice(lexicon, number.sum(), p=zipf(lexicon))
    inside = np.arange(8) < sizes[drawn][:, None]
    ends = np.zeros(int(sizes[drawn].sum()), np.bool_)
    ends[np.cumsum(sizes[drawn]) - 1] = True
    lengths = np.add.reduceat(sizes[drawn], offsets(number)[:-1])
    keep = lengths > 1  # peers have no utterances of one symbol
    symbols = np.repeat(keep, lengths)
    return {"symbols": spelling[drawn][inside][symbols], "ends": ends[symbols], "lengths": lengths[keep]}


def documents(documents: int, clusters: int, words: int) -> Arrays:
    """Bags of a hundred words each from a mixture of multinomials, and another one to start from."""
    rng = np.random.default_rng([5, documents, clusters, words])
    topics = np.cumsum(rng.gamma(0.1, size=(clusters, words)) * zipf(words) + 1e-3 * zipf(words), 1)
    label = rng.integers(clusters, size=documents)
    return {
        "words": _draw(topics, np.repeat(label, 100), rng),
        "lengths": np.full(documents, 100),
        "share": rng.dirichlet(np.full(clusters, 10.0)),
        "topics": rng.dirichlet(np.full(words, 10.0), clusters),
    }

"""Sentences of the toy world with gold tags, dependencies and brackets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.toy.derive import Forest, forests
from pyro_unsup.data.toy.grammar import GRAMMAR, Int
from pyro_unsup.data.toy.lexicon import CLASSES, TAGS, WORDS
from pyro_unsup.data.vocab import Vocab

#: All words of the toy world.
VOCAB = Vocab(WORDS)
#: All its tags.
TAGSET = Vocab(TAGS)
_TAG_OF_CLASS: Int = np.array([TAGS.index(entry.tag) for entry in CLASSES.values()])


@dataclass(frozen=True)
class Flat:
    """Sentences end to end, as read off their trees.

    :param words: (tokens,) index into ``WORDS``.
    :param tags: (tokens,) index into ``TAGS``.
    :param heads: (tokens,) 0 for the root, else the 1-based place of the head in the sentence.
    :param places: (tokens,) the place of the token among those of its sentence in the order of the parallel language.
    :param lengths: (sentences,)
    :param spans: (brackets, 2) fenceposts, sorted within each sentence.
    :param brackets: (sentences,) the number of brackets.
    """

    words: Int
    tags: Int
    heads: Int
    places: Int
    lengths: Int
    spans: Int
    brackets: Int

    @property
    def offsets(self) -> Int:
        """(sentences + 1,)"""
        return np.concatenate([[0], np.cumsum(self.lengths)])


def flatten(forest: Forest) -> Flat:
    """Reads words, tags, heads and brackets off the trees."""
    start, width, head = forest.starts(), forest.widths(), forest.head_leaves()
    lengths = width[: forest.sentences]
    token = (np.cumsum(lengths) - lengths)[forest.sentence] + start  # of each leaf, among all tokens
    leaves = np.flatnonzero(forest.rule < 0)

    def by_token(values: Int) -> Int:
        placed = np.empty(len(leaves), np.int64)
        placed[token[leaves]] = values[leaves]
        return placed

    # A node headed by another leaf than its parent is where its own head leaf attaches. Roots attach to nothing.
    above = np.zeros(len(start), np.int64)
    attached = forest.sentences + np.flatnonzero(head[forest.sentences :] != head[forest.parent[forest.sentences :]])
    above[head[attached]] = start[head[forest.parent[attached]]] + 1

    # Only a phrase of several children adds a bracket: one with an only child has the span of that child.
    branching = np.flatnonzero((forest.rule >= 0) & (GRAMMAR.arity[forest.rule] > 1))
    ends = start + width
    branching = branching[np.lexsort((ends[branching], start[branching], forest.sentence[branching]))]
    return Flat(
        words=by_token(forest.word),
        tags=_TAG_OF_CLASS[by_token(forest.symbol) - len(GRAMMAR.phrases)],
        heads=by_token(above),
        places=by_token(forest.starts(reorder=True)),
        lengths=lengths,
        spans=np.column_stack([start[branching], ends[branching]]),
        brackets=np.bincount(forest.sentence[branching], minlength=forest.sentences),
    )


def flat(n: int, seed: int = 0) -> Flat:
    """``n`` sentences, end to end."""
    blocks = [flatten(forest) for forest in forests(n, seed)]
    if not blocks:
        none = np.zeros(0, np.int64)
        return Flat(none, none, none, none, none, none.reshape(0, 2), none)
    return Flat(*(np.concatenate([getattr(block, name) for block in blocks]) for name in Flat.__dataclass_fields__))


def sentences(n: int, seed: int = 0) -> Corpus:
    """Draws sentences from the grammar, with gold tags, heads and brackets.

    The vocabulary and the tag set are always the whole ones, so corpora of different seeds fit together. A smaller
    draw is the beginning of a larger one with the same seed.

    :param n: number of sentences; they have 3 to 40 tokens, 8 on average, the last one a punctuation mark.
    :param seed: same seed, same sentences.

    >>> from pyro_unsup.data.toy import sentences
    >>> corpus = sentences(1000, seed=7)
    >>> " ".join(corpus.sentence(0))
    'the happy woman would almost walk on .'
    >>> corpus.tagset.decode(corpus.tags[: corpus.offsets[1]])
    ['DET', 'ADJ', 'NOUN', 'AUX', 'ADV', 'VERB', 'ADV', 'PUNCT']
    """
    return annotated(flat(n, seed))


def annotated(drawn: Flat) -> Corpus:
    """The corpus of flat sentences."""
    return Corpus(
        words=drawn.words.astype(np.int32),
        offsets=drawn.offsets,
        vocab=VOCAB,
        tags=drawn.tags.astype(np.int32),
        tagset=TAGSET,
        heads=drawn.heads.astype(np.int32),
        spans=drawn.spans.astype(np.int32),
        span_offsets=np.concatenate([[0], np.cumsum(drawn.brackets)]),
    )

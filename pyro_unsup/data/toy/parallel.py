"""A second language for the toy world: invented words, another word order, and gold word alignments.

Each source token picks one of its translations: no word (some articles are dropped), one word, or two (fertile words).
The order is that of the grammar's parallel rules: verbs last, adjectives after nouns. At last particles that translate
nothing are put in here and there.
"""

from __future__ import annotations

import numpy as np

from pyro_unsup.data.bitext import Bitext
from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.links import Links
from pyro_unsup.data.toy.derive import stream
from pyro_unsup.data.toy.grammar import Choice, Int
from pyro_unsup.data.toy.lexicon import WORDS
from pyro_unsup.data.toy.treebank import annotated, flat
from pyro_unsup.data.vocab import Vocab

CONSONANTS, VOWELS = "ptkbdgmnlrsvzf", "aeiou"
#: Target words that translate nothing, and how likely one stands before any other target word.
PARTICLES, PARTICLE_RATE = ("ke", "na", "lo"), 0.08
#: Source words that are often left out.
DROPPED: dict[str, float] = {"the": 0.4, "a": 0.4, "that": 0.2, "did": 0.5}

Options = tuple[tuple[float, tuple[str, ...]], ...]


def invent(number: int) -> str:
    """The ``number``-th invented word: all of two syllables, and all different.

    >>> from pyro_unsup.data.toy.parallel import invent
    >>> invent(0), invent(1), invent(2)
    ('gegi', 'sisu', 'tuke')
    """
    syllables = [consonant + vowel for consonant in CONSONANTS for vowel in VOWELS]
    # The multiplier has no factor in common with the number of words, so the scrambled numbers are all different.
    first, second = divmod((number + 1) * 1847 % len(syllables) ** 2, len(syllables))
    return syllables[first] + syllables[second]


def _translations() -> dict[str, Options]:
    table: dict[str, Options] = {}
    for number, word in enumerate(WORDS):
        one, two = invent(2 * number), invent(2 * number + 1)
        if not word[0].isalpha():
            table[word] = ((1.0, (word,)),)
        elif word in DROPPED:
            table[word] = ((DROPPED[word], ()), (1.0 - DROPPED[word], (one,)))
        elif number % 8 == 3:
            table[word] = ((1.0, (one, two)),)
        elif number % 8 == 6:
            table[word] = ((0.7, (one,)), (0.3, (two,)))
        else:
            table[word] = ((1.0, (one,)),)
    return table


#: For every source word its translations and their probabilities.
TRANSLATIONS: dict[str, Options] = _translations()
TARGET_VOCAB = Vocab(
    [*PARTICLES, *dict.fromkeys(w for row in TRANSLATIONS.values() for _, words in row for w in words)]
)

_OPTIONS = [(number, *option) for number, word in enumerate(WORDS) for option in TRANSLATIONS[word]]
_CHOICE = Choice(np.array([number for number, _, _ in _OPTIONS]), np.array([weight for _, weight, _ in _OPTIONS]))
_SIZES: Int = np.array([len(words) for _, _, words in _OPTIONS])
_TARGETS: Int = np.array([[*TARGET_VOCAB.encode(words), -1, -1][:2] for _, _, words in _OPTIONS])  # (options, 2)


def bitext(n: int, seed: int = 0) -> Bitext:
    """The sentences of the same seed, with their gold tags, heads and brackets, and their translations.

    Gold links are all sure.

    :param n: number of sentence pairs.
    :param seed: same seed, same pairs.

    >>> from pyro_unsup.data.toy import bitext
    >>> text = bitext(10, seed=7)
    >>> " ".join(text.source.sentence(0)), " ".join(text.target.sentence(0))
    ('the happy woman would almost walk on .', 'lo gegi figa noni vuke lo nuso vise kuto sina .')
    >>> text.select([0]).links.rows[:, 1:].tolist()
    [[0, 1], [1, 3], [2, 2], [3, 9], [4, 6], [5, 7], [5, 8], [6, 4], [7, 10]]
    """
    drawn = flat(n, seed)
    sentence = np.repeat(np.arange(n), drawn.lengths)
    begin = drawn.offsets[sentence]
    option = _CHOICE.draw(drawn.words, stream(seed, "translation"))

    reordered = np.empty_like(begin)  # the source tokens in target order
    reordered[begin + drawn.places] = np.arange(len(begin))
    sizes = _SIZES[option[reordered]]
    linked = np.repeat(reordered, sizes)  # the source token of each target word that has one
    first_or_second = np.arange(len(linked)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    translated = _TARGETS[option[linked], first_or_second]

    room = 1 + (stream(seed, "particles").random(len(linked)) < PARTICLE_RATE)  # a particle, if any, comes first
    place = np.cumsum(room) - 1
    which = stream(seed, "which particle").integers(len(PARTICLES), size=len(linked))
    words = np.repeat(which, room)  # particles have the first ids of the vocabulary
    words[place] = translated
    lengths = np.bincount(np.repeat(sentence[linked], room), minlength=n)
    offsets = np.concatenate([[0], np.cumsum(lengths)])

    links = np.column_stack([sentence[linked], linked - begin[linked], place - offsets[sentence[linked]]])
    target = Corpus(words=words.astype(np.int32), offsets=offsets, vocab=TARGET_VOCAB)
    return Bitext(annotated(drawn), target, Links(n, links))

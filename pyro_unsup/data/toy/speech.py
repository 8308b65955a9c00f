"""The toy world as it sounds: phoneme strings without word boundaries, and where the boundaries are."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.segmented import Segmented
from pyro_unsup.data.toy.grammar import Int
from pyro_unsup.data.toy.lexicon import WORDS
from pyro_unsup.data.toy.treebank import flat
from pyro_unsup.data.vocab import Vocab

#: Sounds that are not written by one letter of their own (two sounds where a letter makes two).
SOUNDS: dict[str, str] = {
    "9": "igh",
    "C": "tch ch",
    "S": "sh",
    "T": "th",
    "f": "ph",
    "w": "wh",
    "k": "ck c",
    "N": "ng",
    "kw": "qu",
    "ks": "x",
    "i": "ee ea y",
    "u": "oo",
    "Q": "ou ow",
    "O": "oi oy",
    "e": "ai ay",
}
_SOUND_OF = {letters: sound for sound, spellings in SOUNDS.items() for letters in spellings.split()}
_LETTERS = re.compile("|".join(sorted(_SOUND_OF, key=len, reverse=True)))
_RULES = (
    (re.compile("c(?=[eiy])"), "s"),  # price
    (re.compile("(?<=[aeiou][^aeiou])e$|(?<=[aeiou][^aeiou][^aeiou])e$"), ""),  # house, table
    (re.compile(r"([^aeiou])\1"), r"\1"),  # summer
)


def phonemes(word: str) -> str:
    """How a word sounds, one character a phoneme.

    >>> from pyro_unsup.data.toy import phonemes
    >>> phonemes("Knight"), phonemes("the"), phonemes("house"), phonemes("teacher")
    ('kn9t', 'Te', 'hQs', 'tiCer')
    """
    word = word.lower()
    for pattern, sound in _RULES:
        word = pattern.sub(sound, word)
    return _LETTERS.sub(lambda match: _SOUND_OF[match.group()], word)


class Utterances(Segmented):
    """Utterances without word boundaries, one phoneme a symbol, and the boundaries apart.

    >>> from pyro_unsup.data.toy import utterances
    >>> text = utterances(1, seed=1)
    >>> text.segmented, text.unsegmented
    (['mark must kuk Te woman'], ['markmustkukTewoman'])
    """

    @property
    def phonemes(self) -> Corpus:
        """The symbols by another name."""
        return self.symbols

    @property
    def unsegmented(self) -> list[str]:
        """One string an utterance, as a learner hears it."""
        return self.lines(word_sep="")

    @property
    def segmented(self) -> list[str]:
        """One string an utterance, gold words split by spaces."""
        return self.lines()


def _sounds() -> tuple[Vocab, Int, Int, NDArray[np.bool_]]:
    """The phonemes of all words end to end: alphabet, (phonemes,) ids, (words + 1,) offsets, which words are heard."""
    spelled = [phonemes(word) if word[0].isalpha() else "" for word in WORDS]
    alphabet = Vocab(sorted(set("".join(spelled))))
    offsets = np.cumsum([0, *map(len, spelled)])
    return alphabet, alphabet.encode("".join(spelled)).astype(np.int64), offsets, np.diff(offsets) > 0


def utterances(n: int, seed: int = 0) -> Utterances:
    """The sentences of the same seed as phoneme strings, without punctuation.

    :param n: number of utterances.
    :param seed: same seed, same utterances.

    >>> from pyro_unsup.data.toy import utterances
    >>> heard = utterances(10, seed=7)
    >>> heard.unsegmented[0], heard.segmented[0]
    ('TehapiwomanwQldalmostwalkon', 'Te hapi woman wQld almost walk on')
    """
    alphabet, sounds, begin, heard = _sounds()
    drawn = flat(n, seed)
    said = heard[drawn.words]
    words, sentence = drawn.words[said], np.repeat(np.arange(n), drawn.lengths)[said]
    sizes = np.diff(begin)[words]
    last = np.cumsum(sizes) - 1
    ends = np.zeros(sizes.sum(), np.bool_)
    ends[last] = True
    # Each phoneme's place in the list of all sounds: where its word begins there, and how far into the word it is.
    where = np.repeat(begin[words] - (last + 1 - sizes), sizes) + np.arange(len(ends))
    lengths = np.bincount(np.repeat(sentence, sizes), minlength=n)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Utterances(Corpus(words=sounds[where].astype(np.int32), offsets=offsets, vocab=alphabet), ends)

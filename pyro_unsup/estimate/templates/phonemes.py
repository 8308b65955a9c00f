"""Classes of phonemes, by the symbols of the Bernstein-Ratner corpus in its phonemic form: one character a phoneme.

Vowels include diphthongs, vowels with an r in them, and consonants that are a syllable of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Symbols of each class, each in an English word, as far as it has one.
_CLASSES = {
    # bit, bet, bat, but, sofa, book, pot, bought, beat, boot, bait, boat
    "vowel": "IE&A6UaOiueo"
    # bite, bout, boy
    "9Q7"
    # girl, butter; there, are, for, here, your
    "3R*#%()"
    # little, bottom, button
    "LM~",
    "stop": "ptkbdg",
    # thin, the, she, pleasure, hat
    "fricative": "fvTDszSZh",
    # n of sing
    "nasal": "mnN",
    # yes, which
    "liquid or glide": "lrywW",
    # church, judge
    "other": "cG",
}

#: Six classes.
FINE: Mapping[str, str] = {symbol: name for name, symbols in _CLASSES.items() for symbol in symbols}
#: Two.
BROAD: Mapping[str, str] = {symbol: "vowel" if name == "vowel" else "consonant" for symbol, name in FINE.items()}

"""A small corpus with everything a corpus can hold."""

from __future__ import annotations

import numpy as np

from pyro_unsup.data import Corpus, Vocab


def small() -> Corpus:
    """Two trees and a word: the dog barks . / it , stopped / yes"""
    return Corpus(
        words=np.array([0, 1, 2, 3, 4, 5, 6, 7]),
        offsets=np.array([0, 4, 7, 8]),
        vocab=Vocab(["the", "dog", "barks", ".", "it", ",", "stopped", "yes"]),
        tags=np.array([0, 1, 2, 3, 1, 3, 2, 4]),
        tagset=Vocab(["D", "N", "V", "P", "X"]),
        heads=np.array([2, 3, 0, 3, 2, 3, 0, -1]),
        spans=np.array([[0, 2], [0, 3], [0, 4], [0, 2], [0, 3]]),
        span_offsets=np.array([0, 3, 5, 5]),
    )

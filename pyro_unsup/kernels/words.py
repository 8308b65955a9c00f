"""The words of a text, numbered as they come: a table of all that were seen, by the hash of their bytes."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..array import Array

#: Why :func:`split` stopped: the text is done, there is no room for another type, a sentence is too long.
DONE, FULL, TOO_LONG = 0, 1, 2

_SPACES = np.zeros(256, np.bool_)
_SPACES[[9, 10, 11, 12, 13, 28, 29, 30, 31, 32]] = True


@njit(cache=True, nogil=True)
def split(
    text: Array,  # (n,) uint8: lines of UTF-8
    at: int,  # where to begin
    line: int,  # the number of the line there
    slots: Array,  # (power of two,) int32 table: 1 + the number of a type, 0 for none
    hashes: Array,  # (room,) uint64 of each type
    counts: Array,  # (room,) int64 how often each was seen
    lines: Array,  # (room,) int64 the line in which it was seen first
    starts: Array,  # (room + 1,) int64 where its bytes begin among the letters
    letters: Array,  # (bytes,) uint8 of all types, end to end
    types: int,  # how many there are
    most: int,  # words in a sentence
    words: Array,  # (n,) int32 out
    ends: Array,  # (n,) int64 out: how many words there are at the end of each sentence
) -> tuple[int, int, int, int, int, int]:
    """Where it stopped, which line that is, the number of types, of words and of sentences, and why it stopped.

    It stops at the beginning of a line: what it found of a line that it does not finish is left out, but for types.
    """
    n, mask = len(text), len(slots) - 1
    found = sentences = begun = 0  # begun: words before this line
    here = at  # the beginning of this line
    i = at
    while True:
        # Spaces, up to the next word.
        while i < n:
            width = _space(text, i)
            if width == 0:
                break
            if text[i] == 10:
                if found > begun:
                    ends[sentences] = found
                    sentences += 1
                begun, here, line = found, i + 1, line + 1
            i += width
        if i >= n:
            break
        first, code = i, np.uint64(14695981039346656037)
        while i < n and _space(text, i) == 0:
            code = (code ^ np.uint64(text[i])) * np.uint64(1099511628211)
            i += 1
        code ^= code >> np.uint64(29)
        size = i - first
        if found - begun == most:
            return here, line, types, begun, sentences, TOO_LONG
        slot = np.int64(code & np.uint64(mask))
        word = -1
        while slots[slot] > 0:
            other = slots[slot] - 1
            if hashes[other] == code and _same(text, first, size, letters, starts[other], starts[other + 1]):
                word = other
                break
            slot = (slot + 1) & mask
        if word < 0:
            if types >= len(hashes) or 2 * (types + 1) > len(slots) or starts[types] + size > len(letters):
                _forget(counts, words, begun, found)
                return here, line, types, begun, sentences, FULL
            word = types
            slots[slot], hashes[word], lines[word], counts[word] = word + 1, code, line, 0
            letters[starts[word] : starts[word] + size] = text[first:i]
            types += 1
            starts[types] = starts[word] + size
        words[found] = word
        counts[word] += 1
        found += 1
    if found > begun:
        ends[sentences] = found
        sentences += 1
    return n, line, types, found, sentences, DONE


@njit(cache=True, nogil=True, inline="always")
def _space(text: Array, i: int) -> int:
    """How many bytes a space takes that begins here; 0 if none does. Spaces are those of ``str.split``."""
    byte = text[i]
    if byte < 128:
        return 1 if byte <= 32 and _SPACES[byte] else 0
    if byte == 0xC2:
        return 2 if i + 1 < len(text) and (text[i + 1] == 0x85 or text[i + 1] == 0xA0) else 0
    if byte < 0xE1 or byte > 0xE3 or i + 2 >= len(text):
        return 0
    middle, last = text[i + 1], text[i + 2]
    if byte == 0xE1:
        return 3 if middle == 0x9A and last == 0x80 else 0
    if byte == 0xE3:
        return 3 if middle == 0x80 and last == 0x80 else 0
    if middle == 0x80:
        return 3 if last <= 0x8A or last == 0xA8 or last == 0xA9 or last == 0xAF else 0
    return 3 if middle == 0x81 and last == 0x9F else 0


@njit(cache=True, nogil=True, inline="always")
def _same(text: Array, first: int, size: int, letters: Array, start: int, end: int) -> bool:
    if end - start != size:
        return False
    for k in range(size):  # noqa: SIM110 (compiled code has no generators)
        if text[first + k] != letters[start + k]:
            return False
    return True


@njit(cache=True, nogil=True)
def _forget(counts: Array, words: Array, first: int, last: int) -> None:
    """Take back the counts of words that are read again."""
    for k in range(first, last):
        counts[words[k]] -= 1


@njit(cache=True, nogil=True)
def rehash(hashes: Array, types: int, slots: Array) -> None:
    """Fill a new table, all zeros, with the types there are."""
    mask = len(slots) - 1
    for word in range(types):
        slot = np.int64(hashes[word] & np.uint64(mask))
        while slots[slot] > 0:
            slot = (slot + 1) & mask
        slots[slot] = word + 1

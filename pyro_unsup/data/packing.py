"""A text of any length into a corpus on disk, in one pass: only its vocabulary is in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pyro_unsup.data.corpus import Corpus, described
from pyro_unsup.data.files import replacing, write_head
from pyro_unsup.data.flat import Growing
from pyro_unsup.data.forms import Forms
from pyro_unsup.data.lines import UNKNOWN, show
from pyro_unsup.data.opening import Limits, check_lines, whole_lines
from pyro_unsup.data.streams import ENDLESS
from pyro_unsup.data.vocab import Vocab
from pyro_unsup.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

#: Numbers of words that are looked at together when they change.
BLOCK = 1 << 20


def pack_lines(
    path: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    vocab: Vocab | None = None,
    lowercase: bool = False,
    strip_accents: bool = False,
    numbers: bool = False,
    prefix: int | None = None,
    min_count: int = 1,
    unknown: str | None = None,
    limits: Limits = ENDLESS,
    on_bytes: Callable[[int], object] | None = None,
) -> Corpus:
    """Read plain text as :func:`.read_lines` does, write the corpus to a folder, and open it there.

    The text may be larger than memory: only its vocabulary is held. It is read once, by compiled code.

    :param path: one sentence a line, words split by white space; a file (plain, gzip, bzip2 or xz), or ``-`` for
        standard input.
    :param folder: appears when all is written. An older corpus there is replaced.
    :param vocab: number the words by this vocabulary. Others become its unknown symbol, or are an error.
    :param lowercase: fold words to lower case.
    :param strip_accents: leave accents out.
    :param numbers: every digit is ``0``.
    :param prefix: keep so many characters of each word.
    :param min_count: words seen fewer times become the unknown symbol.
    :param unknown: the unknown symbol of the new vocabulary; by default ``<unk>`` where ``min_count`` is above 1.
    :param limits: sizes beyond which the text is refused. A text may have any number of bytes here.
    :param on_bytes: called with the number of bytes read since the last call.

        >>> import tempfile
        >>> from pathlib import Path
        >>> from pyro_unsup.data import pack_lines, read_lines
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     text = Path(folder, "text")
        ...     size = text.write_text("the dog sees the cat\\nthe cat sleeps\\n")
        ...     corpus = pack_lines(text, folder + "/corpus", min_count=2)
        ...     corpus.on_disk, corpus == read_lines(text, min_count=2)
        (True, True)
    """
    if vocab is not None and (min_count > 1 or unknown is not None):
        raise InputError("min_count and unknown make a new vocabulary; leave them out where one is given", path)
    seen = Forms(lowercase, strip_accents, numbers, prefix)
    unknown = UNKNOWN if unknown is None and min_count > 1 else unknown
    with replacing(folder, "corpus") as fresh:
        types = _Types(path, limits)
        files = Growing.create(fresh / "words.npy", np.int32), Growing.create(fresh / "offsets.npy", np.int64)
        with files[0] as words, files[1] as offsets:
            offsets.append(np.zeros(1, np.int64))
            total = 0
            for line, block in whole_lines(path, limits):
                for some, ends in types.split(check_lines(block, line, path, limits), line):
                    words.append(some)
                    offsets.append(ends + total)
                    total += len(some)
                if on_bytes is not None:
                    on_bytes(len(block) + 1)
        if not total:
            raise InputError("no sentence in it, expected at least one", path)
        found, numbers_of = types.numbered(vocab, seen, min_count, unknown)
        if not np.array_equal(numbers_of, np.arange(len(numbers_of))):
            _renumber(fresh / "words.npy", numbers_of)
        head, _ = described(Corpus(np.zeros(1, np.int32), np.array([0, 1]), found))
        write_head(fresh, "corpus", head, ["words", "offsets"])
    return Corpus.open(folder)


class _Types:
    """All different words of a text, by number, as they come."""

    def __init__(self, path: str | os.PathLike[str], limits: Limits) -> None:
        self.path, self.limits = path, limits
        self.size = 0
        self._slots = np.zeros(1 << 12, np.int32)
        self._hashes, self._counts = np.zeros(1 << 11, np.uint64), np.zeros(1 << 11, np.int64)
        self._lines, self._starts = np.zeros(1 << 11, np.int64), np.zeros((1 << 11) + 1, np.int64)
        self._letters = np.zeros(1 << 15, np.uint8)

    def split(self, block: bytes, line: int) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        """The words of some lines, and how many there are at the end of each sentence; as often as there is room."""
        from ..kernels.words import FULL, TOO_LONG, split  # numba loads when it is first needed

        text, at = np.frombuffer(block, np.uint8), 0
        words, ends = np.empty(len(text), np.int32), np.empty(len(text), np.int64)
        while True:
            tables = self._slots, self._hashes, self._counts, self._lines, self._starts, self._letters
            at, line, self.size, n, sentences, why = split(
                text, at, line, *tables, self.size, self.limits.max_sentence, words, ends
            )
            yield words[:n], ends[:sentences]
            if why == TOO_LONG:
                raise InputError(
                    f"a sentence of more than {self.limits.max_sentence:,} words; is a sentence break missing? Else "
                    "break the sentence (in Python, or raise Limits.max_sentence)",
                    self.path,
                    line,
                )
            if why != FULL:
                return
            self._grow(len(block))

    def _grow(self, most: int) -> None:
        """Twice the room, and more letters than a block can have."""
        from ..kernels.words import rehash

        size = 2 * len(self._hashes)
        for name in ("_hashes", "_counts", "_lines"):
            setattr(self, name, _longer(getattr(self, name), size))
        self._starts = _longer(self._starts, size + 1)
        self._letters = _longer(self._letters, max(2 * len(self._letters), len(self._letters) + most))
        self._slots = np.zeros(2 * size, np.int32)
        rehash(self._hashes, self.size, self._slots)

    def numbered(
        self, vocab: Vocab | None, seen: Forms, min_count: int, unknown: str | None
    ) -> tuple[Vocab, npt.NDArray[np.int32]]:
        """The vocabulary, and the number that each type has there."""
        starts = self._starts[: self.size + 1].tolist()
        letters = self._letters.tobytes()
        types = [letters[a:b].decode() for a, b in pairwise(starts)]
        forms = seen.each(types)
        if vocab is None:
            vocab = self._vocab(forms, min_count, unknown)
        elif vocab.unknown is None and (strange := [k for k, one in enumerate(forms) if one not in vocab]):
            raise InputError(
                f"the word {show(forms[strange[0]])} is not in the given set of {len(vocab):,}; use a vocabulary with "
                "an unknown symbol",
                self.path,
                int(self._lines[strange[0]]),
            )
        return vocab, vocab.encode(forms)

    def _vocab(self, forms: list[str], min_count: int, unknown: str | None) -> Vocab:
        counts: dict[str, int] = {}
        for one, count in zip(forms, self._counts.tolist(), strict=False):
            counts[one] = counts.get(one, 0) + count
        if unknown is None:
            return Vocab(counts)
        kept = [one for one, count in counts.items() if count >= min_count or one == unknown]
        return Vocab(dict.fromkeys([*kept, unknown]), unknown=unknown)


def _longer(x: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    found = np.zeros(size, x.dtype)
    found[: len(x)] = x
    return found


def _renumber(path: Path, numbers: npt.NDArray[np.int32]) -> None:
    """Look up every number of a file, and write what was found in its place."""
    words = np.load(path, mmap_mode="r+", allow_pickle=False)
    for at in range(0, len(words), BLOCK):
        words[at : at + BLOCK] = numbers[words[at : at + BLOCK]]
    words.flush()

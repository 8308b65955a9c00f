"""A corpus on disk that never was in memory: written piece by piece, as flat arrays that are mapped when opened."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from pyro_unsup.data.corpus import Corpus, described
from pyro_unsup.data.files import replacing, write_head
from pyro_unsup.errors import InputError


def write_flat(pieces: Iterable[Corpus] | Corpus, folder: str | os.PathLike[str]) -> None:
    """Write a corpus that comes in pieces, as :meth:`.Corpus.save` would write all of it; one piece is in memory.

    :meth:`.Corpus.open` maps it, and engines then look at a part of it at a time. Pieces have one vocabulary (and
    tagset), and the same annotations: tags, heads, brackets, or none of these.

    :param pieces: a corpus, or several one after the other, such as those of :func:`.blocks` of a long text.
    :param folder: appears when all is written. An older corpus there is replaced.

        >>> import tempfile
        >>> from pyro_unsup.data import Corpus, Vocab, write_flat
        >>> vocab = Vocab(["a", "b"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_flat((Corpus([0, 1, i], [0, 2, 3], vocab) for i in (0, 1)), folder + "/corpus")
        ...     corpus = Corpus.open(folder + "/corpus", mmap=False)
        >>> corpus, corpus.sentence(3)
        (Corpus(4 sentences, 6 tokens, 2 types), ['b'])
    """
    with replacing(folder, "corpus") as fresh, ExitStack() as files:
        growing: dict[str, Growing] = {}
        head: dict[str, Any] = {}
        for piece in [pieces] if isinstance(pieces, Corpus) else pieces:
            if not isinstance(piece, Corpus):
                raise InputError(f"expected corpora, one piece after the other, actual {piece!r:.80}", folder)
            now, arrays = described(piece)
            if not growing:
                head = now
                for name, value in arrays.items():
                    stream = files.enter_context(open(fresh / f"{name}.npy", "xb"))
                    growing[name] = Growing(stream, value, offsets=name.endswith("offsets"))
            _check(piece, now, head, arrays.keys(), growing.keys())
            for name, value in arrays.items():
                growing[name].append(value)
        if not growing:
            raise InputError("no pieces to write, expected one or more", folder)
        for one in growing.values():
            one.finish()
        files.close()
        write_head(fresh, "corpus", head, growing)


def _check(piece: Corpus, head: dict[str, Any], first: dict[str, Any], names: Any, known: Any) -> None:
    if names != known:
        raise InputError(
            f"{piece!r} has {', '.join(names)}, the piece before it {', '.join(known)}: all pieces need the same "
            "annotations"
        )
    for name in first:
        if head[name] != first[name]:
            raise InputError(f"{piece!r} has another {name} than the piece before it: use with_vocab, or one tagset")


class Growing:
    """A ``.npy`` file that grows at its end. Its header gets the length when the file is finished."""

    def __init__(self, stream: BinaryIO, like: npt.NDArray[Any], offsets: bool) -> None:
        self._stream, self._offsets = stream, offsets
        self._dtype, self._row = like.dtype, like.shape[1:]
        self._length, self._last = 0, 0
        self._header()
        self._start = self._stream.tell()
        if self._offsets:
            self._write(np.zeros(1, self._dtype))

    @classmethod
    @contextmanager
    def create(cls, path: Path, dtype: npt.DTypeLike) -> Iterator[Self]:
        """A new file of numbers. It is finished when the block ends well."""
        with open(path, "xb") as stream:
            new = cls(stream, np.empty(0, dtype), offsets=False)
            yield new
            new.finish()

    def append(self, value: npt.NDArray[Any]) -> None:
        if self._offsets:  # they go on where those before ended
            value = value[1:] + self._last
            self._last = int(value[-1]) if len(value) else self._last
        self._write(value)

    def finish(self) -> None:
        self._stream.seek(0)
        self._header()
        if self._stream.tell() != self._start:  # numpy leaves room for any length
            raise InputError(f"{self._length} rows are too many for one file", self._stream.name)

    def _write(self, value: npt.NDArray[Any]) -> None:
        self._stream.write(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)  # tofile misses a full disk
        self._length += len(value)

    def _header(self) -> None:
        shape = (self._length, *self._row)
        descr = npy.dtype_to_descr(self._dtype)
        npy.write_array_header_1_0(self._stream, {"descr": descr, "fortran_order": False, "shape": shape})

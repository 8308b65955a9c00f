"""Links between the words of sentences and their translations: read, kept as flat arrays, and written."""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, Protocol, TextIO

import numpy as np
import numpy.typing as npt

from pyro_unsup.data.arrays import OffsetArray, check_length, gather
from pyro_unsup.data.files import write_text
from pyro_unsup.data.lines import show
from pyro_unsup.data.opening import LIMITS, Limits, open_text
from pyro_unsup.errors import InputError

Format = Literal["wa", "pharaoh"]
_LINK = re.compile(r"([0-9]{1,9})([-?])([0-9]{1,9})(?::[0-9]{1,9}(?:\.[0-9]{0,20})?)?")


class Lengths(Protocol):
    """Pairs of sentences, as far as links care: a bitext is."""

    @property
    def source_lengths(self) -> OffsetArray: ...

    @property
    def target_lengths(self) -> OffsetArray: ...


@dataclass(frozen=True, eq=False, repr=False)
class Links:
    """Links of pairs of sentences, sure and merely possible ones.

    :param pairs: how many pairs of sentences there are, those without a link included.
    :param rows: pair, source place and target place of each link, all from 0, shape ``(links, 3)``. They are sorted,
        and one that is there twice is kept once (as a sure one, if it is sure anywhere).
    :param sure: shape ``(links,)``; all of them, if not given.
    :param annotated: shape ``(pairs,)``: of which pairs these are all links; of all of them, if not given. Of the other
        pairs nothing is known, and scores leave them out.

    >>> from pyro_unsup.data import Links
    >>> links = Links(2, [[1, 0, 2], [0, 0, 0], [1, 0, 2]], [False, True, True])
    >>> links, links.rows.tolist(), links.sure.tolist()
    (Links(2 pairs, 2 sure), [[0, 0, 0], [1, 0, 2]], [True, True])
    """

    pairs: int
    rows: npt.NDArray[np.int32]
    sure: npt.NDArray[np.bool_] = None  # type: ignore[assignment]
    annotated: npt.NDArray[np.bool_] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        rows = np.asarray(self.rows)
        rows = rows.reshape(0, 3).astype(np.int64) if rows.size == 0 else rows
        if rows.dtype.kind not in "iu" or rows.ndim != 2 or rows.shape[1] != 3:
            raise InputError(f"links: expected integers of shape (links, 3), found {rows.dtype} of shape {rows.shape}")
        sure = np.ones(len(rows), np.bool_) if self.sure is None else np.asarray(self.sure, np.bool_)
        check_length(sure, len(rows), "sure")
        if len(rows) and (rows.min() < 0 or rows[:, 0].max() >= self.pairs or rows.max() >= 2**31):
            raise InputError(
                f"links: expected pairs from 0 to {self.pairs - 1} and places from 0, found pairs {rows[:, 0].min()} "
                f"to {rows[:, 0].max()} and places {rows[:, 1:].min()} to {rows[:, 1:].max()}"
            )
        known = np.ones(self.pairs, np.bool_) if self.annotated is None else np.asarray(self.annotated, np.bool_)
        check_length(known, self.pairs, "annotated")
        if len(stray := rows[~known[rows[:, 0]], 0]):
            raise InputError(f"links: a link of pair {stray[0]}, which is said not to be annotated")
        order = np.lexsort((~sure, rows[:, 2], rows[:, 1], rows[:, 0]))
        rows, sure = rows[order], sure[order]
        first = np.ones(len(rows), np.bool_)
        first[1:] = (rows[1:] != rows[:-1]).any(1)
        object.__setattr__(self, "rows", np.ascontiguousarray(rows[first], np.int32))
        object.__setattr__(self, "sure", sure[first])
        object.__setattr__(self, "annotated", known)

    def __len__(self) -> int:
        return self.pairs

    @property
    def offsets(self) -> OffsetArray:
        """The links of pair ``i`` are ``rows[offsets[i]:offsets[i + 1]]``, shape ``(pairs + 1,)``."""
        return np.searchsorted(self.rows[:, 0], np.arange(self.pairs + 1))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Links):
            return NotImplemented
        same = self.pairs == other.pairs and np.array_equal(self.rows, other.rows)
        return same and np.array_equal(self.sure, other.sure)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        possible = int((~self.sure).sum())
        more = f", {possible:,} possible" if possible else ""
        some = "" if self.annotated.all() else f"{int(self.annotated.sum()):,} of them annotated, "
        return f"Links({self.pairs:,} pairs, {some}{len(self.rows) - possible:,} sure{more})"

    def select(self, indices: npt.ArrayLike) -> Links:
        """The links of the pairs at ``indices`` (integers in any order, or one truth value a pair)."""
        chosen = np.arange(self.pairs)[np.asarray(indices)]
        where, offsets = gather(self.offsets, chosen)
        rows = self.rows[where].copy()
        rows[:, 0] = np.repeat(np.arange(len(chosen)), np.diff(offsets))
        return Links(len(chosen), rows, self.sure[where], self.annotated[chosen])

    def check(self, lengths: Lengths) -> None:
        """Raise unless these are links of such pairs of sentences."""
        check_length(lengths.source_lengths, self.pairs, "pairs of sentences of these links")
        for name, column, most in (("source", 1, lengths.source_lengths), ("target", 2, lengths.target_lengths)):
            bad = np.flatnonzero(self.rows[:, column] >= most[self.rows[:, 0]])
            if bad.size:
                pair, place = int(self.rows[bad[0], 0]), int(self.rows[bad[0], column])
                raise InputError(
                    f"a link to {name} word {place} of pair {pair}, which has {most[pair]} words; places count from 0"
                )


def read_links(
    path: str | os.PathLike[str],
    bitext: Lengths,
    format: Literal["auto", "wa", "pharaoh"] = "auto",
    limits: Limits = LIMITS,
) -> Links:
    """Links of the pairs of a bitext, in one of two formats.

    ``wa`` (NAACL 2003): ``sentence source target S`` a line, a link each, all counted from 1; ``S`` for a sure
    and ``P`` for a possible link, sure if nothing is said; perhaps a number after it, how confident someone was. Pairs
    that it does not name are not annotated.

    ``pharaoh``: a line for each pair, of links like ``0-0 1-2``, counted from 0; ``1?2`` is a possible link. A
    probability after it, ``0-0:0.97``, is left out. All pairs are annotated; an empty line is a pair without links.

    :param path: a file (plain, gzip, bzip2 or xz), or ``-`` for standard input.
    :param bitext: the sentences; links to words that they do not have are an error.
    :param format: ``auto`` takes ``pharaoh`` where the first piece of the text is a link such as ``0-0``.
    :param limits: sizes beyond which a file is refused.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from pyro_unsup.data import read_links, toy
    >>> pairs = toy.bitext(1, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "links")
    ...     size = file.write_text("0-0 1?2")
    ...     links = read_links(file, pairs)
    >>> links.rows.tolist(), links.sure.tolist()
    ([[0, 0, 0], [0, 1, 2]], [True, False])
    """
    if format not in ("auto", "wa", "pharaoh"):
        raise InputError(f"no format {format!r}, expected auto, wa or pharaoh")
    lines = open_text(path, limits)
    head = []
    if format == "auto":
        for number, line in lines:
            head.append((number, line))
            if line.split():
                break
        pieces = head[-1][1].split() if head else []
        format = "wa" if pieces and not _LINK.fullmatch(pieces[0]) else "pharaoh"
    read = _read_wa if format == "wa" else _read_pharaoh
    return read(path, chain(head, lines), bitext)


def _read_wa(path: str | os.PathLike[str], lines: Iterable[tuple[int, str]], bitext: Lengths) -> Links:
    rows, sure = array("q"), bytearray()
    source, target = bitext.source_lengths, bitext.target_lengths
    for number, line in lines:
        pieces = line.split()
        if not pieces:
            continue
        flag = pieces[3] if len(pieces) > 3 else "S"
        if len(pieces) < 3 or len(pieces) > 5 or (flag not in ("S", "P") and (len(pieces) == 5 or not _number(flag))):
            raise InputError(
                f"expected sentence, source word, target word and S or P, found {show(line)}", path, number
            )
        if not all(piece.isascii() and piece.isdecimal() and len(piece) < 10 for piece in pieces[:3]):
            raise InputError(f"expected three whole numbers and S or P, found {show(line)}", path, number)
        sentence, i, j = (int(piece) - 1 for piece in pieces[:3])
        if not 0 <= sentence < len(source):
            raise InputError(f"sentence {sentence + 1}, expected 1 to {len(source)}, as in the bitext", path, number)
        for name, place, most in (("source", i, source[sentence]), ("target", j, target[sentence])):
            if not 0 <= place < most:
                where = f"sentence {sentence + 1} has {most} words, counted from 1"
                raise InputError(f"{name} word {place + 1} is out of range: {where}", path, number)
        rows.extend((sentence, i, j))
        sure.append(flag != "P")
    found = np.array(rows, np.int64).reshape(-1, 3)
    annotated = np.zeros(len(source), np.bool_)
    annotated[found[:, 0]] = True
    return Links(len(source), found, np.frombuffer(sure, np.bool_), annotated)  # type: ignore[arg-type]


def _read_pharaoh(path: str | os.PathLike[str], lines: Iterable[tuple[int, str]], bitext: Lengths) -> Links:
    rows, sure = array("q"), bytearray()
    source, target = bitext.source_lengths, bitext.target_lengths
    number = 0
    for number, line in lines:
        if number > len(source):
            raise InputError(f"expected a line for each of {len(source)} pairs, found more", path, number)
        for piece in line.split():
            match = _LINK.fullmatch(piece)
            if match is None:
                raise InputError(f"expected links like 0-0 or 0?1, found {show(piece)}", path, number)
            i, j = int(match[1]), int(match[3])
            for name, place, most in (("source", i, source[number - 1]), ("target", j, target[number - 1])):
                if place >= most:
                    where = f"this pair has {most}, counted from 0"
                    raise InputError(f"{name} word {place} in {show(piece)} is out of range: {where}", path, number)
            rows.extend((number - 1, i, j))
            sure.append(match[2] == "-")
    if number < len(source):
        raise InputError(f"expected a line for each of {len(source)} pairs, found {number}", path, number + 1)
    found = np.array(rows, np.int64).reshape(-1, 3)
    return Links(len(source), found, np.frombuffer(sure, np.bool_))  # type: ignore[arg-type]


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def write_links(
    links: Links,
    out: str | os.PathLike[str] | TextIO,
    format: Format = "pharaoh",
    probabilities: npt.ArrayLike | None = None,
) -> None:
    """Write links as :func:`read_links` reads them. A file appears under its name only when it is complete.

    :param links: of all pairs.
    :param out: a path, ``-`` for standard output, or an open text stream.
    :param format: see :func:`read_links`.
    :param probabilities: of each link, shape ``(links,)``, to be written beside it.

    >>> import sys
    >>> from pyro_unsup.data import Links, write_links
    >>> links = Links(1, [[0, 0, 0], [0, 1, 2]], [True, False])
    >>> write_links(links, sys.stdout)
    0-0 1?2
    >>> write_links(links, sys.stdout, probabilities=[0.97, 0.5])
    0-0:0.9700 1?2:0.5000
    >>> write_links(links, sys.stdout, format="wa")
    1 1 1 S
    1 2 3 P
    """
    if format not in ("wa", "pharaoh"):
        raise InputError(f"no format {format!r}, expected wa or pharaoh")
    extra = None if probabilities is None else np.asarray(probabilities, np.float64)
    if extra is not None:
        check_length(extra, len(links.rows), "probabilities")
        if not bool(((extra >= 0) & (extra <= 1)).all()):
            raise InputError(f"probabilities lie between 0 and 1, found {extra.min():g} to {extra.max():g}")
    with write_text(out) as stream:
        stream.writelines(_wa(links, extra) if format == "wa" else _pharaoh(links, extra))


def _shown(extra: npt.NDArray[np.float64] | None, links: Links, before: str) -> list[str]:
    """What is written after each link."""
    return [""] * len(links.rows) if extra is None else [f"{before}{x:.4f}" for x in extra.tolist()]


def _wa(links: Links, extra: npt.NDArray[np.float64] | None) -> Iterator[str]:
    after = _shown(extra, links, " ")
    for (pair, i, j), sure, more in zip((links.rows + 1).tolist(), links.sure.tolist(), after, strict=True):
        yield f"{pair} {i} {j} {'S' if sure else 'P'}{more}\n"


def _pharaoh(links: Links, extra: npt.NDArray[np.float64] | None) -> Iterator[str]:
    rows: Any = links.rows[:, 1:].tolist()
    marks, after = np.where(links.sure, "-", "?").tolist(), _shown(extra, links, ":")
    pieces = [f"{i}{mark}{j}{more}" for (i, j), mark, more in zip(rows, marks, after, strict=True)]
    offsets = links.offsets.tolist()
    for k in range(links.pairs):
        yield " ".join(pieces[offsets[k] : offsets[k + 1]]) + "\n"

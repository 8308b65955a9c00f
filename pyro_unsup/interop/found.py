"""What a fit finds in a text, sentence by sentence: the tags, heads and constituents that other libraries can hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, UnsupError

if TYPE_CHECKING:
    from ..data import Corpus
    from ..results import Fit


@dataclass(frozen=True)
class Sentence:
    """One sentence, with what is known of it.

    :param heads: from 1, 0 for the root.
    :param spans: constituents ``[start, end)`` of two words or more.
    :param probabilities: of the tag or head of each word.
    """

    words: list[str]
    tags: list[str] | None = None
    heads: list[int] | None = None
    spans: list[tuple[int, int]] | None = None
    labels: list[str] | None = None
    probabilities: list[float] | None = None


def sentences(data: Corpus, fit: Fit | None = None, text: Corpus | None = None) -> Iterator[Sentence]:
    """The sentences with their own tags, heads and constituents; with a fit, with what it finds instead.

    A fit that finds heads or constituents leaves the tags as they are.

    :param text: the same sentences with the words and tags to show, for a model that reads tags instead of words.
    """
    shown = data if text is None else text
    if not np.array_equal(shown.offsets, data.offsets):
        raise InputError(
            f"text has {len(shown)} sentences of {shown.tokens} words, data {len(data)} of {data.tokens}; "
            "expected the same sentences"
        )
    if fit is None:
        return (_own(shown, number) for number in range(len(shown)))
    nothing = {"heads": None, "spans": None}  # what the text itself knows is not what the fit finds
    return (replace(_own(shown, i), **(nothing | one)) for i, one in enumerate(_found(data, fit)))


def _own(data: Corpus, number: int) -> Sentence:
    piece = slice(int(data.offsets[number]), int(data.offsets[number + 1]))
    tags = None if data.tags is None else data.sentence_tags(number)
    heads = None if data.heads is None else data.heads[piece].tolist()
    spans = None
    if data.spans is not None and data.span_offsets is not None:
        rows = data.spans[data.span_offsets[number] : data.span_offsets[number + 1]]
        spans = [(int(start), int(end)) for start, end in rows]
    return Sentence(data.sentence(number), tags, heads, spans)


def _found(data: Corpus, fit: Fit) -> Iterator[dict[str, Any]]:
    """For each sentence, what the table of the fit says of it."""
    frame = fit.to_frame(data)
    if "sentence" not in frame.columns or not {"tag", "head", "first"} & set(frame.columns):
        kind = type(fit.unhandled().model).__name__
        raise UnsupError(f"expected a model that finds tags, heads or constituents, actual {kind}; see Fit.to_frame")
    ends = np.searchsorted(frame["sentence"].to_numpy(), np.arange(len(data) + 1))
    columns: dict[str, list[Any]] = {str(name): frame[name].tolist() for name in frame.columns}
    if "first" in columns:
        for start, end in pairwise(ends):
            names = columns["label"][start:end] if "label" in columns else [""] * int(end - start)
            rows = zip(columns["first"][start:end], columns["last"][start:end], names, strict=True)
            found = sorted((first - 1, last, name) for first, last, name in rows)
            labels = [name for *_, name in found] if "label" in columns else None
            yield {"spans": [(first, last) for first, last, _ in found], "labels": labels}
        return
    name = "head" if "head" in columns else "tag"
    for start, end in pairwise(ends):
        values = columns[name][start:end]
        yield {
            "heads" if name == "head" else "tags": values if name == "head" else [str(one) for one in values],
            "probabilities": columns["probability"][start:end],
        }

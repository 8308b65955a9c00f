"""What grammar induction sees of a text: sequences of tags without punctuation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ..common import setting

if TYPE_CHECKING:
    from ...data import Corpus
    from ...results import Fit


def punctuation() -> list[str]:
    """Tags that are left out, if nobody says which: those of the Penn Treebank and of Universal Dependencies."""
    from ...data.brackets import PUNCTUATION

    return [*PUNCTUATION, "PUNCT"]


def dropped_by(fit: Fit) -> list[str]:
    """The tags that a model was trained without."""
    return [str(tag) for tag in setting(fit, "dropped", list, punctuation())]


def short(text: Corpus, max_length: int, dropped: list[str], file: str) -> Corpus:
    """Sequences of tags, short ones without punctuation; of a text without tags, its words are the tags."""
    from ...data import short_tag_sequences

    if text.tags is None:
        text = replace(text, tags=text.words, tagset=text.vocab)
    found = short_tag_sequences(text, max_length, dropped)
    if len(found) == 0:
        raise InputError(f"no sentence of at most {max_length} tags in it; raise --max-length", file)
    return found


def without(text: Corpus, dropped: list[str]) -> Corpus:
    """The text without punctuation, but with all its sentences."""
    keep = kept(text, dropped)
    tags = None if text.tags is None else text.tags[keep]
    offsets = np.concatenate(([0], np.cumsum(keep)))[text.offsets]
    return replace(text, words=text.words[keep], offsets=offsets, tags=tags, heads=None, spans=None, span_offsets=None)


def kept(text: Corpus, dropped: list[str]) -> npt.NDArray[np.bool_]:
    """Where a text, shape ``(tokens,)``, has none of these tags; of one without tags, its words are the tags."""
    ids, names = (text.words, text.vocab) if text.tags is None or text.tagset is None else (text.tags, text.tagset)
    return ~np.isin(ids, [names.index[name] for name in dropped if name in names])

"""From the options of ``pyro-unsup fit tagger`` to a model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..errors import InputError, UnsupError
from .common import Column, Format, printable, read_gold, say

if TYPE_CHECKING:
    from ..data import Corpus, TagDictionary
    from ..models import Tagger

DEFAULT_TAGS = 45
#: Copies of a table that an iteration needs at once: old and new weights, counts, and their scaled forms.
COPIES = 6


def read_dictionary(path: str, lowercase: bool) -> TagDictionary:
    """A dictionary file: JSON by its name, else lines."""
    from ..data import TagDictionary

    found = TagDictionary.load(path) if path.endswith(".json") else TagDictionary.read(path)
    if not lowercase:
        return found
    import numpy as np

    from ..data import Vocab

    folded = Vocab(dict.fromkeys(word.lower() for word in found.words))
    table = np.zeros((len(found.tagset), len(folded)), dtype=np.bool_)
    np.logical_or.at(table.T, folded.encode(word.lower() for word in found.words), found.table.T)
    return TagDictionary(found.tagset, folded, table)


def dictionary_of(path: str, format: Format, column: Column, lowercase: bool, min_count: int) -> TagDictionary:
    """The dictionary that a tagged text implies."""
    from ..data import TagDictionary

    gold = read_gold(path, format, column, "--dictionary-format", lowercase=lowercase)
    return TagDictionary.from_corpus(gold, min_count)


def with_listed(text: Corpus, known: TagDictionary, min_count: int) -> Corpus:
    """The text by a vocabulary that has every word which the dictionary lists, seen or not, rare or not.

    So these words keep their tags in new text. Other words seen fewer than ``min_count`` times become one.
    """
    import numpy as np

    from ..data import Vocab
    from ..data.lines import UNKNOWN

    unknown = UNKNOWN if min_count > 1 else None
    counts = np.bincount(text.words, minlength=len(text.vocab)).tolist()
    kept = [word for word, count in zip(text.vocab, counts, strict=True) if count >= min_count]
    words = dict.fromkeys([*kept, *known.words, *([] if unknown is None else [unknown])])
    return text.with_vocab(Vocab(words, unknown=unknown))


def build(
    text: Corpus, tags: int | None, order: int, stop: bool, known: TagDictionary | None, path: str | None
) -> Tagger:
    """The model, if it makes sense and fits into memory.

    :param text: with a dictionary, by a vocabulary that has its words too (:func:`with_listed`).
    :param known: the dictionary, if there is one; the tags then are those of it that some word may have.
    :param path: where it came from.
    """
    from ..data import Vocab
    from ..models import Tagger

    if known is None:
        tags = DEFAULT_TAGS if tags is None else tags
        check_size(tags, len(text.vocab), order)
        return Tagger(tags, text.vocab, order, stop=stop)
    if tags is not None and tags != len(known.tagset):
        raise InputError(f"has {len(known.tagset)} tags, which --tags {tags} contradicts; leave --tags out", path)
    mask = known.mask(text.vocab)  # (tags, words)
    used = [k for k, row in enumerate(mask) if row.any()]
    check_size(len(used), len(text.vocab), order)
    names = Vocab(known.tagset.decode(used))
    if len(names) < len(known.tagset):
        idle = ", ".join(printable(tag) for tag in known.tagset if tag not in names)
        say(f"left out, since no word may have them: {idle}")
    return Tagger(names, text.vocab, order, mask[used], stop)


def check_size(tags: int, words: int, order: int) -> None:
    """Refuse tables that cannot fit into memory, before anything is allocated."""
    needed = COPIES * 8 * (tags ** (order + 1) + tags * words)
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return
    if needed > there:
        raise UnsupError(f"{tags:,} tags of order {order} over {words:,} words need about {needed / 2**30:,.0f} GiB, "
                         f"of {there / 2**30:,.0f}; take fewer tags, --order 1 or a higher --min-count")  # fmt: skip

"""Tag dictionaries: which tags a word may have, and the model that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import pyro_unsup as pu

from ..errors import InputError, UnsupError
from .option import Given, real, text
from .shown import printable
from .texts import check_memory, column_option, format_option, read_gold, say

if TYPE_CHECKING:
    from ..data import Corpus, TagDictionary, Vocab
    from ..models import Tagger

DEFAULT_TAGS = 45
#: A dictionary that lists a smaller share of the words of a text is likely to be of another language.
FEW = 0.1
OPTIONS = (
    text(
        "dictionary",
        "FILE",
        "Which tags a word may have: `word TAG TAG ...` a line, or .json. Words not in it may have any tag.",
        identity=False,
    ),
    text("dictionary_from", "FILE", "A tagged text to take the dictionary from instead.", identity=False),
    format_option("dictionary_format", "that tagged text"),
    real(
        "dictionary_min_count",
        "Words seen fewer times in the text may have any tag; inf: all words.",
        1.0,
        1,
        shown="1",
        identity=False,
    ),
    column_option("With CoNLL-U, the column of the tags of that tagged text."),
)


def check(given: Given) -> None:
    """Refuse two dictionaries."""
    if given.dictionary is not None and given.dictionary_from is not None:
        raise UnsupError("--dictionary and --dictionary-from are two ways to say the same; give one of them")


def path_of(given: Given) -> str | None:
    """The file that the dictionary comes from, if there is one."""
    found: str | None = given.dictionary or given.dictionary_from
    return found


def dictionary_of(given: Given, corpus: Corpus | None) -> TagDictionary | None:
    """The dictionary, if there is one.

    :param corpus: the text to learn from, where words are counted; without it, the tagged text itself.
    """
    if given.dictionary is not None:
        return _read(given.dictionary, given.lowercase)
    if given.dictionary_from is None:
        return None
    options: dict[str, Any] = {"option": "--dictionary-format", "lowercase": given.lowercase}
    gold = read_gold(given.dictionary_from, given.dictionary_format, given.column, **options)
    return pu.data.TagDictionary.from_corpus(gold, given.dictionary_min_count, corpus)


def _read(path: str, lowercase: bool) -> TagDictionary:
    """A dictionary file: JSON by its name, else lines."""
    kind = pu.data.TagDictionary
    found = kind.load(path) if path.endswith(".json") else kind.read(path)
    if not lowercase:
        return found
    tags: dict[str, list[str]] = {}
    for word in found.words:
        tags.setdefault(word.lower(), []).extend(found[word])
    return kind.from_mapping({word: list(dict.fromkeys(mine)) for word, mine in tags.items()}, found.tagset)


def with_listed(corpus: Corpus, known: TagDictionary, min_count: int) -> Corpus:
    """The text by a vocabulary that has every word which the dictionary lists, seen or not, rare or not.

    So these words keep their tags in new text. Other words seen fewer than ``min_count`` times become one.
    """
    counts = _counts(corpus)
    unknown = pu.data.lines.UNKNOWN if min_count > 1 else corpus.vocab.unknown
    kept = [word for word, count in counts.items() if count >= min_count]
    words = dict.fromkeys([*kept, *known.words, *([] if unknown is None else [unknown])])
    return corpus.with_vocab(pu.data.Vocab(words, unknown=unknown))


def coverage(corpus: Corpus, known: TagDictionary) -> str:
    """How much of a text a dictionary lists, for people. Few words are a warning."""
    counts, listed = _counts(corpus), set(known.words)
    types = sum(word in listed for word in counts)
    tokens = sum(count for word, count in counts.items() if word in listed)
    said = f"the dictionary lists {types:,} of {len(counts):,} words ({100 * tokens / corpus.tokens:.0f} % of the text)"
    if types < FEW * len(counts):
        say(f"warning: {said}; all other words may have any tag. Is it a dictionary of this language?")
    return said


def _counts(corpus: Corpus) -> dict[str, int]:
    """How often each word occurs."""
    return dict(zip(corpus.vocab, np.bincount(corpus.words, minlength=len(corpus.vocab)).tolist(), strict=True))


def model_of(vocab: Vocab, given: Given, known: TagDictionary | None) -> Tagger:
    """The model, if it makes sense and fits into memory.

    :param vocab: with a dictionary, one that has its words too (:func:`with_listed`).
    :param known: the dictionary, if there is one; the tags then are those of it that some word may have.
    """
    tags, order = given.tags, given.order
    if known is None:
        tags = DEFAULT_TAGS if tags is None else tags
        _check_size(tags, len(vocab), order)
        return pu.models.Tagger(tags, vocab, order, stop=given.stop)
    if tags is not None and tags != len(known.tagset):
        what = f"has {len(known.tagset)} tags, which --tags {tags} contradicts; leave --tags out"
        raise InputError(what, path_of(given))
    mask = known.mask(vocab)  # (tags, words)
    used = [k for k, row in enumerate(mask) if row.any()]
    _check_size(len(used), len(vocab), order)
    names = pu.data.Vocab(known.tagset.decode(used))
    if len(names) < len(known.tagset):
        idle = ", ".join(printable(tag) for tag in known.tagset if tag not in names)
        say(f"left out, since no word may have them: {idle}")
    return pu.models.Tagger(names, vocab, order, mask[used], given.stop)


def _check_size(tags: int, words: int, order: int) -> None:
    what = f"{tags:,} tags of order {order} over {words:,} words"
    check_memory(tags ** (order + 1) + tags * words, what, "take fewer tags, --order 1 or a higher --min-count")

"""Data that are in Python already: lists of words, a table of tokens, a matrix of counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from pyro_unsup.data.bitext import Bitext, BitextOptions
from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.documents import Documents
from pyro_unsup.data.lines import CorpusBuilder
from pyro_unsup.data.options import Options
from pyro_unsup.data.vocab import Vocab
from pyro_unsup.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

#: A sentence: words between white space, or a list of words.
Sentence = str | Iterable[str]


def corpus_of(
    sentences: Iterable[Sentence], tags: Iterable[Sentence] | None = None, **options: Unpack[Options]
) -> Corpus:
    """See :meth:`.Corpus.of`."""
    builder, number = CorpusBuilder("sentences", **options), 0
    others = None if tags is None else iter(tags)
    for number, sentence in enumerate(_many(sentences, "sentences"), 1):
        words = words_of(sentence, f"sentence {number}")
        if not words:
            raise InputError(f"sentence {number} has no words; leave it out")
        if others is None:
            builder.add(words, number)
            continue
        found = next(others, None)
        if found is None:
            raise InputError(f"{number - 1} sentences have tags, but sentence {number} has none; tag all or none")
        own = words_of(found, f"the tags of sentence {number}")
        if len(own) != len(words):
            raise InputError(f"sentence {number} has {len(words)} words and {len(own)} tags, expected one tag a word")
        builder.add(words, number, own)
    if others is not None and next(others, None) is not None:
        raise InputError(f"there are tags for more than the {number} sentences, expected one list a sentence")
    return builder.finish()


def corpus_of_frame(
    frame: pd.DataFrame, sentence: str, word: str, tag: str | None = None, **options: Unpack[Options]
) -> Corpus:
    """See :meth:`.Corpus.of_frame`."""
    for name in (sentence, word, *([] if tag is None else [tag])):
        if name not in frame.columns:
            raise InputError(f"the table has no column {name!r}: it has {', '.join(map(str, frame.columns))!s:.200}")
        missing = frame[name].isna().to_numpy()
        if missing.any():
            raise InputError(f"column {name!r} has no value in row {int(missing.argmax())}; fill it or drop the row")
    keys = frame[sentence].to_numpy()
    ends = np.flatnonzero(np.append(keys[1:] != keys[:-1], True)) + 1 if len(keys) else np.zeros(0, np.int64)
    firsts = keys[ends - 1]
    values, counts = np.unique(firsts, return_counts=True)
    if (counts > 1).any():
        raise InputError(
            f"the rows of sentence {values[counts > 1][0]} do not lie together; sort the table by {sentence!r} first"
        )
    words, tags = frame[word].tolist(), None if tag is None else frame[tag].tolist()
    starts = [0, *ends[:-1].tolist()]
    return corpus_of(
        (words[a:b] for a, b in zip(starts, ends.tolist(), strict=True)),
        None if tags is None else (tags[a:b] for a, b in zip(starts, ends.tolist(), strict=True)),
        **options,
    )


def documents_of(
    texts: Iterable[Sentence], labels: Sequence[str] | None = None, **options: Unpack[Options]
) -> Documents:
    """See :meth:`.Documents.of`."""
    builder, number = CorpusBuilder("documents", **options), 0
    for number, text in enumerate(_many(texts, "documents"), 1):
        words = words_of(text, f"document {number}")
        if not words:
            raise InputError(f"document {number} has no words; leave it out")
        builder.add(words, number)
    text = builder.finish()
    numbers, labelset = _labelled(labels, number)
    return Documents.count(text.words, text.offsets, text.vocab, numbers, labelset)


def documents_of_matrix(matrix: Any, vocabulary: Iterable[str], labels: Sequence[str] | None = None) -> Documents:
    """See :meth:`.Documents.of_matrix`."""
    from scipy.sparse import csr_array

    found = csr_array(matrix)
    vocab = vocabulary if isinstance(vocabulary, Vocab) else Vocab(vocabulary)
    if found.ndim != 2 or found.shape[1] != len(vocab):
        raise InputError(f"expected a matrix of shape (documents, {len(vocab)} words), actual shape {found.shape}")
    found.sum_duplicates()
    found.eliminate_zeros()
    counts = found.data
    if len(counts) and (counts.min() < 0 or (counts != np.rint(counts)).any()):
        raise InputError("a matrix of documents holds whole numbers, 0 or more: how often each word occurs")
    numbers, labelset = _labelled(labels, found.shape[0])
    return Documents(
        found.indices.astype("i4"), counts.astype("i4"), found.indptr.astype("i8"), vocab, numbers, labelset
    )


def bitext_of(pairs: Iterable[tuple[Sentence, Sentence]], **options: Unpack[BitextOptions]) -> Bitext:
    """See :meth:`.Bitext.of`."""
    source, target = options.pop("source_vocab", None), options.pop("target_vocab", None)
    one, other = (
        CorpusBuilder(f"{side} sentences", vocab=vocab, **options)  # type: ignore[misc]
        for side, vocab in (("source", source), ("target", target))
    )
    for number, pair in enumerate(_many(pairs, "pairs"), 1):
        sides = [] if isinstance(pair, str) else list(pair)
        if len(sides) != 2:
            raise InputError(f"pair {number} should be a sentence and its translation, actual {pair!r:.80}")
        for side, sentence, builder in zip(("source", "target"), sides, (one, other), strict=True):
            words = words_of(sentence, f"the {side} side of pair {number}")
            if not words:
                raise InputError(f"the {side} side of pair {number} has no words; drop the pair")
            builder.add(words, number)
    return Bitext(one.finish(), other.finish())


def words_of(sentence: Any, what: str) -> list[str]:
    """The words of a sentence: those between white space of a string, or those of a list.

    :param what: it is, for errors.
    """
    if isinstance(sentence, str):
        return sentence.split()
    try:
        words = list(sentence)
    except TypeError:
        raise InputError(f"{what} should be a string or a list of strings, actual {sentence!r:.80}") from None
    for word in words:
        if not isinstance(word, str):
            raise InputError(f"{what} should hold strings, found {word!r:.80} ({type(word).__name__})")
        if not word or word.isspace():
            raise InputError(f"{what} holds an empty string; leave it out")
    return words


def _many(examples: Any, what: str) -> Iterable[Any]:
    if isinstance(examples, str):
        raise InputError(f"expected many {what}, actual one string: give a list of strings")
    return examples  # type: ignore[no-any-return]


def _labelled(labels: Sequence[str] | None, documents: int) -> tuple[Any, Vocab | None]:
    if labels is None:
        return None, None
    names = [str(label) for label in labels]
    if len(names) != documents:
        raise InputError(f"{documents} documents have {len(names)} labels, expected one each")
    labelset = Vocab(dict.fromkeys(names))
    return labelset.encode(names), labelset

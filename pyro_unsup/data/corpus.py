"""A corpus as flat arrays: every sentence end to end, and offsets that say where each one starts.

Nothing is padded and no token is a Python object, so a corpus of any size can be mapped from disk, cut and filtered.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from pyro_unsup.data.arrays import (
    IntArray,
    OffsetArray,
    check_length,
    check_offsets,
    check_range,
    gather,
    integers,
    same,
)
from pyro_unsup.data.files import write_arrays
from pyro_unsup.data.folders import in_plain_values, opened
from pyro_unsup.data.mapped import mapping_of, take
from pyro_unsup.data.options import Options
from pyro_unsup.data.trees import find_cycle, keep_heads, keep_spans, kept_before
from pyro_unsup.data.vocab import Vocab, coarsen, compact
from pyro_unsup.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_VOCABS = ("vocab", "tagset", "span_labelset")
_ARRAYS = {
    "words": "i4",
    "offsets": "i8",
    "tags": "i4",
    "heads": "i4",
    "spans": "i4",
    "span_offsets": "i8",
    "span_labels": "i4",
}


@dataclass(frozen=True, eq=False, repr=False)
class Corpus:
    """Sentences with whatever is known of them: tags, dependency heads, brackets.

    The fields are fixed, and the arrays are shared between corpora: never write into them. (They are not flagged
    read-only, because torch warns on such arrays and numba compiles everything a second time for them.)
    Sentences may be empty; the readers never make such ones, and :meth:`filter` drops them.

    :param words: word ids, shape ``(tokens,)``.
    :param offsets: sentence ``i`` is ``words[offsets[i]:offsets[i + 1]]``, shape ``(sentences + 1,)``.
    :param vocab: the strings of the word ids.
    :param tags: tag ids, shape ``(tokens,)``, with their ``tagset``.
    :param heads: shape ``(tokens,)``: 0 is the root, ``k`` the ``k``-th word of the same sentence, -1 not known.
    :param spans: brackets ``[i, j)`` between fenceposts of the sentence, shape ``(brackets, 2)``, one after the other.
        The readers give distinct ones of two words or more, sorted.
    :param span_offsets: where the brackets of each sentence begin, shape ``(sentences + 1,)``.
    :param span_labels: label ids of the brackets, shape ``(brackets,)``, with their ``span_labelset``.

    >>> from pyro_unsup.data import Corpus, Vocab
    >>> corpus = Corpus([0, 1, 0], [0, 2, 3], Vocab(["a", "b"]))
    >>> corpus, corpus.sentence(0)
    (Corpus(2 sentences, 3 tokens, 2 types), ['a', 'b'])
    """

    words: IntArray
    offsets: OffsetArray
    vocab: Vocab
    tags: IntArray | None = None
    tagset: Vocab | None = None
    heads: IntArray | None = None
    spans: IntArray | None = None
    span_offsets: OffsetArray | None = None
    span_labels: IntArray | None = None
    span_labelset: Vocab | None = None

    def __post_init__(self) -> None:
        for name, kind in _ARRAYS.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, integers(value, name, kind, pairs=name == "spans"))
        tokens = len(self.words)
        check_offsets(self.offsets, tokens, "offsets", "words")
        check_range(self.words, 0, len(self.vocab) - 1, "words")
        if (self.tags is None) != (self.tagset is None):
            raise InputError("tags and tagset belong together, found only one of them; give both or neither")
        if self.tags is not None and self.tagset is not None:
            check_length(self.tags, tokens, "tags")
            check_range(self.tags, 0, len(self.tagset) - 1, "tags")
        if self.heads is not None:
            check_length(self.heads, tokens, "heads")
            check_range(self.heads, -1, np.repeat(self.lengths, self.lengths), "heads")
            loop = find_cycle(self.heads, self.offsets)
            if loop is not None:
                sentence = int(np.searchsorted(self.offsets, loop, side="right")) - 1
                raise InputError(f"the heads of sentence {sentence} form a cycle, expected a tree")
        if (self.spans is None) != (self.span_offsets is None):
            raise InputError("spans and span_offsets belong together, found only one of them; give both or neither")
        if self.spans is not None and self.span_offsets is not None:
            check_offsets(self.span_offsets, len(self.spans), "span_offsets", "spans")
            check_length(self.span_offsets, len(self.offsets), "span_offsets")
            check_range(self.spans[:, 0], 0, self.spans[:, 1] - 1, "spans")
            check_range(self.spans[:, 1], 1, np.repeat(self.lengths, np.diff(self.span_offsets)), "spans")
        if (self.span_labels is None) != (self.span_labelset is None):
            raise InputError("span_labels and span_labelset belong together, found only one; give both or neither")
        if self.span_labels is not None and self.span_labelset is not None:
            check_length(self.span_labels, 0 if self.spans is None else len(self.spans), "span_labels")
            check_range(self.span_labels, 0, len(self.span_labelset) - 1, "span_labels")

    @classmethod
    def of(
        cls,
        sentences: Iterable[str | Iterable[str]],
        tags: Iterable[str | Iterable[str]] | None = None,
        **options: Unpack[Options],
    ) -> Corpus:
        """A corpus from Python: lists of words, or strings. The words of a string are what is between white space.

        :param sentences: any iterable, such as a list, a generator, or a column of a table.
        :param tags: the tags of each sentence, in the same form, if they are known.
        :param options: see :class:`~pyro_unsup.data.options.Options`.

        >>> from pyro_unsup.data import Corpus
        >>> Corpus.of(["the dog barks", ["a", "cat"]], tags=["DET NOUN VERB", ["DET", "NOUN"]])
        Corpus(2 sentences, 5 tokens, 5 types, 3 tags)
        """
        from pyro_unsup.data.from_python import corpus_of

        return corpus_of(sentences, tags, **options)

    @classmethod
    def of_frame(
        cls, frame: pd.DataFrame, sentence: str, word: str, tag: str | None = None, **options: Unpack[Options]
    ) -> Corpus:
        """A corpus from a table with one row a word.

        :param frame: rows in the order of the text.
        :param sentence: the column that tells which sentence a word belongs to.
        :param word: the column of the words.
        :param tag: the column of the tags, if there is one.
        :param options: see :class:`~pyro_unsup.data.options.Options`.

        >>> import pandas as pd
        >>> from pyro_unsup.data import Corpus
        >>> frame = pd.DataFrame({"id": [1, 1, 2], "form": ["cats", "sleep", "yes"], "pos": ["N", "V", "I"]})
        >>> Corpus.of_frame(frame, sentence="id", word="form", tag="pos").sentence_tags(0)
        ['N', 'V']
        """
        from pyro_unsup.data.from_python import corpus_of_frame

        return corpus_of_frame(frame, sentence, word, tag, **options)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def tokens(self) -> int:
        """Number of words in all."""
        return len(self.words)

    @property
    def lengths(self) -> OffsetArray:
        """Words in each sentence, shape ``(sentences,)``."""
        return np.diff(self.offsets)

    @property
    def on_disk(self) -> bool:
        """Whether the words are mapped from a file, so that they take no memory until they are looked at."""
        return mapping_of(self.words) is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Corpus):
            return NotImplemented
        return all(same(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = [f"{len(self):,} sentences", f"{self.tokens:,} tokens", f"{len(self.vocab):,} types"]
        parts += [] if self.tagset is None else [f"{len(self.tagset):,} tags"]
        parts += [] if self.heads is None else ["heads"]
        parts += [] if self.spans is None else ["brackets"]
        return f"Corpus({', '.join(parts)})"

    def sentence(self, i: int) -> list[str]:
        """The words of sentence ``i``."""
        return self.vocab.decode(self.words[self._slice(i)])

    def sentence_tags(self, i: int) -> list[str]:
        """The tags of sentence ``i``."""
        tags, tagset = self._tagged()
        return tagset.decode(tags[self._slice(i)])

    def _slice(self, i: int) -> slice:
        if not -len(self) <= i < len(self):
            raise IndexError(f"sentence {i} of {len(self)}")
        i %= len(self)
        return slice(int(self.offsets[i]), int(self.offsets[i + 1]))

    def _tagged(self) -> tuple[IntArray, Vocab]:
        if self.tags is None or self.tagset is None:
            raise InputError("this corpus has no tags; read it from a tagged file")
        return self.tags, self.tagset

    def _with(self, **changes: Any) -> Corpus:
        """A copy with some fields changed. The new values are known to be right, so nothing is checked."""
        made = object.__new__(Corpus)
        for field in fields(self):
            object.__setattr__(made, field.name, changes.get(field.name, getattr(self, field.name)))
        return made

    def select(self, indices: npt.ArrayLike) -> Corpus:
        """The sentences at ``indices`` (integers in any order, or one truth value a sentence).

        A run of sentences is a view of this corpus, unless it lies on disk.

        >>> from pyro_unsup.data import toy
        >>> corpus = toy.sentences(20, seed=1)
        >>> short = corpus.select(corpus.lengths < 6)
        >>> len(corpus.select([3, 1])), short == corpus.filter(max_length=5), short.tokens == int(short.lengths.sum())
        (2, True, True)
        """
        chosen = np.asarray(indices)
        if chosen.dtype == np.bool_:
            check_length(chosen, len(self), "the mask over sentences")
        rows = chosen.astype(np.int64) if chosen.size == 0 else chosen
        if rows.dtype.kind not in "iu" or (rows.size and (rows.min() < 0 or rows.max() >= len(self))):
            rows = np.arange(len(self))[rows]  # truth values, places from the end, or an error of numpy's
        where, offsets = gather(self.offsets, rows)
        changes: dict[str, Any] = {"words": take(self.words, where), "offsets": offsets}
        changes |= {name: take(x, where) for name in ("tags", "heads") if (x := getattr(self, name)) is not None}
        if self.spans is not None and self.span_offsets is not None:
            where, changes["span_offsets"] = gather(self.span_offsets, rows)
            changes["spans"] = take(self.spans, where)
            changes |= {} if self.span_labels is None else {"span_labels": take(self.span_labels, where)}
        return self._with(**changes)

    def filter(self, min_length: int = 1, max_length: int | None = None) -> Corpus:
        """The sentences of ``min_length`` to ``max_length`` words."""
        keep = self.lengths >= min_length
        if max_length is not None:
            keep &= self.lengths <= max_length
        return self.select(keep)

    def split(self, fraction: float, seed: int = 0) -> tuple[Corpus, Corpus]:
        """Two corpora, the first with ``fraction`` of the sentences drawn at random, both in the order of this one.

        >>> from pyro_unsup.data import toy
        >>> [len(part) for part in toy.sentences(20, seed=1).split(0.75, seed=0)]
        [15, 5]
        """
        first = round(fraction * len(self))
        if not 0 < first < len(self):
            raise InputError(
                f"a split of {len(self)} sentences by {fraction} leaves one side empty; change the fraction"
            )
        keep = np.zeros(len(self), dtype=np.bool_)
        keep[np.random.default_rng(seed).permutation(len(self))[:first]] = True
        return self.select(keep), self.select(~keep)

    def keep_tokens(self, mask: npt.NDArray[np.bool_]) -> Corpus:
        """Only the tokens where ``mask``, shape ``(tokens,)``, is true; sentences left empty go too.

        A word whose head goes is handed to its nearest kept ancestor, or to the root where there is none (so a sentence
        that loses its root may get several). Brackets shrink to the kept words; those under two words go.
        """
        mask = np.asarray(mask, dtype=np.bool_)
        check_length(mask, self.tokens, "the mask over tokens")
        changes: dict[str, Any] = {"words": self.words[mask], "offsets": kept_before(mask)[self.offsets]}
        if self.tags is not None:
            changes["tags"] = self.tags[mask]
        if self.heads is not None:
            changes["heads"] = keep_heads(self.heads, self.offsets, mask)
        if self.spans is not None and self.span_offsets is not None:
            changes["spans"], changes["span_offsets"], which = keep_spans(
                self.spans, self.span_offsets, self.offsets, mask
            )
            changes |= {} if self.span_labels is None else {"span_labels": self.span_labels[which]}
        return self._with(**changes).filter(min_length=1)

    def drop_tags(self, *names: str) -> Corpus:
        """Without the tokens that have one of these tags (punctuation, say); see :meth:`keep_tokens`.

        >>> from pyro_unsup.data import toy
        >>> corpus = toy.sentences(20, seed=1)
        >>> fewer = corpus.drop_tags("PUNCT")
        >>> fewer == corpus.keep_tokens(corpus.tags != corpus.tagset.id("PUNCT"))
        True
        """
        tags, tagset = self._tagged()
        return self.keep_tokens(np.isin(tags, [tagset.index[name] for name in names if name in tagset], invert=True))

    def with_vocab(self, vocab: Vocab) -> Corpus:
        """The same words by the ids of another vocabulary (that of a trained model, say).

        >>> from pyro_unsup.data import Corpus, Vocab
        >>> corpus = Corpus([0, 1, 0], [0, 2, 3], Vocab(["a", "b"]))
        >>> corpus.with_vocab(Vocab(["b", "<unk>"], unknown="<unk>")).words
        array([1, 0, 1], dtype=int32)
        """
        lookup = np.zeros(len(self.vocab), dtype=np.int32)
        used = np.unique(self.words)
        lookup[used] = vocab.encode(self.vocab.decode(used))
        return self._with(words=lookup[self.words], vocab=vocab)

    def with_tags(self, mapping: Mapping[str, str]) -> Corpus:
        """Tags mapped through a dict. The new tagset is every value of ``mapping`` in order, for every corpus alike.

        >>> from pyro_unsup.data import Corpus, Vocab
        >>> corpus = Corpus([0, 1], [0, 2], Vocab(["cats", "sleep"]), [0, 1], Vocab(["NNS", "VBP"]))
        >>> corpus.with_tags({"NNS": "N", "VBP": "V"}).sentence_tags(0)
        ['N', 'V']
        >>> corpus.tags_as_words().sentence(0)
        ['NNS', 'VBP']
        """
        tags, tagset = self._tagged()
        coarse, ids = coarsen(tagset, mapping)
        return self._with(tags=ids[tags], tagset=coarse)

    def tags_as_words(self) -> Corpus:
        """The tags in the place of the words, as grammar induction wants them."""
        tags, tagset = self._tagged()
        return self._with(words=tags, vocab=tagset)

    def merge_rare(self, min_count: int, unknown: str = "<unk>") -> Corpus:
        """Words seen fewer than ``min_count`` times become ``unknown``, which is added at the end of the vocabulary.

        >>> from pyro_unsup.data import Corpus, Vocab
        >>> corpus = Corpus([0, 1, 0, 2], [0, 4], Vocab(["a", "b", "c", "never"]))
        >>> corpus.merge_rare(2).sentence(0), corpus.compact().vocab.types
        (['a', '<unk>', 'a', '<unk>'], ('a', 'b', 'c'))
        """
        counts = np.bincount(self.words, minlength=len(self.vocab))
        kept = [one for one, count in zip(self.vocab, counts, strict=True) if count >= min_count or one == unknown]
        return self.with_vocab(Vocab(dict.fromkeys([*kept, unknown]), unknown=unknown))

    def compact(self) -> Corpus:
        """Vocabulary and tagset cut down to what occurs (the unknown symbol stays)."""
        words, vocab = compact(self.words, self.vocab)
        if self.tags is None or self.tagset is None:
            return self._with(words=words, vocab=vocab)
        tags, tagset = compact(self.tags, self.tagset)
        return self._with(words=words, vocab=vocab, tags=tags, tagset=tagset)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder of ``.npy`` arrays and one JSON file, all or nothing. An older corpus there is replaced.

        >>> import tempfile
        >>> from pyro_unsup.data import Corpus, toy
        >>> corpus = toy.sentences(20, seed=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     corpus.save(folder + "/corpus")
        ...     again = Corpus.open(folder + "/corpus", mmap=False)
        >>> again == corpus, again.on_disk
        (True, False)
        """
        write_arrays(folder, "corpus", *described(self))

    @classmethod
    def open(cls, folder: str | os.PathLike[str], mmap: bool = True) -> Corpus:
        """Read what :meth:`save` wrote. With ``mmap`` the arrays stay on disk until they are touched."""
        return opened(cls, folder, "corpus", _VOCABS, _ARRAYS, mmap)


def described(corpus: Corpus) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """What a corpus is on disk: the vocabularies in plain values, and the arrays."""
    return in_plain_values(corpus, _VOCABS, _ARRAYS)

"""Sentences and their translations."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from pyro_unsup.data.arrays import OffsetArray
from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.lines import CorpusBuilder, show
from pyro_unsup.data.links import Links, read_links
from pyro_unsup.data.opening import LIMITS, Limits, open_text
from pyro_unsup.data.vocab import Vocab
from pyro_unsup.errors import InputError

SEPARATOR = "|||"


@dataclass(frozen=True, eq=False, repr=False)
class Bitext:
    """Pairs of sentences, each side with a vocabulary of its own, and perhaps gold links between their words.

    :param source: the sentences.
    :param target: their translations, in the same order.
    :param links: a :class:`~pyro_unsup.data.links.Links`, or rows for one, shape ``(links, 3)``, all sure.

    >>> from pyro_unsup.data import Bitext, Corpus, Vocab
    >>> house = Corpus([0, 1], [0, 2], Vocab(["the", "house"]))
    >>> Bitext(house, Corpus([0, 1], [0, 2], Vocab(["das", "haus"])), [[0, 0, 0], [0, 1, 1]])
    Bitext(1 pairs, 2 and 2 tokens, 2 and 2 types, 2 sure links)
    """

    source: Corpus
    target: Corpus
    links: Links | None = None

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise InputError(
                f"{len(self.source)} source sentences but {len(self.target)} target sentences: they should be pairs"
            )
        if self.links is not None:
            links = self.links if isinstance(self.links, Links) else Links(len(self), self.links)
            links.check(self)
            object.__setattr__(self, "links", links)

    @classmethod
    def of(
        cls, pairs: Iterable[tuple[str | Iterable[str], str | Iterable[str]]], **options: Unpack[BitextOptions]
    ) -> Bitext:
        """A bitext from Python: pairs of a sentence and its translation, each a string or a list of words.

        :param pairs: any iterable of pairs.
        :param options: see :class:`BitextOptions`.

        >>> from pyro_unsup.data import Bitext
        >>> Bitext.of([("the house", "das Haus"), (["a", "book"], ["ein", "Buch"])])
        Bitext(2 pairs, 4 and 4 tokens, 4 and 4 types)
        """
        from pyro_unsup.data.from_python import bitext_of

        return bitext_of(pairs, **options)

    def __len__(self) -> int:
        return len(self.source)

    @property
    def source_lengths(self) -> OffsetArray:
        """Words in each source sentence, shape ``(pairs,)``."""
        return self.source.lengths

    @property
    def target_lengths(self) -> OffsetArray:
        """Words in each target sentence, shape ``(pairs,)``."""
        return self.target.lengths

    @property
    def lengths(self) -> OffsetArray:
        """Words in each pair, on both sides, shape ``(pairs,)``."""
        return self.source_lengths + self.target_lengths

    @property
    def on_disk(self) -> bool:
        """Whether the words of either side are mapped from a file."""
        return self.source.on_disk or self.target.on_disk

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bitext):
            return NotImplemented
        return (self.source, self.target, self.links) == (other.source, other.target, other.links)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        texts = (self.source, self.target)
        tokens = " and ".join(f"{text.tokens:,}" for text in texts)
        types = " and ".join(f"{len(text.vocab):,}" for text in texts)
        links = ""
        if self.links is not None:
            sure = int(self.links.sure.sum())
            links = f", {sure:,} sure links"
            links += f" and {len(self.links.sure) - sure:,} possible ones" if sure < len(self.links.sure) else ""
        return f"Bitext({len(self):,} pairs, {tokens} tokens, {types} types{links})"

    def select(self, indices: npt.ArrayLike) -> Bitext:
        """The pairs at ``indices`` (integers in any order, or one truth value a pair)."""
        links = None if self.links is None else self.links.select(indices)
        return Bitext(self.source.select(indices), self.target.select(indices), links)

    def turned(self) -> Bitext:
        """The same pairs with the two languages exchanged."""
        links = None
        if self.links is not None:
            links = Links(len(self), self.links.rows[:, [0, 2, 1]], self.links.sure, self.links.annotated)
        return Bitext(self.target, self.source, links)


class BitextOptions(TypedDict, total=False):
    """What :func:`read_bitext` takes by keyword.

    :param source_vocab: encode the source words with this vocabulary (that of a trained model) rather than make one.
        Words outside it become its unknown symbol, or are an error where it has none.
    :param target_vocab: the same of the target words.
    :param lowercase: fold the words to lower case.
    :param strip_accents: leave accents out.
    :param numbers: make every digit a 0, so that numbers of the same length are one word.
    :param prefix: keep so many characters of each word, the first ones: a simple way to do without endings.
    :param min_count: words seen fewer times become the unknown symbol.
    :param unknown: the unknown symbol of new vocabularies; ``<unk>`` where ``min_count`` is above 1, else none.
    :param limits: sizes beyond which a file is refused.
    """

    source_vocab: Vocab | None
    target_vocab: Vocab | None
    lowercase: bool
    strip_accents: bool
    numbers: bool
    prefix: int | None
    min_count: int
    unknown: str | None
    limits: Limits


def read_bitext(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    links: str | os.PathLike[str] | None = None,
    **options: Unpack[BitextOptions],
) -> Bitext:
    """Sentences with their translations: ``source ||| target`` a line, or a file for each language.

    Words are split by white space. Every line is a pair, so that lines and links go together: a line without a
    separator, a side without a word and files of different lengths are errors.

    :param path: a file (plain, gzip, bzip2 or xz), or ``-`` for standard input.
    :param target: the file of the translations, line by line, if ``path`` has source sentences only.
    :param links: a file of gold links, see :func:`~pyro_unsup.data.links.read_links`.
    :param options: see :class:`BitextOptions`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from pyro_unsup.data import read_bitext
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "small.en-de")
    ...     size = file.write_text("the house ||| das Haus")
    ...     pairs = read_bitext(file, lowercase=True)
    >>> pairs.source.sentence(0), pairs.target.sentence(0)
    (['the', 'house'], ['das', 'haus'])
    """
    vocabs = (options.pop("source_vocab", None), options.pop("target_vocab", None))
    files = (path, path if target is None else target)
    limits = options.get("limits", LIMITS)
    one, other = (
        CorpusBuilder(file, vocab=vocab, **options)  # type: ignore[misc]
        for file, vocab in zip(files, vocabs, strict=True)
    )
    for number, left, right in _joint(path, limits) if target is None else _separate(path, target, limits):
        sides = left.split(), right.split()
        for name, words, builder in zip(("source", "target"), sides, (one, other), strict=True):
            if not words:
                raise InputError(
                    f"the {name} side is empty, expected at least one word; drop the pair", builder.path, number
                )
            builder.add(words, number)
    bitext = Bitext(one.finish(), other.finish())
    if links is None:
        return bitext
    return Bitext(bitext.source, bitext.target, read_links(links, bitext, limits=limits))


def _joint(path: str | os.PathLike[str], limits: Limits) -> Iterator[tuple[int, str, str]]:
    for number, line in open_text(path, limits):
        sides = line.split(SEPARATOR)
        if len(sides) != 2:
            found = "none" if len(sides) == 1 else str(len(sides) - 1)
            raise InputError(
                f"expected one {SEPARATOR} between source and target, found {found} in {show(line)}", path, number
            )
        yield number, sides[0], sides[1]


def _separate(
    path: str | os.PathLike[str], target: str | os.PathLike[str], limits: Limits
) -> Iterator[tuple[int, str, str]]:
    if os.fspath(path) == os.fspath(target):
        raise InputError("the same file for source and target, expected two; leave the second out if it has both", path)
    for left, right in zip_longest(open_text(path, limits), open_text(target, limits)):
        if left is None or right is None:
            ended, number = (path, right[0]) if left is None else (target, left[0])
            other = target if left is None else path
            raise InputError(
                f"ends before line {number}, which {other} has; the files should be parallel", ended, number
            )
        yield left[0], left[1], right[1]


def concatenate(first: Bitext, *more: Bitext) -> Bitext:
    """One text after the other, by common vocabularies; gold links are left behind.

    >>> from pyro_unsup.data import Bitext, Corpus, Vocab
    >>> from pyro_unsup.data.bitext import concatenate
    >>> house = Corpus([0, 1], [0, 2], Vocab(["the", "house"]))
    >>> concatenate(Bitext(house, house), Bitext(house, house))
    Bitext(2 pairs, 4 and 4 tokens, 2 and 2 types)
    """
    texts = (first, *more)
    return Bitext(_joined([one.source for one in texts]), _joined([one.target for one in texts]))


def _joined(texts: list[Corpus]) -> Corpus:
    vocab = Vocab(dict.fromkeys(word for text in texts for word in text.vocab), texts[0].vocab.unknown)
    texts = [text.with_vocab(vocab) for text in texts]
    lengths = np.concatenate([text.lengths for text in texts])
    words = np.concatenate([text.words for text in texts])
    return Corpus(words, np.concatenate([[0], np.cumsum(lengths)]), vocab)

"""Tag dictionaries: which tags a word may have."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.files import write_text
from pyro_unsup.data.lines import show
from pyro_unsup.data.opening import LIMITS, Limits, open_text, read_plain
from pyro_unsup.data.vocab import Vocab, coarsen
from pyro_unsup.errors import InputError

FORMAT, VERSION = "pyro_unsup.dictionary", 1
MOST_CELLS = 1 << 31  # tags times words of a file, each a byte: a tag a word would take the square of its size


class Ambiguity(NamedTuple):
    """How much a dictionary leaves open on a corpus."""

    tags_per_token: float
    ambiguous: float  # share of the tokens that may have two tags or more


@dataclass(frozen=True, eq=False, repr=False)
class TagDictionary:
    """The tags that each listed word may have. A word that is not listed is open: it may have any tag.

    :param tagset: the tags.
    :param words: the listed words.
    :param table: true where a tag is allowed, shape ``(tags, words)``; every word has at least one.

    >>> from pyro_unsup.data import Corpus, TagDictionary, Vocab
    >>> corpus = Corpus([0, 1, 0], [0, 3], Vocab(["run", "a"]), [0, 1, 2], Vocab(["N", "D", "V"]))
    >>> dictionary = TagDictionary.from_corpus(corpus)
    >>> dictionary, dictionary["run"], dictionary["unseen"]
    (TagDictionary(2 words, 3 tags), ('N', 'V'), ('N', 'D', 'V'))
    """

    tagset: Vocab
    words: Vocab
    table: npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        table = np.array(self.table, dtype=np.bool_)  # a copy, since it is then locked
        if table.shape != (len(self.tagset), len(self.words)):
            raise InputError(f"table: expected shape {(len(self.tagset), len(self.words))}, found {table.shape}")
        if not table.any(axis=0).all():
            word = self.words[int(np.argmin(table.any(axis=0)))]
            raise InputError(f"the word {show(word)} has no allowed tag; give it one or leave it out")
        table.flags.writeable = False
        object.__setattr__(self, "table", table)

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, word: str) -> tuple[str, ...]:
        if word not in self.words:
            return self.tagset.types
        return tuple(self.tagset.decode(np.flatnonzero(self.table[:, self.words.index[word]]).tolist()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TagDictionary):
            return NotImplemented
        same = (self.tagset, self.words) == (other.tagset, other.words)
        return same and np.array_equal(self.table, other.table)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TagDictionary({len(self):,} words, {len(self.tagset):,} tags)"

    @classmethod
    def from_mapping(cls, tags_of: Mapping[str, Iterable[str]], tagset: Vocab | None = None) -> TagDictionary:
        """The tags of words, as a mapping has them.

        :param tagset: the tags in the order they should have; without it, the order in which they turn up.

        >>> from pyro_unsup.data import TagDictionary
        >>> TagDictionary.from_mapping({"run": ["N", "V"], "a": ["D"]})["run"]
        ('N', 'V')
        """
        listed = {word: list(tags) for word, tags in tags_of.items()}
        if tagset is None:
            tagset = Vocab(dict.fromkeys(tag for tags in listed.values() for tag in tags))
        table = np.zeros((len(tagset), len(listed)), dtype=np.bool_)
        for column, tags in enumerate(listed.values()):
            table[tagset.encode(tags), column] = True
        return cls(tagset, Vocab(listed), table)

    @classmethod
    def from_corpus(cls, corpus: Corpus, min_count: float = 1, counted_in: Corpus | None = None) -> TagDictionary:
        """For each word, the tags it has in a tagged corpus.

        :param min_count: words seen fewer times are open; infinity leaves no information at all.
        :param counted_in: count the words here instead (the training text, where ``corpus`` is the whole treebank).
        """
        if corpus.tags is None or corpus.tagset is None:
            raise InputError("a dictionary needs a corpus with tags, found none; read it from a tagged file")
        table = np.zeros((len(corpus.tagset), len(corpus.vocab)), dtype=np.bool_)
        table[corpus.tags, corpus.words] = True
        counter = corpus if counted_in is None else counted_in
        counts = np.bincount(counter.words, minlength=len(counter.vocab))
        if counted_in is not None:
            count_of = dict(zip(counted_in.vocab, counts.tolist(), strict=True))
            counts = np.array([count_of.get(word, 0) for word in corpus.vocab], dtype=np.int64)
        listed = (counts >= min_count) & table.any(axis=0)
        if corpus.vocab.unknown is not None:  # it stands for words that nobody has seen
            listed[corpus.vocab.index[corpus.vocab.unknown]] = False
        places = np.flatnonzero(listed)
        return cls(corpus.tagset, Vocab(corpus.vocab.decode(places.tolist())), table[:, places])

    @classmethod
    def read(cls, path: str | os.PathLike[str], tagset: Vocab | None = None, limits: Limits = LIMITS) -> TagDictionary:
        """A text file with ``word TAG TAG ...`` a line, split by white space (a tab after a word that holds spaces).

        :param path: a file (plain, gzip, bzip2 or xz), or ``-`` for standard input.
        :param tagset: the tags there are; tags outside it are an error. Default: the tags of the file.
        :param limits: sizes beyond which a file is refused.
        """
        ids: dict[str, int] = {} if tagset is None else dict(tagset.index)
        entries: dict[str, list[int]] = {}
        lines: dict[str, int] = {}
        for number, line in open_text(path, limits):
            word, tags = _entry(line)
            if not word:
                if tags:
                    raise InputError("a line starts with a tab, expected a word before it", path, number)
                continue
            if not tags:
                raise InputError(f"the word {show(word)} has no allowed tag; add one or drop the line", path, number)
            if word in entries:
                raise InputError(f"the word {show(word)} is listed twice, first on line {lines[word]}", path, number)
            foreign = next((tag for tag in tags if tagset is not None and tag not in ids), None)
            if foreign is not None:
                raise InputError(f"the tag {show(foreign)} is not among the {len(ids)} known tags", path, number)
            entries[word] = [ids.setdefault(tag, len(ids)) for tag in tags]
            lines[word] = number
        if not entries:
            raise InputError("no word in it, expected lines of a word and its tags", path)
        try:
            table = _empty(len(ids), len(entries))
        except InputError as error:
            raise InputError(error.what, path) from None
        for column, allowed in enumerate(entries.values()):
            table[allowed, column] = True
        return cls(Vocab(ids) if tagset is None else tagset, Vocab(entries), table)

    def mask(self, vocab: Vocab) -> npt.NDArray[np.bool_]:
        """Which tag may emit which word, shape ``(tags, len(vocab))``; true all over for open words."""
        out = np.ones((len(self.tagset), len(vocab)), dtype=np.bool_)
        pairs = [(place, self.words.index[word]) for place, word in enumerate(vocab) if word in self.words]
        if pairs:
            places, listed = np.array(pairs).T
            out[:, places] = self.table[:, listed]
        return out

    def types_per_tag(self, vocab: Vocab) -> npt.NDArray[np.int64]:
        """Word types of a vocabulary that each tag may emit, open words counted under every tag, shape ``(tags,)``."""
        counts: npt.NDArray[np.int64] = self.mask(vocab).sum(axis=1, dtype=np.int64)
        return counts

    def ambiguity(self, corpus: Corpus) -> Ambiguity:
        """Tags a token, and the share of tokens with more than one, over a corpus."""
        if corpus.tokens == 0:
            raise InputError("an empty corpus has no ambiguity; give one with words")
        choices = self.mask(corpus.vocab).sum(axis=0)[corpus.words]
        return Ambiguity(float(choices.mean()), float((choices > 1).mean()))

    def with_tags(self, mapping: Mapping[str, str]) -> TagDictionary:
        """The same dictionary by coarser tags; see :meth:`~pyro_unsup.data.corpus.Corpus.with_tags`."""
        coarse, ids = coarsen(self.tagset, mapping)
        table = np.zeros((len(coarse), len(self)), dtype=np.bool_)
        np.logical_or.at(table, ids, self.table)
        return TagDictionary(coarse, self.words, table)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON file, all or nothing."""
        words = {word: np.flatnonzero(self.table[:, place]).tolist() for place, word in enumerate(self.words)}
        head = {"format": FORMAT, "version": VERSION, "tagset": self.tagset.types, "words": words}
        with write_text(path) as stream:
            json.dump(head, stream)
            stream.write("\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TagDictionary:
        """Read what :meth:`save` wrote."""
        try:
            head: Any = json.loads(read_plain(path, LIMITS.max_bytes))
        except InputError:
            raise
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", path) from error
        except (ValueError, RecursionError) as error:
            raise InputError("not JSON; save the dictionary again", path) from error
        try:
            if (head["format"], head["version"]) != (FORMAT, VERSION):
                raise KeyError("format")
            tagset, entries = Vocab(head["tagset"]), head["words"]
            table = _empty(len(tagset), len(entries))
            for column, allowed in enumerate(entries.values()):
                if not all(type(tag) is int and tag >= 0 for tag in allowed):
                    raise TypeError("tags")
                table[allowed, column] = True
            return cls(tagset, Vocab(entries), table)
        except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
            what = error.what if isinstance(error, InputError) else f"not a tag dictionary of version {VERSION}"
            raise InputError(f"{what}; save the dictionary again", path) from error


def _empty(tags: int, words: int) -> npt.NDArray[np.bool_]:
    """A table in which nothing is allowed yet. Raise if there are so many tags that the file is no dictionary."""
    if tags * words > MOST_CELLS:
        raise InputError(f"{tags:,} tags for {words:,} words are too many, expected a few tags; is this a dictionary?")
    return np.zeros((tags, words), dtype=np.bool_)


def _entry(line: str) -> tuple[str, list[str]]:
    if "\t" in line:
        word, rest = line.split("\t", 1)
        return word.strip(), rest.split()
    word, *tags = line.split() or [""]
    return word, tags

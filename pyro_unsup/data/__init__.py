"""From files to corpora, and back."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from pyro_unsup.data import tagmaps
from pyro_unsup.data.bitext import Bitext, read_bitext
from pyro_unsup.data.brackets import read_brackets, short_tag_sequences
from pyro_unsup.data.brackets_out import nltk_trees, write_brackets
from pyro_unsup.data.conllu import read_conllu
from pyro_unsup.data.conllu_out import write_conllu, write_heads, write_tags
from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.dictionary import TagDictionary
from pyro_unsup.data.document_files import read_documents
from pyro_unsup.data.documents import Documents, write_labels
from pyro_unsup.data.flat import write_flat
from pyro_unsup.data.lines import read_lines
from pyro_unsup.data.links import Links, read_links, write_links
from pyro_unsup.data.opening import Limits
from pyro_unsup.data.packing import pack_lines
from pyro_unsup.data.portions import Portions
from pyro_unsup.data.segmented import Segmented, read_segmented, write_segmented
from pyro_unsup.data.spans import bracket_rows
from pyro_unsup.data.streams import blocks
from pyro_unsup.data.tagged import read_tagged, write_tagged
from pyro_unsup.data.trees import spread_heads
from pyro_unsup.data.vocab import Vocab
from pyro_unsup.errors import FormatError, InputError

if TYPE_CHECKING:
    from pyro_unsup.data import remote, toy

__all__ = [
    "Bitext",
    "Corpus",
    "Documents",
    "Limits",
    "Links",
    "Portions",
    "Segmented",
    "TagDictionary",
    "Vocab",
    "blocks",
    "bracket_rows",
    "format_of",
    "nltk_trees",
    "pack_lines",
    "read",
    "read_bitext",
    "read_brackets",
    "read_conllu",
    "read_documents",
    "read_lines",
    "read_links",
    "read_segmented",
    "read_tagged",
    "remote",
    "short_tag_sequences",
    "spread_heads",
    "tagmaps",
    "toy",
    "write_brackets",
    "write_conllu",
    "write_flat",
    "write_heads",
    "write_labels",
    "write_links",
    "write_segmented",
    "write_tagged",
    "write_tags",
]

_READERS: dict[str, Callable[..., Corpus]] = {
    "conllu": read_conllu,
    "brackets": read_brackets,
    "tagged": read_tagged,
    "lines": read_lines,
}
_ENDINGS = {
    "conllu": (".conllu", ".conllx", ".conll"),
    "brackets": (".mrg", ".ptb", ".brackets"),
    "tagged": (".tagged", ".tag", ".pos", ".tsv"),
    "lines": (".txt", ".text", ".tok"),
}
_PACKED = (".gz", ".bz2", ".xz")
_LATER = ("remote", "toy")  # imported when first asked for


def read(
    path: str | os.PathLike[str],
    format: Literal["auto", "conllu", "brackets", "tagged", "lines"] = "auto",
    **options: Any,
) -> Corpus:
    """Read a corpus with the reader that fits the name of the file.

    ``.conllu .conllx .conll``: CoNLL-U and CoNLL-X; ``.mrg .ptb .brackets``: Penn brackets; ``.tagged .tag .pos .tsv``:
    ``word TAG`` or ``word/TAG``; ``.txt .text .tok``: plain text, one sentence a line. Each may end in ``.gz``,
    ``.bz2`` or ``.xz`` after that. A folder is one that :meth:`.Corpus.save` or :func:`.write_flat` wrote: its arrays
    stay on disk until they are looked at.

    :param path: a file or a folder, or ``-`` for standard input.
    :param format: the reader; needed where the name does not tell.
    :param options: passed on to the reader.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from pyro_unsup.data import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "small.txt")
    ...     size = file.write_text("the dog barks")
    ...     read(file, lowercase=True)
    Corpus(1 sentences, 3 tokens, 3 types)
    """
    if format == "auto" and os.path.isdir(path):
        return _opened(path, **options)
    if format == "auto":
        format = format_of(path)
    if format not in _READERS:
        raise InputError(f"no format {format!r}, expected auto or one of {', '.join(_READERS)}", path)
    return _READERS[format](path, **options)


def _opened(
    path: str | os.PathLike[str], lowercase: bool = False, min_count: int = 1, vocab: Vocab | None = None, **others: Any
) -> Corpus:
    """A corpus on disk. Options of readers, such as lower case, had to be given when it was written."""
    if lowercase or min_count > 1:
        which = "lowercase" if lowercase else "min_count"
        raise InputError(f"a saved corpus cannot be changed while it is read; leave out {which}", path)
    if unknown := sorted(name for name, value in others.items() if value is not None):
        raise InputError(f"a saved corpus cannot be changed while it is read; leave out {', '.join(unknown)}", path)
    corpus = Corpus.open(path)
    return corpus if vocab is None else corpus.with_vocab(vocab)


def format_of(path: str | os.PathLike[str]) -> Any:
    """The format that the name of a file tells; an error where it does not.

    >>> from pyro_unsup.data import format_of
    >>> format_of("train.conllu.gz"), format_of("wsj.mrg")
    ('conllu', 'brackets')
    """
    name = Path(path)
    ending = (name.with_suffix("") if name.suffix.lower() in _PACKED else name).suffix.lower()
    for format, endings in _ENDINGS.items():
        if ending in endings:
            return format
    if os.fspath(path) != "-" and not os.path.exists(path):
        raise InputError("no such file", path)
    raise FormatError(f"cannot tell the format from the name; give one of {', '.join(_READERS)}", path)


def __getattr__(name: str) -> ModuleType:
    if name in _LATER:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

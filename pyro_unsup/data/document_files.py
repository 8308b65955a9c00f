"""Documents from files: one a line, with or without a label, or one a file in folders."""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np

from pyro_unsup.data.documents import Documents
from pyro_unsup.data.lines import show
from pyro_unsup.data.opening import LIMITS, Limits, open_bytes, open_text
from pyro_unsup.data.vocab import Vocab
from pyro_unsup.errors import EncodingError, InputError

Form = Literal["auto", "plain", "labelled", "newsgroups", "folders"]
Empty = Literal["error", "drop", "keep"]

#: The columns of a line, split by tabs.
_COLUMNS: dict[Form, tuple[str, ...]] = {
    "plain": ("text",),
    "labelled": ("label", "text"),
    "newsgroups": ("split", "group", "id", "text"),
}
_LETTERS = re.compile(r"[^\W\d_]+")
_FIELD = re.compile(r"[!-9;-~]+:|[ \t]")  # how a line in the head of a message begins: a field, or more of the last one
_SUBJECT = re.compile(r"^subject:(.*)", re.IGNORECASE | re.MULTILINE)


def read_documents(
    path: str | os.PathLike[str],
    form: Form = "auto",
    *,
    split: str | None = None,
    vocab: Vocab | None = None,
    labelset: Vocab | None = None,
    lowercase: bool = False,
    empty: Empty = "error",
    encoding: Literal["auto", "utf-8", "latin-1"] = "auto",
    limits: Limits = LIMITS,
) -> Documents:
    """Documents of a file, one a line, words split by white space; or of a folder.

    ``plain``: the text alone. ``labelled``: ``label TAB text``. ``newsgroups``: ``split TAB group TAB id TAB text``;
    the group is the label. ``folders``: one folder a label, one file a document (the layout of 20 Newsgroups); or a
    folder of files alone, without labels. There the words are runs of letters in lower case, and of a message only
    subject and body are read. Files whose names begin with a dot are passed over, links are refused.

    :param path: a file (plain, gzip, bzip2 or xz), ``-`` for standard input, or a folder.
    :param form: ``auto`` goes by the number of tabs in the first line.
    :param split: of ``newsgroups``, only the documents of this split.
    :param vocab: encode the words with this vocabulary (that of a trained model) rather than make one. Words outside it
        become its unknown symbol, or are dropped where it has none.
    :param labelset: encode the labels with this set; labels outside it are an error.
    :param lowercase: fold the words to lower case.
    :param empty: what to do with a document that has no words: refuse it, leave it out (``left_out`` then counts it) or
        keep it, so that predictions stay one a line.
    :param encoding: of the files in folders. ``auto`` reads each file as UTF-8, or as Latin-1 if it is not UTF-8;
        ``recoded`` then counts the latter. The original 20 Newsgroups are in ``latin-1``.
    :param limits: sizes beyond which a file is refused; ``max_bytes`` holds for all files in folders together.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from pyro_unsup.data import read_documents
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, text in (("space", "orbit moon orbit"), ("hockey", "goal ice")):
    ...         Path(folder, name).mkdir()
    ...         size = Path(folder, name, "1.txt").write_text(text)
    ...     documents = read_documents(folder)
    >>> documents, documents.labelset.types
    (Documents(2 documents, 5 tokens, 4 types, 2 labels), ('hockey', 'space'))
    """
    if form not in ("auto", "folders", *_COLUMNS):
        raise InputError(f"no form {form!r}, expected auto, folders or one of {', '.join(_COLUMNS)}", path)
    if empty not in ("error", "drop", "keep"):
        raise InputError(f"empty: expected error, drop or keep, found {empty!r}", path)
    folders = form == "folders" or (form == "auto" and os.fspath(path) != "-" and os.path.isdir(path))
    if encoding not in ("auto", "utf-8", "latin-1"):
        raise InputError(f"encoding: expected auto, utf-8 or latin-1, found {encoding!r}", path)
    recoded: list[Path] = []
    found = _from_folders(Path(path), encoding, limits, recoded) if folders else _from_lines(path, form, split, limits)
    builder = _Builder(labelset, lowercase, empty)
    for document in found:
        builder.add(*document)
    if not builder.sizes:
        wanted = "" if split is None else f" of the split {split!r}"
        raise InputError(f"no document{wanted} in it, expected at least one", path)
    documents = builder.finish()._with(recoded=len(recoded))
    return documents if vocab is None else documents.with_vocab(vocab)


class _Builder:
    """Documents in, bags of words out. Ids are given as words come by, so no string is kept twice."""

    def __init__(self, labelset: Vocab | None, lowercase: bool, empty: Empty) -> None:
        self._labelset, self._lowercase, self._empty = labelset, lowercase, empty
        self._ids: dict[str, int] = {}
        self._label_ids: dict[str, int] = {} if labelset is None else dict(labelset.index)
        self._words, self._labels = array("i"), array("i")
        self.sizes, self._left_out = array("q"), 0

    def add(self, words: list[str], label: str | None, path: str | os.PathLike[str], line: int | None) -> None:
        if not words and self._empty == "error":
            fix = "drop it, or read with empty='drop' or empty='keep'"
            raise InputError(f"an empty document, expected at least one word; {fix}", path, line)
        if label is not None and self._labelset is not None and label not in self._label_ids:
            known = show(", ".join(self._labelset), False)
            raise InputError(f"the label {show(label)} is not in the given set, expected one of {known}", path, line)
        if not words and self._empty == "drop":
            self._left_out += 1
            return
        if self._lowercase:
            words = [word.lower() for word in words]
        ids = self._ids
        self._words.extend([ids.setdefault(word, len(ids)) for word in words])
        self.sizes.append(len(words))
        if label is not None:
            self._labels.append(self._label_ids.setdefault(label, len(self._label_ids)))

    def finish(self) -> Documents:
        offsets = np.concatenate(([0], np.cumsum(np.array(self.sizes, dtype=np.int64))))
        labelset = Vocab(self._label_ids) if self._labelset is None else self._labelset
        made = Documents.count(
            np.array(self._words, dtype=np.int32),
            offsets,
            Vocab(self._ids),
            np.array(self._labels, dtype=np.int32) if self._labels else None,
            labelset if self._labels else None,
        )
        return made._with(left_out=self._left_out)


_Found = Iterator[tuple[list[str], str | None, str | os.PathLike[str], int | None]]  # words, label, where


def _from_lines(path: str | os.PathLike[str], form: Form, split: str | None, limits: Limits) -> _Found:
    lines = open_text(path, limits)
    first = next(lines, None)
    if first is None:
        return
    names = _COLUMNS[form_of(path, first[1]) if form == "auto" else form]
    if split is not None and "split" not in names:
        raise InputError("a split can be chosen only in the form newsgroups, whose lines name one", path)
    for number, line in chain([first], lines):
        row = line.split("\t") if len(names) > 1 else [line]
        if len(row) != len(names):
            what = f"expected {len(names)} columns split by tabs ({', '.join(names)}), found {len(row)}"
            raise InputError(f"{what}; is the label missing?" if len(row) < len(names) else what, path, number)
        label = None if len(names) == 1 else row[-3 if "group" in names else -2].strip()
        if label == "":
            raise InputError("the label is missing, expected one before the tab", path, number)
        if split is None or row[0] == split:
            yield row[-1].split(), label, path, number


def form_of(path: str | os.PathLike[str], line: str) -> Form:
    """The form that the first line of a text tells."""
    width = line.count("\t") + 1
    for form, names in _COLUMNS.items():
        if len(names) == width:
            return form
    raise InputError(
        f"cannot tell the form from a first line of {width} columns; give one of {', '.join(_COLUMNS)}", path, 1
    )


def _from_folders(path: Path, encoding: str, limits: Limits, recoded: list[Path]) -> _Found:
    total = 0
    for label, files in _by_label(path):
        for file in files:
            if not _is(file.is_file, file):
                raise InputError("not a plain file, expected one a document; move it away", file)
            try:
                text = _text(file, encoding, limits)
            except EncodingError:
                if encoding != "auto":
                    raise
                recoded.append(file)
                text = _text(file, "latin-1", limits)
            total += len(text)
            if total > limits.max_bytes:
                fix = "take fewer documents (in Python, or raise Limits.max_bytes)"
                raise InputError(f"more than {limits.max_bytes:,} bytes in all; {fix}", path)
            yield message_words(text), label, file, None


def _by_label(path: Path) -> list[tuple[str | None, list[Path]]]:
    """The files of each label of a folder of folders; if there is no folder in it, all files, without a label."""
    inside = _inside(path)
    folders = [one for one in inside if _is(one.is_dir, one)]
    return [(one.name, _inside(one)) for one in folders] or [(None, inside)]


def _inside(folder: Path) -> list[Path]:
    """What a folder holds, in the order of the names; numbers in their own order."""
    try:
        found = [one for one in folder.iterdir() if not one.name.startswith(".")]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", folder) from error
    return sorted(found, key=lambda one: (one.name.isdecimal(), int(one.name) if one.name.isdecimal() else 0, one.name))


def document_names(path: str | os.PathLike[str]) -> list[str]:
    """The documents of a folder as ``label/file``, or ``file``, in the order in which they are read."""
    return [str(file.relative_to(path)) for _, files in _by_label(Path(path)) for file in files]


def _is(kind: Callable[[], bool], path: Path) -> bool:
    if path.is_symlink():
        raise InputError("a link, which might lead out of the folder; put the file itself there", path)
    return kind()


def _text(file: Path, encoding: str, limits: Limits) -> str:
    if encoding != "latin-1":
        return "\n".join(line for _, line in open_text(file, limits))
    try:
        return b"".join(open_bytes(file, limits)).decode("latin-1").replace("\r\n", "\n")
    except InputError as error:
        raise InputError(error.what, file) from error


def message_words(text: str) -> list[str]:
    """The words of a message: runs of letters, in lower case; of its head, only those of the subject.

    >>> from pyro_unsup.data.document_files import message_words
    >>> message_words("From: me@here\\nSubject: Re: Orbits\\n\\nIt is 42 km, isn't it?")
    ['re', 'orbits', 'it', 'is', 'km', 'isn', 't', 'it']
    >>> message_words("No head here.\\n\\nTwo paragraphs.")
    ['no', 'head', 'here', 'two', 'paragraphs']
    """
    head, gap, body = text.partition("\n\n")
    if gap and all(_FIELD.match(line) for line in head.splitlines()):
        subject = _SUBJECT.search(head)
        text = f"{subject.group(1) if subject else ''}\n{body}"
    return _LETTERS.findall(text.lower())

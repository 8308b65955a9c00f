"""Load whatever was saved in a folder: what is in the folder tells what it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..data import Corpus, Documents
from ..errors import InputError
from . import storage
from .sample_storage import RECORD as SAMPLES
from .samples import Samples

#: The files that tell what a folder holds.
KINDS = (storage.RECORD, SAMPLES, "corpus.json", "documents.json")
MOST_NAMES = 5


def load(folder: str | os.PathLike[str], model: Callable[..., Any] | None = None) -> Any:
    """Read back what was saved in a folder: a fit, samples, a corpus or documents. Nothing in the files is run.

    :param model: for a fit of a model of your own that is not registered, such as a function. Registered models are
        built again, those of the library and of installed packages alike (:mod:`pyro_unsup.registry`).
    :returns: a :class:`.Fit`, :class:`.Samples`, a :class:`.Corpus` or :class:`~pyro_unsup.data.Documents`.

    >>> import tempfile, pyro_unsup as pu
    >>> corpus = pu.data.Corpus.of(["a b", "b"])
    >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2)).run([[0, 1]], iterations=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit.save(folder + "/tagger")
    ...     corpus.save(folder + "/corpus")
    ...     pu.load(folder + "/tagger").model, pu.load(folder + "/corpus")
    (Tagger(tags=2, vocab=2, order=1), Corpus(2 sentences, 3 tokens, 2 types))
    """
    kind = storage.RECORD if model is not None else kind_of(folder)
    if kind == SAMPLES:
        return Samples.load(folder)
    if kind == "corpus.json":
        return Corpus.open(folder)
    return Documents.open(folder) if kind == "documents.json" else storage.load(folder, model)


def kind_of(folder: str | os.PathLike[str]) -> str:
    """The file that tells what a folder holds. If there is no folder, that of a fit."""
    if not os.path.isdir(folder):
        return storage.RECORD
    for name in KINDS:
        if os.path.isfile(Path(folder) / name):
            return name
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", folder) from error
    if storage.RECORD in names:  # but it is no plain file
        return storage.RECORD
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    there = ", ".join(f"{name!r:.60}" for name in names[:MOST_NAMES]) + more
    what = f"missing; the folder holds no fit, samples, corpus or documents, but {there or 'nothing'}"
    raise InputError(what, Path(folder) / storage.RECORD)

"""Collections of flat arrays and vocabularies, to and from folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy.typing as npt

from pyro_unsup.data.files import read_arrays
from pyro_unsup.data.mapped import release
from pyro_unsup.data.vocab import Vocab
from pyro_unsup.errors import InputError

T = TypeVar("T")

#: Vocabularies that folders of earlier versions do not have.
LATER = ("span_labelset",)


def in_plain_values(
    one: object, vocabs: Iterable[str], arrays: Iterable[str]
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """The vocabularies of a collection as JSON has them, and those of its arrays that are there, by their names."""
    head = {
        name: None if vocab is None else {"types": vocab.types, "unknown": vocab.unknown}
        for name, vocab in ((name, getattr(one, name)) for name in vocabs)
    }
    return head, {name: value for name in arrays if (value := getattr(one, name)) is not None}


def opened(
    make: Callable[..., T],
    folder: str | os.PathLike[str],
    kind: str,
    vocabs: Iterable[str],
    arrays: Mapping[str, str],
    mmap: bool,
) -> T:
    """A saved collection, built again from its vocabularies and arrays, with all checks.

    :param arrays: the dtype of each array that may be there.
    :param mmap: leave them on disk.
    """
    head, found = read_arrays(folder, kind, arrays, mmap)
    try:
        known = [name for name in vocabs if name in head or name not in LATER]
        parts: dict[str, Any] = {name: None if head[name] is None else Vocab(**head[name]) for name in known}
        made = make(**(parts | found))
    except InputError as error:
        raise InputError(error.what, path=folder) from error
    except (KeyError, TypeError) as error:
        raise InputError(f"{kind}.json does not say what its arrays are; save it again", path=folder) from error
    release(*found.values())  # the checks have looked at all of it
    return made

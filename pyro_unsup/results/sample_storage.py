"""Samples and unfinished chains on disk: a folder with ``samples.json`` and a file of safetensors.

The manners are those of :mod:`.record_folder`. Nothing that the files say is run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike, listdir
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from .record_folder import Contents

RECORD, SCHEMA, _NEITHER = "samples.json", 2, "does not hold samples"
SAMPLES = Contents(RECORD, "pyro_unsup samples", SCHEMA, "samples", _NEITHER, "a sampler")
CHAIN = Contents(RECORD, "pyro_unsup chain", SCHEMA, "a chain", _NEITHER, "a sampler")

Array = np.ndarray[Any, Any]


def remove(parent: Path, which: Callable[[str], object]) -> None:
    """Take away what :func:`write` wrote into folders, by their names. Raise if one of them holds anything else, before
    that."""
    try:
        found = [parent / name for name in listdir(parent) if which(name)] if parent.exists() else []
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", parent) from error
    for folder in found:
        CHAIN.may_write(folder, overwrite=True)
    for folder in found:
        try:
            for name in sorted(listdir(folder), key=lambda name: name == RECORD):  # it goes last
                if name == RECORD or CHAIN.is_ours(name):
                    (folder / name).unlink()
            folder.rmdir()
        except OSError as error:
            raise InputError(f"cannot be removed: {error.strerror or error}", folder) from error


def write(
    folder: str | PathLike[str],
    contents: Contents,
    said: Mapping[str, Any],
    arrays: Mapping[str, Array],
    overwrite: bool = True,
) -> None:
    """Put a record and its arrays into a folder. What was there stays whole until the new record takes its place."""
    tensors = {name: torch.from_numpy(np.ascontiguousarray(x).copy()) for name, x in arrays.items()}
    contents.put(folder, said, tensors, overwrite)


def read(folder: str | PathLike[str], contents: Contents) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read back what :func:`write` wrote."""
    record, tensors, file = contents.get(folder)
    try:
        return record, {key: x.numpy() for key, x in tensors.items()}
    except TypeError as error:  # numpy has fewer dtypes
        raise InputError(f"expected tensors that numpy can hold: {error}", file) from error

"""Samples and unfinished chains on disk: a folder with ``samples.json`` and a file of safetensors, all or nothing.

The manners are those of :mod:`.storage`: the tensors are named after their checksum, the record has one of its own, and
whatever does not agree is refused with the file's name. Nothing that the files say is run.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from .record import WRONG, checksum, listing, plain
from .storage import MAX_RECORD, MAX_TENSORS, read_bounded, write_whole

RECORD, SCHEMA = "samples.json", 1
_TENSORS = re.compile(r"[0-9a-f]{16}\.safetensors")
#: Also what a write that was cut short leaves behind.
_OURS = re.compile(rf"\.?({re.escape(RECORD)}|{_TENSORS.pattern})(\.[0-9a-f]+)?")

Array = np.ndarray[Any, Any]


def may_hold(folder: str | PathLike[str], overwrite: bool) -> None:
    """Raise if samples must not be written there."""
    target = Path(folder)
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not (target / RECORD).is_file():
        raise InputError("exists and does not hold samples, so it is not replaced; choose another folder", target)
    if not overwrite:
        raise InputError("exists already; choose another folder, or ask to overwrite it", target)


def remove(folders: Iterable[Path]) -> None:
    """Take away what :func:`write` wrote into folders. Raise if one of them holds anything else, before that."""
    found = list(folders)
    for folder in found:
        may_hold(folder, overwrite=True)
    for folder in found:
        try:
            ours = [file for file in folder.iterdir() if _OURS.fullmatch(file.name)]
            for file in sorted(ours, key=lambda file: file.name == RECORD):  # it goes last
                file.unlink()
            folder.rmdir()
        except OSError as error:
            raise InputError(f"cannot be removed: {error.strerror or error}", folder) from error


def write(folder: str | PathLike[str], kind: str, said: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Put a record and its arrays into a folder. What was there stays whole until the new record takes its place."""
    from safetensors.torch import save as to_bytes

    target = Path(folder)
    tensors = {name: torch.from_numpy(np.ascontiguousarray(x).copy()) for name, x in arrays.items()}
    raw = to_bytes(tensors)
    digest = hashlib.sha256(raw).hexdigest()
    name = f"{digest[:16]}.safetensors"
    record = plain(
        {"kind": kind, "schema": SCHEMA, **said, "file": name, "sha256": digest, "tensors": listing(tensors)}
    )
    text = json.dumps(record | {"checksum": checksum(record)}, indent=1) + "\n"
    try:
        target.mkdir(parents=True, exist_ok=True)
        before = [other for other in target.iterdir() if _TENSORS.fullmatch(other.name) and other.name != name]
        write_whole(target / name, raw)
        write_whole(target / RECORD, text.encode())
        for other in before:
            with suppress(OSError):
                other.unlink()
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", target) from error


def read(folder: str | PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read back what :func:`write` wrote."""
    from safetensors import SafetensorError
    from safetensors.torch import load as parse

    path = Path(folder)
    if not path.is_dir():
        raise InputError("no such folder; expected one that a sampler wrote", path)
    file = path / RECORD
    try:
        record = json.loads(read_bounded(file, MAX_RECORD).decode("utf-8"))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a JSON record: {error}", file) from error
    if not isinstance(record, dict) or record.get("kind") != kind or record.get("schema") != SCHEMA:
        found = record.get("kind") if isinstance(record, dict) else None
        raise InputError(f"expected the record of {kind!r} by schema {SCHEMA}, found {found!r:.80}", file)
    if record.get("checksum") != checksum(record):
        raise InputError("the checksum differs from the one in it: the record was altered or cut short", file)
    digest, name = record.get("sha256"), record.get("file")
    if not isinstance(digest, str) or not isinstance(name, str) or name != f"{digest[:16]}.safetensors":
        raise InputError(f"names {name!r:.80} as its tensors, expected a file named after its checksum", file)
    raw = read_bounded(path / name, MAX_TENSORS)
    if hashlib.sha256(raw).hexdigest() != digest:
        raise InputError("the checksum differs from the one in the record: the file was altered", path / name)
    try:
        tensors = dict(parse(raw))
    except (SafetensorError, *WRONG) as error:
        raise InputError(f"not a safetensors file: {error}", path / name) from error
    if listing(tensors) != record.get("tensors"):
        raise InputError("the tensors are not those that the record lists", path / name)
    return record, {key: x.numpy() for key, x in tensors.items()}

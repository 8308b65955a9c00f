"""A fit on disk: a folder with ``fit.json`` and a file of safetensors. Never pickle; all of it or nothing.

The file of tensors is named after its checksum, so that replacing ``fit.json``, one atomic step, replaces the whole
fit. Whatever does not agree with the record (:mod:`.record`) is refused with the file's name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from torch import Tensor

from ..errors import InputError, TableError, UnsupError
from .fit import Fit
from .record import KIND, SCHEMA, WRONG, checksum, describe, listing, restore

RECORD = "fit.json"
#: Nothing that belongs to a fit is larger than this; what is, is not read.
MAX_RECORD, MAX_TENSORS = 256 * 2**20, 64 * 2**30
#: Files of tensors, and what a crash may leave behind of any file.
_OWN = re.compile(r"[0-9a-f]{16}\.safetensors|\.([0-9a-f]{16}\.safetensors|fit\.json)\.[0-9a-f]{12}")


def save(fit: Fit, folder: str | PathLike[str], overwrite: bool = False) -> None:
    """Write a fit into a new folder. An existing one is replaced only if asked to, and only if it holds a fit."""
    from safetensors.torch import save as to_bytes

    target = Path(folder)
    may_write(target, overwrite)
    record, tensors = describe(fit)
    raw = to_bytes(tensors)
    digest = hashlib.sha256(raw).hexdigest()
    record |= {"file": _name(digest), "sha256": digest}
    text = json.dumps(record | {"checksum": checksum(record)}, indent=1) + "\n"
    try:
        if target.is_dir():
            _put(target, _name(digest), raw, text.encode())
        else:
            _create(target, _name(digest), raw, text.encode())
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", target) from error


def load(folder: str | PathLike[str], model: Callable[..., Any] | None = None) -> Fit:
    """Read a fit back. The files are data: nothing in them is run.

    :param model: needed for a model of your own, which a folder cannot hold; the library's models are rebuilt.
    """
    path = Path(folder)
    record = _read_record(path)
    while True:
        try:
            file, tensors = _read_tensors(path, record)
            break
        except InputError:
            before, record = record, _read_record(path)
            if record == before:  # else training replaced the fit in between, and its tensors have another name by now
                raise
    try:
        return restore(record, tensors, model)
    except TableError as error:
        raise InputError(str(error), file) from error
    except UnsupError as error:
        raise InputError(str(error), path / RECORD) from error
    except WRONG as error:
        raise InputError(f"the record does not describe a fit: {error!r:.200}", path / RECORD) from error


def may_write(folder: str | PathLike[str], overwrite: bool = False) -> None:
    """Raise if a fit must not be saved there."""
    target = Path(folder)
    if target.is_dir() and not any(target.iterdir()):
        return
    if target.exists() or target.is_symlink():
        if not overwrite:
            raise InputError("exists already; choose another folder, or ask to overwrite it", target)
        if not (target / RECORD).is_file():
            raise InputError("exists and is not a fit, so it is not replaced; choose another folder", target)


def _name(digest: str) -> str:
    return f"{digest[:16]}.safetensors"


def _read_record(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise InputError("no such folder; expected one that fit.save or `pyro-unsup fit --out` wrote", path)
    file = path / RECORD
    try:
        record = json.loads(read_bounded(file, MAX_RECORD).decode("utf-8"))
        if not isinstance(record, dict) or record.get("kind") != KIND:
            raise InputError("not the record of a fit", file)
        if record.get("schema") != SCHEMA:
            raise InputError(f"schema {record.get('schema')!r:.80}; this version reads {SCHEMA}", file)
        if record.get("checksum") != checksum(record):
            raise InputError("the checksum differs from the one in it: the record was altered or cut short", file)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a JSON record: {error}", file) from error
    return record


def _read_tensors(path: Path, record: Mapping[str, Any]) -> tuple[Path, dict[str, Tensor]]:
    from safetensors import SafetensorError
    from safetensors.torch import load as parse

    digest, name = record.get("sha256"), record.get("file")
    if not isinstance(digest, str) or name != _name(digest) or not _OWN.fullmatch(name):
        raise InputError(
            f"names {name!r:.80} as its tensors, expected a .safetensors file named after its checksum", path / RECORD
        )
    file = path / name
    raw = read_bounded(file, MAX_TENSORS)
    if hashlib.sha256(raw).hexdigest() != digest:
        raise InputError("the checksum differs from the one in the record: the file was altered or cut short", file)
    try:
        tensors = dict(parse(raw))
    except (SafetensorError, *WRONG) as error:
        raise InputError(f"not a safetensors file: {error}", file) from error
    if listing(tensors) != record.get("tensors"):
        raise InputError("the tensors are not those that the record lists", file)
    return file, {key: tensors[key] for key in record["tensors"]}


def read_bounded(file: Path, limit: int) -> bytes:
    """A plain file of at most so many bytes."""
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):  # a device or a pipe may have no end
            raise InputError("not a plain file", file)
        if found.st_size > limit:
            raise InputError(f"larger than {limit} bytes, which no fit is", file)
        return file.read_bytes()
    except FileNotFoundError:
        raise InputError("missing: the folder does not hold a whole fit", file) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file) from error
    except MemoryError as error:
        raise InputError(f"{found.st_size} bytes, more than fit into memory", file) from error


def _create(target: Path, name: str, raw: bytes, text: bytes) -> None:
    """Make a new folder with a fit in it, in one step."""
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        scratch.mkdir()
        _put(scratch, name, raw, text)
        os.replace(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _put(folder: Path, name: str, raw: bytes, text: bytes) -> None:
    """Put a fit into a folder. A fit that is there stays whole until the new record takes the place of its own."""
    before = set(os.listdir(folder))
    try:
        write_whole(folder / name, raw)
        write_whole(folder / RECORD, text)
    finally:
        with suppress(OSError):
            replaced = (folder / RECORD).is_file() and (folder / RECORD).read_bytes() == text
            for other in {one for one in before if _OWN.fullmatch(one)} - {name} if replaced else {name} - before:
                (folder / other).unlink(missing_ok=True)


def write_whole(file: Path, raw: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after a crash."""
    scratch = file.with_name(f".{file.name}.{secrets.token_hex(6)}")
    try:
        with open(scratch, "xb") as stream:
            stream.write(raw)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(scratch, file)
        if hasattr(os, "O_DIRECTORY"):  # where a folder can be synced, the name has to last as well
            handle = os.open(file.parent, os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    finally:
        scratch.unlink(missing_ok=True)

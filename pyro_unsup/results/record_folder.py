"""A folder that holds a record and a file of safetensors, replaced as a whole. Never pickle; all of it or nothing.

The file of tensors is named after its checksum, so that replacing the record, one atomic step, replaces everything. The
record has a checksum of its own. One process writes at a time: the folder is locked meanwhile, so that whatever else of
ours lies in it was left by a process that is no more, and goes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ..data.locks import locked, undisturbed
from ..errors import InputError
from .record import WRONG, checksum, listing, plain

#: Nothing that belongs here is larger than this; what is, is not read.
MAX_RECORD, MAX_TENSORS = 256 * 2**20, 64 * 2**30
_TENSORS = r"[0-9a-f]{16}\.safetensors"


@dataclass(frozen=True)
class Contents:
    """What such a folder may hold.

    :param record: the name of its file.
    :param kind: what the record calls itself.
    :param what: the same for the reader.
    :param otherwise: what is said of a folder that holds something else.
    :param writer: what writes such folders.
    """

    record: str
    kind: str
    schema: int
    what: str
    otherwise: str
    writer: str

    def is_ours(self, name: str) -> bool:
        """Whether a file may be one that :meth:`put` wrote, or left behind when it was killed; the record is not."""
        return re.fullmatch(rf"{_TENSORS}|\.({_TENSORS}|{re.escape(self.record)})\.[0-9a-f]{{12}}", name) is not None

    def may_write(self, folder: str | os.PathLike[str], overwrite: bool) -> None:
        """Raise if this folder may not be written. A saved folder is replaced only on request, anything else never."""
        target = Path(folder)
        try:
            if not os.path.lexists(target) or (target.is_dir() and all(self.is_ours(x) for x in os.listdir(target))):
                return
            if not overwrite:
                what = "exists already; choose another folder, or replace it (overwrite=True, or --overwrite)"
                raise InputError(what, target)
            if not (target / self.record).is_file():
                what = f"exists and {self.otherwise}, so it is not replaced; choose another folder"
                raise InputError(what, target)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", target) from error

    def put(
        self, folder: str | os.PathLike[str], said: Mapping[str, Any], tensors: Mapping[str, Tensor], overwrite: bool
    ) -> None:
        """Write a record and its tensors. What was there stays whole until the new record takes its place."""
        from safetensors.torch import save as to_bytes

        target, raw = Path(folder), to_bytes(dict(tensors))
        digest = hashlib.sha256(raw).hexdigest()
        record = plain({"schema": self.schema, "kind": self.kind, **said, "tensors": listing(tensors)})
        record |= {"file": _name(digest), "sha256": digest}
        text = json.dumps(record | {"checksum": checksum(record)}, indent=1) + "\n"
        try:
            with _made(target) as made:
                self.may_write(target, overwrite)  # another process may have been here meanwhile
                try:
                    self._put(target, _name(digest), raw, text.encode())
                    if made:
                        _sync(target.parent)
                except BaseException:
                    if made:
                        with suppress(OSError):
                            target.rmdir()
                    raise
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", target) from error

    def _put(self, folder: Path, name: str, raw: bytes, text: bytes) -> None:
        before = {one for one in os.listdir(folder) if self.is_ours(one)}
        try:
            write_whole(folder / name, raw)
            write_whole(folder / self.record, text)
        finally:
            with suppress(OSError):
                record = folder / self.record
                replaced = record.is_file() and record.read_bytes() == text
                for other in before - {name} if replaced else {name} - before:
                    (folder / other).unlink(missing_ok=True)

    def get(self, folder: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor], Path]:
        """The record, its tensors and their file. All that does not agree is refused with the file's name."""
        path = Path(folder)
        record = self.read_record(path)
        with suppress(InputError):
            return record, *self._read_tensors(path, record)
        with undisturbed(path):  # it may have been replaced in between, and the tensors have another name by now
            record = self.read_record(path)
            return record, *self._read_tensors(path, record)

    def read_record(self, path: Path) -> dict[str, Any]:
        """What the record says, if it is one."""
        if not os.path.isdir(path):  # that of a path is an error where its name is too long
            raise InputError(f"no such folder; expected one that {self.writer} wrote", path)
        file = path / self.record
        try:
            record = json.loads(self._read(file, MAX_RECORD).decode("utf-8"))
            if not isinstance(record, dict) or record.get("kind") != self.kind:
                raise InputError(f"not the record of {self.what}", file)
            if record.get("schema") != self.schema:
                raise InputError(f"schema {record.get('schema')!r:.80}; this version reads {self.schema}", file)
            if record.get("checksum") != checksum(record):
                raise InputError("the checksum differs from the one in it: the record was altered or cut short", file)
        except InputError:
            raise
        except (ValueError, RecursionError) as error:
            raise InputError(f"not a JSON record: {error}", file) from error
        return record

    def _read_tensors(self, path: Path, record: Mapping[str, Any]) -> tuple[dict[str, Tensor], Path]:
        from safetensors import SafetensorError
        from safetensors.torch import load as parse

        digest, name = record.get("sha256"), record.get("file")
        if not isinstance(digest, str) or name != _name(digest) or not re.fullmatch(_TENSORS, name):
            what = f"names {name!r:.80} as its tensors, expected a .safetensors file named after its checksum"
            raise InputError(what, path / self.record)
        file = path / name
        raw = self._read(file, MAX_TENSORS)
        if hashlib.sha256(raw).hexdigest() != digest:
            raise InputError("the checksum differs from the one in the record: the file was altered or cut short", file)
        try:
            tensors = dict(parse(raw))
        except (SafetensorError, *WRONG) as error:
            raise InputError(f"not a safetensors file: {error}", file) from error
        if listing(tensors) != record.get("tensors"):
            raise InputError("the tensors are not those that the record lists", file)
        return {key: tensors[key] for key in record["tensors"]}, file

    def _read(self, file: Path, limit: int) -> bytes:
        """A plain file of at most so many bytes."""
        try:
            found = file.stat()
            if not stat.S_ISREG(found.st_mode):  # a device or a pipe may have no end
                raise InputError("not a plain file", file)
            if found.st_size > limit:
                raise InputError(f"larger than {limit} bytes, too large for {self.what}", file)
            return file.read_bytes()
        except FileNotFoundError:
            held = f"holds no {self.what.removeprefix('a ')}" if file.name == self.record else "is not complete"
            raise InputError(f"missing; the folder {held}", file) from None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", file) from error
        except MemoryError as error:
            raise InputError(f"{found.st_size} bytes, more than fit into memory", file) from error


def _name(digest: str) -> str:
    return f"{digest[:16]}.safetensors"


@contextmanager
def _made(folder: Path) -> Iterator[bool]:
    """A folder that no other process writes to meanwhile, made if it is not there. True if it was made."""
    try:
        folder.mkdir(parents=True)
        made = True
    except FileExistsError:
        made = False
    with locked(folder):
        yield made


def write_whole(file: Path, raw: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after a crash."""
    scratch = file.with_name(f".{file.name}.{secrets.token_hex(6)}")
    try:
        with open(scratch, "xb") as stream:
            stream.write(raw)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(scratch, file)
        _sync(file.parent)
    finally:
        scratch.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Where a folder can be synced, the names in it have to last as well."""
    if hasattr(os, "O_DIRECTORY"):
        with suppress(PermissionError):  # of a folder that may be written to, but not looked at
            handle = os.open(folder, os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

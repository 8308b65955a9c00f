"""Files out, all or nothing: a text, or a folder of arrays, which is read back without running anything in it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from pyro_unsup.errors import InputError

VERSION = 1  # of the folders of arrays


@contextmanager
def write_text(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """A text file to write to, that appears under its name only when the block ends well. ``-`` is standard output."""
    if os.fspath(path) == "-":
        yield sys.stdout
        return
    target = Path(os.path.realpath(path))
    special = target.exists() and not target.is_file()  # a device or a pipe is written to, never replaced
    fresh = target if special else target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        with open(fresh, "w" if special else "x", encoding="utf-8", newline="\n") as stream:
            yield stream
        if not special:
            fresh.replace(target)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", path) from error
    finally:
        if not special:
            with suppress(OSError):  # what went wrong has been said
                fresh.unlink(missing_ok=True)


def write_arrays(
    folder: str | os.PathLike[str], kind: str, head: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> None:
    """Write ``kind.json`` and one ``.npy`` file an array, all or nothing. Only a folder of that kind is replaced."""
    with replacing(folder, kind) as fresh:
        for name, value in arrays.items():
            np.save(fresh / f"{name}.npy", value, allow_pickle=False)
        write_head(fresh, kind, head, arrays)


def write_head(folder: Path, kind: str, head: Mapping[str, Any], names: Iterable[str]) -> None:
    """Write ``kind.json``, which says what the arrays beside it are."""
    described = {"format": f"pyro_unsup.{kind}", "version": VERSION, "arrays": sorted(names), **head}
    (folder / f"{kind}.json").write_text(json.dumps(described), encoding="utf-8")


@contextmanager
def replacing(folder: str | os.PathLike[str], kind: str) -> Iterator[Path]:
    """A new folder to write to, that takes the place of ``folder`` when the block ends well."""
    target = Path(folder)
    fresh, old = (target.with_name(f".{target.name}.{secrets.token_hex(6)}") for _ in range(2))
    if os.path.lexists(target) and not _replaceable(target, kind):
        raise InputError(f"exists and is not a {kind} folder; choose another name or remove it", folder)
    try:
        fresh.mkdir(parents=True)
        yield fresh
        if target.exists():
            target.rename(old)
        fresh.rename(target)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", folder) from error
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _replaceable(target: Path, kind: str) -> bool:
    if target.is_symlink() or not target.is_dir():
        return False
    members = list(target.iterdir())
    if not all(one.is_file() and (one.suffix == ".npy" or one.name == f"{kind}.json") for one in members):
        return False
    head = target / f"{kind}.json"
    start = f'{{"format": "pyro_unsup.{kind}"'.encode()  # of the JSON file, since the format comes first
    return not members or (head.is_file() and head.read_bytes().startswith(start))


def read_arrays(
    folder: str | os.PathLike[str], kind: str, dtypes: Mapping[str, str], mmap: bool
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """What :func:`write_arrays` wrote: the description, and the arrays that it lists. Nothing is ever unpickled.

    :param dtypes: the dtype of each array that may be there.
    :param mmap: map the arrays from disk, copy on write, rather than read them.
    """
    path = Path(folder) / f"{kind}.json"
    try:
        head = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no {kind}.json here, expected a {kind} folder", folder) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError("cannot be read as JSON; save it again", path) from error
    if not isinstance(head, dict) or head.get("format") != f"pyro_unsup.{kind}":
        raise InputError(f"not a description of a {kind}; save it again", path)
    if head.get("version") != VERSION:
        raise InputError(
            f"version {head.get('version')!r}, expected {VERSION}; read it with the release that wrote it", path
        )
    names = head.get("arrays")
    if not isinstance(names, list) or not all(isinstance(name, str) and name in dtypes for name in names):
        raise InputError(f"expected arrays among {', '.join(dtypes)}; save it again", path)
    return head, {name: _load(Path(folder) / f"{name}.npy", dtypes[name], mmap) for name in names}


def _load(path: Path, dtype: str, mmap: bool) -> npt.NDArray[Any]:
    try:
        with open(path, "rb") as stream:
            is_array = stream.read(6) == b"\x93NUMPY"
        # A plain array again, not a memmap, and copy on write: so torch and numba take it as any other.
        array = np.asarray(np.load(path, mmap_mode="c" if mmap else None, allow_pickle=False)) if is_array else None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from error
    except Exception as error:  # a damaged header is parsed as Python by numpy, and may raise nearly anything
        raise InputError("is damaged; save it again", path) from error
    if array is None:
        raise InputError("not a .npy array; save it again", path)
    if array.dtype != np.dtype(dtype):
        raise InputError(f"expected an array of {np.dtype(dtype)}, found {array.dtype}; save it again", path)
    return array

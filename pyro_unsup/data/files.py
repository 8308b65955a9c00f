"""Files out, all or nothing: a text, or a folder of arrays, which is read back without running anything in it."""

from __future__ import annotations

import glob
import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from pyro_unsup.data.locks import locked, undisturbed
from pyro_unsup.data.opening import check_plain, read_plain
from pyro_unsup.errors import InputError

VERSION = 1  # of the folders of arrays
MAX_HEAD = 2 << 30  # bytes of a description, which holds a vocabulary


class _Text(TextIOWrapper):
    """A text that may begin with a byte order mark. Readers drop one, so it is written twice."""

    _begun = False

    def write(self, text: str, /) -> int:
        if text and not self._begun:
            self._begun = True
            if text.startswith("\ufeff"):
                super().write("\ufeff")
        return super().write(text)


@contextmanager
def write_text(path: str | os.PathLike[str] | TextIO) -> Iterator[TextIO]:
    """A text file to write to, that appears under its name only when the block ends well. ``-`` is standard output; a
    stream that is open already is written to as it is."""
    if not isinstance(path, str | os.PathLike) or os.fspath(path) == "-":
        yield sys.stdout if isinstance(path, str | os.PathLike) else path
        return
    target = Path(os.path.realpath(path))
    fresh, special = target.with_name(f".{target.name}.{secrets.token_hex(6)}"), False
    try:
        if target.exists() and not target.is_file():  # a device or a pipe is written to, never replaced
            fresh, special = target, True
        with _Text(open(fresh, "wb" if special else "xb"), encoding="utf-8", newline="\n") as stream:
            yield stream
        if not special:
            fresh.replace(target)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", path) from error
    except UnicodeEncodeError as error:
        what = f"{error.object[error.start : error.end]!r:.40} is no character"
        raise InputError(f"cannot be written: {what}; rename what holds it", path) from error
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
            with open(fresh / f"{name}.npy", "xb") as stream:
                # Not to the file itself: there numpy does not notice that a disk is full.
                np.save(SimpleNamespace(write=stream.write), value, allow_pickle=False)
        write_head(fresh, kind, head, arrays)


def write_head(folder: Path, kind: str, head: Mapping[str, Any], names: Iterable[str]) -> None:
    """Write ``kind.json``, which says what the arrays beside it are."""
    described = {"format": f"pyro_unsup.{kind}", "version": VERSION, "arrays": sorted(names), **head}
    (folder / f"{kind}.json").write_text(json.dumps(described), encoding="utf-8")


@contextmanager
def replacing(folder: str | os.PathLike[str], kind: str) -> Iterator[Path]:
    """A new folder to write to, that takes the place of ``folder`` when the block ends well.

    A process that is killed meanwhile leaves the old one under its name, or under that of :func:`_aside`, where it is
    found; what else it leaves goes the next time.
    """
    target = Path(folder)
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as held:
            with locked(target.parent):
                if os.path.lexists(target) and not _replaceable(target, kind):
                    raise InputError(f"exists and is not a {kind} folder; choose another name or remove it", folder)
                _tidy(target)
                fresh.mkdir()
                held.enter_context(locked(fresh))  # so that nobody takes it for litter
            yield fresh
            with locked(target.parent):
                _put_back(target)
                if target.exists():
                    target.rename(_aside(target))
                fresh.rename(target)
                shutil.rmtree(_aside(target), ignore_errors=True)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", folder) from error
    finally:
        with suppress(OSError), locked(target.parent):  # another may be between two names just now
            _put_back(target)
        shutil.rmtree(fresh, ignore_errors=True)


def _aside(target: Path) -> Path:
    """Where a folder is for the moment between its removal and the arrival of the new one."""
    return target.with_name(f".{target.name}.replaced")


def _put_back(target: Path) -> None:
    if _aside(target).exists() and not target.exists():
        _aside(target).rename(target)


def _tidy(target: Path) -> None:
    """Take away what processes that are no more have left behind."""
    _put_back(target)
    shutil.rmtree(_aside(target), ignore_errors=True)
    for one in target.parent.glob(f".{glob.escape(target.name)}.*"):
        if re.fullmatch(r"\.[0-9a-f]{12}", one.name.removeprefix(f".{target.name}")) and one.is_dir():
            with suppress(OSError), locked(one, wait=False) as free:
                if free:
                    shutil.rmtree(one, ignore_errors=True)


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
    path = Path(folder)
    before = _state(path)
    with suppress(InputError):
        found = _read_arrays(folder, kind, dtypes, mmap)
        if _state(path) == before:
            return found
    with undisturbed(path.parent):  # it may have been replaced meanwhile, and that have been some of both
        return _read_arrays(folder, kind, dtypes, mmap)


def _state(folder: Path) -> object:
    """What tells a folder from the one that takes its place."""
    try:
        found = _there(folder).stat()
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns


def _there(folder: Path) -> Path:
    return folder if folder.exists() or not _aside(folder).exists() else _aside(folder)


def _read_arrays(
    folder: str | os.PathLike[str], kind: str, dtypes: Mapping[str, str], mmap: bool
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    path = _there(Path(folder)) / f"{kind}.json"
    try:
        head = json.loads(read_plain(path, MAX_HEAD))
    except FileNotFoundError:
        raise InputError(f"no {kind}.json here, expected a {kind} folder", folder) from None
    except InputError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise InputError("cannot be read as JSON; save it again", path) from error
    if not isinstance(head, dict) or head.get("format") != f"pyro_unsup.{kind}":
        raise InputError(f"not a description of a {kind}; save it again", path)
    if head.get("version") != VERSION:
        raise InputError(
            f"version {head.get('version')!r:.80}, expected {VERSION}; read it with the release that wrote it", path
        )
    names = head.get("arrays")
    if not isinstance(names, list) or not all(isinstance(name, str) and name in dtypes for name in names):
        raise InputError(f"expected arrays among {', '.join(dtypes)}; save it again", path)
    return head, {name: _load(path.with_name(f"{name}.npy"), dtypes[name], mmap) for name in names}


def _load(path: Path, dtype: str, mmap: bool) -> npt.NDArray[Any]:
    try:
        check_plain(path)
        with open(path, "rb") as stream:
            is_array = stream.read(6) == b"\x93NUMPY"
        # A plain array again, not a memmap, and copy on write: so torch and numba take it as any other.
        array = np.asarray(np.load(path, mmap_mode="c" if mmap else None, allow_pickle=False)) if is_array else None
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from error
    except Exception as error:  # a damaged header is parsed as Python by numpy, and may raise nearly anything
        raise InputError("is damaged; save it again", path) from error
    if array is None:
        raise InputError("not a .npy array; save it again", path)
    if array.dtype != np.dtype(dtype):
        raise InputError(f"expected an array of {np.dtype(dtype)}, found {array.dtype}; save it again", path)
    return array

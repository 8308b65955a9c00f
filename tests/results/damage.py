"""Saved fits, and ways to spoil them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from safetensors.torch import load as parse
from safetensors.torch import save as to_bytes

import pyro_unsup as pu
from pyro_unsup import InputError
from pyro_unsup.results.record import checksum

Record = dict[str, Any]


@cache
def files(make: Callable[[], pu.Fit]) -> dict[str, bytes]:
    with TemporaryDirectory() as scratch:
        make().save(Path(scratch))
        return {one.name: one.read_bytes() for one in Path(scratch).iterdir()}


def put_back(folder: Path, make: Callable[[], pu.Fit]) -> None:
    """A fit as it was saved once: quicker than saving it again, which waits for the disk."""
    folder.mkdir(exist_ok=True)
    for one in folder.iterdir():
        one.unlink()
    for name, raw in files(make).items():
        (folder / name).write_bytes(raw)


def tensors_of(folder: Path) -> Path:
    return next(one for one in folder.iterdir() if one.suffix == ".safetensors")


def rewrite(folder: Path, change: Callable[[Record], Any] = lambda record: None, raw: bytes | None = None) -> None:
    """Change a saved fit as someone would who knows how it is made: all checksums are right again afterwards."""
    record = json.loads((folder / "fit.json").read_bytes())
    if raw is not None:
        tensors_of(folder).unlink()
        digest = hashlib.sha256(raw).hexdigest()
        record["sha256"], record["file"] = digest, f"{digest[:16]}.safetensors"
        (folder / record["file"]).write_bytes(raw)
    change(record)
    (folder / "fit.json").write_text(json.dumps({**record, "checksum": checksum(record)}))


def with_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any], relist: bool = True) -> None:
    """The same for tensors, the listing in the record included."""
    tensors = dict(parse(tensors_of(folder).read_bytes()))
    change(tensors)
    tensors = {name: x.contiguous() for name, x in tensors.items()}
    listing = {name: {"shape": list(x.shape), "dtype": str(x.dtype)} for name, x in tensors.items()}
    rewrite(folder, lambda record: record.update(tensors=listing) if relist else None, to_bytes(tensors))


def refused(folder: Path, says: str, model: Any = None) -> None:
    with pytest.raises(InputError, match=says) as caught:
        pu.load(folder, model)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    assert caught.value.path is not None

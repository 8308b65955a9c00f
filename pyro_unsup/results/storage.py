"""A fit on disk: a folder with ``fit.json`` and a file of safetensors. Never pickle; all of it or nothing.

``fit.json`` names a schema version, the model and how to build it, the file of tensors with its checksum, and for every
tensor its shape and dtype. Whatever does not agree is refused with the file's name. The tensors' file is named after its
checksum, so that replacing ``fit.json``, one atomic step, replaces the whole fit.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import models
from ..data import Vocab
from ..errors import InputError, UnsupError
from .fit import Fit
from .report import Report

SCHEMA = 1
RECORD, KIND = "fit.json", "pyro_unsup fit"
#: Nothing that belongs to a fit is larger than this; what is, is not read.
MAX_RECORD, MAX_TENSORS = 256 * 2**20, 64 * 2**30
GROUPS = ("weights", "points", "params")


def save(fit: Fit, folder: str | PathLike[str], overwrite: bool = False) -> None:
    """Write a fit into a new folder. An existing one is replaced only if asked to, and only if it holds a fit."""
    from safetensors.torch import save as to_bytes

    target = Path(folder)
    _may_write(target, overwrite)
    tensors = {
        f"{group}/{name}": x.detach().contiguous() for group in GROUPS for name, x in getattr(fit, group).items()
    }
    builder, extra = _describe(fit.model)
    tensors.update({f"model/{name}": x.contiguous() for name, x in extra.items()})
    raw = to_bytes(tensors)
    digest = hashlib.sha256(raw).hexdigest()
    record = {
        "schema": SCHEMA,
        "kind": KIND,
        "model": builder,
        "seed": fit.seed,
        "config": fit.config,
        "report": asdict(fit.report),
        "rows": fit.rows,
        "tensors": _listing(tensors),
        "file": f"{digest[:16]}.safetensors",
        "sha256": digest,
    }
    text = json.dumps(_plain(record), ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    if (target / RECORD).is_file():
        _write(target / record["file"], raw)
        _write(target / RECORD, text.encode())
        for old in target.glob("*.safetensors"):
            if old.name != record["file"]:
                old.unlink(missing_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        scratch.chmod(0o755)
        _write(scratch / record["file"], raw)
        _write(scratch / RECORD, text.encode())
        os.replace(scratch, target)  # an empty folder may be in its place
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def load(folder: str | PathLike[str], model: Callable[..., Any] | None = None) -> Fit:
    """Read a fit back. The files are data: nothing in them is run.

    :param model: needed for a model of your own, which a folder cannot hold; the library's models are rebuilt.
    """
    path = Path(folder)
    record = _read_record(path)
    file, tensors = _read_tensors(path, record)
    groups: dict[str, dict[str, Tensor]] = {group: {} for group in (*GROUPS, "model")}
    for key, x in tensors.items():
        group, _, name = key.partition("/")
        if group not in groups or not name:
            raise InputError(f"tensor '{key}' is of no known kind", file)
        groups[group][name] = x
    try:
        if model is None:
            model = _build(record["model"], groups["model"], path)
        rows = [{key: float(row[key]) for key in row} for row in record["rows"]]
        report = Report(**{f.name: record["report"][f.name] for f in fields(Report)})
        report.change, report.objective = float(report.change), float(report.objective)
        fit = Fit(model, groups["weights"], report, rows, int(record["seed"]), dict(record["config"]), groups["points"],
                  groups["params"])  # fmt: skip
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"the record does not describe a fit: {error!r}", path / RECORD) from error
    for name, x in fit.weights.items():
        if bool(torch.isnan(x).any()) or bool((x == torch.inf).any()):
            raise InputError(f"table '{name}' holds NaN or +inf", file)
    if hasattr(model, "declarations"):
        for name, declaration in model.declarations().items():
            if name not in fit.weights:
                raise InputError(f"table '{name}' of the model is missing", file)
            try:
                declaration.layout.check(name, fit.weights[name])
            except UnsupError as error:
                raise InputError(str(error), file) from error
    return fit


def _describe(model: Callable[..., Any]) -> tuple[dict[str, Any] | None, dict[str, Tensor]]:
    """How to build a model of the library again: plain settings and tensors; None for anyone else's."""
    if type(model).__name__ in models.__all__ and type(model) is getattr(models, type(model).__name__):
        settings, tensors = model.settings()  # type: ignore[attr-defined]
        return {"class": type(model).__name__, "settings": settings}, tensors
    return None, {}


def _build(builder: Mapping[str, Any] | None, tensors: dict[str, Tensor], path: Path) -> Callable[..., Any]:
    if builder is None:
        raise InputError("this fit is of a model of your own: pass it, load(folder, model=...)", path / RECORD)
    name = builder["class"]
    if name not in models.__all__:
        raise InputError(f"unknown model {name!r}; this version knows {', '.join(models.__all__)}", path / RECORD)
    settings = {
        key: Vocab(value["types"], value["unknown"]) if isinstance(value, dict) and "types" in value else value
        for key, value in builder["settings"].items()
    }
    try:
        built: Callable[..., Any] = getattr(models, name).from_settings(settings, tensors)
    except UnsupError as error:
        raise InputError(f"the model cannot be built: {error}", path / RECORD) from error
    return built


def _read_record(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise InputError("no such folder; expected one that fit.save or `pyro-unsup fit --out` wrote", path)
    raw = _bounded(path / RECORD, MAX_RECORD)
    try:
        record = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a JSON record: {error}", path / RECORD) from error
    if not isinstance(record, dict) or record.get("kind") != KIND:
        raise InputError("not the record of a fit", path / RECORD)
    if record.get("schema") != SCHEMA:
        raise InputError(f"schema {record.get('schema')!r}; this version reads {SCHEMA}", path / RECORD)
    return record


def _read_tensors(path: Path, record: Mapping[str, Any]) -> tuple[Path, dict[str, Tensor]]:
    from safetensors import SafetensorError
    from safetensors.torch import load as parse

    name = record.get("file")
    if not isinstance(name, str) or Path(name).name != name or not name.endswith(".safetensors"):
        raise InputError(f"names {name!r} as its tensors, expected a .safetensors file in the same folder", path / RECORD)
    file = path / name
    raw = _bounded(file, MAX_TENSORS)
    if hashlib.sha256(raw).hexdigest() != record.get("sha256"):
        raise InputError("the checksum differs from the one in the record: the file was altered or cut short", file)
    try:
        tensors = dict(parse(raw))
    except (SafetensorError, ValueError, KeyError) as error:
        raise InputError(f"not a safetensors file: {error}", file) from error
    if _listing(tensors) != record.get("tensors"):
        raise InputError("the tensors are not those that the record lists", file)
    return file, tensors


def _listing(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    return {name: {"shape": list(x.shape), "dtype": str(x.dtype)} for name, x in sorted(tensors.items())}


def _bounded(file: Path, limit: int) -> bytes:
    try:
        if file.stat().st_size > limit:
            raise InputError(f"larger than {limit} bytes, which no fit is", file)
        return file.read_bytes()
    except FileNotFoundError:
        raise InputError("missing: the folder does not hold a whole fit", file) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file) from error


def _may_write(target: Path, overwrite: bool) -> None:
    if target.is_dir() and not any(target.iterdir()):
        return
    if target.exists() or target.is_symlink():
        if not overwrite:
            raise InputError("exists already; choose another folder, or pass overwrite", target)
        if not (target / RECORD).is_file():
            raise InputError("exists and is not a fit, so it is not replaced; choose another folder", target)


def _write(file: Path, raw: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after a crash."""
    handle, scratch = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(raw)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(scratch, 0o644)
        os.replace(scratch, file)
    finally:
        Path(scratch).unlink(missing_ok=True)


def _plain(value: Any) -> Any:
    """Plain JSON: infinities become the strings that ``float`` reads back."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value

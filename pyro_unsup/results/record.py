"""What ``fit.json`` says: a fit in plain values, and the way back. Nothing that it says is run.

A record names a schema version, the model and how to build it, how training went, the file of tensors with its
checksum, and for every tensor its shape and dtype. The record has a checksum too, of everything else in it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import TableError, UnsupError
from ..estimate import FeatureNames, TablePosterior
from ..handlers import bare
from .building import build_estimators, build_model, describe_estimators, describe_model
from .fit import Fit
from .report import Report

SCHEMA, KIND = 2, "pyro_unsup fit"
GROUPS = ("weights", "points", "params", "unconstrained", "state", "memory")
#: What every row of a history has.
COLUMNS = ("iteration", "objective", "log_likelihood", "change", "seconds")
_NOT_FINITE: dict[str, Any] = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}

#: What plain values of the wrong kind, size or depth may raise where they are turned into something.
WRONG = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RuntimeError, MemoryError)


def describe(fit: Fit) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """A fit as plain values, and tensors by ``group/name``.

    :raises UnsupError: for what could not be read back.
    """
    builder, extra = describe_model(fit.model)
    names = {key: one.record() for key, one in fit.features.items()}
    numbers = {f"{key}.{part}": x for key, (_, tensors) in names.items() for part, x in tensors.items()}
    estimators, own = describe_estimators(fit.estimators)
    groups = {group: getattr(fit, group) for group in GROUPS}
    groups |= {"model": extra, "features": numbers, "estimators": own}
    # Copies: the format refuses tensors that share memory.
    tensors = {
        f"{group}/{name}": x.detach().clone(memory_format=torch.contiguous_format)
        for group, members in groups.items()
        for name, x in members.items()
    }
    record = plain(
        {
            "schema": SCHEMA,
            "kind": KIND,
            "model": builder,
            "seed": fit.seed,
            "config": fit.config,
            "report": asdict(fit.report),
            "rows": fit.rows,
            "features": {key: said for key, (said, _) in names.items()},
            "estimators": estimators,
            "posteriors": fit.posteriors,
            "tensors": listing(tensors),
        }
    )
    try:
        restore(json.loads(json.dumps(record, allow_nan=False)), tensors, None if builder else fit.model)
    except WRONG as error:
        raise UnsupError(f"this fit cannot be saved, for it could not be loaded again: {error}") from error
    return record, tensors


def restore(record: Mapping[str, Any], tensors: Mapping[str, Tensor], model: Callable[..., Any] | None) -> Fit:
    """A fit from what :func:`describe` made. Raises one of ``WRONG`` where the parts do not agree.

    :param model: the model, where the record cannot tell how to build it.
    """
    groups: dict[str, dict[str, Tensor]] = {group: {} for group in (*GROUPS, "model", "features", "estimators")}
    for key, x in tensors.items():
        group, _, name = key.partition("/")
        if group not in groups:
            raise UnsupError(f"tensor {key!r:.80} is of no known kind")
        groups[group][name] = x
    if model is None:
        model = build_model(record["model"], groups["model"], sum(x.numel() for x in tensors.values()))
    features = _features(record.get("features", {}), groups.pop("features"))
    estimators = build_estimators(record["estimators"], groups.pop("estimators"))
    del groups["model"]
    fit = Fit(
        model,
        report=_report(record["report"]),
        rows=_rows(record["rows"]),
        seed=int(record["seed"]),
        config={key: _NOT_FINITE.get(x, x) if isinstance(x, str) else x for key, x in record["config"].items()},
        **groups,  # type: ignore[arg-type]
        features=features,
        estimators=estimators,
        posteriors={name: TablePosterior(said) for name, said in record["posteriors"].items()},
    )
    check(fit)
    return fit


def check(fit: Fit) -> None:
    """Raise unless the tensors are those of a trained model, and the labels are names for its states."""
    for name, w in fit.weights.items():
        if w.dtype not in (torch.float64, torch.float32):
            raise TableError(f"table '{name}': expected log-weights in float64 or float32, actual {w.dtype}")
        if bool(torch.isnan(w).any()) or bool((w == torch.inf).any()):
            raise TableError(f"table '{name}' holds NaN or +inf")
    if len({w.dtype for w in fit.weights.values()}) > 1:
        raise TableError("expected tables of one dtype, actual float64 and float32 side by side")
    for group in ("points", "params", "unconstrained", "state", "memory"):
        for name, x in getattr(fit, group).items():
            if x.is_floating_point() and bool(torch.isnan(x.double()).any()):
                raise TableError(f"'{name}' holds NaN")
    for key, names in fit.features.items():
        if key not in fit.memory or fit.memory[key].shape != (len(names),):
            raise TableError(f"expected a weight for each of the {len(names)} features '{key}'")
    model: Any = bare(fit.model)
    if hasattr(model, "declarations"):
        declared = model.declarations()
        if declared.keys() != fit.weights.keys():
            raise TableError(f"the model has the tables {sorted(declared)}, the fit has {sorted(fit.weights)}")
        for name, declaration in declared.items():
            declaration.layout.check(name, fit.weights[name])
    labels, states = fit.config.get("labels", []), getattr(model, "states", None)
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise UnsupError("labels must be a list of strings")
    if labels and states is not None and len(labels) != states:
        raise UnsupError(f"expected {states} labels, one a state, actual {len(labels)}")


def listing(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Shape and dtype of every tensor, in the order of the tensors."""
    return {name: {"shape": list(x.shape), "dtype": str(x.dtype)} for name, x in tensors.items()}


def checksum(record: Mapping[str, Any]) -> str:
    """SHA-256 of all that a record says besides its checksum, however its text is laid out."""
    said = {key: value for key, value in record.items() if key != "checksum"}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def plain(value: Any) -> Any:
    """Plain JSON: infinities become the strings that ``float`` reads back."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def _features(found: Mapping[str, Any], numbers: Mapping[str, Tensor]) -> dict[str, FeatureNames]:
    features = {}
    for key, said in found.items():
        own = {name.removeprefix(f"{key}."): x for name, x in numbers.items() if name.startswith(f"{key}.")}
        features[key] = FeatureNames.of_record(said, own)
    return features


def _rows(found: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows = [{**row, **{key: _number(row[key]) for key in COLUMNS}, "iteration": int(row["iteration"])} for row in found]
    if not rows:
        raise UnsupError("the history is empty")
    # Columns of the user's own, such as scores, may miss values.
    return [{key: x if x is None else _number(x) for key, x in row.items()} for row in rows]


def _report(found: Mapping[str, Any]) -> Report:
    return Report(
        reason=found["reason"],
        iterations=int(found["iterations"]),
        seed=int(found["seed"]),
        unvisited={name: int(n) for name, n in found["unvisited"].items()},
        restarts=[_number(x) for x in found["restarts"]],
        probe=int(found.get("probe", 0)),
        objective=_number(found["objective"]),
        change=_number(found["change"]),
        tolerance=_number(found["tolerance"]),
        seconds=_number(found["seconds"]),
    )


def _number(value: Any) -> float:
    return value if isinstance(value, int) else float(value)

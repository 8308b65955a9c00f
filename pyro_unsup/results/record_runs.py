"""The runs of restarts in the record of a fit, and the way back.

The record of a fit with runs has a list ``runs``, in the order of their seeds. The best run, which is the fit itself,
is ``null`` there. The others say what the fit does not say for them: a key that is missing, and its tensors, are the
same as the fit's. Their tensors lie beside those of the fit, as ``runs/<number>/<group>/<name>``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

import torch
from torch import Tensor

from ..errors import UnsupError
from . import record as single
from .fit import Fit
from .record import listing

#: What a run may have in common with the fit, each with the group of its tensors.
SHARED = ("model", "config", "features", "estimators", "posteriors")
#: What every run has of its own.
OWN = ("seed", "report", "rows")


def describe(fit: Fit, runs: bool = True) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """A fit and its runs as plain values, and tensors.

    :param runs: whether to keep the runs.
    :raises UnsupError: for what could not be read back.
    """
    record, tensors = single.describe(fit)
    if not (runs and fit.runs):
        return record, tensors
    entries: list[dict[str, Any] | None] = []
    found = dict(tensors)
    for i, run in enumerate(fit.runs):
        if record["model"] is None and run.model is not fit.model:
            raise UnsupError(
                f"run {i} is of another model than the fit, and neither is registered: save them apart, or leave the "
                "runs out (runs=False)"
            )
        said, own = single.describe(run)
        # Compared as they are read back: the record has lists for tuples.
        if None not in entries and _same(said, record, SHARED + OWN) and _equal(own, tensors):
            entries.append(None)
            continue
        entry = {key: said[key] for key in OWN}
        for key in SHARED:
            mine, others = (_group(x, key) for x in (own, tensors))
            if _same(said, record, (key,)) and _equal(mine, others):
                own = {name: x for name, x in own.items() if name not in mine}
            else:
                entry[key] = said[key]
        entries.append(entry)
        found |= {f"runs/{i}/{name}": x for name, x in own.items()}
    return {**record, "runs": entries, "tensors": listing(found)}, found


def restore(record: Mapping[str, Any], tensors: Mapping[str, Tensor], model: Callable[..., Any] | None) -> Fit:
    """A fit with its runs from what :func:`describe` made. Raises one of ``WRONG`` where the parts do not agree.

    :param model: the model, where the record cannot tell how to build it.
    """
    of_fit: dict[str, Tensor] = {}
    of_runs: dict[str, dict[str, Tensor]] = {}
    for key, x in tensors.items():
        first, _, rest = key.partition("/")
        if first != "runs":
            of_fit[key] = x
            continue
        number, _, name = rest.partition("/")
        of_runs.setdefault(number, {})[name] = x
    entries = record.get("runs", [])
    if not isinstance(entries, list) or entries.count(None) > 1:
        raise UnsupError("expected a list of runs, of which at most one is the fit itself")
    if strange := of_runs.keys() - {str(i) for i, entry in enumerate(entries) if entry is not None}:
        raise UnsupError(f"tensors of the run {min(strange)!r:.40}, which the record does not list")
    fit = single.restore(record, of_fit, model)
    runs = []
    for i, entry in enumerate(entries):
        if entry is None:
            runs.append(copy(fit))
            continue
        if not isinstance(entry, dict) or not entry.keys() <= {*SHARED, *OWN} or not entry.keys() >= {*OWN}:
            raise UnsupError(f"run {i}: expected {', '.join(OWN)}, and perhaps {', '.join(SHARED)}")
        full = {**{key: record[key] for key in SHARED if key in record}, **entry}
        own = of_runs.get(str(i), {})
        for key in SHARED:
            if key not in entry:
                own |= _group(of_fit, key)
        try:
            # One model for all, as in training: so a record can never ask for more of them than it has tensors.
            runs.append(single.restore(full, own, None if entry.get("model") else fit.model))
        except UnsupError as error:
            raise type(error)(f"run {i}: {error}") from error
    fit.runs = tuple(runs)
    return fit


def _group(tensors: Mapping[str, Tensor], group: str) -> dict[str, Tensor]:
    return {name: x for name, x in tensors.items() if name.startswith(f"{group}/")}


def _same(one: Mapping[str, Any], other: Mapping[str, Any], keys: tuple[str, ...]) -> bool:
    """Whether both say the same, in type and value: NaN and infinities are strings here."""
    return all(repr(one[key]) == repr(other[key]) for key in keys)


def _equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        x.dtype == other[name].dtype and torch.equal(x, other[name]) for name, x in one.items()
    )

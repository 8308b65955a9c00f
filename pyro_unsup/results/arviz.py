"""Results as ArviZ data, for ArviZ 0.x (InferenceData) and 1.x (DataTree) alike."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..errors import UnsupError
from ..handlers import bare
from ..tables import Declaration
from .guide import run
from .table_posterior import is_point, table_posterior, to_table

if TYPE_CHECKING:
    from .fit import Fit

#: Columns of the history, and what they are called in ArviZ, where a ``log_likelihood`` is one of each observation.
HISTORY = {"objective": "objective", "log_likelihood": "total_log_likelihood", "change": "change"}
#: How many draws there are if nobody says; fewer, where they would have more numbers than this.
DRAWS, ROOM = 1000, 2**27


def from_groups(groups: dict[str, dict[str, Any]], **options: Any) -> Any:
    """``arviz.from_dict`` of groups of arrays with axes (chain, draw, ...), whichever way it wants to be called."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # ArviZ 0.23 announces its own successor on import
        warnings.simplefilter("ignore", DeprecationWarning)
        import arviz

        from_dict: Any = arviz.from_dict
        if "data" in inspect.signature(from_dict).parameters:
            return from_dict(groups, **options)
        return from_dict(**groups, **options)


def to_arviz(fit: Fit, args: Any, kwargs: Any, draws: int | None, seed: int) -> Any:
    """One chain of draws from what was learned, and the history beside it."""
    if draws is not None and (type(draws) is not int or draws < 1):
        raise UnsupError(f"draws must be a whole number, 1 or more, actual {draws!r:.80}")
    tables = _declarations(fit, args, kwargs)
    if draws is not None and tables is None:
        raise UnsupError(
            "give the data of a model of your own, to_arviz(data, draws=...): they tell the shapes of its tables"
        )
    parts = _parts(fit, tables or {})
    if draws is None and len(parts) == 1 and all(is_point(q) for q in parts[0].values()):
        found = {name: w.exp()[None] for name, w in fit.weights.items()}
    else:
        found = _drawn(fit, tables or {}, parts, _default(fit) if draws is None else draws, seed)
    size = draws or len(next(iter(found.values()), [0]))
    others = {name: x.expand(size, *x.shape) for name, x in {**fit.points, **fit.params}.items()}
    posterior = {name: np.asarray(x.detach())[None] for name, x in {**found, **others}.items()}
    return from_groups({"posterior": posterior, "sample_stats": _history(fit)}, **_named(tables or {}))


def _named(tables: Mapping[str, Declaration]) -> dict[str, Any]:
    """What the dimensions of dense tables are called, ``emission_tag``, and the labels along them.

    Each table has its own, for axes of one name may differ in length (tags that may follow, and the end beside them).
    """
    dims, coords = {}, {}
    for name, declaration in tables.items():
        if declaration.axes is not None and declaration.layout.row_lengths is None:
            dims[name] = [f"{name}_{axis.name}" for axis in declaration.axes]
            for axis, dim in zip(declaration.axes, dims[name], strict=True):
                labels = list(axis.labels)
                coords[dim] = labels if all(isinstance(x, int) for x in labels) else [str(x) for x in labels]
    return {"dims": dims, "coords": coords} if dims else {}


def _declarations(fit: Fit, args: Any, kwargs: Any) -> dict[str, Declaration] | None:
    """The tables of the model; None if only a run could tell, and there is nothing to run it on."""
    model: Any = bare(fit.model)
    if hasattr(model, "declarations"):
        known: dict[str, Declaration] = model.declarations()
        return known
    if not args and not kwargs and inspect.signature(model).parameters:
        return None
    with torch.random.fork_rng(devices=[]):
        return run(fit, *args, **kwargs)[0]


def _parts(fit: Fit, tables: Mapping[str, Declaration]) -> list[dict[str, Any]]:
    """q(theta) by table; of every component, if each has its own."""
    size = len(fit.state.get("lambda", [0]))
    apart = size > 1 and fit.component(1) is not fit
    return [
        {name: table_posterior(part, d, part.weights[name].dtype) for name, d in tables.items()}
        for part in ([fit.component(i) for i in range(size)] if apart else [fit])
    ]


def _default(fit: Fit) -> int:
    return min(DRAWS, max(1, ROOM // sum(w.numel() for w in fit.weights.values())))


def _drawn(
    fit: Fit, tables: Mapping[str, Declaration], parts: Sequence[Mapping[str, Any]], draws: int, seed: int
) -> dict[str, Tensor]:  # (draws, *layout.shape)
    """Tables as probabilities, and the component that each draw comes from."""
    shares = fit.state.get("lambda")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        component = torch.zeros(draws, dtype=torch.long)
        if shares is not None:
            component = torch.multinomial(shares, draws, replacement=True)
        found = {name: fit.weights[name].new_zeros(draws, *d.layout.shape) for name, d in tables.items()}
        for i, part in enumerate(parts):
            mine = (component == i).nonzero()[:, 0] if len(parts) > 1 else torch.arange(draws)
            for name, q in part.items():
                found[name][mine] = to_table(tables[name].layout, q.sample((len(mine),)))
    return found if shares is None else {**found, "component": component}


def _history(fit: Fit) -> dict[str, Any]:
    """What every iteration found, (1, iterations), and the coefficients of a mixture, (1, iterations, components)."""
    found = {HISTORY[key]: np.array([[row[key] for row in fit.rows]]) for key in HISTORY}
    size = len(fit.state.get("lambda", []))
    if size:
        found["lambda"] = np.array([[[row[f"lambda_{i}"] for i in range(size)] for row in fit.rows]])
    return found

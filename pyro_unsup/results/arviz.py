"""ArviZ objects from groups of arrays, for ArviZ 0.x (InferenceData) and 1.x (DataTree) alike."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UnsupError
from ..handlers import bare
from ..models.parameter_dims import parameter_dims
from ..tables import Axis, Declaration
from .fit_draws import FitDraws

if TYPE_CHECKING:
    import xarray

    from .fit import Fit

#: Columns of the history, and what they are called in ArviZ, where a ``log_likelihood`` is one of each observation.
HISTORY = {"objective": "objective", "log_likelihood": "total_log_likelihood", "change": "change"}
#: Ragged tables with more cells than this have no labels: to make them takes longer than anything else.
LABELLED = 100_000

Labels = Any  #: along the dimension of the same name; or (dimension, labels)


@contextmanager
def quiet_arviz() -> Iterator[Any]:
    """ArviZ, without what it says of its own future when it is imported and used."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        import arviz

        yield arviz


def dataset(
    values: Mapping[str, Any],
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Labels] | None = None,
    lead: Sequence[str] = ("chain", "draw"),
) -> xarray.Dataset:
    """One group: arrays by name, whose first axes are ``lead``.

    :param dims: by variable, the names of its other axes; by default ``{variable}_dim_0`` and so on.
    :param coords: by dimension, its labels; or by any other name (dimension, labels). Those of dimensions that are not
        here are left out, and a dimension without labels is numbered.

    >>> import numpy as np
    >>> from pyro_unsup.results.arviz import dataset
    >>> found = dataset({"start": np.zeros((2, 5, 3))}, {"start": ["tag"]}, {"tag": ["A", "B", "C"]})
    >>> dict(found.sizes), found["start"].sel(tag="B").shape
    ({'chain': 2, 'draw': 5, 'tag': 3}, (2, 5))
    """
    import xarray

    found = {}
    for name, value in values.items():
        array = np.asarray(value)
        own = list((dims or {}).get(name, [f"{name}_dim_{i}" for i in range(array.ndim - len(lead))]))
        found[name] = (([*lead, *own]), array)
    sizes = {d: n for names, array in found.values() for d, n in zip(names, array.shape, strict=True)}
    labels: dict[str, Any] = {d: np.arange(n) for d, n in sizes.items()}
    for name, given in (coords or {}).items():
        dim = given[0] if isinstance(given, tuple) else name
        if dim in sizes:
            labels[name] = (dim, np.asarray(given[1])) if isinstance(given, tuple) else np.asarray(given)
    return xarray.Dataset(found, coords=labels, attrs={"inference_library": "pyro_unsup"})


def as_arviz(groups: Mapping[str, xarray.Dataset]) -> Any:
    """The object that this ArviZ works with: an InferenceData before 1.0, a DataTree since."""
    with quiet_arviz() as arviz:
        if int(arviz.__version__.split(".")[0]) >= 1:
            import xarray

            return xarray.DataTree.from_dict(dict(groups))
        return arviz.InferenceData(**groups)


def from_groups(groups: Mapping[str, Mapping[str, Any]], **options: Any) -> Any:
    """An ArviZ object of groups of arrays with axes (chain, draw, ...).

    :param options: ``dims`` and ``coords``, as :func:`dataset` takes them.

    >>> import numpy as np
    >>> from pyro_unsup.results.arviz import from_groups
    >>> from_groups({"posterior": {"x": np.zeros((2, 5))}})["posterior"]["x"].shape
    (2, 5)
    """
    return as_arviz({name: dataset(values, **options) for name, values in groups.items()})


def group_of(data: Any, name: str) -> xarray.Dataset | None:
    """A group of an ArviZ object of any version; None if it does not have it."""
    if name not in (data.children if hasattr(data, "children") else data.groups()):
        return None
    group: xarray.Dataset = data[name].to_dataset() if hasattr(data, "children") else data[name]
    return group


def is_arviz(data: Any) -> bool:
    """Whether this is an ArviZ object of any version."""
    return type(data).__name__ in ("InferenceData", "DataTree")


def table_dims(tables: Mapping[str, Declaration]) -> tuple[dict[str, list[str]], dict[str, Labels]]:
    """What the dimensions of tables are called, ``emission_tag``, and the labels along them.

    Each table has its own, for axes of one name may differ in length (tags that may follow, and the end beside them).
    A ragged table has one dimension, ``translation_cell``, with labels of the row and the outcome, ``the / das``.
    """
    dims: dict[str, list[str]] = {}
    coords: dict[str, Labels] = {}
    for name, declaration in tables.items():
        axes, lengths = declaration.axes, declaration.layout.row_lengths
        if lengths is not None:
            dims[name] = [f"{name}_cell"]
            if axes is None or declaration.layout.shape.numel() > LABELLED:
                continue
            each = [_placed(axis, lengths) for axis in axes]
            coords[f"{name}_cell"] = [" / ".join(labels) for labels in zip(*each, strict=True)]
        elif axes is not None:
            dims[name] = [f"{name}_{axis.name}" for axis in axes]
            for axis, dim in zip(axes, dims[name], strict=True):
                labels = list(axis.labels)
                coords[dim] = labels if all(isinstance(x, int) for x in labels) else [str(x) for x in labels]
    return dims, coords


def named_dims(
    model: Any, tables: Mapping[str, Declaration], values: Mapping[str, Any], lead: int = 2
) -> tuple[dict[str, list[str]], dict[str, Labels]]:
    """The same of tables and of the parameters of a model of the library: ``loc`` has the dimension ``state``.

    :param values: arrays by name, whose first ``lead`` axes are chains and draws.
    """
    dims, coords = table_dims(tables)
    shapes = {name: tuple(np.shape(x))[lead:] for name, x in values.items()}
    return parameter_dims(bare(model), shapes) | dims, coords


def _placed(axis: Axis, lengths: Any) -> list[str]:
    """The label of an axis at every cell of a ragged table."""
    labels = [str(label) for label in axis.labels]
    places = np.repeat(np.arange(len(labels)), np.asarray(lengths)) if axis.cells is None else np.asarray(axis.cells)
    return [labels[k] for k in places.tolist()]


def check_draws(draws: Any) -> None:
    """Raise unless this is a number of draws, or None."""
    if draws is not None and (isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 1):
        raise UnsupError(f"draws must be a whole number, 1 or more, actual {draws!r:.80}")


def to_arviz(fit: Fit, args: Any, kwargs: Any, draws: int | None, seed: int) -> Any:
    """One chain of draws from what was learned, and the history of training beside it."""
    check_draws(draws)
    found = FitDraws(fit, args, kwargs, draws, seed)
    return as_arviz({"posterior": fit_posterior(found), "training": training(fit)})


def fit_posterior(drawn: FitDraws) -> xarray.Dataset:
    """The tables of a fit as probabilities, its parameters and hyperparameters, and the component that a draw is of."""
    values = {**drawn.take(0, drawn.size), **drawn.wide({**drawn.fit.params, **drawn.hyperparameters})}
    if drawn.component is not None:
        values["component"] = drawn.component
    arrays = {name: np.asarray(x.detach())[None] for name, x in values.items()}
    return dataset(arrays, *named_dims(drawn.fit.model, drawn.tables, arrays))


def training(fit: Fit) -> xarray.Dataset:
    """What every iteration found, (iterations,), and the coefficients of a mixture, (iterations, components)."""
    found = {HISTORY[key]: np.array([row[key] for row in fit.rows]) for key in HISTORY}
    dims: dict[str, list[str]] = {}
    size = len(fit.state.get("lambda", []))
    if size:
        found["lambda"] = np.array([[row[f"lambda_{i}"] for i in range(size)] for row in fit.rows])
        dims["lambda"] = ["component"]
    return dataset(found, dims, lead=["iteration"])

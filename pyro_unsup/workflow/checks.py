"""``predictive_check``: do data that the model draws look like those that were observed?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from ..errors import UnsupError
from ..handlers import bare
from ..results.arviz import group_of, is_arviz
from ..results.evaluation import own_task
from .arguments import check_mapping

if TYPE_CHECKING:
    import pandas

Array = np.ndarray[Any, Any]
#: From values (rows, ...) and lengths (examples,) to a number; or from values alone.
Statistic = Callable[..., float]


@dataclass(eq=False)
class PredictiveCheck:
    """Statistics of drawn data beside those of observed data.

    :param drawn: by statistic, (draws,).
    :param observed: by statistic, (draws,), the same number throughout if there is one observed data set.

    >>> import numpy as np
    >>> from pyro_unsup.workflow import PredictiveCheck
    >>> check = PredictiveCheck({"mean": np.arange(10.0)}, {"mean": np.full(10, 8.0)})
    >>> round(float(check.table.loc["mean", "p"]), 2)
    0.15
    """

    drawn: dict[str, Array]
    observed: dict[str, Array]

    @property
    def table(self) -> pandas.DataFrame:
        """A row a statistic: ``observed`` (its mean), ``mean`` and ``sd`` of drawn data, the middle 90 percent ``low``
        to ``high``, and ``p``: how often drawn data have more of it (ties count half). A p near 0 or 1 means that the
        model does not capture it."""
        import pandas

        rows = {}
        for name, x in self.drawn.items():
            low, high = np.quantile(x, [0.05, 0.95])
            more = (np.mean(x >= self.observed[name]) + np.mean(x > self.observed[name])) / 2
            rows[name] = {
                "observed": self.observed[name].mean(),
                "mean": x.mean(),
                "sd": x.std(),
                "low": low,
                "high": high,
                "p": more,
            }
        return pandas.DataFrame(rows).T

    def failing(self, level: float = 0.05) -> list[str]:
        """The statistics that the model does not capture.

        :param level: of both tails together.
        """
        p = self.table["p"]
        return [str(name) for name in p.index[(p < level / 2) | (p > 1 - level / 2)]]

    def plot(self) -> Any:
        """Histograms of the statistics of drawn data, with a line at the observed one; see :func:`.plot.check_plot`."""
        from ..plot import check_plot

        return check_plot(self.drawn, {name: float(x.mean()) for name, x in self.observed.items()})

    def __repr__(self) -> str:
        return str(self.table.round(3).to_string())


def _stacked(drawn: Any, variable: str | None) -> Any:
    """Draws of all chains on one axis, if ArviZ has them by chain."""
    if is_arviz(drawn):
        drawn = _variable(drawn, ("posterior_predictive", "prior_predictive"), variable)
    if {"chain", "draw"} <= set(getattr(drawn, "dims", ())):
        drawn = drawn.transpose("chain", "draw", ...).values
        return drawn.reshape(-1, *drawn.shape[2:])
    return drawn


def _variable(data: Any, names: Sequence[str], variable: str | None) -> Any:
    """A variable of the first of these groups that an ArviZ object has."""
    name = next((name for name in names if group_of(data, name) is not None), None)
    if name is None:
        raise UnsupError(
            f"the ArviZ object has no group {names[0]}: make it by pu.to_arviz(result, data), of a model that draws"
        )
    group: Any = group_of(data, name)
    found = list(group.data_vars)
    if variable is None and len(found) != 1:
        raise UnsupError(f"{name} has {', '.join(map(str, found))}: say which, as in variable={found[0]!r}")
    if variable is not None and variable not in found:
        raise UnsupError(f"{name} has no {variable!r:.80}: it has {', '.join(map(str, found))}")
    return group[found[0] if variable is None else variable]


def predictive_check(
    drawn: Any,
    observed: Any = None,
    statistics: Mapping[str, Statistic] | None = None,
    *,
    lengths: Any = None,
    model: Any = None,
    structure: bool = False,
    variable: str | None = None,
) -> PredictiveCheck:
    """Compare drawn data sets with the observed one by statistics of yours, or by those of the model's task.

    :param drawn: data sets, as Pyro's ``Predictive`` draws them: an array with draws on its first axis, or a list. Or
        an ArviZ object with a group ``posterior_predictive`` (or ``prior_predictive``), or a variable of it, with
        dimensions chain and draw.
    :param observed: the data: an array, lying flat; sentences, documents or series, which know their lengths; or as the
        model takes them, if it is given. None for those of the ArviZ object.
    :param statistics: by name, functions of ``values`` and ``lengths``, or of values alone; by default those of the
        model's task.
    :param lengths: of examples, if the data do not know them; by default all data are one example.
    :param model: whose task tells the statistics.
    :param structure: the drawn and the observed values are hidden structure, not data: tags, heads, ends of segments,
        states. ``drawn`` are structures that were drawn with new data. ``observed`` are structures of the observed
        data, (draws, rows): one for each draw, from the posterior.
    :param variable: of an ArviZ object that has several, which one.

    >>> import numpy as np, pyro_unsup as pu
    >>> rng = np.random.default_rng(0)
    >>> x = rng.gamma(1.0, size=200)  # skewed, as no normal is
    >>> drawn = rng.normal(x.mean(), x.std(), size=(500, 200))
    >>> pu.predictive_check(drawn, x, {"mean": np.mean, "smallest": np.min}).failing()
    ['smallest']
    >>> hmm = pu.models.HMM(2)
    >>> pu.predictive_check(drawn, x, model=hmm).table.index.tolist()
    ['mean', 'deviation', 'smallest', 'largest', 'autocorrelation']
    >>> corpus = pu.data.toy.sentences(20, seed=1)
    >>> tagger = pu.models.Tagger(tags=2, vocab=corpus.vocab)
    >>> fit = pu.EM(tagger, pu.DirichletVB()).run(corpus, iterations=5)
    >>> pu.predictive_check(pu.to_arviz(fit, corpus, draws=50), model=tagger).table.index.tolist()
    ['types', 'once_only', 'repeats']
    """
    check_mapping("statistics", statistics, "{'mean': np.mean}")
    chosen = _statistics(model, structure) if statistics is None else dict(statistics)
    if not chosen:
        raise UnsupError("no statistics: give some, as in {'mean': np.mean}")
    if observed is None:
        observed, lengths = _observed(drawn, variable, lengths)
    if model is not None and hasattr(model, "index") and not structure and not isinstance(observed, np.ndarray):
        observed = model.index(observed) if lengths is None else model.index(observed, lengths)
    drawn = _stacked(drawn, variable)
    if not hasattr(drawn, "__len__"):
        raise UnsupError(
            f"expected drawn data sets, actual {type(drawn).__name__}: draw them by pu.to_arviz(result, data), and "
            "give that"
        )
    sets = list(drawn) if not isinstance(drawn, Tensor | np.ndarray) else list(_numpy(drawn))
    if not sets:
        raise UnsupError("there are no drawn data sets: expected one or more")
    if structure:
        known = None if lengths is None else _numpy(lengths)
        seen = _paired(observed, len(sets))
        pairs = [(_flat(one, known), _flat(real, known)) for one, real in zip(sets, seen, strict=True)]
    else:
        real = _flat(observed, None if lengths is None else _numpy(lengths))
        pairs = [(_flat(one, real[1]), real) for one in sets]
    found = {name: np.array([_ask(name, how, *one) for one, _ in pairs]) for name, how in chosen.items()}
    if structure:
        truth = {name: np.array([_ask(name, how, *real) for _, real in pairs]) for name, how in chosen.items()}
    else:
        truth = {name: np.full(len(pairs), _ask(name, how, *pairs[0][1])) for name, how in chosen.items()}
    return PredictiveCheck(found, truth)


def _observed(data: Any, variable: str | None, lengths: Any) -> tuple[Array, Any]:
    """The observed data of an ArviZ object, and the lengths of its examples."""
    if not is_arviz(data):
        raise UnsupError(
            "the observed data are missing: predictive_check(drawn, observed); only an ArviZ object has both"
        )
    found = _variable(data, ("observed_data",), variable)
    owner = f"{found.name}_example"
    known = np.bincount(found.coords[owner].values) if lengths is None and owner in found.coords else lengths
    return np.asarray(found.values), known


def _statistics(model: Any, structure: bool) -> dict[str, Statistic]:
    task = None if model is None else own_task(bare(model))
    if task is None:
        raise UnsupError("no statistics: give some, as in {'mean': np.mean}, or the model, whose task has some")
    return dict(task.structure_statistics if structure else task.statistics)


def _flat(data: Any, lengths: Array | None) -> tuple[Array, Array]:
    """Values that lie flat, and the lengths of examples."""
    if hasattr(data, "cells"):  # documents, as words and their counts: words one by one
        cells, sizes = _numpy(data.cells), _numpy(data.lengths)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        total = np.bincount(owner, cells[:, 1], minlength=len(sizes)).astype(np.int64)
        return np.repeat(cells[:, 0], cells[:, 1]), total
    if hasattr(data, "words") and hasattr(data, "offsets"):
        return _numpy(data.words), np.diff(_numpy(data.offsets))
    if hasattr(data, "values") and hasattr(data, "lengths"):
        return _numpy(data.values), _numpy(data.lengths)
    if isinstance(data, Sequence) and len(data) and np.ndim(data[0]) > 0:
        parts = [_numpy(one) for one in data]
        return np.concatenate(parts), np.array([len(one) for one in parts])
    values = _numpy(data)
    sizes = np.array([len(values)]) if lengths is None else lengths
    if int(sizes.sum()) != len(values):
        raise UnsupError(
            f"lengths add up to {int(sizes.sum())}, actual {len(values)} values: a drawn data set should be as long as "
            "the observed one, lying flat"
        )
    return values, sizes


def _paired(observed: Any, size: int) -> list[Any]:
    found = list(observed)
    if len(found) != size:
        raise UnsupError(
            f"there are {size} drawn structures: expected as many structures of the observed data, one a draw; actual "
            f"{len(found)}"
        )
    return found


def _ask(name: str, how: Statistic, values: Array, lengths: Array) -> float:
    try:
        many = len([p for p in inspect.signature(how).parameters.values() if p.default is p.empty])
    except (TypeError, ValueError):  # a function of numpy, of values alone
        many = 1
    found = how(values, lengths) if many > 1 else how(values)
    try:
        return float(found)
    except (TypeError, ValueError):
        raise UnsupError(f"statistic '{name}' should return a number, actual {found!r:.80}") from None


def _numpy(x: Any) -> Array:
    return np.asarray(x.detach() if isinstance(x, Tensor) else x)

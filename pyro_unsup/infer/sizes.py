"""``compare_sizes``: how many states? Fits of several sizes side by side, with held-out likelihood."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..errors import FitError, UnsupError
from ..estimate import AddLambda
from ..models.base import Model
from ..results import Fit
from ..results.criteria import criteria, free_parameters, log_prior_of_points
from .em import EM
from .examples import Examples
from .progress import progress_bar

if TYPE_CHECKING:
    import pandas


def compare_sizes(
    model: Any,
    data: Any,
    sizes: Iterable[int],
    *,
    engine: Callable[..., Any] | None = None,
    folds: int = 5,
    block: int | None = None,
    restarts: int = 1,
    seed: int = 0,
    progress: bool | None = None,
    **run: Any,
) -> pandas.DataFrame:
    """Train models of several sizes, and compare them: a row a size, with criteria and held-out log-likelihood.

    ``held_out`` is the log-likelihood of an observation that training has not seen, on average over all folds. Higher
    is better. Of ``aic``, ``bic`` and ``icl``, lower is better; a model of your own with enumerated variables has none.

    Of series, blocks of time are hidden as missing values and predicted from all other observations: one long series
    has no other series to be held out. Of all other data, whole examples are held out: sentences, documents, rows.

    :param model: with a method ``with_states``, such as :class:`.models.HMM`, :class:`.models.Tagger` and
        :class:`.models.Clusterer`; or a function from a size to a model.
    :param data: as the model takes them.
    :param sizes: numbers of states.
    :param engine: from a model to an engine. By default :class:`.EM`; of texts with :class:`.AddLambda`, for a word
        that is in held-out sentences only would have probability zero.
    :param folds: how many parts are held out in turn; 0 for none.
    :param block: of series, how many observations in a row are held out together; if it is not given, about a
        twentieth of a fold.
    :param restarts: random starts of every fit.
    :param seed: of the starts, and of the choice of blocks.
    :param progress: show a bar; by default where there is a terminal.
    :param run: further options of ``engine.run``.

    >>> import torch
    >>> import pyro_unsup as pu
    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <torch...>
    >>> x = torch.cat([torch.randn(60) - 3, torch.randn(60) + 3, torch.randn(60) - 3])
    >>> table = pu.compare_sizes(pu.models.HMM(1), x, [1, 2], folds=3, progress=False)
    >>> list(table.columns)
    ['states', 'log_likelihood', 'parameters', 'observations', 'aic', 'bic', 'icl', 'converged', 'held_out']
    >>> int(table.set_index("states")["held_out"].idxmax())
    2
    >>> texts = [[0, 1, 0, 0, 1], [0, 0, 1, 1], [2, 3, 3, 2], [3, 2, 2, 3]] * 4
    >>> table = pu.compare_sizes(pu.models.Clusterer(1, 4), texts, [1, 2], folds=4, progress=False)
    >>> int(table.set_index("states")["held_out"].idxmax())
    2
    """
    import pandas

    make = getattr(model, "with_states", model)
    if isinstance(model, Model) and make is model:
        raise FitError(f"{model!r:.120} has no number of states that could be another one: it has no with_states")
    rows = []
    if not isinstance(sizes, Iterable):
        raise FitError(f"sizes must be a list of numbers, as in [2, 3, 4], actual {sizes!r:.80}")
    wanted = list(sizes)
    if make is not model and (wrong := [size for size in wanted if type(size) is not int or size < 1]):
        raise FitError(f"sizes must be whole numbers, 1 or more, actual {wrong[0]!r:.80}")
    if not wanted:
        raise FitError("compare_sizes needs at least one size")
    with progress_bar(shown=progress, total=len(wanted) * (1 + folds), unit="fit") as bar:
        for size in wanted:
            one = make(size)
            examples = one.index(data) if hasattr(one, "index") else data
            how = _usual(examples) if engine is None else engine

            def train(part: Any, one: Any = one, how: Any = how) -> Fit:
                fit: Fit = how(one).run(part, restarts=restarts, seed=seed, progress=False, **run)
                bar.update()
                return fit

            fit = train(examples)
            row: dict[str, Any] = {"states": size, **_criteria(fit, examples), "converged": fit.report.converged}
            if folds and hasattr(examples, "without"):
                row["held_out"] = _held_out(examples, train, folds, block, seed)
            elif folds:
                row["held_out"] = _held_out_examples(one, examples, train, folds, seed)
            rows.append(row)
    return pandas.DataFrame(rows)


def _usual(examples: Any) -> Callable[..., Any]:
    """EM: of series and of data of a model of one's own as it is, of texts with a little of every word."""
    words = hasattr(examples, "words") or hasattr(examples, "cells")
    return (lambda model: EM(model, AddLambda(0.1))) if words else EM


def _criteria(fit: Fit, examples: Any) -> dict[str, Any]:
    """Of a model with structured distributions; of others what there is without one."""
    try:
        return criteria(fit, examples)
    except UnsupError:
        log_p = fit.log_likelihood(examples) - log_prior_of_points(fit, examples)
        return {"log_likelihood": log_p, "parameters": free_parameters(fit)}


def _held_out(series: Any, train: Callable[[Any], Fit], folds: int, block: int | None, seed: int) -> float:
    """The mean log-likelihood of held-out observations, given all others."""
    total, many = 0.0, 0
    for hidden in held_out_blocks(series.observed, folds, block, seed):
        known = series.without(hidden)
        fit = train(known)
        total += fit.log_likelihood(series) - fit.log_likelihood(known)
        many += int(hidden.sum())
    return total / max(many, 1)


def _held_out_examples(model: Any, data: Any, train: Callable[[Any], Fit], folds: int, seed: int) -> float:
    """The mean log-likelihood of observations in held-out examples."""
    examples = Examples.of(model, (data,), {})
    total, many = 0.0, 0
    parts = example_folds(examples.size, folds, seed)
    for k, held in enumerate(parts):
        rest = torch.cat([part for i, part in enumerate(parts) if i != k]).sort().values
        fit = train(*examples.select(rest.numpy()))
        (new,) = examples.select(held.numpy())
        found = _criteria(fit, new)
        total += found["log_likelihood"]
        many += int(found.get("observations", len(held)))
    return total / max(many, 1)


def example_folds(size: int, folds: int, seed: int) -> list[Tensor]:
    """The examples of each fold, dealt out at random."""
    if not 2 <= folds <= size:
        raise FitError(f"folds must be 2 or more, and at most as many as the {size} examples; actual {folds}")
    order = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    return [part.sort().values for part in order.tensor_split(folds)]


def held_out_blocks(observed: Tensor, folds: int, block: int | None, seed: int) -> list[Tensor]:  # (N,) -> (N,) each
    """Which observations are held out in each fold: blocks of time, dealt out at random."""
    n = len(observed)
    size = max(1, n // (20 * folds)) if block is None else block
    blocks = -(-n // size)
    if folds < 2 or blocks < folds:
        raise FitError(f"{folds} folds need at least 2, and as many blocks: there are {blocks} of {size} observations")
    order = torch.randperm(blocks, generator=torch.Generator().manual_seed(seed)) % folds
    fold = order.repeat_interleave(size)[:n]
    return [(fold == k) & observed for k in range(folds)]

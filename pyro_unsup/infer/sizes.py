"""``compare_sizes``: how many states? Fits of several sizes side by side, with held-out likelihood."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from ..errors import FitError
from ..results import Fit
from ..results.criteria import criteria
from .em import EM

if TYPE_CHECKING:
    import pandas


def compare_sizes(
    model: Any,
    data: Any,
    sizes: Iterable[int],
    *,
    engine: Callable[..., Any] = EM,
    folds: int = 5,
    block: int | None = None,
    restarts: int = 1,
    seed: int = 0,
    progress: bool | None = None,
    **run: Any,
) -> pandas.DataFrame:
    """Train models of several sizes, and compare them: a row a size, with criteria and held-out log-likelihood.

    Held-out observations are hidden as missing values, in blocks of time, and predicted from all others: one long
    series has no other series to be held out. ``held_out`` is the log-likelihood of an observation, on average over
    all folds. Higher is better. Of ``aic``, ``bic`` and ``icl``, lower is better.

    :param model: with a method ``with_states``, such as :class:`.models.HMM`; or a function from a size to a model.
    :param data: as the model takes them.
    :param sizes: numbers of states.
    :param engine: from a model to an engine.
    :param folds: how many parts are held out in turn; 0 for none.
    :param block: how many observations in a row are held out together; if it is not given, about a twentieth of a fold.
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
    """
    import pandas

    make = getattr(model, "with_states", model)
    rows = []
    wanted = list(sizes)
    if not wanted:
        raise FitError("compare_sizes needs at least one size")
    with tqdm(total=len(wanted) * (1 + folds), disable=None if progress is None else not progress) as bar:
        for size in wanted:
            one = make(size)
            series = one.index(data)

            def train(part: Any, one: Any = one) -> Fit:
                fit: Fit = engine(one).run(part, restarts=restarts, seed=seed, progress=False, **run)
                bar.update()
                return fit

            fit = train(series)
            row: dict[str, Any] = {"states": size, **criteria(fit, series), "converged": fit.report.converged}
            if folds:
                row["held_out"] = _held_out(series, train, folds, block, seed)
            rows.append(row)
    return pandas.DataFrame(rows)


def _held_out(series: Any, train: Callable[[Any], Fit], folds: int, block: int | None, seed: int) -> float:
    """The mean log-likelihood of held-out observations, given all others."""
    if not hasattr(series, "without"):
        raise FitError("held-out likelihood needs data with gaps, as those of an HMM: give folds=0")
    total, many = 0.0, 0
    for hidden in held_out_blocks(series.observed, folds, block, seed):
        known = series.without(hidden)
        fit = train(known)
        total += fit.log_likelihood(series) - fit.log_likelihood(known)
        many += int(hidden.sum())
    return total / max(many, 1)


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

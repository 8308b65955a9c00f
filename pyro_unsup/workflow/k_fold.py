"""``k_fold``: cross-validation by refits, through any engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import UnsupError
from ..infer.sizes import example_folds, held_out_blocks
from ..models.series import Series
from .arguments import check_mapping, check_model, check_processes, check_seed, check_whole, own_errors
from .elpd import ROOM, Elpd, Predictive, log_mean
from .engines import Engine, check_engine, infer
from .parallel import in_order


@own_errors()
def k_fold(
    model: Any,
    data: Any,
    engine: Engine,
    *,
    folds: int = 5,
    block: int | None = None,
    draws: int = 500,
    processes: int | None = 1,
    seed: int = 0,
    progress: bool | None = None,
    run: Mapping[str, Any] | None = None,
) -> Elpd:
    """Hold out a part of the data, train on the rest, and see how probable the part is; each part in turn.

    Examples are held out at random: sentences, documents, series, or the rows of a tensor. One long series has no other
    series to be held out. There, blocks of time are hidden as missing values, as :func:`.compare_sizes` does, and
    predicted from all other observations.

    The density of held-out data is averaged over the draws of the engine: log mean p(x | theta). A point estimate, as
    of EM, is one draw.

    :param model: as the engine takes it.
    :param data: as the model takes them; a model of your own takes a tensor whose first axis are examples, or anything
        with ``len`` and ``select(numbers)``.
    :param engine: ``"nuts"``, ``"gibbs"``, ``"vb"``; or a function from the model to an object with ``run(data)``, such
        as ``pu.EM``.
    :param folds: how many parts; as many as there are examples for leave-one-out.
    :param block: of series, how many observations in a row are held out together. If it is given, blocks are held out
        of several series, too.
    :param draws: from a fit, which can give any number.
    :param processes: folds at a time.
    :param seed: of the choice of folds, and of the engine. Models are compared on the same folds by the same seed.
    :param progress: show a bar; by default where there is a terminal.
    :param run: options of the engine's ``run``; of ``"nuts"``, ``draws`` and ``warmup``.
    :return: :class:`.Elpd` with a row an example: ``fold``, ``example`` (or, of blocks, ``start`` and ``end``),
        ``elpd``.

    >>> import pyro_unsup as pu
    >>> texts = [[0, 1, 0, 0], [0, 0, 1, 1], [2, 3, 3, 2], [3, 2, 2, 3]] * 3
    >>> one, two = (pu.k_fold(pu.models.Clusterer(k, 4), texts, "gibbs", folds=3, run={"sweeps": 60}, progress=False)
    ...             for k in (1, 2))
    >>> list(two.frame.columns), two.compare(one)[0] > 0
    (['fold', 'example', 'elpd'], True)
    """
    import pandas

    check_model("k_fold", model)
    check_engine(engine)
    check_whole("folds", folds, 2)
    check_whole("draws", draws)
    check_processes(processes)
    check_seed(seed)
    check_mapping("run", run, "run={'draws': 500}")
    examples = model.index(data) if hasattr(model, "index") else data
    by_block = isinstance(examples, Series) and (block is not None or len(examples) == 1)
    if block is not None and not by_block:
        raise UnsupError("block is for series, whose observations can be missing: leave it out")
    one = _Fold(model, examples, engine, draws, seed, dict(run or {}))
    rows: list[dict[str, Any]] = []
    if by_block:
        masks = held_out_blocks(examples.observed, folds, block, seed)
        for k, found in in_order(_Blocks(one, masks), range(folds), processes, "fold", progress):
            rows += [{"fold": k, **row} for row in found]
    else:
        parts = example_folds(len(examples), folds, seed)
        for k, found in in_order(_Examples(one, parts), range(folds), processes, "fold", progress):
            rows += [{"fold": k, **row} for row in found]
    frame = pandas.DataFrame(rows).sort_values("start" if by_block else "example", ignore_index=True)
    return Elpd(frame, f"{folds}-fold cross-validation")


class _Fold:
    """What training needs."""

    def __init__(self, model: Any, examples: Any, engine: Engine, draws: int, seed: int, run: dict[str, Any]) -> None:
        self.model, self.examples, self.engine = model, examples, engine
        self.draws, self.seed, self.run = draws, seed, run

    def train(self, data: Any) -> Predictive:
        result = infer(self.engine, self.model, (data,), self.seed, self.run, draws=self.draws)
        return Predictive(self.model, result, (data,), self.draws, self.seed)


class _Examples:
    """Examples that are held out."""

    def __init__(self, fold: _Fold, parts: list[Tensor]) -> None:
        self.fold, self.parts = fold, parts

    def __call__(self, k: int) -> list[dict[str, Any]]:
        held = self.parts[k]
        rest = torch.cat([part for i, part in enumerate(self.parts) if i != k]).sort().values
        found = self.fold.train(select(self.fold.examples, rest)).pointwise(select(self.fold.examples, held))
        if found.shape[1] != len(held):
            raise UnsupError(
                f"the model has {found.shape[1]} log-likelihoods for {len(held)} examples: cross-validation needs one "
                "an example"
            )
        each = zip(held.tolist(), log_mean(found).tolist(), strict=True)
        return [{"example": example, "elpd": elpd} for example, elpd in each]


class _Blocks:
    """Blocks of time that are held out."""

    def __init__(self, fold: _Fold, masks: list[Tensor]) -> None:
        self.fold, self.masks = fold, masks

    def __call__(self, k: int) -> list[dict[str, Any]]:
        series: Series = self.fold.examples
        hidden = self.masks[k]
        known = series.without(hidden)
        fitted = self.fold.train(known)
        blocks = runs_of(hidden, series.offsets)
        least = fitted.pointwise(known).sum(1)  # (draws,)
        rows = []
        at_a_time = max(1, ROOM // max(1, fitted.size * series.tokens))
        for at in range(0, len(blocks), at_a_time):
            some = blocks[at : at + at_a_time]
            shown = [_showing(series, hidden, block) for block in some]  # all that is known, and one block
            every = Series(torch.cat([one.values for one in shown]), series.lengths.repeat(len(some)))
            found = fitted.pointwise(every).reshape(fitted.size, len(some), len(series)).sum(-1)
            for (start, end), elpd in zip(some, log_mean(found - least[:, None]).tolist(), strict=True):
                rows.append({"start": start, "end": end, "elpd": elpd})
        return rows


def select(examples: Any, which: Tensor) -> Any:
    """Some of the examples."""
    if isinstance(examples, Tensor | np.ndarray):
        return examples[which]
    if hasattr(examples, "select"):
        return examples.select(which)
    if isinstance(examples, list):
        return [examples[i] for i in which.tolist()]
    raise UnsupError(
        f"examples of {type(examples).__name__} cannot be selected: expected a tensor, a list, or an object with len "
        "and select(numbers)"
    )


def runs_of(mask: Tensor, offsets: Tensor) -> list[tuple[int, int]]:  # (N,) bool
    """Where runs of true values begin and end, cut where a series ends.

    >>> import torch
    >>> from pyro_unsup.workflow.k_fold import runs_of
    >>> runs_of(torch.tensor([0, 1, 1, 1, 0, 1]).bool(), torch.tensor([0, 2, 6]))
    [(1, 2), (2, 4), (5, 6)]
    """
    starts = torch.zeros(len(mask) + 1, dtype=torch.bool)
    starts[offsets.long()] = True
    inside = mask.tolist()
    begins = [i for i, yes in enumerate(inside) if yes and (starts[i] or not inside[i - 1])]
    ends = [i + 1 for i, yes in enumerate(inside) if yes and (starts[i + 1] or not inside[i + 1])]
    return list(zip(begins, ends, strict=True))


def _showing(series: Series, hidden: Tensor, block: tuple[int, int]) -> Series:
    mask = hidden.clone()
    mask[block[0] : block[1]] = False
    return series.without(mask)

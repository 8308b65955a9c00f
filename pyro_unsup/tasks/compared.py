"""Several fits of one task side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

import pyro_unsup as pu

from .reported import EXAMPLES, LONG

if TYPE_CHECKING:
    from ..evaluate import SignTest
    from ..report.values import Example
    from ..results import Fit
    from .task import Task

#: Examples that are looked at for differences, if there is no gold.
LOOKED_AT = 100
#: Examples without which no sign test could find anything at the usual level.
FEWEST = 6


@dataclass(frozen=True)
class Compared:
    """What a comparison found.

    :param scores: by model, its scores; none without gold.
    :param baselines: by baseline, its scores.
    :param tests: by pair of models, the sign test over examples.
    :param differing: examples that are drawn, by model.
    :param size: of the data that were scored.
    """

    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    tests: Mapping[tuple[str, str], SignTest] = field(default_factory=dict)
    differing: Sequence[Mapping[str, Example]] = ()
    size: str = ""


def compared(
    task: Task,
    fits: Mapping[str, Fit],
    data: Any = None,
    gold: Any = None,
    out: str | PathLike[str] | None = None,
    *,
    command: str = "",
    **options: Any,
) -> Compared:
    """Compare fits of one task, and write a page of it.

    :param fits: by name.
    :param data: what examples are drawn from; those of ``gold``, if there are none.
    :param out: a file to write the page to.
    :param command: what made the page, as it says.
    :param options: for decoding.
    """
    from ..report.compare_page import compare_page

    task.check_comparable(fits)
    first = next(iter(fits.values()))
    data, gold = (None if one is None else task.taken(first, one) for one in (data, gold))
    if gold is None and data is not None and task.has_gold(data):
        gold = data
    scores: dict[str, Any] = {}
    points: dict[str, Any] = {}
    named = dict(fits)
    if gold is not None:
        for name, fit in fits.items():
            decoded = task.decode(fit, gold, **options)
            task.check_known(gold, decoded)
            named[name] = task.named(fit, gold, decoded)
            scores[name], points[name] = task.scores(fit, gold, decoded), task.by_example(fit, gold, decoded)
    known = points and all(one is not None for one in points.values())
    tested = known and len(next(iter(points.values()))) >= FEWEST
    tests = {pair: sign_test(*(points[name] for name in pair)) for pair in combinations(fits, 2)} if tested else {}
    some = gold if data is None else data
    differing: Sequence[Mapping[str, Any]] = ()
    if some is not None:
        numbers = task.choose(some, LOOKED_AT)
        if known and data is None:
            numbers = widest(np.stack(list(points.values())), getattr(some, "lengths", None)) or numbers
        differing = differences(task, named, some, numbers, **options)
    beside = {} if gold is None else task.baselines(gold)
    found = Compared(scores, beside, tests, differing, "" if gold is None else task.size(gold))
    if out is not None:
        with pu.data.files.write_text(out) as stream:
            stream.write(compare_page(task, fits, found, command))
    return found


def sign_test(first: Any, second: Any) -> SignTest:  # (examples,) both
    """The sign test over examples: each is won by the model with more points."""
    lead = np.sign(np.asarray(first, np.float64) - np.asarray(second, np.float64))
    # An example is right for whoever is not behind on it.
    behind, ahead = (side.astype(np.int64) for side in (lead < 0, lead > 0))
    return pu.evaluate.sign_test_tokens(np.zeros_like(behind), behind, ahead)


def widest(points: Any, lengths: Any) -> list[int]:  # (models, examples)
    """Examples on which models differ most; not too long ones first."""
    with np.errstate(invalid="ignore"):
        spread = np.nan_to_num(points.max(0) - points.min(0))
    long = np.zeros(len(spread), bool) if lengths is None else np.asarray(lengths) > LONG
    order = np.lexsort((np.arange(len(spread)), -spread, long))
    return [int(i) for i in order if spread[i] > 0][:EXAMPLES]


def differences(
    task: Task, fits: Mapping[str, Fit], data: Any, numbers: Sequence[int], **options: Any
) -> list[dict[str, Example]]:
    """Examples on which at least two models found something else, drawn by every model."""
    drawn = {name: task.illustrated(fit, data, numbers, **options) for name, fit in fits.items()}
    every = [dict(zip(drawn, row, strict=True)) for row in zip(*drawn.values(), strict=False)]
    return [one for one in every if len({(e.parts, e.verdict) for e in one.values()}) > 1][:EXAMPLES]

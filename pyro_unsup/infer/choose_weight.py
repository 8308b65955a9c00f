"""Choosing the weight of preferences by the likelihood of held-out data, without labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import FitError, UnsupError
from ..handlers.parts import Component
from ..handlers.prefer import prefer
from ..results import Fit
from .progress import progress_bar
from .select import Selection

if TYPE_CHECKING:
    from .engine import Engine

#: From no preference to one that multiplies a part by 55.
WEIGHTS = (0.0, 0.5, 1.0, 2.0, 4.0)


def choose_weight(
    engine: Callable[[Any], Engine],
    model: Callable[..., Any],
    rules: Component | Sequence[Component],
    data: Any,
    held_out: Any,
    *,
    weights: Sequence[float] = WEIGHTS,
    score: Callable[[Fit], float] | None = None,
    progress: bool = True,
    **run: Any,
) -> Selection:
    """Train under preferences of several weights, and take the one whose model alone explains held-out data best.

    The likelihood is that of the model without its preferences: they help to find weights of tables, and then have to
    do without help. So it can be compared from weight to weight, and with weight 0, the model that prefers nothing.

    Likelihood tells how well sequences are predicted. It does not tell which structure is right. Two grammars that
    predict a text equally well may disagree on every tree. On four treebanks it chose no rules three times, and once
    a weight of 0.5, with trees far worse than under a weight of 2 (``python -m benchmarks.grammar_weights``). So use it
    to see what rules cost in prediction. If you believe the rules and want trees, keep a weight of about 2.

    :param engine: from the model under preferences to the engine that trains it.
    :param model: without preferences.
    :param rules: as for :func:`.prefer`.
    :param data: what is learned from.
    :param held_out: what the likelihood is taken of, in the vocabulary of the data (``Corpus.with_vocab``).
    :param weights: what to try.
    :param score: called with each final fit, to see how likelihood and score go together. It does not choose.
    :param progress: show how far it is.
    :param run: for the engine's ``run``, such as ``iterations`` and ``restarts``.

    >>> import pyro_unsup as pu
    >>> corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(120, seed=1), max_length=8, drop=["PUNCT"])
    >>> data, held_out = corpus.select(range(60)), corpus.select(range(60, len(corpus)))
    >>> plain = pu.models.DMV.of(corpus)
    >>> engine = lambda model: pu.EM(model, pu.AddLambda(1.0), plain.harmonic_start(data))
    >>> found = pu.choose_weight(engine, plain, pu.components.universal(), data, held_out, weights=[0, 2], iterations=9)
    >>> [row["weight"] for row in found.rows], found.best["log_likelihood"] < 0
    ([0.0, 2.0], True)
    """
    tried = [float(one) for one in weights]
    if not tried or not all(math.isfinite(one) for one in tried):
        raise FitError(f"weights should be one finite number or more, actual {weights!r:.80}")
    rows: list[dict[str, Any]] = []
    best: tuple[float, Fit] | None = None
    for weight in progress_bar(tried, progress, unit="weight"):
        row: dict[str, Any] = {"weight": weight}
        rows.append(row)
        try:
            fit = engine(prefer(model, rules, weight)).run(data, progress=False, **run)
            row["log_likelihood"] = fit.without_preferences().log_likelihood(held_out)
        except UnsupError as error:
            row |= {"log_likelihood": -math.inf, "error": str(error)}
            continue
        if score is not None:
            row["score"] = float(score(fit))
        if best is None or row["log_likelihood"] > best[0]:
            best = (row["log_likelihood"], fit)
    if best is None:
        raise FitError(f"no weight could be trained with: {rows[0]['error']}")
    return Selection(rows, best[1])

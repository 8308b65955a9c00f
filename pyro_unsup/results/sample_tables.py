"""Tables drawn given sampled labels: what a collapsed sampler has integrated out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..errors import UnsupError
from ..tables import Declaration, Layout


def draw_tables(
    model: Any,
    state: Any,  # of the model's ``gibbs_state()``, with labels
    alpha: Array,  # (kinds of rows,)
    beta: Array,  # (K,)
    generator: torch.Generator | None = None,
) -> dict[str, Tensor]:
    """Tables given labels, as log-weights: each row is drawn from a Dirichlet on top of its counts. Tables that were
    drawn beside the labels are as they are."""
    declared, known = model.declarations(), getattr(state, "drawn", {})
    integrated = {name: one for name, one in declared.items() if name not in known}
    shapes = posterior_shapes(integrated, state.table_counts(), state.tables, alpha, beta)
    found = {name: dirichlet_rows(declared[name].layout, shape, generator) for name, shape in shapes.items()}
    return found | {name: torch.from_numpy(x).log() for name, x in known.items()}


def posterior_shapes(
    declared: Mapping[str, Declaration],
    counts: Mapping[str, Array],
    tables: tuple[Sequence[str], str],
    alpha: Array,  # (kinds of rows,)
    beta: Array,  # (K,)
) -> dict[str, Tensor]:
    """The concentrations of the Dirichlet posterior of every table.

    :param counts: how often the labels use its cells.
    :param tables: those that alpha is of, by kind, and the one that beta is of.
    """
    rows, emitted = tables
    found, words = {}, tables_of_words(emitted, declared)
    for name, declaration in declared.items():
        layout = declaration.layout
        if name in words:
            prior = torch.as_tensor(beta, dtype=torch.float64)
            prior = prior[words.index(name)] if len(words) > 1 else by_rows(layout, prior)
        else:
            own = [i for i, row in enumerate(rows) if row == name]
            prior = by_rows(layout, torch.as_tensor(alpha, dtype=torch.float64)[own])
        found[name] = prior + torch.as_tensor(np.ascontiguousarray(counts[name])).double()
    return found


def by_rows(layout: Layout, x: Tensor) -> Tensor:  # (*lead, parts) -> (*lead, broadcastable to layout.shape)
    """Numbers for the rows of a table, one for all or one for each of so many equal parts of them.

    >>> import torch
    >>> from pyro_unsup.results.sample_tables import by_rows
    >>> from pyro_unsup.tables import Layout
    >>> numbers = torch.tensor([3, 4])
    >>> by_rows(Layout.dense(2, 5), numbers).shape, by_rows(Layout.ragged([1, 2, 1, 2]), numbers)
    (torch.Size([2, 1]), tensor([3, 3, 3, 4, 4, 4]))
    """
    if layout.row_lengths is not None:
        return x.repeat_interleave(layout.shape.numel() // x.shape[-1], -1) if x.shape[-1] > 1 else x
    return x.reshape(*x.shape, *(1,) * (len(layout.shape) - 1))


def tables_of_words(emitted: str, tables: Iterable[str]) -> list[str]:
    """The tables that words are drawn from: one of this name, or those whose names begin with it.

    >>> from pyro_unsup.results.sample_tables import tables_of_words
    >>> tables_of_words("translation", ["translation_forward", "jump_forward", "translation_backward"])
    ['translation_forward', 'translation_backward']
    """
    found = list(tables)
    return [emitted] if emitted in found else [name for name in found if name.startswith(f"{emitted}_")]


def dirichlet_rows(
    layout: Layout, concentration: Tensor, generator: torch.Generator | None = None
) -> Tensor:  # layout.shape
    """Log-weights whose rows are drawn from Dirichlet distributions. Structural zeros stay -inf."""
    # Gamma(a) as Gamma(a + 1) times a power of a uniform number, in logs: small shapes would underflow.
    more = torch._standard_gamma(concentration + 1, generator).log()
    power = torch.rand(concentration.shape, generator=generator, dtype=torch.float64).log() / concentration
    return layout.normalise(more + power)


class SampledTables:
    """Draws of tables, one for each draw of labels, made when they are asked for.

    :param data: what the labels are of, as the model takes it.
    :param labels: (draws, units).
    :param alpha: (draws, kinds of rows).
    :param beta: (draws, K).
    :param seed: the same tables come from the same seed.
    :param drawn: (draws, ...) by name, the tables that were drawn beside the labels.

    >>> import numpy as np
    >>> import pyro_unsup as pu
    >>> from pyro_unsup.results.sample_tables import SampledTables
    >>> tagger = pu.models.Tagger(tags=2, vocab=2)
    >>> drawn = SampledTables(tagger, [[0, 1]], np.array([[0, 1]] * 3), np.ones((3, 2)), np.ones((3, 2)), seed=0)
    >>> drawn.take(1, 3)["transition"].shape
    torch.Size([2, 2, 2])
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        labels: Array,
        alpha: Array,
        beta: Array,
        seed: int,
        drawn: Mapping[str, Array] | None = None,
    ) -> None:
        self._model, self._state = model, model.gibbs_state()(model, data)
        self._labels, self._alpha, self._beta, self._seed = labels, alpha, beta, seed
        self._drawn = dict(drawn or {})
        if missing := getattr(self._state, "drawn", {}).keys() - self._drawn.keys():
            names = ", ".join(name for name in self._state.drawn if name in missing)
            raise UnsupError(
                f"the samples do not hold the tables {names}, which the sampler draws beside the labels: use what "
                "CollapsedGibbs.run returns; under MCMC, CollapsedGibbs(model, keep_tables=True)"
            )

    def take(self, first: int, last: int) -> dict[str, Tensor]:  # (last - first, *layout.shape) each
        """The tables of some draws, as probabilities."""
        each = [self._one(i) for i in range(first, last)]
        return {name: torch.stack([one[name] for one in each]) for name in each[0]}

    def _one(self, i: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed((self._seed + 1) * 1_000_003 + i)
        self._state.labels = self._labels[i]
        if self._drawn:
            self._state.extra = {name: x[i] for name, x in self._drawn.items()}
        drawn = draw_tables(self._model, self._state, self._alpha[i], self._beta[i], generator)
        return {name: w.exp() for name, w in drawn.items()}

"""New data from models that observe more than words: what is drawn, and the same of the observed data.

Most models draw data of given lengths when they are called without data. The models here observe numbers of segments,
of pairs of words or of spans. What is drawn are words and symbols again, or spans.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..errors import UnsupError
from ..handlers import bare
from ..models import CCM, DMVCCM, Aligner, Segmenter
from .draws import Values
from .new_spans import NewSpans
from .new_symbols import NewSymbols
from .new_translations import NewTranslations
from .running import Program

Array = np.ndarray[Any, Any]


class NewData(Protocol):
    """Draws data under draws of the tables of a model."""

    #: By variable, the observed data in the form that new ones have, (rows, ...).
    observed: dict[str, Array]
    #: By variable, the example of each row.
    owners: dict[str, Array]

    def __call__(self, values: Values) -> dict[str, Tensor]:  # (n, rows, ...) each
        """One data set a draw, by the global generator."""


def new_data_of(program: Program) -> NewData | None:
    """How a model draws new data, if it is one of these; None for any other model.

    :raises UnsupError: if it is one of these, and cannot.
    """
    model: Any = bare(program.draws.model)
    if len(program.args) != 1 or not isinstance(model, CCM | DMVCCM | Aligner | Segmenter):
        return None
    if isinstance(model, Segmenter):
        return NewSymbols(model, program.args[0])
    if isinstance(model, CCM):
        return NewSpans(model, program.args[0])
    if isinstance(model, DMVCCM):
        return NewTags(program)
    if model.agreement == "2008":
        raise UnsupError(
            "an aligner with agreement='2008' cannot draw new data: it weighs links by the product of two tables, "
            "which is no probability of a sentence. Leave posterior_predictive and prior_predictive out"
        )
    return NewTranslations(model, program)


class NewTags:
    """The tags of a :class:`.DMVCCM`, drawn by its dependency model.

    Both models of the product draw all tags. Given the tree, the spans that the constituent-context model draws are a
    second copy of the sentence. The first copy, whose probabilities sum to one, is that of the dependency model.
    """

    def __init__(self, program: Program) -> None:
        model: Any = bare(program.draws.model)
        site = program.sites["tags"]
        lengths = site["fn"].rows.lengths
        own = model.dmv.declarations()
        draws = replace(
            program.draws,
            model=model.dmv,
            args=(None, lengths),
            tables=own,
            take=lambda first, last: _only(program.draws.take(first, last), own),
        )
        self._own, self._free = own, Program(draws)
        self.observed = {"tags": np.asarray(site["value"])}
        self.owners = {"tags": np.repeat(np.arange(len(lengths)), lengths)}

    def __call__(self, values: Values) -> dict[str, Tensor]:  # (n, words)
        few = _only(values, self._own)
        n = len(next(iter(few.values())))
        drawn = self._free.trace(few, alone=n == 1).nodes["tags"]["value"]
        return {"tags": drawn.unsqueeze(0) if n == 1 else torch.as_tensor(drawn)}


def _only(values: Values, names: Any) -> Values:
    return {name: values[name] for name in names}

"""Ready components for :func:`pyro_unsup.constrain`: knowledge of a language, or of a text, as constraints on parts.

A component is a function from the parts of the data to truth values, and anyone can write one. Those here have names
and settings besides, so that fits under them can be saved::

    >>> import pyro_unsup as pu
    >>> short_dependencies(limit=4) & verb_as_root(tags=["VERB", "AUX"])
    both(short_dependencies(limit=4), verb_as_root(tags=['VERB', 'AUX']))

**References:** [1] S. B. Cohen and N. A. Smith (2010) "Variational inference for grammar induction with prior
knowledge" (the first six); [2] V. I. Spitkovsky, H. Alshawi and D. Jurafsky (2011) "Punctuation: making a point in
unsupervised dependency parsing" (fragments).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec

import torch
from torch import Tensor

from ..distributions.parts import Arcs, Brackets, Clusters, Links, Parts, Pieces, States
from ..errors import StructureError
from .parts import Component, named

__all__ = [
    "all_right",
    "both",
    "fragments",
    "left_chain",
    "near_diagonal",
    "noun_sequence",
    "right_attach",
    "seeds",
    "short_dependencies",
    "spelled_with",
    "verb_as_root",
    "word_tags",
]

_P = ParamSpec("_P")


class Named:
    """A component that knows its name and settings.

    :param look: from parts and settings to truth values or log-weights.
    """

    def __init__(self, look: Callable[..., Tensor], settings: Mapping[str, Any]) -> None:
        self.look, self.settings = look, dict(settings)

    def __call__(self, parts: Parts) -> Tensor:
        return self.look(parts, **self.settings)

    def __and__(self, other: Component) -> Component:
        return both(self, other)

    def __rand__(self, other: Component) -> Component:
        return both(other, self)

    def __repr__(self) -> str:
        said = [f"{key}={value!r:.200}" for key, value in self.settings.items()]
        return f"{self.look.__name__}({', '.join(said)})"

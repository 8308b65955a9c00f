"""New sequences of symbols by the numbers of a fit's vocabulary."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...data import Corpus
from ...results import Fit

Array = np.ndarray[Any, Any]


def by_number(fit: Fit, text: Corpus) -> tuple[Array, int]:  # (tokens,)
    """The symbols of a text, and how many of them the fit's vocabulary does not have.

    Those become its unknown symbol, or else one more: the number of symbols that it has. The words of the text are
    looked up, in lower case if the fit was trained so; or its tags are, if the vocabulary knows more of those.
    """
    model: Any = fit.model
    if isinstance(model.vocab, int):  # symbols are but numbers
        unseen = text.words >= model.symbols
        return np.where(unseen, model.symbols, text.words), int(unseen.sum())
    number = {name: k for k, name in enumerate(model.vocab)}
    other = number.get(getattr(model.vocab, "unknown", None), model.symbols)
    lower = fit.config.get("lowercase") is True
    forms = [(text.words, [one.lower() for one in text.vocab] if lower else list(text.vocab))]
    forms += [] if text.tags is None or text.tagset is None else [(text.tags, list(text.tagset))]
    ways = [(_look_up(ids, names, number, other), _look_up(ids, names, number, -1) < 0) for ids, names in forms]
    words, unseen = min(ways, key=lambda way: int(way[1].sum()))  # words, where tags are known no better
    return words, int(unseen.sum())


def _look_up(ids: Array, names: list[str], number: dict[str, int], other: int) -> Array:  # (tokens,) -> (tokens,)
    return np.array([number.get(name, other) for name in names], np.int64)[ids]

"""Examples and pictures that several tasks have in common, for reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import pyro_unsup as pu

from ..errors import UnsupError
from .reported import likeliest_states
from .shown import distinct

if TYPE_CHECKING:
    from ..data import Corpus
    from ..report.values import Example, Picture

#: States that a picture of transitions has room for.
STATES = 48


def as_corpus(data: Any) -> Corpus:
    """A text as a corpus; lists of words become one."""
    if isinstance(data, list | tuple):
        return pu.data.Corpus.of(data)
    if not hasattr(data, "vocab"):
        raise UnsupError(f"a report draws a Corpus, or lists of words; actual {type(data).__name__}")
    found: Corpus = data
    return found


def transitions(weights: Any, names: Sequence[str]) -> Sequence[Picture]:
    """Which state follows which. Of models that look two states back, the mean over the first of them is drawn.

    :param weights: (K, K) log-weights, or (K, K, K); there may be a last column for the end.
    """
    from ..report.values import Picture

    shares = weights.exp()
    shares = shares.mean(0) if shares.dim() == 3 else shares
    many = len(shares)
    if not 1 < many <= STATES:
        return ()
    caption = "The thicker an arrow, the likelier the step. Point at an arrow or a state for its probabilities."
    if many > 10:
        caption = "Rows are followed by columns: the darker, the likelier. Point at a cell for its probability."
    return [Picture("What follows what", pu.plot.transition_svg(shares[:, :many], distinct(names)), caption)]


def tagged_sentences(data: Corpus, decoded: Any, names: Sequence[str], numbers: Sequence[int]) -> Sequence[Example]:
    """Sentences with a tag under each word. Where gold tags are known by the same names, wrong ones are marked."""
    from ..report.drawn import labelled
    from ..report.values import Example

    states, certain, likely = likeliest_states(decoded, names)
    compared = data.tagset is not None and set(names) & set(data.tagset)
    made = []
    for i, number in enumerate(numbers):
        here = slice(int(data.offsets[i]), int(data.offsets[i + 1]))
        words, found = data.sentence(i), [names[k] for k in states[here]]
        gold = data.sentence_tags(i) if compared else None
        right = None if gold is None else sum(a == b for a, b in zip(gold, found, strict=True))
        html = labelled(words, found, certain[here], likely[here], gold)
        verdict = "" if right is None else f"{right} of {len(words)} right"
        mean = float(np.mean(certain[here])) if words else None
        wrong, parts = right is not None and right < len(words), pattern(states[here])
        made.append(Example(f"sentence {number}", " ".join([*words, *found]), html, mean, verdict, wrong, parts))
    return made


def pattern(states: Sequence[int]) -> tuple[int, ...]:
    """States by the order in which they come up: the same for models that name the same groups differently.

    >>> from pyro_unsup.tasks.pictures import pattern
    >>> pattern([7, 3, 7, 1])
    (0, 1, 0, 2)
    """
    known: dict[int, int] = {}
    return tuple(known.setdefault(state, len(known)) for state in states)

"""Components for tags and segments."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

import torch
from torch import Tensor

from ...distributions.parts import Pieces, States
from ...errors import StructureError
from ..component import component
from .ranges import within


@component
def word_tags(parts: States, tags: Any) -> Tensor:
    """Some words have certain tags only.

    :param tags: by word, its tags, such as ``{"the": ["DT"], "that": ["DT", "IN", "WDT"]}``. Other words are free.

    >>> import pyro_unsup as pu
    >>> words, tags = pu.data.Vocab(["the", "dog"]), pu.data.Vocab(["DT", "NN"])
    >>> model = pu.constrain(pu.models.Tagger(tags=tags, vocab=words), pu.components.word_tags({"the": "DT"}))
    >>> pu.EM(model).run([[0, 1]], iterations=0).posterior([[0, 1]]).marginals[0].round(decimals=4)
    tensor([1., 0.], dtype=torch.float64)
    """
    _need_words(parts, "word_tags")
    lists = dict(tags)
    by_tag: dict[Any, set[Any]] = {}
    for word, mine in lists.items():
        for tag in [mine] if isinstance(mine, str | int) else mine:
            by_tag.setdefault(tag, set()).add(word)
    allowed = [parts.has("word", words.__contains__) & parts.has("state", tag) for tag, words in by_tag.items()]
    return reduce(or_, allowed, ~parts.has("word", lists.keys()))


@component
def spelled_with(parts: Pieces, symbols: Any) -> Tensor:
    """Every segment has one of these symbols in it, such as a vowel. Segments that are not known may be anything.

    >>> import pyro_unsup as pu
    >>> text = pu.data.Corpus([0, 1, 2, 3, 4, 5], [0, 6], pu.data.Vocab(["t", "h", "e", "d", "o", "g"]))
    >>> model = pu.constrain(pu.models.Segmenter.of(text), pu.components.spelled_with("eo"))
    >>> ends = pu.EM(model).run(text, iterations=0).posterior(text).mode()
    >>> int(ends.sum())  # the vowels allow two words at most
    2
    """
    wanted = {symbols} if isinstance(symbols, int) else set(symbols)
    return parts.has("segment", lambda segment: not segment or not wanted.isdisjoint(segment))


@component
def closed_classes(parts: States, tags: Any, words: Any) -> Tensor:
    """Words of closed classes (articles, say) have a tag of those classes, and no other word has one.

    :param tags: of closed classes.
    :param words: all that these have.

    >>> import pyro_unsup as pu
    >>> words, tags = pu.data.Vocab(["the", "dog"]), pu.data.Vocab(["DT", "NN"])
    >>> rule = pu.components.closed_classes("DT", ["the", "a"])
    >>> model = pu.prefer(pu.models.Tagger(tags=tags, vocab=words), rule, weight=9)
    >>> pu.EM(model).run([[0, 1]], iterations=0).posterior([[0, 1]]).mode()
    tensor([0, 1])
    """
    _need_words(parts, "closed_classes")
    wanted = {words} if isinstance(words, str | int) else set(words)
    return parts.has("word", wanted.__contains__) == parts.has("state", tags)


@component
def states_at(parts: States, steps: Any) -> Tensor:
    """At some steps of a series (or words of a sentence, counted from its beginning) the state is a certain one.

    It says what is known of some stretches of a series, such as from a log: a machine was broken from step 300 to 320.
    Which state is the broken one is for the start to say (``HMM(init={"loc": [0.0, 5.0]})``), or for a first fit.

    :param steps: by state, where it is: the first and the last step, such as ``{0: (1, 100)}``, or several such pairs.
        Step 1 is the first; None as the last is the end of the series, and a number alone is that step. Where several
        states are named for a step, it is one of them. At all other steps states are free.

    >>> import torch, pyro_unsup as pu
    >>> x = torch.tensor([0.4, 0.4, 0.4, 0.4, 0.4, 0.4], dtype=torch.float64)
    >>> model = pu.models.HMM(states=2, init={"loc": [0.0, 1.0], "scale": [1.0, 1.0]})
    >>> liked = pu.prefer(model, pu.components.states_at({1: (3, 4)}), weight=9)
    >>> pu.EM(liked, init=pu.init.uniform()).run(x, iterations=0, progress=False).predict(x).tolist()
    [0, 0, 1, 1, 0, 0]
    """
    step, asked, allowed = parts.position + 1, torch.tensor(False), torch.tensor(False)
    for state, given in _by_state(steps).items():
        here = reduce(or_, [within(step, *bounds, "states_at") for bounds in _ranges(given)])
        asked, allowed = asked | here, allowed | (here & parts.has("state", [state]))
    return allowed | ~asked


def _by_state(steps: Any) -> dict[Any, Any]:
    try:
        found = dict(steps)
    except (TypeError, ValueError):
        found = {}
    if not found:
        raise StructureError(f"states_at needs steps by state, such as {{0: (1, 100)}}, actual {steps!r:.80}")
    return found


def _ranges(given: Any) -> list[tuple[Any, Any]]:
    """From a number, a pair, or several pairs to pairs."""
    several = isinstance(given, list | tuple) and len(given) > 0 and isinstance(given[0], list | tuple)
    found = []
    for one in given if several else [given]:
        pair = (one, one) if isinstance(one, int) else one
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise StructureError(
                "states_at needs the first and the last step of each state, such as {0: (1, 100)}, actual "
                f"{given!r:.80}"
            )
        found.append((pair[0], pair[1]))
    return found


def _need_words(parts: States, name: str) -> None:
    """Refuse series of measurements."""
    if parts.words.is_floating_point():
        raise StructureError(
            f"{name} is a rule about words, and a series of numbers has none: use states_at, or a rule of your own "
            "about parts.state and parts.position"
        )

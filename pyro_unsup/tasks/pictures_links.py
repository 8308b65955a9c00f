"""Links between words for reports: grids of pairs of sentences, and errors by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import pyro_unsup as pu

from .reported import KINDS

if TYPE_CHECKING:
    from ..data import Bitext, Links
    from ..report.values import Example, Kinds


def grids(data: Bitext, decoded: Any, numbers: Sequence[int]) -> Sequence[Example]:
    """Pairs of sentences as grids, with links as dots. With gold links, these have frames."""
    from ..report.markup import short
    from ..report.values import Example

    drawn = replace(data, source=_cut(data.source, short), target=_cut(data.target, short))
    made = []
    for i, number in enumerate(numbers):
        ours = _places(decoded.links, i)
        sure = set() if data.links is None else _places(data.links, i, sure=True)
        known = set() if data.links is None else _places(data.links, i)
        right = len(ours & known)
        verdict = "" if data.links is None else f"{right} of {len(ours)} links right, {len(sure - ours)} missed"
        wrong = data.links is not None and bool((ours - known) | (sure - ours))
        text = " ".join([*data.source.sentence(i), *data.target.sentence(i)])
        picture = pu.plot.alignment_svg(drawn, decoded, i)
        parts = tuple(sorted(ours))
        made.append(Example(f"pair {number}", text, picture, _certain(data, decoded, i, ours), verdict, wrong, parts))
    return made


def _cut(text: Any, short: Any) -> Any:
    """The same text, its long words cut: those that become the same get numbers."""
    if all(len(one) <= 24 for one in text.vocab):
        return text
    names = [short(one, 20) + (f" ({k})" if len(one) > 24 else "") for k, one in enumerate(text.vocab)]
    return replace(text, vocab=pu.data.Vocab(names, None)) if len(set(names)) == len(names) else text


def _places(links: Links, pair: int, sure: bool = False) -> set[tuple[int, int]]:
    here = links.rows[:, 0] == pair
    rows = links.rows[here & links.sure] if sure else links.rows[here]
    return {(int(i), int(j)) for _, i, j in rows}


def _certain(data: Bitext, decoded: Any, pair: int, links: set[tuple[int, int]]) -> float | None:
    cells = data.source.lengths * data.target.lengths
    at, wide = int(cells[:pair].sum()), int(data.target.lengths[pair])
    found = [float(decoded.forward[at + i * wide + j] + decoded.backward[at + i * wide + j]) / 2 for i, j in links]
    return float(np.mean(found)) if found else None


def link_scores(gold: Links, found: Links) -> Any:  # (pairs,)
    """Of each pair: one less its alignment error rate; 1 where there is nothing to find, and nothing was found."""
    pairs = len(gold)
    made = np.ones(pairs)
    for i in range(pairs):
        ours, known, sure = _places(found, i), _places(gold, i), _places(gold, i, sure=True)
        if ours or sure:
            made[i] = (len(ours & sure) + len(ours & known)) / (len(ours) + len(sure))
    return made


def link_errors(gold: Bitext, decoded: Any) -> Sequence[Kinds]:
    """Sure links that were missed and links that are not gold, by their words."""
    from ..report.values import Kinds

    assert gold.links is not None
    kinds, missed, extra = Counter[tuple[str, ...]](), Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for i in range(len(gold)):
        source, target = gold.source.sentence(i), gold.target.sentence(i)
        ours, known = _places(decoded.links, i), _places(gold.links, i)
        for a, b in _places(gold.links, i, sure=True) - ours:
            kinds[(_missed(a, b, ours),)] += 1
            missed[source[a], target[b]] += 1
        for a, b in ours - known:
            kinds[("a link that is not gold",)] += 1
            extra[source[a], target[b]] += 1
    made = [
        Kinds("Wrong and missed links", ("kind",), kinds.most_common(), sum(kinds.values())),
        Kinds("Commonest sure links that were missed", ("source", "target"), _top(missed), sum(missed.values())),
        Kinds("Commonest links that are not gold", ("source", "target"), _top(extra), sum(extra.values())),
    ]
    return [one for one in made if one.rows]


def _missed(a: int, b: int, ours: set[tuple[int, int]]) -> str:
    taken = any(i == a for i, _ in ours), any(j == b for _, j in ours)
    if all(taken):
        return "a sure link missed: both words are linked to others"
    return (
        "a sure link missed: one word is linked to another" if any(taken) else "a sure link missed: neither has a link"
    )


def _top(counts: Counter[tuple[str, ...]]) -> list[tuple[tuple[str, ...], int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:KINDS]

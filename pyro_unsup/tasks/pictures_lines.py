"""Lines with cuts, and documents, for reports; and errors of segmentation by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import frames
from .reported import KINDS, likeliest_states, state_names

if TYPE_CHECKING:
    from ..data import Documents, Segmented
    from ..report.values import Example, Kinds
    from ..results import Fit

#: Words of a document that are drawn: those that speak most for its cluster.
WORDS = 40


def cut_lines(data: Segmented, decoded: Any, numbers: Sequence[int]) -> Sequence[Example]:
    """Lines with their cuts. With gold, wrong cuts and missed ones are marked."""
    from ..report.drawn import cut_line
    from ..report.values import Example

    columns = frames.segments(data, decoded)
    right = getattr(data, "ends", None)
    made = []
    for i, number in enumerate(numbers):
        here = slice(int(data.offsets[i]), int(data.offsets[i + 1]))
        symbols, ends, p = (columns[name][here] for name in ("symbol", "end", "probability"))
        cuts = np.where(ends, p, 1 - p)
        gold = None if right is None else right[here]
        wrong = 0 if gold is None else int((gold != ends).sum())
        verdict = (
            "" if gold is None else "all cuts right" if not wrong else f"{wrong} wrong or missed cut{'s' * (wrong > 1)}"
        )
        html = cut_line(symbols.tolist(), ends.tolist(), cuts.tolist(), None if gold is None else gold.tolist())
        text = " ".join(["".join(symbols), _joined(symbols, ends)])
        certain = float(p[:-1].mean()) if len(p) > 1 else None
        made.append(Example(f"line {number}", text, html, certain, verdict, wrong > 0, tuple(ends.tolist())))
    return made


def _joined(symbols: Any, ends: Any) -> str:
    return "".join(f"{symbol} " if end else symbol for symbol, end in zip(symbols, ends, strict=True)).strip()


def split_errors(gold: Segmented, decoded: Any) -> Sequence[Kinds]:
    """Gold words that were cut apart, that were joined with others, or both; and which ones."""
    from ..report.values import Kinds

    right, found = np.asarray(gold.ends), decoded.structure.cpu().numpy() == 1
    symbols = frames.words_of(gold)  # type: ignore[arg-type]
    starts = np.concatenate(([True], found[:-1]))  # where a found segment begins
    kinds, apart, joined = Counter[tuple[str, ...]](), Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    first = 0
    for last in np.flatnonzero(right).tolist():
        inside = bool(found[first:last].any())
        edges = bool(starts[first]) and bool(found[last])
        word = "".join(symbols[first : last + 1])
        if inside and edges:
            kinds[("cut apart (split too much)",)] += 1
            apart[word, _joined(symbols[first : last + 1], found[first : last + 1])] += 1
        elif not inside and not edges:
            kinds[("joined with a neighbour (split too little)",)] += 1
            joined[(word, _segment(symbols, found, first))] += 1
        elif inside or not edges:
            kinds[("cut at other places",)] += 1
        first = last + 1
    wrong = sum(kinds.values())
    said = f"{wrong:,} of {int(right.sum()):,} gold words were not found."
    made = [
        Kinds("What became of gold words that were not found", ("kind",), kinds.most_common(), wrong, said),
        Kinds("Commonest words that were cut apart", ("gold", "found"), _top(apart), sum(apart.values())),
        Kinds("Commonest words that were joined", ("gold", "found"), _top(joined), sum(joined.values())),
    ]
    return [one for one in made if one.rows]


def _segment(symbols: Any, found: Any, at: int) -> str:
    """The found segment around a place."""
    before = np.flatnonzero(found[:at])
    start = int(before[-1]) + 1 if len(before) else 0
    end = at + int(np.argmax(found[at:]))
    return "".join(symbols[start : end + 1])


def _top(counts: Counter[tuple[str, ...]]) -> list[tuple[tuple[str, ...], int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:KINDS]


def bags(fit: Fit, data: Documents, decoded: Any, numbers: Sequence[int]) -> Sequence[Example]:
    """Documents with the words that speak most for their cluster."""
    from ..report.drawn import document
    from ..report.markup import element, join, percent, short
    from ..report.values import Example

    names = state_names(fit, decoded.structure)
    states, certain, likely = likeliest_states(decoded, [_called(name, k) for k, name in enumerate(names)])
    weights, share = fit.weights["words"].double(), fit.weights["cluster"].double()
    whole = (weights + share[:, None]).logsumexp(0)
    vocab: Any = fit.model.vocab  # type: ignore[attr-defined]
    lower = fit.config.get("lowercase") is True
    made = []
    for i, number in enumerate(numbers):
        here, k = slice(int(data.offsets[i]), int(data.offsets[i + 1])), states[i]
        words = []
        for at, times in zip(data.words[here].tolist(), data.counts[here].tolist(), strict=True):
            text = data.vocab[at]
            form = text.lower() if lower else text
            if form in vocab.index:
                j = vocab.index[form]
                words.append((text, times, times * max(min(float(weights[k, j] - whole[j]), 20.0), -20.0)))
        best = sorted(words, key=lambda one: -one[2])[:WORDS]
        gold = None if data.labels is None or data.labelset is None else data.labelset[int(data.labels[i])]
        wrong = gold is not None and gold != names[k]
        said = ", ".join(f"{name} {percent(p)}" for name, p in likely[i])
        left = len(words) - len(best)
        more = element("p", f"{left} more words speak less for it, and are left out.", class_="soft") if left else None
        cluster = element("p", "cluster ", element("b", _called(names[k], k)), title=said, tabindex=0)
        verdict = "" if gold is None else f"gold {short(gold)}" + (": wrong" if wrong else ": right")
        text = " ".join([*(one for one, _, _ in words), names[k], gold or ""])
        made.append(
            Example(f"document {number}", text, join([cluster, document(best), more]), certain[i], verdict, wrong, k)
        )
    return made


def _called(name: str, k: int) -> str:
    return name if name == str(k) else f"{name}\N{MIDDLE DOT}{k}"

"""Trees for reports: sentences drawn with arcs or brackets, strong attachments, and errors by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import pyro_unsup as pu

from . import frames
from .reported import KINDS

if TYPE_CHECKING:
    from ..data import Corpus
    from ..report.values import Example, Kinds, Picture

#: Attachments that are listed.
STRONGEST = 15


def strongest_attachments(attach: Any, names: Sequence[str]) -> Sequence[Picture]:
    """The likeliest dependents of any head, on either side.

    :param attach: (tags, 2, tags) log-weights: head, side, dependent.
    """
    from ..report.markup import word
    from ..report.tables import bar, table
    from ..report.values import Picture

    shares = attach.exp()
    best = shares.reshape(-1).topk(min(STRONGEST, shares.numel()))
    rows = []
    for at, p in zip(best.indices.tolist(), best.values.tolist(), strict=True):
        head, rest = divmod(at, 2 * len(names))
        side, child = divmod(rest, len(names))
        rows.append([word(names[head]), ("left", "right")[side], word(names[child]), f"{p:.3f}", bar(p)])
    drawn = table(["head", "side", "dependent", "probability", ""], rows, 3, "Strongest attachments")
    caption = "How likely a dependent on this side of the head has this tag."
    return [Picture("Strongest attachments", drawn, caption)]


def strongest_rules(model: Any, weights: Any) -> Sequence[Picture]:
    """The likeliest parts of any label.

    :param model: a grammar.
    :param weights: its tables.
    """
    from ..report.tables import bar, table
    from ..report.values import Picture

    logs, left, right = model.strongest(weights, STRONGEST)
    best, labels, rows = logs.reshape(-1).topk(min(STRONGEST, logs.numel())), model.labels, []
    for at, p in zip(best.indices.tolist(), best.values.exp().tolist(), strict=True):
        parts = (labels[int(side.reshape(-1)[at])] for side in (left, right))
        rows.append([labels[at // logs.shape[1]], *parts, f"{p:.3f}", bar(p)])
    drawn = table(["label", "left part", "right part", "probability", ""], rows, 3, "Strongest rules")
    kinds = f"{model.nonterminals} labels are of spans (N), the others of words (P)"
    caption = f"How likely a label has these two parts. {kinds}."
    return [Picture("Strongest rules", drawn, caption)]


def shown_words(data: Corpus, i: int) -> tuple[list[str], list[str] | None]:
    """The words of a sentence, cut if they are long, and their tags if these are something else."""
    from ..report.markup import short

    words = [short(one, 24) for one in data.sentence(i)]
    if data.tags is None or data.tagset is None or data.tagset == data.vocab:
        return words, None
    return words, [short(one, 24) for one in data.sentence_tags(i)]


def arcs(data: Corpus, decoded: Any, numbers: Sequence[int]) -> Sequence[Example]:
    """Sentences under their arcs. With gold heads, the colours tell which arcs are right."""
    from ..report.values import Example

    columns = frames.heads(data, decoded)
    made = []
    for i, number in enumerate(numbers):
        here = slice(int(data.offsets[i]), int(data.offsets[i + 1]))
        heads, sure = columns["head"][here], columns["probability"][here]
        gold = None if data.heads is None else data.heads[here]
        words, tags = shown_words(data, i)
        picture = pu.plot.dependency_svg(words, heads, gold, tags=tags, probabilities=sure)
        right = None if gold is None else int((heads == gold).sum())
        verdict = "" if right is None else f"{right} of {len(words)} heads right"
        text = " ".join([*data.sentence(i), *(tags or [])])
        wrong = right is not None and right < len(words)
        made.append(
            Example(f"sentence {number}", text, picture, float(sure.mean()), verdict, wrong, tuple(heads.tolist()))
        )
    return made


def brackets(data: Corpus, decoded: Any, numbers: Sequence[int], labelled: bool = False) -> Sequence[Example]:
    """Sentences under their trees. With gold brackets, the colours tell which constituents are right.

    :param labelled: whether the constituents have labels, which are written beside them.
    """
    from ..report.values import Example

    columns = frames.labelled_constituents(data, decoded) if labelled else frames.constituents(data, decoded)
    made = []
    for i, number in enumerate(numbers):
        here = columns["sentence"] == i
        spans = np.column_stack([columns["first"][here] - 1, columns["last"][here]])
        sure = columns["probability"][here]
        gold = gold_spans(data, i)
        words, tags = shown_words(data, i)
        labels = columns["label"][here].tolist() if labelled else None
        picture = pu.plot.tree_svg(words, spans, gold, tags=tags, probabilities=sure, labels=labels)
        text = " ".join([*data.sentence(i), *(tags or [])])
        inner = {(a, b) for a, b in spans.tolist() if b - a < len(words)}
        known = set() if gold is None else {(a, b) for a, b in gold.tolist() if 1 < b - a < len(words)}
        verdict = "" if gold is None else f"{len(inner & known)} of {len(known)} gold brackets found"
        certain = float(sure.mean()) if len(sure) else None
        parts = tuple(sorted(inner))
        made.append(Example(f"sentence {number}", text, picture, certain, verdict, bool(known - inner), parts))
    return made


def gold_spans(data: Corpus, i: int) -> Any:  # (brackets, 2)
    """The gold brackets of a sentence; None if there are none."""
    if data.spans is None or data.span_offsets is None:
        return None
    return data.spans[int(data.span_offsets[i]) : int(data.span_offsets[i + 1])]


def head_errors(gold: Corpus, decoded: Any) -> Sequence[Kinds]:
    """Wrong heads, by what was taken instead, and by the tags of the word, of its head and of what was taken."""
    from ..report.values import Kinds

    what, which = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    heads = decoded.structure.cpu().numpy()
    for i, (names, right, found) in enumerate(_sentences(gold, heads)):
        del i
        for k, (a, b) in enumerate(zip(right, found, strict=True)):
            if a == b or a < 0:
                continue
            above = ["root", *names]
            which[names[k], above[a], above[b]] += 1
            what[(_kind(k + 1, a, b, right),)] += 1
    wrong = sum(what.values())
    if not wrong:
        return ()
    said = f"{wrong:,} of {gold.tokens:,} words have a wrong head."
    by_tag = sorted(which.items(), key=lambda pair: -pair[1])[:KINDS]
    return [
        Kinds("What wrong heads are", ("the head that was found",), what.most_common(), wrong, said),
        Kinds("Commonest wrong heads", ("word", "gold head", "found head"), by_tag, wrong),
    ]


def _sentences(gold: Corpus, heads: Any) -> Iterator[tuple[list[str], list[int], list[int]]]:
    assert gold.heads is not None
    for i in range(len(gold)):
        here = slice(int(gold.offsets[i]), int(gold.offsets[i + 1]))
        names = gold.sentence(i) if gold.tags is None else gold.sentence_tags(i)
        yield names, gold.heads[here].tolist(), heads[here].tolist()


def _kind(word: int, right: int, found: int, gold: list[int]) -> str:
    if found == 0:
        return "the root, of a word that is not the root"
    if right == 0:
        return "a word, of the word that is the root"
    if gold[found - 1] == word:
        return "a gold dependent of the word: turned round"
    if gold[right - 1] == found:
        return "the gold head of its gold head"
    return "another word to the left" if found < word else "another word to the right"


def bracket_errors(gold: Corpus, decoded: Any, labelled: bool = False) -> Sequence[Kinds]:
    """Gold constituents that were missed, and found ones that cross a gold one, by the tags in them.

    :param labelled: whether the constituents that were found have labels.
    """
    from ..report.values import Kinds

    columns = frames.labelled_constituents(gold, decoded) if labelled else frames.constituents(gold, decoded)
    found: dict[int, set[tuple[int, int]]] = {}
    for i, a, b in zip(columns["sentence"].tolist(), columns["first"].tolist(), columns["last"].tolist(), strict=True):
        found.setdefault(i, set()).add((a - 1, b))
    missed, crossing, total = Counter[tuple[str, ...]](), Counter[tuple[str, ...]](), 0
    for i in range(len(gold)):
        names = gold.sentence(i) if gold.tags is None else gold.sentence_tags(i)
        right = {(a, b) for a, b in gold_spans(gold, i).tolist() if 1 < b - a < len(names)}
        ours = {(a, b) for a, b in found.get(i, set()) if b - a < len(names)}
        total += len(right)
        for a, b in right - ours:
            missed[(" ".join(names[a:b]),)] += 1
        for a, b in ours - right:
            if any(a < c < b < d or c < a < d < b for c, d in right):
                crossing[(" ".join(names[a:b]),)] += 1
    many, across = sum(missed.values()), sum(crossing.values())
    made = [Kinds("Gold constituents that were missed", ("tags",), _top(missed), many, f"{many:,} of {total:,}.")]
    made += [Kinds("Constituents that cross a gold one", ("tags",), _top(crossing), across, f"{across:,} in all.")]
    return [one for one in made if one.rows]


def _top(counts: Counter[tuple[str, ...]]) -> list[tuple[tuple[str, ...], int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:KINDS]

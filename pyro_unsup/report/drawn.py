"""Structure drawn as text: words with labels under them, lines with cuts, documents with the words that decided."""

from __future__ import annotations

from collections.abc import Sequence

from .markup import Html, element, percent, short, word


def labelled(
    words: Sequence[str],
    labels: Sequence[str],
    certainty: Sequence[float],
    likely: Sequence[Sequence[tuple[str, float]]],
    gold: Sequence[str] | None = None,
) -> Html:
    """Words with a label under each, shaded by how sure the model is. Gold labels stand below those that are wrong.

    :param likely: of each word, the likeliest labels with their probabilities, for whoever points at it.
    """
    made = []
    for k, (text, name, p) in enumerate(zip(words, labels, certainty, strict=True)):
        wrong = gold is not None and gold[k] != name
        said = ", ".join(f"{short(one)} {percent(share)}" for one, share in likely[k])
        below = [element("small", word(name), class_="bad" if wrong else None)]
        below += [element("small", word(gold[k]), class_="gold")] if wrong and gold is not None else []
        made.append(
            element("span", word(text), below, class_="w wrong" if wrong else "w", tabindex=0, style=f"--p:{p:.3f}",
                    title=f"{short(text)}: {said}")
        )  # fmt: skip
    return element("div", made, class_="words")


def cut_line(
    symbols: Sequence[str], ends: Sequence[bool], cuts: Sequence[float], gold: Sequence[bool] | None = None
) -> Html:
    """A line of symbols with its cuts, shaded by their probabilities. Red cuts are not gold; dotted ones were missed.

    :param ends: whether a segment ends with each symbol.
    :param cuts: the probability that one does.
    """
    made: list[Html] = []
    for k, symbol in enumerate(symbols):
        made.append(word(symbol))
        if k == len(symbols) - 1:
            break
        kind, said = _cut(bool(ends[k]), None if gold is None else bool(gold[k]))
        at = {"tabindex": 0} if kind != "gap" else {}
        title = f"{short(symbol)}|{short(symbols[k + 1])}: a cut with {percent(cuts[k])}{said}"
        made.append(element("span", class_=kind, title=title, style=f"--p:{cuts[k]:.3f}", **at))
    return element("div", made, class_="line")


def _cut(found: bool, gold: bool | None) -> tuple[str, str]:
    if gold is None or found == gold:
        return ("cut", "" if gold is None else ", as in gold") if found else ("gap", "")
    return ("cut bad", ", not in gold") if found else ("cut missed", ", but gold has one")


def document(words: Sequence[tuple[str, int, float]]) -> Html:
    """The words of a document, shaded by how much each speaks for its cluster.

    :param words: with how often each occurs, and how much it speaks for the cluster, in nats.
    """
    most = max((weight for _, _, weight in words), default=1.0) or 1.0
    made = [
        element("span", word(text), element("small", f"\N{MULTIPLICATION SIGN}{times}") if times > 1 else None,
                class_="w",
                tabindex=0, style=f"--p:{max(weight, 0.0) / max(most, 1e-9):.3f}", title=_speaks(text, times, weight))
        for text, times, weight in words
    ]  # fmt: skip
    return element("div", made, class_="words")


def _speaks(text: str, times: int, weight: float) -> str:
    side = "for" if weight >= 0 else "against"
    return f"{short(text)}, {times} times: speaks {side} this cluster with {abs(weight):.2f} nats"

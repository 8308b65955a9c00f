"""The values of rules as the command line spells them: bounds, labels, and labels by what they belong to."""

from __future__ import annotations

import re
from typing import Any

from ..errors import UnsupError
from ..tasks.shown import printable
from ..tasks.texts import say

#: How the values of components are written, of those that have some.
WRITTEN = {
    "verb-as-root": "TAG,TAG",
    "noun-sequence": "TAG,TAG",
    "short-dependencies": "N",
    "distance": "N-M",
    "ends-in": "TAG,TAG",
    "starts-with": "TAG,TAG",
    "width": "N-M",
    "fragments": "TAG,TAG",
    "word-tags": "WORD:TAG|TAG,WORD:TAG",
    "spelled-with": "SYMBOLS",
    "near-diagonal": "SHARE",
    "seeds": "CLUSTER:WORD|WORD,CLUSTER:WORD",
    "cognates": "LETTERS",
    "closed-classes": "TAG|TAG:WORD|WORD",
    "states-at": "STATE:N-M,STATE:N-M",
}


#: Of components with a number: what it should be, and an example.
NUMBERS = {
    "short-dependencies": ("a whole number, 1 or more", "4"),
    "cognates": ("a whole number, 1 or more", "4"),
    "near-diagonal": ("a number from 0 to 1", "0.2"),
}


def number(name: str, setting: str, text: str, option: str) -> int | float:
    """The number of one of these components."""
    try:
        if name == "near-diagonal":
            share = float(text)
            if not 0 <= share <= 1:
                raise ValueError
            return share
        return whole(text)
    except ValueError:
        what, example = NUMBERS[name]
        raise UnsupError(
            f"{option} {name} needs {setting}, {what}, as in {name}={example}, actual {printable(text)!r:.80}"
        ) from None


def whole(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


def bounds(name: str, text: str, option: str, before: str = "") -> tuple[int, int | None]:
    """From ``3``, ``1-3``, ``-3`` or ``3-`` to two bounds, both included.

    :param before: what is written before them, for the error.
    """
    form = before or f"{name}="
    least, dash, most = (piece.strip() for piece in text.partition("-"))
    try:
        if not least and not most:
            raise ValueError
        low = whole(least) if least else 1
        high = (whole(most) if most else None) if dash else low
        if high is not None and high < low:
            raise ValueError
    except ValueError:
        raise UnsupError(
            f"{option} {name} needs bounds, 1 or more, as in {form}2-5, {form}-5 (at most 5), {form}2- (at least 2) "
            f"or {form}3, actual {printable(text)!r:.80}"
        ) from None
    return low, high


def closed_classes(values: str, model: Any, option: str) -> tuple[list[Any], list[str]]:
    """Tags and their words."""
    try:
        tags, words = split(values, ":")
        found = [plain(one) for one in split(tags, "|")], [plain(one) for one in split(words, "|")]
    except ValueError:
        form = WRITTEN["closed-classes"]
        raise UnsupError(
            f"{option} closed-classes needs tags and their words, as in closed-classes={form}, actual "
            f"{printable(values)!r:.80}"
        ) from None
    look_up(f"{option} closed-classes", found[1], getattr(model, "vocab", ()))
    if isinstance(known := getattr(model, "tags", None), int):
        return [
            known_number(tag, known, f"{option} closed-classes: without a dictionary tags") for tag in found[0]
        ], found[1]
    return found


def labels(name: str, values: str, model: Any, option: str) -> Any:
    """Labels in a list, or by what they belong to.

    :raises ValueError: if they are not written so.
    """
    pieces, vocab = split(values, ","), getattr(model, "vocab", ())
    if name not in ("word-tags", "seeds"):
        found = [plain(piece) for piece in pieces]
        if name == "spelled-with":  # a symbol may have several letters
            found = [one for piece in found for one in ([piece] if piece in vocab else piece)]
        look_up(f"{option} {name}", found, vocab)
        return found
    pairs = [split(piece, ":") for piece in pieces]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError
    by_key: dict[str, list[str]] = {}
    for key, mine in pairs:
        by_key.setdefault(plain(key), []).extend(plain(one) for one in split(mine, "|"))
    if name == "seeds":
        look_up(f"{option} {name}", [word for mine in by_key.values() for word in mine], vocab)
        return {int(cluster): mine for cluster, mine in by_key.items()}
    look_up(f"{option} {name}", list(by_key), vocab)
    if isinstance(getattr(model, "tags", None), int):
        name = f"{option} {name}: without a dictionary tags"
        return {word: [known_number(tag, model.tags, name) for tag in mine] for word, mine in by_key.items()}
    return by_key


def states_at(values: str, model: Any, option: str) -> dict[Any, list[list[int | None]]]:
    """By state, the first and the last step of each stretch that it has."""
    found: dict[Any, list[list[int | None]]] = {}
    try:
        pairs = [split(piece, ":") for piece in split(values, ",")]
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError
    except ValueError:
        raise UnsupError(
            f"{option} states-at needs states and their steps, as in states-at=0:1-100,1:300-, actual "
            f"{printable(values)!r:.80}"
        ) from None
    tags, states = getattr(model, "tags", None), getattr(model, "states", None)
    for text, steps in pairs:
        state: Any = plain(text)
        if tags is None and isinstance(states, int):
            state = known_number(state, states, f"{option} states-at: states")
        elif isinstance(tags, int):
            state = known_number(state, tags, f"{option} states-at: without a dictionary tags")
        elif tags is not None:
            look_up(f"{option} states-at", [state], tags, "the dictionary")
        found.setdefault(state, []).append(list(bounds("states-at", steps, option, f"states-at={text}:")))
    return found


def known_number(text: str, many: int, what: str) -> int:
    if not text.isdecimal() or int(text) >= many:
        raise UnsupError(f"{what} are numbers, 0 to {many - 1}, actual {printable(text)!r:.40}")
    return int(text)


def split(text: str, mark: str) -> list[str]:
    """What is between marks that have no backslash before them, without white space around it.

    :raises ValueError: if that is nothing.
    """
    found = [one.strip() or one for one in re.split(rf"(?<!\\){re.escape(mark)}", text)]  # a symbol may be a space
    if not all(found):
        raise ValueError
    return found


def plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def look_up(name: str, labels: list[str], vocab: Any, where: str = "the text that is learned from") -> None:
    """Warn of labels that the text does not have. Refuse if it has none of them."""
    strange = [one for one in dict.fromkeys(labels) if one not in vocab]
    if not vocab or not strange:
        return
    what = f"{name}: {where} has no {', '.join(map(printable, strange))!s:.200}"
    if len(strange) == len(set(labels)):
        raise UnsupError(f"{what}, but such as {', '.join(printable(str(one)) for one in list(vocab)[:10])}")
    say(f"warning: {what}")

"""The rules of Universal Dependencies' own validator that predictions can break, on CoNLL-U as text."""

from __future__ import annotations

UPOS = set("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split())  # noqa: SIM905


def sentences(text: str) -> list[list[list[str]]]:
    """Rows of cells, by sentence. Comments are rows of one cell."""
    assert text.endswith("\n\n"), "every sentence ends with a blank line"
    assert "\r" not in text
    blocks = text[:-2].split("\n\n")
    assert all(blocks), "blank lines stand alone"
    return [[line.split("\t") if line[0] != "#" else [line] for line in block.split("\n")] for block in blocks]


def check(text: str, universal: bool = True) -> None:
    """Raise an AssertionError for the first rule that is broken.

    :param universal: whether UPOS has to be one of the universal tags.
    """
    for rows in sentences(text):
        words = [row for row in rows if len(row) == 10 and row[0].isdecimal()]
        _check_rows(rows)
        heads = [int(row[6]) for row in words]
        assert heads.count(0) == 1, "one root"
        for number, (row, head) in enumerate(zip(words, heads, strict=True), 1):
            assert 0 <= head <= len(words), "a head is a word of the sentence"
            assert head != number, "no word is its own head"
            assert row[7] not in ("", "_"), "every word has a relation"
            assert (row[7] == "root") == (head == 0), "root is the relation of the root, and of no other word"
            if universal:
                assert row[3] in UPOS, f"{row[3]} is no universal tag"
            _check_enhanced(row[8], {one[0] for one in rows if len(one) == 10})
        for number in range(1, len(words) + 1):
            seen, here = set(), number
            while here:
                assert here not in seen, "no cycles"
                seen.add(here)
                here = heads[here - 1]


def _check_rows(rows: list[list[str]]) -> None:
    last, empty, until, began = 0, 0, 0, False
    for row in rows:
        if len(row) == 1:
            assert not began, "comments come first"
            continue
        began = True
        assert len(row) == 10, "ten columns"
        assert all(cell and cell == cell.strip() for cell in row), "no cell is empty or has blanks around it"
        if "-" in row[0]:
            first, end = map(int, row[0].split("-"))
            assert first == last + 1 > until, "a range comes before its first word, outside of other ranges"
            assert end > first
            assert row[6:9] == ["_"] * 3, "a range has no head"
            until = end
        elif "." in row[0]:
            before, number = map(int, row[0].split("."))
            assert (before, number) == (last, empty + 1), "empty nodes are numbered"
            assert row[6:8] == ["_"] * 2, "an empty node has no basic head"
            empty = number
        else:
            assert int(row[0]) == last + 1, "words are numbered"
            last, empty = last + 1, 0
    assert until <= last


def _check_enhanced(cell: str, ids: set[str]) -> None:
    if cell == "_":
        return
    heads = [one.split(":", 1)[0] for one in cell.split("|")]
    assert all(":" in one for one in cell.split("|")), "enhanced heads have relations"
    assert heads == sorted(heads, key=float), "enhanced heads are in order"
    assert set(heads) <= ids | {"0"}, "enhanced heads exist"


def check_same(before: str, after: str, *columns: int) -> None:
    """All is as it was, byte for byte, but these columns of words."""
    old, new = before.split("\n"), after.split("\n")
    assert len(old) == len(new)
    for one, other in zip(old, new, strict=True):
        row, now = one.split("\t"), other.split("\t")
        if one[:1] != "#" and row[0].isdecimal():
            row, now = ([cell for k, cell in enumerate(cells) if k not in columns] for cells in (row, now))
        assert row == now

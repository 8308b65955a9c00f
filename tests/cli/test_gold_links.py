"""Gold links of some pairs of a text: what is scored, and that it is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyro_unsup.data import read_bitext, write_links

from .conftest import Run

SOME = range(20, 32)


@pytest.fixture(scope="module")
def gold(zoo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with gold links of 12 of the 50 pairs: ``some.wa``, and the same as ``some.pharaoh``, in which the other
    pairs have no links; and with these pairs alone, ``alone.txt`` and ``alone.wa``."""
    folder = tmp_path_factory.mktemp("gold")
    lines = (zoo / "links.wa").read_text().splitlines()
    (folder / "some.wa").write_text("".join(f"{one}\n" for one in lines if int(one.split()[0]) - 1 in SOME))
    text = read_bitext(zoo / "pairs.txt", links=folder / "some.wa")
    assert text.links is not None
    write_links(text.links, folder / "some.pharaoh")
    write_links(text.links.select(list(SOME)), folder / "alone.wa", "wa")
    pairs = (zoo / "pairs.txt").read_text().splitlines()
    (folder / "alone.txt").write_text("".join(f"{pairs[i]}\n" for i in SOME))
    return folder


def test_of_a_model(zoo: Path, gold: Path, run: Run) -> None:
    evaluate = ("evaluate", zoo / "aligner", zoo / "pairs.txt", "--gold", gold / "some.wa")
    found = json.loads(run(*evaluate, "--json").stdout)
    alone = ("evaluate", zoo / "aligner", gold / "alone.txt", "--gold", gold / "alone.wa")
    wanted = json.loads(run(*alone, "--json").stdout)
    assert (wanted["pairs"], wanted["pairs_read"]) == (12, 12)
    assert found.pop("loglik_per_token") == pytest.approx(wanted.pop("loglik_per_token"))
    assert found == {**wanted, "pairs_read": 50}
    assert run(*evaluate).stdout.splitlines()[0].rstrip() == "scored: 12 pairs with gold, of 50"
    assert "scored:" not in run(*alone).stdout
    whole = ("evaluate", zoo / "aligner", zoo / "pairs.txt", "--gold", gold / "some.pharaoh")
    found = json.loads(run(*whole, "--json").stdout)
    assert (found["pairs"], found["pairs_read"]) == (50, 50)
    assert found["precision"] < wanted["precision"] / 2
    assert "scored:" not in run(*whole).stdout


def test_of_samples(zoo: Path, gold: Path, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "s"
    sample = ("sample", "aligner", zoo / "pairs.txt", "--sweeps", 10, "--chains", 2, "--beta", 0.1, "--out", out)
    assert run(*sample).exit_code == 0
    evaluate = ("evaluate", out, zoo / "pairs.txt", "--gold", gold / "some.wa", "--how", "vote")
    found = json.loads(run(*evaluate, "--json").stdout)
    text = read_bitext(gold / "alone.txt")
    tokens = text.source.tokens + text.target.tokens
    assert (found["pairs"], found["pairs_read"], found["tokens"]) == (12, 50, tokens)
    whole = (*evaluate[:4], gold / "some.pharaoh", "--how", "vote")
    other = json.loads(run(*whole, "--json").stdout)
    assert other["recall"] == found["recall"]  # no sure link lies elsewhere
    assert other["precision"]["together"] < found["precision"]["together"] / 2
    assert (other["pairs"], other["pairs_read"]) == (50, 50)
    assert run(*evaluate).stdout.splitlines()[0].rstrip() == "scored: 12 pairs with gold, of 50"
    assert "scored:" not in run(*whole).stdout


def test_impossible_pairs_that_are_not_scored(zoo: Path, gold: Path, run: Run, tmp_path: Path) -> None:
    """What they would make of the log-likelihood is not said: they are no part of it."""
    lines = (zoo / "pairs.txt").read_text().splitlines()
    for place, said in ((0, False), (SOME[0], True)):
        source, _, target = lines[place].partition("|||")
        changed = [*lines[:place], f"{source} xyz ||| {target}", *lines[place + 1 :]]
        (tmp_path / "pairs.txt").write_text("".join(f"{one}\n" for one in changed))
        evaluate = ("evaluate", zoo / "aligner", tmp_path / "pairs.txt", "--gold", gold / "some.wa")
        assert ("1 of 50 pairs have probability zero" in run(*evaluate).stderr) == said

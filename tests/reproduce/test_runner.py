"""Runs are the same in one process or two, are never made twice, and survive whatever ends the process."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from pyro_unsup.errors import InputError, UnsupError
from pyro_unsup.reproduce import Corpora, Plan, Row, run

from . import fake
from .conftest import TREE, finish

ALL = {("first", name, seed) for name in ("one", "two") for seed in range(2)} | {("first", "fixed", 0)}


def without_seconds(found: object) -> object:
    return json.loads(json.dumps(found), object_hook=lambda one: {k: x for k, x in one.items() if k != "seconds"})


def test_one_process_or_two(tmp_path: Path, corpora: Corpora) -> None:
    plan = Plan.of(fake.paper(), corpora)
    one, two = finish(plan, tmp_path / "1"), finish(plan, tmp_path / "2", 2)
    assert one.found.keys() == two.found.keys() == ALL
    assert [without_seconds(one.found[key]) for key in ALL] == [without_seconds(two.found[key]) for key in ALL]
    assert one.found["first", "two", 1]["accuracy"] == 21.09
    assert one.found["first", "fixed", 0]["right"] == [1, 0, 1]


def test_seeds_trials_and_small(tmp_path: Path, corpora: Corpora) -> None:
    parts = fake.paper(Row("parts", partial(fake.score, 0.0), ("wsj",), trials=10))
    assert [job.seed for job in Plan.of(parts, corpora).jobs] == list(range(10))
    assert [job.seed for job in Plan.of(parts, corpora, seeds=3, small=True).jobs] == [0, 1]
    assert len(Plan.of(fake.paper(), corpora, seeds=3).jobs) == 7
    small = Plan.of(fake.paper(), corpora, small=True)
    assert [str(job) for job in small.jobs] == ["first: one, seed 0", "first: two, seed 0", "first: fixed"]
    assert finish(small, tmp_path).found["first", "one", 0]["bits"] == "inf"


def test_what_is_there_is_not_run_again(tmp_path: Path, corpora: Corpora) -> None:
    lines = tmp_path / "results.jsonl"
    finish(Plan.of(fake.paper(), corpora, seeds=1), tmp_path)
    before = lines.read_text().splitlines()
    lines.write_text("\n".join(before) + '\n{"paper": "fake-20')  # as a process leaves it that dies while it writes
    finish(Plan.of(fake.paper(), corpora), tmp_path)
    after = lines.read_text().splitlines()
    assert after[:3] == before
    assert {json.loads(line)["seed"] for line in after[3:]} == {1}
    # Other data are another matter.
    (corpora.folder / "wsj_nltk.mrg.gz").write_bytes((corpora.folder / "wsj_nltk.mrg").read_bytes())
    (corpora.folder / "wsj_nltk.mrg").unlink()
    (corpora.folder / "wsj_nltk.mrg.gz").write_text(4 * TREE)
    finish(Plan.of(fake.paper(), corpora), tmp_path)
    assert len(lines.read_text().splitlines()) == 10


def test_a_file_of_something_else(tmp_path: Path, corpora: Corpora) -> None:
    (tmp_path / "results.jsonl").write_text("[1]\n")
    with pytest.raises(InputError, match=r"results.jsonl:1: not a result of `reproduce`; choose another --out"):
        finish(Plan.of(fake.paper(), corpora), tmp_path)


def test_two_commands_do_not_write_one_file(tmp_path: Path, corpora: Corpora) -> None:
    plan = Plan.of(fake.paper(), corpora)
    with closing(run(plan, tmp_path)) as first:
        next(first)
        with pytest.raises(InputError, match="another `reproduce` is writing to it; wait for that"):
            finish(plan, tmp_path)


def test_a_row_that_fails_does_not_cost_the_others(tmp_path: Path, corpora: Corpora) -> None:
    rows = Row("bad", fake.fail, ("wsj",)), Row("good", partial(fake.score, 1.0), ("wsj",))
    state = finish(Plan.of(fake.paper(*rows), corpora), tmp_path)
    assert state.failed == {("first", "bad", 1): "ValueError: the first line"}
    assert len(state.found) == 3
    assert state.over == 4


KILLED = """
import sys
from functools import partial
from pathlib import Path
from pyro_unsup.reproduce import Corpora, Plan
from tests.reproduce import fake
from tests.reproduce.conftest import finish

folder = Path(sys.argv[1])
plan = Plan.of(fake.rows_of(partial(fake.die_once, folder / "mark")), Corpora(folder / "data"), seeds=4)
finish(plan, folder / "out")
"""


@pytest.mark.skipif(not hasattr(__import__("signal"), "SIGKILL"), reason="this system has no kill -9")
def test_killed_and_resumed(tmp_path: Path, corpora: Corpora) -> None:
    root = Path(__file__).parents[2]
    dead = subprocess.run([sys.executable, "-c", KILLED, tmp_path], cwd=root, check=False)
    assert dead.returncode == -9
    lines = tmp_path / "out" / "results.jsonl"
    assert [json.loads(line)["seed"] for line in lines.read_text().splitlines()] == [0, 1]
    plan = Plan.of(fake.rows_of(partial(fake.die_once, tmp_path / "mark")), corpora, seeds=4)
    state = finish(plan, tmp_path / "out")
    assert [found["accuracy"] for found in state.of(*_row(plan)).values()] == [0, 1, 2, 3]
    assert len(lines.read_text().splitlines()) == 4


def test_a_process_that_is_killed_ends_the_command(tmp_path: Path, corpora: Corpora) -> None:
    plan = Plan.of(fake.rows_of(partial(fake.die_once, tmp_path / "mark")), corpora, seeds=4)
    told = "first: row, seed 2: a process ended with exit code -9 while it worked, perhaps for want of memory"
    with pytest.raises(UnsupError, match=told):
        finish(plan, tmp_path / "out", 2)
    assert len(finish(plan, tmp_path / "out").found) == 4


def test_interrupted(tmp_path: Path, corpora: Corpora) -> None:
    plan = Plan.of(fake.rows_of(partial(fake.interrupt_once, tmp_path / "mark")), corpora, seeds=3)
    with pytest.raises(KeyboardInterrupt):
        finish(plan, tmp_path / "out")
    assert len((tmp_path / "out" / "results.jsonl").read_text().splitlines()) == 1
    assert len(finish(plan, tmp_path / "out").found) == 3


def test_closing_ends_the_processes(tmp_path: Path, corpora: Corpora) -> None:
    plan = Plan.of(fake.rows_of(partial(fake.sleep, 600.0)), corpora, seeds=2)
    with closing(run(plan, tmp_path, 2)) as states:
        seen = [next(states).running for _ in range(3)]
    assert [[job.seed for job in running] for running in seen] == [[], [0], [0, 1]]


def test_missing_corpora(tmp_path: Path, corpora: Corpora) -> None:
    rows = Row("here", partial(fake.score, 1.0), ("wsj",)), Row("gone", partial(fake.score, 1.0), ("wsj", "ewt"))
    plan = Plan.of(fake.paper(*rows), corpora)
    assert list(plan.left_out) == [("first", "gone")]
    assert {job.row.name for job in plan.jobs} == {"here"}
    with pytest.raises(InputError, match=r"ud/en_ewt-ud-train\.conllu: not there"):
        Plan.of(fake.paper(rows[1]), corpora)


def _row(plan: Plan) -> tuple:  # type: ignore[type-arg]
    return plan.tables[0], plan.tables[0].rows[0]

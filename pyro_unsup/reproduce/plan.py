"""What is to be run of a paper: tables, rows, seeds, and the corpora that are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import __version__
from .corpora import Corpora
from .experiment import Paper, Row, Table

SMALL_TRIALS = 2  # parts of a text that are tried, at most, when it is only to be seen that all runs


@dataclass(frozen=True)
class Job:
    """One run of one row."""

    table: Table
    row: Row
    seed: int

    def __str__(self) -> str:
        seed = "" if self.row.trials == 1 else f", seed {self.seed}"
        return f"{self.table.name}: {self.row.name}{seed}"


@dataclass(frozen=True)
class Plan:
    """What is to be run.

    :param paper: that is run again.
    :param tables: those of the paper that are wanted.
    :param corpora: where the data are.
    :param seeds: runs of a row, from seed 0 on.
    :param small: a small part of the text and few iterations, to see that it runs.
    :param left_out: why rows cannot be run, by the names of their table and their own.

    >>> from pathlib import Path
    >>> from pyro_unsup.reproduce import Corpora, Plan, paper
    >>> try:
    ...     Plan.of(paper("smith-eisner-2004"), Corpora(Path("nowhere")))
    ... except ValueError as error:
    ...     print(str(error).split(", ")[0])
    nowhere/wsj_nltk.mrg: not there
    """

    paper: Paper
    tables: tuple[Table, ...]
    corpora: Corpora
    seeds: int
    small: bool
    left_out: dict[tuple[str, str], str]

    @staticmethod
    def of(
        paper: Paper, corpora: Corpora, only: Sequence[str] = (), seeds: int | None = None, small: bool = False
    ) -> Plan:
        """All tables or some, all rows whose corpora are there.

        :param only: the names of the tables that are wanted; by default all.
        :param seeds: by default as many as the paper asks for, or one if it is to be small.
        :raises InputError: if no row can be run.
        """
        tables = tuple(paper.table(name) for name in dict.fromkeys(only)) or paper.tables
        gone = {(t.name, row.name): corpora.missing(row.needs) for t in tables for row in t.rows}
        errors = {key: error for key, error in gone.items() if error is not None}
        if errors and len(errors) == len(gone):
            raise next(iter(errors.values()))
        seeds = seeds or _usual(paper, small)
        return Plan(paper, tables, corpora, seeds, small, {key: str(error) for key, error in errors.items()})

    @property
    def command(self) -> str:
        """What is to be given on the command line for it."""
        given = ["pyro-unsup reproduce", self.paper.name, "--data DIR"]
        if self.tables != self.paper.tables:
            given += [f"--only {table.name}" for table in self.tables]
        if self.seeds != _usual(self.paper, self.small):
            given.append(f"--seeds {self.seeds}")
        return " ".join([*given, *(["--small"] if self.small else [])])

    @property
    def jobs(self) -> list[Job]:
        """Rows in order within a seed, so that every row is there early on."""
        rows = [(t, row) for t in self.tables for row in t.rows if (t.name, row.name) not in self.left_out]
        found = [Job(table, row, seed) for table, row in rows for seed in range(self.trials(row))]
        return sorted(found, key=lambda job: job.seed)

    @property
    def others(self) -> list[Job]:
        """What could be run of the paper's other tables, and may have been, earlier."""
        rows = [(t, row) for t in self.paper.tables if t not in self.tables for row in t.rows]
        there = [(table, row) for table, row in rows if self.corpora.missing(row.needs) is None]
        return [Job(table, row, seed) for table, row in there for seed in range(self.trials(row))]

    def trials(self, row: Row) -> int:
        """How many runs of a row there are."""
        if row.trials is None:
            return self.seeds
        return min(row.trials, SMALL_TRIALS) if self.small else row.trials

    def identity(self, job: Job) -> dict[str, Any]:
        """What makes two runs the same run."""
        return {
            "paper": self.paper.name,
            "table": job.table.name,
            "row": job.row.name,
            "seed": job.seed,
            "small": self.small,
            "version": __version__,
            "data": self.corpora.digest(job.row.needs),
        }


def _usual(paper: Paper, small: bool) -> int:
    """Runs of a row, if nothing is said."""
    return 1 if small else paper.seeds

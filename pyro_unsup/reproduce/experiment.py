"""What a paper's tables are made of: rows that can be run, columns, and the figures that were published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..errors import UnsupError
from .corpora import SOURCES, Corpora

#: What a run gives: numbers or short texts by the names of columns, lists of (x, y) by the names of curves, and
#: whatever else ``compare`` needs or a reader may want to see. All of it must fit into JSON.
Found: TypeAlias = dict[str, Any]
#: The corpora at hand, a seed, and whether a small part of the text and few iterations are enough.
Run: TypeAlias = Callable[[Corpora, int, bool], Found]
#: A number, its mean and deviation, or a short text.
Published: TypeAlias = float | tuple[float, float] | str
#: What rows found with one seed, by their names, to what that says of rows beside each other. Rows may be missing.
Compare: TypeAlias = Callable[[Mapping[str, Found]], Mapping[str, Found]]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    :param name: under which a run gives it.
    :param title: as shown.
    :param digits: after the point.

    >>> from pyro_unsup.reproduce import Column
    >>> Column("accuracy", "accuracy, %", digits=2)
    Column(name='accuracy', title='accuracy, %', digits=2)
    """

    name: str
    title: str
    digits: int = 1


@dataclass(frozen=True)
class Curve:
    """A figure with a line a row: what a run gives as a list of (x, y).

    :param name: under which a run gives it.
    :param x: what goes along the bottom.
    :param y: what goes up the side.
    :param log: count along the bottom by factors.

    >>> from pyro_unsup.reproduce import Curve
    >>> Curve("bits", x="passes", y="bits a word", log=True).name
    'bits'
    """

    name: str
    x: str
    y: str
    log: bool = False


@dataclass(frozen=True)
class Row:
    """A row of a table.

    :param name: in the first column.
    :param run: from corpora, seed and whether to be small, to what was found. It goes to other processes.
    :param needs: the corpora that it reads, by their names in :data:`~pyro_unsup.reproduce.corpora.SOURCES`.
    :param published: by the names of columns.
    :param trials: how many seeds there are: 1 where nothing is left to chance, 10 where seeds number parts of the text.
        None is as many as are asked for.

    >>> from pyro_unsup.reproduce import Row
    >>> def run(corpora, seed, small):
    ...     return {"accuracy": 50.0 + seed}
    >>> Row("EM", run, needs=("wsj",), published={"accuracy": 51.0}).trials is None
    True
    """

    name: str
    run: Run
    needs: tuple[str, ...]
    published: Mapping[str, Published] = field(default_factory=dict)
    trials: int | None = None


@dataclass(frozen=True)
class Table:
    """A table of a paper.

    :param name: on the command line.
    :param title: with its number in the paper.
    :param about: how it was made, and where data or settings differ from the paper's.
    :param columns: what is measured.
    :param rows: what is run.
    :param minutes: that all rows take on one core with as many seeds as the paper asks for, roughly.
    :param compare: adds what rows are worth beside each other.
    :param bars: columns to draw as bars; by default those with published numbers.
    :param curves: figures beside it.

    >>> from pyro_unsup.reproduce import Column, Row, Table
    >>> def run(corpora, seed, small):
    ...     return {"accuracy": 50.0 + seed}
    >>> rows = (Row("EM", run, needs=("wsj",), published={"accuracy": 51.0}),)
    >>> table = Table("first", "Table 1", "Ten sentences.", (Column("accuracy", "accuracy"),), rows, minutes=0.1)
    >>> table.needs, table.drawn
    (('wsj',), (Column(name='accuracy', title='accuracy', digits=1),))
    """

    name: str
    title: str
    about: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    minutes: float
    compare: Compare | None = None
    bars: tuple[str, ...] | None = None
    curves: tuple[Curve, ...] = ()

    def __post_init__(self) -> None:
        columns = _unique(f"columns of table {self.name}", [column.name for column in self.columns])
        _unique(f"rows of table {self.name}", [row.name for row in self.rows])
        for what, names in (("bars", self.bars or ()), *((f"row {row.name}", row.published) for row in self.rows)):
            for name in names:
                if name not in columns:
                    raise UnsupError(f"table {self.name}, {what}: no column {name!r}, expected {', '.join(columns)}")
        for row in self.rows:
            for name in row.needs:
                if name not in SOURCES:
                    known = ", ".join(SOURCES)
                    raise UnsupError(f"table {self.name}, row {row.name}: no corpus {name!r}, expected {known}")

    @property
    def needs(self) -> tuple[str, ...]:
        """The corpora of all rows."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row.needs))

    @property
    def drawn(self) -> tuple[Column, ...]:
        """The columns to draw as bars."""
        chosen = self.bars
        if chosen is None:
            chosen = tuple(name for row in self.rows for name, x in row.published.items() if not isinstance(x, str))
        return tuple(column for column in self.columns if column.name in chosen)


@dataclass(frozen=True)
class Paper:
    """A paper.

    :param name: on the command line; the module has the same name with underscores.
    :param title: authors and year.
    :param tables: those that can be run.
    :param seeds: how many, if nothing else is asked for.
    :param about: what all tables have in common.

    >>> from pyro_unsup.reproduce import paper
    >>> found = paper("smith-eisner-2004")
    >>> found.table(found.tables[0].name) is found.tables[0]
    True
    """

    name: str
    title: str
    tables: tuple[Table, ...]
    seeds: int = 1
    about: str = ""

    def __post_init__(self) -> None:
        _unique(f"tables of {self.name}", [table.name for table in self.tables])

    def table(self, name: str) -> Table:
        """A table by its name."""
        for table in self.tables:
            if table.name == name:
                return table
        known = ", ".join(table.name for table in self.tables)
        raise UnsupError(f"{self.name} has no table {name!r:.80}, expected {known}")


def _unique(what: str, names: list[str]) -> list[str]:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UnsupError(f"{what}: {twice!r} is there twice, expected different names")
    return names

"""A board for restarts in several processes: each writes its progress there, and the terminal shows it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .common import console

if TYPE_CHECKING:
    from rich.table import Table

    from ..infer.loop import Info

ITERATION, OBJECTIVE, CHANGE, BETA, STATE = COLUMNS = range(5)
WAITING, RUNNING, DONE = range(3)
REFRESH_A_SECOND = 5
BAR_WIDTH = 24


@dataclass(frozen=True)
class Board:
    """One row for each restart, in a file that all processes map. The last row tells all of them to stop.

    :param path: the file.
    :param restarts: rows.
    :param iterations: what each restart may take.
    """

    path: Path
    restarts: int
    iterations: int

    @property
    def _cells(self) -> Any:  # (restarts + 1, columns)
        return np.memmap(self.path, dtype=np.float64, mode="r+", shape=(self.restarts + 1, len(COLUMNS)))

    def note(self, restart: int, info: Info) -> bool:
        """Write down an iteration. Returns True if the run should stop."""
        beta = np.nan if info.beta is None else info.beta
        self._cells[restart] = info.iteration, info.objective, info.change, beta, RUNNING
        return self.stopped

    def finish(self, restart: int) -> None:
        """This restart is over."""
        self._cells[restart, STATE] = DONE

    def stop(self) -> None:
        """Ask every restart to stop after its iteration."""
        self._cells[-1, STATE] = DONE

    @property
    def stopped(self) -> bool:
        return bool(self._cells[-1, STATE] == DONE)

    @property
    def finished(self) -> bool:
        """Whether every restart is over."""
        return bool((self._cells[:-1, STATE] == DONE).all())

    def render(self) -> Table:
        """The board as it is now: what is running, and how many are done."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        cells = self._cells[:-1].copy()
        table = Table.grid(padding=(0, 2))
        for restart in np.flatnonzero(cells[:, STATE] == RUNNING):
            iteration, objective, change, beta, _ = cells[restart]
            annealed = not np.isnan(beta)
            total, completed = (1, min(beta, 1)) if annealed else (max(self.iterations, 1), iteration)
            table.add_row(
                f"start {restart + 1}" if self.restarts > 1 else "training",
                ProgressBar(total=total, completed=completed, width=BAR_WIDTH),
                f"{iteration:.0f} at beta {beta:.3g}" if annealed else f"{iteration:.0f}/{self.iterations}",
                f"objective {objective:,.1f}",
                f"change {change:.1e}",
            )
        done = cells[:, STATE] == DONE
        if self.restarts > 1 and done.any():
            best = cells[done, OBJECTIVE].max()
            table.add_row("done", f"{done.sum()} of {self.restarts}", "", f"[bold]best {best:,.1f}[/bold]", "")
        if self.stopped:
            table.add_row("[yellow]stopping", "after this iteration", "", "(Ctrl-C again: at once)", "")
        return table


@contextmanager
def board_of(restarts: int, iterations: int) -> Iterator[Board]:
    """A new board, shown on the terminal (if standard error is one) while the block runs."""
    from rich.live import Live

    with tempfile.TemporaryDirectory(prefix="pyro-unsup-") as folder:
        path = Path(folder) / "board"
        path.write_bytes(np.zeros((restarts + 1, len(COLUMNS))).tobytes())
        board = Board(path, restarts, iterations)
        screen = console(stderr=True)
        if not screen.is_terminal:
            yield board
            return
        with Live(console=screen, get_renderable=board.render, refresh_per_second=REFRESH_A_SECOND, transient=True):
            yield board

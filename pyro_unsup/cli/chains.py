"""Chains of a sampler on the terminal: how far each has come, how hot it is, and its log joint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .board import BAR_WIDTH, REFRESH_A_SECOND
from .common import console

if TYPE_CHECKING:
    from rich.table import Table

    from ..infer import Sweep


class Chains:
    """The last sweep of each chain.

    :param sweeps: that each will make.
    """

    def __init__(self, sweeps: int) -> None:
        self.sweeps = sweeps
        self._stopped = False
        self._last: dict[int, Sweep] = {}

    def note(self, sweep: Sweep) -> bool:
        """Take down a sweep. A true answer ends the run."""
        self._last[sweep.chain] = sweep
        return self._stopped

    def stop(self) -> None:
        """Ask every chain to stop after its sweep."""
        self._stopped = True

    def render(self) -> Table:
        """A row a chain that has begun."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        for chain, last in sorted(self._last.copy().items()):
            table.add_row(
                f"chain {chain + 1}",
                ProgressBar(total=self.sweeps, completed=last.sweep, width=BAR_WIDTH),
                f"{last.sweep}/{self.sweeps}",
                f"temperature {last.temperature:.3g}",
                f"log joint {last.log_joint:,.1f}",
            )
        if self._stopped:
            table.add_row("[yellow]stopping", "after this sweep", "", "(Ctrl-C again: at once)", "")
        return table


@contextmanager
def live(sweeps: int) -> Iterator[Chains]:
    """Chains, shown on the terminal (if standard error is one) while the block runs."""
    from rich.live import Live

    chains, screen = Chains(sweeps), console(stderr=True)
    if not screen.is_terminal:
        yield chains
        return
    with Live(console=screen, get_renderable=chains.render, refresh_per_second=REFRESH_A_SECOND, transient=True):
        yield chains

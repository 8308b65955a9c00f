"""The result of simulation-based calibration: ranks, tests of them, and pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors import UnsupError
from ..evaluate.uniformity import chi_squared, ecdf_p, holm

if TYPE_CHECKING:
    import pandas


@dataclass(eq=False)
class Calibration:
    """Where the truth lies among draws from the posterior, simulation by simulation.

    :param ranks: a row a simulation, a column a quantity: the share of draws below the truth, between 0 and 1. Ties are
        broken at random. Uniform, if the engine is right.
    :param draws: likewise, how many draws were compared with, after thinning.

    >>> import numpy as np, pandas
    >>> from pyro_unsup.workflow import Calibration
    >>> rng = np.random.default_rng(0)
    >>> ranks = pandas.DataFrame({"good": rng.random(200), "overconfident": rng.beta(0.3, 0.3, 200)})
    >>> found = Calibration(ranks, 0 * ranks + 100)
    >>> found.passed(), found.failing()
    (False, ['overconfident'])
    """

    ranks: pandas.DataFrame
    draws: pandas.DataFrame

    @property
    def table(self) -> pandas.DataFrame:
        """A row a quantity.

        ``mean`` is 0.5 without bias: above it, draws are too small. ``spread`` is 1 if draws are as uncertain as they
        should be: above 1 the engine is overconfident, below 1 it is too careful. ``chi_squared`` and ``ecdf`` are
        p-values of uniform ranks. ``adjusted`` is the p-value of this quantity, adjusted for all tests of the table.
        """
        import pandas

        rows = {}
        for name in self.ranks:
            u = self.ranks[name].to_numpy()
            rows[name] = {
                "mean": u.mean(),
                "spread": 12 * np.mean((u - 0.5) ** 2),
                "draws": self.draws[name].mean(),
                "chi_squared": chi_squared(u),
                "ecdf": ecdf_p(u),
            }
        table = pandas.DataFrame(rows).T
        both = holm(table[["chi_squared", "ecdf"]].to_numpy().ravel()).reshape(-1, 2)
        table["adjusted"] = both.min(1)
        return table

    def failing(self, level: float = 0.01) -> list[str]:
        """The quantities whose ranks are not uniform, adjusted for all tests."""
        table = self.table
        return [str(name) for name in table.index[table["adjusted"] < level]]

    def passed(self, level: float = 0.01) -> bool:
        """Whether all ranks are uniform, as far as the tests can tell.

        :param level: the chance that a right engine fails.
        """
        return not self.failing(level)

    def plot(
        self, kind: Literal["ecdf", "hist"] = "ecdf", names: list[str] | str | None = None, level: float = 0.95
    ) -> Any:
        """Pictures of the ranks, a panel a quantity; see :func:`.plot.rank_ecdf` and :func:`.plot.rank_histogram`.

        :param kind: ``"ecdf"``: the distribution function less that of uniform numbers, with a band; ``"hist"``:
            counts, with a band.
        :param names: of the quantities; by default the 12 with the smallest p-values.
        :param level: of the band.
        :return: a matplotlib figure.
        """
        from ..plot import rank_ecdf, rank_histogram

        if kind not in ("ecdf", "hist"):
            raise UnsupError(f"kind must be 'ecdf' or 'hist', actual {kind!r:.80}")
        names = [names] if isinstance(names, str) else names
        if wrong := [name for name in names or () if name not in self.ranks]:
            raise UnsupError(
                f"there is no quantity {wrong[0]!r:.80}: expected some of {', '.join(map(str, self.ranks))}"
            )
        table = self.table.sort_values("adjusted")
        chosen = list(table.index[:12]) if names is None else names
        ranks = {str(name): self.ranks[name].to_numpy() for name in chosen}
        return (rank_ecdf if kind == "ecdf" else rank_histogram)(ranks, level)

    def __repr__(self) -> str:
        failing = self.failing()
        n, many = self.ranks.shape
        verdict = f"{len(failing)} of {many} quantities are not calibrated" if failing else "calibrated"
        worst = self.table.sort_values("adjusted").head(8).round(3).to_string()
        return f"Calibration by {n} simulations: {verdict}\n{worst}"

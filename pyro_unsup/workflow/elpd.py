"""Expected log predictive density: what held-out data say about a model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..errors import UnsupError
from ..results import Fit
from ..results.fit import with_params
from .densities import Densities
from .draws import Draws, of_arrays
from .parameters import flat, parameters_of
from .pointwise import Pointwise
from .running import Program

if TYPE_CHECKING:
    import pandas

#: Numbers (draws times observations) that one run of the model computes.
ROOM = 2**22
#: Columns that tell which data were held out, and together with which.
PLACES = ("fold", "example", "start", "end", "time")


@dataclass(eq=False)
class Elpd:
    """The log predictive density of held-out data.

    :param frame: a row a piece of held-out data, with its ``elpd`` and what else is known of it.
    :param method: how data were held out.

    >>> import pandas
    >>> from pyro_unsup.workflow import Elpd
    >>> one = Elpd(pandas.DataFrame({"elpd": [-1.0, -2.0, -1.5]}), "K-fold")
    >>> other = Elpd(pandas.DataFrame({"elpd": [-2.0, -2.5, -2.0]}), "K-fold")
    >>> one.elpd, round(one.se, 3), one.compare(other)[0]
    (-4.5, 0.866, 2.0)
    """

    frame: pandas.DataFrame
    method: str

    @property
    def elpd(self) -> float:
        """The sum over all held-out data. Higher is better."""
        return float(self.frame["elpd"].sum())

    @property
    def se(self) -> float:
        """The standard error of the sum, from the spread of its parts."""
        return _se(self.frame["elpd"].to_numpy())

    def compare(self, other: Elpd) -> tuple[float, float]:
        """How much higher this one is than another one of the same held-out data, and the standard error of that."""
        if not isinstance(other, Elpd):
            raise UnsupError(f"compare takes another Elpd, as k_fold returns it; actual {type(other).__name__}")
        if len(self.frame) != len(other.frame):
            raise UnsupError(
                f"both should have the same held-out data: expected {len(self.frame)} pieces, actual {len(other.frame)}"
            )
        for name in PLACES:
            both = [name in one.frame for one in (self, other)]
            if any(both) and not (all(both) and (self.frame[name] == other.frame[name]).all()):
                raise UnsupError(
                    f"both should hold out the same data in the same way, and '{name}' differs: run both with the same "
                    "data, folds= (or first= and ahead=), block= and seed="
                )
        difference = self.frame["elpd"].to_numpy() - other.frame["elpd"].to_numpy()
        return float(difference.sum()), _se(difference)

    def __repr__(self) -> str:
        return f"elpd {self.elpd:.2f} +- {self.se:.2f} ({self.method}, {len(self.frame)} pieces of held-out data)"


class Predictive:
    """The log densities of data under what an engine found."""

    def __init__(self, model: Any, result: Any, args: Sequence[Any], draws: int, seed: int) -> None:
        self.model = with_params(model, result.params) if isinstance(result, Fit) and result.params else model
        found = parameters_of(result, args, number=draws, seed=seed)
        self.draws: Mapping[str, Tensor] = flat(found) if found else {}
        if self.draws and isinstance(result, Fit) and all(bool((x == x[:1]).all()) for x in self.draws.values()):
            self.draws = {name: x[:1] for name, x in self.draws.items()}  # a point

    @property
    def size(self) -> int:
        """How many draws there are."""
        return len(next(iter(self.draws.values()))) if self.draws else 1

    def pointwise(self, *args: Any) -> Tensor:  # (draws, examples)
        """Of each example."""
        density = Densities(self.model, args)
        with torch.no_grad():
            if density.enumerated or len(density.observed) > 1:
                return self._by_example(args)
            if not self.draws:
                return density._run({})[1][None]
            rows = max(1, getattr(args[0], "tokens", 0) or _length(args[0]))
            parts = torch.arange(self.size).split(max(1, ROOM // rows))
            return torch.cat([density.pointwise({n: x[part] for n, x in self.draws.items()}) for part in parts])

    def _by_example(self, args: tuple[Any, ...]) -> Tensor:  # (draws, examples)
        """The same where the plates of the model tell which terms are of one example: it has enumerated variables, or
        observes several sites, such as both directions of an alignment."""
        found = {name: x.numpy()[None] for name, x in self.draws.items()}
        drawn = of_arrays(found, self.model, args) if found else Draws(self.model, args, 1, 1, {}, lambda *_: {})
        each = Pointwise(Program(drawn))
        parts = torch.arange(self.size).split(max(1, ROOM // max(1, _length(args[0]))))
        values = [each(drawn.take(int(part[0]), int(part[-1]) + 1)) for part in parts]
        return torch.cat(values).reshape(self.size, -1)


def log_mean(x: Tensor) -> Tensor:  # (draws, n) -> (n,)
    """The log of the mean of exp(x) over draws."""
    return x.logsumexp(0) - math.log(len(x))


def _length(x: Any) -> int:
    return len(x) if hasattr(x, "__len__") else 1


def _se(values: np.ndarray[Any, Any]) -> float:
    return float(np.sqrt(len(values) * values.var(ddof=1))) if len(values) > 1 else float("nan")

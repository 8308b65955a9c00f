"""What training leaves behind: the learned weights, and the model that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyro
from pyro import poutine
from pyro.infer import config_enumerate, infer_discrete
from torch import Tensor

from ..distributions import Posterior, Structured
from ..handlers import given
from .report import Report

if TYPE_CHECKING:
    import pandas


@dataclass
class Fit:
    """A trained model.

    :param weights: log-weights by table.
    :param points: point estimates of continuous latent variables, by site.
    :param param_state: the state of Pyro's parameter store that belongs to this fit.
    :param rows: one dict an iteration: ``iteration``, ``objective``, ``log_likelihood``, ``change``, ``seconds``.
    """

    model: Callable[..., Any]
    weights: dict[str, Tensor]
    report: Report
    rows: list[dict[str, float]]
    seed: int
    config: dict[str, Any] = field(default_factory=dict)
    points: dict[str, Tensor] = field(default_factory=dict)
    param_state: Any = None

    @property
    def objective(self) -> float:
        return self.report.objective

    @property
    def params(self) -> dict[str, Tensor]:
        """Values of the model's ``pyro.param`` sites."""
        with self._params() as store:
            return {name: store[name].detach().clone() for name in store}

    @property
    def history(self) -> pandas.DataFrame:
        """One row an iteration; row 0 is the start."""
        import pandas

        return pandas.DataFrame(self.rows)

    def trained(self, *args: Any, **kwargs: Any) -> Any:
        """The model with everything that was learned put in: itself a Pyro program."""
        with self._params():
            return given(poutine.condition(self.model, self.points), self.weights)(*args, **kwargs)

    def posterior(self, *args: Any, **kwargs: Any) -> Posterior:
        """The hidden structure of these data, for a model with a structured distribution."""
        trace = poutine.trace(self.trained).get_trace(*args, **kwargs)
        found = [s for s in trace.nodes.values() if s["type"] == "sample" and isinstance(s["fn"], Structured)]
        if len(found) != 1:
            raise ValueError(f"posterior() wants a model with one structured site, found {len(found)}; "
                             "for enumerated latent variables use predict()")  # fmt: skip
        posterior: Posterior = found[0]["fn"].posterior(found[0]["value"])
        return posterior

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """The most probable hidden structure: of the structured site, or a dict of all enumerated latent variables."""
        trace = poutine.trace(self.trained).get_trace(*args, **kwargs)
        sites = [s for s in trace.nodes.values() if s["type"] == "sample"]
        structured = [s for s in sites if isinstance(s["fn"], Structured)]
        if len(structured) == 1:
            return structured[0]["fn"].posterior(structured[0]["value"]).mode()
        nesting = max((-f.dim for s in sites for f in s["cond_indep_stack"] if f.vectorized), default=0)
        decoder = infer_discrete(config_enumerate(self.trained), first_available_dim=-1 - nesting, temperature=0)
        decoded = poutine.trace(decoder).get_trace(*args, **kwargs)
        hidden = [s["name"] for s in sites if not s["is_observed"] and type(s["fn"]).__name__ != "_Subsample"]
        return {name: decoded.nodes[name]["value"] for name in hidden}

    @contextmanager
    def _params(self) -> Iterator[Any]:
        store = pyro.get_param_store()
        if self.param_state is None:
            with store.scope():
                yield store
        else:
            with store.scope(state=self.param_state):
                yield store

    def __repr__(self) -> str:
        tables = ", ".join(f"{name} {tuple(w.shape)}" for name, w in self.weights.items())
        return f"Fit of {self.model!r}: {tables}\n{self.report}"

"""Hidden variables of a few values each, recovered draw by draw by Pyro's enumeration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from pyro import poutine
from pyro.infer import TraceEnum_ELBO, infer_discrete
from torch import Tensor

from ..errors import UnsupError
from .draws import Values
from .groups import check_room
from .running import Program

Array = np.ndarray[Any, Any]

WAYS = ("sample", "mode", "marginals", "probabilities")


class Enumerated:
    """The enumerated variables of a model of one's own, one run of Pyro's a draw.

    :param program: the model and its draws.
    :param wanted: the words of ``how``, of which ``"sample"``, ``"mode"``, ``"marginals"`` and ``"probabilities"`` are
        known here.
    :param limit: bytes that a result may take.
    """

    def __init__(self, program: Program, wanted: Sequence[str], limit: float) -> None:
        if wrong := [way for way in wanted if way not in WAYS]:
            raise UnsupError(f"of enumerated variables there is no {wrong[0]!r}: expected some of {', '.join(WAYS)}")
        self._program, self._wanted = program, wanted
        total = program.draws.total
        self.found: dict[str, Array] = {}
        self.dims: dict[str, list[str]] = {}
        self.coords: dict[str, Any] = {}
        self._sums: dict[str, Array] = {}
        several = len(program.hidden) > 1
        self._start = {name: f"{name}_" if several else "" for name in program.hidden}
        for name in program.hidden:
            site = program.sites[name]
            shape, size = tuple(site["value"].shape), len(site["fn"].enumerate_support(expand=False))
            frames = sorted((f for f in site["cond_indep_stack"] if f.vectorized), key=lambda f: f.dim)
            dims = [str(frame.name) for frame in frames]
            for way in wanted:
                key, wide = self._start[name] + way, shape if way in ("sample", "mode") else (*shape, size)
                own = dims if way in ("sample", "mode") else [*dims, f"{name}_value"]
                self.dims[key] = own
                if way == "probabilities":
                    self._sums[key] = np.zeros(wide)
                    continue
                kind = np.min_scalar_type(-1 - size) if way in ("sample", "mode") else np.dtype(float)
                check_room(f"recovered (its '{key}')", total * int(np.prod(wide)), kind.itemsize, limit)
                self.found[key] = np.empty((total, *wide), kind)

    def add(self, values: Values, at: int) -> None:
        """What a run with one draw tells, whose values have a first axis of size 1."""
        program = self._program
        model = program.enumerable(values)
        args, first = program.args, -1 - program.plates
        for way, temperature in (("sample", 1), ("mode", 0)):
            if way in self._wanted:
                decoder = infer_discrete(model, first_available_dim=first, temperature=temperature)
                with torch.no_grad(), poutine.block():
                    trace = poutine.trace(decoder).get_trace(*args)
                for name in program.hidden:
                    self.found[self._start[name] + way][at] = np.asarray(trace.nodes[name]["value"])
        if {"marginals", "probabilities"} & set(self._wanted):
            for name, p in self._marginals(model).items():
                if "marginals" in self._wanted:
                    self.found[f"{self._start[name]}marginals"][at] = p
                if "probabilities" in self._wanted:
                    self._sums[f"{self._start[name]}probabilities"] += np.asarray(p)

    def _marginals(self, model: Any) -> dict[str, Tensor]:  # (*plates, values) each
        program = self._program
        elbo = TraceEnum_ELBO(max_plate_nesting=program.plates, strict_enumeration_warning=False)
        with torch.no_grad(), poutine.block():
            found = elbo.compute_marginals(model, lambda *args: None, *program.args)
        each = {name: found[name].enumerate_support(expand=True) for name in program.hidden}
        return {name: found[name].log_prob(values).movedim(0, -1).softmax(-1) for name, values in each.items()}

    def means(self) -> dict[str, Array]:
        """What was found on average over all draws."""
        return {name: x / self._program.draws.total for name, x in self._sums.items()}

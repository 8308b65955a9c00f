"""Log-likelihoods under every draw, of each example or each step of a series, all that is hidden summed out."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from pyro.distributions.util import scale_and_mask
from pyro.ops.contract import contract_tensor_tree
from torch import Tensor

from ..errors import UnsupError
from .draws import Values
from .running import PLATE, Program


class Pointwise:
    """log p(example | draw), (draws, *plates).

    Examples are what the plates tell apart that all observed sites share. Several sites, such as the two directions of
    an alignment, are added up: an example is left out whole, or not at all.

    :param program: the model and its draws.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        if not program.observed:
            raise UnsupError("the model observes nothing, so it has no likelihood: give it the data")
        wrong = [name for name in program.hidden if not program.sites[name]["fn"].has_enumerate_support]
        if wrong:
            raise UnsupError(
                f"there are no draws of the hidden site '{wrong[0]}', and it has too many values to sum over: expected "
                "draws of all continuous sites"
            )
        frames = [_frames(program.sites[name]) for name in program.observed]
        shared = frozenset.intersection(*frames)
        self._plates = sorted(shared, key=lambda frame: frame.dim)
        self._own = {frame.dim for frame in shared}

    @property
    def name(self) -> str:
        """That of the observed site, or of all of them: ``forward_backward``."""
        return "_".join(self._program.observed)

    @property
    def dims(self) -> list[str]:
        """The plates, outermost first."""
        return [str(frame.name) for frame in self._plates]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many examples there are along every plate."""
        return tuple(int(frame.size) for frame in self._plates)

    def __call__(self, values: Values) -> Tensor:  # (n, *shape)
        """Of some draws."""
        if not self._program.hidden:
            return self._program.each(values, self._observed)
        n = len(next(iter(values.values()), [0]))  # one run, if there are only parameters that all draws share
        return torch.stack([self._enumerated({name: x[i : i + 1] for name, x in values.items()}) for i in range(n)])

    def _observed(self, trace: Any) -> Tensor:  # ([n,] *shape)
        """From a run in which nothing is hidden but structures, which sum over themselves."""
        total: Any = 0.0
        for name in self._program.observed:
            site = trace.nodes[name]
            each = scale_and_mask(site["fn"].log_prob(site["value"]), site["scale"], site["mask"])
            frames = {f.dim: f for f in site["cond_indep_stack"] if f.vectorized}
            depth = self._program.plates + any(f.name == PLATE for f in frames.values())
            wide = each.reshape((1,) * (depth - each.dim()) + tuple(each.shape))
            wide = wide.expand([frames[i - depth].size if i - depth in frames else n for i, n in enumerate(wide.shape)])
            others = [d for d in range(-self._program.plates, 0) if d not in self._own]
            total = total + (wide.sum(others) if others else wide)
        found: Tensor = total
        return found

    def _enumerated(self, values: Values) -> Tensor:  # shape
        """With hidden variables of a few values each: Pyro tells all combinations, which are summed plate by plate."""
        program = self._program
        trace = program.enumerated(values)
        tree: OrderedDict[frozenset[str], list[Tensor]] = OrderedDict()
        for name in (*program.hidden, *program.observed):
            site = trace.nodes[name]
            around = frozenset(trace.plate_to_symbol[frame.name] for frame in _frames(site))
            each = site["packed"]["log_prob"]
            term: Any = each.double()  # parameters in single precision, data from numpy in double
            term._pyro_dims = each._pyro_dims
            tree.setdefault(around, []).append(term)
        plates = set(trace.plate_to_symbol.values())
        sums = {d for terms in tree.values() for x in terms for d in x._pyro_dims} - plates  # type: ignore[attr-defined]
        total = torch.zeros(self.shape, dtype=torch.float64)
        for terms in contract_tensor_tree(tree, sums).values():
            for x in terms:
                dims = [trace.symbol_to_dim[d] for d in x._pyro_dims]
                if not self._own <= set(dims):
                    raise UnsupError(
                        "the examples share a hidden variable, so that there is no likelihood of one without the others"
                    )
                order = sorted(range(len(dims)), key=lambda i: dims[i])
                others = [k for k, i in enumerate(order) if dims[i] not in self._own]
                wide = x.permute(order)
                total = total + (wide.sum(others) if others else wide)
        return total


class Stepwise:
    """log p(observation | those before it, draw), (draws, rows), of a model of series."""

    dims: tuple[str, ...]

    def __init__(self, program: Program) -> None:
        self._program = program
        sites = program.structured
        fn = program.sites[sites[0]]["fn"] if len(sites) == 1 else None
        if fn is None or not hasattr(type(fn.posterior(program.sites[sites[0]]["value"])), "step_log_likelihood"):
            raise UnsupError("one value a step is for chains, such as an HMM of series: leave steps=True out")
        self.name = sites[0]
        self.dims = (f"{self.name}_row",)
        self.shape = (int(fn.rows.size),)

    def __call__(self, values: Values) -> Tensor:  # (n, rows)
        """Of some draws."""
        return self._program.each(values, self._found)

    def _found(self, trace: Any) -> Tensor:
        site = trace.nodes[self.name]
        found: Tensor = site["fn"].posterior(site["value"]).step_log_likelihood
        return found


def _frames(site: Any) -> frozenset[Any]:
    return frozenset(frame for frame in site["cond_indep_stack"] if frame.vectorized)

"""Draws of whatever was inferred, in one form: tables and other sites of a model, chain by chain, on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from pyro import poutine
from pyro.infer import MCMC
from torch import Tensor

from ..errors import UnsupError
from ..handlers import bare, declared
from ..infer import CollapsedGibbs
from ..results import Fit, Samples
from ..results.arviz import check_draws, group_of, is_arviz
from ..results.fit_draws import DRAWS, FitDraws
from ..results.sample_tables import SampledTables
from ..results.sample_text import same_text
from ..results.table_posterior import to_table
from ..tables import Declaration
from .guides import guide_draws

#: How far the sum of probabilities may be from one: draws may come in single precision, or from a file.
ROUNDING = 1e-3
Values = dict[str, Tensor]  #: by table or site, (draws, ...)


@dataclass(eq=False)
class Draws:
    """Draws from a posterior, and the program that they are of.

    :param model: without handlers that are ways of training.
    :param args: its arguments, if they are known.
    :param chains: how many.
    :param size: draws in each.
    :param tables: those of the model, by name.
    :param take: the values of some draws, counted through all chains: tables as probabilities, (n, *layout.shape), and
        other sites.
    :param params: values of ``pyro.param`` sites, the same in all draws.
    :param numbers: how many numbers a draw has.
    :param labels: drawn beside the tables, (chains, draws, units), by a collapsed sampler.
    :param extra: what else is known of the draws, (chains, draws, ...) by name.
    """

    model: Callable[..., Any]
    args: tuple[Any, ...]
    chains: int
    size: int
    tables: dict[str, Declaration]
    take: Callable[[int, int], Values]
    params: Values = field(default_factory=dict)
    numbers: int = 0
    labels: np.ndarray[Any, Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Draws in all chains together."""
        return self.chains * self.size

    def pieces(self, at_a_time: int) -> Iterator[tuple[int, int]]:
        """Where to cut the draws, so that not too many are held at a time."""
        for first in range(0, self.total, at_a_time):
            yield first, min(first + at_a_time, self.total)

    def by_chain(self, values: Any) -> np.ndarray[Any, Any]:  # (chains * draws, ...) -> (chains, draws, ...)
        """What was found draw by draw."""
        array = np.asarray(values)
        return array.reshape(self.chains, self.size, *array.shape[1:])


def draws_of(
    result: Any, args: tuple[Any, ...], model: Callable[..., Any] | None, draws: int | None, seed: int
) -> Draws:
    """Draws from a fit, samples, a run of MCMC, a guide, an ArviZ object, or arrays by name.

    :param args: the data.
    :param model: that the draws are of; a fit, samples and MCMC have one of their own.
    :param draws: from a fit or a guide, how many.
    """
    check_draws(draws)
    if isinstance(result, Fit):
        return _of_fit(result, args, draws, seed)
    if draws is not None and (isinstance(result, Samples | MCMC | Mapping) or is_arviz(result)):
        raise UnsupError("draws= is for a fit or a guide; of what was sampled before, there are as many as there are")
    if isinstance(result, Samples):
        return _of_samples(result, args, seed)
    if isinstance(result, MCMC):
        return _of_mcmc(result, args, model, seed)
    if not (is_arviz(result) or isinstance(result, Mapping) or callable(result)) or hasattr(result, "declarations"):
        trained = "; a model has to be trained or sampled first" if hasattr(result, "declarations") else ""
        raise UnsupError(
            "expected a Fit, Samples, MCMC, a guide, an ArviZ object or arrays by name, and then the data; actual "
            f"{type(result).__name__}{trained}"
        )
    if model is None:
        raise UnsupError(
            f"to which model does a {type(result).__name__} belong? Give model=...; only a Fit, Samples and MCMC know"
        )
    if is_arviz(result):
        return of_arrays(arrays_of(result), model, args)
    if isinstance(result, Mapping):
        return of_arrays({name: np.asarray(x) for name, x in result.items()}, model, args)
    return _of_guide(result, model, args, DRAWS if draws is None else draws, seed)


def arrays_of(data: Any) -> dict[str, np.ndarray[Any, Any]]:  # (chains, draws, ...) each
    """The posterior of an ArviZ object of any version."""
    found = group_of(data, "posterior")
    if found is None:
        raise UnsupError("the ArviZ object has no group 'posterior', so there are no draws")
    return {str(name): x.values for name, x in found.data_vars.items()}


def samples_of(mcmc: MCMC) -> Values:  # (chains, draws, ...) each
    """The draws of a run of Pyro's MCMC.

    :raises UnsupError: if it has not run.
    """
    if not mcmc._samples:
        raise UnsupError("the MCMC has not run, so there are no draws: call mcmc.run(data) first")
    found: Values = mcmc.get_samples(group_by_chain=True)
    return found


def tables_of(model: Callable[..., Any], args: tuple[Any, ...]) -> dict[str, Declaration]:
    """The tables of a model, by name."""
    inside: Any = bare(model)
    if hasattr(inside, "declarations"):
        found: dict[str, Declaration] = inside.declarations()
        return found
    with poutine.block(), torch.random.fork_rng(devices=[]):
        return {name: one.touching(None) for name, one in declared(model, *args).items()}


def _of_fit(fit: Fit, args: tuple[Any, ...], draws: int | None, seed: int) -> Draws:
    drawn = FitDraws(fit, args, {}, draws, seed)
    numbers = sum(x.numel() for x in (*fit.weights.values(), *fit.points.values()))
    known = drawn.wide(drawn.hyperparameters) | ({} if drawn.component is None else {"component": drawn.component})
    extra = {name: np.asarray(x)[None] for name, x in known.items()}
    return Draws(bare(fit.model), args, 1, drawn.size, drawn.tables, drawn.take, fit.params, numbers, extra=extra)


def _of_samples(samples: Samples, args: tuple[Any, ...], seed: int) -> Draws:
    if len(args) == 1 and not (same_text(samples, args[0]) if hasattr(args[0], "offsets") else _same(samples, args[0])):
        raise UnsupError("these data are not the ones that were sampled: labels were drawn for those alone")
    concentrations = (samples.draws["alpha"], samples.draws["beta"])
    drawn = {name: x for name, x in samples.draws.items() if name not in ("labels", "alpha", "beta")}
    return of_labels(samples.model, args, samples.labels, *concentrations, seed, drawn)


def _same(samples: Samples, data: Any) -> bool:
    """Whether these are the data that were sampled."""
    state = samples.model.gibbs_state()(samples.model, data)
    return state.data.keys() == samples.data.keys() and all(
        np.array_equal(x, samples.data[name]) for name, x in state.data.items()
    )


def of_labels(
    model: Any,
    args: tuple[Any, ...],
    labels: Any,
    alpha: Any,
    beta: Any,
    seed: int,
    drawn: Mapping[str, Any] | None = None,
) -> Draws:
    """Tables drawn given sampled labels, (chains, draws, units), and concentrations.

    :param drawn: tables that were drawn beside the labels, (chains, draws, ...) by name.
    """
    chains, size, _ = labels.shape
    if not args:
        raise UnsupError("the tables of a collapsed sampler are drawn given its labels and the data: give the data too")
    flat = {name: x.reshape(chains * size, *x.shape[2:]) for name, x in (drawn or {}).items()}
    units, rows, columns = (x.reshape(chains * size, *x.shape[2:]) for x in (labels, alpha, beta))
    tables: dict[str, Declaration] = model.declarations()
    sampled = SampledTables(model, args[0], units, rows, columns, seed, flat)
    return Draws(model, args, chains, size, tables, sampled.take, numbers=_cells(tables), labels=labels)


def _of_mcmc(mcmc: MCMC, args: tuple[Any, ...], model: Callable[..., Any] | None, seed: int) -> Draws:
    kernel = mcmc.kernel
    args = args or tuple(mcmc._args or ())
    found = {name: x.detach().cpu().numpy() for name, x in samples_of(mcmc).items()}
    if not isinstance(kernel, CollapsedGibbs):
        own = getattr(kernel, "model", None) if model is None else model
        if own is None:
            raise UnsupError(f"a {type(kernel).__name__} has no model of its own: give model=...")
        return of_arrays(found, own, args)
    program: Any = bare(kernel.model)
    numbers = {name: x for name, x in found.items() if name not in program.declarations()}
    if len(numbers) < len(found):
        return replace(of_arrays(found, program, args), extra=numbers)
    return replace(of_labels(program, args, *kernel.labels_of(mcmc), seed), extra=numbers)


def of_arrays(found: Mapping[str, Any], model: Callable[..., Any], args: tuple[Any, ...]) -> Draws:
    """Arrays by name, (chains, draws, ...). Those of a table lie as it does, or flat over the cells that it allows."""
    if not found:
        raise UnsupError("there are no draws: expected arrays (chain, draw, ...) by the names of tables and sites")
    for name, x in found.items():
        if not isinstance(name, str) or x.ndim < 2 or x.dtype.kind not in "biuf":
            raise UnsupError(
                f"draws are arrays of numbers (chain, draw, ...) by the names of tables and sites; actual {name!r:.80} "
                f"with shape {x.shape} of {x.dtype}"
            )
    tables = tables_of(model, args)
    chains, size = next(iter(found.values())).shape[:2]
    if not chains * size:
        raise UnsupError(f"there are no draws: expected one or more, actual {chains} chains of {size}")
    for name, x in found.items():
        if x.shape[:2] != (chains, size):
            raise UnsupError(f"'{name}' has shape {x.shape}, expected ({chains}, {size}, ...): chains and draws first")
    missing = [name for name in tables if name not in found]
    if missing:
        raise UnsupError(f"the draws have no table '{missing[0]}': they have {', '.join(found)}")
    flat = {name: x.reshape(chains * size, *x.shape[2:]) for name, x in found.items()}

    def take(first: int, last: int) -> Values:
        values = {name: torch.from_numpy(np.array(x[first:last])) for name, x in flat.items()}
        return {name: _as_table(tables[name], x) if name in tables else x for name, x in values.items()}

    numbers = sum(int(np.prod(x.shape[1:])) for x in flat.values())
    return Draws(model, args, chains, size, tables, take, numbers=numbers)


def _as_table(declaration: Declaration, values: Tensor) -> Tensor:  # (n, *layout.shape)
    layout = declaration.layout
    if bool((values < 0).any()) or not bool(values.isfinite().all()):
        raise UnsupError(f"draws of table '{declaration.name}' must be probabilities, actual ones are negative or NaN")
    if values.shape[1:] == layout.shape:
        one_a_row = layout.row_lengths is None and layout.support is None
        if one_a_row and bool(((values.sum(-1) - 1).abs() > ROUNDING).any()):
            raise UnsupError(
                f"draws of table '{declaration.name}' must be probabilities that sum to one over the last axis, actual "
                f"sums {float(values.sum(-1).min()):.4g} to {float(values.sum(-1).max()):.4g}"
            )
        return values
    if layout.support is not None and values.shape[1:] == (int(layout.support.sum()),):
        return to_table(layout, values)
    raise UnsupError(
        f"draws of table '{declaration.name}' must have shape {tuple(layout.shape)}, actual {tuple(values.shape[1:])}"
    )


def _of_guide(guide: Any, model: Callable[..., Any], args: tuple[Any, ...], draws: int, seed: int) -> Draws:
    if not args:
        raise UnsupError("a guide draws for given data: give them too")
    with torch.random.fork_rng(devices=[]), torch.no_grad(), poutine.block():
        sites = poutine.trace(model).get_trace(*args).nodes
    found = guide_draws(guide, args, None, draws, seed)
    return of_arrays({name: x.cpu().numpy() for name, x in found.items() if name in sites}, model, args)


def _cells(tables: Mapping[str, Declaration]) -> int:
    return sum(declaration.layout.shape.numel() for declaration in tables.values())

"""Which estimator each table has: one of its own, or one for several tables together, which remembers something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import FitError
from ..estimate import Estimator, FeatureNames, Normalise, Parametric
from ..tables import Declaration

#: One for all tables, or by table name.
Estimate = Estimator | Parametric | Mapping[str, Estimator | Parametric]


@dataclass(frozen=True)
class Group:
    """Tables that have one estimator together.

    :param prefix: of its names in the memory of an engine.
    """

    how: Parametric
    declarations: Mapping[str, Declaration]
    prefix: str

    def of(self, memory: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Its part of an engine's memory, by its own names."""
        start = self.prefix
        return {key.removeprefix(start): x for key, x in memory.items() if key.startswith(start)}

    def named(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """The other way."""
        return {f"{self.prefix}{key}": x for key, x in part.items()}

    def counts(self, counts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Counts of its tables."""
        return {name: counts[name] for name in self.declarations}


class Estimation:
    """The estimators of a model's tables.

    Tables whose estimator is the same object and has a memory (:class:`.Parametric`) form a group.

    :param other: makes the estimator of tables that ``estimate`` does not name.
    """

    def __init__(
        self, estimate: Estimate, declarations: Mapping[str, Declaration], other: Callable[[], Estimator | Parametric]
    ) -> None:
        by_name = estimate if isinstance(estimate, Mapping) else dict.fromkeys(declarations, estimate)
        if unknown := by_name.keys() - declarations.keys():
            raise FitError(
                f"estimate names tables that the model does not have: {sorted(unknown)}, it has {sorted(declarations)}"
            )
        rest = other() if declarations.keys() - by_name.keys() else None
        self.declarations = declarations
        self.plain: dict[str, Estimator] = {}
        found: dict[int, tuple[Parametric, dict[str, Declaration]]] = {}
        for name, declaration in declarations.items():
            how = by_name.get(name, rest)
            if isinstance(how, Parametric):
                found.setdefault(id(how), (how, {}))[1][name] = declaration
            else:
                assert how is not None
                self.plain[name] = how
        # For fits to keep. Copies: an estimator may hold matrices while it trains, which a fit has no use for.
        every = {name: by_name.get(name, rest) for name in declarations}
        copies = {id(how): copy(how) for how in every.values()}
        self.by_table: dict[str, Any] = {name: copies[id(how)] for name, how in every.items()}
        self.groups = [
            Group(how, tables, f"{next(iter(tables))}." if len(found) > 1 else "") for how, tables in found.values()
        ]

    def begin(self, weights: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """The memory to start with."""
        memory: dict[str, Tensor] = {}
        for group in self.groups:
            memory |= group.named(group.how.begin(group.declarations, group.counts(weights), generator))
        return memory

    def tables(self, memory: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
        """The log-weights that a memory stands for, of the tables in groups."""
        found: dict[str, Tensor] = {}
        for group in self.groups:
            tables = group.how.tables(group.declarations, group.of(memory))
            found |= {name: x.to(dtype) for name, x in tables.items()}
        return found

    def update(
        self, counts: Mapping[str, Tensor], memory: Mapping[str, Tensor], briefly: bool = False
    ) -> dict[str, Tensor]:
        """A new memory from expected counts.

        :param briefly: go a short way only, where an estimator knows one: counts come again after the next mini-batch.
        """
        new: dict[str, Tensor] = {}
        for group in self.groups:
            step = group.how.refine if briefly else group.how.update
            new |= group.named(step(group.declarations, group.counts(counts), group.of(memory)))
        return new

    def perturbed(self, memory: Mapping[str, Tensor], jitter: float, generator: torch.Generator) -> dict[str, Tensor]:
        """The memory with noise on it, as far as estimators know how."""
        new = dict(memory)
        for group in self.groups:
            new |= group.named(group.how.perturbed(group.declarations, group.of(memory), jitter, generator))
        return new

    def has_prior(self, name: str) -> bool:
        """Whether an estimator may add something to the log-likelihood that depends on this table alone."""
        return name in self.plain and not isinstance(self.plain[name], Normalise)

    def log_prior(self, weights: Mapping[str, Tensor], memory: Mapping[str, Tensor]) -> float:
        """What all estimators add to the log-likelihood.

        :param weights: of the tables with a prior (:meth:`has_prior`), at least.
        """
        priors = {name: how for name, how in self.plain.items() if self.has_prior(name)}
        own = (float(how.log_prior(self.declarations[name], weights[name])) for name, how in priors.items())
        return sum(own) + sum(float(group.how.log_prior(group.of(memory))) for group in self.groups)

    def names(self) -> dict[str, FeatureNames]:
        """What numbers in the memory are called, where they have names."""
        found: dict[str, FeatureNames] = {}
        for group in self.groups:
            found |= group.named(group.how.names(group.declarations))
        return found

    def is_random(self) -> bool:
        """Whether M steps draw random numbers. After one that found nothing better, another may."""
        return any(group.how.is_random(group.declarations) for group in self.groups)

    def ignores_initial(self) -> bool:
        """Whether no table depends on initial weights."""
        return not self.plain and not any(group.how.fit_start for group in self.groups)

    def loaded(
        self, now: Mapping[str, Tensor], memory: Mapping[str, Tensor], features: Mapping[str, FeatureNames]
    ) -> dict[str, Tensor]:
        """The memory of a fit to go on from, if it is one that these estimators could have.

        :param now: the memory as it is here.
        :param features: the names that go with it.
        """
        for key, x in now.items():
            if key not in memory:
                raise FitError(
                    f"the fit to go on from has no '{key}' in its memory, which has {sorted(memory)}: it was trained "
                    "with other estimators. To start from its tables, give init=pu.init.from_weights(fit) (with "
                    "LogLinear(fit_start=True) or Neural(fit_start=True))"
                )
            if key in features:
                difference = features[key].differs(self.names()[key]) if key in self.names() else "these have no names"
                if difference is not None:
                    raise FitError(
                        f"the fit to go on from was trained with other features: {difference}. Resume with the "
                        "templates that it was trained with"
                    )
            if memory[key].shape != x.shape:
                raise FitError(
                    f"the fit to go on from has '{key}' of shape {tuple(memory[key].shape)} in its memory, expected "
                    f"{tuple(x.shape)}"
                )
        return {key: memory[key].clone() for key in now}

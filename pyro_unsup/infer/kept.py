"""What E steps of parts of the data say of parameters that are not tables, part by part; and M steps from all of it.

Engines that look at examples or mini-batches one by one, and forget none, add up the counts of tables. Means, rates and
the like need more: the observations with their posterior weights. Where every parameter has a formula, a few points
stand for the observations of a part (:mod:`.closed_forms.summaries`), and an M step costs as much as the points.
Otherwise the posteriors themselves are kept, and the parameters climb by L-BFGS on the sum over all parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..errors import FitError
from ..tables import LazyTable
from .climb import climb
from .expectation import Expectation, Factor, Marginal
from .leaves import Leaf
from .seen import PARTS, by_rows, summary

#: Parts that are summed up together, so that an M step after one of them has changed does not look at all.
TOGETHER = 64
PREFIX = "kept."
Tables = Mapping[str, Tensor | LazyTable]
#: From the number of a part to its tables and the model's arguments.
Source = Callable[[int], tuple[Tables, Any]]


@dataclass
class Kept:
    """Posteriors of parts of the data, as far as parameters depend on them.

    :param by_formula: whether points stand for observations, or the posteriors themselves are kept.
    :param parts: by number of a part, tensors by name.
    """

    by_formula: bool = True
    parts: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    _sums: dict[int, list[tuple[Tensor, Tensor]]] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(found: Expectation, names: Iterable[str]) -> Kept:
        """Nothing yet, but it is known what will be kept.

        :param found: an E step of all data.
        :param names: of all parameters.
        """
        if found.plan is None or found.plan.names != {*names}:
            return Kept(by_formula=False)
        try:
            _in_points(found.leaves)
        except FitError:  # no summary, or parameters that vary by observation
            return Kept(by_formula=False)
        return Kept()

    def copy(self) -> Kept:
        """The same; parts can then be replaced in one of the two."""
        new = copy(self)
        new.parts, new._sums = dict(self.parts), dict(self._sums)
        return new

    def size(self, found: Expectation, parts: int) -> int:
        """About how many bytes there will be.

        :param found: an E step of all data.
        :param parts: how many they will be cut into.
        """
        if self.by_formula:
            return parts * sum(x.nbytes for _, pair in _in_points(found.leaves) for x in pair)
        return sum(x.nbytes for x in found.factors.values())

    # -- parts

    def put(self, part: int, found: Expectation, marginal: Marginal, tables: Tables, data: Any) -> float:
        """Keep what an E step found. Returns its expected complete log-likelihood, as far as parameters tell it."""
        self._sums.pop(part // TOGETHER, None)
        if self.by_formula:
            points = _in_points(found.leaves)
            self.parts[part] = {
                f"{i}.{what}": x for i, (_, pair) in enumerate(points) for what, x in zip(PARTS, pair, strict=True)
            }
            return sum(_expected(leaf, *pair) for leaf, pair in points)
        total = float(marginal.expected_complete(tables, without(found.factors, marginal), *data).detach())
        used = {key for key, _ in marginal.last_factors()}  # others are made of tables alone
        self.parts[part] = {"/".join(key): x.detach() for key, x in found.factors.items() if key in used}
        return total

    def put_start(self, found: Expectation, mass: float) -> None:
        """Let the distributions as they are count as a part of this weight, until :meth:`drop_start`."""
        if self.by_formula:
            start = ((summary(leaf).of_distribution(leaf.dist)) for leaf in map(by_rows, found.leaves))
            self.parts[-1] = {
                f"{i}.{what}": x.detach() * (mass if what == "weights" else 1)
                for i, pair in enumerate(start)
                for what, x in zip(PARTS, pair, strict=True)
            }

    def drop_start(self) -> None:
        """Forget what :meth:`put_start` put."""
        if self.parts.pop(-1, None) is not None:
            self._sums.pop(-1, None)

    # -- what they say together

    def expected(self, found: Expectation, marginal: Marginal, source: Source) -> float:
        """Expected complete log-likelihood of all parts, under the parameters as they are now.

        :param found: an E step under these parameters, on any part.
        """
        if self.by_formula:  # part by part: what points of several parts have in common may depend on the parts
            pairs = [[torch.cat([x[f"{i}.{what}"] for x in self.parts.values()]) for what in PARTS]
                     for i in range(len(found.leaves))]  # fmt: skip
            return sum(_expected(by_rows(leaf), *pair) for leaf, pair in zip(found.leaves, pairs, strict=True))
        return sum(float(x.detach()) for x in self._by_part(marginal, source, prior=False))

    def new_values(
        self, found: Expectation, marginal: Marginal, source: Source, unconstrained: dict[str, Tensor], steps: int
    ) -> dict[str, Tensor]:
        """The M step: parameters, unconstrained.

        :param found: an E step under the parameters as they are, on any part.
        :param unconstrained: the parameters as they are.
        :param steps: most steps of L-BFGS, if there is no formula.
        """
        if self.by_formula:
            return {**unconstrained, **marginal.closed_form(replace(found, leaves=self._merged(found)))}
        marginal.parameters.write(unconstrained)
        if leaves := [leaf for leaf in marginal.parameters.leaves.values() if leaf.requires_grad]:
            climb(leaves, lambda: torch.stack([*self._by_part(marginal, source, prior=True)]).sum(), steps)
        return marginal.parameters.read()

    def _by_part(self, marginal: Marginal, source: Source, prior: bool) -> Iterator[Tensor]:
        for number in sorted(self.parts):
            factors: dict[Factor, Tensor] = {}
            for key, x in self.parts[number].items():
                site, _, weight = key.rpartition("/")
                factors[site, weight] = x
            first = prior and number == min(self.parts)  # priors of parameters count once, not with every part
            tables, data = source(number)
            yield marginal.expected_complete(tables, factors if first else without(factors, marginal), *data)

    def _merged(self, found: Expectation) -> list[Leaf]:
        """The points of all parts, as observations of the distributions that an E step found."""
        leaves = [by_rows(leaf) for leaf in found.leaves]
        for block in {part // TOGETHER for part in self.parts} - self._sums.keys():
            own = [self.parts[part] for part in sorted(self.parts) if part // TOGETHER == block]
            self._sums[block] = [
                summary(leaf).of_data(*(torch.cat([one[f"{i}.{what}"] for one in own]) for what in PARTS))
                for i, leaf in enumerate(leaves)
            ]
        merged = []
        for i, leaf in enumerate(leaves):
            pairs = [self._sums[block][i] for block in sorted(self._sums)]
            merged.append(Leaf(leaf.dist, torch.cat([x for x, _ in pairs]), torch.cat([w for _, w in pairs])))
        return merged

    # -- to be saved

    def tensors(self) -> dict[str, Tensor]:
        """All of it, end to end."""
        order = sorted(self.parts)
        if not order:
            return {}
        found = {
            f"{PREFIX}order": torch.tensor(order),
            f"{PREFIX}formula": torch.tensor(self.by_formula),
        }
        for name in self.parts[order[0]]:
            each = [self.parts[i][name] for i in order]
            found[f"{PREFIX}shapes.{name}"] = torch.tensor([x.shape for x in each], dtype=torch.long)
            found[f"{PREFIX}values.{name}"] = torch.cat([x.reshape(-1) for x in each])
        return found

    @staticmethod
    def from_tensors(tensors: Mapping[str, Tensor]) -> Kept:
        """The way back."""
        try:
            order = tensors[f"{PREFIX}order"].tolist()
            parts: dict[int, dict[str, Tensor]] = {int(i): {} for i in order}
            start = f"{PREFIX}shapes."
            for name in [key.removeprefix(start) for key in tensors if key.startswith(start)]:
                shapes = [tuple(row) for row in tensors[f"{start}{name}"].tolist()]
                sizes = [torch.Size(shape).numel() for shape in shapes]
                pieces = tensors[f"{PREFIX}values.{name}"].split(sizes)
                for i, piece, shape in zip(order, pieces, shapes, strict=True):
                    parts[i][name] = piece.reshape(shape).clone()
            return Kept(bool(tensors[f"{PREFIX}formula"]), parts)
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            said = " ".join(str(error).split())
            raise FitError(f"the fit to go on from does not hold the posteriors of its parts: {said:.200}") from None


def log_prior_of_points(marginal: Marginal) -> float:
    """The log prior of point-estimated latent variables, in the last run of a model."""
    if not marginal.parameters.points.transforms:
        return 0.0
    nodes = marginal.last_trace.nodes
    return sum(float(nodes[name]["log_prob"].detach().sum()) for name in marginal.parameters.points.transforms)


def without(factors: Mapping[Factor, Tensor], marginal: Marginal) -> dict[Factor, Tensor]:
    """Factors in which the priors of point-estimated latent variables count for nothing."""
    points = marginal.parameters.points.transforms
    return {key: torch.zeros_like(x) if key[0] in points else x for key, x in factors.items()}


def _in_points(leaves: Iterable[Leaf]) -> list[tuple[Leaf, tuple[Tensor, Tensor]]]:
    """By distribution, the points that stand for its observations."""
    found = []
    for leaf in map(by_rows, leaves):
        values, weights = summary(leaf).of_data(leaf.value, leaf.weight)
        found.append((leaf, (values.detach(), weights.detach())))
    return found


def _expected(leaf: Leaf, values: Tensor, weights: Tensor) -> float:
    """Weighted log-probabilities. A mean of whole numbers need not be whole."""
    plain = copy(leaf.dist)
    plain._validate_args = False
    with torch.no_grad():
        each = weights * plain.log_prob(values)
    return float(torch.where(weights > 0, each, 0.0).sum())

"""What every weight of a log-linear model is the weight of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ...array import Array
from ...errors import TableError

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Family:
    """The features of one template: pairs of a context value and a decision value.

    :param axes: the names of the values: those of the context, then that of the decision.
    :param contexts: tuples of values.
    :param decisions: values.
    :param pairs: (F, 2) int64, the numbers of both for each feature; None for all pairs, contexts within decisions.
    :param places: (F,) int64, where their weights are; or where the first one is, if they lie in order.
    """

    table: str
    template: str
    axes: tuple[str, ...]
    contexts: Sequence[tuple[Any, ...]]
    decisions: Sequence[Any]
    pairs: Array | None
    places: int | Array

    @property
    def size(self) -> int:
        """How many features there are."""
        return len(self.contexts) * len(self.decisions) if self.pairs is None else len(self.pairs)

    def find(self, **values: Any) -> Array:  # (n,)
        """The numbers of the features that have these values."""
        context = np.ones(len(self.contexts), bool)
        for i, axis in enumerate(self.axes[:-1]):
            if axis in values:
                context &= np.array([_is(one[i], values[axis]) for one in self.contexts], bool)
        decision = np.ones(len(self.decisions), bool)
        if self.axes[-1] in values:
            decision = np.array([_is(one, values[self.axes[-1]]) for one in self.decisions], bool)
        if self.pairs is None:
            found: Array = np.flatnonzero((decision[:, None] & context).reshape(-1))
        else:
            found = np.flatnonzero(context[self.pairs[:, 0]] & decision[self.pairs[:, 1]])
        return found

    def values(self, number: int) -> tuple[Any, ...]:
        """The values of one feature, by ``axes``."""
        if self.pairs is None:
            decision, context = divmod(number, len(self.contexts))
        else:
            context, decision = self.pairs[number].tolist()
        return (*self.contexts[context], self.decisions[decision])

    def at(self, numbers: Any) -> Any:
        """Where the weights of these features are."""
        return self.places + numbers if isinstance(self.places, int) else self.places[numbers]

    def __contains__(self, place: int) -> bool:
        """Whether it has the weight at this place."""
        if isinstance(self.places, int):
            return self.places <= place < self.places + self.size
        return bool((self.places == place).any())

    def describe(self, place: int) -> str:
        """What the weight at this place is of, in words."""
        number = place - self.places if isinstance(self.places, int) else int((self.places == place).argmax())
        values = ", ".join(f"{axis}={value!r:.40}" for axis, value in zip(self.axes, self.values(number), strict=True))
        return f"'{self.template}' of table '{self.table}' with {values}"

    def check(self, weights: int) -> None:
        """Raise unless the numbers are those of values and of so many weights.

        :raises TableError: naming the template.
        """
        wide = {len(self.axes) - 1}
        good = {len(one) for one in self.contexts} <= wide and bool(self.axes)
        if self.pairs is not None:
            limits = np.array([len(self.contexts), len(self.decisions)])
            good &= self.pairs.ndim == 2 and self.pairs.shape[1] == 2
            good = good and bool(((self.pairs >= 0) & (self.pairs < limits)).all())
        last = self.at(np.array([0, max(self.size - 1, 0)])) if isinstance(self.places, int) else self.places
        good = good and (isinstance(self.places, int) or self.places.shape == (self.size,))
        if not (good and self.size and last.min() >= 0 and last.max() < weights):
            raise TableError(f"the features of template '{self.template}' of table '{self.table}' do not fit together")


class FeatureNames:
    """The features of all templates.

    >>> import torch
    >>> import pyro_unsup as pu
    >>> model = pu.models.Tagger(tags=2, vocab=pu.data.Vocab(["the", "dog"]))
    >>> first = pu.Template("emission", "first letter", tag=pu.same, word=lambda word: word[0])
    >>> names = pu.Features(model.declarations(), [first]).names
    >>> names.top(torch.arange(len(names)), "emission", n=2)
           template tag word  weight
    0  first letter   1    d     9.0
    1  first letter   0    d     8.0
    """

    def __init__(self, families: Sequence[Family], size: int) -> None:
        self.families, self.size = list(families), size

    def __len__(self) -> int:
        return self.size

    def top(self, weights: Tensor, table: str, n: int = 20, **values: Any) -> pandas.DataFrame:
        """The features of a table with the largest weights: template, values by axis, weight.

        :param weights: of all features, (F,).
        :param table: whose features.
        :param n: how many, at most.
        :param values: by axis, of the features that are wanted; others, and templates that do not look at that axis,
            are left out.
        """
        import pandas

        families = [family for family in self.families if family.table == table]
        if not families:
            raise TableError(f"table '{table}' has no features; these tables have some: {self.tables}")
        axes = list(dict.fromkeys(axis for family in families for axis in family.axes))
        if unknown := values.keys() - set(axes):
            raise TableError(f"the features of table '{table}' have no axis {sorted(unknown)}, but {axes}")
        w = weights.detach().numpy()
        rows: list[dict[str, Any]] = []
        for family in families:
            if not values.keys() <= set(family.axes):
                continue
            numbers = family.find(**values)
            found = w[family.at(numbers)]
            if len(found) > n:
                best = np.argpartition(-found, n - 1)[:n]
                numbers, found = numbers[best], found[best]
            for number, weight in zip(numbers.tolist(), found.tolist(), strict=True):
                named = dict(zip(family.axes, family.values(number), strict=True))
                rows.append({"template": family.template, **dict.fromkeys(axes), **named, "weight": weight})
        if not rows:
            raise TableError(f"table '{table}' has no feature with {values}")
        rows.sort(key=lambda row: -row["weight"])
        frame = pandas.DataFrame(rows[:n], columns=["template", *axes, "weight"], dtype=object)
        return frame.astype({"weight": float})

    def differs(self, other: FeatureNames) -> str | None:
        """How other features are not these, in words; None if they are the same."""
        here, there = (_numbered(names.families) for names in (self, other))
        for (table, template, number), family in there.items():
            mine = here.get((table, template, number))
            if mine is None:
                return f"it has no template '{template}' of table '{table}'"
            (one, some), (two, more) = (FeatureNames([f], 0).record() for f in (mine, family))
            if one != two or any(not torch.equal(x, more[key]) for key, x in some.items()):
                return f"template '{template}' of table '{table}' has other features"
        for table, template, _ in here.keys() - there.keys():
            return f"it has a template '{template}' of table '{table}' besides"
        return None

    def record(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """All names in plain values and tensors."""
        plain, tensors = [], {}
        for i, family in enumerate(self.families):
            one: dict[str, Any] = {"table": family.table, "template": family.template, "axes": list(family.axes)}
            one |= {"contexts": _lists(family.contexts), "decisions": _lists(family.decisions)}
            if isinstance(family.places, int):
                one["first"] = family.places
            else:
                tensors[f"{i}.places"] = torch.from_numpy(family.places)
            if family.pairs is not None:
                tensors[f"{i}.pairs"] = torch.from_numpy(family.pairs)
            plain.append(one)
        return {"size": self.size, "families": plain}, tensors

    @staticmethod
    def of_record(plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> FeatureNames:
        """Back from :meth:`record`. Raises where the parts do not agree."""
        families, size = [], int(plain["size"])
        for i, one in enumerate(plain["families"]):
            pairs, places = tensors.get(f"{i}.pairs"), tensors.get(f"{i}.places")
            family = Family(
                str(one["table"]),
                str(one["template"]),
                tuple(map(str, one["axes"])),
                [tuple(map(_tuples, values)) for values in one["contexts"]],
                [_tuples(value) for value in one["decisions"]],
                None if pairs is None else pairs.numpy(),
                int(one["first"]) if places is None else places.numpy(),
            )
            family.check(size)
            families.append(family)
        return FeatureNames(families, size)

    @property
    def tables(self) -> list[str]:
        """The tables that have features."""
        return list(dict.fromkeys(family.table for family in self.families))


def _lists(value: Any) -> Any:
    return [_lists(one) for one in value] if isinstance(value, list | tuple) else value


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _is(one: Any, other: Any) -> bool:
    """Whether values are the same; True is not 1 here."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _numbered(families: Sequence[Family]) -> dict[tuple[str, str, int], Family]:
    """By table, template, and how many of those came before."""
    found: dict[tuple[str, str, int], Family] = {}
    for family in families:
        number = sum(key[:2] == (family.table, family.template) for key in found)
        found[family.table, family.template, number] = family
    return found

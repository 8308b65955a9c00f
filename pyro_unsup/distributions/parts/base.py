"""The parts of hidden structure, and what they are called."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Size, Tensor

from ...errors import StructureError, listed

#: One label, several, or a function that says yes or no to a label.
Test = Collection[Any] | Callable[[Any], bool] | int

#: What fields are called in messages.
CALLED = {
    "tags": "a tag",
    "tag_of_head": "the tag of a head",
    "tag_of_child": "the tag of a child",
    "state": "a state",
    "word": "a word",
    "words": "a word",
    "first_word": "a first word",
    "last_word": "a last word",
    "source_word": "a source word",
    "target_word": "a target word",
    "cluster": "a cluster",
    "label": "a label",
    "segment": "a segment",
}


class Labels:
    """What numbers stand for.

    :param names: labels of a whole table, and which of them each number of these data is; None if all of them, in
        order.
    :param missed: is told which labels were asked for that do not exist, and as what, while others do.
    """

    def __init__(
        self,
        names: Sequence[Any],
        places: Tensor | None = None,
        missed: Callable[[str, list[Any]], None] | None = None,
    ) -> None:
        self.names, self.places, self.missed = names, places, missed

    def which(self, test: Test, what: str) -> Tensor:  # (numbers,) bool
        """The numbers whose labels pass.

        :raises StructureError: if labels were given, and none of them exists.
        """
        what = CALLED.get(what, what)
        here = self.names if self.places is None else [self.names[k] for k in self.places.tolist()]
        if callable(test):
            return torch.tensor([bool(test(name)) for name in here], dtype=torch.bool)
        wanted = {test} if isinstance(test, str | int) else set(test)
        found = torch.tensor([name in wanted for name in here], dtype=torch.bool)
        strange = sorted((one for one in wanted if one not in self.names), key=repr)
        if self.places is None and strange and len(strange) == len(wanted):
            raise StructureError(f"none of {listed(strange)} is known as {what}: there are {listed(self.names)}")
        if self.missed is not None and strange:
            self.missed(what, strange)
        return found


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts that data could have, under all structures.

    :param labels: names by axis, as the model's tables declare them (:class:`pyro_unsup.tables.Axis`).
    """

    #: By the name of a field that holds numbers, the axis that has its labels.
    AXES: ClassVar[Mapping[str, str]] = {}

    labels: Mapping[str, Labels] = field(default_factory=dict, kw_only=True)

    @property
    @abstractmethod
    def shape(self) -> Size:
        """Of the marginals of the posterior."""

    @property
    @abstractmethod
    def example(self) -> Tensor:
        """The number of the sentence, pair or document that each part belongs to; -1 in padding."""

    @property
    @abstractmethod
    def examples(self) -> int:
        """How many of those there are."""

    def has(self, name: str, test: Test) -> Tensor:  # bool
        """Which parts have a label that passes, such as ``parts.has("tag_of_child", {"VERB", "AUX"})``.

        :param name: a field of numbers.
        :param test: labels, or a function of one. Where the model has no labels, numbers are their own.
        """
        if name not in self.AXES:
            raise StructureError(f"'{name}' has no labels: expected one of {', '.join(self.AXES)}")
        numbers: Tensor = getattr(self, name)
        labels = self.labels.get(self.AXES[name])
        if labels is None:
            labels = Labels(range(int(numbers.max()) + 1 if numbers.numel() else 0))
        passed = labels.which(test, name)
        known = (numbers >= 0) & (numbers < len(passed))
        return known & passed[torch.where(known, numbers, 0).long()] if len(passed) else known

    def made_of(self) -> list[Tensor]:
        """What it takes to say whether these are the same parts as others."""
        return [x for f in fields(self) if isinstance(x := getattr(self, f.name), Tensor)]


class InSentences(Parts):
    """Parts that each lie in one of some sentences."""

    lengths: Tensor  # (B,)
    sentence: Any

    @property
    def examples(self) -> int:
        return len(self.lengths)

    @property
    def example(self) -> Tensor:
        found: Tensor = self.sentence
        return found

    @cached_property
    def length(self) -> Tensor:
        """Words (or symbols) in the sentence."""
        return self.lengths[self.sentence]

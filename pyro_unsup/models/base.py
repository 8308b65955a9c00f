"""What the models have in common: declared tables, plain settings, and a memory of the data they saw last."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from ..distributions.ragged import offsets_of
from ..errors import StructureError
from ..tables import Declaration


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples as a model sees them: their rows end to end.

    :param cells: (rows, ...).
    :param lengths: (B,) rows of each example.
    """

    cells: Tensor
    lengths: Tensor

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def offsets(self) -> Tensor:  # (B + 1,)
        """Where each example begins, and where the last one ends."""
        return offsets_of(self.lengths)

    def select(self, indices: Any) -> Self:
        """The same of some examples: integers in any order, or one truth value an example."""
        which = torch.as_tensor(indices)
        which = which if which.numel() else which.long()
        lengths = self.lengths[which]
        return type(self)(self.cells[runs(self.offsets[:-1][which], lengths)], lengths)


def runs(starts: Tensor, sizes: Tensor) -> Tensor:  # (n,), (n,) -> (sum of sizes,)
    """Runs of numbers, end to end.

    >>> import torch
    >>> from pyro_unsup.models.base import runs
    >>> runs(torch.tensor([5, 0]), torch.tensor([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = sizes.cumsum(0)
    total = int(ends[-1]) if len(ends) else 0
    return torch.arange(total) + torch.repeat_interleave(starts - ends + sizes, sizes, output_size=total)


class Model:
    """A Pyro program whose tables are declared; subclasses are called with data."""

    #: The registered task: what its fits read, write and show.
    task: ClassVar[str]
    #: A run depends on the data and on settings that never change (:mod:`pyro_unsup.infer.replay`).
    replayable = True
    #: Tables may have one more axis in front: a set of weights for every example.
    own_weights = True
    #: States are but numbers: to exchange two of them changes nothing.
    interchangeable = False

    _tables: dict[str, Declaration]
    _last: tuple[Any, Any] | None = None

    def declarations(self) -> dict[str, Declaration]:
        """The tables, by name."""
        return dict(self._tables)

    def _recall(self, data: Any) -> Any:
        """What these data looked like, if they are those that were remembered; else None."""
        return self._last[1] if self._last is not None and self._last[0]() is data else None

    def _remember(self, data: Any, found: Any) -> None:
        """A corpus or a bitext never changes; lists, tuples and tensors may, and are not remembered."""
        if hasattr(data, "offsets") or hasattr(data, "source"):
            self._last = (weakref.ref(data), found)

    def _priors(self) -> dict[str, float]:
        """The concentration of each table, as settings tell it."""
        return {name: float(table.prior) for name, table in self._tables.items()}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}  # a copy in another process meets its own data


def size_of(names: Any) -> int:
    """How many there are, of symbols that are given by their number or by their names."""
    return names if isinstance(names, int) else len(names)


def plain_names(names: Any) -> Any:
    """A vocabulary as settings tell it."""
    return names if isinstance(names, int) else {"types": list(names), "unknown": getattr(names, "unknown", None)}


def concentrations(prior: float | Mapping[str, float], tables: Collection[str], who: str) -> dict[str, Tensor]:
    """The concentration of each table, 1 where none is given.

    :param who: has these tables, for the error.
    """
    given = prior if isinstance(prior, Mapping) else dict.fromkeys(tables, prior)
    if unknown := given.keys() - set(tables):
        raise StructureError(f"prior names tables that {who} does not have: {sorted(unknown)}")
    return {name: torch.tensor(float(given.get(name, 1.0)), dtype=torch.float64) for name in tables}


def check_settings(plain: Mapping[str, Any], *names: str) -> None:
    """Raise unless these are the settings that a model is built from."""
    if plain.keys() != set(names):
        known = f"{', '.join(names[:-1])} and {names[-1]}"
        raise StructureError(f"the settings should be {known}, actual {sorted(plain)!s:.200}")

"""What handlers share that weigh the parts of hidden structure."""

from __future__ import annotations

import re
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from ..distributions import Structure
from ..distributions.parts import Labels, Parts
from ..distributions.structure import as_potentials
from ..errors import StructureError
from ..tables import Axis, Declaration
from .handled import Handler

#: From the parts of the data (:class:`.Parts`) to truth values (which are allowed), or to numbers, for each of them.
Component = Callable[[Any], Tensor]


class Made(Protocol):
    """What is made of the parts of some data. It moves if it has a gradient: then it is made again in every run."""

    @property
    def moves(self) -> bool: ...


class UnknownLabel(UserWarning):
    """A rule names labels that a model does not have, such as a misspelt tag, beside some that it has.

    >>> import warnings, pyro_unsup as pu
    >>> model = pu.prefer(pu.models.DMV(pu.data.Vocab(["NOUN", "VERB"])), pu.components.root(["VERB", "AXU"]))
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     fit = pu.EM(model).run([[0, 1]], iterations=1)
    >>> [str(one.message).partition(":")[0] for one in found if one.category is pu.handlers.UnknownLabel]
    ["'AXU' is unknown as the tag of a child"]
    """


class PartsMessenger(Handler):
    """Makes something of the parts of observed structured sites, once for the same data, and weighs the sites by it.

    Labels of parts are those of the axes that the model's tables declare.
    """

    #: What a run notes for itself. The next run does the same whatever is in them, so a record of a run still holds.
    NOT_COMPARED: tuple[str, ...] = ("_known", "_declared", "_structured", "_missed", "_told")

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, tuple[list[Tensor], Made]] = {}
        self._declared: dict[str, Declaration] = {}
        self._structured = False
        self._missed: dict[tuple[str, str], None] = {}
        self._told: set[tuple[str, str]] = set()
        self.tells = True  #: whether it warns of labels that the model does not have

    @abstractmethod
    def _make(self, fn: Structure, parts: Parts, value: Tensor) -> Made:
        """What is to be made of the parts."""

    @abstractmethod
    def _weigh(self, fn: Structure, value: Tensor, name: str, made: Any) -> Structure:
        """The distribution of a site, weighed by that."""

    def __enter__(self) -> Any:
        self._declared, self._structured = {}, False
        return super().__enter__()

    def __exit__(self, kind: Any, *args: Any) -> Any:
        result = super().__exit__(kind, *args)
        if kind is None and not self._structured:
            raise StructureError(
                f"{self!r} found no structured distribution in the model: it weighs their parts. What is enumerated "
                "can be weighed in the model itself, by pyro.factor"
            )
        return result

    def _pyro_table(self, msg: Any) -> None:
        self._declared[msg["name"]] = msg["args"][0]

    def _pyro_sample(self, msg: Any) -> None:
        fn: Any = msg["fn"]
        if not isinstance(fn, Structure):
            return
        self._structured = True
        if msg["is_observed"]:
            msg["fn"] = self._weigh(fn, msg["value"], msg["name"], self._made(msg["name"], fn, msg["value"]))
            if self._missed and any(w.requires_grad for w in fn.weights.values()):  # it is being trained
                self._tell()

    def _tell(self) -> None:
        """Warn of labels that rules name and the model does not have, once of each."""
        new = [one for one in self._missed if one not in self._told]
        self._told.update(new)
        self._missed = {}
        for what in dict.fromkeys(what for what, _ in new) if self.tells else ():
            mine = [label for as_what, label in new if as_what == what]
            warnings.warn(
                f"{', '.join(mine)} {'is' if len(mine) == 1 else 'are'} unknown as {what}: the model has no such "
                f"label, and {self!r:.200} goes by the others. Is it misspelt?",
                UnknownLabel,
                stacklevel=2,
            )

    def _made(self, name: str, fn: Structure, value: Tensor) -> Any:
        parts = replace(fn.parts(value), labels=_Named(self._declared, self._miss))
        key = [*parts.made_of(), torch.tensor(parts.shape)]
        key += [d.touched for d in self._declared.values() if d.touched is not None]
        known = self._known.get(name)
        if known is not None and _same(known[0], key):
            return known[1]
        made = self._make(fn, parts, value)
        if not made.moves:
            self._known[name] = ([x.clone() for x in key], made)  # data may be changed in place
        return made

    def _miss(self, what: str, labels: list[Any]) -> None:
        self._missed |= dict.fromkeys((what, repr(one)) for one in labels)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}, "_declared": {}}  # a copy in another process meets its own data


class _Named(Mapping[str, Labels]):
    """The labels of a run, by axis, made when they are asked for."""

    def __init__(
        self, declared: Mapping[str, Declaration], missed: Callable[[str, list[Any]], None] | None = None
    ) -> None:
        self._declared, self._missed = dict(declared), missed

    def _axes(self) -> Iterator[tuple[Declaration, int, Axis]]:
        for declaration in self._declared.values():
            yield from ((declaration, k, axis) for k, axis in enumerate(declaration.axes or ()))

    def __getitem__(self, name: str) -> Labels:
        for declaration, k, axis in self._axes():
            if axis.name == name:
                decision = k + 1 == len(declaration.axes or ())
                places = declaration.touched if decision else None
                if axis.cells is not None:  # a ragged table numbers its cells
                    places = axis.cells if places is None else axis.cells[places]
                return Labels(axis.labels, places, self._missed)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter({axis.name: None for _, _, axis in self._axes()})

    def __len__(self) -> int:
        return len(list(iter(self)))


def potentials_of(found: Tensor, fn: Structure, parts: Parts) -> Tensor:
    """Log-potentials of all parts, from anything that broadcasts to them: truth values, or log-potentials.

    :raises StructureError: if it does not, or holds NaN or +inf.
    """
    potentials = as_potentials(found, next(iter(fn.weights.values())))
    try:
        return potentials.expand(parts.shape)
    except RuntimeError:
        raise StructureError(
            f"there are parts of shape {tuple(parts.shape)}, which should fit truth values or log-potentials of shape "
            f"{tuple(found.shape)}"
        ) from None


def _same(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(
        x.dtype == y.dtype and torch.equal(x, y) for x, y in zip(one, other, strict=True)
    )


def named(component: Callable[..., Any]) -> str:
    """What a component, or another function, is called."""
    name: str = getattr(component, "__qualname__", "") or repr(component)
    return re.sub(" at 0x[0-9a-f]+", "", name.rpartition("<locals>.")[2])  # the same in every process

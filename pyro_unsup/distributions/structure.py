"""A structure: what its parts weigh, and how to sum over all ways to put parts together.

    weights --potentials(value)--> a log-potential for every part of these data --total(semiring)--> log Z

A structure y explains data x with weight ``p(x, y) = prod_parts exp(potential(part))``. The weights come in as logs and
are never normalised inside. Everything else is a gradient of log Z (Eisner 2016):

* in the weights: expected counts, all that EM needs;
* in the potentials: posterior probabilities of parts;
* in the potentials, in another semiring: the best structure, or an exact draw.

So a new structure is one file with four methods: ``potentials``, ``total``, ``to_structure`` and ``to_parts``. The
contract suite (:mod:`pyro_unsup.testing`) says whether they agree. A kernel (:mod:`.compiled`) makes it faster, and
changes nothing else.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
import torch
from pyro.distributions import TorchDistribution
from torch import Size, Tensor
from torch.distributions import constraints

from ..errors import StructureError
from ..kernels.running import Place, RunningCounts
from ..kernels.threads import plain_torch
from .compiled import compiled_sum, weight_sets
from .ragged import Rows, broadcast, check_lengths
from .semiring import LOG, Sum

if TYPE_CHECKING:
    from .parts import Parts
    from .posterior import Posterior

Array = np.ndarray[Any, Any]
Potentials = dict[str, Tensor]  #: log-potentials by group of parts
Self = TypeVar("Self", bound="Structure")


class Stretch(Protocol):
    """Mini-batches of stepwise EM in compiled code."""

    def __call__(
        self,
        tables: Mapping[str, RunningCounts],
        beta: float,
        order: Array,  # (n,) examples
        batch_size: int,
        steps: Array,  # (mini-batches,) step sizes
        scale: float,
        floor: float,
    ) -> tuple[Array, float]:
        """Go through examples in mini-batches, changing the tables in place after each.

        It ends early, before a mini-batch that it cannot do exactly or that would take the scale below its floor.

        :return: log-likelihood of the mini-batches that were done, and the scale after them.
        """


class Structure(TorchDistribution):
    """A distribution over observed data whose hidden structure is summed out.

    Data lie flat: the rows of all examples end to end. An example of length 0 is skipped: probability 1, no counts.

    Weights may come in batches: (*draws, 1, *axes) is one set a draw, (*draws, B, *axes) one set an example. The result
    is then (*draws, B). In ``potentials`` and ``total`` the leading axes of tensors are those draws.

    :param weights: log-weights by name: numbers below +inf, or -inf for what is impossible. Tables given as None
        are ignored.
    :param lengths: (B,) rows of each example.
    :param event_shape: of a value.
    :param axes: of the tables, if they are not the same for all objects of the class.

    >>> import torch
    >>> import pyro_unsup as pu
    >>> chain = pu.Chain(torch.zeros(2), torch.zeros(2, 2), torch.zeros(2, 3), torch.tensor([3]), flat=True)
    >>> isinstance(chain, pu.distributions.Structure), sorted(chain.weights)
    (True, ['emission', 'start', 'transition'])
    >>> chain.log_prob(torch.tensor([0, 1, 2])).exp().round()  # all weights one: the number of structures
    tensor([8.])
    """

    #: Axes of every table of weights: a letter for each size, a number, or a sum of these such as ``N+P``.
    axes: ClassVar[Mapping[str, str]] = {}
    #: The group of parts that determines the structure: if all other parts of the group are forbidden, exactly one
    #: structure is left. Marginals, constraints and decoding speak of it.
    part: ClassVar[str]
    #: Groups of potentials that are tables, used all over an example and kept once: (*draws, 1 or B, *axes).
    shared_groups: ClassVar[tuple[str, ...]] = ()
    #: The module of a kernel (:class:`.compiled.Kernel`) that does the same faster, on CPU.
    kernel: ClassVar[str | None] = None
    #: Whether the definition is a few operations a position, each on all sets of weights, (sets, rows, K, K) at most:
    #: then many sets of weights on small data go through it faster than one by one through a kernel.
    wide_definition: ClassVar[bool] = False
    #: Whether the gradient of ``log_prob`` is the expected counts of a posterior. A heuristic E step says False; its
    #: objective may fall.
    exact: bool = True
    #: That weights and added potentials are at (:meth:`with_temperature`).
    temperature: float = 1.0
    #: What the numbers of a value are called in error messages.
    what: ClassVar[str] = "words"

    arg_constraints: ClassVar[dict[str, Any]] = {}
    has_enumerate_support = False

    # -- what a structure says of itself

    @abstractmethod
    def potentials(self, value: Tensor) -> Potentials:  # event_shape
        """The log-potential of every part, by group: (*draws, rows, ...); of a shared group (*draws, 1 or B, ...)."""

    @abstractmethod
    def total(self, potentials: Potentials, sum_: Sum) -> Tensor:  # (*draws, B)
        """The sum over all structures of the product of their parts, example by example: the recursion.

        Call ``sum_`` once for each choice. Never sum over examples or positions that choose separately: a draw makes
        one choice for each sum.
        """

    @abstractmethod
    def to_structure(self, parts: Tensor) -> Tensor:  # (*draws, rows, ...) zeros and ones
        """The structure that has these parts."""

    @abstractmethod
    def to_parts(self, structure: Tensor) -> Tensor:  # (*draws, rows, ...) bool
        """Which parts a structure has; none where it is -1."""

    def owner(self, group: str) -> Tensor:  # (rows,)
        """The example that each row belongs to: of a group of parts, of a ``"value"`` or of a ``"structure"``."""
        return self.rows.owner

    def check_structure(self, structure: Tensor) -> None:  # (rows, ...)
        """Raise if this is no structure of these data."""

    def best_parts(self, gain: Tensor) -> Tensor | None:  # (*draws, rows, ...)
        """The structure whose parts have the highest sum of gains, where that needs no recursion; None if it does."""
        return None

    def parts(self, value: Tensor) -> Parts:  # event_shape
        """What each part stands for, for people who say which parts they want (:mod:`.parts`)."""
        raise StructureError(
            f"{type(self).__name__} does not describe its parts, so they cannot be constrained: give it parts(value)"
        )

    def references(self) -> dict[str, Potentials]:
        """Distributions over structures that need no data, by name: potentials of a q(y), by group; others are 0.

        A posterior can be skewed toward them (:func:`pyro_unsup.skew`).
        """
        return {}

    def stepwise(self, value: Tensor, places: Mapping[str, Place], batch_size: int) -> Stretch | None:
        """Stepwise EM in compiled code, for structures that have it: mini-batches too small for a Python call each.

        :param value: (rows, ...) lying flat, as the distribution does.
        :param places: by weight, where it lies in a table; other weights are constant.
        :param batch_size: examples in a mini-batch.
        """
        return None

    # -- what follows from it

    def __init__(
        self,
        weights: Mapping[str, Tensor | None],
        lengths: Tensor,
        event_shape: Size | tuple[int, ...],
        axes: Mapping[str, str] | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.weights: dict[str, Tensor] = {n: torch.as_tensor(w) for n, w in weights.items() if w is not None}
        self.all_axes = self.axes if axes is None else axes
        self.lengths = check_lengths(lengths)
        self.rows = Rows(self.lengths.reshape(-1))
        self.extra: Potentials = {}
        self._unheated: dict[str, Tensor] | None = None
        self._measure()
        super().__init__(self._weights_batch(), Size(event_shape), validate_args=False)
        if validate_args is not None:
            self._validate_args = validate_args

    @property
    def examples(self) -> Size:
        """The shape of a batch of examples: (B,)."""
        return Size([len(self.rows)])

    def _measure(self) -> None:
        """Find the axes of every table and the size of each, or raise if tables do not fit together."""
        for name in self.weights:
            if name not in self.all_axes:
                raise StructureError(f"{type(self).__name__} has no weights '{name}': it has {sorted(self.all_axes)}")
        self.table_axes = {name: tuple(self.all_axes[name].split()) for name in self.weights}
        self.sizes: dict[str, int] = {}
        for name, axes in self.table_axes.items():
            shape, extra = self.weights[name].shape, self.weights[name].dim() - len(axes)
            known = dict(self.sizes)
            for axis, size in zip(axes, shape[extra:] if extra >= 0 else (), strict=True) if extra >= 0 else ():
                terms = axis.split("+")
                unknown = [t for t in terms if not t.isdigit() and t not in self.sizes]
                rest = size - sum(int(t) if t.isdigit() else self.sizes.get(t, 0) for t in terms)
                if (len(unknown) == 1 and rest < 1) or (not unknown and rest != 0) or len(unknown) > 1:
                    raise self._misfit(name, axes, known)
                if unknown:
                    self.sizes[unknown[0]] = rest
            if extra < 0:
                raise self._misfit(name, axes, known)

    def _misfit(self, name: str, axes: tuple[str, ...], known: Mapping[str, int]) -> StructureError:
        letters = {t for axis in axes for t in axis.split("+")}
        given = ", ".join(f"{letter} = {n}" for letter, n in known.items() if letter in letters)
        where = f", where {given}" if given else ", none of them empty"
        return StructureError(
            f"{name} should end in shape ({', '.join(axes)}){where}; actual shape {tuple(self.weights[name].shape)}"
        )

    def _weights_batch(self) -> Size:
        """The shape of all sums; sets ``draws``, and ``one_set``: whether all examples share their weights."""
        batch = Size()
        for own in self._batches():
            batch = broadcast(own, batch)
        n = len(self.examples)
        each = batch[len(batch) - n :] if len(batch) >= n else (1,) * (n - len(batch)) + tuple(batch)
        if any(k not in (1, size) for k, size in zip(each, self.examples, strict=True)):
            raise StructureError(
                f"the last batch axis of the weights should be 1, or {len(self.rows)} (one set an example), actual "
                f"batch of weights {tuple(batch)}"
            )
        self.draws = Size(batch[: max(len(batch) - n, 0)])
        self.one_set = all(k == 1 for k in each)
        return Size((*self.draws, *self.examples))

    def _batches(self) -> Iterator[Size]:
        """The batch axes of every table."""
        for name, w in self.weights.items():
            yield w.shape[: w.dim() - len(self.table_axes[name])]

    def factors(self) -> dict[str, Tensor]:
        """The tensors through which parameters of a model reach this distribution, by name: its weights, and densities
        that the last value had."""
        return self.weights

    def prepare(self, value: Tensor) -> None:  # event_shape
        """Compute what :meth:`factors` shall have for a value."""

    def with_weights(self: Self, weights: Mapping[str, Tensor]) -> Self:
        """The same distribution with other log-weights, all or some of them."""
        new = copy(self)
        new.weights = {**self.weights, **weights}
        new._unheated, new.temperature = None, 1.0
        if all(name in self.weights and w.shape == self.weights[name].shape for name, w in weights.items()):
            return new  # as in every E step: shapes need no second look
        new._measure()
        wide = new._weights_batch()
        new._batch_shape = self._batch_shape if wide.numel() <= self._batch_shape.numel() else wide
        return new

    def with_temperature(self: Self, temperature: float) -> Self:
        """Every weight and every added potential to the power of 1 / temperature. What is impossible stays so, at an
        infinite temperature too, where all that is possible weighs the same."""
        if not isinstance(temperature, int | float) or not temperature > 0:
            raise StructureError(f"a temperature is a number above 0, actual {temperature!r:.80}")
        if temperature == 1:
            return self
        new = self.with_weights({name: heated(w, temperature) for name, w in self.weights.items()})
        new._unheated, new.temperature = self.unheated, self.temperature * temperature
        new.extra = {name: heated(x, temperature) for name, x in self.extra.items()}
        return new

    @property
    def unheated(self) -> dict[str, Tensor]:
        """The weights before :meth:`with_temperature`."""
        return self.weights if self._unheated is None else self._unheated

    def with_tables(self: Self, weights: Mapping[str, Tensor]) -> Self:
        """The same distribution with other weights, which are at its temperature already and have the same shapes."""
        new = object.__new__(type(self))  # as copy does, in less time: small data come often
        new.__dict__.update(self.__dict__, weights={**self.weights, **weights}, _unheated=None)
        return new

    def with_potentials(self: Self, **more: Tensor) -> Self:
        """The same distribution with more log-potential for the parts of some groups.

        :param more: by group, truth values (which parts are allowed) or log-potentials, of a shape that broadcasts to
            that of the parts, (*draws, rows, ...).
        """
        new = copy(self)
        dtype = next(iter(self.weights.values()))
        found = {name: as_potentials(x, dtype) for name, x in more.items()}
        new.extra = {
            **self.extra,
            **{name: self.extra[name] + x if name in self.extra else x for name, x in found.items()},
        }
        return new

    def detached(self: Self) -> Self:
        """The same distribution without a gradient."""
        new = copy(self)
        new.weights = {name: w.detach() for name, w in self.weights.items()}
        new.extra = {name: x.detach() for name, x in self.extra.items()}
        new._unheated = None if self._unheated is None else {name: w.detach() for name, w in self._unheated.items()}
        return new

    def hollow(self: Self) -> Self:
        """The same distribution without its numbers, which may be large; :meth:`with_weights` takes them in again."""
        new = copy(self)
        new.weights = {name: w.new_empty(0) for name, w in self.weights.items()}
        new.extra = {name: x.new_empty(0) for name, x in self.extra.items()}
        return new

    def select(self: Self, value: Tensor, examples: Tensor) -> tuple[Self, Tensor]:
        """The distribution of some examples, in their order, and their values.

        :param value: (rows, ...) lying flat.
        :param examples: (n,) their numbers.
        """
        new = copy(self)
        new.lengths = self.rows.lengths[examples]
        new.rows = Rows(new.lengths)
        new.weights = {name: self._own_weights(name, examples) for name in self.weights}
        if self.extra:
            whole = self.potentials(value)
            wide = {name: self._fitted(name, x, whole) for name, x in self.extra.items()}
            new.extra = {name: self.rows_of(name, x, examples) for name, x in wide.items()}
        new._batch_shape = new._weights_batch()
        found = self.rows_of("value", value, examples, 0)
        new._event_shape = found.shape
        return new, found

    def rows_of(self, group: str, x: Tensor, examples: Tensor, lead: int | None = None) -> Tensor:
        """The rows of some examples, (n,), in their order.

        :param group: of parts, or ``"value"``, or ``"structure"``.
        :param examples: (n,) their numbers.
        :param x: (*lead, rows, ...) of a group of parts, of a ``"value"`` or of a ``"structure"``; of a shared group
            (*lead, 1 or B, ...).
        :param lead: how many axes come before the rows; those of draws, if it is not given.
        """
        lead = len(self.draws) if lead is None else lead
        if group in self.shared_groups:
            return x if x.shape[lead] == 1 else x.index_select(lead, examples.to(x.device))
        each = torch.bincount(self.owner(group), minlength=len(self.rows))  # rows lie example by example
        return x.index_select(lead, Rows(each).select(examples).to(x.device))

    def _own_weights(self, name: str, examples: Tensor) -> Tensor:
        w, own = self.weights[name], len(self.table_axes[name])
        if w.dim() == own or w.shape[-own - 1] == 1:
            return w
        return w.index_select(w.dim() - own - 1, examples.to(w.device))

    def expand(self: Self, batch_shape: Any, _instance: Any = None) -> Self:
        # Inside a plate Pyro expands a distribution before handlers see it: the type has to stay.
        new = copy(self)
        new._batch_shape = Size(batch_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return constraints.independent(constraints.integer, len(self.event_shape))  # type: ignore[attr-defined]

    def log_prob(self, value: Tensor) -> Tensor:  # event_shape -> batch_shape
        dist, value = self.laid_flat(torch.as_tensor(value))
        return dist.by_example(dist.log_partition(value))

    def score(self, value: Tensor, structure: Tensor) -> Tensor:  # -> batch_shape
        """log p(x, y) of the data together with one structure. Its gradient is the structure's counts.

        It is the sum over the only structure that is left when all other parts are forbidden.
        """
        dist, value = self.laid_flat(value)
        structure = dist.flat_structure(structure)
        draws = dist.draws if dist.draws and structure.shape[: len(dist.draws)] == dist.draws else Size()
        for one in structure.reshape(-1, *structure.shape[len(draws) :]) if draws else [structure]:
            dist.check_structure(one)
        only = dist.with_potentials(**{dist.part: dist.to_parts(structure)})
        return only.by_example(only.log_partition(value))

    def posterior(self, value: Tensor) -> Posterior:  # event_shape
        """Everything about the hidden structure of ``value``."""
        from .posterior import Posterior

        return Posterior(*self.laid_flat(torch.as_tensor(value)))

    def log_partition(self, value: Tensor) -> Tensor:  # flat -> (*draws, B)
        """log Z: by the kernel if there is one for this case, else by the definition."""
        found = compiled_sum(self, value)
        return self.defined(value) if found is None else found

    def defined(self, value: Tensor) -> Tensor:  # flat -> (*draws, B)
        """log Z by the definition, on any device, with gradients of any order."""
        return self.sum_over(self.potentials_of(value), LOG)

    def potentials_of(self, value: Tensor) -> Potentials:  # (rows, ...)
        """Potentials, with those that were added."""
        found = self.potentials(value)
        for name, more in self.extra.items():
            wide = self._fitted(name, more, found)
            found[name] = found[name] + wide
        return found

    def _fitted(self, group: str, more: Tensor, found: Potentials) -> Tensor:
        """Added potentials, one for each part of their group."""
        if group not in found:
            raise StructureError(f"{type(self).__name__} has no parts '{group}': it has {sorted(found)}")
        shape = (*self.draws, *found[group].shape[len(self.draws) :])
        try:
            return more.to(found[group]).expand(shape)
        except RuntimeError:
            raise StructureError(
                f"there are {group} of shape {shape}, which do not fit potentials of shape {tuple(more.shape)}"
            ) from None

    def sum_over(self, potentials: Potentials, sum_: Sum) -> Tensor:  # (*draws, B)
        """As :meth:`total`, but 0 for empty examples, and no gradient where no structure is possible."""
        total = self.total(potentials, sum_)
        total = torch.where(total == -torch.inf, -torch.inf, total)
        return torch.where(self.skipped.to(total.device), torch.zeros_like(total), total)

    @property
    def skipped(self) -> Tensor:  # (B,) bool
        """Examples that have no structure to sum over, and probability 1."""
        return self.rows.lengths == 0

    # -- tools for those who write a structure

    def table(self, name: str) -> Tensor:  # (*draws, 1 or B, *axes)
        """Log-weights with all batch axes, some of them of size 1."""
        w, own, n = self.weights[name], len(self.table_axes[name]), len(self.examples)
        given, axes = tuple(w.shape[: w.dim() - own]), w.shape[w.dim() - own :]
        batch = (*(1,) * (n - len(given)), *given)
        each = batch[len(batch) - n :]
        draws = (*(1,) * (len(self.draws) + n - len(batch)), *batch[: len(batch) - n])
        if all(k == 1 for k in each):
            return w.reshape(*draws, 1, *axes)
        return w.reshape(*draws, *each, *axes).expand(*draws, *self.examples, *axes).reshape(*draws, -1, *axes)

    def look_up(self, table: Tensor, owner: Tensor, *index: Tensor) -> Tensor:  # (*draws, *parts, *axes left)
        """One cell of a table for each part, from the set of weights that belongs to its example.

        :param table: (*draws, 1 or B, *axes).
        :param owner: (*parts) the example of each.
        :param index: (*parts,) for the first axes of the table.
        """
        axis = len(self.draws)
        if table.shape[axis] == 1:
            table = table.squeeze(axis)
        else:
            index = (owner.to(table.device), *index)
        sizes, shape = table.shape[axis : axis + len(index)], torch.broadcast_shapes(*(i.shape for i in index))
        place = index[0]
        for size, more in zip(sizes[1:], index[1:], strict=True):
            place = place * size + more
        flat = table if len(index) == 1 else table.flatten(axis, axis + len(index) - 1)
        # One axis to select from: its gradient is a plain sum into the table.
        found: Tensor = flat.index_select(axis, place.expand(shape).reshape(-1)).unflatten(axis, shape)
        return found

    def spread(self, table: Tensor, owner: Tensor) -> Tensor:  # (*draws, 1 or rows, *axes)
        """A table for each row, from the set of weights that belongs to its example; one for all if they share it.

        :param table: (*draws, 1 or B, *axes).
        """
        axis = len(self.draws)
        return table if table.shape[axis] == 1 else table.index_select(axis, owner.to(table.device))

    # -- how data lie

    def laid_flat(self: Self, value: Tensor) -> tuple[Self, Tensor]:  # event_shape -> (rows, ...)
        """The distribution and the value, lying flat, if both are what they should be.

        :param value: of the event shape, (rows, ...) for most.
        """
        self.check_weights()
        if value.shape != self.event_shape:
            raise StructureError(
                f"expected {self.what} of shape {tuple(self.event_shape)}, all examples end to end; actual shape "
                f"{tuple(value.shape)}"
            )
        self.check_value(value)
        return self, value

    def flat_structure(self, structure: Tensor) -> Tensor:  # (*draws, rows, ...)
        """A structure, lying flat."""
        return structure

    def shaped(self, flat: Tensor, fill: float) -> Tensor:
        """What lies flat, (*draws, rows, ...), in the form that values have; ``fill`` where there is nothing."""
        return flat

    def by_example(self, total: Tensor) -> Tensor:  # (*draws, B) -> batch_shape
        """One value an example, as the batch of the distribution has them."""
        return total.expand(broadcast(total.shape, self._batch_shape))

    def check_value(self, value: Tensor) -> None:  # (rows, ...)
        """Raise if a value holds numbers that it should not."""

    def check_weights(self) -> None:
        """Raise unless every log-weight is a number below +inf, or -inf, and all are of one dtype."""
        first, like = next(iter(self.weights.items()))
        with plain_torch():
            for name, w in self.weights.items():
                if w.dtype != like.dtype or not w.is_floating_point():
                    raise StructureError(
                        f"the weights of a {type(self).__name__} must have one floating dtype: {first} has "
                        f"{like.dtype}, {name} has {w.dtype}"
                    )
                if w.numel() and not float(w.detach().amax()) < torch.inf:
                    raise StructureError(f"{name} holds NaN or +inf; log-weights are numbers below +inf, or -inf")

    def check_integers(self, value: Tensor, size: int, least: int = 0) -> None:
        """Raise unless these are whole numbers below ``size``.

        :param value: (rows, ...).
        :param size: how many there are.
        :param least: 0, or -1 if that stands for none.
        """
        if value.is_floating_point() or value.dtype == torch.bool:
            raise StructureError(f"{self.what} must be integers, actual dtype {value.dtype}")
        if not value.numel():
            return
        with plain_torch():
            low, high = (int(x) for x in value.aminmax())
        if low < least or high >= size:
            none = ", or be -1 for none" if least < 0 else ""
            raise StructureError(
                f"{self.what} must lie in 0 .. {size - 1} (the table has {size} of them){none}, actual range {low} .. "
                f"{high}"
            )

    def draw_by_draw(self: Self, sample: Callable[[Self], Tensor], lead: int) -> Tensor:  # (*lead, *draws, ...)
        """New data from each of many sets of weights: what ``Predictive(parallel=True)`` asks for.

        :param sample: draws data from one set, (*lead, ...).
        :param lead: how many axes come before those of the draws.
        """
        if not self.one_set:
            raise StructureError("sample() draws from weights that all examples share: these have their own")
        drawn = [sample(self.with_weights(one)) for one in weight_sets(self.without_extra())]
        found = torch.stack(drawn, lead)
        return found.reshape(*found.shape[:lead], *self.draws, *found.shape[lead + 1 :])

    def without_extra(self: Self) -> Self:
        """The same distribution without added potentials."""
        new = copy(self)
        new.extra = {}
        return new

    def sample(self, sample_shape: Any = ()) -> Tensor:
        raise StructureError(
            f"{type(self).__name__} cannot draw new data. Draw structures of given data with posterior(value).sample()"
        )


def heated(logs: Tensor, temperature: float) -> Tensor:
    """Weights to the power of 1 / temperature, in logs."""
    if temperature == torch.inf:
        return torch.where(logs == -torch.inf, logs, 0.0)  # -inf by inf is no number
    return logs / temperature


def as_potentials(found: Tensor, like: Tensor) -> Tensor:
    """Log-potentials from truth values, or as they are.

    :raises StructureError: if they are neither, or hold NaN or +inf.
    """
    if not isinstance(found, Tensor):
        raise StructureError(
            f"expected a tensor of truth values or log-potentials over the parts, actual {type(found).__name__}"
        )
    if found.dtype == torch.bool:
        return torch.zeros(found.shape, dtype=like.dtype, device=like.device).masked_fill_(~found, -torch.inf)
    if not found.is_floating_point():
        raise StructureError(
            f"expected truth values or floating-point log-potentials over the parts, actual {found.dtype}: for a mask "
            "compare, as in parts.distance <= 4"
        )
    if found.numel() and not float(found.detach().amax()) < torch.inf:
        raise StructureError("the log-potentials of parts hold NaN or +inf; they are numbers below +inf, or -inf")
    return found.to(like)

"""Which families have a closed-form M step."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from .cells import Cells

#: From weighted observations and names of parameters to new values of these.
MStep = Callable[["Cells", Set[str]], dict[str, Tensor]]

_found: dict[type, MStep] = {}


class NoClosedForm(Exception):
    """These data have no closed-form M step, though their family has: those with gaps in a vector, say."""


def register(kind: type) -> Callable[[MStep], MStep]:
    """Make a function the M step of a family of distributions.

    :param kind: the class of distributions, and of its subclasses that have none of their own.

    >>> import pyro.distributions as dist
    >>> from pyro_unsup.estimate.closed_forms import has_closed_form, register
    >>> has_closed_form(dist.Pareto)
    False
    >>> @register(dist.Pareto)
    ... def pareto(cells, wanted):
    ...     logs = cells.total("alpha", lambda x, w, d: w * (x / d.scale).log())
    ...     return {"alpha": cells.total("alpha", lambda x, w, d: w) / logs}
    >>> has_closed_form(dist.Pareto)
    True
    """

    def keep(function: MStep) -> MStep:
        _found[kind] = function
        return function

    return keep


def closed_form(kind: type) -> MStep | None:
    """The M step of a family; None if it has none.

    A subclass has that of its base class, unless it has a density of its own.
    """
    for base in kind.__mro__:
        if base in _found:
            density: Any = kind.log_prob  # type: ignore[attr-defined]
            own = density is base.log_prob or density.__module__.startswith(("torch.", "pyro."))  # type: ignore[attr-defined]
            return _found[base] if own else None
    return None


def has_closed_form(kind: type[Any]) -> bool:
    """Whether a family has an M step here."""
    return closed_form(kind) is not None

"""A model under a handler that changes how its hidden structure is weighed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from pyro.poutine.messenger import Messenger
from torch import Tensor


class Handler(Messenger):
    """A messenger that can be put around a model, and saved with it.

    A handler of your own is a subclass with ``_pyro_sample`` or the like. If it has settings, it overrides
    :meth:`settings` and :meth:`from_settings` too. Fits under it can be saved once it is registered
    (:mod:`pyro_unsup.registry`).

    >>> import pyro_unsup as pu
    >>> class Silent(pu.handlers.Handler):
    ...     pass
    >>> Silent().settings(), type(Silent().around(pu.models.Tagger(tags=2, vocab=3))).__name__
    (({}, {}), 'Handled')
    """

    #: Whether what it does depends on the numbers in the tables. If it does not, an engine need not run the model again
    #: for every E step on the same data.
    looks_at_weights: ClassVar[bool] = True

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this handler again: plain values, and tensors by name."""
        return {}, {}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """Build a handler from its :meth:`settings`."""
        return cls(**plain, **tensors)

    def around(self, model: Callable[..., Any]) -> Handled:
        """The model under this handler."""
        return Handled(model, self)


class Handled:
    """The model with a handler around it: itself a Pyro program, that still knows what it is made of.

    :param model: the model inside, perhaps under another handler.
    :param handler: a context manager, such as a poutine messenger.

    >>> import pyro_unsup as pu
    >>> model = pu.temper(pu.models.Tagger(tags=2, vocab=3), 0.5)
    >>> type(model).__name__, model.model, model.handler.beta
    ('Handled', Tagger(tags=2, vocab=3, order=1), 0.5)
    """

    def __init__(self, model: Callable[..., Any], handler: Any) -> None:
        self.model, self.handler = model, handler

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self.handler:
            return self.model(*args, **kwargs)

    def __repr__(self) -> str:
        return f"{self.handler!r} of {self.model!r}"


def bare(model: Callable[..., Any]) -> Callable[..., Any]:
    """The model without the handlers around it.

    >>> from pyro_unsup.handlers import Handled, bare
    >>> bare(Handled(Handled(len, None), None)) is len
    True
    """
    while isinstance(model, Handled):
        model = model.model
    return model

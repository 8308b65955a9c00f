"""A model under a handler that changes how its hidden structure is weighed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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

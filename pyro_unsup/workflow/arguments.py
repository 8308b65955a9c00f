"""Whether the arguments of the workflow are what they should be: a model, its data, a result."""

from __future__ import annotations

import inspect
from typing import Any

from pyro.infer import MCMC

from ..errors import UnsupError
from ..handlers import bare
from ..results import Fit, Samples


def check_model(what: str, model: Any) -> None:
    """Raise unless this is a model: a Pyro program, not what was found by training or sampling it.

    :param what: the function that was called.

    >>> from pyro_unsup.workflow.arguments import check_model
    >>> check_model("evidence", 3)
    Traceback (most recent call last):
    ...
    pyro_unsup.errors.UnsupError: evidence takes a model, a function that is a Pyro program; actual int
    """
    if isinstance(model, Fit | Samples):
        raise UnsupError(f"{what} takes a model, actual {type(model).__name__}: give its model, result.model")
    if isinstance(model, MCMC):
        raise UnsupError(f"{what} takes a model, actual MCMC: give its model, mcmc.kernel.model")
    if not callable(model):
        raise UnsupError(f"{what} takes a model, a function that is a Pyro program; actual {type(model).__name__}")


def check_data(what: str, model: Any, data: tuple[Any, ...]) -> None:
    """Raise if a model that takes data has been given none.

    :param what: the function that was called.
    """
    if not data and inspect.signature(bare(model)).parameters:
        raise UnsupError(f"{what} needs the data: {what}(..., data), as the model takes them")


def in_bytes(size: float) -> str:
    """A number of bytes to read.

    >>> from pyro_unsup.workflow.arguments import in_bytes
    >>> in_bytes(100), in_bytes(52_300), in_bytes(2e9)
    ('100 bytes', '52.3 kB', '2.0 GB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size:.0f} bytes"

"""Whether the arguments of the workflow are what they should be: a model, its data, a result."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
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


def check_whole(name: str, value: Any, least: int = 1) -> None:
    """Raise unless this is a whole number, and not too small.

    :param name: of the argument.

    >>> from pyro_unsup.workflow.arguments import check_whole
    >>> check_whole("moves", 1.5)
    Traceback (most recent call last):
    ...
    pyro_unsup.errors.UnsupError: moves must be a whole number, 1 or more, actual 1.5
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise UnsupError(f"{name} must be a whole number, {least} or more, actual {value!r:.80}")


def check_seed(seed: Any) -> None:
    """Raise unless this is a seed: a whole number, 0 or more, that generators take."""
    check_whole("seed", seed, 0)
    if seed >= 2**63:
        raise UnsupError(f"seed must be smaller than 2**63, actual {seed!r:.80}")


def check_limit(limit: Any) -> None:
    """Raise unless this is a number of bytes; infinity will do."""
    if isinstance(limit, bool) or not isinstance(limit, int | float | np.number) or not limit >= 0:
        raise UnsupError(f"limit must be a number of bytes, as in limit=4e9, actual {limit!r:.80}")


def check_processes(processes: Any) -> None:
    """Raise unless this is a number of processes, or None for as many as there are cores."""
    if processes is not None:
        check_whole("processes", processes)


def check_mapping(name: str, value: Any, example: str) -> None:
    """Raise unless this is a dictionary with names as keys, or None.

    :param name: of the argument.
    :param example: how to write it.
    """
    if value is None or (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
        return
    raise UnsupError(f"{name} must be a dictionary by name, as in {example}; actual {type(value).__name__}")


@contextmanager
def own_errors() -> Iterator[None]:
    """Errors of the library as they were raised. Pyro wraps what a model raises, and adds a table of its shapes. That
    helps to write a model. Where the data of a finished model are wrong, it hides what is said about them.

    >>> from pyro_unsup.errors import UnsupError
    >>> from pyro_unsup.workflow.arguments import own_errors
    >>> with own_errors():
    ...     raise ValueError("wrapped") from UnsupError("lengths must be integers")
    Traceback (most recent call last):
    ...
    pyro_unsup.errors.UnsupError: lengths must be integers
    """
    try:
        yield
    except ValueError as error:
        first: UnsupError | None = None
        inside = error.__cause__
        while inside is not None:
            first = inside if isinstance(inside, UnsupError) else first
            inside = inside.__cause__
        if first is None:
            raise
        raise first from None


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

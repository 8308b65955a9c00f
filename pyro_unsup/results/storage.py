"""A fit on disk: a folder with ``fit.json`` and a file of safetensors (:mod:`.record_folder`).

Whatever does not agree with the record (:mod:`.record`) is refused with the file's name.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import InputError, TableError, UnsupError
from .fit import Fit
from .record import KIND, SCHEMA, WRONG
from .record_folder import Contents
from .record_runs import describe, restore

RECORD = "fit.json"
FIT = Contents(RECORD, KIND, SCHEMA, "a fit", "is not a fit", "fit.save or `pyro-unsup fit --out`")


def save(fit: Fit, folder: str | PathLike[str], overwrite: bool = False, runs: bool = True) -> None:
    """Write a fit into a new folder. An existing one is replaced only if asked to, and only if it holds a fit.

    :param runs: whether the runs of restarts are saved with it.
    """
    may_write(folder, overwrite)
    record, tensors = describe(fit, runs)
    FIT.put(folder, record, tensors, overwrite)


def load(folder: str | PathLike[str], model: Callable[..., Any] | None = None) -> Fit:
    """Read a fit back. The files are data: nothing in them is run. :func:`pyro_unsup.load` also reads other folders.

    :param model: needed for a model of your own that is not registered, such as a function. Registered models are built
        again, those of the library and of installed packages alike (:mod:`pyro_unsup.registry`).

    >>> import tempfile, pyro_unsup as pu
    >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2)).run([[0, 1]], iterations=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit.save(folder + "/tagger")
    ...     pu.results.load(folder + "/tagger").model
    Tagger(tags=2, vocab=2, order=1)
    """
    record, tensors, file = FIT.get(folder)
    try:
        return restore(record, tensors, model)
    except TableError as error:
        raise InputError(f"{error!s:.600}", file) from error
    except UnsupError as error:
        raise InputError(f"{error!s:.600}", Path(folder) / RECORD) from error
    except WRONG as error:
        raise InputError(f"the record does not describe a fit: {error!r:.200}", Path(folder) / RECORD) from error


def may_write(folder: str | PathLike[str], overwrite: bool = False) -> None:
    """Raise if a fit must not be saved there."""
    FIT.may_write(folder, overwrite)

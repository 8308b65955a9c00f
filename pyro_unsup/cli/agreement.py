"""Several runs decoded together: ``--consensus`` for the restarts of a model, ``--with DIR`` for other models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyro_unsup as pu

from ..errors import InputError, UnsupError
from ..results.evaluation import task_of
from ..tasks.option import Given
from ..tasks.task import Task

if TYPE_CHECKING:
    from ..results import Fit
    from ..results.consensus import Consensus


def asked(given: Given) -> bool:
    """Whether more than the model itself is to decode."""
    return bool(getattr(given, "consensus", False) or getattr(given, "with_models", None))


def together(task: Task, fit: Fit, data: Any, given: Given) -> Consensus:
    """What several runs say together.

    :raises InputError: for a folder without other runs, or with another kind of model.
    """
    if getattr(given, "given", None) == "past":
        raise UnsupError("--given past is of one model: leave it out, or leave out --consensus and --with")
    fits = _runs(given.folder, fit, given)
    for folder in given.with_models or ():
        fits += _runs(folder, _load(folder, task, given.folder), given)
    if getattr(given, "without_preferences", False):
        fits = [one.without_preferences() for one in fits]
    return pu.consensus(fits, data, **task.decoding(given))


def words(found: Consensus) -> str:
    """How much runs agree, for a reader.

    >>> import pyro_unsup as pu
    >>> from pyro_unsup.cli.agreement import words
    >>> corpus = pu.data.toy.sentences(20, seed=1)
    >>> model = pu.models.Tagger(tags=3, vocab=corpus.vocab)
    >>> fit = pu.EM(model).run(corpus, iterations=1, restarts=2, processes=1)
    >>> words(fit.consensus(corpus)).partition(" have ")[0]
    'consensus of 2 runs: two of them'
    """
    return f"{found!r}".replace("Consensus", "consensus", 1)


def numbers(found: Consensus) -> dict[str, float]:
    """The same for a program."""
    return {"runs": len(found.fits), "agreement": found.agreement}


def _runs(folder: str, fit: Fit, given: Given) -> list[Fit]:
    """All runs of a model with ``--consensus``, else the model alone."""
    if not given.consensus:
        return [fit]
    if len(fit.runs) < 2 and not given.with_models:
        raise InputError(
            "holds one run, and --consensus is of several: train with --restarts 8 (and without --probe and "
            "--best-only), or name other models by --with DIR", folder
        )  # fmt: skip
    return [*fit.runs] or [fit]


def _load(folder: str, task: Task, first: str) -> Fit:
    found: Any = pu.load(folder)
    if not isinstance(found, pu.Fit):
        raise InputError("holds no model; --with takes models that `pyro-unsup fit` wrote", folder)
    if (other := task_of(found.unhandled().model).name) != task.name:
        raise InputError(
            f"is for the task {other}, and {first} for {task.name}; --with takes models of one task", folder
        )
    return found

"""What models are for: one description a model, from which predictions, scores, pages and commands are made.

A task says what a model reads, what gold data look like, how structure is written, scored and shown, and how the model
is trained by default. :class:`Task` is the base class; the file of a model's task has the name of the model. Nothing
heavy is imported by these files before it is used, so that ``pyro-unsup --help`` is quick.

A package of your own registers its tasks by entry points (group ``pyro_unsup.tasks``), and has commands then.
"""

from __future__ import annotations

from typing import Any

from .. import registry
from ..errors import UnsupError
from .option import Option
from .shown import Shown, Table
from .task import Task
from .values import Baseline, Command, Plan, Recipe, Score

__all__ = ["Baseline", "Command", "Option", "Plan", "Recipe", "Score", "Shown", "Table", "Task", "find", "names"]


def find(name: str) -> Task:
    """The task that is registered by a name.

    >>> import pyro_unsup as pu
    >>> pu.tasks.find("tagger").unit
    'words'
    """
    found: Any = registry.find("tasks", name)
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise UnsupError(f"the task {name!r:.80} should be a subclass of pyro_unsup.tasks.Task, actual {found!r:.80}")
    return found()


def names(command: str = "fit") -> list[str]:
    """The tasks that have a command, the library's own first. Those of a package that cannot be imported are left out:
    a broken package is no reason to fail here, and :func:`find` tells what is wrong.

    >>> import pyro_unsup as pu
    >>> pu.tasks.names("sample")
    ['tagger', 'ccm', 'dmv', 'dmv-ccm', 'pcfg', 'clusterer', 'segmenter', 'aligner', 'adaptor']
    """
    found = registry.names("tasks")
    own = [name for name in ORDER if name in found]
    return [name for name in [*own, *(one for one in found if one not in own)] if _has(name, command)]


def _has(name: str, command: str) -> bool:
    try:
        return find(name).command(command) is not None
    except UnsupError:
        return False


#: The order in which commands are listed.
ORDER = ("tagger", "ccm", "dmv", "dmv-ccm", "pcfg", "clusterer", "segmenter", "aligner")

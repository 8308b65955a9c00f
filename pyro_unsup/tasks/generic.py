"""For registered models without a task of their own: they decode the data that they take, and can be shown."""

from __future__ import annotations

from .task import Task
from .values import Command, Score


class GenericTask(Task):
    """A model with one structured site.

    Data by another vocabulary, words that training never met, and scores of a field need a task of the model's own.
    """

    name = "generic"
    examples = "examples"
    scores_known = (
        Score("accuracy", "entries of the structure that are right"),
        Score("loglik_per_example", "natural logarithm; higher is better", ".4f"),
    )
    commands = {"show": Command("Show a model that has no task of its own: how its training ended.")}  # noqa: RUF012

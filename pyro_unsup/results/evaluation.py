"""What the task of a model makes of its fits: structure of new data, scores, and names of states after gold labels."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from .. import registry
from ..errors import UnsupError
from ..evaluate import relabel
from ..handlers import bare

if TYPE_CHECKING:
    from .fit import Fit


def own_task(model: object) -> Any:
    """The task that a registered model names; None if it names none, or is not registered.

    A subclass of a registered model may mean something else by the same tables, so it has to be registered itself.
    (It inherits the attribute ``task``, and may set it to None, or to a task of its own.)
    """
    registered, name = registry.name_of("models", type(model)), getattr(model, "task", None)
    if registered is None or name is None:
        return None
    found = registry.find("tasks", name)
    if not (isinstance(found, type) and hasattr(found, "page")):
        raise UnsupError(f"the task {name!r:.80} of {registered} should be a subclass of pyro_unsup.tasks.Task")
    return found()


def task_of(model: object, what: str = "this") -> Any:
    """The same, but the generic task for a registered model that names none.

    :param what: is asked of the task, for the error.
    :raises UnsupError: if the model is not registered.
    """
    if registry.name_of("models", type(model)) is None:
        name = getattr(model, "__name__", None) or f"{model!r:.80}"
        raise UnsupError(
            f"{what} is for registered models, and {name} is not one. Register its class (pyro_unsup.registry), or use "
            "fit.predict(), fit.posterior() or fit.probabilities(), with the functions of pu.evaluate and pu.plot"
        )
    return own_task(model) or registry.find("tasks", "generic")()


def relabelled(fit: Fit, gold: Any, how: str) -> Fit:
    """A copy whose states have the names of the gold labels they match best; other states keep their numbers."""
    inner = fit.unhandled()
    model: Any = inner.model
    task = own_task(model)
    labels = None if task is None else task.gold_labels(gold)
    if labels is None:
        raise UnsupError(f"expected the fit of a tagger or a clusterer, actual {fit.model!r:.80}")
    return named_after(fit, gold, labels, task.decode(inner, gold).structure, how)


def named_after(fit: Fit, gold: Any, labels: Any, predicted: Any, how: str = "many_to_one") -> Fit:
    """The same from what was decoded.

    :param labels: (items,) the gold label of each.
    :param predicted: (items,) the state of each.
    """
    model: Any = bare(fit.model)
    mapping = relabel(labels, predicted.numpy(), how=how, predicted_size=model.states)  # type: ignore[arg-type]
    new = copy(fit)
    known = gold.tagset if hasattr(gold, "tagset") else gold.labelset
    names = [str(k) if label < 0 else known[int(label)] for k, label in enumerate(mapping)]
    new.config = {**fit.config, "labels": names}
    return new

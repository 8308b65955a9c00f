"""Models and estimators in plain values and tensors, and back: by their registered names (:mod:`pyro_unsup.registry`).

A model is described as ``{"name": ..., "settings": {...}, "under": [...]}``. ``under`` lists the handlers around it,
the innermost first, each as ``{"name": ..., "settings": {...}}``. Tensors of the model go by their own names, those of
the i-th handler by ``under<i>/<name>``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from .. import registry
from ..data import Vocab
from ..errors import NotDescribable, RegistryError, UnsupError
from ..estimate import Estimator, Parametric
from ..handlers import Handled, Handler

#: No size of a model may be larger than this, unless its folder holds as many numbers: what is built before tables are
#: compared must not take memory that a few bytes have asked for.
MOST = 2**24


def describe_model(model: Callable[..., Any]) -> tuple[dict[str, Any] | None, dict[str, Tensor]]:
    """Plain settings and tensors of a registered model, handlers around it included.

    None for a model that is not registered, or if a handler holds what cannot be described, such as a function.

    :raises UnsupError: if a handler is not registered.
    """
    handlers = []
    while isinstance(model, Handled):
        handlers.append(model.handler)
        model = model.model
    try:
        found = registry.describe("models", model)
        if found is None:
            return None, {}
        said, tensors = found
        _check_names(said["name"], tensors)
        under = [_describe_handler(handler) for handler in reversed(handlers)]
    except NotDescribable:
        return None, {}
    if under:
        said["under"] = [plain for plain, _ in under]
        for i, (plain, own) in enumerate(under):
            _check_names(plain["name"], own)
            tensors |= {f"under{i}/{name}": x for name, x in own.items()}
    return said, tensors


def build_model(said: Mapping[str, Any] | None, tensors: Mapping[str, Tensor], numbers: int = 0) -> Callable[..., Any]:
    """The way back. Raises where the parts do not agree.

    :param numbers: how many the folder holds.
    """
    if said is None:
        raise UnsupError(
            "this fit is of a model of your own that is not registered, or under a component of your own: pass it, "
            "load(folder, model=...)"
        )
    settings = {
        key: Vocab(value["types"], value["unknown"]) if isinstance(value, dict) and "types" in value else value
        for key, value in said["settings"].items()
    }
    _check_sizes(settings, numbers)
    own = {key: x for key, x in tensors.items() if "/" not in key}
    try:
        built: Callable[..., Any] = registry.build("models", {"name": said["name"], "settings": settings}, own)
        for i, plain in enumerate(said.get("under", [])):
            start = f"under{i}/"
            mine = {key.removeprefix(start): x for key, x in tensors.items() if key.startswith(start)}
            built = around(built, registry.build("handlers", plain, mine))
    except RegistryError:
        raise
    except UnsupError as error:
        raise UnsupError(f"the model cannot be built: {error}") from error
    if (known := describe_model(built)[1].keys()) != tensors.keys():
        raise UnsupError(f"the model has the tensors {sorted(known)}, the record lists {sorted(tensors)!r:.80}")
    return built


def describe_estimators(
    estimators: Mapping[str, Estimator | Parametric],
) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
    """The estimators of a fit's tables, one entry for each, with the tables that it has. Those that are not registered,
    or hold what cannot be described, are left out."""
    tables: dict[int, list[str]] = {}
    for name, one in estimators.items():
        tables.setdefault(id(one), []).append(name)
    said: list[dict[str, Any]] = []
    tensors: dict[str, Tensor] = {}
    for mine in tables.values():
        try:
            found = registry.describe("estimators", estimators[mine[0]])
        except NotDescribable:
            continue
        if found is not None:
            plain, own = found
            tensors |= {f"{len(said)}/{name}": x for name, x in own.items()}
            said.append({**plain, "tables": mine})
    return said, tensors


def build_estimators(said: list[Mapping[str, Any]], tensors: Mapping[str, Tensor]) -> dict[str, Estimator | Parametric]:
    """The way back: estimators by table. Tables that one estimator has together share the object."""
    found: dict[str, Estimator | Parametric] = {}
    for i, one in enumerate(said):
        start = f"{i}/"
        mine = {key.removeprefix(start): x for key, x in tensors.items() if key.startswith(start)}
        if any(bool(x.isnan().any()) for x in mine.values()):
            raise UnsupError(f"the settings of the estimator {one['name']!r:.80} hold NaN")
        if not isinstance(one["tables"], list) or not all(isinstance(name, str) for name in one["tables"]):
            raise UnsupError(f"expected the names of an estimator's tables, actual {one['tables']!r:.80}")
        built = registry.build("estimators", one, mine)
        found |= dict.fromkeys(one["tables"], built)
    if tensors.keys() != describe_estimators(found)[1].keys():
        raise UnsupError(f"the record lists tensors {sorted(tensors)!r:.80} that its estimators do not have")
    return found


def around(model: Callable[..., Any], handler: Any) -> Handled:
    """The model under a handler, which may be any context manager."""
    return handler.around(model) if isinstance(handler, Handler) else Handled(model, handler)


def _describe_handler(handler: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    found = registry.describe("handlers", handler)
    if found is None:
        raise UnsupError(
            f"a model under {handler!r:.80} cannot be saved, for the handler is not registered: save fit.unhandled(), "
            "or register the class of the handler (pyro_unsup.registry)"
        )
    return found


def _check_names(who: str, tensors: Mapping[str, Tensor]) -> None:
    for name in tensors:
        if "/" in name:
            raise UnsupError(f"{who} has a tensor '{name:.80}' in its settings: expected a name without '/'")


def _check_sizes(settings: Mapping[str, Any], numbers: int) -> None:
    for key, value in settings.items():
        if isinstance(value, int) and value > max(MOST, numbers):
            raise UnsupError(
                f"{key} is {value!s:.20}, larger than the tensors that were saved ({numbers:,} numbers) allow"
            )
        if isinstance(value, dict):
            _check_sizes(value, numbers)

"""How to build a model of the library again, from plain values and tensors that a record holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from .. import models
from ..data import Vocab
from ..errors import UnsupError
from ..handlers import (
    ConstrainMessenger,
    Handled,
    HardenMessenger,
    RegulariseMessenger,
    SkewMessenger,
    TemperMessenger,
    components,
    constrain,
    harden,
    regularise,
    skew,
    temper,
)

#: No size of a model may be larger than this, unless its folder holds as many numbers: what is built before tables are
#: compared must not take memory that a few bytes have asked for.
MOST = 2**24


def describe_model(model: Callable[..., Any]) -> tuple[dict[str, Any] | None, dict[str, Tensor]]:
    """Plain settings and tensors of a model of the library, handlers around it included; None for anyone else's, or if
    a handler has a component that is."""
    handlers = []
    while isinstance(model, Handled):
        handlers.append(model.handler)
        model = model.model
    if type(model).__name__ not in models.__all__ or type(model) is not getattr(models, type(model).__name__):
        return None, {}
    settings, tensors = model.settings()  # type: ignore[attr-defined]
    builder, tensors = {"class": type(model).__name__, "settings": settings}, dict(tensors)
    if handlers:
        builder["under"] = []
        for i, handler in enumerate(reversed(handlers)):  # the innermost first
            plain, toward = _describe_handler(handler)
            if plain is None:
                return None, {}
            builder["under"].append(plain)
            tensors |= {f"under{i}.{name}": x for name, x in toward.items()}
    return builder, tensors


def build_model(
    builder: Mapping[str, Any] | None, tensors: Mapping[str, Tensor], numbers: int = 0
) -> Callable[..., Any]:
    """The way back. Raises where the parts do not agree.

    :param numbers: how many the folder holds.
    """
    if builder is None:
        raise UnsupError(
            "this fit is of a model of your own, or under a component of your own: pass it, load(folder, model=...)"
        )
    name = builder["class"]
    if name not in models.__all__:
        raise UnsupError(f"unknown model {name!r:.80}; this version knows {', '.join(models.__all__)}")
    settings = {
        key: Vocab(value["types"], value["unknown"]) if isinstance(value, dict) and "types" in value else value
        for key, value in builder["settings"].items()
    }
    for key, value in settings.items():
        if isinstance(value, int) and value > max(MOST, numbers):
            raise UnsupError(f"{key} is {value!s:.20}, which a folder of {numbers:,} numbers cannot be of")
    under = builder.get("under", [])
    own = {key: x for key, x in tensors.items() if not key.startswith("under")}
    try:
        built: Callable[..., Any] = getattr(models, name).from_settings(settings, own)
        for i, plain in enumerate(under):
            start = f"under{i}."
            toward = {key.removeprefix(start): x for key, x in tensors.items() if key.startswith(start)}
            built = _under(built, plain, toward)
    except UnsupError as error:
        raise UnsupError(f"the model cannot be built: {error}") from error
    if (known := describe_model(built)[1].keys()) != tensors.keys():
        raise UnsupError(f"the model has the tensors {sorted(known)}, the record lists {sorted(tensors)!r:.80}")
    return built


def _describe_handler(handler: Any) -> tuple[dict[str, Any] | None, Mapping[str, Tensor]]:
    if type(handler) is TemperMessenger:
        return {"handler": "temper", "beta": handler.beta}, {}
    if type(handler) is SkewMessenger:
        named = isinstance(handler.toward, str)
        plain = {"handler": "skew", "beta": handler.beta, "toward": handler.toward if named else None}
        return plain, {} if isinstance(handler.toward, str) else handler.toward
    if type(handler) is HardenMessenger:
        return {"handler": "harden"}, {}
    if type(handler) is ConstrainMessenger:
        said = components.describe(handler.component)
        return None if said is None else {"handler": "constrain", "component": said}, {}
    if type(handler) is RegulariseMessenger:
        each = [components.describe(one) for one in handler.features]
        if None in each:
            return None, {}
        return {"handler": "regularise", "features": each, "bound": handler.bound, "each": handler.each}, {}
    raise UnsupError(f"a model under {handler!r:.80} cannot be saved: save fit.unhandled()")


def _under(model: Callable[..., Any], plain: Mapping[str, Any], toward: Mapping[str, Tensor]) -> Handled:
    kind = plain["handler"]
    if kind == "temper":
        return temper(model, plain["beta"])
    if kind == "skew":
        return skew(model, plain["beta"], dict(toward) if plain["toward"] is None else plain["toward"])
    if kind == "harden":
        return harden(model)
    if kind == "constrain":
        return constrain(model, components.build(plain["component"]))
    if kind == "regularise":
        features = [components.build(one) for one in plain["features"]]
        return regularise(model, features, plain["bound"], plain["each"])
    raise UnsupError(f"unknown handler {kind!r:.80}")

"""What handlers are asked for, checked: models, and numbers of any make."""

from __future__ import annotations

import math
from typing import Any

from ..errors import StructureError


def check_model(model: Any, what: str) -> None:
    """Refuse a model that is no program."""
    if not callable(model):
        raise StructureError(f"{what}: a model is a Pyro program, such as pu.models.DMV(tags=3), actual {model!r:.80}")


def plain_number(given: Any) -> float | None:
    """A finite number, of Python, NumPy or torch; None if it is none."""
    if hasattr(given, "item") and getattr(given, "ndim", 1) == 0:
        given = given.item()
    ok = isinstance(given, int | float) and math.isfinite(given)
    return float(given) if ok else None

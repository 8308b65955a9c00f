"""Tables of multinomial weights: how models declare them, and what may answer."""

from .layout import Layout
from .lazy import LazyTable
from .op import Declaration, declare, multinomial, take

__all__ = ["Declaration", "Layout", "LazyTable", "declare", "multinomial", "take"]

"""Tables of multinomial weights: how models declare them, and what may answer."""

from .axes import Axis
from .dense import dense_tables
from .layout import Layout
from .lazy import LazyTable
from .op import Declaration, declare, table, take

__all__ = ["Axis", "Declaration", "Layout", "LazyTable", "declare", "dense_tables", "table", "take"]

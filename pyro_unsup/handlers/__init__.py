"""Poutine messengers that give a model's tables another meaning."""

from .counting import Counting
from .declared import DeclaredMessenger, declared
from .given import GivenMessenger, given

__all__ = ["Counting", "DeclaredMessenger", "GivenMessenger", "declared", "given"]

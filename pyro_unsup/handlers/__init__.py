"""Poutine messengers that give a model's tables another meaning."""

from .counting import Counting
from .declared import DeclaredMessenger, declared
from .given import GivenMessenger, given
from .temper import TemperMessenger, temper

__all__ = ["Counting", "DeclaredMessenger", "GivenMessenger", "TemperMessenger", "declared", "given", "temper"]

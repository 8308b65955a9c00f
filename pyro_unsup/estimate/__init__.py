"""Estimators: how expected counts become weights."""

from .base import Additive, Estimator
from .dirichlet import AddLambda, DirichletMAP
from .normalise import Normalise
from .variational import DirichletVB

__all__ = ["AddLambda", "Additive", "DirichletMAP", "DirichletVB", "Estimator", "Normalise"]

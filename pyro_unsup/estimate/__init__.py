"""Estimators: how expected counts become weights."""

from .base import Estimator
from .dirichlet import AddLambda, DirichletMAP
from .normalise import Normalise

__all__ = ["AddLambda", "DirichletMAP", "Estimator", "Normalise"]

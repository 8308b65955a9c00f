"""Estimators: how expected counts become weights."""

from . import templates
from .base import Additive, Differentiable, Estimator, Parametric
from .covariance import families
from .dirichlet import AddLambda, DirichletMAP
from .empirical_dirichlet import EmpiricalDirichlet
from .feature_names import FeatureNames
from .features import Features
from .log_linear import LogLinear
from .logistic_normal import LogisticNormal
from .normalise import Normalise
from .template import Template, same
from .variational import DirichletVB

__all__ = [
    "AddLambda",
    "Additive",
    "Differentiable",
    "DirichletMAP",
    "DirichletVB",
    "EmpiricalDirichlet",
    "Estimator",
    "FeatureNames",
    "Features",
    "LogLinear",
    "LogisticNormal",
    "Normalise",
    "Parametric",
    "Template",
    "families",
    "same",
    "templates",
]

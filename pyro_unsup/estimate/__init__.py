"""Estimators: how expected counts become weights."""

from . import templates
from .base import Additive, Differentiable, Estimator, Parametric, TablePosterior, posterior_of
from .dirichlet import AddLambda, DirichletMAP
from .empirical_dirichlet import EmpiricalDirichlet
from .features.feature_names import FeatureNames
from .features.features import Features
from .features.log_linear import LogLinear
from .features.template import Template, same
from .neural.embeddings import Cells, Embeddings
from .neural.networks import Networks
from .neural.neural import Neural
from .normal.covariance import families
from .normal.logistic_normal import LogisticNormal
from .normalise import Normalise
from .sparse import SparseL0
from .variational import DirichletVB

__all__ = [
    "AddLambda",
    "Additive",
    "Cells",
    "Differentiable",
    "DirichletMAP",
    "DirichletVB",
    "Embeddings",
    "EmpiricalDirichlet",
    "Estimator",
    "FeatureNames",
    "Features",
    "LogLinear",
    "LogisticNormal",
    "Networks",
    "Neural",
    "Normalise",
    "Parametric",
    "SparseL0",
    "TablePosterior",
    "Template",
    "families",
    "posterior_of",
    "same",
    "templates",
]

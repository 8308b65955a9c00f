"""Learn hidden structure from unlabelled data in Pyro.

One idea carries the library: expected counts are the gradient of the log marginal in the log-weights. Models declare
their tables of weights with :func:`table`, use structured distributions or enumerated latent variables for what
is hidden, and every algorithm runs on every model.
"""

from . import data, distributions, estimate, evaluate, handlers, infer, models, plot, registry, results, tables
from .distributions import Categorical, Chain
from .errors import FitError, InputError, StructureError, TableError, UnsupError
from .estimate import (
    AddLambda,
    DirichletMAP,
    DirichletVB,
    EmpiricalDirichlet,
    Features,
    LogisticNormal,
    LogLinear,
    Normalise,
    Template,
    same,
    templates,
)
from .handlers import components, constrain, featured, given, harden, regularise, skew, temper
from .infer import (
    EM,
    Anneal,
    CollapsedGibbs,
    Gradient,
    HierarchicalEM,
    IncrementalEM,
    MixtureEM,
    Polytope,
    StepwiseEM,
    init,
    launch,
    schedules,
    select_steps,
)
from .results import Fit, Report, Samples, load
from .tables import table

__version__ = "0.2.0.dev0"

__all__ = [
    "EM",
    "AddLambda",
    "Anneal",
    "Categorical",
    "Chain",
    "CollapsedGibbs",
    "DirichletMAP",
    "DirichletVB",
    "EmpiricalDirichlet",
    "Features",
    "Fit",
    "FitError",
    "Gradient",
    "HierarchicalEM",
    "IncrementalEM",
    "InputError",
    "LogLinear",
    "LogisticNormal",
    "MixtureEM",
    "Normalise",
    "Polytope",
    "Report",
    "Samples",
    "StepwiseEM",
    "StructureError",
    "TableError",
    "Template",
    "UnsupError",
    "components",
    "constrain",
    "data",
    "distributions",
    "estimate",
    "evaluate",
    "featured",
    "given",
    "handlers",
    "harden",
    "infer",
    "init",
    "launch",
    "load",
    "models",
    "plot",
    "registry",
    "regularise",
    "results",
    "same",
    "schedules",
    "select_steps",
    "skew",
    "table",
    "tables",
    "temper",
    "templates",
]

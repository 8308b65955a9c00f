"""Learn hidden structure from unlabelled data in Pyro.

One idea carries the library: expected counts are the gradient of the log marginal in the log-weights. Models declare
their tables of weights with :func:`multinomial`, use structured distributions or enumerated latent variables for what
is hidden, and every algorithm runs on every model.
"""

from . import data, distributions, estimate, evaluate, handlers, infer, models, plot, results, tables
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
    Cooling,
    Gradient,
    IncrementalEM,
    Loosen,
    MixtureEM,
    Polytope,
    StepwiseEM,
    fixed,
    from_labelled,
    from_weights,
    geometric,
    linear,
    noise,
    quench,
    select_steps,
    uniform,
)
from .results import Fit, Report, Samples, load
from .tables import multinomial

__version__ = "0.1.0.dev0"

__all__ = [
    "EM",
    "AddLambda",
    "Anneal",
    "Categorical",
    "Chain",
    "CollapsedGibbs",
    "Cooling",
    "DirichletMAP",
    "DirichletVB",
    "EmpiricalDirichlet",
    "Features",
    "Fit",
    "FitError",
    "Gradient",
    "IncrementalEM",
    "InputError",
    "LogLinear",
    "LogisticNormal",
    "Loosen",
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
    "fixed",
    "from_labelled",
    "from_weights",
    "geometric",
    "given",
    "handlers",
    "harden",
    "infer",
    "linear",
    "load",
    "models",
    "multinomial",
    "noise",
    "plot",
    "quench",
    "regularise",
    "results",
    "same",
    "select_steps",
    "skew",
    "tables",
    "temper",
    "templates",
    "uniform",
]

"""Learn hidden structure from unlabelled data in Pyro.

One idea carries the library: expected counts are the gradient of the log marginal in the log-weights. Models declare
their tables of weights with :func:`table`, use structured distributions or enumerated latent variables for what
is hidden, and every algorithm runs on every model.

Importing this package imports nothing else. Each name is imported when it is first used, so that ``pyro-unsup --help``
need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import (
        data,
        distributions,
        estimate,
        evaluate,
        handlers,
        infer,
        interop,
        models,
        plot,
        registry,
        results,
        tables,
        tasks,
        workflow,
    )
    from . import errors as errors
    from . import kernels as kernels
    from .distributions import Categorical, Chain, Joint, SemiMarkov, stationary
    from .errors import FitError, InputError, StructureError, TableError, UnsupError
    from .estimate import (
        AddLambda,
        DirichletMAP,
        DirichletVB,
        EmpiricalDirichlet,
        Features,
        LogisticNormal,
        LogLinear,
        Neural,
        Normalise,
        SparseL0,
        Template,
        same,
        templates,
    )
    from .handlers import components

    # Each from its own file: the file has the same name, and mypy would take the one for the other.
    from .handlers.constrain import constrain
    from .handlers.featured import featured
    from .handlers.given import given
    from .handlers.harden import harden
    from .handlers.prefer import prefer
    from .handlers.regularise import regularise
    from .handlers.skew import skew
    from .handlers.temper import temper
    from .infer import (
        EM,
        Anneal,
        BlockedGibbs,
        CollapsedGibbs,
        Fade,
        Gradient,
        HierarchicalEM,
        IncrementalEM,
        MixtureEM,
        Polytope,
        StepwiseEM,
        compare_sizes,
        init,
        schedules,
        select_steps,
    )
    from .infer.choose_weight import choose_weight
    from .infer.launch import launch
    from .results import Fit, Report, Samples
    from .results.consensus import consensus
    from .results.loading import load
    from .results.word_classes import word_classes
    from .tables import table
    from .workflow import prior_predictive, recover, to_arviz
    from .workflow.checks import predictive_check
    from .workflow.evidence import evidence
    from .workflow.importance import importance
    from .workflow.k_fold import k_fold
    from .workflow.lfo import leave_future_out
    from .workflow.relabel import relabel
    from .workflow.sbc import sbc

__version__ = "0.2.0.dev0"

__all__ = [
    "EM",
    "AddLambda",
    "Anneal",
    "BlockedGibbs",
    "Categorical",
    "Chain",
    "CollapsedGibbs",
    "DirichletMAP",
    "DirichletVB",
    "EmpiricalDirichlet",
    "Fade",
    "Features",
    "Fit",
    "FitError",
    "Gradient",
    "HierarchicalEM",
    "IncrementalEM",
    "InputError",
    "Joint",
    "LogLinear",
    "LogisticNormal",
    "MixtureEM",
    "Neural",
    "Normalise",
    "Polytope",
    "Report",
    "Samples",
    "SemiMarkov",
    "SparseL0",
    "StepwiseEM",
    "StructureError",
    "TableError",
    "Template",
    "UnsupError",
    "choose_weight",
    "compare_sizes",
    "components",
    "consensus",
    "constrain",
    "data",
    "distributions",
    "estimate",
    "evaluate",
    "evidence",
    "featured",
    "given",
    "handlers",
    "harden",
    "hmm",
    "importance",
    "infer",
    "init",
    "interop",
    "k_fold",
    "launch",
    "leave_future_out",
    "load",
    "models",
    "plot",
    "predictive_check",
    "prefer",
    "prior_predictive",
    "recover",
    "registry",
    "regularise",
    "relabel",
    "results",
    "same",
    "sbc",
    "schedules",
    "select_steps",
    "skew",
    "stationary",
    "table",
    "tables",
    "tasks",
    "temper",
    "templates",
    "to_arviz",
    "word_classes",
    "workflow",
]

#: The rooms of the package, each of which is an attribute of it.
_ROOMS = frozenset(
    [
        "data",
        "distributions",
        "estimate",
        "evaluate",
        "handlers",
        "hmm",
        "infer",
        "interop",
        "kernels",
        "models",
        "plot",
        "registry",
        "results",
        "tables",
        "tasks",
        "workflow",
    ]
)
#: By room, the names that are also names of the package.
_NAMES = {
    "distributions": "Categorical Chain Joint SemiMarkov stationary",
    "errors": "FitError InputError StructureError TableError UnsupError",
    "estimate": "AddLambda DirichletMAP DirichletVB EmpiricalDirichlet Features LogLinear LogisticNormal Neural "
    "Normalise SparseL0 Template same templates",
    "handlers": "components constrain featured given harden prefer regularise skew temper",
    "infer": "EM Anneal BlockedGibbs CollapsedGibbs Fade Gradient HierarchicalEM IncrementalEM MixtureEM Polytope "
    "StepwiseEM choose_weight compare_sizes init launch schedules select_steps",
    "results": "Fit Report Samples consensus word_classes",
    "results.loading": "load",
    "tables": "table",
    "workflow": "evidence importance k_fold leave_future_out predictive_check prior_predictive recover "
    "relabel sbc to_arviz",
}
_ROOM_OF = {name: room for room, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a room, or the room of a name, at its first use."""
        if name in _ROOMS:
            return import_module(f"{__name__}.{name}")
        if name not in _ROOM_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{__name__}.{_ROOM_OF[name]}"), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

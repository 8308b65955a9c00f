"""What the tasks of trees share about samples: options of ``sample``, what is read, written and shown."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

import pyro_unsup as pu

from ..errors import UnsupError
from .option import Given, Option, choice, flag, real, under
from .shared_options import CHAINS, PRIOR

if TYPE_CHECKING:
    from ..data import Corpus
    from ..results import Samples

SAME = "The same text. - is standard input."
PREDICT = (
    "Only the sentences that were sampled, without punctuation. By default the trees with the most expected right "
    "parts in the mean over all draws."
)
#: Concentrations of constituents and of distituents, and of all other tables.
CONSTITUENTS, DISTITUENTS, OTHERS = 0.5, 2.0, 0.1


def concentrations(alpha: str, beta: str) -> tuple[Option, ...]:
    """Options for the concentrations of a model with two kinds of tables, which may be sampled.

    :param alpha: what draws from tables of the first kind, for help.
    :param beta: the same of the second kind.
    """
    return under(
        PRIOR,
        real("alpha", f"Concentration of {alpha}.", OTHERS, None),
        real("beta", f"Concentration of {beta}.", OTHERS, None),
        choice("hyper", ("fixed", "shared"), "fixed: as they are given; shared: both are sampled.", "fixed"),
        choice("hyperprior", ("gamma", "log-uniform"), "The prior of concentrations that are sampled.", shown="gamma"),
    )


SPANS = under(
    PRIOR,
    real("constituents", "Concentration of what constituents consist of and stand between.", CONSTITUENTS, None),
    real("distituents", "The same of what is no constituent.", DISTITUENTS, None),
)
ARCS = under(PRIOR, real("arcs", "Concentration of roots, dependents and decisions to stop.", OTHERS, None))
ANNEAL = under(CHAINS, flag("anneal", "Cool from temperature 2 to 0.08, to find good trees."))


def check(given: Given) -> None:
    """Refuse concentrations that are none."""
    for name in ("alpha", "beta", "constituents", "distituents", "arcs"):
        value = getattr(given, name, None)
        if value is not None and not 0 < value < math.inf:
            raise UnsupError(f"--{name} must be positive and finite, actual {value:g}")
    if getattr(given, "hyperprior", None) is not None and given.hyper == "fixed":
        raise UnsupError("--hyperprior is of concentrations that are sampled: give --hyper shared too")


def sampler(model: Any, given: Given) -> Any:
    """The sampler that the options describe."""
    prior: Any = (getattr(given, "hyperprior", None) or "gamma").replace("-", "_")
    learned: dict[str, Any] = {
        name: getattr(given, name) for name in ("alpha", "beta", "hyper", "fertility") if hasattr(given, name)
    }
    temperature = pu.schedules.Cooling() if given.anneal else 1.0
    return pu.CollapsedGibbs(model, hyperprior=prior, temperature=temperature, **learned)


def mean_tables(samples: Samples) -> Any:
    """Tables as a fit has them: their mean given the best trees."""
    from ..results.sample_trees import mean_weights  # torch loads when it is first needed

    chain = int(samples.best_log_joint.argmax())
    return SimpleNamespace(model=samples.model, weights=mean_weights(samples, chain), config=samples.config)


def brackets(samples: Samples, gold: Corpus, labels: Any) -> Any:
    """Brackets of trees as scores take them, with the names of their labels if they have any."""
    import torch  # loads when it is first needed

    from ..distributions.cells import spans_of
    from ..results.sample_trees import Trees

    trees = Trees(samples.model, gold.lengths)
    rows = np.stack([x.numpy() for x in spans_of(trees.lengths)], 1)[trees.inside(labels)]
    names = getattr(samples.model, "labels", None)
    found = [] if names is None else [names[k] for k in labels[labels >= 0].tolist()]
    return SimpleNamespace(brackets=rows, labels=found, lengths=torch.from_numpy(np.asarray(gold.lengths)))


def labelled_spans(samples: Samples, gold: Corpus, labels: Any) -> Any:
    """All spans with their labels, by number, as a fit's decoding has them."""
    import torch  # loads when it is first needed

    from ..distributions.cells import spans_of
    from ..results.sample_trees import Trees

    spans = tuple(x.numpy() for x in spans_of(Trees(samples.model, gold.lengths).lengths))
    return SimpleNamespace(spans=spans, names=samples.model.labels, structure=torch.from_numpy(np.asarray(labels)))


def headed(samples: Samples, gold: Corpus, heads: Any) -> Any:
    """Heads as scores take them, with the brackets that go with them."""
    import torch  # loads when it is first needed

    from ..distributions.bracketing import constituents
    from ..distributions.headed_bracketing import brackets_of

    structure, lengths = torch.from_numpy(np.asarray(heads, np.int64)), torch.from_numpy(np.asarray(gold.lengths))
    rows = constituents(brackets_of(structure, lengths, samples.model.order), lengths).numpy()
    return SimpleNamespace(structure=structure, brackets=rows, lengths=lengths)

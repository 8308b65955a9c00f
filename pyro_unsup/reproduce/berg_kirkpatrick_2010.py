"""Berg-Kirkpatrick et al. (2010): log-linear features in tables, by EM and by the direct gradient, for four tasks."""

from __future__ import annotations

from . import berg_kirkpatrick_2010_alignment as alignment
from . import berg_kirkpatrick_2010_chains as chains
from . import berg_kirkpatrick_2010_grammar as grammar
from .experiment import Paper

PAPER = Paper(
    "berg-kirkpatrick-2010",
    "Berg-Kirkpatrick et al. (2010), Painless Unsupervised Learning with Features",
    (
        chains.TAGGING,
        chains.TAGGING_TEMPLATES,
        *grammar.TABLES,
        alignment.ALIGNMENT,
        chains.SEGMENTATION,
        chains.SEGMENTATION_TEMPLATES,
    ),
    seeds=3,
    about="Gradient is the direct gradient of the likelihood (LBFGS in the paper); EM has L-BFGS in its M steps. Kappa "
    "is the weight of squares of feature weights in the prior. Objectives are log-likelihood minus prior, in nats; "
    "they compare between runs with the same features and kappa. Scores are of the text learned from.",
)

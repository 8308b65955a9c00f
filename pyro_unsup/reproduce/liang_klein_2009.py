"""Liang & Klein (2009): stepwise EM beside batch EM, for tagging, documents, words and alignment."""

from __future__ import annotations

from . import liang_klein_2009_alignment as alignment
from . import liang_klein_2009_clusters as clusters
from . import liang_klein_2009_words as words
from .experiment import Paper

PAPER = Paper(
    "liang-klein-2009",
    "Liang & Klein (2009), Online EM for Unsupervised Models",
    (
        clusters.TAGGING,
        clusters.TAGGING_GRID,
        clusters.DOCUMENTS,
        clusters.DOCUMENTS_GRID,
        words.SEGMENTATION,
        alignment.ALIGNMENT,
    ),
    seeds=5,
    about="Stepwise EM (0.7, 3) has steps of (k + 2)^-0.7 and mini-batches of 3 examples. The paper's Table 1 has one "
    "run of each setting, chosen by likelihood or by score; its Table 2 has means over five starts by five orders of "
    "the first of these, with the deviations due to start and to order, which are here put together. Our runs of one "
    "row differ in their seed, which makes both. Scores are of the text learned from, decoded by Viterbi. Nothing is "
    "smoothed.",
)

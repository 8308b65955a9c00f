"""Smith & Eisner (2004): deterministic annealing, and annealing toward a good start, for tagging and for parsing."""

from __future__ import annotations

from . import smith_eisner_2004_ccm as ccm
from . import smith_eisner_2004_tagging as tagging
from .experiment import Paper

PAPER = Paper(
    "smith-eisner-2004",
    "Smith & Eisner (2004), Annealing Techniques for Unsupervised Statistical Language Learning",
    (tagging.WHOLE, tagging.PARTS, tagging.LABELLED, ccm.SHORT, ccm.TRIALS, ccm.LONG, ccm.SCHEDULES),
)

"""Kinds of models, a file each: ``fit``, ``predict``, ``evaluate`` and ``show`` as commands."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ... import registry
from . import (
    aligner,
    ccm,
    clusterer,
    clusterer_samples,
    dmv,
    dmv_ccm,
    segmenter,
    segmenter_samples,
    tagger,
    tagger_samples,
)

#: By the name on the command line.
KINDS: dict[str, ModuleType] = {
    "tagger": tagger,
    "ccm": ccm,
    "dmv": dmv,
    "dmv-ccm": dmv_ccm,
    "clusterer": clusterer,
    "segmenter": segmenter,
    "aligner": aligner,
}
#: By the registered name of a model, whose commands it has.
COMMANDS = {
    "Tagger": "tagger",
    "CCM": "ccm",
    "DMV": "dmv",
    "DMVCCM": "dmv-ccm",
    "Clusterer": "clusterer",
    "Segmenter": "segmenter",
    "Aligner": "aligner",
    "HMMAligner": "aligner",
}
#: The same for samples: ``sample``, ``evaluate`` and ``show``.
SAMPLED: dict[str, ModuleType] = {
    "tagger": tagger_samples,
    "clusterer": clusterer_samples,
    "segmenter": segmenter_samples,
}


def name_of(model: Any) -> str | None:
    """The kind that a registered model is of, if the command line knows it."""
    return COMMANDS.get(registry.name_of("models", type(model)) or "")

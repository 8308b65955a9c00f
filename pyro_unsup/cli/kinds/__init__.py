"""Kinds of models, a file each: ``fit``, ``predict``, ``evaluate`` and ``show`` as commands."""

from __future__ import annotations

from types import ModuleType
from typing import Any

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

#: By the name on the command line, which is that of the class in lower case.
KINDS: dict[str, ModuleType] = {
    "tagger": tagger,
    "ccm": ccm,
    "dmv": dmv,
    "dmv-ccm": dmv_ccm,
    "clusterer": clusterer,
    "segmenter": segmenter,
    "aligner": aligner,
}
#: Models that go by another name, or have the commands of another.
ALSO = {"hmmaligner": "aligner", "dmvccm": "dmv-ccm"}
#: The same for samples: ``sample``, ``evaluate`` and ``show``.
SAMPLED: dict[str, ModuleType] = {
    "tagger": tagger_samples,
    "clusterer": clusterer_samples,
    "segmenter": segmenter_samples,
}


def name_of(model: Any) -> str | None:
    """The kind that a model of the library is of, if the command line knows it."""
    found = type(model).__name__.lower()
    found = ALSO.get(found, found)
    return found if found in KINDS else None

"""Every model times every algorithm: which cells work, and which make no sense and say why."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import pyro_unsup as pu

from .algorithms import ALGORITHMS
from .models import MODELS

#: What stands before and after the matrix in a text that shows it.
MARKS = "<!-- matrix: python -m tests.matrix --write docs/reference/matrix.md -->", "<!-- end of matrix -->"
WORKS = "✓"


@dataclass(frozen=True)
class Refusal:
    """A cell that makes no sense.

    :param message: part of what the error says, as a regular expression.
    :param reason: for the reader of the matrix.
    """

    error: type[Exception]
    message: str
    reason: str


NO_REFERENCE = Refusal(
    pu.UnsupError,
    r"'\w+' is a parameter but not a table: skew knows how to go between tables of weights only\. Use temper",
    "skewing needs tables, and means and rates are not tables. Use `Anneal` without `toward`",
)
NO_PARTS = Refusal(
    pu.StructureError,
    r"found no structured distribution .* What is enumerated can be weighed in the model itself, by pyro\.factor",
    "needs the parts of a structured distribution. For enumerated variables put a `pyro.factor` into the model",
)
NO_SAMPLER = Refusal(
    pu.FitError,
    r"Gibbs sampling needs a model that can integrate its tables out .*: sample other models with pu\.BlockedGibbs",
    "needs a sampler that was written for the model. `BlockedGibbs` draws structure and tables of any model",
)
ONE_BY_ONE = Refusal(
    pu.FitError,
    r"are drawn how = 'pointwise', actual 'blocked': no other way is worked out for it",
    "a document has one label only, so there is no block to draw",
)

LINK_BY_LINK = Refusal(
    pu.FitError,
    r"are drawn how = 'pointwise', actual 'blocked': no other way is worked out for it",
    "links are drawn one by one; no block of them is worked out",
)

NO_COVARIANCE = Refusal(
    pu.FitError,
    r"BlockedGibbs samples what has a prior, and pyro\.param has none: loc, covariance",
    "draws parameters number by number, and a covariance matrix is not a number. NUTS draws it, if it has a prior",
)

#: Models that have parameters besides their tables.
PARAMETERS = ["HMM, Poisson", "HMM, normal", "HMM, vectors", "own, Gaussian"]
OWN = [name for name, model in MODELS.items() if model.hidden]
TREES = ["DMV", "CCM 1", "CCM 2", "PCFG", "SimplePCFG", "DMV + CCM"]
SAMPLED = [*TREES, "bigram tagger", "trigram tagger", "segmenter", "Model 1", "HMM aligner", "clusterer"]
#: By model and algorithm.
REFUSED: dict[tuple[str, str], Refusal] = {
    **{(model, "skewed annealing"): NO_REFERENCE for model in PARAMETERS},
    **{(own, name): NO_PARTS for own in OWN for name in ("constrained mixture", "posterior regularisation")},
    **{
        (model, name): NO_SAMPLER
        for model in MODELS
        for name in ("Gibbs sampling", "blocked Gibbs")
        if model not in SAMPLED
    },
    **{(model, "blocked Gibbs"): LINK_BY_LINK for model in ("Model 1", "HMM aligner")},
    ("clusterer", "blocked Gibbs"): ONE_BY_ONE,
    ("HMM, vectors", "Gibbs, tables drawn"): NO_COVARIANCE,
}


def check(model: str, algorithm: str, folder: Path) -> None:
    """Raise unless a cell is as declared: it works in every way, or refuses and says why."""
    refused = REFUSED.get((model, algorithm))
    if refused is None:
        ALGORITHMS[algorithm](MODELS[model], folder)
    else:
        with pytest.raises(refused.error, match=refused.message):
            ALGORITHMS[algorithm](MODELS[model], folder)


def cells(*models: str) -> Any:
    """The cells of these models, for a test of ``model`` and ``algorithm``."""
    found = [(model, algorithm) for model in models for algorithm in ALGORITHMS]
    return pytest.mark.parametrize(("model", "algorithm"), found, ids=[", ".join(cell) for cell in found])


def table(failed: Collection[tuple[str, str]] = ()) -> str:
    """The matrix in Markdown.

    :param failed: cells that are not as declared.
    """
    reasons = list(dict.fromkeys(refused.reason for refused in REFUSED.values()))
    number = {reason: chr(ord("a") + i) for i, reason in enumerate(reasons)}

    def cell(model: str, algorithm: str) -> str:
        refused = REFUSED.get((model, algorithm))
        if (model, algorithm) in failed:
            return "**fails**"
        return WORKS if refused is None else number[refused.reason]

    lines = [["", *MODELS], ["---", *[":-:" for _ in MODELS]]]
    lines += [[name, *(cell(model, name) for model in MODELS)] for name in ALGORITHMS]
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([*rows, "", *(f"- {letter}: {reason}" for reason, letter in number.items())])


def split(text: str) -> tuple[str, str, str]:
    """A text before, between and after the marks of the matrix."""
    before, found, rest = text.partition(MARKS[0])
    matrix, ended, after = rest.partition(MARKS[1])
    if not (found and ended):
        raise ValueError(f"the text has no place for the matrix: expected a line {MARKS[0]} and one {MARKS[1]}")
    return before, matrix.strip(), after


def put(text: str, matrix: str) -> str:
    """A text with this matrix between its marks."""
    before, _, after = split(text)
    return f"{before}{MARKS[0]}\n{matrix}\n{MARKS[1]}{after}"

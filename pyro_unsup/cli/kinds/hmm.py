"""Aligners by jumps on the command line: they start where Model 1 ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import UnsupError
from ..engines import spelt
from ..fit import Training
from ..options import MODEL, TRAINING

if TYPE_CHECKING:
    import torch

    from ...infer import Initial
    from ...models import HMMAligner
    from ...tables import Declaration

#: Iterations of Model 1, and then of the model by jumps, unless told otherwise (Liang, Taskar & Klein 2006).
ITERATIONS = 5


class Which(StrEnum):
    """The model of alignment."""

    MODEL1 = "model1"
    HMM = "hmm"


WhichOption = Annotated[
    Which,
    typer.Option(
        "--model",
        help="model1: every word chooses alone (IBM Model 1). hmm: near the choice of the word before it; after some "
        f"iterations of Model 1 (--first), and {ITERATIONS} if --iterations does not tell.",
        rich_help_panel=MODEL,
    ),
]
LearnNullOption = Annotated[
    bool,
    typer.Option(
        "--learn-null",
        help="With --model hmm, learn the probability that a word translates none.",
        rich_help_panel=MODEL,
    ),
]
FirstOption = Annotated[
    int | None,
    typer.Option(
        "--first",
        metavar="N",
        min=0,
        help="With --model hmm, iterations of Model 1 to start from.",
        show_default=str(ITERATIONS),
        rich_help_panel=TRAINING,
    ),
]


def check(which: Which, learn_null: bool, first: int | None, null: float | None, vocab_from: str | None) -> None:
    """Refuse options that do not go together."""
    if which is Which.HMM:
        if learn_null and null is not None:
            raise UnsupError(f"--null {null:g} and --learn-null contradict each other; give one of them")
        if vocab_from is not None:
            raise UnsupError("--model hmm starts from Model 1 of the same text, and a stream is read once; leave "
                             "--vocab-from out")  # fmt: skip
        return
    for name, given in (("learn_null", learn_null), ("first", first is not None)):
        if given:
            raise UnsupError(f"{spelt(name)} belongs to --model hmm; add that, or leave it out")


def trained(training: Training) -> Training:
    """How long to train, if it was not said."""
    return replace(training, iterations=ITERATIONS) if training.iterations is None else training


def after_model_1(model: HMMAligner, text: Any, iterations: int | None) -> Initial:
    """A start from Model 1 of the same text."""
    from ...infer import EM
    from ...infer.init import uniform
    from ...models import Aligner

    def start(declarations: Mapping[str, Declaration], generator: torch.Generator) -> dict[str, torch.Tensor]:
        first = EM(Aligner(model.source, model.target, model.lexicon, model.agreement, model.null), init=uniform())
        state = first.init(model.index(text))
        for _ in range(ITERATIONS if iterations is None else iterations):
            state, _ = first.step(state)
        return model.start_from(state.weights)(declarations, generator)

    return start

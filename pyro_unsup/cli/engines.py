"""From options to an engine."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import torch
import typer

from ..errors import UnsupError
from .common import say
from .options import ALGORITHM

if TYPE_CHECKING:
    from ..infer import Initial
    from ..infer.engine import Engine
    from ..infer.estimation import Estimate
    from ..tables import Declaration


BATCH_SIZE = 100


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """How to learn, if not by plain EM."""

    anneal: Annotated[
        bool,
        typer.Option(
            "--anneal", help="Deterministic annealing: EM on flat posteriors first.", rich_help_panel=ALGORITHM
        ),
    ] = False
    beta_start: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="The first beta.", show_default="0.0001; ccm, dmv 0.01", rich_help_panel=ALGORITHM
        ),
    ] = None
    beta_factor: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Each beta by the one before, up to 1.",
            show_default="1.2; ccm, dmv 1.5",
            rich_help_panel=ALGORITHM,
        ),
    ] = None
    stepwise: Annotated[
        bool,
        typer.Option(
            "--stepwise",
            help="Stepwise EM: an update after every mini-batch. The text is read to its end first, from standard "
            "input too, for its words have to be known; where there is --vocab-from, that can tell them.",
            rich_help_panel=ALGORITHM,
        ),
    ] = False
    power: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="How fast its steps get smaller, above 0.5 and up to 1.",
            show_default="0.7",
            rich_help_panel=ALGORITHM,
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Examples in a mini-batch.",
            show_default=str(BATCH_SIZE),
            rich_help_panel=ALGORITHM,
        ),
    ] = None
    order_seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="The order of the examples.",
            show_default="as the seed of the start",
            rich_help_panel=ALGORITHM,
        ),
    ] = None
    viterbi: Annotated[
        bool,
        typer.Option(
            "--viterbi", help="Viterbi EM: count the best structure alone, not all of them.", rich_help_panel=ALGORITHM
        ),
    ] = False

    @property
    def examples(self) -> int:
        """In a mini-batch."""
        return BATCH_SIZE if self.batch_size is None else self.batch_size

    def check(self) -> None:
        """Refuse options that do not go together."""
        if self.anneal and (self.stepwise or self.viterbi):
            other = "--stepwise" if self.stepwise else "--viterbi"
            raise UnsupError(f"--anneal and {other} are two ways to learn; give one of them")
        for name, needed in {
            "beta_start": "anneal",
            "beta_factor": "anneal",
            "power": "stepwise",
            "batch_size": "stepwise",
            "order_seed": "stepwise",
        }.items():
            if getattr(self, name) is not None and not getattr(self, needed):
                raise UnsupError(f"{spelt(name)} belongs to --{needed}; add that, or leave it out")
        if self.power is not None:
            from ..infer.stepwise import check_power

            check_power(self.power)

    def engine(
        self,
        model: Callable[..., Any],
        estimate: Estimate,
        start: Initial | None,
        betas: tuple[float, float],
        interchangeable: bool,
        toward: str | None,
    ) -> Engine:
        """The engine that these options ask for.

        :param start: None for the engine's own.
        :param betas: where the schedule of annealing starts and its factor, if the options do not tell.
        :param interchangeable: whether hidden states may swap places, so that annealing has to shake them apart.
        :param toward: what annealing starts from, if it is not the flat posterior.
        """
        from ..handlers import harden
        from ..infer import EM, Anneal, StepwiseEM
        from ..infer.schedules import geometric

        if self.anneal:
            first = betas[0] if self.beta_start is None else self.beta_start
            factor = betas[1] if self.beta_factor is None else self.beta_factor
            shake: dict[str, Any] = {} if interchangeable else {"jitter": 0.0}
            return Anneal(model, estimate, start, schedule=geometric(first, factor), toward=toward, **shake)
        if self.viterbi:
            model = harden(model)
        if self.stepwise:
            power: dict[str, Any] = {} if self.power is None else {"power": self.power}
            how: dict[str, Any] = {"batch_size": self.examples, "order_seed": self.order_seed}
            return StepwiseEM(model, estimate, start, **how, **power)
        return EM(model, estimate, start)


def noisy(start: Initial | None, scale: float) -> Initial:
    """A start with noise on it; without one, noise alone."""
    from ..infer.init import from_weights, noise

    if start is None:
        return noise(scale)

    def shaken(declarations: Mapping[str, Declaration], generator: torch.Generator) -> dict[str, torch.Tensor]:
        return from_weights(start(declarations, generator), scale)(declarations, generator)

    return shaken


def finite(name: str, value: float | None) -> None:
    """Refuse infinity, which a number on the command line may well be."""
    if value is not None and not math.isfinite(value):
        raise UnsupError(f"{spelt(name)} must be a finite number, actual {value}")


def spelt(name: str) -> str:
    """An option as it is typed.

    >>> from pyro_unsup.cli.engines import spelt
    >>> spelt("batch_size")
    '--batch-size'
    """
    return f"--{name.replace('_', '-')}"


@contextmanager
def said() -> Iterator[None]:
    """Say warnings in a line each."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UserWarning)
        yield
    for one in dict.fromkeys(str(warning.message) for warning in found):
        say(f"warning: {one}")

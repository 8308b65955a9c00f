"""What sampling is for every kind of model: its options, where it may write, and how it ends."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UnsupError
from .common import INTERRUPTED, MAX_SEED, folder_of, say
from .engines import said, spelt
from .options import OUTPUT

if TYPE_CHECKING:
    from ..infer import CollapsedGibbs
    from ..results.samples import Samples

PRIOR, CHAINS = "Concentrations", "Chains"
#: Options that make a run the same run. More chains may be asked for when it goes on: each is on its own.
SAME = ("alpha", "beta", "hyper", "hyperprior", "sweeps", "burn_in", "thin", "seed", "anneal", "how")


class Hyper(StrEnum):
    """How concentrations are treated."""

    FIXED = "fixed"
    SHARED = "shared"
    SEPARATE = "separate"


class Hyperprior(StrEnum):
    """Of concentrations that are sampled."""

    GAMMA = "gamma"
    LOG_UNIFORM = "log-uniform"
    FLAT = "flat"


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """The options of every ``sample``."""

    alpha: Annotated[
        float,
        typer.Option(metavar="X", help="Concentration of the tables that labels come from.", rich_help_panel=PRIOR),
    ] = 1.0
    beta: Annotated[
        float,
        typer.Option(metavar="X", help="Concentration of the tables that words come from.", rich_help_panel=PRIOR),
    ] = 1.0
    hyper: Annotated[
        Hyper,
        typer.Option(
            help="fixed: as given; shared: one alpha and one beta are sampled, from there; separate: a beta for each "
            "label.",
            rich_help_panel=PRIOR,
        ),
    ] = Hyper.FIXED
    hyperprior: Annotated[
        Hyperprior | None,
        typer.Option(
            help="Of concentrations that are sampled. flat is improper.", show_default="gamma", rich_help_panel=PRIOR
        ),
    ] = None
    sweeps: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many, for each chain.", rich_help_panel=CHAINS)
    ] = 1000
    burn_in: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="How many to leave out first.", show_default="half of them", rich_help_panel=CHAINS
        ),
    ] = None
    thin: Annotated[
        int, typer.Option(metavar="N", min=1, help="Keep every so many of the others.", rich_help_panel=CHAINS)
    ] = 1
    chains: Annotated[int, typer.Option(metavar="N", min=1, help="How many.", rich_help_panel=CHAINS)] = 1
    seed: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=MAX_SEED,
            help="Same seed, same samples; chains count up from it.",
            rich_help_panel=CHAINS,
        ),
    ] = 0
    anneal: Annotated[
        bool,
        typer.Option("--anneal", help="Cool from temperature 2 to 0.08, to find good labels.", rich_help_panel=CHAINS),
    ] = False
    blocked: Annotated[
        bool,
        typer.Option(
            "--blocked", help="Of a tagger or segmenter: whole sentences, not place by place.", rich_help_panel=CHAINS
        ),
    ] = False
    uncollapsed: Annotated[
        bool,
        typer.Option(
            "--uncollapsed", help="Of a tagger: draw tables, then all sentences, on all cores.", rich_help_panel=CHAINS
        ),
    ] = False
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on from DIR.checkpoint of an interrupted run.", rich_help_panel=CHAINS),
    ] = False
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="DIR", help="The new folder for the samples.", rich_help_panel=OUTPUT)
    ]
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace samples that are in DIR.", rich_help_panel=OUTPUT)
    ] = False

    @property
    def target(self) -> Path:
        """The folder for the samples."""
        return folder_of(self.out)

    @property
    def how(self) -> str:
        """How labels move."""
        return "blocked" if self.blocked else "uncollapsed" if self.uncollapsed else "pointwise"

    def check(self) -> None:
        """Refuse what cannot end well, before anything is read."""
        from ..infer.sampling import Plan
        from ..results.sample_storage import SAMPLES
        from .training import Checkpoint

        SAMPLES.may_write(self.target, self.overwrite)
        Checkpoint.may_start(Checkpoint.beside(self.target), self.resume, self.overwrite)
        for name in ("alpha", "beta"):
            if not 0 < getattr(self, name) < math.inf:
                raise UnsupError(f"--{name} must be positive and finite, actual {getattr(self, name):g}")
        if self.blocked and self.uncollapsed:
            raise UnsupError("--blocked and --uncollapsed are two ways to draw; give one of them")
        if self.hyperprior is not None and self.hyper is Hyper.FIXED:
            raise UnsupError("--hyperprior is of concentrations that are sampled: give --hyper shared or separate too")
        Plan(self.sweeps, self.sweeps // 2 if self.burn_in is None else self.burn_in, self.thin)

    def kernel(self, model: Any) -> CollapsedGibbs:
        """The sampler that the options describe."""
        from ..infer import CollapsedGibbs
        from ..infer.schedules import Cooling

        with said():
            return CollapsedGibbs(
                model,
                self.alpha,
                self.beta,
                self.hyper.value,
                (self.hyperprior or Hyperprior.GAMMA).replace("-", "_"),
                self.how,  # type: ignore[arg-type]
                Cooling() if self.anneal else 1.0,
            )


def draw(
    kind: str, model: Any, data: Any, sampling: Sampling, identity: dict[str, Any], remembered: dict[str, Any]
) -> None:
    """Sample the labels of data, and save them. An interrupt leaves a checkpoint, and nothing else.

    :param identity: what makes a run the same run, besides the options of :class:`Sampling`.
    :param remembered: settings that reading the same text again will need.
    """
    from .chains import live
    from .training import Checkpoint, stopping

    kernel = sampling.kernel(model)
    beside = Checkpoint.beside(sampling.target)
    options = {spelt(name): getattr(sampling, name) for name in SAME}
    checkpoint = Checkpoint(beside, {"model": f"samples of a {kind}", **options, **identity})
    resumed = checkpoint.open(sampling.resume)
    if resumed:
        say(f"going on from {beside}")
    elif sampling.resume:
        say(f"{beside} is not there: starting from the beginning")
    given = {one.name: getattr(sampling, one.name) for one in fields(sampling)}
    plan = {name: given[name] for name in ("sweeps", "burn_in", "thin", "chains", "seed")}
    try:
        with live(sampling.sweeps) as chains, stopping(chains.stop):
            found = kernel.run(data, **plan, callbacks=[chains.note], progress=False, checkpoint=beside, resume=resumed)
    except BaseException as error:
        kept = any(beside.glob("chain-*/samples.json"))
        # After an error of ours the same would happen again; after any other, what was reached is worth keeping.
        if not resumed and (isinstance(error, UnsupError) or not kept):
            checkpoint.remove()
        if not isinstance(error, KeyboardInterrupt):
            raise
        if kept:
            say(f"interrupted; the chains are kept in {beside}. To go on, repeat the command with --resume")
        else:
            say("interrupted before the first sweep; nothing was kept")
        raise typer.Exit(INTERRUPTED) from None
    found.config |= remembered
    with stopping(lambda: None):  # the work is done: one Ctrl-C is not enough to lose it now
        found.save(sampling.target, sampling.overwrite)
        checkpoint.remove()
    say(_summary(found))
    say(f"saved in {sampling.out}; see it with: pyro-unsup show {sampling.out}")


def _summary(samples: Samples) -> str:
    chains, draws, _ = samples.labels.shape
    rates = ", ".join(f"{name} {100 * rate.mean():.0f} %" for name, rate in samples.rates.items())
    many = f"{chains} chain{'s' if chains > 1 else ''} of {samples.config['sweeps']:,} sweeps"
    return f"{many}, {draws:,} kept; best log joint {samples.best_log_joint.max():,.1f}; accepted: {rates}"

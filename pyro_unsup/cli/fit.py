"""What training is for every kind of model: its options, where it may write, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import DivergenceError, FitError, SplitError, UnsupError
from .beliefs import Beliefs
from .common import INTERRUPTED, MAX_SEED, folder_of, say
from .engines import Algorithm, finite, noisy, said, spelt
from .options import OUTPUT, TRAINING

if TYPE_CHECKING:
    from ..infer import Initial
    from ..infer.estimation import Estimate
    from ..results import Fit
    from .beliefs import Templates


@dataclass(frozen=True, kw_only=True)
class Training:
    """The options of every ``fit`` that say how long to train, from where, and into what."""

    smooth: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="LAMBDA",
            help="Add this to every expected count; 0 is plain EM.",
            show_default="0; for ccm 2, and 8 for what is no constituent",
            rich_help_panel=TRAINING,
        ),
    ] = None
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations",
            "--passes",
            metavar="N",
            min=0,
            help="The most to make; with --stepwise, passes over the text.",
            show_default="100; with --anneal 10000, --stepwise 20, --gradient 300",
            rich_help_panel=TRAINING,
        ),
    ] = None
    tolerance: Annotated[
        float,
        typer.Option(
            metavar="X",
            min=0,
            help="Stop when the objective's relative change is this small.",
            rich_help_panel=TRAINING,
        ),
    ] = 1e-6
    noise: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            min=0,
            help="How far starts lie from the even one, at random.",
            show_default="tagger 1, or 0.001 with --anneal; clusterer 0.001; others 0",
            rich_help_panel=TRAINING,
        ),
    ] = None
    restarts: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="How many starts to try; the best objective wins.", rich_help_panel=TRAINING
        ),
    ] = 1
    processes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="How many of them at a time.",
            show_default="as many as cores",
            rich_help_panel=TRAINING,
        ),
    ] = None
    seed: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=MAX_SEED,
            help="Same seed, same result; restarts count up from it.",
            rich_help_panel=TRAINING,
        ),
    ] = 0
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on from DIR.checkpoint of an interrupted run.", rich_help_panel=TRAINING),
    ] = False
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="DIR", help="The new folder for the model.", rich_help_panel=OUTPUT)
    ]
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a model that is in DIR.", rich_help_panel=OUTPUT)
    ] = False

    @property
    def target(self) -> Path:
        """The folder for the model."""
        return folder_of(self.out)

    def check(self) -> None:
        """Refuse what cannot end well, before anything is read."""
        from ..results.storage import may_write
        from .training import Checkpoint

        may_write(self.target, self.overwrite)
        Checkpoint.may_start(Checkpoint.beside(self.target), self.resume, self.overwrite)
        for name in ("tolerance", "smooth", "noise"):
            finite(name, getattr(self, name))


@dataclass(frozen=True)
class Task:
    """What a kind of model brings to its training.

    :param kind: its name.
    :param data: what the engine is given; of a stream, a :class:`.Reading`.
    :param tokens: how many words (or symbols) those are; 0 if that is not known.
    :param options: what else makes a run the same run, by option.
    :param checksums: the same of what has no short name, such as the text.
    :param remembered: settings that predictions will need.
    :param start: where training starts; None where states are interchangeable, and only noise can tell them apart.
    :param noise: on that start, if the options do not tell; None leaves it to the engine.
    :param estimate: how counts become weights, if ``--smooth`` does not say it all.
    :param templates: makes those of the features that tables may have; others have one for each of their cells.
    :param betas: where the schedule of annealing starts, and its factor.
    :param toward: what skewed annealing starts from.
    """

    kind: str
    model: Callable[..., Any]
    data: Any
    tokens: int
    options: dict[str, Any]
    checksums: dict[str, str]
    remembered: dict[str, Any] = field(default_factory=dict)
    start: Initial | None = None
    estimate: Estimate | None = None
    templates: Callable[[], Templates] = list
    noise: float | None = None
    betas: tuple[float, float] = (1e-4, 1.2)
    toward: str | None = None


def learn(task: Task, training: Training, algorithm: Algorithm, beliefs: Beliefs) -> None:
    """Train a model and save it. An interrupt leaves a checkpoint, and nothing else."""
    from ..estimate import AddLambda, Normalise
    from ..infer.processes import LostProcess, by_first
    from .streams import Reading, follow
    from .training import Checkpoint, Interrupted, stopping, train

    noise = task.noise if training.noise is None else training.noise
    start = task.start if noise is None else noisy(task.start, noise)
    if training.restarts > 1 and task.start is not None and not noise and not algorithm.stepwise:
        raise UnsupError(f"--restarts {training.restarts} would all start at the same place; give --noise 0.1 to set "
                         "them apart, or leave it out")  # fmt: skip
    usual = task.estimate or (AddLambda(training.smooth) if training.smooth else Normalise())
    estimate = beliefs.estimate(task.templates, fit_start=start is not None) or usual
    with said():
        engine = beliefs.engine(task.kind, task.model, estimate, start) or algorithm.engine(
            task.model, estimate, start, task.betas, task.start is None, task.toward
        )
    iterations = engine.ITERATIONS if training.iterations is None else training.iterations
    beside = Checkpoint.beside(training.target)
    checkpoint = Checkpoint(beside, _identity(task, training, algorithm, beliefs))
    resumed = by_first(lambda: checkpoint.open(training.resume))
    if resumed:
        say(f"going on from {beside}")
    elif training.resume:
        say(f"{beside} is not there: starting from the beginning")
    try:
        if isinstance(task.data, Reading):
            found = follow(engine, task.data, checkpoint, training.seed)
        else:
            found = train(
                engine,
                task.data,
                task.tokens,
                checkpoint,
                iterations=iterations,
                tolerance=training.tolerance,
                restarts=training.restarts,
                processes=training.processes,
                seed=training.seed,
            )
    except Interrupted as stop:
        if checkpoint.reached:
            again = f"repeat the command with --resume{stop.needed}"
            say(f"interrupted; what was learned is kept in {beside}. To go on, {again}")
        else:
            checkpoint.remove()
            say("interrupted before the first iteration; nothing was kept")
        raise typer.Exit(INTERRUPTED) from None
    except BaseException as error:
        # After an error of ours the same would happen again, unless a stream goes on elsewhere; after any other, what
        # was reached is worth keeping.
        lost = isinstance(error, LostProcess)
        again_so = isinstance(error, UnsupError) and not (lost or isinstance(task.data, Reading))
        if not resumed and (again_so or not checkpoint.reached):
            checkpoint.remove()
        elif lost or isinstance(task.data, Reading):
            say(f"what was learned before is kept in {beside}; --resume goes on from it")
        if isinstance(error, FitError) and (advice := _advice(error, training, beliefs)):
            raise FitError(f"{error}. On the command line, {advice}") from error
        raise
    found.config |= task.remembered | ({"viterbi": True} if algorithm.viterbi else {})
    with stopping(lambda: None):  # the work is done: one Ctrl-C is not enough to lose it now
        by_first(lambda: found.save(training.target, training.overwrite))
        checkpoint.remove()
    say(str(found.report))
    _warn(found)
    beliefs.say_fallbacks(found, len(task.data) if beliefs.know else 0)
    say(f"saved in {training.out}; see it with: pyro-unsup show {training.out}")


def _warn(found: Fit) -> None:
    schedule, beta = found.config.get("schedule"), found.rows[-1].get("beta")
    if isinstance(schedule, list) and beta is not None and beta < schedule[-1]:
        say(f"warning: annealing ended at beta = {beta:g}, before 1, where likelihood is maximised; give it more "
            "--iterations, or a larger --beta-factor")  # fmt: skip


def _advice(error: FitError, training: Training, beliefs: Beliefs) -> str | None:
    from ..infer.processes import LostProcess

    if isinstance(error, LostProcess | SplitError):
        return None
    if any(isinstance(one, DivergenceError) for one in _causes(error)):
        return "kappa is the number after --features"
    return None if beliefs.weighing or training.smooth else "--smooth 0.1 often helps"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that it was raised for: engines name the iteration, and raise an error of their own."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _identity(task: Task, training: Training, algorithm: Algorithm, beliefs: Beliefs) -> dict[str, Any]:
    """What makes a run the same run."""
    shared = {name: getattr(training, name) for name in ("smooth", "noise", "seed")}
    how = {one.name: getattr(group, one.name) for group in (algorithm, beliefs) for one in fields(group)}
    options = {spelt(name): value for name, value in (shared | how).items()}
    return {"model": task.kind, **task.options, **options, **task.checksums}

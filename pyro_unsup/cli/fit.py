"""``pyro-unsup fit``: from a file to a saved model."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from ..errors import DivergenceError, FitError, InputError, SplitError, UnsupError
from ..infer.init import from_weights
from ..infer.processes import LostProcess, by_first
from ..results import Reason, load
from ..results.fit import SHARES
from ..results.storage import may_write
from ..tasks.option import Given
from ..tasks.shared_options import BATCH_SIZE
from ..tasks.shown import printable
from ..tasks.task import Task
from ..tasks.texts import finite, say
from ..tasks.values import Plan
from .common import INTERRUPTED, folder_of
from .engines import check, engine_of, weighing
from .streams import Reading, check_stream, follow
from .training import Checkpoint, Interrupted, digest, finishing, train

if TYPE_CHECKING:
    from ..results import Fit


def fit(task: Task, given: Given) -> None:
    """Train a model and save it. An interrupt leaves a checkpoint, and nothing else."""
    target = folder_of(given.out)
    may_write(target, given.overwrite)
    Checkpoint.may_start(Checkpoint.beside(target), given.resume, given.overwrite)
    for name in ("tolerance", "smooth", "noise"):
        finite(name, getattr(given, name))
    given, recipe = task.recommended(given)
    if given.tolerance is None:
        given.tolerance = task.recipe.tolerance
    check(task, given)
    if not task.streams:
        given.vocab_from = None
    if given.vocab_from is not None:
        check_stream(task, given)
    task.check(given)
    data, model, tokens, checksums = _read(task, given)
    plan = task.plan(model, data, given)
    if recipe is not None and recipe.iterations is not None:
        plan = replace(plan, max_iterations=recipe.iterations)
    if given.from_model is not None:
        plan = _further(plan, model, given)
    engine = engine_of(task, model, plan, given)
    if recipe is not None:
        say(f"training by {recipe.words}, as recommended for this model; --algorithm em is plain EM")
    usual = engine.ITERATIONS if plan.max_iterations is None else plan.max_iterations
    iterations = usual if given.max_iterations is None else given.max_iterations
    beside = Checkpoint.beside(target)
    checkpoint = Checkpoint(beside, _identity(task, model, checksums, given))
    resumed = by_first(lambda: checkpoint.open(given.resume))
    if resumed:
        say(f"going on from {beside}")
    elif given.resume:
        say(f"{beside} is not there: starting from the beginning")
    try:
        if isinstance(data, Reading):
            found = follow(engine, data, checkpoint, given.seed)
        else:
            found = train(
                engine,
                data,
                tokens,
                checkpoint,
                iterations=iterations,
                tolerance=given.tolerance,
                restarts=given.restarts,
                probe=given.probe,
                processes=given.jobs,
                seed=given.seed,
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
        again_so = isinstance(error, UnsupError) and not (lost or isinstance(data, Reading))
        if not resumed and (again_so or not checkpoint.reached):
            checkpoint.remove()
        elif lost or isinstance(data, Reading):
            say(f"what was learned before is kept in {beside}; --resume goes on from it")
        if isinstance(error, FitError) and (advice := _advice(error, task, given)):
            raise FitError(f"{error}. On the command line, {advice}") from error
        raise
    for one in (found, *found.runs):
        one.config |= task.remembered(given) | ({"viterbi": True} if given.viterbi else {})
    with finishing():
        by_first(lambda: found.save(target, given.overwrite, runs=not given.best_only))
        checkpoint.remove()
        say(str(found.report))
        if found.runs and not given.best_only and "predict" in task.commands:
            several = f"all {len(found.runs)} runs are saved"
            say(f"{several}; what they agree on: pyro-unsup predict {given.out} FILE --consensus")
        for line in _remarks(task, found, data, given.max_iterations is not None or plan.max_iterations is None, given):
            say(line)
        say(
            f"saved in {given.out}; see it with: pyro-unsup show {given.out}, or in a browser: "
            f"pyro-unsup report {given.out} --data FILE --out report.html"
        )


def _read(task: Task, given: Given) -> tuple[Any, Any, int, dict[str, str]]:
    """Data, model, number of tokens (0 if unknown), and checksums of the data."""
    if given.vocab_from is None:
        data, model, size = task.prepare(given.file, given)
        say(f"{printable(given.file)}: {size}; {model!r}")
        return data, model, task.tokens(data), {"text": digest(*task.same_data(data))}
    sized = copy(given)
    sized.batch_size = given.batch_size or BATCH_SIZE
    stream = task.stream(sized)
    say(f"{printable(given.vocab_from)}: {stream.model!r}")
    return Reading(given.file, iter(stream.batches)), stream.model, 0, {"vocabulary": digest(*stream.known)}


def _further(plan: Plan, model: Any, given: Given) -> Plan:
    """Start from the weights of a saved model. It must have the same tables and words."""
    saved = load(given.from_model).unhandled()
    before, now = repr(saved.model), repr(model)
    same_words = before != now or all(
        list(getattr(saved.model, name)) == list(getattr(model, name))
        for name in ("vocab", "source", "target", "tags")
        if hasattr(getattr(model, name, None), "__iter__")
    )
    if before != now or not same_words:
        made = f"make {now:.200}" if same_words else "make such a model with other words"
        raise InputError(
            f"holds {before:.200}, but this text and these options {made}: --from needs the same text and options as "
            "before",
            given.from_model,
        )
    features = {table: (names, saved.memory[key]) for key, names in saved.features.items() for table in names.tables}
    return replace(plan, start=from_weights(saved), noise=0.0, features=features)


def _identity(task: Task, model: Any, checksums: dict[str, str], given: Given) -> dict[str, Any]:
    """What makes a run the same run."""
    own = {name: digest(*parts) for name, parts in task.same_model(model).items()}
    return {"model": task.name, **task.same_options(given), **checksums, **own}


def _remarks(task: Task, found: Fit, data: Any, capped: bool, given: Given) -> Iterator[str]:
    """What a user should know of how training ended.

    :param capped: whether the maximum number of iterations is only a bound, and not the way the model is trained.
    """
    schedule, beta, report = found.config.get("schedule"), found.rows[-1].get("beta"), found.report
    if len(report.restarts) > 1 and len(set(report.restarts)) == 1:
        yield f"warning: all {len(report.restarts)} restarts found the same; give --noise 0.1 to set them apart"
    if isinstance(schedule, list) and beta is not None and beta < schedule[-1]:
        yield f"warning: annealing ended at beta = {beta:g}, before 1, where likelihood is maximised; give it more " \
              "--max-iterations, or a larger --beta-factor"  # fmt: skip
    elif capped and report.reason is Reason.ITERATION_CAP and report.change > given.tolerance > 0:
        yield f"warning: training stopped after {report.iterations} iterations, before it converged: the last " \
              f"relative change was {report.change:.1e}, the tolerance is {given.tolerance:.0e}. To train on, add " \
              f"--from {given.out} to the command, with another --out"  # fmt: skip
    if task.parts is not None and given.constraint and any(found.config["fallbacks"]):
        each = zip(given.constraint, found.config["fallbacks"], strict=True)
        first, *others = (f"{printable(text.partition('=')[0])} in {number:,}" for text, number in each)
        counts = ", ".join([f"{first} of {len(data):,} examples", *others])
        yield f"constraints were ignored where they cannot be satisfied: {counts}"
    if task.parts is not None and given.prefer_share is not None and not all(found.config.get(SHARES, [1.0])):
        yield f"warning: the share of {given.prefer_share:g} is reached without a rule, whose weight is 0: a larger " \
              "--prefer-share has an effect"  # fmt: skip


def _advice(error: FitError, task: Task, given: Given) -> str | None:
    if isinstance(error, LostProcess | SplitError):
        return None
    if any(isinstance(one, DivergenceError) for one in _causes(error)):
        return "kappa is the number after --features"
    if weighing(given) or given.smooth or not task.smoothing_helps:
        return None
    return "--smooth 0.1 often helps"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that it was raised for: engines name the iteration, and raise an error of their own."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__

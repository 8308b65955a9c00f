"""``pyro-unsup sample``: from a file to saved samples of its hidden labels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import typer

from ..errors import UnsupError, an
from ..infer import CollapsedGibbs
from ..infer.sampling import Plan
from ..infer.schedules import Cooling
from ..results.sample_storage import SAMPLES
from ..tasks.option import Given
from ..tasks.shown import printable
from ..tasks.task import Task
from ..tasks.texts import say
from .chains import live
from .common import INTERRUPTED, folder_of
from .engines import said
from .training import Checkpoint, digest, finishing, stopping

if TYPE_CHECKING:
    from ..results.samples import Samples


def sample(task: Task, given: Given) -> None:
    """Sample the labels of data, and save them. An interrupt leaves a checkpoint, and nothing else."""
    if given.sweeps is None:
        given.sweeps = task.sweeps_for(given)
    target = folder_of(given.out)
    beside = Checkpoint.beside(target)
    SAMPLES.may_write(target, given.overwrite)
    Checkpoint.may_start(beside, given.resume, given.overwrite)
    _check(task, given)
    task.check(given)
    data, model, size = task.prepare(given.file, given, sampled=True)
    say(f"{printable(given.file)}: {size}; {model!r}")
    kernel = task.sampler(model, given) if task.own_sampler else _kernel(model, given)
    checksums = {name: digest(*parts) for name, parts in task.same_model(model).items()}
    identity = {**task.same_options(given, "sample"), "text": digest(*task.same_data(data)), **checksums}
    checkpoint = Checkpoint(beside, {"model": f"samples of {an(task.name)}", **identity})
    resumed = checkpoint.open(given.resume)
    if resumed:
        say(f"going on from {beside}")
    elif given.resume:
        say(f"{beside} is not there: starting from the beginning")
    initial = task.initial(model, data, given)
    plan = {name: getattr(given, name) for name in ("sweeps", "burn_in", "thin", "chains", "seed")}
    try:
        with live(given.sweeps) as chains, stopping(chains.stop):
            found = kernel.run(
                data,
                **plan,
                initial=initial,
                callbacks=[chains.note],
                progress=False,
                checkpoint=beside,
                resume=resumed,
            )
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
    found.config |= task.remembered(given)
    with finishing():
        found.save(target, given.overwrite)
        checkpoint.remove()
        say(_summary(found))
        say(f"saved in {given.out}; see it with: pyro-unsup show {given.out}")


def _check(task: Task, given: Given) -> None:
    """Refuse what cannot end well, before anything is read."""
    Plan(given.sweeps, given.sweeps // 2 if given.burn_in is None else given.burn_in, given.thin)
    if task.own_sampler:
        return
    for name in ("alpha", "beta"):
        if not 0 < getattr(given, name) < math.inf:
            raise UnsupError(f"--{name} must be positive and finite, actual {getattr(given, name):g}")
    if given.blocked and given.uncollapsed:
        raise UnsupError("--blocked and --uncollapsed are two ways to draw; give one of them")
    if given.hyperprior is not None and given.hyper == "fixed":
        raise UnsupError("--hyperprior is of concentrations that are sampled: give --hyper shared or separate too")


def _how(given: Given) -> Any:
    """How labels move."""
    return "blocked" if given.blocked else "uncollapsed" if given.uncollapsed else "pointwise"


def _kernel(model: Any, given: Given) -> CollapsedGibbs:
    """The sampler that the options describe."""
    prior: Any = (given.hyperprior or "gamma").replace("-", "_")
    temperature = Cooling() if given.anneal else 1.0
    with said():
        return CollapsedGibbs(model, given.alpha, given.beta, given.hyper, prior, _how(given), temperature)


def _summary(samples: Samples) -> str:
    chains, draws, _ = samples.labels.shape
    rates = ", ".join(f"{name} {100 * rate.mean():.0f} %" for name, rate in samples.rates.items())
    many = f"{chains} chain{'s' if chains > 1 else ''} of {samples.config['sweeps']:,} sweeps"
    return f"{many}, {draws:,} kept; best log joint {samples.best_log_joint.max():,.1f}; accepted: {rates}"

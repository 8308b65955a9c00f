"""Training on a stream; the vocabulary comes from another text or model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..errors import FitError, InputError, UnsupError
from ..infer import StepwiseEM
from ..results import Reason, load
from ..tasks.option import Given, spelt
from ..tasks.texts import say
from .training import Checkpoint, Interrupted, stopping

if TYPE_CHECKING:
    from ..infer.engine import Engine
    from ..infer.loop import Info
    from ..results import Fit
    from ..tasks.batches import Batches
    from ..tasks.task import Task


def check_stream(task: Task, given: Given) -> None:
    """Refuse options that a stream has no use for."""
    if not given.stepwise:
        raise UnsupError("--vocab-from belongs to --stepwise; add that, or leave it out")
    if given.vocab_from == given.file:
        raise UnsupError("--vocab-from is FILE itself; leave it out, or name another text that has the same words")
    usual = {
        "max_iterations": None,
        "jobs": None,
        "order_seed": None,
        "restarts": 1,
        "tolerance": task.recipe.tolerance,
    }
    usual["from_model"] = None
    asked = [name for name, value in usual.items() if getattr(given, name) != value]
    if asked:
        raise UnsupError(f"{spelt(asked[0])} makes no sense with --vocab-from: a stream is read once; leave it out")


class Reading:
    """Mini-batches as they come. If reading fails or is told to stop, they end: what was learned is not lost.

    :param file: where they come from, for errors.
    :param source: mini-batches, each with the text that it was read from.
    """

    def __init__(self, file: str, source: Batches) -> None:
        self.file, self._source = file, source
        self._waiting = False
        self.lines = 0  #: up to the end of the last mini-batch
        self.stopped = False
        self.error: UnsupError | None = None

    def __iter__(self) -> Reading:
        return self

    def __next__(self) -> Any:
        try:
            self._waiting = True
            if self.stopped:
                raise StopIteration
            block, batch = next(self._source)
        except KeyboardInterrupt:
            raise StopIteration from None
        except UnsupError as error:
            self.error = error
            raise StopIteration from None
        finally:
            self._waiting = False
        self.lines = block.lines[-1][0]
        return batch

    def stop(self) -> None:
        """Stop after the current mini-batch. If none is being learned from, stop at once: the next may never come."""
        self.stopped = True
        if self._waiting:
            raise KeyboardInterrupt


def follow(engine: Engine, reading: Reading, checkpoint: Checkpoint, seed: int) -> Fit:
    """Learn from a stream to its end, with progress on standard error.

    :raises Interrupted: when stopped, with what was learned in the checkpoint folder.
    """
    assert isinstance(engine, StepwiseEM)
    folder, screen = checkpoint.folder / f"seed-{seed}", sys.stderr.isatty()
    old = load(folder, engine.model) if (folder / "fit.json").is_file() else None

    def told(info: Info) -> None:
        if not screen:
            found = f"log-likelihood {info.objective:,.2f} a mini-batch"
            say(f"mini-batch {info.iteration:,}, line {reading.lines:,}: {found}")

    fit = None
    try:
        with stopping(reading.stop):
            fit = engine.run_stream(
                reading, seed=seed, callbacks=[told], progress=screen, checkpoint=folder, resume=old
            )
    except KeyboardInterrupt:  # a second one
        raise Interrupted(" and the text that it has not seen") from None
    except FitError:
        if reading.lines:
            raise
    if fit is not None and (reading.stopped or reading.error is not None):
        fit.report.reason = Reason.CHECKPOINT
        fit.save(folder, overwrite=True)
    if reading.error is not None:
        raise reading.error
    if reading.stopped:
        raise Interrupted(f" and the text after line {reading.lines:,}; without any (< /dev/null) that ends it")
    if fit is None:
        raise InputError("nothing in it to learn from, expected at least one line", reading.file)
    return fit

"""Learning from a text as it comes, by words that are known beforehand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FitError, InputError, UnsupError
from .batches import Batches
from .common import say
from .engines import Algorithm, spelt

if TYPE_CHECKING:
    from ..infer.engine import Engine
    from ..infer.loop import Info
    from ..results import Fit
    from .fit import Training
    from .training import Checkpoint


def check_stream(file: str, vocab_from: str, training: Training, algorithm: Algorithm) -> None:
    """Refuse options that a stream has no use for."""
    if not algorithm.stepwise:
        raise UnsupError("--vocab-from belongs to --stepwise; add that, or leave it out")
    if vocab_from == file:
        raise UnsupError("--vocab-from is FILE itself; leave it out, or name another text that has the same words")
    once = {"iterations": training.iterations, "processes": training.processes, "order_seed": algorithm.order_seed}
    given = [name for name, value in once.items() if value is not None]
    given += [name for name in ("restarts", "tolerance") if getattr(training, name) != getattr(type(training), name)]
    if given:
        raise UnsupError(f"{spelt(given[0])} makes no sense with --vocab-from: a stream is read once; leave it out")


def saved_model(path: str, wanted: type[Any]) -> Any:
    """The model of a folder that ``fit`` wrote; None if the path is something else, such as a text.

    :param wanted: the class of model whose vocabulary is needed.
    """
    from ..results import load

    if not Path(path, "fit.json").is_file():
        return None
    model: Any = load(path).unhandled().model
    if not isinstance(model, wanted):
        raise InputError(
            f"holds a {type(model).__name__}, expected a {wanted.__name__}: --vocab-from takes the vocabulary of such "
            "a model, or of a text",
            path,
        )
    if any(isinstance(getattr(model, name, None), int) for name in ("vocab", "source", "target")):
        raise InputError("this model knows its words by number only, so it cannot read text", path)
    return model


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
        """End, after the mini-batch that is being learned from; at once if none is, for the next may never come."""
        self.stopped = True
        if self._waiting:
            raise KeyboardInterrupt


def follow(engine: Engine, reading: Reading, checkpoint: Checkpoint, seed: int) -> Fit:
    """Learn from a stream to its end, with progress on standard error.

    :raises Interrupted: when stopped, with what was learned in the checkpoint folder.
    """
    from ..infer import StepwiseEM
    from ..results import Reason, load
    from .training import Interrupted, stopping

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

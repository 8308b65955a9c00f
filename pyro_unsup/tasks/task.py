"""The base class of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar

import pyro_unsup as pu

from ..errors import InputError, UnsupError, an
from . import frames
from .option import ALGORITHM, BELIEFS, Given, Option
from .reported import Reported
from .shared_options import options_of, own_command
from .shown import Shown, of_fit, of_samples
from .summaries import Statistic
from .values import Baseline, Command, Plan, Recipe, Score, Stream

if TYPE_CHECKING:
    from torch import Tensor

    from ..results import Fit


class Task(Reported):
    """What a model is for. Subclasses fill in the attributes, and override what is different for them.

    Methods speak of a ``fit`` (or of ``samples``) and its ``model``; of ``data``, or data with ``gold`` structure; of
    what :meth:`decode` found, ``decoded`` (or of sampled ``labels``); and of the options of a command, ``given``.

    The least that a task needs for all commands: ``name``, ``commands``, ``read``, ``build`` and ``lines``.
    ``tests/example_package`` has one in a short file.

    >>> import pyro_unsup as pu
    >>> class Coins(pu.tasks.Task):
    ...     name, examples = "coins", "flips"
    ...     commands = {"show": pu.tasks.Command("Show a mixture of coins.")}
    >>> Coins().size([1, 0, 1])
    '3 flips'
    """

    #: The registered name, and that of its commands.
    name: ClassVar[str] = ""
    #: By command (``fit``, ``predict``, ``evaluate``, ``show``; of samples ``sample``, ``predict_samples``,
    #: ``evaluate_samples``, ``show_samples``), its words and options. A command that is not named here does not exist.
    commands: ClassVar[Mapping[str, Command]] = {}
    #: What the tokens are called, and what the examples.
    unit: ClassVar[str] = "words"
    examples: ClassVar[str] = "sentences"
    #: Of a task that can be sampled, what has labels.
    labelled: ClassVar[str] = "tokens"
    #: Whether :meth:`sampler` makes the sampler, from options of this task's own; and how many sweeps it makes. In
    #: words, where the options decide it.
    own_sampler: ClassVar[bool] = False
    sweeps: ClassVar[int] = 1000
    sweeps_shown: ClassVar[str | None] = None
    #: What happens to unknown tokens, and why all may be unknown.
    unknown: ClassVar[str] = "their neighbours decided"
    all_unknown: ClassVar[str] = "is it the right text, and in the same language?"
    #: The scores, and those that a baseline is judged by: the first that there is.
    scores_known: ClassVar[Sequence[Score]] = ()
    main: ClassVar[Sequence[str]] = ("accuracy",)
    baselines_known: ClassVar[Sequence[Baseline]] = ()
    #: The score that is infinite when the model holds an example impossible.
    likelihood: ClassVar[str] = "loglik_per_example"
    #: What to try when a baseline is better.
    when_worse: ClassVar[str] = "Try --restarts 10, or more text"
    #: The same of samples, if it is something else.
    when_worse_sampled: ClassVar[str | None] = None
    recipe: ClassVar[Recipe] = Recipe()
    #: Whether scores are of the structure that was found, and not of the model alone.
    scores_structure: ClassVar[bool] = True
    #: The class of :mod:`pyro_unsup.distributions.parts` that constraints of this model speak of.
    parts: ClassVar[str | None] = None
    #: Whether its examples have words that constraints can speak of.
    has_words: ClassVar[bool] = True
    #: Whether the parts of its structures are places alone, such as arcs: those of all models are the same then, and
    #: there are no states to match.
    of_places: ClassVar[bool] = False
    #: Examples of constraints, for help.
    constraints: ClassVar[str] = ""
    #: How preferences of this model are written, for help.
    preferences: ClassVar[str] = (
        "Rules are written as those of --constraint. ~ before a rule turns it round; & between two asks for both, | "
        "with white space around it for one of them."
    )
    #: Whether ``--smooth`` can help a model that holds examples impossible.
    smoothing_helps: ClassVar[bool] = True
    #: Whether ``fit`` can read a text that has no end.
    streams: ClassVar[bool] = False
    #: Numbers that sum up data, and hidden structure, for predictive checks (:mod:`.summaries`).
    statistics: ClassVar[Mapping[str, Statistic]] = {}
    structure_statistics: ClassVar[Mapping[str, Statistic]] = {}
    #: Where the function is that decodes, as an entry point.
    decoder: ClassVar[str] = "pyro_unsup.tasks.decoding:decode"

    def options(self, command: str) -> list[Option]:
        """Every option of a command: arguments, this model's own options, and those that all models have.

        :param command: one of ``commands``.

        >>> import pyro_unsup as pu
        >>> [option.flag for option in pu.tasks.find("tagger").options("show")]
        ['--folder', '--words', '--json']
        """
        return options_of(self, command)

    def command(self, name: str) -> Command | None:
        """The words of a command; None if there is none. Whatever can be shown can be reported and compared, too.

        >>> import pyro_unsup as pu
        >>> pu.tasks.find("dmv").command("forecast") is None, pu.tasks.find("dmv").command("report").help[:24]
        (True, 'Write a report of a mode')
        """
        return own_command(self, name)

    # -- training

    def takes_recipe(self, given: Given) -> bool:
        """Whether the options of the recipe suit these others."""
        return True

    def recommended(self, given: Given) -> tuple[Given, Recipe | None]:
        """The options of ``fit`` with those of the recipe, and the recipe, if no option says how to learn."""
        how = [one.name for one in self.options("fit") if one.panel in (ALGORITHM, BELIEFS) or one.name == "smooth"]
        told = any(_told(getattr(given, name)) for name in how if name != "algorithm")
        if told or given.algorithm == "em" or not self.takes_recipe(given) or not self.recipe.options:
            return given, None
        chosen = copy(given)
        for name, value in self.recipe.options.items():
            if not _told(getattr(chosen, name)):  # a tolerance may have been given
                setattr(chosen, name, value)
        return chosen, self.recipe

    def check(self, given: Given) -> None:
        """Refuse options that do not go together, before anything is read."""

    def read(self, file: Any, given: Given) -> Any:
        """The data of a file, with gold structure where the file has it."""
        raise UnsupError(f"the task {self.name} cannot read files: give it a method read(file, given)")

    def build(self, data: Any, given: Given) -> Any:
        """The model for these data."""
        raise UnsupError(f"the task {self.name} cannot build a model: give it a method build(data, given)")

    def handled(self, model: Any, given: Given) -> Any:
        """The model under handlers that options of this task ask for."""
        return model

    def prepare(self, file: str, given: Given, sampled: bool = False) -> tuple[Any, Any, str]:
        """The data of a file, their model, and how much there is, for people.

        :param file: as :meth:`read` takes it.
        :param sampled: whether they are for a sampler.
        """
        data = self.read(file, given)
        return data, self.build(data, given), self.size(data)

    def stream(self, given: Given) -> Stream:
        """The model and the mini-batches of a stream."""
        raise UnsupError(f"the task {self.name} cannot read streams")

    def size(self, data: Any) -> str:
        """How much there is in the data, for people."""
        size = f"{len(data):,} {self.examples}"
        return f"{size}, {data.tokens:,} {self.unit}, {len(data.vocab):,} types" if hasattr(data, "vocab") else size

    def tokens(self, data: Any) -> int:
        """How many tokens there are; 0 if that is not known."""
        return int(getattr(data, "tokens", 0))

    def plan(self, model: Any, data: Any, given: Given) -> Plan:
        """How to train."""
        return Plan()

    def same_data(self, data: Any) -> Sequence[Any]:
        """Arrays and lists of strings that make data the same, for checksums."""
        if hasattr(data, "vocab"):
            return data.words, data.offsets, data.vocab
        return [x.numpy() if hasattr(x, "numpy") else x for x in vars(data).values() if hasattr(x, "shape")]

    def same_model(self, model: Any) -> Mapping[str, Sequence[Any]]:
        """The same of a model, by name, where its options do not say it all."""
        return {}

    def same_options(self, given: Given, command: str = "fit") -> dict[str, Any]:
        """Values of options that make a run of this command the same run."""
        return {one.flag: getattr(given, one.name) for one in self.options(command) if one.makes_another_run}

    def remembered(self, given: Given) -> dict[str, Any]:
        """Settings that predictions need."""
        return {one.name: getattr(given, one.name) for one in self.commands["fit"].options if one.remember}

    # -- what becomes of a fit

    def decode(self, fit: Fit, data: Any, **options: Any) -> Any:
        """The hidden structure of data: ``structure``, ``posterior``, ``log_likelihood`` and perhaps more.

        Structure is found under what the model preferred in training. Log-likelihoods are those of the model alone.
        """
        module, _, name = self.decoder.partition(":")
        function = getattr(import_module(module), name)
        check_options(self.name, options, list(signature(function).parameters)[2:])
        data = self.as_data(fit, data)
        found = function(fit, data, **options)
        if not fit.preferences:
            return found
        alone = function(replace(fit, preferences=()), data, **options)
        return replace(found, log_likelihood=alone.log_likelihood)

    def as_data(self, fit: Fit, data: Any) -> Any:
        """Data as :meth:`decode` and all that comes after it take them, from lists in Python."""
        return data

    def consensus(self, fit: Fit, data: Any, decoded: Sequence[Any]) -> tuple[Tensor, list[Tensor], Any]:
        """The mean of the posterior probabilities of several runs, the structure of each, and all together.

        :param fit: of the first run.
        :param decoded: of each run, the best first.
        """
        from .agreement import mean_posterior  # torch loads when it is first needed

        return mean_posterior(fit.model, decoded)

    def in_common(self, one: Tensor, other: Tensor) -> float:  # (tokens,) both, or as the model's structures lie
        """The share of their structure that two runs have in common.

        :param one: (tokens,) the structure of a run.
        :param other: (tokens,) that of another one.
        """
        return float((one == other).double().mean()) if len(one) else 1.0

    def decoding(self, given: Given) -> dict[str, Any]:
        """The options of :meth:`decode` among those of a command."""
        return {"how": given.how} if hasattr(given, "how") else {}

    def read_new(self, fit: Fit, given: Given) -> Any:
        """The data that are to be decoded, from a file."""
        return self.read(given.file, given)

    def text_of(self, data: Any) -> Any:
        """What of these data is decoded."""
        return data

    def lines(self, fit: Fit, data: Any, decoded: Any, given: Given) -> Iterable[str]:
        """The structure of data, as lines of text."""
        return (" ".join(map(str, row)) if isinstance(row, list) else str(row) for row in decoded.structure.tolist())

    def write(self, fit: Fit, data: Any, decoded: Any, given: Given) -> None:
        """Write the structure of data to the file ``given.out``."""
        with pu.data.files.write_text(given.out) as stream:
            stream.writelines(f"{line}\n" for line in self.lines(fit, data, decoded, given))

    def read_gold(self, fit: Fit, given: Given) -> Any:
        """Data with gold structure, from a file."""
        return self.read_new(fit, given)

    def scores(self, fit: Fit, gold: Any, decoded: Any) -> dict[str, float]:
        """Scores of decoded structure against gold structure.

        Here: ``accuracy``, the share of entries of the structure that are right; ``loglik_per_example``, in nats.

        :param gold: data with an attribute ``structure``, laid out as the decoded structure is.
        """
        found, right = decoded.structure, getattr(gold, "structure", None)
        shape = f"shape {tuple(found.shape)}, as predict() returns it"
        if right is None:
            raise UnsupError(
                f"the gold data have no structure to compare with: expected an attribute 'structure' of {shape}. Or "
                "give the model a task of its own"
            )
        if tuple(right.shape) != tuple(found.shape):
            actual = tuple(right.shape)
            raise UnsupError(f"the gold structure should have {shape}, actual {actual}: score the same data")
        same = [a == b for a, b in zip(right.reshape(-1).tolist(), found.reshape(-1).tolist(), strict=True)]
        accuracy = sum(same) / len(same) if same else 0.0
        return {"accuracy": accuracy, self.likelihood: float(decoded.log_likelihood.mean())}

    def baselines(self, gold: Any) -> dict[str, dict[str, float]]:
        """Scores of trivial structures, by the names in ``baselines_known``."""
        return {}

    def further(self, gold: Any, given: Given) -> dict[str, Any]:
        """More gold data to score, by their names in JSON, such as sentences longer than those of training."""
        return {}

    def sizes(self, fit: Fit, gold: Any, decoded: Any) -> dict[str, Any]:
        """How much was scored, for JSON."""
        return {"tokens": self.tokens(gold), "unknown_tokens": getattr(decoded, "unseen", 0)}

    def part_scored(self, gold: Any) -> str:
        """Which part of data was scored, in numbers, where gold structure is there for a part only; else empty."""
        return ""

    def remarks(self, fit: Fit, gold: Any, decoded: Any, given: Given) -> Iterable[str]:
        """What else there is to say about scores, a line each."""
        return ()

    def unseen(self, data: Any, decoded: Any) -> tuple[int, int, str]:
        """Tokens that the model does not know, all tokens, and what to say of the first."""
        unseen, tokens = getattr(decoded, "unseen", 0), self.tokens(data)
        return unseen, tokens, f"{unseen:,} of {tokens:,} {self.unit} are unknown to the model: {self.unknown}"

    def impossible(self, fit: Fit, unseen: int) -> str:
        """What to try when the model holds examples impossible, for this fit and text; empty if nothing helps."""
        smoothed = fit.features or not all(isinstance(one, pu.Normalise) for one in fit.estimators.values())
        advice = ["--min-count 2"] if unseen and fit.config.get("min_count") == 1 else []
        advice += ["--smooth 0.1"] if self.smoothing_helps and not smoothed else []
        return f"train with {' '.join(advice)} for text like this" if advice else ""

    def forecast(self, fit: Fit, data: Any, given: Given) -> Iterable[str]:
        """What comes after the end of the data, as lines of text."""
        raise UnsupError(f"the task {self.name} forecasts nothing")

    def show(self, fit: Fit, *args: Any, **options: Any) -> Shown:
        """What the model has learned."""
        return Shown()

    def page(self, fit: Fit, **options: Any) -> Shown:
        """All that ``show`` shows of a fit."""
        return of_fit(fit, self.show(fit, **options))

    def frame(self, fit: Fit, data: Any, decoded: Any) -> dict[str, Any]:
        """Decoded structure as a table: columns by their names, for :meth:`.Fit.to_frame`.

        Here: a row an entry of the structure, with its posterior probability where each entry is one of some states.
        """
        found = decoded.structure
        if found.dim() == 1 and decoded.posterior.marginals.dim() == 2:
            chosen, probability = frames.states(decoded)
            return {"item": range(len(chosen)), "structure": chosen, "probability": probability}
        return {"item": range(found.numel()), "structure": found.reshape(-1).cpu().numpy()}

    def plot(self, fit: Fit, data: Any, *args: Any, **options: Any) -> Any:
        """A picture of the structure of some data, as matplotlib axes."""
        raise UnsupError(f"the task {self.name} draws nothing")

    # -- labels: of tasks whose structure is one state for each item

    def gold_labels(self, gold: Any) -> Any:
        """The gold label of each item; None for tasks whose structure is something else."""
        return None

    # -- samples

    def sampler(self, model: Any, given: Given) -> Any:
        """The sampler that the options of ``sample`` describe, of a task with ``own_sampler``."""
        raise UnsupError(f"the task {self.name} has no sampler of its own: give it a method sampler(model, given)")

    def initial(self, model: Any, data: Any, given: Given) -> Any:
        """The labels that all chains start from; None if the sampler has its own way to start."""
        return None

    def sweeps_for(self, given: Given) -> int:
        """How many sweeps are made, if the options do not say it."""
        return self.sweeps

    def write_labels(self, samples: Any, data: Any, labels: Any, given: Given) -> None:
        """Write the text that was sampled, with one sampled labelling, to the file ``given.out``."""
        raise UnsupError(f"samples of {an(self.name)} cannot be written as text")

    def read_sampled(self, samples: Any, given: Given) -> Any:
        """The text that was sampled, with gold structure."""
        raise InputError(f"samples of {an(self.name)} cannot be scored", given.file)

    def score_labels(self, samples: Any, gold: Any, labels: Any) -> dict[str, float]:
        """Scores of one sampled labelling."""
        raise UnsupError(f"samples of {an(self.name)} cannot be scored")

    def sizes_of_samples(self, gold: Any) -> dict[str, Any]:
        """How much was scored of a text that was sampled, for JSON."""
        size = {"documents": len(gold)} if self.labelled == "documents" else {"tokens": self.tokens(gold)}
        return {**({self.examples: len(gold)} if self.examples == "lines" else {}), **size}

    def show_samples(self, samples: Any, *args: Any, **options: Any) -> Shown:
        """What the best sampled labelling says."""
        return Shown()

    def page_of_samples(self, samples: Any, **options: Any) -> Shown:
        """All that ``show`` shows of samples."""
        return of_samples(samples, self.labelled, self.show_samples(samples, **options))


def check_options(task: str, options: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse options of decoding that a task does not have."""
    if wrong := sorted(options.keys() - set(known)):
        raise UnsupError(f"{task} has no option {', '.join(wrong)} of decoding; there are {', '.join(known) or 'none'}")


def _told(value: Any) -> bool:
    """Whether an option was given. 0 is a value."""
    return value is not None and value is not False

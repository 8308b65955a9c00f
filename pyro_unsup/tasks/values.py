"""The small values that tasks are described by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .option import Option

if TYPE_CHECKING:
    from torch import Tensor

    from ..estimate import FeatureNames
    from ..infer import Initial
    from ..infer.estimation import Estimate


@dataclass(frozen=True)
class Score:
    """A score against gold structure.

    :param name: as :meth:`.Fit.evaluate` returns it.
    :param meaning: what it says, in a few words.
    :param unit: ``"%"`` for shares of 1, ``"bits"``, or a format such as ``".3f"``.
    :param lower_is_better: of errors and the like.

    >>> import pyro_unsup as pu
    >>> pu.tasks.Score("aer", "alignment error rate", lower_is_better=True).show(0.2512)
    '25.1 %'
    """

    name: str
    meaning: str = ""
    unit: str = "%"
    lower_is_better: bool = False

    def show(self, value: float) -> str:
        """The value for people."""
        if self.unit == "%":
            return f"{100 * value:.1f} %"
        return f"{value:.3f} bits" if self.unit == "bits" else format(value, self.unit)


@dataclass(frozen=True)
class Baseline:
    """What a score is compared with.

    :param name: in JSON.
    :param meaning: what it does, as a sentence without its full stop.
    :param trivial: False for an upper bound: nothing is wrong with a model that is worse.

    >>> import pyro_unsup as pu
    >>> [one.name for one in pu.tasks.find("dmv").baselines_known]
    ['chain_to_next', 'chain_to_previous']
    """

    name: str
    meaning: str
    trivial: bool = True


@dataclass(frozen=True)
class Command:
    """The words of a command, and the options that this model alone has.

    :param help: the first line says what the command does; more lines may follow.
    :param file: what FILE is.
    :param options: besides those that all models have.

    >>> import pyro_unsup as pu
    >>> pu.tasks.find("aligner").commands["predict"].help
    'Align pairs of sentences, and write the links between their words.'
    """

    help: str
    file: str = ""
    options: Sequence[Option] = ()


@dataclass(frozen=True)
class Recipe:
    """How a model is trained if no option says otherwise. Help tells these values.

    :param noise: how far a start lies from the even one; None where the engine decides.
    :param noise_shown: the same in words.
    :param smooth: in words, what is added to expected counts.
    :param max_iterations: in words, of plain EM.
    :param tolerance: the relative change of the objective that ends plain EM.
    :param betas: the first beta of annealing, and the factor by which it grows.
    :param options: of ``fit``, that are taken if no option says how to learn. They are what our own tables show best
        without labels. They cost about four times as much as plain EM for clusterers, and five times for taggers.
    :param iterations: for these options; None for those of the engine.
    :param words: the same for people.

    >>> import pyro_unsup as pu
    >>> pu.tasks.find("clusterer").recipe.options
    {'anneal': True, 'beta_start': 0.02, 'beta_factor': 2.0, 'tolerance': 1e-05}
    """

    noise: float | None = None
    noise_shown: str = "0"
    smooth: str = "0"
    max_iterations: str = "100"
    tolerance: float = 1e-6
    betas: tuple[float, float] = (1e-4, 1.2)
    options: Mapping[str, Any] = field(default_factory=dict)
    iterations: int | None = None
    words: str = "plain EM"


@dataclass(frozen=True)
class Plan:
    """How one run is trained: what depends on the model, the text and the options.

    :param start: where training starts; None where states are interchangeable, and only noise can tell them apart.
    :param noise: on that start; None for that of the recipe.
    :param estimate: how counts become weights, if ``--smooth`` does not say it all.
    :param templates: makes the templates of the features that tables may have; others have a feature for each cell.
    :param features: by table, the names and weights of features to start with (``LogLinear(begin_with=...)``).
    :param toward: what skewed annealing starts from.
    :param max_iterations: None for those of the engine.
    :param by_seed: whether the start is random by itself, so that every restart has its own.

    >>> import pyro_unsup as pu
    >>> pu.tasks.Plan(pu.init.uniform(), max_iterations=5).noise is None
    True
    """

    start: Initial | None = None
    noise: float | None = None
    estimate: Estimate | None = None
    templates: Callable[[], Any] = list
    features: Mapping[str, tuple[FeatureNames, Tensor]] = field(default_factory=dict)
    toward: str | None = None
    max_iterations: int | None = None
    by_seed: bool = False


@dataclass(frozen=True)
class Stream:
    """A text that is read once, as it comes.

    :param model: by a vocabulary that is known beforehand.
    :param batches: mini-batches, each with the block of text that it was read from.
    :param known: what makes the vocabulary the same one, for checksums.
    """

    model: Any
    batches: Iterable[tuple[Any, Any]]
    known: Sequence[Any] = field(default_factory=list)

"""What is believed beforehand: priors and features of tables, and knowledge of hidden structure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UnsupError
from .common import printable, say
from .engines import Algorithm, finite, spelt
from .knowledge import component_of
from .options import BELIEFS

if TYPE_CHECKING:
    from ..estimate import Template
    from ..handlers.parts import Component
    from ..infer import Initial
    from ..infer.engine import Engine
    from ..infer.estimation import Estimate
    from ..infer.schedules import Loosen
    from ..results import Fit
    from .fit import Training

    #: For all tables together, or by table: each then has weights of its own.
    Templates = list[Template] | Mapping[str, list[Template]]

FITTED = "fitted"


@dataclass(frozen=True, kw_only=True)
class Beliefs:
    """What to believe before any text is seen."""

    vb: Annotated[
        str | None,
        typer.Option(
            metavar="ALPHA",
            help="Variational Bayes: tables have Dirichlet priors of this concentration; `fitted` learns it, a table "
            "at a time.",
            rich_help_panel=BELIEFS,
        ),
    ] = None
    logistic_normal: Annotated[
        bool,
        typer.Option(
            "--logistic-normal",
            help="Variational Bayes: tables have logistic-normal priors, with the start for their mean.",
            rich_help_panel=BELIEFS,
        ),
    ] = False
    features: Annotated[
        float | None,
        typer.Option(
            metavar="KAPPA",
            min=0,
            help="Tables are made of features with weights: what words look like, which tags are nouns, and so on. "
            "KAPPA, such as 1, keeps weights small.",
            rich_help_panel=BELIEFS,
        ),
    ] = None
    gradient: Annotated[
        bool,
        typer.Option(
            "--gradient", help="With --features: climb the likelihood itself, not by EM.", rich_help_panel=BELIEFS
        ),
    ] = False
    know: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=VALUES]",
            help="What is known of the hidden structure; may be repeated. dmv and dmv-ccm: right-attach, all-right, "
            "left-chain, verb-as-root=VB,VBD, noun-sequence=NN, short-dependencies=4. ccm: fragments=CC. tagger: "
            "word-tags=the:DT,dog:NN|VB. segmenter: spelled-with=aeiou. aligner: near-diagonal=0.2. clusterer: "
            "seeds=0:space|orbit,1:hockey. A backslash before , : and | takes their meaning away.",
            rich_help_panel=BELIEFS,
        ),
    ] = None
    free: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE[:SHARE]",
            help="With --know: how much of the posterior need not keep to it, in the first iteration and at last, 0.01 "
            "more in each.",
            show_default="0.85:0.95",
            rich_help_panel=BELIEFS,
        ),
    ] = None
    evenly: Annotated[
        bool,
        typer.Option(
            "--evenly",
            help="With --know: everything that is known has the same share, not the likeliest all of it.",
            rich_help_panel=BELIEFS,
        ),
    ] = False

    @property
    def weighing(self) -> list[str]:
        """Those that say how counts become weights."""
        given = {"vb": self.vb is not None, "logistic_normal": self.logistic_normal}
        given["features"] = self.features is not None
        return [name for name, asked in given.items() if asked]

    def check(self, kind: str, training: Training, algorithm: Algorithm, **smoothing: float | None) -> None:
        """Refuse options that do not go together, and what cannot be read.

        :param kind: of model.
        :param smoothing: what a kind of model has besides ``--smooth``, as it was given.
        """
        smooth = {"smooth": training.smooth, **smoothing}
        smoothed = [name for name, amount in smooth.items() if amount is not None]
        _one_of(self.weighing, smoothed, "to make weights of counts")
        finite("features", self.features)
        _alpha(self.vb)
        for name, given, needed, there in (
            ("gradient", self.gradient, "features", self.features is not None),
            ("free", self.free is not None, "know", self.know),
            ("evenly", self.evenly, "know", self.know),
        ):
            if given and not there:
                raise UnsupError(f"{spelt(name)} belongs to {spelt(needed)}; add that, or leave it out")
        engines = [name for name in ("know", "gradient") if getattr(self, name)]
        others = [name for name in ("anneal", "stepwise", "viterbi") if getattr(algorithm, name)]
        _one_of(engines, others, "to learn")
        self.components(kind)
        self.polytope()

    def components(self, kind: str, model: Any = None) -> list[Component]:
        """What is known.

        :param model: to look its labels up; without it, they are not looked up.
        """
        return [component_of(text, kind, model) for text in self.know or ()]

    def polytope(self) -> Loosen:
        """How much of the posterior is free."""
        from ..infer.schedules import Loosen, fixed

        if self.free is None:
            return Loosen(even=self.evenly)
        first, two, last = self.free.partition(":")
        try:
            return Loosen(float(first), float(last), even=self.evenly) if two else fixed(float(first), self.evenly)
        except ValueError:
            raise UnsupError(
                f"--free is a share between 0 and 1, or two of which the second is no less, such as 0.85:0.95, actual "
                f"{self.free!r:.40}"
            ) from None

    def estimate(self, templates: Callable[[], Templates], fit_start: bool) -> Estimate | None:
        """How counts become weights; None if these options do not say.

        :param fit_start: begin with features that come close to the start; if not, with weights at random.
        """
        from ..estimate import DirichletVB, EmpiricalDirichlet, LogisticNormal, LogLinear

        if self.vb is not None:
            return EmpiricalDirichlet() if self.vb == FITTED else DirichletVB(_alpha(self.vb))
        if self.logistic_normal:
            return LogisticNormal()
        if self.features is None:
            return None
        found, kappa = templates(), self.features
        if isinstance(found, Mapping):
            return {table: LogLinear(own, kappa, fit_start=fit_start) for table, own in found.items()}
        return LogLinear(found, kappa, fit_start=fit_start)

    def engine(self, kind: str, model: Any, estimate: Estimate, start: Initial | None) -> Engine | None:
        """The engine that these options ask for; None if they ask for none."""
        from ..infer import Gradient, MixtureEM

        if self.gradient:
            return Gradient(model, estimate, start)
        if not self.know:
            return None
        return MixtureEM(model, self.components(kind, model), estimate, start, polytope=self.polytope())

    def say_fallbacks(self, found: Fit, examples: int) -> None:
        """Tell where nothing was left of what is known."""
        if self.know:
            each = zip(self.know, found.config["fallbacks"], strict=True)
            first, *others = (f"{printable(text.partition('=')[0])} in {number:,}" for text, number in each)
            counts = ", ".join([f"{first} of {examples:,} examples", *others])
            say(f"where nothing is left of what is known, it did not count: {counts}")


def _one_of(own: list[str], others: list[str], what: str) -> None:
    if own and len(own) + len(others) > 1:
        one, other, *_ = map(spelt, [*own, *others])
        raise UnsupError(f"{one} and {other} are two ways {what}; give one of them")


def _alpha(given: str | None) -> float | None:
    try:
        alpha = None if given in (None, FITTED) else float(given)
    except ValueError:
        alpha = math.nan
    if alpha is not None and not 0 < alpha < math.inf:
        raise UnsupError(f"--vb is a positive number or '{FITTED}', actual {given!r:.40}")
    return alpha

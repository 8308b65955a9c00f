"""What a task tells a report, with defaults that suit any model: :class:`.Task` is the class to derive from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import pyro_unsup as pu

from ..errors import InputError, UnsupError
from .values import Baseline, Score

if TYPE_CHECKING:
    from ..evaluate import Confusion
    from ..report.values import Example, Kinds, Picture
    from ..results import Fit

#: Examples that a report draws, the most tokens of one that is taken if there are others, and the seed of the choice.
EXAMPLES, LONG, SEED = 20, 25, 0
#: Kinds of errors that are listed, and labels that are told of one item.
KINDS, LIKELY = 12, 3


class Reported:
    """What :meth:`.Fit.report_html` asks of a task. ``data`` here are as the model of the ``fit`` takes them."""

    #: What the model is, in a sentence or two.
    about: ClassVar[str] = ""
    #: What the colours of examples say, without gold and with it.
    colours: ClassVar[str] = "The darker, the surer the model is."
    colours_gold: ClassVar[str] = "What is wrong is red."
    scores_known: ClassVar[Sequence[Score]]
    baselines_known: ClassVar[Sequence[Baseline]]
    main: ClassVar[Sequence[str]]
    when_worse: ClassVar[str]
    when_worse_sampled: ClassVar[str | None]
    examples: ClassVar[str]

    # -- scores

    def score_named(self, name: str) -> Score:
        """How a score is shown; those that are not described are shown as numbers."""
        return next((one for one in self.scores_known if one.name == name), Score(name, unit=".4g"))

    def main_score(self, found: Mapping[str, float]) -> Score | None:
        """The score that baselines are judged by: the first of ``main`` among those that were ``found``."""
        known = {one.name: one for one in self.scores_known}
        return next((known[name] for name in self.main if name in found and name in known), None)

    def beaten(
        self, found: Mapping[str, float], beside: Mapping[str, Mapping[str, float]], sampled: bool = False
    ) -> str | None:
        """A sentence that says which trivial baseline is better than the model, and what to try; None if none is.

        :param found: the scores of the model.
        :param beside: by baseline, its scores.
        :param sampled: whether the scores are of samples, which another command makes, with other options.
        """
        main = self.main_score(found)
        if main is None:
            return None
        sign = -1 if main.lower_is_better else 1
        trivial = {one: beside[one.name][main.name] for one in self.baselines_known
                   if one.trivial and main.name in beside.get(one.name, {})}  # fmt: skip
        best = max(trivial, key=lambda one: sign * trivial[one], default=None)
        if best is None or not sign * trivial[best] > sign * found[main.name]:
            return None
        ours, theirs = main.show(found[main.name]), main.show(trivial[best])
        advice = self.when_worse if not sampled or self.when_worse_sampled is None else self.when_worse_sampled
        return (
            f"a trivial baseline is better: if {best.meaning}, {main.name} is {theirs}; the model has {ours}. {advice}"
        )

    # -- data

    def taken(self, fit: Fit, data: Any) -> Any:
        """The data in the form that the other methods take; here as they are."""
        return data

    def has_gold(self, data: Any) -> bool:
        """Whether there is gold structure in data."""
        return getattr(data, "structure", None) is not None

    def by_example(self, fit: Fit, gold: Any, decoded: Any) -> Any:  # (examples,)
        """How good the structure of each example is, higher is better, for sign tests; None if that is not known.

        Here: whether it is right, of tasks whose structure is one state for each example.
        """
        right, found = _labels_of(self, gold), decoded.structure
        if right is None or len(right) != len(gold) or found.dim() != 1:
            return None
        mapping = pu.evaluate.relabel(right, found)
        return (mapping[found.numpy()] == np.asarray(right)).astype(np.int64)

    #: Who wins an example in a sign test: the model that ...
    won_by: ClassVar[str] = "has more of it right"

    def check_comparable(self, fits: Mapping[str, Fit]) -> None:
        """Refuse models whose scores cannot be compared.

        :param fits: by the name of a model.
        """

    # -- parts of the page

    def learned(self, fit: Fit) -> Sequence[Picture]:
        """Pictures of what the model learned, besides what :meth:`.Task.show` shows."""
        return ()

    def confused(self, fit: Fit, gold: Any, decoded: Any) -> Confusion | None:
        """Gold labels against states; None for tasks whose structure is something else."""
        right, found = _labels_of(self, gold), getattr(decoded, "structure", None)
        if right is None or found is None or found.dim() != 1:
            return None
        names = getattr(gold, "tagset", None) or getattr(gold, "labelset", None)
        own = state_names(fit, found)
        return pu.evaluate.confusion(right, found, None if names is None else list(names), own)

    def mistakes(self, fit: Fit, gold: Any, decoded: Any) -> Sequence[Kinds]:
        """Errors by kind. Here: the commonest confusions of labels."""
        found = self.confused(fit, gold, decoded)
        return () if found is None else confusions(found)

    def legend(self, gold: bool) -> str:
        """What the colours of the examples say.

        :param gold: whether there is gold structure.
        """
        return f"{self.colours} {self.colours_gold}" if gold else self.colours

    def choose(self, data: Any, many: int = EXAMPLES) -> list[int]:
        """The numbers of the examples that are drawn: at random, but always the same; not too long ones, if there are.

        :param many: how many at most.
        """
        lengths = getattr(data, "lengths", None)
        sizes = np.ones(len(data)) if lengths is None else np.asarray(lengths)
        fit_in = np.flatnonzero((sizes > 0) & (sizes <= max(LONG, int(np.min(sizes, initial=0)))))
        good = fit_in if len(fit_in) >= min(many, len(sizes)) else np.argsort(sizes, kind="stable")[:many]
        chosen = np.random.default_rng(SEED).choice(good, min(many, len(good)), replace=False)
        return np.sort(chosen).tolist()  # type: ignore[no-any-return]

    def illustrated(self, fit: Fit, data: Any, numbers: Sequence[int], **options: Any) -> Sequence[Example]:
        """Some examples, drawn.

        :param numbers: of the examples.
        :param options: for decoding.
        """
        part = data.select(numbers)
        return self.drawn(fit, part, self.decode(fit, part, **options), numbers)  # type: ignore[attr-defined]

    def drawn(self, fit: Fit, data: Any, decoded: Any, numbers: Sequence[int]) -> Sequence[Example]:
        """All examples of these data, drawn. Here: the state of each, of tasks with one state for each example.

        :param numbers: what to call them.
        """
        from ..report.drawn import labelled
        from ..report.values import Example

        found = getattr(decoded, "structure", None)
        if found is None or found.dim() != 1 or len(found) != len(numbers):
            return ()
        names, right = state_names(fit, found), _labels_of(self, data)
        states, certain, likely = likeliest_states(decoded, names)
        made = []
        for k, number in enumerate(numbers):
            text = f"{self.examples.removesuffix('s')} {number}"
            html = labelled([text], [f"state {states[k]}"], [certain[k]], [likely[k]])
            verdict = "" if right is None else f"gold {int(right[k])}"
            made.append(Example(text, text, html, certain[k], verdict, parts=states[k]))
        return made

    # -- all of it

    def report(
        self,
        fit: Fit,
        data: Any = None,
        gold: Any = None,
        out: str | PathLike[str] | None = None,
        *,
        title: str | None = None,
        command: str | None = None,
        **options: Any,
    ) -> str:
        """The page of a ``fit`` that :meth:`.Fit.report_html` returns.

        :param out: a file to write it to.
        :param title: of the page; by default the name of the model.
        :param command: what made the page, as it says.
        :param options: for decoding.
        """
        from ..report.fit_page import fit_page

        data, gold = (None if one is None else self.taken(fit, one) for one in (data, gold))
        if gold is None and data is not None and self.has_gold(data):
            gold = data
        parts: dict[str, Any] = {"found": None, "beside": {}, "confused": None, "mistakes": (), "drawn": (), "size": ""}
        if gold is not None:
            decoded = self.decode(fit, gold, **options)  # type: ignore[attr-defined]
            self.check_known(gold, decoded)
            fit = self.named(fit, gold, decoded)
            parts |= {
                "found": self.scores(fit, gold, decoded),  # type: ignore[attr-defined]
                "beside": self.baselines(gold),  # type: ignore[attr-defined]
                "confused": self.confused(fit, gold, decoded),
                "mistakes": self.mistakes(fit, gold, decoded),
                "size": self.size(gold),  # type: ignore[attr-defined]
            }
        some = gold if data is None else data
        if some is not None:
            parts["drawn"] = self.illustrated(fit, some, self.choose(some), **options)
        call = command or f"fit.report_html({'' if data is None and gold is None else 'data'})"
        made = fit_page(self, fit, shown=self.page(fit), pictures=self.learned(fit), title=title,  # type: ignore
                        command=call, **parts)  # fmt: skip
        if out is not None:
            with pu.data.files.write_text(out) as stream:
                stream.write(made)
        return made

    def check_known(self, data: Any, decoded: Any) -> None:
        """Refuse data of which the model knows nothing: a page of them would be garbage."""
        unseen, tokens, _ = self.unseen(data, decoded)  # type: ignore[attr-defined]
        if unseen and unseen == tokens:
            unit, why = self.unit, self.all_unknown  # type: ignore[attr-defined]
            raise InputError(f"not one of the {tokens:,} {unit} is known to the model; {why}")

    def named(self, fit: Fit, gold: Any, decoded: Any) -> Fit:
        """The fit, its states called by the gold labels that they go with, if they are but numbers."""
        if fit.labels is not None or self.gold_labels(gold) is None:  # type: ignore[attr-defined]
            return fit
        return pu.results.evaluation.named_after(fit, gold, self.gold_labels(gold), decoded.structure)  # type: ignore[attr-defined]


def state_names(fit: Fit, found: Any) -> list[str]:
    """What to call states: their labels, or their numbers."""
    if fit.labels is not None:
        return list(fit.labels)
    many = getattr(fit.model, "states", None) or int(found.max()) + 1
    return [str(k) for k in range(many)]


def likeliest_states(
    decoded: Any, names: Sequence[str]
) -> tuple[list[int], list[float], list[list[tuple[str, float]]]]:
    """Of each item: its state, how sure that is, and the likeliest states with their probabilities."""
    states = decoded.structure.long()
    shares = decoded.posterior.marginals.reshape(len(states), -1)
    certain = shares.gather(1, states.clamp(min=0)[:, None])[:, 0].clamp(0, 1).tolist()
    best = shares.topk(min(LIKELY, shares.shape[1]))
    likely = [
        [(names[k], min(p, 1.0)) for k, p in zip(row, ps, strict=True) if p > 0.0005]
        for row, ps in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
    return states.tolist(), certain, likely


def confusions(found: Confusion) -> Sequence[Kinds]:
    """The commonest pairs of a gold label and another that was found in its place."""
    from ..report.values import Kinds

    rows: dict[tuple[str, str], int] = {}
    for column, right in enumerate(found.mapping.tolist()):
        name = found.gold_labels[right] if right >= 0 else found.predicted_labels[column]
        for row in np.flatnonzero(found.counts[:, column]).tolist():
            if row != right:
                key = (found.gold_labels[row], name)
                rows[key] = rows.get(key, 0) + int(found.counts[row, column])
    wrong = sum(rows.values())
    if not wrong:
        return ()
    best = sorted(rows.items(), key=lambda pair: -pair[1])[:KINDS]
    caption = (
        f"Of {int(found.counts.sum()):,} in all, {wrong:,} are wrong. Each state stands for its commonest gold label."
    )
    return [Kinds("Commonest confusions", ("gold", "found"), best, wrong, caption)]


def _labels_of(task: Any, gold: Any) -> Any:
    """Gold labels, one an item; None if there are none."""
    try:
        found = task.gold_labels(gold)
    except UnsupError:
        return None
    found = getattr(gold, "structure", None) if found is None else found
    return found if found is not None and np.ndim(found) == 1 else None

"""What is done with a saved model, or with samples: ``predict``, ``forecast``, ``evaluate`` and ``show``."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..data import files
from ..errors import InputError
from ..tasks.option import Given
from ..tasks.task import Task
from ..tasks.texts import say
from ..tasks.values import Baseline, Score
from . import agreement
from .common import console, print_json

if TYPE_CHECKING:
    from ..results import Fit, Samples
    from ..results.consensus import Consensus

Scores = Mapping[str, float]


def predict(task: Task, fit: Fit, given: Given) -> None:
    """Find the hidden structure of new data, and write it out."""
    data = task.read_new(fit, given)
    text, decoded, warned, agreed = task.text_of(data), None, False, None
    if not hasattr(text, "__len__") or len(text):
        decoded, agreed = _decoded(task, fit, text, given)
        fit = fit if agreed is None else agreed.fits[0].unhandled()  # states have the numbers of its states
        warned = _check_unknown(task, text, decoded, given.file)
    task.write(fit, data, decoded, given)
    sys.stdout.flush()
    if decoded is not None and not warned:
        _say_unknown(task, text, decoded)
    if agreed is not None:
        say(agreement.words(agreed))


def forecast(task: Task, fit: Fit, given: Given) -> None:
    """Write what comes after the end of the data."""
    data = task.read_new(fit, given)
    with files.write_text(given.out) as stream:
        stream.writelines(f"{line}\n" for line in task.forecast(fit, data, given))


def evaluate(task: Task, fit: Fit, given: Given) -> None:
    """Score a model, beside trivial baselines."""
    gold = task.read_gold(fit, given)
    decoded, agreed = _decoded(task, fit, gold, given)
    own, fit = fit, fit if agreed is None else agreed.fits[0].unhandled()  # states have the numbers of its states
    warned = _check_unknown(task, gold, decoded, given.file, quiet=given.json)
    found, beside = task.scores(fit, gold, decoded), task.baselines(gold)
    more = {name: _scored(task, own, one, given) for name, one in task.further(gold, given).items()}
    if given.json:
        others = {name: {**one, **others, **sizes} for name, (one, others, sizes) in more.items()}
        several = {} if agreed is None else agreement.numbers(agreed)
        print_json({**found, **beside, **task.sizes(fit, gold, decoded), **several, **others})
        return
    print_scores(task, found, beside, title=task.part_scored(gold) or None)
    for name, (scores, baselines, _) in more.items():
        print_scores(task, scores, baselines, title=name.replace("_", " "), explain=False)
    if agreed is not None:
        say(agreement.words(agreed))
    for line in task.remarks(fit, gold, decoded, given):
        say(line)
    if not warned:
        _say_unknown(task, gold, decoded)
    impossible = int((decoded.log_likelihood == -math.inf).sum())
    if impossible and math.isinf(found.get(task.likelihood, math.inf)):  # else they were not scored
        advice = task.impossible(fit, task.unseen(gold, decoded)[0])
        many = f"{impossible:,} of {len(decoded.log_likelihood):,} {task.examples}"
        say(f"{many} have probability zero, so {task.likelihood} is infinite{advice and f': {advice}'}")
    if worse := task.beaten(found, beside):
        say(worse)


def _scored(task: Task, fit: Fit, gold: Any, given: Given) -> tuple[Scores, Mapping[str, Scores], Mapping[str, Any]]:
    """Scores, those of baselines, and sizes."""
    decoded, agreed = _decoded(task, fit, gold, given)
    fit = fit if agreed is None else agreed.fits[0].unhandled()
    sizes = {**task.sizes(fit, gold, decoded), **({} if agreed is None else agreement.numbers(agreed))}
    return task.scores(fit, gold, decoded), task.baselines(gold), sizes


def show(task: Task, fit: Fit, given: Given) -> None:
    """Show what a model has learned."""
    _print_page(task.page(fit, **_own(task, "show", given)), given)


def predict_samples(task: Task, samples: Samples, given: Given) -> None:
    """Write the text that was sampled, with the labels that the samples say."""
    data = _sampled_text(task, samples, given)
    task.write_labels(samples, data, samples.predict(given.how), given)


def _sampled_text(task: Task, samples: Samples, given: Given) -> Any:
    """The text of a file, if it is the one that was sampled."""
    from ..results.sample_text import same_text

    text = task.read_sampled(samples, given)
    if not same_text(samples, text):
        known = samples.data
        many = len(known["source_lengths"]) if "source_lengths" in known else len(known["offsets"]) - 1
        raise InputError(
            f"is not the text that was sampled, of {many:,} examples and "
            f"{samples.labels.shape[-1]:,} labels, which belong to that one alone", given.file
        )  # fmt: skip
    return text


def evaluate_samples(task: Task, samples: Samples, given: Given) -> None:
    """Score samples against the gold labels of their text: mean and deviation over chains. Refuse another text."""
    gold = _sampled_text(task, samples, given)
    found = samples.evaluate(gold, given.how)
    if given.json:
        print_json({**found, **task.sizes_of_samples(gold)})
        return
    means, deviations = ({name: one[key] for name, one in found.items()} for key in ("mean", "deviation"))
    chains, beside = len(samples.last), task.baselines(gold)
    if all("together" in one for one in found.values()):
        beside = {f"vote of {chains} chains": {name: one["together"] for name, one in found.items()}, **beside}
    beside = {f"deviation of {chains} chains": deviations, **beside} if chains > 1 else beside
    print_scores(task, means, beside, title=task.part_scored(gold) or None)
    if worse := task.beaten(means, beside, sampled=True):
        say(worse)


def show_samples(task: Task, samples: Samples, given: Given) -> None:
    """Show what samples say."""
    _print_page(task.page_of_samples(samples, **_own(task, "show_samples", given)), given)


def print_scores(
    task: Task,
    found: Scores,
    beside: Mapping[str, Scores],
    title: str | None = None,
    explain: bool = True,
    name: str = "value",
) -> None:
    """A row a score: its value, that of baselines, and what it says; that goes below, if there are many baselines.

    :param name: of the column of values.
    :param explain: whether to say there what scores and baselines mean.
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    table.add_column("score", no_wrap=True)
    table.add_column(name, justify="right", no_wrap=True, style="bold")
    baselines = {one.name for one in task.baselines_known}
    for other in beside:
        table.add_column(other.replace("_", " ") if other in baselines else other, justify="right")
    room = len(beside) < 2
    if room:
        table.add_column("what it says", style="dim")
    known = {one.name: one for one in task.scores_known}
    scores = [known.get(one, Score(one, unit=".4g")) for one in found]
    for score in scores:
        others = [score.show(other[score.name]) if score.name in other else "" for other in beside.values()]
        table.add_row(score.name, score.show(found[score.name]), *others, *([score.meaning] if room else []))
    console().print(table)
    if explain and not room:
        said: list[Score | Baseline] = [*scores, *(one for one in task.baselines_known if one.name in beside)]
        say("; ".join(f"{one.name}: {one.meaning.replace(';', ',')}" for one in said if one.meaning))


def _decoded(task: Task, fit: Fit, data: Any, given: Given) -> tuple[Any, Consensus | None]:
    """The structure of data; and what several runs agree on, if they were asked."""
    try:
        if agreement.asked(given):
            found = agreement.together(task, fit, data, given)
            return found.decoded, found
        if getattr(given, "without_preferences", False):
            fit = fit.without_preferences()
        return task.decode(fit, data, **task.decoding(given)), None
    except InputError as error:
        raise InputError(error.what, error.path or given.file, error.line) from error


def _check_unknown(task: Task, data: Any, decoded: Any, file: str, quiet: bool = False) -> bool:
    """Refuse data of which the model knows nothing, and warn if it knows little: the result would be garbage."""
    unseen, tokens, said = task.unseen(data, decoded)
    if unseen and unseen == tokens:
        raise InputError(f"not one of its {tokens:,} {task.unit} is known to the model; {task.all_unknown}", file)
    if quiet or 2 * unseen <= tokens:
        return False
    say(f"warning: {said}. Most are unknown: {task.all_unknown}")
    return True


def _say_unknown(task: Task, data: Any, decoded: Any) -> None:
    unseen, _, said = task.unseen(data, decoded)
    if unseen:
        say(said)


def _own(task: Task, command: str, given: Given) -> dict[str, Any]:
    return {one.name: getattr(given, one.name) for one in task.commands[command].options}


def _print_page(page: Any, given: Given) -> None:
    if given.json:
        print_json(page.record)
    else:
        page.print(console())

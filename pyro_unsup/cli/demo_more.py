"""The rest of the demo: the states of a time series, and the grammar of a text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .pages import say, table
from .use import print_scores

if TYPE_CHECKING:
    from rich.console import Console

    from ..data import Corpus
    from ..results import Fit

#: The series: how many counts, their rates by state, and how likely a state is to stay.
STEPS, RATES, STAY = 200, (4.0, 12.0, 25.0), 0.94
STARTS = 4
#: The grammar: words in the longest sentence, how often it is trained, and the weight of counts that are not seen.
MAX_LENGTH, ITERATIONS, SMOOTH = 10, 20, 1.0


def series(screen: Console, seed: int, folder: Path, command: str) -> None:
    """Learn the states of counts that were drawn from three states; write the counts, the model and its report."""
    import numpy as np

    from .. import EM, tasks
    from ..data.files import write_text
    from ..models import HMM

    random = np.random.default_rng(seed)
    states = [0]
    for stays in (random.random(STEPS - 1) < STAY).tolist():
        states.append(states[-1] if stays else (states[-1] + int(random.integers(1, 3))) % 3)
    counts = random.poisson(np.array(RATES)[states]).astype(np.float64)
    screen.rule("[bold]A time series", align="left")
    rates = ", ".join(f"{rate:g}" for rate in RATES)
    say(
        screen,
        f"{STEPS} counts, drawn from three hidden states whose mean counts are {rates}. A hidden Markov model sees the "
        "counts alone, and finds:\n",
    )
    fit = EM(HMM(len(RATES), "poisson")).run(counts, restarts=STARTS, processes=1, seed=seed, progress=False)
    found = table("state", "mean count", "steps on average", right=("state", "mean count", "steps on average"))
    for k, one in enumerate(tasks.find("hmm").show(fit).record["states"]):
        found.add_row(str(k), f"{_number(one['rate']):.2f}", f"{one['duration']:.1f}")
    screen.print(found)
    with write_text(folder / "counts.csv") as stream:
        stream.writelines(["count\n", *(f"{x:.0f}\n" for x in counts.tolist())])
    fit.config |= {"column": "count", "series_column": None}
    fit.save(folder / "hmm", overwrite=True)
    fit.report_html(counts, folder / "hmm.html", command=command, title="States of a time series")


def _number(x: Any) -> float:
    return float(x[0] if isinstance(x, list) else x)


def grammar(screen: Console, text: Corpus, folder: Path, command: str) -> Fit:
    """Learn the dependencies of the text from its tags and a dozen rules; write the trees, the model and its report."""
    from .. import EM, AddLambda, components, prefer, tasks
    from ..data import short_tag_sequences, write_conllu
    from ..models import DMV

    screen.rule("[bold]A grammar", align="left")
    dropped = ["PUNCT"]
    short = short_tag_sequences(text, MAX_LENGTH, dropped)
    say(
        screen,
        f"The tags of {len(short):,} sentences of at most {MAX_LENGTH} words, without punctuation. "
        f"A dependency model looks "
        "for the head of each word. It is told a dozen rules that hold in about every language, such as: verbs are the "
        "heads of nouns.\n",
    )
    model = DMV.of(short)
    start: Any = model.harmonic_start(short)
    engine = EM(prefer(model, components.universal()), AddLambda(SMOOTH), start)
    fit = engine.run(short, iterations=ITERATIONS, progress=False).unhandled()
    task, gold = tasks.find("dmv"), text.drop_tags(*dropped).filter(max_length=MAX_LENGTH)
    print_scores(task, fit.evaluate(gold), task.baselines(gold))
    write_conllu(text, text.heads, folder / "trees.conllu", "upos")
    fit.config |= {"column": "upos", "dropped": dropped, "max_length": MAX_LENGTH}
    fit.save(folder / "dmv", overwrite=True)
    fit.report_html(gold, folder / "dmv.html", command=command, title="A grammar from tags and a dozen rules")
    return fit

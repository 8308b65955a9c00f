"""``pyro-unsup demo``: the toy world, from raw text to scores and pictures."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from ..tasks.shared_options import MAX_SEED
from .board import Board, board_of
from .common import console
from .pages import opening, sample, say, scores_page, starts_page, tags_page

if TYPE_CHECKING:
    from rich.console import Console

    from ..data import Corpus
    from ..results import Fit

SENTENCES = 5_000
STARTS = 5
ITERATIONS, TOLERANCE = 200, 1e-5
MODEL, TEXT, DICTIONARY, CURVE, CONFUSION = (
    "model",
    "toy.tagged",
    "dictionary.txt",
    "learning_curve.png",
    "confusion.png",
)
REPORTS = {"tagger.html": "the tagger", "hmm.html": "the time series", "dmv.html": "the grammar"}
OTHERS = ("counts.csv", "hmm", "trees.conllu", "dmv")
DPI = 150


def demo(
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="DIR", help="Where to put text, model and pictures.")
    ] = "pyro-unsup-demo",
    seed: Annotated[
        int,
        typer.Option(metavar="NUMBER", min=0, max=MAX_SEED, help="Another seed gives another text and other starts."),
    ] = 0,
) -> None:
    """See it work: draw a text from a small grammar, find its parts of speech and its dependencies; draw a time series,
    find its states; and look at what was found, in the terminal and in the browser.

    Nothing is fetched; it takes some twenty seconds, and longer the first time, when the kernels are compiled.
    """
    import torch

    from ..data import toy
    from .demo_more import grammar, series

    folder = Path(out)
    _may_write(folder)
    text = toy.sentences(SENTENCES, seed)
    screen = console()
    opening(screen, text, STARTS)
    torch.set_num_threads(1)  # for so little work, a second thread costs more than it brings
    with board_of(STARTS, ITERATIONS) as board:
        fits = [_learn(text, seed, start, board) for start in range(STARTS)]
    best = max(fits, key=lambda fit: fit.objective)
    best.report.restarts, best.runs = [fit.objective for fit in fits], tuple(fits)
    states = best.decode(text).structure.numpy()
    starts_page(screen, fits, best)
    scores_page(screen, text, best)
    sample(screen, text, states)
    tags_page(screen, text, states, best)
    _write(folder, text, states, best)
    command = f"pyro-unsup demo --out {shlex.quote(out)} --seed {seed}"
    best.report_html(text, folder / "tagger.html", command=command, title="Parts of speech of a toy language")
    series(screen, seed, folder, command)
    grammar(screen, text, folder, command)
    _closing(screen, out)


def _learn(text: Corpus, seed: int, start: int, board: Board) -> Fit:
    """One start. Every row of the history also has the score at that point, which the learner does not see."""
    from .. import EM
    from ..evaluate import many_to_one
    from ..models import Tagger

    assert text.tags is not None
    assert text.tagset is not None
    gold = text.tags
    fit = EM(Tagger(len(text.tagset), text.vocab, stop=True)).run(
        text,
        iterations=ITERATIONS,
        tolerance=TOLERANCE,
        seed=seed + start,
        callbacks=[lambda info: board.note(start, info)],
        score=lambda fit: {"many_to_one": many_to_one(gold, fit.predict(text))},
        progress=False,
    )
    board.finish(start)
    return fit


def _may_write(folder: Path) -> None:
    """A demo may replace a demo, and nothing else."""
    if not os.path.lexists(folder):
        return
    own = {MODEL, TEXT, DICTIONARY, CURVE, CONFUSION, *REPORTS, *OTHERS}
    if not folder.is_dir() or not own.issuperset(one.name for one in folder.iterdir()):
        raise InputError("exists already and holds other things than a demo; choose another folder with --out", folder)


def _write(folder: Path, text: Corpus, states: Any, fit: Fit) -> None:
    import matplotlib

    from ..data import toy, write_tagged
    from ..data.files import write_text
    from ..plot import confusion_matrix

    matplotlib.use("agg")  # pictures go to files; there need not be a screen
    import matplotlib.pyplot as plt

    assert text.tags is not None
    assert text.tagset is not None
    folder.mkdir(parents=True, exist_ok=True)
    write_tagged(text, None, folder / TEXT)
    with write_text(folder / DICTIONARY) as stream:
        stream.writelines(f"{word} {' '.join(tags)}\n" for word, tags in toy.tag_dictionary().items())
    fit.save(folder / MODEL, overwrite=True)
    drawn = {CURVE: fit.plot("many_to_one"), CONFUSION: confusion_matrix(text.tags, states, text.tagset.types)}
    for name, axes in drawn.items():
        axes.figure.savefig(folder / name, dpi=DPI)
        plt.close(axes.figure)


def _closing(screen: Console, out: str) -> None:
    own = (*REPORTS, MODEL, TEXT, DICTIONARY, CURVE, CONFUSION, *OTHERS)
    place = {name: shlex.quote(os.path.join(out, name)) for name in own}
    screen.rule("[bold]Written", align="left")
    widest = max(map(len, place.values()))
    for name, what in (
        (CURVE, "objective and score by iteration"),
        (CONFUSION, "which gold tags fall into which induced tag"),
        (TEXT, "the sentences with their gold tags"),
        (DICTIONARY, "the tags that every word may have"),
        (MODEL, "the trained tagger"),
        ("counts.csv", "the time series"),
        ("hmm", "its trained model"),
        ("trees.conllu", "the sentences with their gold trees"),
        ("dmv", "the trained grammar"),
    ):
        screen.print(f"  [cyan]{place[name]:{widest}}[/cyan]  {what}", soft_wrap=True)
    screen.print()
    screen.rule("[bold]Look at it", align="left")
    say(screen, "Open these pages in a browser. Each is one file, which can be sent to others:")
    for name, what in REPORTS.items():
        address = Path(out, name).resolve().as_uri()
        screen.print(f"    [cyan][link={address}]{place[name]}[/link][/cyan]  {what}", soft_wrap=True)
    screen.print()
    screen.rule("[bold]Try next", align="left")
    for what, command in (
        ("Tag a sentence of your own, the induced tags called by the gold tags they go with:",
         f'echo "the young sailor will dream of her ." | pyro-unsup predict {place[MODEL]} - --format lines '
         f"--relabel {place[TEXT]}"),
        ("Tell it which tags each word may have, and look two tags back. How much does that help?",
         f"pyro-unsup fit tagger {place[TEXT]} --dictionary {place[DICTIONARY]} --order 2 --stop --out toy-tagger"),
        ("", f"pyro-unsup evaluate toy-tagger {place[TEXT]}"),
        ("Give it more tags than there are. Which score rises, which falls?",
         f"pyro-unsup fit tagger {place[TEXT]} --tags 30 --stop --restarts 4 --out toy-30"),
        ("Put them side by side, in the terminal and in the browser:",
         f"pyro-unsup compare {place[MODEL]} toy-30 --gold {place[TEXT]} --out compare.html"),
        ("Then a text of your own (CoNLL-U, Penn brackets, word TAG lines, word/TAG or plain lines):",
         "pyro-unsup fit tagger FILE --tags 45 --out DIR"),
        ("", "pyro-unsup report DIR --gold FILE --out report.html"),
    ):  # fmt: skip
        if what:
            say(screen, what)
        screen.print(f"    [cyan]{command}[/cyan]", soft_wrap=True)

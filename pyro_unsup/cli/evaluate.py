"""``pyro-unsup evaluate``: score a model on tagged text."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from .common import (
    Column,
    ColumnOption,
    Format,
    FormatOption,
    How,
    HowOption,
    ModelArgument,
    console,
    load_tagger,
    print_json,
    read_gold,
    say,
)

#: What each score says, for the table.
MEANING = {
    "many_to_one": "each tag taken as its commonest gold tag",
    "one_to_one": "the same, every gold tag used once",
    "v_measure": "how well each predicts the other",
    "vi_bits": "what each leaves unsaid; low is good",
    "clusters_used": "different tags in the output",
    "accuracy": "words with the right tag",
    "accuracy_ambiguous": "of words that may have several tags",
    "bits_per_word": "cross-entropy; low is good",
}
IN_BITS = ("vi_bits", "bits_per_word")


def evaluate(
    folder: ModelArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A text with gold tags. - is standard input.")],
    format: FormatOption = Format.AUTO,
    column: ColumnOption = Column.XPOS,
    how: HowOption = How.VITERBI,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object; fractions of 1, null for infinity.")
    ] = False,
) -> None:
    """Score a model on a tagged text.

    Accuracy makes sense only if the model knows the gold tags by name, from a dictionary. Their tags must be its tags.
    """
    from ..data import Vocab
    from ..results.decoding.tagging import decode, scores

    fit, model = load_tagger(folder)
    tagset = None if isinstance(model.tags, int) else Vocab(model.tags)  # type: ignore[arg-type]
    gold = read_gold(file, format, column, tagset=tagset)
    decoded = decode(fit, gold, how)
    found = scores(fit, gold, decoded)
    impossible = int((decoded.log_likelihood == -math.inf).sum())
    if as_json:
        print_json({**found, "tokens": gold.tokens, "unknown_tokens": decoded.unseen})
        return
    _print_table(found)
    if decoded.unseen:
        say(
            f"{decoded.unseen:,} of {gold.tokens:,} words are unknown to the model: their neighbours decided their tags"
        )
    if impossible:
        say(f"{impossible:,} of {len(gold):,} sentences have probability zero, so bits_per_word is infinite: train "
            "with --smooth and --min-count 2 for text like this")  # fmt: skip


def _print_table(found: dict[str, float]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("score", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True, style="bold")
    table.add_column("what it says", style="dim")
    for name, value in found.items():
        table.add_row(name, shown(name, value), MEANING.get(name, ""))
    console().print(table)


def shown(name: str, value: float) -> str:
    """A score for the eye.

    >>> shown("accuracy", 0.98765), shown("vi_bits", 2.5), shown("clusters_used", 45)
    ('98.8 %', '2.500 bits', '45')
    """
    if name in IN_BITS:
        return f"{value:.3f} bits"
    return f"{value:.0f}" if name == "clusters_used" else f"{100 * value:.1f} %"

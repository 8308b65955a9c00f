"""Samples of the tags of a text: drawn, scored and shown."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InputError
from ...results.samples import Samples
from ..common import console, print_json, printable, read_gold
from ..options import (
    Column,
    ColumnOption,
    Format,
    FormatOption,
    JsonOption,
    LowercaseOption,
    SamplesArgument,
    ScoresJsonOption,
    TextFormatOption,
)
from ..sample import Sampling, draw
from ..tables import Likely, print_likeliest, print_scores
from .dictionary import Allowed, MinCountOption, OrderOption, StopOption, TagsOption, identity_of, text_and_model
from .tagger import MEANING

if TYPE_CHECKING:
    from ...data import Corpus


class Which(StrEnum):
    """Which labelling of each chain is looked at."""

    LAST = "last"
    BEST = "best"


WhichOption = Annotated[
    Which, typer.Option("--how", help="last: after the last sweep; best: of the highest log joint, in each chain.")
]


def sample(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The text; tags in it are not looked at. - is stdin.")],
    allowed: Allowed,
    sampling: Sampling,
    tags: TagsOption = None,
    order: OrderOption = 2,
    stop: StopOption = True,
    format: TextFormatOption = Format.AUTO,
    min_count: MinCountOption = 1,
    lowercase: LowercaseOption = False,
) -> None:
    """Sample the tags of a text by a Bayesian hidden Markov model, its tables integrated out.

    Goldwater & Griffiths (2007) anneal for 20,000 sweeps, with --alpha 0.003 --beta 1, or --hyper shared or separate.
    """
    sampling.check()
    allowed.check()
    text, model = text_and_model(file, format, allowed, tags, order, stop, min_count, lowercase, only_seen=True)
    remembered = {"lowercase": lowercase, "min_count": min_count}
    draw("tagger", model, text, sampling, identity_of(model, text), remembered)


def evaluate(
    samples: SamplesArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The same text with gold tags. - is standard input.")],
    format: FormatOption = Format.AUTO,
    column: ColumnOption = Column.XPOS,
    how: WhichOption = Which.LAST,
    as_json: ScoresJsonOption = False,
) -> None:
    """Score sampled tags against the gold tags of their text: mean and deviation over chains."""
    gold = _gold(samples, file, format, column)
    found = samples.evaluate(gold, how.value)
    if as_json:
        print_json({**found, "tokens": gold.tokens})
        return
    means, deviations = ({name: one[key] for name, one in found.items()} for key in ("mean", "deviation"))
    print_scores(means, MEANING, {f"deviation of {len(samples.last)} chains": deviations})


def show(
    samples: SamplesArgument,
    words: Annotated[int, typer.Option(min=0, help="How many words to show of each tag.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Show samples: what they are of, how the chains agree, and the commonest words of each tag in the best of them."""
    chains, draws, tokens = samples.labels.shape
    names, top = samples.names, _commonest(samples, words)
    between = samples.variation_between_chains()
    if as_json:
        states = [
            {"state": k, "label": name, "top_words": [{"word": word, "share": share} for word, share in row]}
            for k, (name, row) in enumerate(zip(names, top, strict=True))
        ]
        print_json({
            "model": repr(samples.model),
            "config": samples.config,
            "chains": chains,
            "draws": draws,
            "tokens": tokens,
            "best_log_joint": samples.best_log_joint.tolist(),
            "accepted": {name: rate.tolist() for name, rate in samples.rates.items()},
            "diagnostics": samples.diagnostics(),
            "vi_between_chains": between.tolist(),
            "states": states,
        })  # fmt: skip
        return
    _print_facts(samples, between)
    print_likeliest("tag", "commonest words", zip(names, top, strict=True))


def _gold(samples: Samples, file: str, format: Format, column: Column) -> Corpus:
    """The text of the samples with its gold tags; another text is refused."""
    import numpy as np

    from ...data import Vocab

    model: Any = samples.model
    lowercase = samples.config.get("lowercase") is True
    tagset = None if isinstance(model.tags, int) else Vocab(model.tags)
    gold = read_gold(file, format, column, tagset=tagset, lowercase=lowercase)
    vocab = model.vocab
    missing = next((word for word in gold.vocab if word not in vocab.index), None) if vocab.unknown is None else None
    same = missing is None and np.array_equal(gold.offsets, samples.data["offsets"])
    same = same and np.array_equal(vocab.encode(gold.vocab)[gold.words], samples.data["words"])
    if not same:
        raise InputError(
            f"is not the text that was sampled, of {len(samples.data['offsets']) - 1:,} sentences and "
            f"{len(samples.data['words']):,} words; tags were drawn for that one alone", file
        )  # fmt: skip
    return gold


def _commonest(samples: Samples, n: int) -> list[Likely]:
    """The commonest words of each tag in the best labelling, each with its share of the tag's tokens."""
    import numpy as np

    counts = np.zeros((len(samples.names), len(samples.model.vocab)), np.int64)
    np.add.at(counts, (samples.predict("best"), samples.data["words"]), 1)
    found: list[Likely] = []
    for row in counts:
        best = np.argsort(-row, kind="stable")[:n]
        found.append([(samples.model.vocab[i], float(row[i] / row.sum())) for i in best.tolist() if row[i]])
    return found


def _print_facts(samples: Samples, between: Any) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    chains, draws, tokens = samples.labels.shape
    facts = Table.grid(padding=(0, 2))
    settings = ", ".join(f"{key} {value}" for key, value in samples.config.items())
    facts.add_row("[bold]model", escape(repr(samples.model)))
    facts.add_row("[bold]sampler", escape(printable(settings)))
    facts.add_row("[bold]samples", f"{chains} chains of {draws:,} draws of {tokens:,} tags")
    facts.add_row("[bold]best log joint", ", ".join(f"{x:,.1f}" for x in samples.best_log_joint))
    if chains > 1:
        apart = [between[i, j] for i in range(chains) for j in range(i)]
        facts.add_row("[bold]between chains", f"VI {min(apart):.3f} to {max(apart):.3f} bits: 0 if all tag alike")
    if (samples.path["temperature"][:, samples.kept] != 1).any():
        facts.add_row("[bold]temperature", "not 1: the draws are on the way to good tags, not of the posterior")
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("whatever tags are called")
    for name in ("mean", "sd", "r_hat", "ess"):
        table.add_column(name, justify="right")
    for name, one in samples.diagnostics().items():
        table.add_row(name, f"{one['mean']:,.3f}", f"{one['sd']:.3g}", f"{one['r_hat']:.3f}", f"{one['ess']:,.0f}")
    console().print(facts)
    console().print(table)

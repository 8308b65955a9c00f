"""Taggers: tags of words, by a hidden Markov model."""

from __future__ import annotations

import sys
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import UnsupError
from ...results import Fit
from ..batches import corpora, format_of_stream
from ..beliefs import Beliefs
from ..common import print_json, printable, read, read_gold, say, say_impossible
from ..engines import Algorithm
from ..fit import Task, Training, learn
from ..options import (
    Column,
    ColumnOption,
    FitArgument,
    Format,
    FormatOption,
    How,
    JsonOption,
    LowercaseOption,
    OutFileOption,
    ScoresJsonOption,
    TextFormatOption,
    VocabFromOption,
)
from ..streams import Reading, check_stream
from ..tables import Likely, fit_record, likeliest, print_fit, print_likeliest, print_scores
from .dictionary import (
    Allowed,
    MinCountOption,
    OrderOption,
    StopOption,
    TagsOption,
    identity_of,
    model_for_stream,
    text_and_model,
)

if TYPE_CHECKING:
    from ...data import Corpus

#: What each score says.
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
HowOption = Annotated[
    How, typer.Option("--how", help="viterbi: the best tag sequence; mbr: the best tag of each word on its own.")
]


class OutputFormat(StrEnum):
    """How tagged text is written."""

    COLUMNS = "columns"
    SLASHES = "slashes"
    CONLLU = "conllu"


def fit(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The text; tags in it are not looked at. - is stdin.")],
    allowed: Allowed,
    training: Training,
    algorithm: Algorithm,
    beliefs: Beliefs,
    tags: TagsOption = None,
    order: OrderOption = 1,
    stop: StopOption = False,
    format: TextFormatOption = Format.AUTO,
    min_count: MinCountOption = 1,
    lowercase: LowercaseOption = False,
    vocab_from: VocabFromOption = None,
) -> None:
    """Induce the tags of a text by a hidden Markov model.

    Without a dictionary the tags are anonymous, numbered from 0; with one they are those of the dictionary. From a
    stream (--vocab-from), words that are not known beforehand become one, `<unk>`.
    """
    from ...estimate.templates import tagging

    training.check()
    algorithm.check()
    beliefs.check("tagger", training, algorithm)
    allowed.check()
    options: Any = {"allowed": allowed, "tags": tags, "order": order, "stop": stop, "min_count": min_count}
    remembered = {"lowercase": lowercase, "min_count": min_count}
    if vocab_from is not None:
        check_stream(file, vocab_from, training, algorithm)
        format = format_of_stream(file, vocab_from, format)
        model = model_for_stream(vocab_from, format, lowercase=lowercase, **options)
        batches = corpora(file, format, algorithm.examples, vocab=model.vocab, lowercase=lowercase)
        data: Any = Reading(file, batches)
        tokens, identity = 0, identity_of(model, None)
    else:
        data, model = text_and_model(file, format, lowercase=lowercase, **options)
        tokens, identity = data.tokens, identity_of(model, data)
    task = Task("tagger", model, data, tokens, identity, {}, remembered, templates=tagging)
    learn(task, training, algorithm, beliefs)


def predict(
    fit: FitArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The text to tag. - is standard input.")],
    out: OutFileOption = "-",
    format: FormatOption = Format.AUTO,
    output_format: Annotated[
        OutputFormat,
        typer.Option(help="columns: word TAG a line; slashes: word/TAG, a sentence a line; conllu: CoNLL-U."),
    ] = OutputFormat.COLUMNS,
    how: HowOption = How.VITERBI,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="A third column: the posterior probability of the tag.")
    ] = False,
    relabel: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A tagged text: call each induced tag by the gold tag it goes with most."),
    ] = None,
    relabel_format: Annotated[
        Format, typer.Option(metavar="FORMAT", help="The format of that tagged text, as --format.")
    ] = Format.AUTO,
    column: ColumnOption = Column.XPOS,
) -> None:
    """Tag a text, word by word, and write it out.

    Words are written as the text has them. One that the model has never met may have any tag: its neighbours decide.
    """
    from ...data import write_tagged
    from ...results.decoding.tagging import decode

    if probabilities and output_format is not OutputFormat.COLUMNS:
        raise UnsupError(f"--probabilities need columns to stand in, not --output-format {output_format}")
    model: Any = fit.model
    text = read(file, format)
    if relabel is not None:
        fit = fit.relabel(read_gold(relabel, relabel_format, column, "--relabel-format"))
    names = [printable(name) for name in _names(fit, model)]
    decoded = decode(fit, text, how)
    tags = [names[state] for state in decoded.structure.tolist()]
    if probabilities:
        chosen = decoded.posterior.marginals.gather(1, decoded.structure[:, None].long())[:, 0]
        _write_columns(text, tags, chosen.clamp(0, 1).tolist(), out)
    else:
        write_tagged(text, tags, out, output_format.value)
    sys.stdout.flush()
    if decoded.unseen:
        say(f"{decoded.unseen:,} of {text.tokens:,} words are unknown to the model: their neighbours decided")


def evaluate(
    fit: FitArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A text with gold tags. - is standard input.")],
    format: FormatOption = Format.AUTO,
    column: ColumnOption = Column.XPOS,
    how: HowOption = How.VITERBI,
    as_json: ScoresJsonOption = False,
) -> None:
    """Score a tagger on a tagged text.

    Accuracy makes sense only if the model knows the gold tags by name, from a dictionary. Their tags must be its tags.
    """
    from ...data import Vocab
    from ...results.decoding.tagging import decode, scores

    model: Any = fit.model
    tagset = None if isinstance(model.tags, int) else Vocab(model.tags)
    gold = read_gold(file, format, column, tagset=tagset)
    decoded = decode(fit, gold, how)
    found = scores(fit, gold, decoded)
    if as_json:
        print_json({**found, "tokens": gold.tokens, "unknown_tokens": decoded.unseen})
        return
    print_scores(found, MEANING)
    if decoded.unseen:
        say(
            f"{decoded.unseen:,} of {gold.tokens:,} words are unknown to the model: their neighbours decided their tags"
        )
    say_impossible(decoded.log_likelihood, "sentences", "bits_per_word")


def show(
    fit: FitArgument,
    words: Annotated[int, typer.Option(min=0, help="How many words to show of each tag.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Show a tagger: what it is, how its training ended, its tables, and the likeliest words of each tag."""
    model: Any = fit.model
    names, top = _names(fit, model), top_words(fit, model, words)
    if not as_json:
        print_fit(fit)
        print_likeliest("tag", "likeliest words", zip(names, top, strict=True))
        return
    states = [
        {"state": k, "label": name, "top_words": [{"word": word, "probability": p} for word, p in row]}
        for k, (name, row) in enumerate(zip(names, top, strict=True))
    ]
    facts = {"model": "Tagger", "tags": model.states, "words": model.words, "order": model.order, "stop": model.stop}
    restricted = model.declarations()["emission"].layout.support is not None
    print_json({**facts, "dictionary": restricted, **fit_record(fit), "states": states})


def top_words(fit: Fit, model: Any, n: int) -> list[Likely]:
    """The likeliest words of each state with their probabilities; those of probability 0 are left out."""
    return [likeliest(row, model.vocab, n) for row in fit.weights["emission"]]


def _names(fit: Fit, model: Any) -> list[str]:
    """What to call the states: their labels, or their numbers."""
    return [str(k) for k in range(model.states)] if fit.labels is None else list(fit.labels)


def _write_columns(text: Corpus, tags: list[str], chosen: list[float], out: str) -> None:
    """``word TAG probability``, split by tabs."""
    from ...data.files import write_text

    for tag in set(tags):
        if not tag.strip():
            raise UnsupError(f"the tag {tag!r} cannot be written in a column; relabel it")
    with write_text(out) as stream:
        for i, (start, end) in enumerate(pairwise(text.offsets.tolist())):
            rows = zip(text.sentence(i), tags[start:end], chosen[start:end], strict=True)
            stream.writelines(f"{word}\t{tag}\t{p:.6f}\n" for word, tag, p in rows)
            stream.write("\n")

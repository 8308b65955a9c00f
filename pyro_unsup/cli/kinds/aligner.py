"""Aligners: which word of a sentence translates which word of its translation."""

from __future__ import annotations

import sys
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...data.lines import UNKNOWN
from ...data.streams import each_line
from ...errors import UnsupError
from ..batches import batches
from ..beliefs import Beliefs
from ..common import print_json, printable, say
from ..engines import Algorithm
from ..fit import Task, Training, learn
from ..options import (
    MODEL,
    OUTPUT,
    FitArgument,
    JsonOption,
    LowercaseOption,
    OutFileOption,
    ScoresJsonOption,
    VocabFromOption,
)
from ..streams import Reading, check_stream, saved_model
from ..tables import Likely, fit_record, likeliest, print_fit, print_likeliest, print_scores
from .hmm import FirstOption, LearnNullOption, Which, WhichOption, after_model_1, check, trained
from .links import CombineOption, ThresholdOption, Way, WayOption, decoding

if TYPE_CHECKING:
    from ...data import Bitext
    from ...estimate import Template
    from ...results import Fit

#: What each score says.
MEANING = {
    "aer": "alignment error rate; low is good",
    "precision": "links found that are possible",
    "recall": "sure links that are found",
    "loglik_per_token": "of both directions; natural logarithm",
}
FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="`source ||| target` a line, or the source sentences. - is stdin.")
]
TargetArgument = Annotated[
    str | None, typer.Argument(metavar="[FILE2]", help="The target sentences, if FILE has none.", show_default=False)
]


class Agreement(StrEnum):
    """How the two directions learn from each other."""

    PRODUCT = "product"
    Y2008 = "2008"
    NONE = "none"


class Links(StrEnum):
    """How links are written."""

    PHARAOH = "pharaoh"
    NAACL = "naacl"


def fit(
    file: FileArgument,
    training: Training,
    algorithm: Algorithm,
    beliefs: Beliefs,
    target: TargetArgument = None,
    which: WhichOption = Which.MODEL1,
    agreement: Annotated[
        Agreement,
        typer.Option(
            help="How the two directions learn from each other: by the product of their posteriors, as in Liang, Klein "
            "and Jordan (2008), or not at all.",
            rich_help_panel=MODEL,
        ),
    ] = Agreement.PRODUCT,
    null: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            min=0,
            help="The probability that a word translates none.",
            show_default="as that of each other word",
            rich_help_panel=MODEL,
        ),
    ] = None,
    learn_null: LearnNullOption = False,
    first: FirstOption = None,
    min_count: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Words seen fewer times become one, `<unk>`.", rich_help_panel=OUTPUT),
    ] = 1,
    lowercase: LowercaseOption = False,
    vocab_from: VocabFromOption = None,
) -> None:
    """Learn which words translate which, in both directions: by IBM Model 1, or by a hidden Markov model.

    From a stream (--vocab-from), only words that are known to occur together are linked. Words that are not known
    become one, `<unk>`.
    """
    from ...infer.init import uniform
    from ...models import Aligner, HMMAligner
    from ..training import digest

    training.check()
    algorithm.check()
    beliefs.check("aligner", training, algorithm)
    if null is not None and not null < 1:
        raise UnsupError(f"--null must be a probability below 1, actual {null}")
    check(which, learn_null, first, null, vocab_from)
    if beliefs.gradient and agreement is Agreement.PRODUCT:
        raise UnsupError("--gradient has nothing to climb by where directions agree by the product of their "
                         "posteriors; add --agreement 2008, or --agreement none")  # fmt: skip
    how = (None if agreement is Agreement.NONE else agreement.value, null)
    if vocab_from is not None:
        check_stream(file, vocab_from, training, algorithm)
        if target is not None:
            raise UnsupError("a stream has both languages, `source ||| target` a line; leave FILE2 out")
        saved = saved_model(vocab_from, Aligner)
        if saved is None:
            known = {"lowercase": lowercase, "min_count": min_count, "unknown": UNKNOWN}
            model = Aligner.of(_read(vocab_from, None, **known), *how)
        else:
            model = Aligner(saved.source, saved.target, saved.lexicon, *how)
        say(f"{printable(vocab_from)}: {model!r}")
        vocabs: dict[str, Any] = {"source_vocab": model.source, "target_vocab": model.target}
        read = partial(_read, target=None, lowercase=lowercase, **vocabs)
        data: Any = Reading(file, batches(file, algorithm.examples, each_line, read))
        tokens, checksum = 0, digest(*vocabs.values(), model.lexicon.sizes.numpy(), model.lexicon.met.numpy())
    else:
        data = _read(file, target, lowercase=lowercase, min_count=min_count)
        model = Aligner.of(data, *how)
        if which is Which.HMM:
            training = training if beliefs.gradient else trained(training)
            model = HMMAligner.like(model, **({"null": "learn"} if learn_null else {}))
        sides = (data.source, data.target)
        tokens = sum(one.tokens for one in sides)
        checksum = digest(*(part for one in sides for part in (one.words, one.offsets, one.vocab)))
        words = " and ".join(f"{one.tokens:,}" for one in sides)
        say(f"{printable(file)}: {len(data):,} pairs, {words} words; {model!r}")
    task = Task(
        "aligner",
        model,
        data,
        tokens,
        {
            "--agreement": str(agreement),
            "--null": null,
            "--model": str(which),
            "--learn-null": learn_null,
            "--first": first,
        },
        {"text": checksum},
        {"lowercase": lowercase, "min_count": min_count},
        start=after_model_1(model, data, first) if isinstance(model, HMMAligner) else uniform(),
        templates=_templates,
    )
    learn(task, training, algorithm, beliefs)


def predict(
    fit: FitArgument,
    file: FileArgument,
    target: TargetArgument = None,
    out: OutFileOption = "-",
    output_format: Annotated[
        Links, typer.Option(help="pharaoh: `0-0 1-2`, a pair a line, from 0; naacl: `1 1 1 S`, a link a line, from 1.")
    ] = Links.PHARAOH,
    how: WayOption = Way.INTERSECTION,
    threshold: ThresholdOption = None,
    combine: CombineOption = None,
) -> None:
    """Align pairs of sentences, and write the links between their words."""
    from ...data import write_links
    from ...results.decoding.aligning import decode

    options = decoding(how, threshold, combine)
    text = _read(file, target)
    decoded = decode(fit, text, how.value, **options)
    write_links(decoded.links, out, "wa" if output_format is Links.NAACL else "pharaoh")
    sys.stdout.flush()
    _say_unseen(decoded.unseen, text)


def evaluate(
    fit: FitArgument,
    file: FileArgument,
    gold: Annotated[
        str, typer.Option("--gold", metavar="FILE", help="The gold links, NAACL (.wa) or Pharaoh; see `predict`.")
    ],
    target: TargetArgument = None,
    how: WayOption = Way.INTERSECTION,
    threshold: ThresholdOption = None,
    combine: CombineOption = None,
    as_json: ScoresJsonOption = False,
) -> None:
    """Score an aligner on pairs of sentences with gold links."""
    from ...results.decoding.aligning import decode, scores

    options = decoding(how, threshold, combine)
    text = _read(file, target, links=gold)
    decoded = decode(fit, text, how.value, **options)
    found = scores(fit, text, decoded)
    if as_json:
        tokens = text.source.tokens + text.target.tokens
        print_json({**found, "pairs": len(text), "tokens": tokens, "unknown_tokens": sum(decoded.unseen)})
        return
    print_scores(found, MEANING)
    _say_unseen(decoded.unseen, text)


def show(
    fit: FitArgument,
    words: Annotated[int, typer.Option(min=0, help="How many source words to show.")] = 20,
    top: Annotated[int, typer.Option(min=0, help="How many translations of each.")] = 4,
    as_json: JsonOption = False,
) -> None:
    """Show an aligner: how its training ended, and the likeliest translations of its first words."""
    model: Any = fit.model
    rows = _translations(fit, words, top)
    if not as_json:
        print_fit(fit)
        print_likeliest("word", "likeliest translations", rows)
        return
    facts = {"model": type(model).__name__, "source_words": model.source_words, "target_words": model.target_words}
    facts |= {"agreement": model.agreement, "null": model.null}
    listed = [
        {"word": word, "translations": [{"word": other, "probability": p} for other, p in row]} for word, row in rows
    ]
    print_json({**facts, **fit_record(fit), "translations": listed})


def _read(file: str, target: str | None, **options: Any) -> Bitext:
    from ...data import read_bitext

    return read_bitext(file, target, **options)


def _templates() -> dict[str, list[Template]]:
    """Of both tables of translations, which have weights of their own; other tables do without features."""
    from ...estimate.templates import alignment

    stem = "porter" if find_spec("nltk") else None
    if stem is None:
        say("features have no stems of words in them: pip install nltk for those")
    return {name: alignment(name, stem=stem) for name in ("translation_forward", "translation_backward")}


def _translations(fit: Fit, words: int, n: int) -> list[tuple[str, Likely]]:
    """The first source words of the vocabulary, with their likeliest translations."""
    model: Any = fit.model
    forward, offsets = fit.weights["translation_forward"], model.lexicon.offsets.tolist()
    found: list[tuple[str, Likely]] = []
    for k in range(min(words, model.source_words)):
        met = [model.target[word] for word in model.lexicon.met[offsets[k] : offsets[k + 1]].tolist()]
        found.append((model.source[k], likeliest(forward[offsets[k] : offsets[k + 1]], met, n)))
    return found


def _say_unseen(unseen: tuple[int, int], text: Bitext) -> None:
    if any(unseen):
        say(f"{unseen[0]:,} of {text.source.tokens:,} source words and {unseen[1]:,} of {text.target.tokens:,} target "
            "words are unknown to the model")  # fmt: skip

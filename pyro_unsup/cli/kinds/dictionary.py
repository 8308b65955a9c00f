"""From the options of ``fit tagger`` and ``sample tagger`` to the text, its dictionary and the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InputError, UnsupError
from ..common import check_memory, printable, read, read_gold, say
from ..options import MODEL, OUTPUT, Column, Format
from ..streams import saved_model

if TYPE_CHECKING:
    from ...data import Corpus, TagDictionary, Vocab
    from ...models import Tagger

DEFAULT_TAGS = 45
TagsOption = Annotated[
    int | None,
    typer.Option(
        "--tags",
        metavar="N",
        min=1,
        show_default=f"{DEFAULT_TAGS}, or as the dictionary has",
        help="How many tags to induce.",
        rich_help_panel=MODEL,
    ),
]
OrderOption = Annotated[
    int, typer.Option("--order", metavar="N", min=1, max=2, help="1: bigram, 2: trigram.", rich_help_panel=MODEL)
]
StopOption = Annotated[
    bool, typer.Option("--stop/--no-stop", help="Whether tags predict the end.", rich_help_panel=MODEL)
]
MinCountOption = Annotated[
    int,
    typer.Option(
        "--min-count",
        metavar="N",
        min=1,
        help="Words seen fewer times become one, `<unk>`, unless a dictionary lists them.",
        rich_help_panel=OUTPUT,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """The options that say which tags a word may have."""

    dictionary: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Which tags a word may have: `word TAG TAG ...` a line, or .json. Words not in it may have any tag.",
            rich_help_panel=MODEL,
        ),
    ] = None
    dictionary_from: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A tagged text to take the dictionary from instead.", rich_help_panel=MODEL),
    ] = None
    dictionary_format: Annotated[
        Format,
        typer.Option(metavar="FORMAT", help="The format of that tagged text, as --format.", rich_help_panel=MODEL),
    ] = Format.AUTO
    dictionary_min_count: Annotated[
        float,
        typer.Option(
            metavar="N",
            min=1,
            help="Words that FILE has fewer times may have any tag; inf: all words.",
            show_default="1",
            rich_help_panel=MODEL,
        ),
    ] = 1
    column: Annotated[Column, typer.Option(help="With CoNLL-U, the column of its tags.", rich_help_panel=MODEL)] = (
        Column.XPOS
    )

    @property
    def given(self) -> str | None:
        """The file that the dictionary comes from, if there is one."""
        return self.dictionary or self.dictionary_from

    def check(self) -> None:
        """Refuse two dictionaries."""
        if self.dictionary is not None and self.dictionary_from is not None:
            raise UnsupError("--dictionary and --dictionary-from are two ways to say the same; give one of them")

    def read(self, lowercase: bool, text: Corpus | None) -> TagDictionary | None:
        """The dictionary, if there is one.

        :param text: what is learned from, where words are counted; without it, the tagged text itself.
        """
        from ...data import TagDictionary

        if self.dictionary is not None:
            return _read(self.dictionary, lowercase)
        if self.dictionary_from is None:
            return None
        options: dict[str, Any] = {"option": "--dictionary-format", "lowercase": lowercase}
        gold = read_gold(self.dictionary_from, self.dictionary_format, self.column, **options)
        return TagDictionary.from_corpus(gold, self.dictionary_min_count, text)


def _read(path: str, lowercase: bool) -> TagDictionary:
    """A dictionary file: JSON by its name, else lines."""
    from ...data import TagDictionary

    found = TagDictionary.load(path) if path.endswith(".json") else TagDictionary.read(path)
    if not lowercase:
        return found
    import numpy as np

    from ...data import Vocab

    folded = Vocab(dict.fromkeys(word.lower() for word in found.words))
    table = np.zeros((len(found.tagset), len(folded)), dtype=np.bool_)
    np.logical_or.at(table.T, folded.encode(word.lower() for word in found.words), found.table.T)
    return TagDictionary(found.tagset, folded, table)


def with_listed(text: Corpus, known: TagDictionary, min_count: int) -> Corpus:
    """The text by a vocabulary that has every word which the dictionary lists, seen or not, rare or not.

    So these words keep their tags in new text. Other words seen fewer than ``min_count`` times become one.
    """
    import numpy as np

    from ...data import Vocab
    from ...data.lines import UNKNOWN

    unknown = UNKNOWN if min_count > 1 else text.vocab.unknown
    counts = np.bincount(text.words, minlength=len(text.vocab)).tolist()
    kept = [word for word, count in zip(text.vocab, counts, strict=True) if count >= min_count]
    words = dict.fromkeys([*kept, *known.words, *([] if unknown is None else [unknown])])
    return text.with_vocab(Vocab(words, unknown=unknown))


def build(
    vocab: Vocab, tags: int | None, order: int, stop: bool, known: TagDictionary | None, path: str | None
) -> Tagger:
    """The model, if it makes sense and fits into memory.

    :param vocab: with a dictionary, one that has its words too (:func:`with_listed`).
    :param known: the dictionary, if there is one; the tags then are those of it that some word may have.
    :param path: where it came from.
    """
    from ...data import Vocab
    from ...models import Tagger

    if known is None:
        tags = DEFAULT_TAGS if tags is None else tags
        _check_size(tags, len(vocab), order)
        return Tagger(tags, vocab, order, stop=stop)
    if tags is not None and tags != len(known.tagset):
        raise InputError(f"has {len(known.tagset)} tags, which --tags {tags} contradicts; leave --tags out", path)
    mask = known.mask(vocab)  # (tags, words)
    used = [k for k, row in enumerate(mask) if row.any()]
    _check_size(len(used), len(vocab), order)
    names = Vocab(known.tagset.decode(used))
    if len(names) < len(known.tagset):
        idle = ", ".join(printable(tag) for tag in known.tagset if tag not in names)
        say(f"left out, since no word may have them: {idle}")
    return Tagger(names, vocab, order, mask[used], stop)


def text_and_model(
    file: str,
    format: Format,
    allowed: Allowed,
    tags: int | None,
    order: int,
    stop: bool,
    min_count: int,
    lowercase: bool,
    only_seen: bool = False,
) -> tuple[Corpus, Tagger]:
    """What to learn from, by the vocabulary of the model; and the model.

    :param only_seen: leave out words of the dictionary that the text does not have: they count as words that a tag may
        be, but nothing can be learned of them.
    """
    text = read(file, format, lowercase=lowercase, min_count=1 if allowed.given else min_count)
    known = allowed.read(lowercase, text)
    seen = len(text.vocab)
    if known is not None:
        text = with_listed(text, known, min_count)
        text = text.compact() if only_seen else text
    model = build(text.vocab, tags, order, stop, known, allowed.given)
    say(f"{printable(file)}: {len(text):,} sentences, {text.tokens:,} words, {seen:,} types; {model!r}")
    return text, model


def model_for_stream(
    vocab_from: str,
    format: Format,
    allowed: Allowed,
    tags: int | None,
    order: int,
    stop: bool,
    min_count: int,
    lowercase: bool,
) -> Tagger:
    """The model by a vocabulary that is known beforehand; of a text, words that are not in it become one."""
    from ...data import Vocab
    from ...data.lines import UNKNOWN
    from ...models import Tagger

    saved = saved_model(vocab_from, Tagger)
    if saved is not None:
        known = allowed.read(lowercase, None)
        vocab = Vocab(dict.fromkeys([*saved.vocab, *([] if known is None else known.words)]), saved.vocab.unknown)
    else:
        least = min_count if allowed.given is None else 1
        text = read(vocab_from, format, lowercase=lowercase, min_count=least, unknown=UNKNOWN)
        known = allowed.read(lowercase, text)
        vocab = (text if known is None else with_listed(text, known, min_count)).vocab
    model = build(vocab, tags, order, stop, known, allowed.given)
    say(f"{printable(vocab_from)}: {len(vocab):,} types; {model!r}")
    return model


def identity_of(model: Tagger, text: Corpus | None) -> dict[str, Any]:
    """What makes a model and its text (or, of a stream, its vocabulary) the same: options by name, and checksums."""
    from ..training import digest

    mask = model.declarations()["emission"].layout.support
    names: list[str] = [] if isinstance(model.tags, int) else list(model.tags)  # type: ignore[call-overload]
    return {
        "--tags": model.states,
        "--order": model.order,
        "--stop": model.stop,
        **(
            {"vocabulary": digest(model.vocab)}
            if text is None
            else {"text": digest(text.words, text.offsets, text.vocab)}
        ),
        "dictionary": digest(names, [] if mask is None else mask.numpy()),
    }


def _check_size(tags: int, words: int, order: int) -> None:
    what = f"{tags:,} tags of order {order} over {words:,} words"
    check_memory(tags ** (order + 1) + tags * words, what, "take fewer tags, --order 1 or a higher --min-count")

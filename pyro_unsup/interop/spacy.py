"""Documents of spaCy, and pictures by its displaCy."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, Unpack

from ..data.options import Options
from ..errors import InputError
from .found import sentences

if TYPE_CHECKING:
    from ..data import Corpus
    from ..results import Fit

__all__ = ["displacy", "from_docs", "to_docs"]

#: The key of the constituents in ``doc.spans``, and what they are called; and the labels of arcs.
CONSTITUENTS, LABEL = "constituents", "X"
ROOT, ARC = "ROOT", "dep"


def to_docs(data: Corpus, fit: Fit | None = None, text: Corpus | None = None, vocab: Any = None) -> list[Any]:
    """One ``spacy.tokens.Doc`` a sentence: with the tags, heads and brackets of the text, or those that a fit finds.

    Tags are in ``token.tag_``, heads in ``token.head``, constituents in ``doc.spans["constituents"]``. With a fit, the
    posterior probability of each tag or head is in ``doc.user_data["probabilities"]``.

    :param data: a text.
    :param fit: a tagger, or a model of dependencies or constituents.
    :param text: the same sentences with the words and tags to show, for a model that reads tags instead of words.
    :param vocab: the ``Vocab`` of a spaCy pipeline; by default an empty one.

    >>> import pyro_unsup as pu
    >>> corpus = pu.data.Corpus.of(["the dog barks"], tags=["DET NOUN VERB"])
    >>> [token.tag_ for token in pu.interop.spacy.to_docs(corpus)[0]]
    ['DET', 'NOUN', 'VERB']
    """
    try:
        from spacy.tokens import Doc, Span
        from spacy.vocab import Vocab
    except ImportError as error:
        raise InputError("documents of spaCy need spacy; install it (pip install spacy)") from error
    vocab = Vocab() if vocab is None else vocab
    docs = []
    for one in sentences(data, fit, text):
        known: dict[str, Any] = {} if one.tags is None else {"tags": one.tags}
        if one.heads is not None and min(one.heads, default=0) >= 0:  # -1: a head that is not known
            known["heads"] = [place if head == 0 else head - 1 for place, head in enumerate(one.heads)]
            known["deps"] = [ROOT if head == 0 else ARC for head in one.heads]
        doc = Doc(vocab, words=one.words, **known)
        if one.spans is not None:
            doc.spans[CONSTITUENTS] = [Span(doc, start, end, label=LABEL) for start, end in one.spans]
        if one.probabilities is not None:
            doc.user_data["probabilities"] = one.probabilities
        docs.append(doc)
    return docs


def from_docs(docs: Iterable[Any], tag: Literal["pos", "tag"] = "pos", **options: Unpack[Options]) -> Corpus:
    """A corpus from documents of spaCy: their words, and tags and heads if the documents have them.

    A document whose sentences are marked gives one sentence for each. White space is left out.

    :param docs: such as ``nlp.pipe(texts)``.
    :param tag: ``"pos"`` for universal tags (``token.pos_``), ``"tag"`` for those of the language (``token.tag_``).
    :param options: see :class:`~pyro_unsup.data.options.Options`.

    >>> import pyro_unsup as pu
    >>> corpus = pu.data.Corpus.of(["the dog barks"], tags=["DET NOUN VERB"])
    >>> pu.interop.spacy.from_docs(pu.interop.spacy.to_docs(corpus), tag="tag") == corpus
    True
    """
    from ..data.lines import CorpusBuilder

    if tag not in ("pos", "tag"):
        raise InputError(f"tag must be 'pos' or 'tag', actual {tag!r}")
    builder, numbers = CorpusBuilder("documents", **options), count(1)
    for doc in docs:
        marked = doc.has_annotation("SENT_START")
        for sentence in doc.sents if marked else [doc]:
            tokens = [token for token in sentence if not token.text.isspace()]
            if not tokens:
                continue
            builder.add(
                [token.text for token in tokens],
                next(numbers),
                [getattr(token, f"{tag}_") for token in tokens] if doc.has_annotation(tag.upper()) else None,
                _heads(tokens) if doc.has_annotation("DEP") else None,
            )
    return builder.finish()


def _heads(tokens: list[Any]) -> list[int]:
    """The head of each token from 1, 0 for the root. Where a head is white space, that one's own head."""
    place = {token.i: number for number, token in enumerate(tokens, 1)}
    heads = []
    for token in tokens:
        head = token.head
        while head.text.isspace() and head.head.i != head.i:
            head = head.head
        heads.append(0 if head.i == token.i else place.get(head.i, 0))
    return heads


def displacy(data: Corpus, fit: Fit | None = None, sentence: int = 0, text: Corpus | None = None) -> dict[str, Any]:
    """A sentence as displaCy draws it: ``spacy.displacy.render(found, style="dep", manual=True)``.

    With a fit, each arc is labelled with its posterior probability.

    :param data: a text.
    :param fit: a model of dependencies, or a tagger; None for the heads and tags of the text.
    :param sentence: which one.
    :param text: the same sentences with the words and tags to show, for a model that reads tags instead of words.

    >>> import pyro_unsup as pu
    >>> corpus = pu.data.Corpus.of(["dogs bark"], tags=["NOUN VERB"])
    >>> pu.interop.spacy.displacy(corpus)["words"]
    [{'text': 'dogs', 'tag': 'NOUN'}, {'text': 'bark', 'tag': 'VERB'}]
    """
    if not 0 <= sentence < len(data):
        raise InputError(f"no sentence {sentence}: the text has {len(data)}, numbered from 0")
    only = [sentence]
    (one,) = sentences(data.select(only), fit, None if text is None else text.select(only))
    tags = one.tags or [""] * len(one.words)
    arcs = []
    for child, head in enumerate(one.heads or []):
        if head > 0:
            label = "" if one.probabilities is None else f"{one.probabilities[child]:.2f}"
            start, end = sorted((child, head - 1))
            arcs.append({"start": start, "end": end, "label": label, "dir": "left" if child < head - 1 else "right"})
    return {"words": [{"text": w, "tag": t} for w, t in zip(one.words, tags, strict=True)], "arcs": arcs}

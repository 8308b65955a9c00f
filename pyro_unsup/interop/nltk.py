"""Tagged sentences and trees of nltk."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

from ..data.options import Options
from ..errors import InputError, UnsupError
from .found import sentences

if TYPE_CHECKING:
    from ..data import Corpus
    from ..results import Fit

__all__ = ["from_tagged", "from_trees", "to_tagged", "to_trees"]


def from_tagged(tagged: Iterable[Iterable[tuple[str, str]]], **options: Unpack[Options]) -> Corpus:
    """A corpus from tagged sentences, as ``nltk.corpus.brown.tagged_sents()`` has them: lists of (word, tag).

    :param options: see :class:`~pyro_unsup.data.options.Options`.

    >>> import pyro_unsup as pu
    >>> pu.interop.nltk.from_tagged([[("the", "DT"), ("dog", "NN")]])
    Corpus(1 sentences, 2 tokens, 2 types, 2 tags)
    """
    from ..data import Corpus

    words, tags = [], []
    for number, sentence in enumerate(tagged, 1):
        try:
            pairs = [(str(word), str(tag)) for word, tag in sentence]
        except (TypeError, ValueError):
            raise InputError(
                f"sentence {number} should be a list of (word, tag) pairs, actual {sentence!r:.80}"
            ) from None
        words.append([word for word, _ in pairs])
        tags.append([tag for _, tag in pairs])
    return Corpus.of(words, tags, **options)


def to_tagged(data: Corpus, fit: Fit | None = None) -> list[list[tuple[str, str]]]:
    """Tagged sentences: with the tags of the text, or those that a tagger finds.

    :param data: a text.
    :param fit: a tagger.

    >>> import pyro_unsup as pu
    >>> pu.interop.nltk.to_tagged(pu.data.Corpus.of(["the dog"], tags=["DT NN"]))
    [[('the', 'DT'), ('dog', 'NN')]]
    """
    found = []
    for one in sentences(data, fit):
        if one.tags is None:
            raise InputError("the text has no tags; give the fit of a tagger to find some")
        found.append(list(zip(one.words, one.tags, strict=True)))
    return found


def from_trees(trees: Iterable[Any], **options: Unpack[Options]) -> Corpus:
    """A corpus from trees, as ``nltk.corpus.treebank.parsed_sents()`` has them: words, tags and brackets.

    Traces (``-NONE-``) are left out, and function tags are cut off, as :func:`.read_brackets` does. Words right under a
    constituent, with no tag of their own, give a text without tags.

    :param trees: of ``nltk.Tree``.
    :param options: see :class:`~pyro_unsup.data.options.Options`.

    >>> import nltk
    >>> import pyro_unsup as pu
    >>> tree = nltk.Tree.fromstring("(S (NP (DT the) (NN dog)) (VBZ barks))")
    >>> corpus = pu.interop.nltk.from_trees([tree])
    >>> corpus, corpus.spans.tolist()
    (Corpus(1 sentences, 3 tokens, 3 types, 3 tags, brackets), [[0, 2], [0, 3]])
    """
    from ..data.lines import CorpusBuilder

    builder = CorpusBuilder("trees", **options)
    for number, tree in enumerate(trees, 1):
        words, tags, spans = _flat(tree, number)
        if words:
            builder.add(words, number, tags, spans=spans)
    return builder.finish()


def _flat(tree: Any, number: int) -> tuple[list[str], list[str] | None, list[tuple[int, int]]]:
    """Words, tags and brackets of a tree. A stack instead of recursion, since trees may be deep."""
    from nltk.tree import Tree  # type: ignore[import-untyped]

    from ..data.brackets import TRACE, plain_tag

    if not isinstance(tree, Tree):
        raise InputError(f"tree {number} should be an nltk.Tree, actual {tree!r:.80}")
    words: list[str] = []
    tags: list[str] = []
    spans: set[tuple[int, int]] = set()
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple):  # a constituent ends here: where it began
            if len(words) - node[0] > 1:
                spans.add((node[0], len(words)))
        elif not isinstance(node, Tree):
            words.append(str(node))
        elif len(node) == 1 and not isinstance(node[0], Tree):
            if node.label() != TRACE:
                words.append(str(node[0]))
                tags.append(plain_tag(node.label()))
        else:
            waiting.append((len(words),))
            waiting.extend(reversed(node))
    if tags and len(tags) != len(words):
        raise InputError(f"tree {number} has {len(words)} words and {len(tags)} tags; tag all of its words or none")
    return words, tags or None, sorted(spans)


def to_trees(data: Corpus, fit: Fit | None = None, text: Corpus | None = None, label: str = "X") -> list[Any]:
    """One ``nltk.Tree`` a sentence: with the brackets of the text, or those that a model of constituents finds.

    :param data: a text.
    :param fit: of a ``CCM``, a ``DMVCCM`` or a ``PCFG``, which finds labels too.
    :param text: the same sentences with the words and tags to show, for a model that reads tags instead of words.
    :param label: what the constituents are called that have no label of their own.

    >>> import nltk
    >>> import pyro_unsup as pu
    >>> tree = nltk.Tree.fromstring("(X (X (DT the) (NN dog)) (VBZ barks))")
    >>> pu.interop.nltk.to_trees(pu.interop.nltk.from_trees([tree])) == [tree]
    True
    """
    from ..data import nltk_trees

    shown = data if text is None else text
    rows: list[tuple[int, int, int]] = []
    labels: list[str] = []
    for number, one in enumerate(sentences(data, fit, text)):
        if one.spans is None:
            what = "the text has no brackets; give" if fit is None else "the model finds no constituents; expected"
            raise UnsupError(f"{what} the fit of a CCM, DMVCCM or PCFG")
        rows += [(number, start, end) for start, end in one.spans]
        labels += one.labels or []
    return nltk_trees(shown, rows, labels if labels else label)

"""How well do dependency heads match gold heads? Scores of all sentences at once, and chains to compare with.

Which of two words is the head of the other is often a convention of the treebank (does the auxiliary head the verb, or
the verb the auxiliary?), and a parser that learns without it may well choose the other one. So there are three scores,
each more lenient than the one before.

**References:**

[1] D. Klein and C. D. Manning (2004) "Corpus-based induction of syntactic structure"
[2] R. Schwartz, O. Abend, R. Reichart and A. Rappoport (2011) "Neutralizing linguistically problematic annotations in
    unsupervised dependency parsing evaluation"
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.labels import Array, Ids, flat_ids
from pyro_unsup.evaluate.parsing import check_lengths
from pyro_unsup.evaluate.significance import SignTest, sign_test_tokens

if TYPE_CHECKING:
    import pandas

Measure: TypeAlias = Literal["directed", "undirected", "ned"]
MEASURES: tuple[Measure, ...] = ("directed", "undirected", "ned")


@dataclass(frozen=True)
class HeadCounts:
    """What each sentence contributes to the scores. All of shape (sentences,).

    :param lengths: words.
    :param scored: words that count: those with a known gold head.
    :param directed: of those, words with the right head.
    :param undirected: words whose head is the gold head or a gold child.
    :param ned: words whose head is the gold head, a gold child or the gold grandparent.

    >>> from pyro_unsup.evaluate import head_counts
    >>> counts = head_counts([2, 0, 0, 1], [2, 0, 2, 0], [2, 2])
    >>> counts.directed.tolist(), counts.undirected.tolist(), counts.select([0]).scores()["directed"]
    ([2, 0], [2, 1], 1.0)
    """

    lengths: Ids
    scored: Ids
    directed: Ids
    undirected: Ids
    ned: Ids

    def __len__(self) -> int:
        return len(self.lengths)

    def select(self, indices: Any) -> HeadCounts:
        """Those of some sentences."""
        return replace(self, **{name: getattr(self, name)[indices] for name in self.__dataclass_fields__})

    def scores(self) -> dict[str, float]:
        """``directed``, ``undirected``, ``ned``, ``sentences``, ``words``; see :func:`head_scores`."""
        total = int(self.scored.sum())
        if total == 0:
            raise UnsupError(f"no word with a gold head to score in {len(self)} sentences; score a treebank")
        shares: dict[str, float] = {name: float(getattr(self, name).sum() / total) for name in MEASURES}
        return {**shares, "sentences": len(self), "words": total}

    def by_length(self) -> pandas.DataFrame:
        """The scores of the sentences of each length: a row a length, with the columns of :meth:`scores`."""
        import pandas

        known = self.select(self.scored > 0)
        rows = {int(n): known.select(known.lengths == n).scores() for n in np.unique(known.lengths)}
        table = pandas.DataFrame.from_dict(rows, orient="index").astype({"sentences": int, "words": int})
        return table.rename_axis("length")


def head_scores(gold: Array, predicted: Array, lengths: Array, count_root: bool = True) -> dict[str, float]:
    """``directed``, ``undirected`` and ``ned`` accuracy, each over all words of the text; ``sentences``, ``words``.

    ``directed``: the head is the gold head. ``undirected``: or it is a gold child, so the two are linked in gold too.
    ``ned``, neutral edge direction: or it is the gold grandparent, as it must be where an arc above has been turned
    round; the root is the grandparent of whatever hangs on the root's word. Words whose gold head is not known (-1) are
    left out.

    :param gold: heads, shape (words,): 0 for the root, ``k`` for the ``k``-th word of the same sentence, -1 not known.
    :param predicted: likewise, shape (words,); -1 is wrong.
    :param lengths: words in each sentence, shape (sentences,).
    :param count_root: also score words whose gold head is the root. Most papers do; scores without compare with none
        of theirs.

    >>> from pyro_unsup.evaluate import head_scores
    >>> head_scores([2, 0, 2, 3], [0, 1, 2, 3], [4])  # a tree of four words with one arc turned round
    {'directed': 0.5, 'undirected': 0.75, 'ned': 1.0, 'sentences': 1, 'words': 4}
    """
    return head_counts(gold, predicted, lengths, count_root).scores()


def head_counts(gold: Array, predicted: Array, lengths: Array, count_root: bool = True) -> HeadCounts:
    """The counts behind :func:`head_scores`, sentence by sentence: for sign tests, and to resample.

    >>> from pyro_unsup.evaluate import head_counts
    >>> head_counts([2, 0, -1, 1], [2, 0, 0, 1], [2, 2]).scored.tolist()
    [2, 1]
    """
    words, scored, right = _judge(gold, predicted, lengths, count_root)
    return HeadCounts(words, *(_by_sentence(one, words) for one in (scored, *right.values())))


def sign_test_heads(
    gold: Array,
    first: Array,
    second: Array,
    lengths: Array,
    by: Literal["sentences", "words"] = "sentences",
    measure: Measure = "directed",
    count_root: bool = True,
) -> SignTest:
    """Is one parser better than another by more than luck?

    :param gold: heads, shape (words,), as for :func:`head_scores`.
    :param first: heads that the first predicts, shape (words,).
    :param second: those that the second predicts, shape (words,).
    :param lengths: words in each sentence, shape (sentences,).
    :param by: ``"sentences"``: the parser with more right heads in a sentence wins it; ``"words"``: each word that only
        one of them has right is a win for that one. Words of one sentence are not independent, so the first is safer.
    :param measure: what is right.
    :param count_root: also compare words whose gold head is the root.

    >>> from pyro_unsup.evaluate import sign_test_heads
    >>> sign_test_heads([2, 0, 0, 1], [2, 0, 0, 1], [0, 1, 0, 1], [2, 2])
    SignTest(wins=1, losses=0, ties=1, p_value=1.0)
    """
    if measure not in MEASURES:
        raise UnsupError(f"measure must be one of {', '.join(MEASURES)}, actual {measure!r:.80}")
    if by not in ("sentences", "words"):
        raise UnsupError(f"by must be 'sentences' or 'words', actual {by!r:.80}")
    (words, scored, ours), (_, _, theirs) = (_judge(gold, one, lengths, count_root) for one in (first, second))
    lead = ours[measure].astype(np.int64) - theirs[measure]
    lead = _by_sentence(lead, words)[_by_sentence(scored, words) > 0] if by == "sentences" else lead[scored]
    if lead.size == 0:
        raise UnsupError("no word with a gold head to compare by; score a treebank")
    # A unit is right for whoever is not behind on it.
    return sign_test_tokens(np.zeros_like(lead), (lead < 0).astype(np.int64), (lead > 0).astype(np.int64))


def chain_to_next(lengths: Array) -> Ids:  # (sentences,) -> (words,)
    """Every word's head is the next word, and the last word is the root. For English this is hard to beat.

    >>> from pyro_unsup.evaluate import chain_to_next
    >>> chain_to_next([3, 1]).tolist()
    [2, 3, 0, 0]
    """
    words = check_lengths(lengths)
    heads = _places(words) + 1
    heads[np.cumsum(words)[words > 0] - 1] = 0
    return heads


def chain_to_previous(lengths: Array) -> Ids:  # (sentences,) -> (words,)
    """Every word hangs on the one before it, and the first is the root.

    >>> from pyro_unsup.evaluate import chain_to_previous
    >>> chain_to_previous([3, 1]).tolist()
    [0, 1, 2, 0]
    """
    return _places(check_lengths(lengths)) - 1


def check_heads(heads: Array, words: Ids, name: str) -> Ids:
    """Heads as int64, shape (words,): -1, 0, or the number of another word of the sentence."""
    found = flat_ids(heads, name, least=-1)
    total = int(words.sum())
    if len(found) != total:
        raise UnsupError(f"{name} has {len(found)} heads but the sentences have {total} words: give one a word")
    bad = np.flatnonzero((found > np.repeat(words, words)) | (found == _places(words)))
    if bad.size:
        sentence = int(np.searchsorted(np.cumsum(words), bad[0], side="right"))
        raise UnsupError(
            f"{name} has head {found[bad[0]]} for word {_places(words)[bad[0]]} of sentence {sentence}, expected "
            f"another of its {words[sentence]} words, or 0 for the root"
        )
    return found


def _judge(
    gold: Array, predicted: Array, lengths: Array, count_root: bool
) -> tuple[Ids, NDArray[np.bool_], dict[Measure, NDArray[np.bool_]]]:
    """Lengths, which words count, and of those which are right by each measure."""
    words = check_lengths(lengths)
    right, found = check_heads(gold, words, "gold"), check_heads(predicted, words, "predicted")
    scored = right >= (0 if count_root else 1)
    starts = np.repeat(np.cumsum(words) - words, words)

    def above(place: Ids) -> Ids:
        """The gold head of the word at this place; -1 for what is no word."""
        return np.where(place > 0, right[np.where(place > 0, starts + place - 1, 0)], -1)

    directed = scored & (found == right)
    undirected = directed | (scored & (above(found) == _places(words)))
    ned = undirected | (scored & (found >= 0) & (above(right) == found))
    return words, scored, {"directed": directed, "undirected": undirected, "ned": ned}


def _places(words: Ids) -> Ids:
    """The number of every word in its sentence, from 1."""
    return np.arange(1, int(words.sum()) + 1) - np.repeat(np.cumsum(words) - words, words)


def _by_sentence(values: NDArray[Any], words: Ids) -> Ids:
    """Sums over sentences."""
    return np.diff(np.concatenate(([0], np.cumsum(values, dtype=np.int64)))[np.concatenate(([0], np.cumsum(words)))])

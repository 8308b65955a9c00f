"""How well do brackets match gold brackets? Unlabelled scores on rows (sentence, start, end), all sentences at once.

Which brackets count, and what is averaged, differs between papers, and moves scores by ten points and more. So each
convention has a name (:data:`VARIANTS`), and no two of them can be compared. None counts brackets of one word, or a
bracket twice.

**References:**

[1] E. Black et al. (1991) "A procedure for quantitatively comparing the syntactic coverage of English grammars"
[2] D. Klein and C. D. Manning (2002) "A generative constituent-context model for improved grammar induction"
[3] D. Klein and C. D. Manning (2004) "Corpus-based induction of syntactic structure"
[4] N. A. Smith and J. Eisner (2004) "Annealing techniques for unsupervised statistical language learning", 6.2
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pyro_unsup.data.spans import Rows, check_nested, crosses, tidy_rows
from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.labels import Array, Ids, to_numpy
from pyro_unsup.evaluate.significance import SignTest, sign_test_tokens

Variant: TypeAlias = Literal["smith_eisner_2004", "klein_manning_2004", "klein_manning_2002"]


@dataclass(frozen=True)
class Convention:
    """What counts.

    :param whole: brackets around a whole sentence do.
    :param by_sentence: recall and precision are means over sentences, not over brackets.
    """

    whole: bool
    by_sentence: bool


VARIANTS: dict[Variant, Convention] = {
    "smith_eisner_2004": Convention(whole=False, by_sentence=False),
    "klein_manning_2004": Convention(whole=True, by_sentence=False),
    "klein_manning_2002": Convention(whole=False, by_sentence=True),
}


@dataclass(frozen=True)
class BracketCounts:
    """What each sentence contributes to a score. All of shape (sentences,).

    :param gold: gold brackets.
    :param predicted: predicted brackets.
    :param matched: predicted brackets that are gold ones.
    :param crossing: predicted brackets that cross a gold one.
    :param variant: the convention they were counted by.

    >>> from pyro_unsup.evaluate import bracket_counts
    >>> counts = bracket_counts([[0, 0, 2], [1, 1, 3]], [[0, 1, 3], [1, 1, 3]], [3, 3])
    >>> counts.matched.tolist(), counts.crossing.tolist(), counts.select([1]).scores()["f1"]
    ([0, 1], [1, 0], 1.0)
    """

    gold: Ids
    predicted: Ids
    matched: Ids
    crossing: Ids
    variant: Variant = "smith_eisner_2004"

    def __len__(self) -> int:
        return len(self.gold)

    def select(self, indices: Any) -> BracketCounts:
        """Those of some sentences."""
        names = ("gold", "predicted", "matched", "crossing")
        return replace(self, **{name: getattr(self, name)[indices] for name in names})

    def scores(self) -> dict[str, float]:
        """``recall``, ``precision``, ``f1`` (their harmonic mean), ``crossing``, ``sentences``; see
        :func:`bracket_scores`."""
        some = (self.gold + self.predicted) > 0
        if not some.any():
            raise UnsupError(
                f"no bracket to score in {len(self)} sentences: single words never count, whole sentences only by "
                "klein_manning_2004; score longer sentences"
            )
        if VARIANTS[self.variant].by_sentence:
            recall = float(np.mean(_share(self.matched[some], self.gold[some])))
            precision = float(np.mean(_share(self.matched[some], self.predicted[some])))
        else:
            recall = float(_share(self.matched.sum(), self.gold.sum()))
            precision = float(_share(self.matched.sum(), self.predicted.sum()))
        total = recall + precision
        return {
            "recall": recall,
            "precision": precision,
            "f1": 2 * recall * precision / total if total > 0 else 0.0,
            "crossing": float(self.crossing.mean()),
            "sentences": len(self),
        }


def bracket_scores(
    gold: Array, predicted: Array, lengths: Array, variant: Variant = "smith_eisner_2004"
) -> dict[str, float]:
    """``recall``, ``precision``, ``f1``, ``crossing`` and ``sentences``, by one of the conventions.

    ``smith_eisner_2004``: over all brackets of the text, without those of whole sentences. ``klein_manning_2004``: with
    them. ``klein_manning_2002``: without them, recall and precision of each sentence that has a bracket, averaged, and
    ``f1`` from the averages. Where nothing is to be found recall is 1, and where nothing is claimed precision is.

    ``crossing`` is the number of predicted brackets that cross a gold one, a sentence, on average over all sentences,
    however short.

    :param gold: rows of sentence, start and end, shape (brackets, 3); unary chains and repetitions count once.
    :param predicted: likewise, shape (brackets, 3).
    :param lengths: words in each sentence, shape (sentences,).
    :param variant: the convention.

    >>> from pyro_unsup.evaluate import bracket_scores
    >>> scores = bracket_scores([[0, 0, 4], [0, 1, 3]], [[0, 0, 4], [0, 1, 4], [0, 1, 3]], [4])
    >>> scores["recall"], scores["precision"], scores["crossing"]
    (1.0, 0.5, 0.0)
    """
    return bracket_counts(gold, predicted, lengths, variant).scores()


def labelled_scores(
    gold: Array, gold_labels: Array, predicted: Array, labels: Array, lengths: Array
) -> dict[str, float]:
    """``labelled_recall``, ``labelled_precision`` and ``labelled_f1`` of brackets with labels, many to one.

    An induced label is a name without a meaning. Each counts as the gold label that it meets most often, over all
    brackets that are in both. Brackets of single words and whole sentences do not count. More labels can only help, so
    compare runs with the same number of them.

    :param gold: rows of sentence, start and end, shape (brackets, 3), each bracket once.
    :param gold_labels: of these, strings or numbers, shape (brackets,).
    :param predicted: likewise, shape (brackets, 3).
    :param labels: of these, shape (brackets,).
    :param lengths: words in each sentence, shape (sentences,).

    >>> from pyro_unsup.evaluate import labelled_scores
    >>> gold, found = [[0, 0, 2], [0, 2, 4], [1, 1, 3]], [[0, 0, 2], [0, 2, 4], [1, 0, 2]]
    >>> labelled_scores(gold, ["NP", "VP", "NP"], found, [5, 5, 6], [4, 3])["labelled_f1"]  # 5 is NP or VP, once right
    0.3333333333333333
    """
    words = check_lengths(lengths)
    sides = []
    for what, rows, names in (("gold", gold, gold_labels), ("predicted", predicted, labels)):
        array, given = to_numpy(rows).reshape(-1, 3), np.asarray(names)
        if given.shape != (len(array),):
            raise UnsupError(f"{what}: expected one label for each of the {len(array)} brackets, actual {given.shape}")
        tidy_rows(array, words, what)
        width = array[:, 2] - array[:, 1]
        inner = (width > 1) & (width < words[array[:, 0]])
        sides.append(dict(zip(map(tuple, array[inner].tolist()), given[inner].tolist(), strict=True)))
    right, found = sides
    if not right and not found:
        raise UnsupError("no bracket to score: single words and whole sentences never count; score longer sentences")
    met = Counter((label, right[row]) for row, label in found.items() if row in right)
    best: dict[Any, int] = {}
    for (label, _), many in met.items():
        best[label] = max(best.get(label, 0), many)
    matched = sum(best.values())
    recall, precision = (float(_share(matched, len(side))) for side in (right, found))
    total = recall + precision
    f1 = 2 * recall * precision / total if total > 0 else 0.0
    return {"labelled_recall": recall, "labelled_precision": precision, "labelled_f1": f1}


def bracket_counts(
    gold: Array, predicted: Array, lengths: Array, variant: Variant = "smith_eisner_2004"
) -> BracketCounts:
    """The counts behind :func:`bracket_scores`, sentence by sentence: for sign tests, and to resample.

    >>> from pyro_unsup.evaluate import bracket_counts
    >>> bracket_counts([[0, 0, 4], [0, 1, 3]], [[0, 1, 4], [0, 1, 3]], [4]).predicted.tolist()
    [2]
    """
    words, right, found = _pair(gold, predicted, lengths, variant)
    matched = found[_among(found, right, words)]
    crossing = found[crosses(found, right, words)]
    g, p, m, c = (np.bincount(rows[:, 0], minlength=len(words)) for rows in (right, found, matched, crossing))
    return BracketCounts(g, p, m, c, variant)


def sign_test_parses(
    gold: Array,
    first: Array,
    second: Array,
    lengths: Array,
    by: Literal["matches", "crossings", "brackets"] = "matches",
    variant: Variant = "smith_eisner_2004",
) -> SignTest:
    """Is one parser better than another by more than luck?

    :param gold: rows of sentence, start and end, shape (brackets, 3).
    :param first: what the first predicts, rows of shape (brackets, 3).
    :param second: what the second predicts, shape (brackets, 3).
    :param lengths: words in each sentence, shape (sentences,).
    :param by: ``"matches"``: the parser with more gold brackets in a sentence wins it; ``"crossings"``: the one with
        fewer crossing brackets does; ``"brackets"``: each gold bracket that only one of them finds is a win for that
        one. Brackets of one sentence are not independent, so the first two are safer.
    :param variant: what counts, see :func:`bracket_scores`.

    >>> from pyro_unsup.evaluate import sign_test_parses
    >>> sign_test_parses([[0, 0, 2], [1, 1, 3]], [[0, 0, 2], [1, 1, 3]], [[0, 1, 3], [1, 1, 3]], [3, 3])
    SignTest(wins=1, losses=0, ties=1, p_value=1.0)
    """
    if by == "brackets":
        (words, right, one), (_, _, two) = (_pair(gold, rows, lengths, variant) for rows in (first, second))
        lead = _among(right, one, words).astype(np.int64) - _among(right, two, words)
    elif by in ("matches", "crossings"):
        ours, theirs = (bracket_counts(gold, rows, lengths, variant) for rows in (first, second))
        lead = ours.matched - theirs.matched if by == "matches" else theirs.crossing - ours.crossing
    else:
        raise UnsupError(f"by must be 'matches', 'crossings' or 'brackets', actual {by!r:.80}")
    # A unit is right for whoever is not behind on it.
    return sign_test_tokens(np.zeros_like(lead), (lead < 0).astype(np.int64), (lead > 0).astype(np.int64))


def left_branching(lengths: Array) -> Rows:  # (sentences,) -> (brackets, 3)
    """Every bracket from the start of its sentence on: the tree of a language that puts heads last.

    >>> from pyro_unsup.evaluate import left_branching
    >>> left_branching([4]).tolist()
    [[0, 0, 2], [0, 0, 3], [0, 0, 4]]
    """
    owner, place = _inner(check_lengths(lengths))
    return np.column_stack((owner, np.zeros_like(place), place + 1))


def right_branching(lengths: Array) -> Rows:  # (sentences,) -> (brackets, 3)
    """Every bracket to the end of its sentence: hard to beat for English.

    >>> from pyro_unsup.evaluate import right_branching
    >>> right_branching([4]).tolist()
    [[0, 0, 4], [0, 1, 4], [0, 2, 4]]
    """
    words = check_lengths(lengths)
    owner, place = _inner(words)
    return np.column_stack((owner, place - 1, words[owner]))


def upper_bound(gold: Array, lengths: Array) -> Rows:  # (brackets, 3), (sentences,) -> (brackets, 3)
    """Binary trees with all the gold brackets in them: the best that a parser of binary trees can do.

    Their recall is 1; their precision shows how flat the gold trees are. Flat brackets branch to the right here, which
    no score notices.

    >>> from pyro_unsup.evaluate import upper_bound
    >>> upper_bound([[0, 0, 5], [0, 1, 3]], [5]).tolist()
    [[0, 0, 5], [0, 1, 3], [0, 1, 5], [0, 3, 5]]
    """
    words = check_lengths(lengths)
    rows = tidy_rows(to_numpy(gold), words, "gold")
    check_nested(rows, words, "gold")
    everything = np.column_stack((np.arange(len(words)), np.zeros_like(words), words))[words > 1]
    rows = np.concatenate((rows, everything))
    # The smallest bracket around a place between two words is the one that splits there: what is right of the place
    # becomes a bracket, if it is not one already.
    inner = rows[:, 2] - rows[:, 1] - 1
    which = np.repeat(np.arange(len(rows)), inner)
    place = rows[which, 1] + 1 + np.arange(len(which)) - np.repeat(np.cumsum(inner) - inner, inner)
    base = np.concatenate(([0], np.cumsum(words + 1)))
    end = np.full(base[-1], base[-1])
    np.minimum.at(end, base[rows[which, 0]] + place, rows[which, 2])  # nested: the smallest is the first to end
    owner, place = _inner(words)
    added = np.column_stack((owner, place, end[base[owner] + place]))
    return tidy_rows(np.concatenate((rows, added)), words, "gold")


def _pair(gold: Array, predicted: Array, lengths: Array, variant: Variant) -> tuple[Ids, Rows, Rows]:
    """Lengths, and the brackets of both sides that count."""
    if variant not in VARIANTS:
        raise UnsupError(f"variant must be one of {', '.join(VARIANTS)}, actual {variant!r:.80}")
    words = check_lengths(lengths)
    sides = [tidy_rows(to_numpy(rows), words, name) for name, rows in (("gold", gold), ("predicted", predicted))]
    if not VARIANTS[variant].whole:
        sides = [rows[rows[:, 2] - rows[:, 1] < words[rows[:, 0]]] for rows in sides]
    return words, sides[0], sides[1]


def check_lengths(lengths: Array) -> Ids:
    """Lengths as int64, shape (sentences,)."""
    words = to_numpy(lengths)
    if words.ndim != 1 or words.size == 0 or words.dtype.kind not in "iu" or words.min() < 0:
        raise UnsupError(
            f"lengths must be whole numbers, one a sentence, shape (sentences,), actual {words.dtype} of shape "
            f"{words.shape}"
        )
    return words.astype(np.int64)


def _inner(words: Ids) -> tuple[Ids, Ids]:
    """The places between two words of a sentence, all sentences end to end: the sentence, and words before it."""
    inner = np.maximum(words - 1, 0)
    owner = np.repeat(np.arange(len(words)), inner)
    return owner, 1 + np.arange(len(owner)) - (np.cumsum(inner) - inner)[owner]


def _among(rows: Rows, others: Rows, words: Ids) -> NDArray[np.bool_]:  # (m, 3), (k, 3) -> (m,)
    side = int(words.max()) + 1
    one, other = ((x[:, 0] * side + x[:, 1]) * side + x[:, 2] for x in (rows, others))
    return np.isin(one, other)


def _share(part: Any, whole: Any) -> NDArray[np.float64]:
    """Part of a whole; of nothing, all."""
    total = np.asarray(whole, np.float64)
    share: NDArray[np.float64] = np.divide(part, total, out=np.ones_like(total), where=total > 0)
    return share

"""How well do induced clusters match gold tags? Scores on flat arrays of ids, all read off one contingency table.

Every score is a fraction of 1 or a number of bits. Arrays may be numpy or torch. No score tells the whole story:
many-to-one rewards using many clusters and variation of information rewards using few, so show them side by side
(:func:`tagging_report` does).

**References:**

[1] Rosenberg and Hirschberg (2007) "V-measure: a conditional entropy-based external cluster evaluation measure"
[2] Meila (2007) "Comparing clusterings: an information based distance"
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.labels import (
    UNMAPPED,
    Array,
    Ids,
    Map,
    best_map,
    contingency,
    flat_ids,
    hits,
    pair,
    same_length,
    to_numpy,
)

ROW_TOLERANCE = 1e-3  # float32 marginals of long sentences sum to 1 within this
CHUNK = 2**16  # rows of marginals turned to entropies at a time, to bound memory


def _mapped_accuracy(table: Ids, how: Map) -> float:
    return float(hits(table, best_map(table, how)).sum() / table.sum())


def _conditional_entropies(table: Ids) -> tuple[float, float]:
    """H(gold | predicted) and H(predicted | gold) in bits.

    Each term is a count times log2 of a ratio of two counts, so equal clusterings score 0 exactly.
    """
    rows, columns = np.nonzero(table)
    counts = table[rows, columns].astype(np.float64)
    weights = counts / counts.sum()
    given_predicted = np.dot(weights, np.log2(table.sum(axis=0)[columns] / counts))
    given_gold = np.dot(weights, np.log2(table.sum(axis=1)[rows] / counts))
    return float(given_predicted), float(given_gold)


def _entropy(counts: Ids) -> float:
    p = counts[counts > 0] / counts.sum()
    return float(-np.dot(p, np.log2(p)))


def _v_measure(table: Ids) -> float:
    given_predicted, given_gold = _conditional_entropies(table)
    gold, predicted = _entropy(table.sum(axis=1)), _entropy(table.sum(axis=0))
    homogeneity = 1.0 if gold == 0 else max(0.0, 1 - given_predicted / gold)
    completeness = 1.0 if predicted == 0 else max(0.0, 1 - given_gold / predicted)
    total = homogeneity + completeness
    return 0.0 if total == 0 else 2 * homogeneity * completeness / total


def many_to_one(gold: Array, predicted: Array) -> float:  # (tokens,), (tokens,)
    """Accuracy when each cluster takes its most frequent gold tag. Never falls when a cluster is split.

    >>> from pyro_unsup.evaluate import many_to_one
    >>> many_to_one([0, 0, 1, 1], [0, 0, 0, 1])
    0.75
    """
    return _mapped_accuracy(contingency(gold, predicted), "many_to_one")


def one_to_one(gold: Array, predicted: Array) -> float:  # (tokens,), (tokens,)
    """Accuracy under the best matching of clusters to gold tags, each used at most once (the Hungarian method).

    >>> from pyro_unsup.evaluate import one_to_one
    >>> one_to_one([0, 0, 1, 1], [0, 1, 2, 2])
    0.75
    """
    return _mapped_accuracy(contingency(gold, predicted), "one_to_one")


def v_measure(gold: Array, predicted: Array) -> float:  # (tokens,), (tokens,)
    """Harmonic mean of homogeneity, 1 - H(gold | predicted) / H(gold), and completeness, the other way round [1].

    >>> from pyro_unsup.evaluate import v_measure
    >>> v_measure([0, 0, 1, 1], [5, 5, 2, 2]), v_measure([0, 0, 1, 1], [0, 1, 0, 1])
    (1.0, 0.0)
    """
    return _v_measure(contingency(gold, predicted))


def variation_of_information(gold: Array, predicted: Array) -> float:  # (tokens,), (tokens,)
    """H(gold | predicted) + H(predicted | gold) in bits, a distance between clusterings [2]. Lower is better.

    Never quote it alone: all tokens in one cluster score H(gold), which beats many a useful tagging.

    >>> from pyro_unsup.evaluate import variation_of_information
    >>> variation_of_information([0, 0, 1, 1], [0, 1, 0, 1])
    2.0
    """
    return sum(_conditional_entropies(contingency(gold, predicted)))


def clusters_used(predicted: Array) -> int:  # (tokens,)
    """The number of different clusters that occur.

    >>> from pyro_unsup.evaluate import clusters_used
    >>> clusters_used([7, 7, 0, 3])
    3
    """
    return int(np.unique(flat_ids(predicted, "predicted")).size)


def accuracy(gold: Array, predicted: Array) -> float:  # (tokens,), (tokens,)
    """Share of tokens with the right tag; both sides number the same tags. A prediction of -1 (no tag) is wrong.

    >>> from pyro_unsup.evaluate import accuracy
    >>> accuracy([0, 0, 1, 1], [0, 1, 1, -1])
    0.5
    """
    gold, predicted = pair(gold, predicted, least=UNMAPPED)
    return float(np.mean(gold == predicted))


def accuracy_ambiguous(gold: Array, predicted: Array, ambiguous: Array) -> float:
    """Accuracy on the tokens whose word has more than one tag in the dictionary.

    :param gold: gold tag ids, shape (tokens,).
    :param predicted: likewise, shape (tokens,); -1 is wrong.
    :param ambiguous: which tokens those are, boolean, shape (tokens,).

    >>> import numpy as np
    >>> from pyro_unsup.evaluate import accuracy_ambiguous
    >>> accuracy_ambiguous([0, 0, 1, 1], [0, 1, 1, 1], np.array([False, True, True, False]))
    0.5
    """
    gold, predicted = pair(gold, predicted, least=UNMAPPED)
    mask = _mask(ambiguous, gold.shape[0])
    if not mask.any():
        raise UnsupError("no token is ambiguous: the accuracy on ambiguous tokens is undefined")
    return accuracy(gold[mask], predicted[mask])


def _mask(ambiguous: Array, tokens: int) -> NDArray[np.bool_]:
    mask = to_numpy(ambiguous)
    if mask.dtype != np.bool_ or mask.ndim != 1:
        raise UnsupError(f"ambiguous must be a flat boolean array, actual type {mask.dtype}, shape {mask.shape}")
    same_length(tokens, mask, "ambiguous")
    return mask


def bits_per_word(log_likelihood: float, tokens: int) -> float:
    """Cross-entropy in bits per word.

    :param log_likelihood: of the whole text, natural logarithm.
    :param tokens: number of words in that text.

    >>> import math
    >>> from pyro_unsup.evaluate import bits_per_word
    >>> round(bits_per_word(-math.log(8), tokens=2), 12)
    1.5
    """
    if tokens < 1:
        raise UnsupError(f"bits_per_word needs at least 1 token, got {tokens}")
    if math.isnan(log_likelihood):
        raise UnsupError("the log-likelihood is NaN")
    return -float(log_likelihood) / (tokens * math.log(2))


def tag_entropy(marginals: Array) -> float:
    """Mean entropy of the posterior over tags, in bits per word: how unsure the model still is.

    :param marginals: posterior probability of each tag at each token, shape (tokens, K).

    >>> from pyro_unsup.evaluate import tag_entropy
    >>> tag_entropy([[0.5, 0.5], [1.0, 0.0]])
    0.5
    """
    p = to_numpy(marginals)
    if p.ndim != 2 or p.size == 0:
        raise UnsupError(f"marginals must have shape (tokens, K) and at least one entry, actual shape {p.shape}")
    bits = 0.0
    for start in range(0, p.shape[0], CHUNK):
        rows = p[start : start + CHUNK].astype(np.float64)
        sums = rows.sum(axis=1)
        bad = ~((np.abs(sums - 1) <= ROW_TOLERANCE) & (rows >= -ROW_TOLERANCE).all(axis=1))
        if bad.any():
            token = int(np.argmax(bad))
            raise UnsupError(
                f"marginals of token {start + token} are no distribution: they sum to {sums[token]:.6g}, the least is"
                f" {rows[token].min():.6g} (probabilities are expected, not logarithms)"
            )
        rows = np.clip(rows, 0, 1)
        bits -= float(np.sum(rows * np.log2(rows, where=rows > 0, out=np.zeros_like(rows))))
    return bits / len(p)


def tagging_report(
    gold: Array,
    predicted: Array,
    *,
    same_tags: bool = False,
    ambiguous: Array | None = None,
    log_likelihood: float | None = None,
) -> dict[str, float]:
    """All the scores that apply, by name.

    :param gold: gold tag ids, shape (tokens,).
    :param predicted: cluster ids, shape (tokens,).
    :param same_tags: the ids of both sides name the same tags (a dictionary was used), so accuracy makes sense.
    :param ambiguous: tokens whose word has several tags, boolean, shape (tokens,); needs ``same_tags``.
    :param log_likelihood: of exactly these tokens, natural logarithm.

    >>> from pyro_unsup.evaluate import tagging_report
    >>> report = tagging_report([0, 0, 1, 1], [1, 1, 0, 0])
    >>> report["many_to_one"], report["vi_bits"], report["clusters_used"]
    (1.0, 0.0, 2)
    """
    gold, predicted = pair(gold, predicted)
    if ambiguous is not None and not same_tags:
        raise UnsupError("accuracy on ambiguous tokens needs predictions in the gold tag set: pass same_tags=True")
    table = contingency(gold, predicted)
    report: dict[str, float] = {
        "many_to_one": _mapped_accuracy(table, "many_to_one"),
        "one_to_one": _mapped_accuracy(table, "one_to_one"),
        "v_measure": _v_measure(table),
        "vi_bits": sum(_conditional_entropies(table)),
        "clusters_used": int(np.count_nonzero(table.any(axis=0))),
    }
    if same_tags:
        report["accuracy"] = accuracy(gold, predicted)
    if ambiguous is not None and (mask := _mask(ambiguous, gold.shape[0])).any():
        report["accuracy_ambiguous"] = accuracy(gold[mask], predicted[mask])
    if log_likelihood is not None:
        report["bits_per_word"] = bits_per_word(log_likelihood, gold.shape[0])
    return report

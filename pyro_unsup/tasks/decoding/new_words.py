"""Which tags a word may have that a tagger has never met: its ending and its shape tell.

A tagger that was trained with features has weights for the ending and the shape of any word (:func:`by_features`):

    p(w | t) ~ exp(sum of the weights of the features of w with t)

where the feature of the word itself, which was never seen, has weight zero. Without features, known words decide
(:func:`emissions`). p(t) is how often the chain visits a tag. p(t | v) ~ p(v | t) p(t) are the tags of a known word v.
A new word w has the tags of the known words that look like it:

    p(t | w) = mean of p(t | v) over the words v with the same shape and the same last three letters

The shape is whether a word begins with a capital, has a digit, has a hyphen. Every word counts once, however common it
is. So classes of few words, such as determiners, get little. Where few words look the same, shorter endings decide:

    p_n(t | w) = (words with the same n letters * their mean + BACKED_OFF * p_{n-1}(t | w)) / (these words + BACKED_OFF)

for n = 3, 2, 1, then the shape alone, then all words. The weight of the word is p(t | w) / p(t), which is p(w | t) up
to a constant: the chain does the rest.

If rare words became one unknown symbol u in training, that symbol tells which tags rare words have. So does the look
of the word, and p(t | w) is multiplied by p(t | u) / (mean of p(t | v) over all words v). That is right if both tell
about the tag on their own. With a dictionary the unknown symbol counts as one word among all words: it may have any
tag there, and EM often gives it a tag of few words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...estimate import FeatureNames
from ...estimate.templates.tagging import word_function

Array = np.ndarray[Any, Any]

#: As much as this many words counts what shorter endings say.
BACKED_OFF = 5.0
#: The length of a sentence where a model does not know ends of sentences. It makes every tag of a start count.
SENTENCE = 20
STEPS = 200  # of the chain, at most
CLOSE = 1e-9


def emissions(
    known: Sequence[str], weights: Mapping[str, Tensor], order: int, new: Sequence[str], unknown: str | None = None
) -> Tensor:
    """(tags, new words) log-weights of words that the model has not met.

    :param known: the words of the model.
    :param weights: its tables.
    :param new: the others.
    :param unknown: the symbol that rare words became in training, if it tells which tags they have.
    """
    tags = visits(weights, order)  # (tags,)
    joint = weights["emission"].double().softmax(-1).nan_to_num().cpu().numpy() * tags[:, None]  # (tags, words)
    total = joint.sum(0)
    met = np.flatnonzero(total > 0)
    by_word = (joint[:, met] / total[met]).T  # (words, tags)
    looks = _looks([known[int(i)] for i in met])
    wanted = _looks(new)
    found = np.tile(by_word.mean(0) if met.size else tags, (len(new), 1))  # (new words, tags)
    for mine, theirs in zip(wanted, looks, strict=True):
        names = {name: k for k, name in enumerate(dict.fromkeys(mine))}
        rows = np.array([names.get(name, -1) for name in theirs], np.int64)
        sums, counts = np.zeros((len(names), len(tags))), np.zeros(len(names))
        np.add.at(sums, rows[rows >= 0], by_word[rows >= 0])
        np.add.at(counts, rows[rows >= 0], 1.0)
        here = [names[name] for name in mine]
        found = (sums[here] + BACKED_OFF * found) / (counts[here, None] + BACKED_OFF)
    rare = known.index(unknown) if unknown in known else -1
    if rare in met:
        mean = by_word.mean(0)
        found = found * np.divide(joint[:, rare] / total[rare], mean, out=np.zeros_like(mean), where=mean > 0)
        found /= np.maximum(found.sum(1, keepdims=True), 1e-300)
    with np.errstate(divide="ignore"):
        return torch.from_numpy((np.log(found) - np.log(np.maximum(tags, 1e-300))).T.copy())


def by_features(
    names: FeatureNames, w: Tensor, emission: Tensor, tags: Sequence[Any], known: Sequence[str], new: Sequence[str]
) -> Tensor | None:
    """(tags, new words) log-weights of words that the model has not met, by the weights of their features.

    None if the features are not those of :func:`pyro_unsup.templates.tagging`: a fit keeps the names of its features,
    not the functions that find them in a word. So the table that the features give known words is compared with the
    table of the fit.

    :param names: of the features.
    :param w: (features,) their weights.
    :param emission: (tags, known words) the log-weights that they stand for.
    :param tags: the labels of tags that features speak of.
    :param known: the words of the model.
    :param new: the others.
    """
    logits = _logits(names, w, tags, [*known, *new])
    if logits is None:
        return None
    table = emission.double()
    mine = logits[:, : len(known)].where(table > -torch.inf, -torch.inf)
    total = mine.logsumexp(-1, keepdim=True)
    if not torch.allclose((mine - total).exp(), table.exp(), rtol=1e-3, atol=1e-9):
        return None
    return logits[:, len(known) :] - total


def _logits(names: FeatureNames, w: Tensor, tags: Sequence[Any], words: Sequence[str]) -> Tensor | None:
    """(tags, words) sums of the weights of features; None if the features of a template cannot be found again."""
    number = {tag: k for k, tag in enumerate(tags)}
    found = np.zeros((len(words), len(tags)))
    for family in names.families:
        if family.table != "emission":
            continue
        longest = max((len(value) for value in family.decisions if isinstance(value, str)), default=0)
        function = word_function(family.template, longest)
        if function is None or family.axes != ("tag", "word"):
            return None
        numbers = np.arange(family.size)
        if family.pairs is None:
            values, contexts = np.divmod(numbers, len(family.contexts))
        else:
            contexts, values = family.pairs.T
        weights = np.zeros((len(family.decisions), len(tags)))  # of each value, by tag
        weights[values, np.array([number[tag] for (tag,) in family.contexts])[contexts]] = w[family.at(numbers)]
        place = {value: k for k, value in enumerate(family.decisions)}
        for i, word in enumerate(words):
            seen = function(word)
            fired = [place[one] for one in (seen if isinstance(seen, list) else [seen]) if one in place]
            found[i] += weights[fired].sum(0)
    return torch.from_numpy(found.T.copy())


def visits(weights: Mapping[str, Tensor], order: int) -> Array:  # (tags,)
    """How often the chain visits each tag: its stationary distribution, with a new sentence after each end.

    >>> import torch
    >>> from pyro_unsup.tasks.decoding.new_words import visits
    >>> rows = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])  # the last column ends the sentence
    >>> visits({"start": torch.tensor([1.0, 0.0]).log(), "transition": rows.log()}, 1).round(6)
    array([0.5, 0.5])
    """
    start = _rows(weights["start"])
    K = len(start)
    step = _rows(weights["transition"]).reshape(-1, weights["transition"].shape[-1])  # (contexts, tags and the end)
    first = start
    if order == 2:  # a context is the last two tags
        second = _rows(weights["second"])[:, :K]
        first = (start[:, None] * second).ravel()
    first = first / max(first.sum(), CLOSE)
    ends = 1 / SENTENCE if step.shape[1] == K else 0.0
    now = first
    for _ in range(STEPS):
        moved = now[:, None] * step  # (contexts, tags and the end)
        on = moved[:, :K] if order == 1 else moved[:, :K].reshape(K, K, K).sum(0)
        on = on.sum(0) if order == 1 else on.ravel()
        going = (1 - ends) * on
        after = going + max(1 - going.sum(), 0.0) * first
        close = np.abs(after - now).sum() < CLOSE
        now = after
        if close:
            break
    found = now if order == 1 else now.reshape(K, K).sum(0)
    return np.asarray(found / found.sum())


def _rows(table: Tensor) -> Array:
    """Probabilities: rows that sum to 1, or that are zeros throughout."""
    return np.asarray(table.double().softmax(-1).nan_to_num().cpu().numpy())


def _looks(words: Sequence[str]) -> list[list[tuple[Any, ...]]]:
    """What of a word is compared, from little to much: its shape, and then with one, two and three last letters."""
    shapes = [(w[:1].isupper(), any(map(str.isdigit, w)), "-" in w) for w in words]
    return [[(*shape, w[len(w) - n :] if n < len(w) else w) for shape, w in zip(shapes, words, strict=True)]
            if n else list(shapes) for n in range(4)]  # fmt: skip

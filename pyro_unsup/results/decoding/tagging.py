"""A tagger on text that it was not trained on: words that it never met, and sentences that it holds impossible.

Maximum likelihood gives both probability zero. They still want tags, so decoding makes every zero that training left (a
dictionary's zeros stay) one and the same tiny weight. A new word then may have any tag, and its neighbours decide; an
impossible sentence gets the tags that break fewest rules. Sentences that are possible are not touched by this, and
log-likelihoods are never taken from it.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...data import Corpus, Vocab
from ...data.lines import UNKNOWN
from ...distributions.posterior import Posterior
from ...errors import UnsupError
from ...evaluate import tagging_report
from ...models import Tagger
from ..fit import Fit
from . import FLOOR, check_how


@dataclass(frozen=True)
class Decoded:
    """States of a text.

    :param structure: (tokens,) states.
    :param posterior: of those states, for their probabilities.
    :param log_likelihood: (sentences,) under the fit as it is, -inf for an impossible sentence.
    :param unseen: tokens that the fit's vocabulary does not have.
    :param ambiguous: (tokens,) where the dictionary leaves a choice; None without a dictionary.
    """

    structure: Tensor
    posterior: Posterior
    log_likelihood: Tensor
    unseen: int
    ambiguous: np.ndarray[Any, Any] | None


def decode(fit: Fit, text: Corpus, how: str = "viterbi") -> Decoded:
    """Tag a text by a fit of a tagger.

    :param text: by any vocabulary; its words are looked up in that of the fit, in lower case if the fit was trained so.
    :param how: ``"viterbi"`` or ``"mbr"``.
    """
    check_how(how)
    if not isinstance(fit.model, Tagger):
        raise UnsupError(f"expected the fit of a tagger, actual {fit.model!r}")
    known = fit.model.vocab
    fit = with_unknown(fit)
    model: Any = fit.model
    corpus, unseen = _encode(fit, text, known)
    posterior = fit.posterior(corpus)
    log_likelihood = posterior.log_partition.double()
    if bool((log_likelihood == -torch.inf).any()):
        posterior = _floored(fit).posterior(corpus)
    states = posterior.mode() if how == "viterbi" else posterior.mbr()
    mask = model.declarations()["emission"].layout.support
    ambiguous = None if mask is None else (mask.sum(0) > 1).numpy()[corpus.words]
    return Decoded(states, posterior, log_likelihood, unseen, ambiguous)


def scores(fit: Fit, gold: Corpus, decoded: Decoded) -> dict[str, float]:
    """``many_to_one``, ``one_to_one``, ``v_measure``, ``vi_bits``, ``clusters_used``, ``bits_per_word``.

    If the tags are the gold tags by name, also ``accuracy`` and (with a dictionary) ``accuracy_ambiguous``. Fractions
    of 1.

    Words that training never met make ``bits_per_word`` infinite, unless the model smooths.
    """
    tags, same = gold_labels(gold), same_tags(fit, gold)
    return tagging_report(
        tags if same is None else same[tags],
        decoded.structure.numpy(),
        same_tags=same is not None,
        ambiguous=None if same is None else decoded.ambiguous,
        log_likelihood=float(decoded.log_likelihood.sum()),
    )


def with_unknown(fit: Fit) -> Fit:
    """The same fit with an unknown symbol in its vocabulary, of probability zero. Nothing changes if it has one."""
    model = fit.model
    if not isinstance(model, Tagger) or isinstance(model.vocab, int) or getattr(model.vocab, "unknown", None):
        return fit
    words: tuple[str, ...] = tuple(model.vocab)  # type: ignore[arg-type]
    vocab = Vocab(dict.fromkeys([*words, UNKNOWN]), unknown=UNKNOWN)  # a text may have brought the symbol along
    emission, mask = fit.weights["emission"], model.declarations()["emission"].layout.support
    extra = len(vocab) - len(words)
    new = copy(fit)
    new.weights = {**fit.weights, "emission": torch.nn.functional.pad(emission, (0, extra), value=-torch.inf)}
    if mask is not None:
        mask = torch.nn.functional.pad(mask, (0, extra), value=True)  # a word that no dictionary lists is open
    new.model = Tagger(model.tags, vocab, model.order, mask, model.stop)
    return new


def _floored(fit: Fit) -> Fit:
    new = copy(fit)
    layouts = {name: table.layout for name, table in fit.model.declarations().items()}  # type: ignore[attr-defined]
    new.weights = {
        name: layouts[name].mask(w.double().clamp(min=FLOOR)) if name in layouts else w
        for name, w in fit.weights.items()
    }
    return new


def _encode(fit: Fit, text: Corpus, known: object) -> tuple[Corpus, int]:
    """The text by the vocabulary of the fit, and how many of its tokens are not ``known``."""
    vocab = getattr(fit.model, "vocab", None)
    if not isinstance(vocab, Vocab):  # words are but numbers
        return text, 0
    forms = [one.lower() for one in text.vocab] if fit.config.get("lowercase") is True else text.vocab.types
    missing = np.array([one not in known for one in forms], dtype=np.bool_)  # type: ignore[operator]
    words = vocab.encode(forms)[text.words]
    return replace(text, words=words, vocab=vocab), int(missing[text.words].sum())


def gold_labels(gold: Corpus) -> np.ndarray[Any, Any]:
    """The tags of a corpus that has some."""
    if gold.tags is None or gold.tagset is None:
        raise UnsupError("the gold corpus has no tags: read a tagged file")
    return gold.tags


def same_tags(fit: Fit, gold: Corpus) -> np.ndarray[Any, Any] | None:
    """From gold tag numbers to the fit's, if the two go by the same names; None if its states are anonymous."""
    tags = getattr(fit.model, "tags", None)
    if tags is None or isinstance(tags, int) or gold.tagset is None:
        return None
    number = {name: k for k, name in enumerate(tags)}
    missing = [name for name in gold.tagset if name not in number]
    used = {gold.tagset[int(t)] for t in np.unique(gold.tags)} if gold.tags is not None else set()
    if used & set(missing):
        raise UnsupError(f"gold tag {sorted(used & set(missing))[0]!r} is not among the model's {len(number)} tags")
    return np.array([number.get(name, 0) for name in gold.tagset])

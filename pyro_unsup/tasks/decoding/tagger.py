"""A tagger on text that it was not trained on: words that it never met, and sentences that it holds impossible.

A new word gets the weights of its features, if the tagger was trained with features. If not, it gets the tags of known
words that look like it (:mod:`.new_words`). Its neighbours choose among these tags. An impossible sentence gets the
tags that break fewest rules. A dictionary's zeros stay zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ...data import Corpus, Vocab
from ...data.lines import UNKNOWN
from ...errors import UnsupError
from ...models import Tagger
from ...results import Fit
from . import FLOOR, Decoded, check_how
from .new_words import by_features, emissions

#: How a text may be tagged.
WAYS = ("viterbi", "mbr", "word")


@dataclass(frozen=True)
class Tagged(Decoded):
    """States of a text. The structure is (tokens,) states.

    :param ambiguous: (tokens,) where the dictionary leaves a choice; None without a dictionary.
    :param together: (tokens,) the word of each, if all tokens of a word have one state; None if each has its own.
    """

    ambiguous: np.ndarray[Any, Any] | None = None
    together: torch.Tensor | None = None


def decode(fit: Fit, text: Corpus, how: str = "viterbi") -> Tagged:
    """Tag a text by a fit of a tagger.

    :param text: by any vocabulary; its words are looked up in that of the fit, in lower case if the fit was trained so.
    :param how: ``"viterbi"``, ``"mbr"`` or ``"word"``.
    """
    check_how(how, WAYS)
    if not isinstance(fit.model, Tagger):
        raise UnsupError(f"expected the fit of a tagger, actual {fit.model!r}")
    known = fit.model.vocab
    fit = with_unknown(fit)
    corpus, unseen = _encode(fit, text, known)
    posterior = fit.posterior(corpus)
    log_likelihood = posterior.log_partition.double()
    wider, words = with_new_words(fit, text, known)
    if wider is not fit:
        corpus = replace(corpus, words=words, vocab=wider.model.vocab)  # type: ignore[attr-defined]
        posterior = wider.posterior(corpus)
    if bool((posterior.log_partition == -torch.inf).any()):
        posterior = _floored(wider).posterior(corpus)
    together = torch.as_tensor(np.asarray(corpus.words)).long() if how == "word" else None
    if together is not None:
        states = one_state_a_word(posterior.marginals, together)
    else:
        states = posterior.mode() if how == "viterbi" else posterior.mbr()
    mask = wider.model.declarations()["emission"].layout.support  # type: ignore[attr-defined]
    ambiguous = None if mask is None else (mask.sum(0) > 1).numpy()[corpus.words]
    return Tagged(states, posterior, log_likelihood, unseen, ambiguous=ambiguous, together=together)


def one_state_a_word(
    marginals: torch.Tensor, words: torch.Tensor
) -> torch.Tensor:  # (tokens, K), (tokens,) -> (tokens,)
    """The state that most tokens of a word are expected to have, for all of them.

    >>> import torch
    >>> from pyro_unsup.tasks.decoding.tagger import one_state_a_word
    >>> one_state_a_word(torch.tensor([[0.6, 0.4], [0.1, 0.9], [1.0, 0.0]]), torch.tensor([7, 7, 3]))
    tensor([1, 1, 0])
    """
    types, at = torch.unique(words, return_inverse=True)
    expected = torch.zeros(len(types), marginals.shape[-1], dtype=torch.float64).index_add_(0, at, marginals.double())
    return expected.argmax(-1)[at]


def with_new_words(fit: Fit, text: Corpus, known: object) -> tuple[Fit, Any]:
    """The fit with the new words of a text added, which get weights by their features or looks; and the
    words of the text by its vocabulary. Nothing changes if there are none.

    A word that a dictionary lists and training has not met keeps the tags of the dictionary.

    :param known: the vocabulary that the fit has learned with.
    """
    model: Any = fit.model
    if not isinstance(model.vocab, Vocab):
        return fit, text.words
    types = np.flatnonzero(np.bincount(text.words, minlength=len(text.vocab)))
    forms = dict(zip(types.tolist(), _forms(fit, [text.vocab[int(k)] for k in types]), strict=True))
    emission, mask = fit.weights["emission"], model.declarations()["emission"].layout.support
    never = (emission == -torch.inf).all(0).cpu().numpy()  # (words,)
    new = list(dict.fromkeys(w for w in forms.values() if w not in known or never[model.vocab.index[w]]))  # type: ignore[operator]
    if not new:
        return fit, text.words
    words = tuple(model.vocab)
    vocab = Vocab(dict.fromkeys([*words, *new]), unknown=model.vocab.unknown)
    extra, columns = len(vocab) - len(words), vocab.encode(new)
    wide = torch.nn.functional.pad(emission.double(), (0, extra), value=-torch.inf)
    wide[:, torch.from_numpy(columns)] = _new_emissions(fit, words, new)
    if mask is not None:
        mask = torch.nn.functional.pad(mask, (0, extra), value=True)  # a word that no dictionary lists is open
        wide = wide.where(mask, -torch.inf)
    wider = copy(fit)
    wider.weights = {**fit.weights, "emission": wide.to(emission.dtype)}
    wider.model = Tagger(model.tags, vocab, model.order, mask, model.stop)
    ids = np.zeros(len(text.vocab), np.int64)
    ids[types] = vocab.encode(list(forms.values()))
    return wider, ids[text.words]


def _new_emissions(fit: Fit, words: Sequence[str], new: Sequence[str]) -> torch.Tensor:  # (tags, new words)
    """Log-weights of new words: by their features if the fit has learned weights of these, else by known words that
    look like them."""
    model: Any = fit.model
    tags = range(model.tags) if isinstance(model.tags, int) else list(model.tags)
    for key, names in fit.features.items():
        if "emission" in names.tables and key in fit.memory:
            found = by_features(names, fit.memory[key], fit.weights["emission"], tags, words, new)
            if found is not None:
                return found
    restricted = model.declarations()["emission"].layout.support is not None
    return emissions(words, fit.weights, model.order, new, None if restricted else model.vocab.unknown)


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
    forms = _forms(fit, text.vocab.types)
    missing = np.array([one not in known for one in forms], dtype=np.bool_)  # type: ignore[operator]
    words = vocab.encode(forms)[text.words]
    return replace(text, words=words, vocab=vocab), int(missing[text.words].sum())


def _forms(fit: Fit, words: Sequence[str]) -> list[str]:
    """Words as training had them."""
    return [one.lower() for one in words] if fit.config.get("lowercase") is True else list(words)

"""The segmenter: sentences without spaces, and the words that they are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from functools import partial
from typing import TYPE_CHECKING, Any

import pyro
import torch
from torch import Tensor

from ..distributions import Segmentation
from ..errors import StructureError
from ..graphemes import graphemes
from ..tables import Axis, Declaration, Layout, declare
from .base import Model, check_settings, concentrations, plain_names, size_of
from .segment_types import Segments, SegmentTypes
from .sentences import as_symbols, vocab_of

if TYPE_CHECKING:
    from .gibbs_segments import SegmentState

#: What Liang & Klein (2009) chose for English phonemes.
MAX_LENGTH, PENALTY = 10, 1.6


class Segmenter(Model):
    """Penalised unigram word segmentation (Liang & Klein 2009), as an ordinary Pyro model.

        segments ~ Dirichlet,  stop ~ Dirichlet
        for each sentence:  toss ``stop`` whether to go on; while so, a segment by ``segments``, times the penalty
                            exp(-length ** penalty), and toss again; cuts between segments summed out

    Tables: ``segments`` (types + 1,), and ``stop`` (2,), going on and stopping. The last column of ``segments`` stands
    for whatever is no known type of segment: it has no counts in training, so only an estimator that smooths gives it
    weight. The penalty is not learned. Without one the best model of a text has every sentence as one segment. Axes:
    ``segment``, a string (a tuple, where a symbol is more than a character; empty for the last column); ``decision``.

    The uniform start of EM (``pu.init.uniform()``) is that of the paper: nothing is symmetric here that a start would
    have to break.

    :param vocab: how many symbols, or the symbols themselves.
    :param types: the known types of segments; :meth:`of` takes all substrings of a text, :meth:`listed` a list.
    :param max_length: symbols in the longest segment that is allowed; by default in the longest type.
    :param penalty: the exponent; None for no penalty.
    :param prior: Dirichlet concentration, one for both tables or by name.

        >>> import pyro_unsup as pu
        >>> text = ["thedog", "adog", "seethedog", "thecat", "acat", "seeacat", "see"]
        >>> vocab = pu.data.Vocab(sorted(set("".join(text))))
        >>> sentences = [vocab.encode(line) for line in text]
        >>> fit = pu.EM(pu.models.Segmenter.of(sentences, vocab=vocab), init=pu.init.uniform()).run(sentences)
        >>> fit.predict([vocab.encode("seethecat")]).tolist()  # 1 where a segment ends: see the cat
        [0, 0, 1, 0, 0, 1, 0, 0, 1]
    """

    task = "segmenter"

    def __init__(
        self,
        vocab: int | Sized,
        types: SegmentTypes,
        max_length: int | None = None,
        penalty: float | None = PENALTY,
        prior: float | Mapping[str, float] = 1.0,
    ) -> None:
        self.vocab, self.types, self.penalty = vocab, types, penalty
        self.symbols = size_of(vocab)
        if types.symbols != self.symbols:
            raise StructureError(f"the types are of {types.symbols} symbols, the vocabulary has {self.symbols}")
        self.max_length = int(types.widths.max()) if max_length is None else _checked(max_length)
        if penalty is not None and not (isinstance(penalty, int | float) and 0 <= penalty < math.inf):
            raise StructureError(f"penalty must be an exponent, 0 or more, or None for none, actual {penalty!r:.80}")
        length = torch.arange(self.max_length + 1, dtype=torch.float64)
        self._length = torch.zeros_like(length) if penalty is None else -(length**penalty)
        shapes = {"segments": len(types) + 1, "stop": 2}
        alpha = concentrations(prior, shapes, "this segmenter")
        names = range(vocab) if isinstance(vocab, int) else vocab
        axes = {"segments": Axis("segment", partial(types.labels, names)), "stop": Axis("decision", ("go on", "stop"))}
        self._tables = {
            name: Declaration(name, Layout.dense(size), alpha[name], axes=(axes[name],))
            for name, size in shapes.items()
        }

    @classmethod
    def of(
        cls,
        sentences: Any,
        lengths: Any = None,
        vocab: int | Sized | None = None,
        max_length: int = MAX_LENGTH,
        penalty: float | None = PENALTY,
        prior: float | Mapping[str, float] = 1.0,
    ) -> Segmenter:
        """A model whose types of segments are all substrings of these sentences, up to a length.

        :param sentences: a corpus, lists of numbers, or a tensor of them.
        :param lengths: of the sentences, (B,), where these come as a padded or flat tensor; None for a corpus or lists.
        :param vocab: that of the corpus, if it is not given.
        """
        vocab = vocab_of(sentences, vocab)
        words, lengths = as_symbols(sentences, lengths, vocab)
        types, segments = SegmentTypes.of(words, lengths, size_of(vocab), _checked(max_length))
        model = cls(vocab, types, max_length, penalty, prior)
        model._remember(sentences, segments)  # most likely it is to learn from them
        return model

    @classmethod
    def listed(
        cls,
        segments: Sequence[Sequence[str]],
        vocab: Sized,
        max_length: int | None = None,
        penalty: float | None = PENALTY,
        prior: float | Mapping[str, float] = 1.0,
    ) -> Segmenter:
        """A model that knows the segments of a list.

        :param segments: strings, or sequences of symbols where a symbol is more than one character.
        :param vocab: the symbols, all that occur in the segments among them.

        >>> import pyro_unsup as pu
        >>> pu.models.Segmenter.listed(["the", "dog", "do"], pu.data.Vocab(list("thedog")))
        Segmenter(vocab=6, 3 types, max_length=3, penalty=1.6)
        """
        number = {name: k for k, name in enumerate(vocab)}  # type: ignore[arg-type, var-annotated]
        for one in segments:
            missing = [symbol for symbol in one if symbol not in number]
            if missing:
                raise StructureError(f"segment {one!r:.80} has {missing[0]!r:.20}, which is not in the vocabulary")
        types = SegmentTypes.listed([[number[symbol] for symbol in one] for one in segments], len(number))
        return cls(vocab, types, max_length, penalty, prior)

    def __call__(self, sentences: Any, lengths: Any = None) -> Tensor:
        """The model. It observes :class:`.Segments`, or sentences of symbols (:func:`.as_flat`)."""
        data = self.index(sentences, lengths)
        cells, table = data.cells, self._tables["segments"]
        if cells.numel() < len(self.types):  # a mini-batch touches only some columns
            used, which = torch.unique(cells, return_inverse=True)
            beyond = int(used[0] < 0)  # -1 stays what it is
            cells, table = which - beyond, table.touching(used[beyond:].long())
        segments = declare(table)
        stop = declare(self._tables["stop"])
        segmentation = Segmentation(segments, self._length.to(segments.dtype), stop, data.lengths)
        with pyro.plate("sentences", len(data)):
            observed: Tensor = pyro.sample("symbols", segmentation, obs=cells)
        return observed

    def index(self, sentences: Any, lengths: Any = None) -> Segments:
        """Sentences as the model sees them. What a corpus looks like is remembered until another one comes."""
        if isinstance(sentences, Segments):
            return sentences
        known: Segments | None = self._recall(sentences)
        if known is not None:
            return known
        words, lengths = as_symbols(sentences, lengths, self.vocab, graphemes)
        segments = self.types.find(words, lengths, self.max_length)
        self._remember(sentences, segments)
        return segments

    def gibbs_state(self) -> type[SegmentState]:
        """What :class:`.CollapsedGibbs` moves: labels of data under this model, its tables integrated out."""
        from .gibbs_segments import SegmentState

        return SegmentState

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this model again: plain values, and tensors."""
        plain = {"vocab": plain_names(self.vocab), "prior": self._priors()}
        plain |= {"max_length": self.max_length, "penalty": self.penalty}
        return plain, {"nodes": self.types.nodes, "chosen": self.types.chosen}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Segmenter:
        """Build a model from its :meth:`settings`."""
        check_settings(plain, "vocab", "max_length", "penalty", "prior")
        types = SegmentTypes(size_of(plain["vocab"]), tensors["nodes"], tensors["chosen"])
        return cls(plain["vocab"], types, plain["max_length"], plain["penalty"], plain["prior"])

    def __repr__(self) -> str:
        known = f"{len(self.types)} types, max_length={self.max_length}, penalty={self.penalty}"
        return f"Segmenter(vocab={self.symbols}, {known})"


def _checked(max_length: int) -> int:
    if type(max_length) is not int or max_length < 1:
        raise StructureError(f"max_length must be a whole number, 1 or more, actual {max_length!r:.80}")
    return max_length

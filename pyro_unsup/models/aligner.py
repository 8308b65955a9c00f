"""The aligner: IBM Model 1 in both directions, which may learn from each other."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyro
import torch
from pyro import poutine
from torch import Tensor

from ..distributions import Agreement, Alignment
from ..errors import StructureError
from ..tables import Declaration, Layout, declare
from ..tables.derived import derived
from .base import Model, check_settings, concentrations, plain_names, size_of
from .lexicon import Lexicon, join, lexicon_axes
from .pairs import Pairs, check_vocab, sides
from .sentences import as_flat

if TYPE_CHECKING:
    from .gibbs_links import LinkState

AGREEMENTS = ("product", "2008", None)


class Aligner(Model):
    """Which word translates which: IBM Model 1 in both directions, as an ordinary Pyro model.

        translation_forward[e] ~ Dirichlet       over the target words that e occurs together with
        translation_backward[f] ~ Dirichlet      over the source words that f occurs together with
        for each pair of sentences:  every target word draws a source word (or the null word) and then itself by
                                     ``translation_forward``; every source word, in a model of its own, draws a target
                                     word and then itself by ``translation_backward``; all links summed out

    Both tables are ragged: a row for each word, of the words that it meets, and a last row for the null word, of the
    whole vocabulary of the other language. They grow with the text, never with the product of the vocabularies. Axes:
    ``source`` and ``target``; the null word is the empty string.

    The two directions may learn from each other. By ``agreement``:

    - ``None``: they do not. Exact: EM never lowers the sum of both log-likelihoods.
    - ``"2008"``: each direction weighs a link by the product of both tables, and both tables learn from the mean of
      the two posteriors (Liang, Klein & Jordan 2008). Exact in its own objective, the mean of the log-sums of such
      products: EM never lowers it. It is not a log-likelihood, for the products are no probabilities of sentences.
    - ``"product"``: a link counts as often as both directions expect it, one expectation times the other (Liang,
      Taskar & Klein 2006). A heuristic (:class:`.Agreement`): what is reported is the sum of both log-likelihoods,
      which mostly rises but need not.

    :param source: how many source words, or the vocabulary itself.
    :param target: the same of the target language.
    :param lexicon: the pairs of words that have cells; :meth:`of` takes them from a text.
    :param null: the probability of choosing the null word; if not given, it is as likely as each other word.
    :param prior: Dirichlet concentration, one for both tables or by name.

        >>> import pyro_unsup as pu
        >>> source, target = [[0, 1], [0, 2], [1]], [[5, 6], [5, 7], [6]]  # the house, the book, house
        >>> model = pu.models.Aligner.of((source, target), source=3, target=8)
        >>> fit = pu.EM(model, init=pu.init.uniform()).run((source, target), iterations=20)
        >>> model.best_translation(fit.weights["translation_forward"]).tolist()
        [5, 6, 7]

    **References:** [1] P. F. Brown et al. (1993) "The mathematics of statistical machine translation"; [2] P. Liang, B.
    Taskar and D. Klein (2006) "Alignment by agreement"; [3] P. Liang, D. Klein and M. I. Jordan (2008) "Agreement-based
    learning"; [4] P. Liang and D. Klein (2009) "Online EM for unsupervised models".
    """

    task = "aligner"
    own_weights = False
    _settings: ClassVar[tuple[str, ...]] = ("source", "target", "agreement", "null", "prior")

    def __init__(
        self,
        source: int | Sized,
        target: int | Sized,
        lexicon: Lexicon,
        agreement: str | None = "product",
        null: float | None = None,
        prior: float | Mapping[str, float] = 1.0,
    ) -> None:
        if agreement not in AGREEMENTS:
            raise StructureError(f"agreement must be 'product', '2008' or None, actual {agreement!r:.80}")
        if null is not None and not (isinstance(null, int | float) and 0 <= null < 1):
            raise StructureError(f"null must be a probability below 1, or None, actual {null!r:.80}")
        self.source, self.target, self.lexicon = source, target, lexicon
        self.agreement, self.null = agreement, None if null is None else float(null)
        self.source_words, self.target_words = size_of(source), size_of(target)
        if (lexicon.source, lexicon.target) != (self.source_words, self.target_words):
            raise StructureError(
                f"the lexicon is of {lexicon.source} and {lexicon.target} words, the vocabularies have "
                f"{self.source_words} and {self.target_words}"
            )
        rows = {
            "translation_forward": (lexicon.sizes, self.target_words),
            "translation_backward": (lexicon.turned_sizes, self.source_words),
        }
        alpha = concentrations(prior, rows, "this aligner")
        axes = lexicon_axes(lexicon, source, target)
        # A word of the vocabulary that is not in the text has no row, and agreement may leave a row without counts.
        self._tables = {
            name: Declaration(
                name,
                Layout.ragged(torch.cat([sizes[sizes > 0], torch.tensor([null_row])])),
                alpha[name],
                "keep",
                axes=axes[name.removeprefix("translation_")],
            )
            for name, (sizes, null_row) in rows.items()
        }

    @classmethod
    def of(
        cls,
        bitext: Any,
        agreement: str | None = "product",
        null: float | None = None,
        prior: float | Mapping[str, float] = 1.0,
        source: int | Sized | None = None,
        target: int | Sized | None = None,
    ) -> Aligner:
        """An aligner for the words that occur together in these pairs of sentences, such as those it will learn from.

        :param bitext: anything with a ``source`` and a ``target``, or a tuple of the two; each as :func:`.as_flat`
            takes sentences.
        :param source: the source vocabulary (or its size), that of the corpus if it is not given.
        :param target: the same of the target language.
        """
        texts, sizes = sides(bitext), []
        vocabs = [source, target]
        for side, (name, text) in enumerate(zip(("source", "target"), texts, strict=True)):
            vocabs[side] = getattr(text, "vocab", None) if vocabs[side] is None else vocabs[side]
            vocab: Any = vocabs[side]
            if vocab is None:
                raise StructureError(f"sentences without a vocabulary: say how many words there are ({name}=...)")
            sizes.append(size_of(vocab))
            check_vocab(getattr(text, "vocab", None), vocab, name)
        lexicon = Lexicon.of(*as_flat(texts[0]), *as_flat(texts[1]), sizes[0], sizes[1])
        return cls(vocabs[0], vocabs[1], lexicon, agreement, null, prior)  # type: ignore[arg-type]

    def __call__(self, bitext: Any) -> Tensor:
        """The model. It observes :class:`.Pairs`, or pairs of sentences of words (as :meth:`of` takes them)."""
        pairs = self.index(bitext)
        if len(pairs.cells) >= len(self.lexicon):
            forward, backward = (declare(table) for table in self._tables.values())
            backward, shared = derived(self.lexicon.from_turned, backward), len(self.lexicon)
        else:
            pairs, forward, backward, shared = self._touched(pairs)
        one, other, cells = self.directions(forward, backward, pairs, shared)
        with pyro.plate("pairs", len(pairs)):
            if self.agreement == "product":
                observed: Tensor = pyro.sample("links", self._agree(one, other, shared), obs=cells)
                return observed
            with poutine.scale(scale=1.0 if self.agreement is None else 0.5):
                pyro.sample("forward", one, obs=cells)
                observed = pyro.sample("backward", other, obs=cells)
        return observed

    def _agree(self, forward: Any, backward: Any, shared: int) -> Agreement:
        return Agreement(forward, backward, shared)

    def directions(
        self,
        forward: Tensor,  # (shared + target null words,)
        backward: Tensor,  # (shared + source null words,), in the order of the forward table
        pairs: Pairs,
        shared: int,
    ) -> tuple[Alignment, Alignment, Tensor]:
        """The two alignments, and their cells: words that never met get one of their own, without weight.

        :param pairs: the data.
        :param shared: how many cells, the first ones, both tables have in common.
        """
        grid, cells = pairs.grid, pairs.cells
        if self.agreement == "2008":
            forward, backward = derived(join, forward, backward, shared)
        if pairs.unseen:
            size = max(forward.shape[-1], backward.shape[-1])
            forward, backward = (derived(_padded, x, size + 1) for x in (forward, backward))
            cells = torch.where(cells < 0, size, cells)
        one = Alignment(forward, grid, *self._choice(grid.source_lengths, forward.dtype))
        other = Alignment(backward, grid, *self._choice(grid.target_lengths, forward.dtype), turned=True)
        return one, other, cells

    def _choice(self, lengths: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:  # (B,) -> (B,), (B,)
        """Log-probability of choosing the null word, and of any other word, by how many others there are."""
        if self.null is None:
            each = -(lengths + 1).to(dtype).log()
            return each, each
        null = torch.full(lengths.shape, self.null, dtype=dtype)
        return null.log(), (1 - null).log() - lengths.clamp(min=1).to(dtype).log()

    def index(self, bitext: Any) -> Pairs:
        """Pairs of sentences as the model sees them. What a text looks like is remembered until another one comes."""
        if isinstance(bitext, Pairs):
            return bitext
        known: Pairs | None = self._recall(bitext)
        if known is not None:
            return known
        texts, vocabs = sides(bitext), (self.source, self.target)
        for name, text, vocab in zip(("source", "target"), texts, vocabs, strict=True):
            check_vocab(getattr(text, "vocab", None), vocab, name)
        (source, source_lengths), (target, target_lengths) = (
            as_flat(text, None, vocab) for text, vocab in zip(texts, vocabs, strict=True)
        )
        for name, words, size in (("source", source, self.source_words), ("target", target, self.target_words)):
            if len(words) == 0:
                raise StructureError(f"no {name} words: expected at least one pair of sentences with words in it")
            if int(words.max()) >= size:
                raise StructureError(f"{name} words must lie in 0 .. {size - 1}, actual largest {int(words.max())}")
        pairs = self.pairs_of(source, source_lengths, target, target_lengths)
        self._remember(bitext, pairs)
        return pairs

    def pairs_of(self, source: Tensor, source_lengths: Tensor, target: Tensor, target_lengths: Tensor) -> Pairs:
        """Pairs of sentences as the model sees them.

        :param source: (tokens,) words of the source sentences, end to end; one more than the last word stands for words
            that are not known.
        :param source_lengths: (B,) words of each sentence.
        :param target: (tokens,), likewise.
        :param target_lengths: (B,).
        """
        return self.lexicon.find(source, source_lengths, target, target_lengths, (self.source, self.target))

    def _touched(self, pairs: Pairs) -> tuple[Pairs, Tensor, Tensor, int]:
        """Of a small batch: its cells by numbers of its own, and the parts of both tables that have them."""
        few, used, targets, sources = self.lexicon.renumber(pairs)
        there = self.lexicon.turned[used].long()
        parts = [
            declare(table.touching(torch.cat(touched)))
            for table, touched in zip(self._tables.values(), ((used, targets), (there, sources)), strict=True)
        ]
        return few, parts[0], parts[1], len(used)

    def best_translation(self, forward: Tensor) -> Tensor:  # (cells,) -> (source words,)
        """The most probable translation of every source word; -1 for a word that meets none."""
        sizes = self.lexicon.sizes
        rows = torch.repeat_interleave(sizes)
        part = forward[: len(rows)]
        top = part.new_full(sizes.shape, -torch.inf).scatter_reduce(0, rows, part, "amax")
        best = (part == top[rows]).nonzero()[:, 0]
        first = torch.full(sizes.shape, len(rows)).scatter_reduce(0, rows[best], best, "amin")
        found = torch.cat([self.lexicon.met.long(), torch.tensor([-1])])
        return found[first]

    def gibbs_state(self) -> type[LinkState]:
        """What :class:`.CollapsedGibbs` moves: links of words, the translations integrated out."""
        from .gibbs_links import LinkState

        return LinkState

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this model again: plain values, and tensors."""
        plain = {
            "source": plain_names(self.source),
            "target": plain_names(self.target),
            "agreement": self.agreement,
            "null": self.null,
            "prior": self._priors(),
        }
        return plain, {"sizes": self.lexicon.sizes, "met": self.lexicon.met}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """Build a model from its :meth:`settings`."""
        check_settings(plain, *cls._settings)
        sizes = size_of(plain["source"]), size_of(plain["target"])
        return cls(**{**plain, "lexicon": Lexicon(*sizes, tensors["sizes"], tensors["met"])})

    def __repr__(self) -> str:
        extra = "" if self.null is None else f", null={self.null:g}"
        sizes = f"source={self.source_words}, target={self.target_words}, {len(self.lexicon)} pairs of words"
        return f"Aligner({sizes}, agreement={self.agreement!r}{extra})"


def _padded(table: Tensor, size: int) -> Tensor:  # (*batch, C) -> (*batch, size)
    return torch.nn.functional.pad(table, (0, size - table.shape[-1]), value=-torch.inf)

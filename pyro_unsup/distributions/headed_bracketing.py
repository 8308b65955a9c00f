"""The headed bracketing: a dependency tree and a binary tree over a sentence in one, each weighed by its own model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Size, Tensor
from torch.nn.functional import pad

from ..errors import StructureError
from ..kernels.running import Place
from .bracketing import Bracketing, spans_to_learn
from .cells import span_lengths
from .dependency import ADJACENT, BEYOND, CONTINUE, LEFT, RIGHT, STOP, Dependency, check_heads, check_sentences
from .semiring import Sum
from .stretch import CompiledStretch, is_large
from .structure import Potentials, Stretch, Structure

#: The side on which heads take their children first.
ORDERS = ("right", "left")


class HeadedBracketing(Dependency, Bracketing):  # type: ignore[misc]  # its parts are arcs
    """Sentences of tags under a hidden headed binary tree, the tree summed out: the product of :class:`.Dependency` and
    :class:`.Bracketing` (the dependency model with valence times the constituent-context model).

    Let every head take its children one by one: first those on its right, near ones before far ones, then those on its
    left in the same way. With each child its span grows by that of the child, so that the spans on the way are the
    constituents of a binary tree, and every projective dependency tree with one root goes with exactly one. The weight
    of such a tree is that of its arcs and decisions times that of all spans of the sentence as constituents or
    distituents:

    .. math:: p(x) = \\sum_y p_{\\mathrm{dependency}}(x, y) \\, p_{\\mathrm{bracketing}}(x, b(y)).

    Both models draw the same words, so the product is deficient, and has no ``sample``. The sum goes over spans and
    their heads: O(n^4). On CPU a compiled kernel does the work.

    A value is the tags of all sentences, end to end. A structure is the head of each word: 0 for the root, k for the
    k-th word of its sentence, as in a corpus; its constituents are :func:`brackets_of` it. Its parts are arcs, as those
    of :class:`.Dependency`. How probable a span is as a constituent, ``posterior.expected["constituents"]`` tells.

    :param root: (*batch, K), as all of the next two for :class:`.Dependency`.
    :param attach: (*batch, K, 2, K).
    :param stop: (*batch, K, 2, 2, 2).
    :param yields: (*batch, 2, Y), as the next one for :class:`.Bracketing`.
    :param contexts: (*batch, 2, X).
    :param spans: (spans, 2) the yield and the context of each span of these sentences, in the order of
        :func:`.spans_of`.
    :param lengths: (B,) words in each sentence. A sentence of length 0 is skipped: probability 1, no counts.
    :param node: (*batch, W + 1) log-weight of a constituent of w > 1 words, by w; zeros if not given.
    :param order: the side on which heads take their children first, ``"right"`` or ``"left"``.

    Example, all weights 1, so that p(x) counts trees::

        >>> import torch
        >>> from pyro_unsup.distributions import HeadedBracketing
        >>> lengths = torch.tensor([1, 2, 3, 4, 5])
        >>> dependencies = torch.zeros(1), torch.zeros(1, 2, 1), torch.zeros(1, 2, 2, 2)
        >>> spans = torch.zeros(35, 2, dtype=torch.long)
        >>> trees = HeadedBracketing(*dependencies, torch.zeros(2, 1), torch.zeros(2, 1), spans, lengths)
        >>> trees.log_prob(torch.zeros(15, dtype=torch.long)).exp().round()
        tensor([  1.,   2.,   7.,  30., 143.])

    **References:**

    [1] D. Klein and C. D. Manning (2004) "Corpus-based induction of syntactic structure: models of dependency and
        constituency", section 5.
    """

    axes = {**Dependency.axes, **Bracketing.axes}  # noqa: RUF012
    kernel = "pyro_unsup.kernels.headed_bracketing"

    def __init__(
        self,
        root: Tensor,
        attach: Tensor,
        stop: Tensor,
        yields: Tensor,
        contexts: Tensor,
        spans: Tensor,
        lengths: Tensor,
        node: Tensor | None = None,
        order: str = "right",
        validate_args: bool | None = None,
    ) -> None:
        check_order(order)
        lengths = check_sentences(lengths)
        self.order, self.spans = order, spans
        if spans.shape != (int(span_lengths(lengths).sum()), 2):
            raise StructureError(
                f"expected a yield and a context for every span, shape ({int(span_lengths(lengths).sum())}, 2), actual "
                f"{tuple(spans.shape)}"
            )
        weights = {"root": root, "attach": attach, "stop": stop, "yields": yields, "contexts": contexts, "node": node}
        Structure.__init__(self, weights, lengths, Size([int(lengths.sum())]), validate_args=validate_args)

    def owner(self, group: str) -> Tensor:
        spans = group in ("constituents", "distituents", "trees")
        return Bracketing.owner(self, group) if spans else Dependency.owner(self, group)

    def potentials(self, value: Tensor) -> Potentials:
        """Arcs and decisions of :class:`.Dependency`; constituents, distituents and trees of :class:`.Bracketing`."""
        return {**Dependency.potentials(self, value), **Bracketing.potentials(self, self.spans.to(value.device))}

    def total(self, potentials: Potentials, sum_: Sum) -> Tensor:
        """An item is a span between fenceposts i and j with its head h. First it grows to the right, while i = h. Then
        it is sealed on that side, and grows to the left. When it is full, it is put below a head outside, whichever of
        its words is its own head. That a head has no child on one side yet is to be seen from the span, as
        ``adjacent`` if it ends there, else ``beyond``::

            right[h, h + 1]   = 0
            right[h, j]       = weight[h, j] + sum_{h < k < j}  right[h, k] + continue[h, right] + below[k, j, h]
            left[h, j, h]     = right[h, j] + stop[h, right]
            left[i, j, h]     = weight[i, j] + sum_{i < k <= h}  below[i, k, h] + left[k, j, h] + continue[h, left]
            full[i, j, h]     = left[i, j, h] + stop[h, left]
            below[i, j, h]    = sum_{i <= c < j}  full[i, j, c] + arc[h -> c]
            total             = sum_r  root[r] + full[0, n, r]

        Single words weigh ``weight``, too. Heads that take the children on their left first are those of sentences in a
        mirror.
        """
        mirror = self.order == "left"
        arcs, stop = self._mirrored(*self.charts(potentials)) if mirror else self.charts(potentials)
        weights, shared = self.ratios(potentials, mirror)  # by width, (*draws, starts, B)
        root, arc, N = arcs[..., 0], arcs[..., 1:].mT, arcs.shape[-2]  # arc: (*draws, B, head, child)
        # Lists by width. (*draws, B, starts), and of the last three (*draws, B, starts, heads): heads by their place in
        # the span, but of ``below`` all words of the sentence.
        right_open, left_open, full, below = ([root] for _ in range(4))  # nothing has width 0: never looked at
        for w in range(1, N + 1):
            S = N + 1 - w
            weight = here = weights[w - 1].mT
            some = ADJACENT if w == 1 else BEYOND
            if w > 1:
                ways = [right_open[v][..., :S] + below[w - v].diagonal(-v, -2, -1) for v in range(1, w)]
                here = here + sum_(torch.stack(ways, -1), -1)
            right_open.append(here + stop[..., :S, RIGHT, some, CONTINUE])
            left = [here + stop[..., :S, RIGHT, some, STOP]]
            for d in range(1, w):
                ways = [
                    below[v].diagonal(d, -2, -1)[..., :S] + left_open[w - v][..., v : v + S, d - v]
                    for v in range(1, d + 1)
                ]
                left.append(weight + sum_(torch.stack(ways, -1), -1))
            ends = [stop[..., d : d + S, LEFT, BEYOND if d else ADJACENT, :] for d in range(w)]
            both = torch.stack(left, -1).unsqueeze(-1) + torch.stack(ends, -2)  # (*draws, B, S, w, 2)
            full.append(both[..., STOP])
            left_open.append(both[..., CONTINUE])
            windows = arc.unfold(-1, w, 1).movedim(-3, -2)  # (*draws, B, S, N, w)
            below.append(sum_(full[w].unsqueeze(-2) + windows, -1))
        whole = [pad(full[w][..., 0, :], (0, N - w), value=-torch.inf) for w in range(1, N + 1)]
        rows = torch.stack(whole, -2)  # (*draws, B, N, N) by length and root
        last = (self.rows.lengths - 1).clamp(min=0).to(rows.device)[:, None, None].expand(*rows.shape[:-2], 1, N)
        return shared + sum_(root + rows.gather(-2, last).squeeze(-2), -1)

    def _mirrored(self, arcs: Tensor, decisions: Tensor) -> tuple[Tensor, Tensor]:
        """Charts of sentences read from right to left, each from its own last word."""
        N, lengths = self.rows.longest, self.rows.lengths.unsqueeze(-1)
        word = torch.arange(N)
        turned = torch.where(word < lengths, lengths - 1 - word, word).to(arcs.device)  # (B, N)
        sentence = torch.arange(len(lengths), device=arcs.device)
        head = torch.cat([torch.zeros_like(turned[:, :1]), turned + 1], -1)  # (B, N + 1)
        arcs = arcs[..., sentence[:, None, None], turned.unsqueeze(-1), head.unsqueeze(-2)]
        lead = decisions.dim() - 5
        words = decisions[(slice(None),) * lead + (sentence[:, None], turned)]
        return arcs, words.flip(-3)

    def check_value(self, value: Tensor) -> None:
        Dependency.check_value(self, value)
        Bracketing.check_value(self, self.spans)

    def select(self, value: Tensor, examples: Tensor) -> tuple[HeadedBracketing, Tensor]:
        new, value = super().select(value, examples)
        new.spans = self.rows_of("constituents", self.spans, examples, 0)
        return new, value

    def stepwise(self, value: Tensor, places: Mapping[str, Place], batch_size: int) -> Stretch | None:
        names, lengths = ("root", "attach", "stop", "yields", "contexts"), self.rows.lengths
        work = float((lengths * lengths * (lengths * lengths + 50)).sum()) / 100
        if places.keys() != set(names) or not all(places[name].whole for name in names[:3]):
            return None
        spans = spans_to_learn(self, self.spans, places)
        if spans is None or is_large(work, len(lengths), batch_size):
            return None
        words = (value.long().contiguous().numpy(), self.rows.offsets.numpy(), self.order == "left")
        return CompiledStretch("headed_bracketing_stepwise", names, (words, spans))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        raise StructureError(
            "a headed bracketing cannot draw sentences: its two models draw the same words, and need not agree. Draw "
            "trees for given sentences with posterior(value).sample()"
        )


def brackets_of(heads: Tensor, lengths: Tensor, order: str = "right") -> Tensor:  # (tokens,), (B,) -> (spans,)
    """The binary trees that go with dependency trees: for every span, in the order of :func:`.spans_of`, 1 if it is a
    constituent and 0 if not; -1 where a sentence has no tree.

    Each arc makes one constituent. If heads take the children on their right first, a child on the right goes to its
    head without anything on its left, and a child on the left to its head with all that is on its right.

    >>> import torch
    >>> from pyro_unsup.distributions.bracketing import constituents
    >>> from pyro_unsup.distributions.headed_bracketing import brackets_of
    >>> lengths, heads = torch.tensor([3]), torch.tensor([2, 0, 2])
    >>> constituents(brackets_of(heads, lengths), lengths).tolist()[3:]  # without single words
    [[0, 1, 3], [0, 0, 3]]
    >>> constituents(brackets_of(heads, lengths, "left"), lengths).tolist()[3:]
    [[0, 0, 2], [0, 0, 3]]
    """
    from ..kernels.headed_bracketing import brackets_of_heads

    check_order(order)
    if bool((heads < 0).any()):
        some = torch.zeros_like(lengths).index_add(0, _owner(lengths), (heads < 0).long()) > 0
        check_heads(heads[~some[_owner(lengths)]], lengths[~some])
    else:
        heads = check_heads(heads, lengths)
    found = brackets_of_heads(heads.cpu().contiguous().numpy(), lengths.cpu().numpy(), order == "left")
    return found.to(lengths.device)


def check_order(order: str) -> None:
    if order not in ORDERS:
        raise StructureError(f"order should be 'right' or 'left', the side of the first children, actual {order!r:.80}")


def _owner(lengths: Tensor) -> Tensor:  # (B,) -> (tokens,)
    return torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)

"""Where the dependency model starts: what one would count if nothing were known but that short arcs are likelier.

Klein & Manning (2004) say: the root is equally likely to be any word, every word has the same number of arguments, and
a word is a head in inverse proportion to its distance plus a constant. Their constants are not published. Here are four
readings that are in use, each a function of tags (tokens,), lengths (B,) and how many tags there are, with constants of
its own. They give counts by table, smoothed and ready to be normalised.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..distributions import Dependency
from ..distributions.cells import arcs_of
from ..distributions.dependency import ADJACENT, BEYOND, CONTINUE, STOP
from ..distributions.dependency_priors import harmonic_weights
from ..distributions.ragged import offsets_of
from ..errors import StructureError

Counts = dict[str, Tensor]


def by_counts(
    tags: Tensor, lengths: Tensor, K: int, distance: float = 0.0, smoothing: float = 0.1, share: float = 0.9
) -> Counts:
    """Heads word by word, with no thought of trees. In a sentence of n words each is the root with probability 1 / n;
    else another word is its head, in proportion to 1 / (length + distance).

    A word then has a number k of children on each side, where there are words. How often has it some? One number e for
    all words says it: it stops at once 1 - e times, continues first e times and k - e times after that, and stops
    beyond e times.

    :param smoothing: is added to all counts, before e is chosen.
    :param share: e is this share of the largest number, up to 1, that leaves no count of any tag below zero.
    """
    _check(distance, smoothing, share)
    owner, head, child = arcs_of(lengths)
    n = lengths[owner].double()
    weight = torch.where((head > 0) & (head != child), harmonic_weights(lengths, distance).exp(), 0.0)
    row = offsets_of(lengths)[owner] + child - 1  # (cells,) which word the child is
    total = torch.zeros(len(tags), dtype=torch.float64).index_add(0, row, weight)
    mass = torch.where(head == 0, 1 / n, torch.where(weight > 0, (n - 1) / n * weight / total[row], 0.0))
    above, side = offsets_of(lengths)[owner] + head - 1, (head < child).long()

    below = head > 0
    root = torch.zeros(K, dtype=torch.float64).index_add(0, tags[row[~below]], mass[~below])
    place = (tags[above] * 2 + side) * K + tags[row]
    attach = torch.zeros(K * 2 * K, dtype=torch.float64).index_add(0, place[below], mass[below]).reshape(K, 2, K)

    children = torch.zeros(2 * len(tags), dtype=torch.float64).index_add(0, (above * 2 + side)[below], mass[below])
    kind = tags.repeat_interleave(2) * 2 + torch.arange(2).repeat(len(tags))

    def by_kind(each: Tensor) -> Tensor:  # (2 tokens,) -> (K, 2)
        return torch.zeros(2 * K, dtype=torch.float64).index_add(0, kind, each.double()).reshape(K, 2)

    k, some, all_ = by_kind(children), by_kind(children > 0), by_kind(torch.ones_like(children))
    fits = torch.where(some > 0, (k + smoothing) / some, 1.0)
    e = share * min(1.0, float(fits.min()))
    stop = torch.zeros(K, 2, 2, 2, dtype=torch.float64)
    stop[:, :, ADJACENT, STOP] = all_ - e * some
    stop[:, :, ADJACENT, CONTINUE] = stop[:, :, BEYOND, STOP] = e * some
    stop[:, :, BEYOND, CONTINUE] = k - e * some
    return {"root": root + smoothing, "attach": attach + smoothing, "stop": stop + smoothing}


def by_trees(
    tags: Tensor,
    lengths: Tensor,
    K: int,
    distance: float = 2.0,
    adjacent: float = 0.5,
    beyond: float = 0.5,
    smoothing: float = 0.01,
    power: float = 1.0,
) -> Counts:
    """What is expected if a tree weighs the product of 1 / (length + distance) of its arcs, and of its stops.

    :param adjacent: the probability to stop before the first child on a side. All trees over n words stop and continue
        equally often, so with one half for both kinds of stops only arcs count.
    :param beyond: to stop after it.
    :param smoothing: is added to all counts.
    :param power: that the weights of trees are raised to.
    """
    _check(distance, smoothing, adjacent, beyond)
    shares = torch.tensor([[adjacent, 1 - adjacent], [beyond, 1 - beyond]], dtype=torch.float64).log()
    even = Dependency(
        torch.zeros(K, dtype=torch.float64),
        torch.zeros(K, 2, K, dtype=torch.float64),
        shares.expand(K, 2, 2, 2),
        lengths,
    )
    even = even.with_potentials(arcs=harmonic_weights(lengths, distance)).with_temperature(1 / power)
    counts = even.posterior(tags).counts
    return {name: counts[name] + smoothing for name in ("root", "attach", "stop")}


def by_parameters(
    tags: Tensor,
    lengths: Tensor,
    K: int,
    distance: float = 1.0,
    adjacent: float = 0.25,
    beyond: float = 0.75,
    smoothing: float = 0.0,
) -> Counts:
    """:func:`by_trees` with words that seldom stop before the first child on a side, and mostly after it."""
    return by_trees(tags, lengths, K, distance, adjacent, beyond, smoothing)


def by_viterbi(
    tags: Tensor,
    lengths: Tensor,
    K: int,
    distance: float = 2.0,
    adjacent: float = 0.5,
    beyond: float = 0.5,
    smoothing: float = 1.0,
) -> Counts:
    """:func:`by_trees` with the best trees alone. All that are equally good share, since many are: every chain."""
    return by_trees(tags, lengths, K, distance, adjacent, beyond, smoothing, power=1e6)


def _check(distance: float, smoothing: float, *shares: float) -> None:
    if not distance > -1:
        raise StructureError(f"distance must be above -1, for words next to each other, actual {distance}")
    if not 0 <= smoothing < torch.inf:
        raise StructureError(f"smoothing must be zero or more, and finite, actual {smoothing}")
    for share in shares:
        if not 0 < share < 1:
            raise StructureError(f"a share of time or of counts must lie between 0 and 1, actual {share}")


#: By name.
READINGS: dict[str, Callable[..., Counts]] = {
    "counts": by_counts,
    "tree": by_trees,
    "parameters": by_parameters,
    "viterbi": by_viterbi,
}

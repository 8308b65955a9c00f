"""Which renaming of states brings every draw closest to the others: Hungarian assignment, iterated."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ..errors import UnsupError

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

#: Of at most so many states, all orders are compared at once: that is faster than one assignment problem a draw.
FEW_STATES = 5
#: Probabilities below this one are taken for it, so that logs are finite.
TINY = 1e-12
#: Numbers in an intermediate array.
ROOM = 2**24


def assign(cost: Floats) -> Ids:  # (S, K, K) -> (S, K)
    """For each draw, the order of its states with the least cost: ``cost[s, k, order[s, k]]``, summed over k.

    :param cost: of giving new name k to old state j, axes (draw, k, j).

    >>> import numpy as np
    >>> from pyro_unsup.workflow.assignment import assign
    >>> assign(np.array([[[1.0, 0.0], [0.0, 1.0]]])).tolist()
    [[1, 0]]
    """
    K = cost.shape[-1]
    if K <= FEW_STATES:
        orders = np.array(list(itertools.permutations(range(K))))  # (K!, K)
        total: Floats = sum(cost[:, k, orders[:, k]] for k in range(K))  # type: ignore[assignment]
        best: Ids = orders[total.argmin(1)]
        return best
    return np.stack([linear_sum_assignment(one)[1] for one in cost]).astype(np.int64)


def by_pivot(points: Floats, pivot: Floats) -> tuple[Ids, int]:  # (S, K, D), (K, D) -> (S, K)
    """Orders that bring the parameters of every draw as close as possible to those of one draw [1].

    :param points: the parameters of each state, in comparable units.
    :param pivot: those of the draw to compare with.

    **References:** [1] J.-M. Marin, K. Mengersen and C. P. Robert (2005) "Bayesian modelling and inference on mixtures
    of distributions".
    """
    # |a - b|^2 = |a|^2 + |b|^2 - 2 ab: only the last term depends on the order.
    return assign(-np.einsum("kd,sjd->skj", pivot, points)), 1


def by_ecr(labels: Ids, K: int, start: Ids, iterations: int) -> tuple[Ids, int]:  # (S, N) -> (S, K)
    """Equivalence classes representatives [1], iterated: every observation has a favourite state over all draws; a draw
    is renamed so that most observations are in their favourite one; until nothing changes.

    :param labels: the state of every observation, draw by draw.
    :param start: (S, K) orders to begin with.
    :return: the orders, and how many rounds it took.

    **References:** [1] P. Papastamoulis and G. Iliopoulos (2010) "An artificial allocations based solution to the label
    switching problem in Bayesian analysis of mixtures of distributions".
    """
    order = start
    for n in range(1, iterations + 1):
        cost = -overlap(labels, favourites(labels, np.argsort(order, 1), K), K)
        new = assign(cost)
        if _total(cost, new) >= _total(cost, order):  # a tie changes names and helps nobody
            return order, n
        order = new
    raise _unsettled(iterations)


def by_stephens(probabilities: Floats, start: Ids, iterations: int) -> tuple[Ids, int]:  # (S, N, K) -> (S, K)
    """Stephens' algorithm [1]: the mean allocation probabilities of all draws, renamed, are what each draw is compared
    with, by Kullback-Leibler divergence; until nothing changes.

    :param probabilities: of every state of every observation, draw by draw.
    :param start: (S, K) orders to begin with.
    :return: the orders, and how many rounds it took.

    **References:** [1] M. Stephens (2000) "Dealing with label switching in mixture models", algorithm 2.
    """
    S, N, K = probabilities.shape
    order = start
    for n in range(1, iterations + 1):
        mean = np.zeros((N, K))
        for part in _parts(S, N * K):
            mean += np.take_along_axis(probabilities[part], order[part][:, None], 2).sum(0)
        logs = np.log(np.maximum(mean / S, TINY))
        # sum_i p_ij (log p_ij - log q_ik): the first term does not depend on k.
        cost = -np.einsum("ik,sij->skj", logs, probabilities, optimize=True)
        new = assign(cost)
        if _total(cost, new) >= _total(cost, order):
            return order, n
        order = new
    raise _unsettled(iterations)


def favourites(labels: Ids, name: Ids, K: int) -> Ids:  # (S, N), (S, K) -> (N,)
    """The state that each observation has most often, states called by their new names."""
    S, N = labels.shape
    counts = np.zeros(N * K, np.int64)
    for part in _parts(S, N):
        renamed = np.take_along_axis(name[part], labels[part], 1)
        counts += np.bincount((np.arange(N) * K + renamed).ravel(), minlength=N * K)
    found: Ids = counts.reshape(N, K).argmax(1)
    return found


def overlap(labels: Ids, favourite: Ids, K: int) -> Floats:  # (S, N), (N,) -> (S, K, K)
    """In how many observations favourite k meets state j, draw by draw."""
    S, N = labels.shape
    found = np.empty((S, K, K))
    for part in _parts(S, N):
        size = len(labels[part])
        cell = np.arange(size)[:, None] * K * K + favourite * K + labels[part]
        found[part] = np.bincount(cell.ravel(), minlength=size * K * K).reshape(size, K, K)
    return found


def _total(cost: Floats, order: Ids) -> float:
    return float(np.take_along_axis(cost, order[..., None], 2).sum())


def _parts(size: int, each: int) -> list[slice]:
    step = max(1, ROOM // max(each, 1))
    return [slice(at, at + step) for at in range(0, size, step)]


def _unsettled(iterations: int) -> UnsupError:
    return UnsupError(f"names still changed after {iterations} iterations: raise iterations")

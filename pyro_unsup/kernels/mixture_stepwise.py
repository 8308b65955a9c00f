"""Stepwise EM of mixtures, mini-batch after mini-batch (see :mod:`.stepwise`).

The weight of a bag is a product of real numbers, one for each cluster, so that no word needs a log. Where it gets small
it is multiplied by a power of two, which is noted. A bag with a word whose weight is so small that a product may
underflow even so is done in logs.
"""

from __future__ import annotations

import numpy as np

from .exp_log import LN2_HIGH, LN2_LOW, logs
from .stepwise import log_share, stepping

#: Products stay above this, and so do weights of words. Two of those, one after the other, do not underflow.
LOW = 2.0**-300
LIFT = 600.0  # by this power of two


@stepping
def product_of(words, used, times, extra, shrink, product, lifted):  # (V, K), (n,), (n,)
    """The product of the weights of a bag, (K,), and what it was multiplied by; gives how many of those are small."""
    few, last = 0.0, -1
    for k in range(len(product)):
        product[k], lifted[k] = 1.0, 0.0
    for c in range(len(used)):
        word, left = used[c], times[c]
        while left > 0:
            if last < 0 and left == 1:
                last, left = word, 0
                continue
            other = word if last < 0 else last
            left, last = left - (2 if last < 0 else 1), -1
            for k in range(len(product)):
                first, second = (words[word, k] + extra) * shrink[k], (words[other, k] + extra) * shrink[k]
                few += 1.0 if (first < LOW) | (second < LOW) else 0.0
                found = product[k] * first * second
                small = found < LOW
                product[k] = found * 2.0**LIFT if small else found
                lifted[k] += LIFT if small else 0.0
    if last >= 0:
        for k in range(len(product)):
            product[k] *= (words[last, k] + extra) * shrink[k]
            few += 1.0 if (words[last, k] + extra) * shrink[k] < LOW else 0.0
    return few


@stepping
def logs_of(words, used, times, extra, shrink, scores):  # (V, K), (n,), (n,)
    """The same in logs."""
    scores[:] = 0.0
    for c in range(len(used)):
        for k in range(len(scores)):
            scores[k] += times[c] * log_share(words[used[c], k] + extra, 1.0 / shrink[k], 1.0)


@stepping
def posteriors(prior, beta, scores):  # (K,) each but beta
    """Posteriors of the clusters of a bag from the logs of its weights, in place; and its log Z."""
    top = -np.inf
    for k in range(len(scores)):
        scores[k] = beta * (scores[k] + prior[k])
        top = max(top, scores[k])
    if not (top > -np.inf):
        return -np.inf
    total = 0.0
    for k in range(len(scores)):
        scores[k] = np.exp(scores[k] - top)
        total += scores[k]
    for k in range(len(scores)):
        scores[k] *= 1.0 / total
    return top + np.log(total)


@stepping
def stepwise_pass(
    tables,  # cluster and words
    data,  # words of bags, how often each occurs (cells,), offsets (B + 1,)
    beta,
    order,  # (n,) examples, mini-batch by mini-batch
    batch_size,
    steps,  # (mini-batches,) step sizes
    scale,
    floor,  # the smallest scale
    log_z,  # (mini-batches,) out: log-likelihood of each, before its update
):
    """How many mini-batches were done, and the scale after them."""
    (cluster, cluster_sum, cluster_more, cluster_extra), (flat, sums, more, word_extra) = tables
    used, times, offsets = data
    K = len(cluster)
    words, found = flat.reshape(len(flat) // K, K), np.empty((batch_size, K))
    prior, shrink, product, lifted, room = np.empty(K), np.empty(K), np.empty(K), np.empty(K), np.empty(K)

    for batch in range(len(steps)):
        mine = order[batch * batch_size : (batch + 1) * batch_size]
        after, over = scale * (1.0 - steps[batch]), 1.0 / scale
        if not (after >= floor):
            return batch, scale
        whole, extra = np.log(cluster_sum[0] + cluster_more[0] * over), word_extra * over
        for k in range(K):
            room[k] = cluster[k] + cluster_extra * over
            shrink[k] = 1.0 / (sums[k] + more[k] * over)
        logs(room, prior)
        for k in range(K):
            prior[k] -= whole
        total = 0.0
        for i in range(len(mine)):
            begin, end, scores = offsets[mine[i]], offsets[mine[i] + 1], found[i]
            few = product_of(words, used[begin:end], times[begin:end], extra, shrink, product, lifted)
            if few == 0:
                logs(product, scores)
                for k in range(K):
                    scores[k] = (scores[k] - lifted[k] * LN2_LOW) - lifted[k] * LN2_HIGH
            else:
                logs_of(words, used[begin:end], times[begin:end], extra, shrink, scores)
            score = posteriors(prior, beta, scores)
            if not (score > -np.inf):
                return batch, scale
            total += score

        log_z[batch] = total / beta
        scale = after
        gain = steps[batch] / scale
        for i in range(len(mine)):
            posterior, size = found[i], 0
            for k in range(K):
                posterior[k] *= gain
                cluster[k] += posterior[k]
                cluster_sum[0] += posterior[k]
            for c in range(offsets[mine[i]], offsets[mine[i] + 1]):
                word, each = used[c], float(times[c])
                size += times[c]
                for k in range(K):
                    words[word, k] += each * posterior[k]
            for k in range(K):
                sums[k] += float(size) * posterior[k]
    return len(steps), scale

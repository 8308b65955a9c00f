"""Stepwise EM of segmentations, mini-batch after mini-batch (see :mod:`.stepwise`)."""

from __future__ import annotations

import numpy as np

from .exp_log import TINY
from .segmentation_pass import scaled_pass
from .stepwise import BOUND, SMALLEST, log_share, most_rows, stepping, summed


@stepping
def stepwise_pass(
    tables,  # segments and stop
    data,  # cells (symbols, L) of the table of segments, -1 for none; log-weights of lengths (L + 1,); offsets (B + 1,)
    beta,
    order,  # (n,) examples, mini-batch by mini-batch
    batch_size,
    steps,  # (mini-batches,) step sizes
    scale,
    floor,  # the smallest scale
    log_z,  # (mini-batches,) out: log-likelihood of each, before its update
):
    """How many mini-batches were done, and the scale after them."""
    (segments, segment_sum, segment_more, segment_extra), (stop, stop_sum, stop_more, stop_extra) = tables
    cells, length, offsets = data
    L, room = cells.shape[1], most_rows(offsets, order, batch_size)
    # Every piece of a mini-batch is a type of segment of its own here. The last one is none.
    real, counts = np.zeros(room * L + 1), np.empty(room * L + 1)
    own = np.arange(room * L).astype(np.int32).reshape(room, L)
    real_length, n_length, n_stop = np.empty(L + 1), np.empty(L + 1), np.empty(2)
    where, weigh, todo = np.zeros(batch_size + 1, np.int64), np.ones(batch_size), np.arange(batch_size)
    found, trouble = np.empty(batch_size), np.empty(batch_size, np.bool_)

    for batch in range(len(steps)):
        mine = order[batch * batch_size : (batch + 1) * batch_size]
        after, over = scale * (1.0 - steps[batch]), 1.0 / scale
        if not (after >= floor):
            return batch, scale
        extra, whole = stop_extra * over, stop_sum[0] + stop_more[0] * over
        go, end = log_share(stop[0] + extra, whole, beta), log_share(stop[1] + extra, whole, beta)
        extra, shrink = segment_extra * over, 1.0 / (segment_sum[0] + segment_more[0] * over)
        for w in range(L + 1):
            logs = beta * length[w] + go
            real_length[w] = max(np.exp(logs), TINY) if logs > -np.inf else 0.0
        at = 0
        for i in range(len(mine)):
            begin, n = offsets[mine[i]], offsets[mine[i] + 1] - offsets[mine[i]]
            for t in range(n):
                for w in range(min(L, t + 1)):
                    cell = cells[begin + t, w]
                    count = segments[cell] + extra if cell >= 0 else 0.0
                    weight = count * shrink if beta == 1.0 else (count * shrink) ** beta
                    real[at * L + w] = max(weight, TINY) if count > 0 else 0.0
                at += 1
            where[i + 1] = at
        used = counts[: at * L + 1]
        used[:] = 0.0
        n_length[:] = 0.0
        n_stop[:] = 0.0
        scaled_pass(
            real[: at * L + 1], real_length, end, own, where, todo[: len(mine)], BOUND, SMALLEST, weigh, found, trouble,
            used, n_length, n_stop,
        )  # fmt: skip
        total, fine = summed(found, trouble, len(mine))
        if not fine:
            return batch, scale

        log_z[batch] = total / beta
        scale = after
        gain, at, more = steps[batch] / scale, 0, 0.0
        for b in mine:
            begin, n = offsets[b], offsets[b + 1] - offsets[b]
            for t in range(n):
                for w in range(min(L, t + 1)):
                    if cells[begin + t, w] >= 0:
                        count = gain * used[at * L + w]
                        segments[cells[begin + t, w]] += count
                        more += count
                at += 1
        segment_sum[0] += more
        for k in range(2):
            stop[k] += gain * n_stop[k]
            stop_sum[0] += gain * n_stop[k]
    return len(steps), scale

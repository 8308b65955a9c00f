"""Jumps between the words of a sentence: what they weigh by place, and how those of one word are added up and counted.

Near jumps, of less than W words, are weighed one by one. Those of W words and more share a weight. A jump goes in one
of D directions, which the next jump may depend on: back, to the same word, to the next, or further ahead.
"""

from __future__ import annotations

from ...array import Array
from ..ring import add, as_real, compiled, inlined, kept_times, times, zero


@compiled
def room_of(place: int, size: int, W: int, kind: int, inner: int) -> int:
    """The number of a place by the room that is left around it: 0 is before the first word, -1 behind the last.

    ``kind`` is that of jumps from this place, one of ``inner``."""
    if place == 0:
        return inner * (W + 1) * (W + 1) + min(size, W) - 1
    if place == -1:
        return inner * (W + 1) * (W + 1) + W + min(size + 1, W) - 1
    return (kind * (W + 1) + min(place - 1, W)) * (W + 1) + min(size - place, W)


@compiled
def direction(k: int, W: int, D: int) -> int:
    """Where a jump goes, by the number of its weight: back, to the same word, to the next, or further ahead."""
    if D == 1:
        return 0
    return 0 if k < W else 1 if k == W else 2 if k == W + 1 else 3


@compiled
def ways_of(way: int, W: int, S: int, D: int) -> tuple[int, int]:
    """The numbers of the weights of near jumps in one direction, in a sentence of so many words: from, and up to."""
    low, high = max(1, W - S + 1), min(2 * W, W + S)
    if D == 1:
        return low, high
    if way == 0:
        return low, min(W, high)
    if way == 1:
        return max(W, low), min(W + 1, high)
    return (W + 1, min(W + 2, high)) if way == 2 else (W + 2, high)


@compiled
def weigh_jumps(
    mode: int,
    jump: Array,  # (kinds, 2 W + 1): to the first link, from link to link, from the last one to the end
    room: Array,  # (rooms,)
    share: Array,  # (most,) by how many places share a weight
    classes: Array,  # (S,)
    near: Array,  # (D, 2 W + 1, at least S + 1 + 2 W) out: near jumps from each place, with W places on either side
    by_place: Array,  # (D, 3, at least S + 1) out
    into: Array,  # (D, at least S + 1) out
    out: Array,  # (at least S + 1,) out
) -> None:
    """What jumps weigh by place and by the direction of the jump before: near ones; all that start there; those of W
    and more to the right, and those to the left. The jump to the first link, by its direction and where it leads; and
    the jump to the end, by where it starts. Where near jumps weigh the same wherever they start, only those from the
    first place are told."""
    W, S, D, inner = (jump.shape[1] - 1) // 2, len(classes), len(near), len(jump) - 2
    C = inner // D
    begin = room[room_of(0, S, W, 0, inner)] if S > 0 else zero(mode)
    end = room[room_of(-1, S, W, 0, inner)]
    for d in range(D):
        free, more, less = by_place[d]
        for m in range(1, S + 1):
            kind = d * C + classes[m - 1]
            free[m] = room[room_of(m, S, W, kind, inner)]
            more[m] = kept_times(mode, jump[1 + kind, 2 * W], share[S - m - W]) if S - m >= W else zero(mode)
            less[m] = kept_times(mode, jump[1 + kind, 0], share[m - W - 1]) if m > W else zero(mode)
        for k in range(1, 2 * W):
            for m in range(1, 2 if C == 1 else S + 1):
                near[d, k, W + m] = kept_times(mode, jump[1 + d * C + classes[m - 1] if C > 1 else 1 + d, k], share[0])
    for m in range(1, S + 1):
        k = W + min(m, W)
        for d in range(D):
            into[d, m] = zero(mode)
        there = kept_times(mode, begin, share[S - W if m >= W else 0])
        into[direction(k, W, D), m] = kept_times(mode, jump[0, k], there)
    for m in range(S + 1):
        there = kept_times(mode, end, share[S - W + 1 if S + 1 - m >= W else 0])
        out[m] = kept_times(mode, jump[inner + 1, W + min(S + 1 - m, W)], there)


@inlined
def arrive(
    mode: int,
    low: int,
    high: int,
    S: int,
    alike: bool,  # whether weights are the same wherever a jump starts
    near: Array,  # (2 W + 1, at least S + 1 + 2 W)
    here: Array,  # (at least S + 1 + 2 W,) the message, with W places on either side
    tops: Array,  # (at least S,) added to
    rests: Array,  # likewise
) -> None:
    """Add up near jumps by the place where they lead. Two at a time: every sum is then loaded half as often."""
    W = (len(near) - 1) // 2
    for k in range(low, high - 1, 2):  # jumps of k - W and of one more
        at = 2 * W + 1 - k
        come, also = here[at : at + S], here[at - 1 : at - 1 + S]
        if alike:
            u, v = near[k, W + 1], near[k + 1, W + 1]
            for m in range(S):
                top, rest = add(mode, tops[m], rests[m], times(mode, u, come[m]))
                tops[m], rests[m] = add(mode, top, rest, times(mode, v, also[m]))
        else:
            us, vs = near[k, at : at + S], near[k + 1, at - 1 : at - 1 + S]
            for m in range(S):
                top, rest = add(mode, tops[m], rests[m], times(mode, us[m], come[m]))
                tops[m], rests[m] = add(mode, top, rest, times(mode, vs[m], also[m]))
    if (high - low) % 2 == 1 and high > low:
        at = 2 * W + 2 - high
        us, come = near[high - 1, at : at + S], here[at : at + S]
        u = near[high - 1, W + 1]
        for m in range(S):
            weight = u if alike else us[m]
            tops[m], rests[m] = add(mode, tops[m], rests[m], times(mode, weight, come[m]))


@inlined
def leave(
    mode: int,
    low: int,
    high: int,
    S: int,
    alike: bool,
    near: Array,  # (2 W + 1, at least S + 1 + 2 W)
    toward: Array,  # (at least S + 1 + 2 W,) what a link to each place weighs, with W places on either side
    middle: Array,  # (S,) the message forwards
    tops: Array,  # (at least S,) added to
    rests: Array,  # likewise
    used: Array,  # (at least 2 W + 1, at least S + 1) added to: how often, by place; if all are alike, at place 1
) -> None:
    """Add up near jumps by the place where they start, and count them."""
    W = (len(near) - 1) // 2
    for k in range(low, high - 1, 2):  # jumps of k - W and of one more
        go, also = toward[k + 1 : k + 1 + S], toward[k + 2 : k + 2 + S]
        if alike:
            u, v, p, q = near[k, W + 1], near[k + 1, W + 1], 0.0, 0.0
            for m in range(S):
                step, other = times(mode, u, go[m]), times(mode, v, also[m])
                top, rest = add(mode, tops[m], rests[m], step)
                tops[m], rests[m] = add(mode, top, rest, other)
                p += as_real(mode, times(mode, middle[m], step))
                q += as_real(mode, times(mode, middle[m], other))
            used[k, 1] += p
            used[k + 1, 1] += q
        else:
            us, vs = near[k, W + 1 : W + 1 + S], near[k + 1, W + 1 : W + 1 + S]
            ps, qs = used[k, 1 : S + 1], used[k + 1, 1 : S + 1]
            for m in range(S):
                step, other = times(mode, us[m], go[m]), times(mode, vs[m], also[m])
                top, rest = add(mode, tops[m], rests[m], step)
                tops[m], rests[m] = add(mode, top, rest, other)
                ps[m] += as_real(mode, times(mode, middle[m], step))
                qs[m] += as_real(mode, times(mode, middle[m], other))
    if (high - low) % 2 == 1 and high > low:
        k = high - 1
        us, go, ps = near[k, W + 1 : W + 1 + S], toward[k + 1 : k + 1 + S], used[k, 1 : S + 1]
        u, p = near[k, W + 1], 0.0
        for m in range(S):
            step = times(mode, u if alike else us[m], go[m])
            tops[m], rests[m] = add(mode, tops[m], rests[m], step)
            if alike:
                p += as_real(mode, times(mode, middle[m], step))
            else:
                ps[m] += as_real(mode, times(mode, middle[m], step))
        if alike:
            used[k, 1] += p


@compiled
def jumps_on(
    d: int,  # the direction of the last jump
    m: int,  # the place where it led
    S: int,
    near: Array,  # (D, 2 W + 1, at least S + 1 + 2 W)
    by_place: Array,  # (D, 3, at least S + 1)
    into: Array,  # (D, at least S + 1)
    alike: bool,
    pull: Array,  # (D, ...) what a link to each place weighs, with W places on either side
) -> bool:
    """Whether some jump from a place to a link is possible, however unlikely."""
    D, W = len(near), (near.shape[1] - 1) // 2
    if (m == 0 and d > 0) or (m > 0 and not by_place[d, 0, m] > 0):
        return False
    for other in range(1, S + 1):
        k = W + max(-W, min(W, other - m))
        edge = into[direction(k, W, D), other] if m == 0 else near[d, k, W + (1 if alike else m)]
        if m > 0 and (k == 0 or k == 2 * W):
            edge = by_place[d, 1 if k else 2, m]
        if edge > 0 and pull[direction(k, W, D), W + other] > 0:
            return True
    return False


@compiled
def count_jumps(
    mine: Array,  # (3, 2 W + 1) jumps of one pair: to the first link, none, to the end
    used: Array,  # (D, 2 W + 2, at least S + 1) from each place: jumps from link to link, by offset; all jumps
    classes: Array,  # (S,)
    inner: int,
    scale: float,
    n_jump: Array,  # (kinds, 2 W + 1) added to
    n_room: Array,  # added to
    n_share: Array,  # added to
) -> None:
    """Turn the jumps of one pair into counts of what they use."""
    W, S, D = (n_jump.shape[1] - 1) // 2, len(classes), len(used)
    C = inner // D
    for d in range(D):
        for k in range(2 * W + 1):
            mark, into, near = used[d, k, 1 : S + 1], n_jump[1 + d * C : 1 + d * C + C, k], 0.0
            for m in range(1 if C == 1 and 0 < k < 2 * W else S):
                near += mark[m]
            if C == 1:
                into[0] += scale * near
            else:
                for m in range(S):
                    into[classes[m]] += scale * mark[m]
            if 0 < k < 2 * W:
                n_share[0] += scale * near
        along, onward, back = used[d, 2 * W + 1], used[d, 2 * W], used[d, 0]
        for m in range(1, S + 1):
            n_room[room_of(m, S, W, d * C + classes[m - 1], inner)] += scale * along[m]
            if S - m >= W:
                n_share[S - m - W] += scale * onward[m]
            if m > W:
                n_share[m - W - 1] += scale * back[m]
    if S > 0:
        n_room[room_of(0, S, W, 0, inner)] += scale * used[0, 2 * W + 1, 0]
    n_room[room_of(-1, S, W, 0, inner)] += scale
    if S >= W:
        n_share[S - W] += scale * mine[0, 2 * W]
    if S + 1 >= W:
        n_share[S - W + 1] += scale * mine[2, 2 * W]
    for k in range(2 * W + 1):
        n_jump[0, k] += scale * mine[0, k]
        n_jump[inner + 1, k] += scale * mine[2, k]
        if k < 2 * W:
            n_share[0] += scale * (mine[0, k] + mine[2, k])

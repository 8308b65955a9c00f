"""The torch definitions of structures, without kernels, beside torch-struct: log Z and its gradient on the same batch.

    pip install --no-deps torch-struct==0.5
    python -m benchmarks.definitions
    python -m benchmarks.definitions --only "PCFG, kernel"

The last case has its kernel: a grammar of the size that papers use, on sentences of 20 words.

Sequences of a batch have one length, which torch-struct likes best. All is float64, on one thread; the figure is the
median of side-by-side runs, and the ratio is torch-struct's time over ours.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import torch
import torch_struct
from torch import Tensor

from pyro_unsup import Chain, kernels
from pyro_unsup.distributions import PCFG, Bracketing, Dependency, Segmentation, Structure


def table(*shape: int) -> Tensor:
    return torch.randn(shape).log_softmax(-1)


def ours(dist: Structure, value: Tensor, kernel: bool = False) -> Callable[[], Tensor]:
    """log Z and counts of all weights."""
    leaves = {name: w.clone().requires_grad_() for name, w in dist.weights.items()}

    def work() -> Tensor:
        with nullcontext() if kernel else kernels.switched_off():
            total = dist.with_weights(leaves).log_prob(value)
            torch.autograd.grad(total.sum(), list(leaves.values()))
        return total.detach()

    return work


def crf(make: Callable[[], torch_struct.StructDistribution], *leaves: Tensor) -> Callable[[], Tensor]:
    """log Z and its gradient in the tables that the potentials are looked up in."""

    def work() -> Tensor:
        total = make().partition
        torch.autograd.grad(total.sum(), leaves)
        return total.detach()

    return work


def chain(B: int = 10, n: int = 22, K: int = 20, V: int = 500) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
    start, transition, emission = (x.requires_grad_() for x in (table(K), table(K, K), table(K, V)))
    words = torch.randint(V, (B, n))

    def make() -> torch_struct.StructDistribution:
        emitted = emission.mT[words]  # (B, n, K)
        edges = transition.mT + emitted[:, 1:, :, None]  # (B, n - 1, new, old)
        first = torch.zeros_like(edges)
        first[:, 0] = 1.0
        return torch_struct.LinearChainCRF(edges + first * (start + emitted[:, :1]).unsqueeze(-2))

    dist = Chain(start.detach(), transition.detach(), emission.detach(), torch.full((B,), n), flat=True)
    return ours(dist, words.reshape(-1)), crf(make, start, transition, emission)


def dependency(B: int = 100, n: int = 10, K: int = 34) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
    """torch-struct has no valence: its decisions cost nothing, and are zeros here."""
    root, attach = (x.requires_grad_() for x in (table(K), table(K, 2, K)))
    tags, at = torch.randint(K, (B, n)), torch.arange(n)

    def make() -> torch_struct.StructDistribution:
        arcs = attach[tags[:, :, None], (at[:, None] < at).long(), tags[:, None, :]]  # (B, head, child)
        diagonal = torch.eye(n, dtype=torch.bool)
        return torch_struct.DependencyCRF(torch.where(diagonal, root[tags].unsqueeze(1), arcs), multiroot=False)

    dist = Dependency(root.detach(), attach.detach(), torch.zeros(K, 2, 2, 2), torch.full((B,), n))
    return ours(dist, tags.reshape(-1)), crf(make, root, attach)


def trees(B: int = 100, n: int = 12, Y: int = 300) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
    """Binary trees: spans weighed as constituents alone."""
    yields = table(Y).requires_grad_()
    spans = torch.randint(Y, (B, n * (n + 1) // 2))
    order = [(i, i + w) for w in range(n) for i in range(n - w)]
    place = torch.zeros(n, n, dtype=torch.long)
    for k, (i, j) in enumerate(order):
        place[i, j] = k

    def make() -> torch_struct.StructDistribution:
        chart = yields[spans[:, place]]  # (B, n, n)
        return torch_struct.TreeCRF(chart.unsqueeze(-1).clone())

    both = torch.stack([torch.zeros(Y), yields.detach()])
    dist = Bracketing(both, torch.zeros(2, 1), torch.full((B,), n))
    value = torch.stack([spans.reshape(-1), torch.zeros(spans.numel(), dtype=torch.long)], 1)
    return ours(dist, value), crf(make, yields)


def segmentation(
    B: int = 50, n: int = 30, S: int = 2000, L: int = 8
) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
    segments = table(S).requires_grad_()
    cells = torch.randint(S, (B, n, L))  # by end and length
    number = torch.zeros(B, n, L + 1, dtype=torch.long)  # by start and length, as torch-struct has them
    known = torch.zeros(B, n, L + 1, dtype=torch.bool)
    for start in range(n):
        for w in range(1, min(L, n - start) + 1):
            number[:, start, w] = cells[:, start + w - 1, w - 1]
            known[:, start, w] = True

    def make() -> torch_struct.StructDistribution:
        return torch_struct.SemiMarkovCRF(torch.where(known, segments[number], -1e5)[..., None, None])

    early = torch.arange(n).unsqueeze(-1) < torch.arange(L)
    value = cells.masked_fill(early, -1).reshape(B * n, L)
    dist = Segmentation(segments.detach(), torch.zeros(L + 1), torch.zeros(2), torch.full((B,), n))
    return ours(dist, value), crf(make, segments)


def pcfg(
    B: int = 50, n: int = 10, N: int = 10, P: int = 20, V: int = 100, kernel: bool = False
) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
    root, rules, emission = (x.requires_grad_() for x in (table(N), table(N, N + P, N + P), table(P, V)))
    words = torch.randint(V, (B, n))

    def make() -> torch_struct.StructDistribution:
        return torch_struct.SentCFG(
            (emission.mT[words], rules.expand(B, *rules.shape), root.expand(B, N)), lengths=torch.full((B,), n)
        )

    dist = PCFG(root.detach(), rules.detach(), emission.detach(), torch.full((B,), n))
    return ours(dist, words.reshape(-1), kernel), crf(make, root, rules, emission)


CASES = {
    "chain": chain,
    "dependency": dependency,
    "binary trees": trees,
    "segmentation": segmentation,
    "PCFG": pcfg,
    "PCFG, kernel": partial(pcfg, B=10, n=20, N=30, P=60, V=1000, kernel=True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CASES, help="one structure")
    parser.add_argument("--runs", type=int, default=9, help="side-by-side runs of each (default 9)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    print(f"{'structure':14}{'ours, ms':>10}{'torch-struct, ms':>18}{'ratio':>8}{'log Z differs by':>18}")
    for name in [args.only] if args.only else CASES:
        torch.manual_seed(0)
        one, other = CASES[name]()
        gap = float((one() - other().reshape(-1)).abs().max())
        times: list[tuple[float, float]] = []
        for _ in range(args.runs):
            pair = []
            for work in (one, other):
                began = time.perf_counter()
                work()
                pair.append(time.perf_counter() - began)
            times.append((pair[0], pair[1]))
        mine, theirs = (statistics.median(t[k] for t in times) * 1e3 for k in (0, 1))
        ratio = statistics.median(b / a for a, b in times)
        print(f"{name:14}{mine:10.1f}{theirs:18.1f}{ratio:8.2f}{gap:18.1e}", flush=True)


if __name__ == "__main__":
    main()

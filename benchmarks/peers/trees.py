"""Posteriors over trees for the same weights: projective dependencies, and binary brackets.

All must find the same sum of log-partition functions, and the same sum of squared posteriors. Peers get sentences in
batches of one length, so that nothing is padded.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from .problem import Contender, Curve, Job, Problem, batches, squares
from .texts import Arrays, offsets, tag_sequences


def our_dependencies(data: Arrays) -> Job:
    import torch

    from pyro_unsup.distributions import Dependency

    lengths, tags = torch.from_numpy(data["lengths"]), torch.from_numpy(data["tags"])
    stop = torch.zeros(len(data["root"]), 2, 2, 2, dtype=torch.float64)  # no valence: peers have none
    trees = Dependency(torch.from_numpy(data["root"]), torch.from_numpy(data["attach"]), stop, lengths)

    def run() -> tuple[float, torch.Tensor]:
        posterior = trees.posterior(tags)
        return float(posterior.log_partition.sum()), posterior.marginals

    return Job(run, lambda found: {"log_partition": found[0], "posteriors": squares(found[1])})


def our_brackets(data: Arrays) -> Job:
    import torch

    from pyro_unsup.distributions import Bracketing
    from pyro_unsup.distributions.cells import spans_of

    lengths, tags = torch.from_numpy(data["lengths"]), torch.from_numpy(data["tags"])
    span = torch.from_numpy(data["span"])
    owner, start, end = spans_of(lengths)
    first = torch.from_numpy(offsets(data["lengths"]))[owner]
    pair = tags[first + start] * len(span) + tags[first + end - 1]
    value = torch.stack([pair, torch.zeros_like(pair)], 1)
    weights = torch.stack([torch.zeros(span.numel(), dtype=span.dtype), span.reshape(-1)])
    trees = Bracketing(weights, torch.zeros(2, 1, dtype=span.dtype), lengths)

    def run() -> tuple[float, torch.Tensor]:
        posterior = trees.posterior(value)
        return float(posterior.log_partition.sum()), posterior.marginals

    return Job(run, lambda found: {"log_partition": found[0], "posteriors": squares(found[1])})


def _weights(data: Arrays, names: tuple[str, ...]) -> Any:
    import torch

    return [torch.from_numpy(data[name]).float() for name in names]


def _by_batch(data: Arrays, make: Callable[[Any], Any], log_partition: str) -> Job:
    """Posteriors of all batches, by something that makes a distribution of one."""
    import torch

    texts = [torch.from_numpy(x) for x in batches(data["tags"], data["lengths"])]

    def run() -> tuple[float, list[Any]]:
        total, posteriors = 0.0, []
        for tags in texts:
            crf = make(tags)
            posteriors.append(crf.marginals.detach())
            total += float(getattr(crf, log_partition).detach().sum())
        return total, posteriors

    def answer(found: tuple[float, list[Any]]) -> dict[str, float]:
        return {"log_partition": found[0], "posteriors": sum(squares(x.double()) for x in found[1])}

    return Job(run, answer)


def supar_dependencies(data: Arrays) -> Job:
    import torch

    warnings.simplefilter("ignore")
    from supar.structs import DependencyCRF

    root, attach = _weights(data, ("root", "attach"))

    def make(tags: torch.Tensor) -> Any:
        size, n = tags.shape
        place = torch.arange(n)
        right = (place[None, :] < place[:, None]).long()  # by child and head: does the head come first?
        scores = torch.zeros(size, n + 1, n + 1)
        scores[:, 1:, 0] = root[tags]
        scores[:, 1:, 1:] = attach[tags[:, None, :], right, tags[:, :, None]]
        return DependencyCRF(scores, torch.full((size,), n), multiroot=False)

    return _by_batch(data, make, "log_partition")


def supar_brackets(data: Arrays) -> Job:
    import torch

    warnings.simplefilter("ignore")
    from supar.structs import ConstituencyCRF

    (span,) = _weights(data, ("span",))

    def make(tags: torch.Tensor) -> Any:
        size, n = tags.shape
        scores = torch.zeros(size, n + 1, n + 1)
        scores[:, :-1, 1:] = span[tags[:, :, None], tags[:, None, :]]
        return ConstituencyCRF(scores, torch.full((size,), n))

    return _by_batch(data, make, "log_partition")


def torch_struct_dependencies(data: Arrays) -> Job:
    import torch
    from torch_struct import DependencyCRF

    warnings.filterwarnings("ignore")
    root, attach = _weights(data, ("root", "attach"))

    def make(tags: torch.Tensor) -> Any:
        n = tags.shape[1]
        place = torch.arange(n)
        right = (place[:, None] < place[None, :]).long()
        parts = attach[tags[:, :, None], right, tags[:, None, :]]  # by head and child
        parts[:, place, place] = root[tags]
        # It writes into what it is given, which torch forbids for leaves.
        return DependencyCRF(parts.requires_grad_().clone(), multiroot=False)

    return _by_batch(data, make, "partition")


def torch_struct_brackets(data: Arrays) -> Job:
    import torch
    from torch_struct import TreeCRF

    warnings.filterwarnings("ignore")
    (span,) = _weights(data, ("span",))

    def make(tags: torch.Tensor) -> Any:
        return TreeCRF(span[tags[:, :, None], tags[:, None, :]][..., None])

    return _by_batch(data, make, "partition")


SAME = ("log_partition", "posteriors")
CURVES = {
    "sentences": Curve(
        "sentences",
        tuple({"sentences": n, "length": 0} for n in (1_750, 7_000, 28_000)),
        ({"sentences": 300, "length": 0}, {"sentences": 600, "length": 0}),
        "sentences",
    ),
    "length": Curve(
        "length",
        tuple({"sentences": 3_200 // n, "length": n} for n in (10, 20, 40, 80, 160)),
        ({"sentences": 20, "length": 20},),
        "tags in a sentence",
    ),
}


def _problem(name: str, ours: Any, supar: Any, torch_struct: Any) -> Problem:
    return Problem(
        name,
        "posteriors",
        tag_sequences,
        {"sentences": 4, "length": 0},
        CURVES,
        (
            Contender("ours", ours),
            Contender("supar", supar, "supar", "float32", agrees=SAME),
            Contender("torch-struct", torch_struct, "torch-struct", "float32", agrees=SAME),
        ),
        main=1,
    )


PROBLEMS = (
    _problem("dependency trees", our_dependencies, supar_dependencies, torch_struct_dependencies),
    _problem("binary trees", our_brackets, supar_brackets, torch_struct_brackets),
)

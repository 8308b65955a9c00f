"""Tables of a model whose labels were sampled: draws of them given the labels of every draw, all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pyro import poutine
from torch import Tensor

from ..distributions import Structure
from ..errors import UnsupError
from ..handlers.given import given
from ..models.clusterer import Bags
from ..models.sentences import Sentences
from ..results import Samples

#: Numbers of potentials that are looked at together.
ROOM = 2**24


def sampled_data(samples: Samples) -> Any:
    """The data that labels were sampled for, as the model takes them."""
    found = {name: torch.from_numpy(np.asarray(x)) for name, x in samples.data.items()}
    if "times" in found:
        return Bags(torch.stack([found["words"], found["times"]], 1), found["offsets"].diff())
    if "words" not in found:
        raise UnsupError(
            f"labels of {samples.model!r} are no states with tables of their own: expected samples of a tagger or a "
            "clusterer"
        )
    return Sentences(found["words"], found["offsets"])


def draw_tables(samples: Samples, seed: int = 0) -> dict[str, Tensor]:  # (chains, draws, *table) each
    """Tables drawn given labels, as probabilities: Dirichlet rows on top of the counts of the labels of each draw.

    Labels with tables integrated out, and then tables given labels, are draws of both from their posterior.

    :param seed: the same tables come from the same seed.
    """
    chains, draws, units = samples.labels.shape
    declared = samples.model.declarations()
    labels = torch.from_numpy(samples.labels.reshape(-1, units).astype(np.int64))
    alpha = torch.from_numpy(samples.draws["alpha"].reshape(len(labels), -1))
    beta = torch.from_numpy(samples.draws["beta"].reshape(len(labels), -1))
    rows, emitted = samples.tables
    found: dict[str, list[Tensor]] = {name: [] for name in declared}
    at_once = max(1, ROOM // max(1, units * samples.K + sum(d.layout.shape.numel() for d in declared.values())))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for part in torch.arange(len(labels)).split(at_once):
            counts = _counts(samples, labels[part])
            for name, declaration in declared.items():
                own = beta[part][..., None] if name == emitted else alpha[part, rows.index(name)]
                wide = own.reshape(len(part), *own.shape[1:], *(1,) * (counts[name].dim() - own.dim()))
                drawn = log_dirichlet(counts[name] + wide, declaration.layout.allowed())
                found[name].append(drawn.exp())
    return {name: torch.cat(x).reshape(chains, draws, *x[0].shape[1:]) for name, x in found.items()}


def log_dirichlet(concentration: Tensor, allowed: Tensor) -> Tensor:  # (*batch, *rows, outcomes)
    """Logs of Dirichlet rows. Gamma(a) is drawn as Gamma(a + 1) times a power of a uniform number, in logs: draws of
    small concentrations would underflow."""
    more = torch.distributions.Gamma(concentration + 1, torch.ones_like(concentration)).sample().log()
    drawn = more + torch.rand_like(concentration).log() / concentration
    return drawn.masked_fill(~allowed, -torch.inf).log_softmax(-1)


def _counts(samples: Samples, labels: Tensor) -> dict[str, Tensor]:  # (S, units) -> (S, *table) each
    """How often the labels of each draw use every cell: the gradient of log p(labels, data) in the log-weights."""
    declared = samples.model.declarations()
    zeros = {
        name: d.layout.mask(torch.zeros(d.layout.shape, dtype=torch.float64)).requires_grad_()
        for name, d in declared.items()
    }
    with torch.enable_grad():
        trace = poutine.trace(given(samples.model, zeros)).get_trace(sampled_data(samples))
        site = next(s for s in trace.nodes.values() if s["type"] == "sample" and isinstance(s["fn"], Structure))
        # Every draw has weights of its own, so that the gradient tells their counts apart.
        own = {name: w.expand(len(labels), 1, *w.shape).clone() for name, w in site["fn"].weights.items()}
        leaves = {name: w.detach().requires_grad_() for name, w in own.items()}
        score = site["fn"].with_weights(leaves).score(site["value"], labels).sum()
        found = torch.autograd.grad(score, list(leaves.values()), allow_unused=True, materialize_grads=True)
        used = dict(zip(leaves, found, strict=True))
        back = {}
        for name, table in zeros.items():
            # A run declares a part of a table where data touch few columns: the way back is the gradient, too.
            back[name] = _placed(site["fn"].weights, used, table)
    return back


def _placed(weights: dict[str, Tensor], used: dict[str, Tensor], table: Tensor) -> Tensor:  # (S, *table)
    """Counts of the weights of a distribution, put in their places in a table."""
    outputs = [w for w in weights.values() if w.requires_grad]
    names = [name for name, w in weights.items() if w.requires_grad]
    sets = [used[name].squeeze(1) for name in names]
    (found,) = torch.autograd.grad(
        outputs, [table], sets, allow_unused=True, materialize_grads=True, retain_graph=True, is_grads_batched=True
    )
    return found

"""Lazy tables and mini-batches that touch a part of them, against the definition: all counts shrink at every update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import StepwiseEM
from pyro_unsup.distributions import Agreement, Mixture, Segmentation
from pyro_unsup.infer.stepwise import StepwiseState
from pyro_unsup.models import Aligner, Clusterer, Segmenter, Tagger

from .stepwise_cases import close, corpus

Weights = dict[str, Tensor]
LogMarginal = Callable[[Weights, Any], Tensor]


def dense_stepwise(
    engine: StepwiseEM, state: StepwiseState, start: Weights, passes: int, log_marginal: LogMarginal
) -> Weights:
    """The definition, on whole tables.

    :param log_marginal: of some examples, by whole tables of log-weights: its gradient is their expected counts.
    """
    layouts = {name: declaration.layout for name, declaration in state.problem.declarations.items()}
    mu, k = {name: w.exp() for name, w in start.items()}, 0

    def weights() -> Weights:
        return {name: (c / layouts[name].spread(layouts[name].row_sum(c))).log() for name, c in mu.items()}

    examples = engine.examples_of(state)
    for number in range(passes):
        for chosen in examples.batches(engine.batch_size, (engine.order_seed, number)):
            leaves = {name: w.requires_grad_() for name, w in weights().items()}
            total = log_marginal(leaves, *examples.select(chosen))
            s = dict(zip(leaves, torch.autograd.grad(total, list(leaves.values())), strict=True))
            eta = engine.step_size(k)
            mu, k = {name: (1 - eta) * c + eta * s[name] for name, c in mu.items()}, k + 1
    return weights()


def tagged(w: Weights, sentences: Any) -> Tensor:
    lengths = sentences.offsets.diff()
    chain = pu.Chain(w["start"], w["transition"], w["emission"], lengths, flat=True)
    return chain.log_prob(sentences.words).sum()


@pytest.mark.parametrize(("compiled", "power"), [(False, None), (True, None), (True, 0.6), (True, 1.0)])
def test_a_thousand_updates_of_a_tagger(compiled: bool, power: float | None, request: pytest.FixtureRequest) -> None:
    """Through rescaling: without a power, step sizes of 0.6 take the scale below its floor again and again."""
    if not compiled:
        request.getfixturevalue("slowly")
    data, passes = corpus(100, V=6), 20
    schedule = None if power is not None else lambda k: 0.6 - 0.1 * (k % 3)
    engine = StepwiseEM(Tagger(3, 6), power=power or 0.7, batch_size=2, schedule=schedule, order_seed=5)
    state = engine.init(data, seed=1)
    start = dict(state.weights)
    state, rescaled = moved(engine, state, passes, "emission")
    assert state.updates == 1000
    assert (state.shortcut is not None) == compiled
    assert (power is not None) or rescaled >= 1
    close(state.weights, dense_stepwise(engine, state, start, passes, tagged))


def moved(engine: StepwiseEM, state: StepwiseState, passes: int, name: str) -> tuple[StepwiseState, int]:
    """The state after some passes, and how often the scale of a table rose in them."""
    rescaled, before = 0, 1.0
    for _ in range(passes):
        state = engine.m_step(state)
        scale = state.statistics.tables[name].scale
        rescaled, before = rescaled + (scale > before), scale
    return state, rescaled


def clusterer() -> tuple[Any, Any, LogMarginal]:
    data = corpus(24, V=40, longest=8, seed=1)

    def log_marginal(w: Weights, bags: Any) -> Tensor:
        return Mixture(w["cluster"], w["words"], bags.lengths).log_prob(bags.cells).sum()

    return Clusterer(3, 40), data, log_marginal


def segmenter() -> tuple[Any, Any, LogMarginal]:
    data = corpus(24, V=3, longest=8, seed=2)
    model = Segmenter.of(data, vocab=3, max_length=4)

    def log_marginal(w: Weights, segments: Any) -> Tensor:
        return Segmentation(w["segments"], model._length, w["stop"], segments.lengths).log_prob(segments.cells).sum()

    return model, data, log_marginal


def aligner(agreement: str | None) -> tuple[Any, Any, LogMarginal]:
    data = corpus(24, V=20, seed=3), corpus(24, V=20, seed=4)
    model = Aligner.of(data, agreement, source=20, target=20)
    shared = len(model.lexicon)

    def log_marginal(w: Weights, pairs: Any) -> Tensor:
        backward = model.lexicon.from_turned(w["translation_backward"])
        one, other, cells = model.directions(w["translation_forward"], backward, pairs, shared)
        if agreement == "product":
            return Agreement(one, other, shared).log_prob(cells).sum()
        return (one.log_prob(cells) + other.log_prob(cells)).sum() * (1.0 if agreement is None else 0.5)

    return model, data, log_marginal


CASES: dict[str, tuple[Callable[[], tuple[Any, Any, LogMarginal]], str]] = {
    "clusterer": (clusterer, "words"),
    "segmenter": (segmenter, "segments"),
    "aligner, product": (lambda: aligner("product"), "translation_forward"),
    "aligner, 2008": (lambda: aligner("2008"), "translation_backward"),
    "aligner, none": (lambda: aligner(None), "translation_forward"),
}


@pytest.mark.parametrize(("make", "table"), CASES.values(), ids=CASES)
def test_hundreds_of_updates_of_other_models(make: Any, table: str) -> None:
    """Through rescaling, and with mini-batches that never touch the whole of the largest table."""
    model, data, log_marginal = make()
    engine = StepwiseEM(model, batch_size=3, schedule=lambda k: 0.85 - 0.1 * (k % 3), order_seed=5)
    state = engine.init(data, seed=1)
    size = state.problem.declarations[table].layout.shape[-1]
    first = pu.handlers.declared(model, *engine.examples_of(state).select(np.arange(3)))[table].touched
    assert first is not None
    assert len(first) < size
    start = dict(state.weights)
    state, rescaled = moved(engine, state, 40, table)
    assert state.updates == 320
    assert rescaled >= 1
    close(state.weights, dense_stepwise(engine, state, start, 40, log_marginal))

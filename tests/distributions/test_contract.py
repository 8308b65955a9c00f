"""One suite that every structured distribution must pass. Its cases come from one table."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from pyro_unsup.distributions.semiring import LOG, MAX, SAMPLE
from pyro_unsup.kernels import alignment_hmm, bracketing, chain, dependency, headed_bracketing, segmentation
from pyro_unsup.kernels.limits import LIMIT

from .alignment_case import ALIGNMENT
from .alignment_hmm_case import ALIGNMENT_HMM
from .bracketing_case import BRACKETING
from .chain_case import CHAIN
from .contract import Case, Instance, Table
from .dependency_case import DEPENDENCY
from .headed_bracketing_case import HEADED_BRACKETING
from .mixture_case import MIXTURE
from .segmentation_case import SEGMENTATION

CASES = [CHAIN, BRACKETING, MIXTURE, SEGMENTATION, ALIGNMENT, ALIGNMENT_HMM, DEPENDENCY, HEADED_BRACKETING]

#: How many of the examples to try: fewer, where kernels run as plain Python (:mod:`tests.mutation`).
SHARE = float(os.environ.get("PYRO_UNSUP_EXAMPLES", "1"))

on_every_structure = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def thorough(examples: int):
    return settings(
        max_examples=math.ceil(SHARE * examples),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def close(actual: Tensor | float, expected: Tensor | float, relative: float, absolute: float = 0.0) -> None:
    torch.testing.assert_close(
        torch.as_tensor(actual, dtype=torch.float64),
        torch.as_tensor(expected, dtype=torch.float64),
        rtol=relative,
        atol=absolute,
    )


def expected_counts(instance: Instance, name: str) -> Tensor:
    total = torch.zeros(instance.dist.weights[name].shape)
    for item in instance.items:
        for p, counts in zip(item.probabilities(), item.counts, strict=True):
            total += p * counts[name]
    return total


def check_sums(case: Case, instance: Instance) -> Tensor:
    """Enumeration, the readable definition and the kernel."""
    enumerated = torch.tensor([item.log_z for item in instance.items])
    close(instance.dist.log_prob(instance.value), enumerated, 1e-10, 1e-12)
    close(case.reference(instance, LOG), enumerated, 1e-10, 1e-12)
    close(case.reference(instance, MAX), torch.tensor([max(item.scores) for item in instance.items]), 1e-12, 1e-12)
    for name, counts in instance.dist.posterior(instance.value).counts.items():
        close(counts, expected_counts(instance, name), 1e-9, 1e-9)
    return enumerated


@on_every_structure
@thorough(250)
@given(data=st.data())
def test_four_ways_to_sum_agree(case: Case, data: st.DataObject) -> None:
    """Enumeration, the readable definition, the kernel, and Pyro's TraceEnum."""
    instance = data.draw(case.instances)
    enumerated = check_sums(case, instance)
    close(case.trace_enum(instance), enumerated.sum(), 1e-10, 1e-12)


@on_every_structure
@thorough(150)
@given(data=st.data())
def test_sums_hold_at_the_ends_of_the_number_range(case: Case, data: st.DataObject) -> None:
    check_sums(case, data.draw(case.extreme))


@on_every_structure
@thorough(150)
@given(data=st.data())
def test_float32_agrees_with_enumeration(case: Case, data: st.DataObject) -> None:
    instance = data.draw(case.instances | case.extreme)
    single = instance.dist.with_weights({name: w.float() for name, w in instance.dist.weights.items()})
    close(single.log_prob(instance.value), torch.tensor([item.log_z for item in instance.items]), 2e-5, 2e-5)
    # Rounding a log-weight to float32 moves probabilities by its size times 6e-8, position by position.
    size = max(float(w[w > -torch.inf].abs().sum()) for w in single.weights.values())
    for name, counts in single.posterior(instance.value).counts.items():
        assert counts.dtype == torch.float32
        close(counts, expected_counts(instance, name), 1e-4 + 1e-5 * size, 1e-4 + 1e-5 * size)


@on_every_structure
@thorough(150)
@given(data=st.data())
def test_posterior_against_enumeration(case: Case, data: st.DataObject) -> None:
    instance = data.draw(case.instances)
    posterior = instance.dist.posterior(instance.value)
    close(posterior.log_partition, torch.tensor([item.log_z for item in instance.items]), 1e-10, 1e-12)
    alive = [item.log_z > -math.inf for item in instance.items]
    close(
        posterior.entropy[torch.tensor(alive)],
        torch.tensor([item.entropy for item, ok in zip(instance.items, alive, strict=True) if ok]),
        1e-7,
        1e-7,
    )
    mode, mbr, draw = posterior.mode(), posterior.mbr(), posterior.sample()
    for item, piece, cells, ok in zip(instance.items, instance.pieces, instance.cells, alive, strict=True):
        marginals = posterior.marginals[cells]
        expected = torch.zeros_like(marginals)
        for p, parts in zip(item.probabilities(), item.parts, strict=True):
            for part in parts:
                expected[part] += p
        close(marginals, expected, 1e-9, 1e-9)
        if not ok:
            assert (mode[piece] == -1).all()
            continue
        scores = dict(zip(item.structures, item.scores, strict=True))
        close(scores[tuple(mode[piece].tolist())], max(item.scores), 1e-12, 1e-12)
        assert scores[tuple(draw[piece].tolist())] > -math.inf
        gains = {
            s: math.fsum(float(expected[p]) for p in parts)
            for s, parts in zip(item.structures, item.parts, strict=True)
        }
        close(gains[tuple(mbr[piece].tolist())], max(gains.values()), 1e-9, 1e-9)


@on_every_structure
@thorough(100)
@given(data=st.data())
def test_score_is_the_weight_of_a_structure_and_its_gradient_its_counts(case: Case, data: st.DataObject) -> None:
    instance = data.draw(case.instances)
    chosen = [data.draw(st.integers(0, len(item.structures) - 1)) for item in instance.items]
    whole = torch.cat([torch.tensor(item.structures[i]) for item, i in zip(instance.items, chosen, strict=True)])
    weights = {name: w.clone().requires_grad_() for name, w in instance.dist.weights.items()}
    scores = instance.dist.with_weights(weights).score(instance.value, whole)
    close(scores, torch.tensor([item.scores[i] for item, i in zip(instance.items, chosen, strict=True)]), 1e-12, 1e-12)
    grads = torch.autograd.grad(scores.sum(), list(weights.values()), materialize_grads=True, allow_unused=True)
    for name, grad in zip(weights, grads, strict=True):
        close(grad, sum(item.counts[i][name] for item, i in zip(instance.items, chosen, strict=True)), 1e-12)


@on_every_structure
@thorough(100)
@given(data=st.data())
def test_writing_it_otherwise_changes_nothing(case: Case, data: st.DataObject) -> None:
    instance = data.draw(case.instances)
    before = instance.dist.log_prob(instance.value)
    for what, dist, value, order in case.variants(instance):
        after = dist.log_prob(value)
        assert after.shape == before.shape, what
        close(after, before[torch.tensor(order)], 1e-12, 1e-12)


@on_every_structure
@thorough(30)
@given(data=st.data())
def test_gradients_of_any_order(case: Case, data: st.DataObject) -> None:
    instance = data.draw(case.instances.filter(_mild))
    names = list(instance.dist.weights)

    def log_z(*weights: Tensor) -> Tensor:
        dist = instance.dist.with_weights(dict(zip(names, weights, strict=True)))
        return dist.log_prob(instance.value)

    weights = [w.clone().requires_grad_() for w in instance.dist.weights.values()]
    assert torch.autograd.gradcheck(log_z, weights, eps=1e-6, atol=1e-5)
    assert torch.autograd.gradgradcheck(log_z, weights, eps=1e-6, atol=1e-4)


@on_every_structure
@thorough(40)
@given(data=st.data(), power=st.sampled_from([1e-3, 0.3, 1.0, 2.5]))
def test_a_raised_distribution_is_one_with_raised_weights(case: Case, data: st.DataObject, power: float) -> None:
    """Whatever way a structure takes to raise its weights; the gradient is in the weights before that."""
    instance = data.draw(case.instances)
    weights = {name: w.clone().requires_grad_() for name, w in instance.dist.weights.items()}
    quick = instance.dist.with_weights(weights).raised(power)
    plain = instance.dist.with_weights({name: w * power for name, w in weights.items()})
    for one, other in ((quick, plain), (quick.raised(2.0), plain.raised(2.0)), (quick.with_weights({}), plain)):
        for name, w in other.weights.items():
            close(one.weights[name].detach(), w.detach(), 1e-12)
        found, expected = one.log_prob(instance.value), other.log_prob(instance.value)
        close(found.detach(), expected.detach(), 1e-10, 1e-12)
        alive = expected > -torch.inf
        pairs = [
            torch.autograd.grad(
                total[alive].sum(), list(weights.values()), allow_unused=True, materialize_grads=True, retain_graph=True
            )
            for total in (found, expected)
        ]
        for a, b in zip(*pairs, strict=True):
            close(a, b, 1e-9, 1e-9)
        p, q = one.posterior(instance.value), other.posterior(instance.value)
        close(p.marginals, q.marginals, 1e-9, 1e-9)
        close(p.entropy, q.entropy, 1e-8, 1e-8)
        structure = q.mode()
        if bool(alive.all()):
            close(one.score(instance.value, structure).detach(), other.score(instance.value, structure).detach(), 1e-10)
        for name, counts in q.counts.items():
            close(p.counts[name], counts, 1e-9, 1e-9)


def _mild(instance: Instance) -> bool:
    """Finite differences need weights they can move: no structural zeros, no enormous ratios."""
    return all(bool((w.abs() < 30).all()) for w in instance.dist.weights.values())


@on_every_structure
@thorough(30)
@given(data=st.data())
def test_items_weigh_in_as_the_gradient_asks(case: Case, data: st.DataObject) -> None:
    """A different scale for every item, as a mask or an uneven loss would give."""
    instance = data.draw(case.instances)
    scale = torch.arange(1.0, len(instance.items) + 1) * torch.tensor([1.0, -2.0, 0.5])[: len(instance.items)]
    weights = {name: w.clone().requires_grad_() for name, w in instance.dist.weights.items()}
    log_z = instance.dist.with_weights(weights).log_prob(instance.value)
    alive = log_z > -torch.inf
    grads = torch.autograd.grad(
        (scale * log_z)[alive].sum(), list(weights.values()), allow_unused=True, materialize_grads=True
    )
    for name, grad in zip(weights, grads, strict=True):
        expected = torch.zeros_like(grad)
        for weight, item in zip(scale.tolist(), instance.items, strict=True):
            for p, counts in zip(item.probabilities(), item.counts, strict=True):
                expected += weight * p * counts[name]
        close(grad, expected, 1e-9, 1e-9)


@on_every_structure
def test_draws_follow_the_posterior(case: Case) -> None:
    """Chi-squared over all structures, for the kernel's sampler and for the sampling semiring."""

    def telling(i: Instance) -> bool:  # several structures of quite different weights, in every item
        many = all(4 <= len(item.structures) <= 100 for item in i.items)
        return _mild(i) and many and all(max(item.scores) - min(item.scores) > 1 for item in i.items)

    instance = _one(case, telling)
    n = max(1000, int(4000 * SHARE))
    posterior = instance.dist.posterior(instance.value)
    kernel = [posterior.sample() for _ in range(n)]
    for item, piece in zip(instance.items, instance.pieces, strict=True):
        _check_frequencies(item.structures, item.probabilities(), [tuple(d[piece].tolist()) for d in kernel], n)

    name = next(iter(instance.dist.weights))
    weights = {k: w.clone().requires_grad_() for k, w in instance.dist.weights.items()}
    drawn = Instance(instance.dist.with_weights(weights), instance.value, instance.items, instance.pieces)
    observed = torch.zeros_like(weights[name])
    for _ in range(n // 4):
        total = case.reference(drawn, SAMPLE).sum()
        observed += torch.autograd.grad(total, weights[name])[0]
    expected = expected_counts(instance, name) * (n // 4)
    chi2 = float(((observed - expected) ** 2 / expected.clamp(min=1e-9)).sum())
    assert stats.chi2.sf(chi2, observed.numel()) > 1e-4


def tables(seed: int, uneven: bool) -> Table:
    """Random log-weights; if they are uneven, some so large or small that scaled sums may not hold them."""
    g = torch.Generator().manual_seed(seed)

    def table(*shape: int) -> Tensor:
        found = torch.randn(shape, generator=g, dtype=torch.float64)
        return found * torch.where(torch.rand(shape, generator=g) < 0.1, 250.0, 1.0) if uneven else found

    return table


@pytest.fixture(params=["scaled", "logs", "uneven"])
def uneven(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether weights are uneven. If not, sums are scaled throughout; or in logs, as if that had been impossible."""
    if request.param == "logs":
        monkeypatch.setitem(LIMIT, np.dtype(np.float64), 1e-300)  # the largest number that may be trusted
    elif request.param == "scaled":
        for module in (alignment_hmm, bracketing, chain, dependency, headed_bracketing, segmentation):
            monkeypatch.setattr(module, "log_pass", _never)
    return bool(request.param == "uneven")


def _never(*_: object) -> None:
    raise AssertionError("these weights are even enough for sums that are scaled")


of_every_kind = pytest.mark.parametrize("kind", range(4))


@on_every_structure
@of_every_kind
def test_long_items_against_the_definition(case: Case, uneven: bool, kind: int) -> None:
    """Where indices are too large for a wrong one to be right by chance."""
    instance = case.long(2, tables(kind, uneven), kind)
    weights = {name: w.clone().requires_grad_() for name, w in instance.dist.weights.items()}
    defined = Instance(instance.dist.with_weights(weights), instance.value, [], [])
    log_z = case.reference(defined, LOG)
    posterior = instance.dist.posterior(instance.value)
    close(instance.dist.log_prob(instance.value), log_z.detach(), 1e-10)
    close(posterior.log_partition, log_z.detach(), 1e-10)
    grads = torch.autograd.grad(log_z.sum(), list(weights.values()), allow_unused=True, materialize_grads=True)
    for name, grad in zip(weights, grads, strict=True):
        close(posterior.counts[name], grad, 1e-8, 1e-8)
    best = instance.dist.score(instance.value, posterior.mode())
    close(best, case.reference(instance, MAX), 1e-11)


@on_every_structure
@of_every_kind
def test_draws_of_long_items_use_weights_as_often_as_expected(case: Case, uneven: bool, kind: int) -> None:
    """Sums of counts along random directions; how far they vary is the second derivative of log Z."""
    copies, directions = 80, 10
    table = tables(kind, uneven)
    one, many = case.long(1, table, kind), case.long(copies, tables(kind, uneven), kind)
    g = torch.Generator().manual_seed(1)
    along = [
        {name: torch.randn(w.shape, generator=g) for name, w in one.dist.weights.items()} for _ in range(directions)
    ]
    weights = {name: w.clone().requires_grad_() for name, w in one.dist.weights.items()}
    log_z = case.reference(Instance(one.dist.with_weights(weights), one.value, [], []), LOG).sum()
    grads = torch.autograd.grad(
        log_z, list(weights.values()), create_graph=True, allow_unused=True, materialize_grads=True
    )
    expected = torch.stack([sum((u[name] * g).sum() for name, g in zip(weights, grads, strict=True)) for u in along])
    spread = []
    for mean, u in zip(expected, along, strict=True):
        second = torch.autograd.grad(
            mean, list(weights.values()), retain_graph=True, allow_unused=True, materialize_grads=True
        )
        spread.append(sum(float((u[name] * h).sum()) for name, h in zip(weights, second, strict=True)))
    free = {name: w.clone().requires_grad_() for name, w in many.dist.weights.items()}
    draw = many.dist.posterior(many.value).sample()
    score = many.dist.with_weights(free).score(many.value, draw)
    assert (score > -torch.inf).all()
    used = torch.autograd.grad(score.sum(), list(free.values()), allow_unused=True, materialize_grads=True)
    for mean, variance, u in zip(expected.tolist(), spread, along, strict=True):
        found = 0.0
        for name, counts in zip(free, used, strict=True):  # weights by pair or arc are there once a copy
            found += float((counts.reshape(-1, *u[name].shape).sum(0) * u[name]).sum())
        assert abs(found - copies * mean) < 5 * math.sqrt(copies * max(variance, 0.0)) + 1e-6 * copies


@on_every_structure
@thorough(20)
@given(data=st.data())
def test_nothing_else_changes_its_type_or_its_sums(case: Case, data: st.DataObject) -> None:
    """`expand` keeps the type, so that handlers recognise a structure inside plates."""
    instance = data.draw(case.instances)
    wide = instance.dist.expand((2, *instance.dist.batch_shape))
    assert type(wide) is type(instance.dist)
    assert wide.batch_shape == (2, *instance.dist.batch_shape)
    close(wide.log_prob(instance.value), instance.dist.log_prob(instance.value).expand(wide.batch_shape), 1e-12)


def _one(case: Case, fits) -> Instance:
    from hypothesis import find

    return find(case.instances, fits, settings=settings(derandomize=True, database=None, max_examples=5000))


def _check_frequencies(structures, probabilities, draws, n) -> None:
    order = sorted(range(len(structures)), key=lambda i: -probabilities[i])
    expected, observed, rest = [], [], (0.0, 0)
    for i in order:
        seen = draws.count(structures[i])
        if probabilities[i] * n >= 5:
            expected.append(probabilities[i] * n)
            observed.append(seen)
        else:
            rest = (rest[0] + probabilities[i] * n, rest[1] + seen)
    expected.append(rest[0] + 1e-9)
    observed.append(rest[1])
    chi2 = sum((o - e) ** 2 / max(e, 1e-3) for o, e in zip(observed, expected, strict=True))
    assert stats.chi2.sf(chi2, max(len(expected) - 1, 1)) > 1e-4

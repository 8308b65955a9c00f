"""The suite that every structure must pass."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from .. import kernels
from ..distributions import Structure
from ..distributions.semiring import LOG, MAX, SAMPLE
from .case import Case, Instance, Table, log_sum

#: How many of the examples to try: more where there is time, fewer where kernels run as plain Python.
SHARE = float(os.environ.get("PYRO_UNSUP_EXAMPLES", "0.2"))

#: Not the CPU, and there everywhere.
DEVICE = "meta"


def thorough(examples: int) -> Callable[[Any], Any]:
    return settings(
        max_examples=math.ceil(SHARE * examples),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def close(actual: Tensor | float, expected: Tensor | float, relative: float, absolute: float = 0.0) -> None:
    torch.testing.assert_close(
        torch.as_tensor(actual, dtype=torch.float64),
        torch.as_tensor(expected, dtype=torch.float64),
        rtol=relative,
        atol=absolute,
    )


def defined(dist: Structure, value: Tensor, sum_: Any = LOG) -> Tensor:  # (*draws, B)
    """The total by the definition, in any semiring."""
    flat, value = dist.laid_flat(value)
    return flat.sum_over(flat.potentials_of(value), sum_)


def expected_counts(instance: Instance, name: str) -> Tensor:
    total = torch.zeros(instance.dist.weights[name].shape, dtype=torch.float64)
    for item in instance.items:
        for p, counts in zip(item.probabilities(), item.counts, strict=True):
            total += p * counts[name]
    return total


def log_z(instance: Instance) -> Tensor:
    return torch.tensor([item.log_z for item in instance.items], dtype=torch.float64)


def gradients(total: Tensor, weights: dict[str, Tensor], **options: Any) -> tuple[Tensor, ...]:
    return torch.autograd.grad(total, list(weights.values()), allow_unused=True, materialize_grads=True, **options)


def leaves(dist: Structure) -> dict[str, Tensor]:
    return {name: w.detach().clone().requires_grad_() for name, w in dist.weights.items()}


def mild(instance: Instance) -> bool:
    """Finite differences need weights they can move: no structural zeros, no enormous ratios."""
    return all(bool((w.abs() < 30).all()) for w in instance.dist.weights.values())


class StructureContract:
    """Tests of one structure. Subclass it in a test file, and give it a ``case``.

    Each test runs by the definition of the structure (kernels switched off), and by its kernel if it has one.

    >>> from pyro_unsup.testing import StructureContract
    >>> [name for name in dir(StructureContract) if name.startswith("test_draws")]
    ['test_draws_follow_the_posterior', 'test_draws_of_weights_are_done_at_once']
    """

    case: ClassVar[Case]

    @pytest.fixture(autouse=True, params=["definition", "kernel"])
    def way(self, request: pytest.FixtureRequest) -> Iterator[str]:
        """Whether kernels do the sums."""
        if request.param == "kernel" and not self._has_kernel():
            pytest.skip("no kernel")
        with kernels.switched_off() if request.param == "definition" else nullcontext():
            yield request.param

    @classmethod
    def _has_kernel(cls) -> bool:
        if "_kernel" not in cls.__dict__:
            found: Instance = find(cls.case.instances, lambda _: True, settings=settings(database=None, max_examples=1))
            cls._kernel = found.dist.kernel is not None
        return cls._kernel

    _kernel: ClassVar[bool]

    def _one(self, fits: Callable[[Instance], bool]) -> Instance:
        found: Instance = find(
            self.case.instances, fits, settings=settings(derandomize=True, database=None, max_examples=5000)
        )
        return found

    @thorough(60)
    @given(data=st.data())
    def test_sums_agree_with_enumeration(self, data: st.DataObject) -> None:
        instance = data.draw(self.case.instances)
        self._check_sums(instance)
        if self.case.trace_enum is not None:
            close(self.case.trace_enum(instance), log_z(instance).sum(), 1e-10, 1e-12)

    @thorough(50)
    @given(data=st.data())
    def test_sums_hold_at_the_ends_of_the_number_range(self, data: st.DataObject) -> None:
        if self.case.extreme is None:
            pytest.skip("no extreme cases")
        self._check_sums(data.draw(self.case.extreme))

    def _check_sums(self, instance: Instance) -> None:
        dist, value, enumerated = instance.dist, instance.value, log_z(instance)
        close(dist.log_prob(value), enumerated, 1e-10, 1e-12)
        best = torch.tensor([max(item.scores) for item in instance.items], dtype=torch.float64)
        close(defined(dist, value, MAX), best, 1e-12, 1e-12)
        for name, counts in dist.posterior(value).counts.items():
            close(counts, expected_counts(instance, name), 1e-9, 1e-9)

    @thorough(40)
    @given(data=st.data())
    def test_float32_agrees_with_enumeration(self, data: st.DataObject) -> None:
        instance = data.draw(self.case.instances)
        single = instance.dist.with_weights({name: w.float() for name, w in instance.dist.weights.items()})
        close(single.log_prob(instance.value), log_z(instance), 2e-5, 2e-5)
        # Rounding a log-weight to float32 moves probabilities by its size times 6e-8, position by position.
        size = max(float(w[w > -torch.inf].abs().sum()) for w in single.weights.values())
        for name, counts in single.posterior(instance.value).counts.items():
            assert counts.dtype == torch.float32
            close(counts, expected_counts(instance, name), 1e-4 + 1e-5 * size, 1e-4 + 1e-5 * size)

    @thorough(50)
    @given(data=st.data())
    def test_posterior_against_enumeration(self, data: st.DataObject) -> None:
        instance = data.draw(self.case.instances)
        posterior = instance.dist.posterior(instance.value)
        close(posterior.log_partition, log_z(instance), 1e-10, 1e-12)
        close(posterior.entropy, torch.tensor([item.entropy for item in instance.items]), 1e-7, 1e-7)
        mode, mbr, draw, marginals = posterior.mode(), posterior.mbr(), posterior.sample(), posterior.marginals
        for item, piece, cells in zip(instance.items, instance.pieces, instance.cells, strict=True):
            expected = torch.zeros_like(marginals[cells])
            for p, parts in zip(item.probabilities(), item.parts, strict=True):
                for part in parts:
                    expected[part] += p
            close(marginals[cells], expected, 1e-9, 1e-9)
            if item.log_z == -math.inf:
                assert (mode[piece] == -1).all()
                assert (mbr[piece] == -1).all()
                assert (draw[piece] == -1).all()
                continue
            scores = dict(zip(item.structures, item.scores, strict=True))
            close(scores[tuple(mode[piece].flatten().tolist())], max(item.scores), 1e-12, 1e-12)
            assert scores[tuple(draw[piece].flatten().tolist())] > -math.inf
            gains = {  # of structures without a part that no possible structure has
                s: math.fsum(float(expected[part]) for part in parts)
                for s, parts in zip(item.structures, item.parts, strict=True)
                if all(float(expected[part]) > 0 for part in parts)
            }
            close(gains[tuple(mbr[piece].flatten().tolist())], max(gains.values()), 1e-9, 1e-9)

    @thorough(40)
    @given(data=st.data())
    def test_score_is_the_weight_of_a_structure_and_its_gradient_its_counts(self, data: st.DataObject) -> None:
        instance = data.draw(self.case.instances)
        whole, chosen = self._some_structure(instance, data)
        weights = leaves(instance.dist)
        scores = instance.dist.with_weights(weights).score(instance.value, whole)
        picked = [item.scores[i] for item, i in zip(instance.items, chosen, strict=True)]
        close(scores, torch.tensor(picked, dtype=torch.float64), 1e-12, 1e-12)
        alive = scores > -torch.inf  # what is impossible has no gradient
        for name, grad in zip(weights, gradients(scores[alive].sum(), weights), strict=True):
            used = [
                item.counts[i][name] for item, i, ok in zip(instance.items, chosen, alive.tolist(), strict=True) if ok
            ]
            close(grad, sum(used) if used else torch.zeros_like(grad), 1e-10, 1e-10)

    def _some_structure(self, instance: Instance, data: st.DataObject) -> tuple[Tensor, list[int]]:
        chosen = [data.draw(st.integers(0, len(item.structures) - 1)) for item in instance.items]
        whole = instance.dist.posterior(instance.value).mode().clone()
        for item, i, piece in zip(instance.items, chosen, instance.pieces, strict=True):
            whole[piece] = torch.tensor(item.structures[i]).reshape(whole[piece].shape).to(whole)
        return whole, chosen

    @thorough(40)
    @given(data=st.data())
    def test_structures_and_parts_are_one_to_one(self, data: st.DataObject) -> None:
        instance = data.draw(self.case.instances)
        whole, chosen = self._some_structure(instance, data)
        dist = instance.dist
        parts = dist.to_parts(whole)
        for item, i, cells in zip(instance.items, chosen, instance.cells, strict=True):
            here = parts[cells]
            expected = torch.zeros_like(here)
            for part in item.parts[i]:
                expected[part] = True
            assert torch.equal(here, expected)
        assert torch.equal(dist.to_structure(parts.double()).to(whole), whole)

    @thorough(40)
    @given(data=st.data())
    def test_added_potentials_weigh_parts(self, data: st.DataObject) -> None:
        instance = data.draw(self.case.instances)
        dist, value = instance.dist, instance.value
        shape = dist.posterior(value).marginals.shape
        g = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
        more = torch.randn(shape, generator=g, dtype=torch.float64)
        more = more.masked_fill(torch.rand(shape, generator=g) < 0.2, -torch.inf).requires_grad_()
        weighed = dist.with_potentials(**{dist.part: more})
        found, posterior = weighed.log_prob(value), weighed.posterior(value)
        expected = []
        for item, cells in zip(instance.items, instance.cells, strict=True):
            here = more.detach()[cells]
            expected.append(
                log_sum(
                    [
                        s + math.fsum(float(here[part]) for part in parts)
                        for s, parts in zip(item.scores, item.parts, strict=True)
                    ]
                )
            )
        close(found.detach(), torch.tensor(expected, dtype=torch.float64), 1e-10, 1e-12)
        alive = found > -torch.inf
        (slope,) = gradients(found[alive].sum(), {"more": more})
        close(slope, posterior.marginals, 1e-9, 1e-9)
        best = posterior.mode()
        for cells, piece, ok in zip(instance.cells, instance.pieces, alive.tolist(), strict=True):
            if best[piece].numel():  # an example of length 0 has a structure of nothing
                assert bool((best[piece] == -1).all()) != ok
            if ok:
                assert (more.detach()[cells][dist.to_parts(best)[cells]] > -torch.inf).all()

    @thorough(40)
    @given(data=st.data())
    def test_writing_it_otherwise_changes_nothing(self, data: st.DataObject) -> None:
        if self.case.variants is None:
            pytest.skip("no variants")
        instance = data.draw(self.case.instances)
        before = instance.dist.log_prob(instance.value)
        for what, dist, value, order in self.case.variants(instance):
            after = dist.log_prob(value)
            assert after.shape == before.shape, what
            close(after, before[torch.tensor(order)], 1e-12, 1e-12)

    @thorough(40)
    @given(data=st.data())
    def test_examples_do_not_depend_on_their_neighbours(self, data: st.DataObject) -> None:
        """Ties included: what is decoded of an example alone is decoded of it in a batch."""
        instance = data.draw(self.case.instances)
        dist, value = instance.dist.laid_flat(instance.value)
        together = dist.posterior(value)
        mode, mbr = together.mode(), together.mbr()
        for i, piece in enumerate(instance.pieces):
            one, mine = dist.select(value, torch.tensor([i]))
            alone = one.posterior(mine)
            close(alone.log_partition, together.log_partition[i : i + 1], 1e-12, 1e-12)
            assert torch.equal(alone.mode(), mode[piece])
            if instance.items[i].log_z > -math.inf and mild(instance):
                close(
                    together.marginals[instance.cells[i]][dist.to_parts(mbr)[instance.cells[i]]].sum(),
                    alone.marginals[one.to_parts(alone.mbr())].sum(),
                    1e-9,
                )

    @thorough(8)
    @given(data=st.data())
    def test_gradients_of_any_order(self, data: st.DataObject) -> None:
        instance = data.draw(self.case.instances.filter(mild))
        names = list(instance.dist.weights)

        def total(*weights: Tensor) -> Tensor:
            dist = instance.dist.with_weights(dict(zip(names, weights, strict=True)))
            found: Tensor = dist.log_prob(instance.value)
            return found

        weights = list(leaves(instance.dist).values())
        assert torch.autograd.gradcheck(total, weights, eps=1e-6, atol=1e-5)
        assert torch.autograd.gradgradcheck(total, weights, eps=1e-6, atol=1e-4)

    @thorough(30)
    @given(data=st.data(), power=st.sampled_from([1e-3, 0.3, 1.0, 2.5]))
    def test_temperature_is_a_power_of_every_weight(self, data: st.DataObject, power: float) -> None:
        instance = data.draw(self.case.instances)
        value, weights = instance.value, leaves(instance.dist)
        quick = instance.dist.with_weights(weights).with_temperature(1 / power)
        plain = instance.dist.with_weights({name: w * power for name, w in weights.items()})
        found, expected = quick.log_prob(value), plain.log_prob(value)
        close(found.detach(), expected.detach(), 1e-10, 1e-12)
        alive = expected > -torch.inf
        pairs = [gradients(total[alive].sum(), weights, retain_graph=True) for total in (found, expected)]
        for a, b in zip(*pairs, strict=True):
            close(a, b, 1e-9, 1e-9)
        p, q = quick.posterior(value), plain.posterior(value)
        close(p.marginals, q.marginals, 1e-9, 1e-9)
        close(p.entropy, q.entropy, 1e-8, 1e-8)

    @thorough(20)
    @given(data=st.data())
    def test_divergence_from_another_posterior(self, data: st.DataObject) -> None:
        instance = data.draw(self.case.instances.filter(mild))
        one, power = instance.dist, 0.5
        other = one.with_temperature(1 / power)
        found = one.posterior(instance.value).kl(other.posterior(instance.value))
        expected = []
        for item in instance.items:
            z = log_sum([power * s for s in item.scores])
            p = item.probabilities()
            expected.append(
                math.fsum(q * (s - item.log_z - power * s + z) for q, s in zip(p, item.scores, strict=True))
            )
        close(found, torch.tensor(expected, dtype=torch.float64), 1e-7, 1e-7)
        zero = one.posterior(instance.value).kl(one.posterior(instance.value))
        close(zero, torch.zeros(len(instance.items)), 0, 1e-9)

    @thorough(20)
    @given(data=st.data())
    def test_items_weigh_in_as_the_gradient_asks(self, data: st.DataObject) -> None:
        """A different scale for every example, as a mask or an uneven loss would give."""
        instance = data.draw(self.case.instances)
        n = len(instance.items)
        scale = torch.arange(1.0, n + 1, dtype=torch.float64) * torch.tensor([1.0, -2.0, 0.5]).repeat(n)[:n]
        weights = leaves(instance.dist)
        found = instance.dist.with_weights(weights).log_prob(instance.value)
        alive = found > -torch.inf
        for name, grad in zip(weights, gradients((scale * found)[alive].sum(), weights), strict=True):
            expected = torch.zeros_like(grad)
            for weight, item in zip(scale.tolist(), instance.items, strict=True):
                for p, counts in zip(item.probabilities(), item.counts, strict=True):
                    expected += weight * p * counts[name]
            close(grad, expected, 1e-9, 1e-9)

    @thorough(20)
    @given(data=st.data())
    def test_draws_of_weights_are_done_at_once(self, data: st.DataObject) -> None:
        """A batch of weights, as MCMC gives them, against one set after the other; and one set an example."""
        instance = data.draw(self.case.instances)
        dist, value = instance.dist.laid_flat(instance.value)
        g = torch.Generator().manual_seed(3)
        sets = [
            {name: w + k * torch.rand(w.shape, generator=g).to(w) for name, w in dist.weights.items()} for k in range(3)
        ]
        many = {name: torch.stack([one[name] for one in sets]).unsqueeze(1).requires_grad_() for name in dist.weights}
        wide = dist.with_weights(many)
        total = wide.log_prob(value)
        assert total.shape == (3, len(instance.items))
        posterior = wide.posterior(value)
        modes, draws = posterior.mode(), posterior.sample((2,))
        assert draws.shape == (2, *modes.shape)
        for k, one in enumerate(sets):
            alone = dist.with_weights(one).posterior(value)
            close(total[k].detach(), alone.log_partition, 1e-10, 1e-12)
            close(posterior.marginals[k], alone.marginals, 1e-9, 1e-9)
            close(posterior.entropy[k], alone.entropy, 1e-8, 1e-8)
            for name, counts in alone.counts.items():
                close(posterior.counts[name][k, 0], counts, 1e-9, 1e-9)
            assert torch.equal(modes[k], alone.mode())
        alive = total > -torch.inf
        for name, grad in zip(many, gradients(total[alive].sum(), many), strict=True):
            close(grad, posterior.counts[name], 1e-9, 1e-9)

    @thorough(20)
    @given(data=st.data())
    def test_every_example_may_have_weights_of_its_own(self, data: st.DataObject) -> None:
        instance = data.draw(self.case.instances)
        dist, value = instance.dist.laid_flat(instance.value)
        B = len(instance.items)
        own = {name: w.expand(B, *w.shape).clone().requires_grad_() for name, w in dist.weights.items()}
        try:
            each = dist.with_weights(own)
        except ValueError as error:
            pytest.skip(str(error))
        if each.draws:
            pytest.skip("weights by example have no room for another axis of examples")
        total = each.log_prob(value)
        close(total.detach(), log_z(instance), 1e-10, 1e-12)
        alive = total > -torch.inf
        for name, grad in zip(own, gradients(total[alive].sum(), own), strict=True):
            close(grad.sum(0), expected_counts(instance, name), 1e-9, 1e-9)

    def test_draws_follow_the_posterior(self) -> None:
        """Chi-squared over all structures."""

        def telling(i: Instance) -> bool:  # several structures of quite different weights, in every example
            many = all(4 <= len(item.structures) <= 100 for item in i.items)
            return mild(i) and many and all(max(item.scores) - min(item.scores) > 1 for item in i.items)

        instance = self._one(telling)
        n = max(1000, int(4000 * SHARE))
        posterior = instance.dist.posterior(instance.value)
        drawn = posterior.sample((n,), generator=torch.Generator().manual_seed(0))
        for item, piece in zip(instance.items, instance.pieces, strict=True):
            seen = [tuple(d[piece].flatten().tolist()) for d in drawn]
            _check_frequencies(item.structures, item.probabilities(), seen, n)

    def test_the_sampling_semiring_follows_the_posterior(self, way: str) -> None:
        if way == "kernel":
            pytest.skip("a semiring has no kernel")
        instance = self._one(lambda i: mild(i) and all(len(item.structures) >= 3 for item in i.items))
        n = 1000
        weights = leaves(instance.dist)
        dist = instance.dist.with_weights(weights)
        observed = {name: torch.zeros_like(w) for name, w in weights.items()}
        for _ in range(n):
            for name, grad in zip(
                weights, gradients(defined(dist, instance.value, SAMPLE()).sum(), weights), strict=True
            ):
                observed[name] += grad
        for name, found in observed.items():
            expected = expected_counts(instance, name) * n
            # Uses of a weight in one draw are at most a few, so their variance is at most a few times their mean.
            most = max(float(c[name].max()) for item in instance.items for c in item.counts)
            assert ((found - expected).abs() <= 5 * (most * expected).sqrt() + 1e-9).all()

    @pytest.mark.parametrize("kind", range(4))
    def test_long_examples_against_the_definition(self, way: str, kind: int) -> None:
        """Where indices are too large for a wrong one to be right by chance."""
        if self.case.long is None or way == "definition":
            pytest.skip("nothing to compare")
        self.check_long(kind, uneven=False)
        self.check_long(kind, uneven=True)
        self.check_long_draws(kind)

    def check_long(self, kind: int, uneven: bool) -> None:
        """The kernel against the definition, on two long examples."""
        assert self.case.long is not None
        instance = self.case.long(2, tables(kind, uneven), kind)
        dist, value, weights = instance.dist, instance.value, leaves(instance.dist)
        total = defined(dist.with_weights(weights), value)
        posterior = dist.posterior(value)
        close(dist.log_prob(value), total.detach(), 1e-10)
        close(posterior.log_partition, total.detach(), 1e-10)
        for name, grad in zip(weights, gradients(total.sum(), weights), strict=True):
            close(posterior.counts[name], grad, 1e-8, 1e-8)
        with kernels.switched_off():
            marginals = dist.posterior(value).marginals
        close(posterior.marginals, marginals, 1e-8, 1e-8)
        with kernels.switched_off():
            best = dist.score(value, posterior.mode())
        close(best, defined(dist, value, MAX), 1e-11)

    def check_long_draws(self, kind: int) -> None:
        """Sums of counts along random directions; how far they vary is the second derivative of log Z."""
        assert self.case.long is not None
        copies, directions = 80, 10
        one, many = (self.case.long(n, tables(kind, False), kind) for n in (1, copies))
        g = torch.Generator().manual_seed(1)
        along = [
            {name: torch.randn(w.shape, generator=g, dtype=torch.float64) for name, w in one.dist.weights.items()}
            for _ in range(directions)
        ]
        weights = leaves(one.dist)
        total = defined(one.dist.with_weights(weights), one.value).sum()
        grads = gradients(total, weights, create_graph=True)
        draw = many.dist.posterior(many.value).sample(generator=torch.Generator().manual_seed(kind))
        free = leaves(many.dist)
        with kernels.switched_off():
            score = many.dist.with_weights(free).score(many.value, draw)
        assert (score > -torch.inf).all()
        used = gradients(score.sum(), free)
        for u in along:
            mean = torch.stack([(u[name] * g).sum() for name, g in zip(weights, grads, strict=True)]).sum()
            second = gradients(mean, weights, retain_graph=True)
            variance = sum(float((u[name] * h).sum()) for name, h in zip(weights, second, strict=True))
            found = 0.0
            for name, counts in zip(free, used, strict=True):  # weights by pair are there once a copy
                found += float((counts.reshape(-1, *u[name].shape).sum(0) * u[name]).sum())
            assert (
                abs(found - copies * float(mean.detach())) < 5 * math.sqrt(copies * max(variance, 0.0)) + 1e-6 * copies
            )

    @thorough(10)
    @given(data=st.data())
    def test_expand_keeps_the_type_and_the_sums(self, data: st.DataObject) -> None:
        """So that handlers recognise a structure inside plates."""
        instance = data.draw(self.case.instances)
        wide = instance.dist.expand((2, *instance.dist.batch_shape))
        assert type(wide) is type(instance.dist)
        assert wide.batch_shape == (2, *instance.dist.batch_shape)
        close(wide.log_prob(instance.value), instance.dist.log_prob(instance.value).expand(wide.batch_shape), 1e-12)

    def test_the_definition_runs_on_any_device(self, way: str) -> None:
        """Run the forward pass on fake tensors of another device. Code that mixes devices fails here, without a GPU.

        The other device is ``meta``. Fake tensors on ``cuda`` cannot be sliced where torch is built without it.
        """
        if way == "kernel":
            pytest.skip("kernels are for the CPU")
        from torch._subclasses.fake_tensor import FakeTensorMode  # no public way to run without the device

        instance = self._one(lambda i: len(i.items) > 1)
        dist, value = instance.dist.laid_flat(instance.value)
        defined(dist, value)  # index tensors are made on the CPU, once
        dist.to_parts(dist.posterior(value).mode())
        with FakeTensorMode(allow_non_fake_inputs=True):
            weights = {name: torch.empty(w.shape, dtype=w.dtype, device=DEVICE) for name, w in dist.weights.items()}
            moved = dist.with_weights(weights)
            moved = moved if self.case.on_device is None else self.case.on_device(moved, DEVICE)
            potentials = moved.potentials(torch.empty(value.shape, dtype=value.dtype, device=DEVICE))
            assert all(x.device.type == DEVICE for x in potentials.values())
            for sum_ in (LOG, MAX):
                total = moved.total(potentials, sum_)
                assert total.device.type == DEVICE
                assert total.shape == (len(instance.items),)
            parts = torch.empty(potentials[moved.part].shape, device=DEVICE)
            structure = moved.to_structure(parts)
            assert structure.device.type == DEVICE
            assert moved.to_parts(structure).device.type == DEVICE


def tables(seed: int, uneven: bool) -> Table:
    """Random log-weights. Uneven ones have values so large or small that scaled sums may underflow."""
    g = torch.Generator().manual_seed(seed)

    def table(*shape: int) -> Tensor:
        found = torch.randn(shape, generator=g, dtype=torch.float64)
        return found * torch.where(torch.rand(shape, generator=g) < 0.1, 250.0, 1.0) if uneven else found

    return table


def _check_frequencies(
    structures: list[tuple[int, ...]], probabilities: list[float], draws: list[tuple[int, ...]], n: int
) -> None:
    order = sorted(range(len(structures)), key=lambda i: -probabilities[i])
    expected: list[float] = []
    observed: list[int] = []
    rest, others = 0.0, 0
    for i in order:
        seen = draws.count(structures[i])
        if probabilities[i] * n >= 5:
            expected.append(probabilities[i] * n)
            observed.append(seen)
        else:
            rest, others = rest + probabilities[i] * n, others + seen
    expected.append(rest + 1e-9)
    observed.append(others)
    chi2 = sum((o - e) ** 2 / max(e, 1e-3) for o, e in zip(observed, expected, strict=True))
    assert stats.chi2.sf(chi2, max(len(expected) - 1, 1)) > 1e-4

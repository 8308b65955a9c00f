"""The semi-Markov chain: what the contract suite does not know."""

from __future__ import annotations

import itertools

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import Predictive
from scipy import stats
from torch import Tensor

from pyro_unsup import Chain, StructureError, kernels
from pyro_unsup.distributions import SemiMarkov
from pyro_unsup.distributions.ragged import pad


def close(actual: Tensor, expected: Tensor, tight: float = 1e-10) -> None:
    torch.testing.assert_close(actual, expected, rtol=tight, atol=tight)


def table(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64).log_softmax(-1)


def without_itself(K: int) -> Tensor:
    """Transitions to other states only."""
    return torch.randn(K, K, dtype=torch.float64).masked_fill(torch.eye(K).bool(), -torch.inf).log_softmax(-1)


def test_geometric_durations_are_a_chain() -> None:
    """To stay is to last: a power of the weight of staying, and transitions to other states alone."""
    torch.manual_seed(0)
    K, V, lengths = 3, 4, torch.tensor([7, 1, 0, 5])
    start, transition, emission = torch.randn(K), torch.randn(K, K), torch.randn(K, V)
    words = torch.randint(V, (13,))
    chain = Chain(start, transition, emission, lengths, flat=True)
    duration = transition.diagonal().unsqueeze(-1) * torch.arange(7)
    others = transition.masked_fill(torch.eye(K, dtype=torch.bool), -torch.inf)
    stretches = SemiMarkov(start, others, duration, emission, lengths)
    torch.testing.assert_close(stretches.log_prob(words), chain.log_prob(words), rtol=1e-10, atol=1e-10)
    one, other = stretches.posterior(words), chain.posterior(words)
    torch.testing.assert_close(one.entropy, other.entropy, rtol=1e-8, atol=1e-8)
    assert torch.equal(one.mode()[:, 0], other.mode())
    torch.testing.assert_close(one.counts["emission"], other.counts["emission"], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("n", "longest"), [(20, 20), (60, 60), (200, 150)], ids=["n = D", "n = D = 60", "n > D"])
def test_the_geometric_distribution_is_a_chain_that_is_cut_off(n: int, longest: int) -> None:
    """The end of a series says nothing about how long its last state would have lasted, in either."""
    torch.manual_seed(1)
    K, leave = 3, torch.tensor([0.3, 0.5, 0.2], dtype=torch.float64)
    others, start, x = without_itself(K), table(K), torch.randn(n, dtype=torch.float64)
    stay = torch.diag(1 - leave) + leave.unsqueeze(-1) * others.exp()
    emission = dist.Normal(torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64), 1.0)
    x[3] = torch.nan
    chain = Chain(start, stay.log(), emission, n)
    stretches = SemiMarkov(start, others, dist.Geometric(leave), emission, n, censored=True, longest=longest)
    close(stretches.log_prob(x), chain.log_prob(x))
    one, other = stretches.posterior(x), chain.posterior(x)
    close(one.counts["emission"], other.counts["emission"])
    assert torch.equal(one.mode()[:, 0], other.mode())


def expanded(K: int, D: int, start: Tensor, trans: Tensor, duration: Tensor, emission: Tensor, censored: bool) -> dict:
    """An ordinary chain over pairs of a state and the positions that it still has: a plain loop over all pairs."""
    wide = torch.full((K * D, K * D + 1), -torch.inf, dtype=torch.float64)
    first = torch.full((K * D,), -torch.inf, dtype=torch.float64)
    for (a, r), (b, s) in itertools.product(itertools.product(range(K), range(D)), repeat=2):
        if r > 0 and a == b and s == r - 1:
            wide[a * D + r, b * D + s] = 0.0
        elif r == 0:
            wide[a * D + r, b * D + s] = trans[a, b] + duration[b, s]
    for a, r in itertools.product(range(K), range(D)):
        first[a * D + r] = start[a] + duration[a, r]
        if r == 0 or censored:
            wide[a * D + r, K * D] = 0.0
    return {"start": first, "transition": wide, "emission": emission.repeat_interleave(D, 0)}


@pytest.mark.parametrize("censored", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_expanded_states_are_an_ordinary_chain(censored: bool, compiled: bool) -> None:
    torch.manual_seed(2)
    K, D, V, lengths = 3, 5, 4, torch.tensor([40, 1, 0, 23])
    start, trans, duration, emission = table(K), without_itself(K), table(K, D), table(K, V)
    words = torch.randint(V, (64,))
    chain = Chain(**expanded(K, D, start, trans, duration, emission, censored), lengths=lengths, flat=True)
    model = SemiMarkov(start, trans, duration, emission, lengths, censored=censored)
    expected = chain.posterior(words)
    with kernels.switched_off() if not compiled else torch.no_grad():
        posterior = model.posterior(words)
        close(posterior.log_partition, expected.log_partition)
        states = expected.marginals.reshape(64, K, D).sum(-1)
        counts = torch.zeros(V, K, dtype=torch.float64).index_add(0, words, states)
        close(posterior.counts["emission"], counts.T)
        close(posterior.marginals.sum(1), _endings(expected.marginals.reshape(64, K, D), lengths, censored))
        if not censored:  # else the chain also says how long the last stretch would have lasted
            best = expected.mode().reshape(-1)
            assert torch.equal(posterior.mode(), torch.stack([best // D, (best % D == 0).long()], -1))


def _endings(pairs: Tensor, lengths: Tensor, censored: bool) -> Tensor:  # (rows, K, D) -> (rows, K)
    """How probable it is that a stretch ends here."""
    ends, at = pairs[..., 0].clone(), 0
    for n in lengths.tolist():
        at += n
        if n and censored:
            ends[at - 1] = pairs[at - 1].sum(-1)
    return ends


def test_censored_series_are_those_that_go_on() -> None:
    """The end of a series tells no more than that nothing is known of what follows."""
    torch.manual_seed(3)
    K, D, n = 2, 4, 6
    start, trans, duration = table(K), without_itself(K), table(K, D)
    emission = dist.Normal(torch.tensor([-1.0, 1.0], dtype=torch.float64), 1.0)
    x = torch.randn(n, dtype=torch.float64)
    expected = SemiMarkov(start, trans, duration, emission, n, censored=True).log_prob(x)
    for more in (1, 5):  # steps whose observations are missing, in which a stretch may end or not
        unknown = torch.cat([x, x.new_full((more,), torch.nan)])
        close(SemiMarkov(start, trans, duration, emission, n + more, censored=True).log_prob(unknown), expected)


def test_counts_of_censored_durations_are_those_of_whole_ones() -> None:
    """As gradients of what the durations were computed from: expected durations of all stretches, cut off or not."""
    torch.manual_seed(4)
    K, D, n = 2, 6, 9
    duration = table(K, D).requires_grad_()
    model = SemiMarkov(table(K), without_itself(K), duration, table(K, 3), torch.tensor([n]), censored=True)
    x = torch.randint(3, (n,))
    (counts,) = torch.autograd.grad(model.log_prob(x).sum(), duration)
    posterior = model.posterior(x)
    stretches = posterior.counts["transition"].sum() + 1
    close(counts.sum(), stretches)
    close(posterior.counts["duration"].sum() + posterior.counts["last"].sum(), stretches)
    assert float((counts.sum(0) * torch.arange(1, D + 1)).sum()) > n  # the last one goes on


@pytest.mark.parametrize("flat", [True, False])
def test_draws_of_new_data_follow_the_story(flat: bool) -> None:
    """Observations that are their states, so that stretches of new series can be counted."""
    torch.manual_seed(5)
    lengths, start, trans = torch.tensor([4, 2]), table(2), without_itself(2)
    duration = table(2, 3)
    sure = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]], dtype=torch.float64)
    model = SemiMarkov(start, trans, duration, sure, lengths, flat=flat)
    drawn = model.sample((3000,))
    assert drawn.shape == ((3000, 6) if flat else (3000, 2, 4))
    first = drawn[:, :4] if flat else drawn[:, 0]
    short = drawn[:, 4:] if flat else drawn[:, 1, :2]
    for x, n in ((first, 4), (short, 2)):
        seen = [tuple(row) for row in x.tolist()]
        every = list(itertools.product(range(2), repeat=n))
        one = SemiMarkov(start, trans, duration, sure, torch.tensor([n]))
        p = torch.stack([one.log_prob(torch.tensor(path)).exp() for path in every]).flatten()
        kept = [(path, float(q)) for path, q in zip(every, p / p.sum(), strict=True) if q > 0]
        observed = [seen.count(path) for path, _ in kept]
        assert stats.chisquare(observed, [3000 * q for _, q in kept]).pvalue > 1e-4


def test_a_model_says_its_shapes_and_predicts() -> None:
    torch.manual_seed(6)
    lengths = torch.tensor([5, 3])

    def model(x: Tensor | None = None) -> Tensor:
        mean = pyro.sample("mean", dist.Normal(torch.zeros(2), 1.0).to_event(1))
        lasts = dist.Poisson(torch.tensor([2.0, 4.0]))
        steps = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).log()
        with pyro.plate("series", 2):
            series = SemiMarkov(
                torch.zeros(2), steps, lasts, dist.Normal(mean, 0.1), lengths, flat=False, censored=True, longest=5
            )
            found: Tensor = pyro.sample("x", series, obs=x)
            return found

    trace = pyro.poutine.trace(model).get_trace()
    trace.compute_log_prob()
    assert "x dist 2 | 5" in trace.format_shapes()
    assert Predictive(model, num_samples=7)()["x"].shape == (7, 2, 5)
    assert trace.nodes["x"]["log_prob"].shape == (2,)


def test_padded_series_have_padded_posteriors() -> None:
    torch.manual_seed(7)
    K, D, lengths = 2, 3, torch.tensor([4, 1, 3])
    tables = (table(K), table(K, K), table(K, D), table(K, 5))
    words = torch.randint(5, (8,))
    flat = SemiMarkov(*tables, lengths).posterior(words)
    model, padded = SemiMarkov(*tables, lengths, flat=False), pad(words, lengths, time=6)
    found = model.posterior(padded)
    assert found.marginals.shape == (3, 6, D, K)
    assert found.mode().shape == found.sample().shape == found.mbr().shape == (3, 6, 2)
    assert torch.equal(found.mode()[0, :4], flat.mode()[:4])
    assert (found.mode()[1, 1:] == -1).all()
    close(found.marginals[2, :3], flat.marginals[5:])
    close(model.score(padded, found.mode()), SemiMarkov(*tables, lengths).score(words, flat.mode()))
    parts = model.parts(padded)
    assert parts.shape == (3, 6, D, K)
    short = model.with_potentials(stretches=parts.duration <= torch.ones(parts.shape)).posterior(padded)
    assert (short.mode()[0, :4, 1] == 1).all()


def test_many_threads_change_nothing() -> None:
    torch.manual_seed(8)
    K, D, lengths = 3, 40, torch.randint(0, 140, (120,))  # enough for a second thread
    x = torch.randn(int(lengths.sum()), dtype=torch.float64)
    mean = torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)
    tables = (table(K), without_itself(K), table(K, D))
    model = SemiMarkov(*tables, dist.Normal(mean, 1.0), lengths, censored=True)
    torch.set_num_threads(1)
    alone = model.posterior(x)
    log_z, counts, marginals, mode = alone.log_partition, alone.counts, alone.marginals, alone.mode()
    torch.set_num_threads(2)
    both = model.posterior(x)
    close(both.log_partition, log_z)
    close(both.marginals, marginals)
    assert torch.equal(both.mode(), mode)
    for name, found in both.counts.items():
        close(found, counts[name])
    torch.set_num_threads(1)


def test_a_hundred_thousand_positions_stay_finite() -> None:
    torch.manual_seed(9)
    n, K, D = 100_000, 3, 10
    emission = dist.Normal(torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64), 0.01)
    model = SemiMarkov(table(K), without_itself(K), table(K, D), emission, n)
    posterior = model.posterior(torch.randn(n, dtype=torch.float64))
    assert torch.isfinite(posterior.log_partition)
    close(posterior.counts["emission"].sum(), torch.tensor(float(n), dtype=torch.float64), 1e-9)


@pytest.mark.parametrize(
    "structure",
    [[[0, 1], [1, 0]], [[0, 0], [1, 1]], [[2, 1], [0, 1]], [[0, 0], [0, 0]]],
    ids=["does not end", "changes inside", "no such state", "never ends"],
)
def test_what_is_no_structure_is_refused(structure: list[list[int]]) -> None:
    dist = SemiMarkov(torch.zeros(2), torch.zeros(2, 2), torch.zeros(2, 1), torch.zeros(2, 3), torch.tensor([2]))
    with pytest.raises(StructureError, match=r"states must lie in 0 \.\. 1|expected stretches of one state"):
        dist.score(torch.tensor([0, 1]), torch.tensor(structure))


@pytest.mark.parametrize(
    ("duration", "options", "says"),
    [
        (dist.Poisson(torch.ones(2)), {}, "a Poisson need longest=D"),
        (dist.Poisson(torch.ones(3)), {"longest": 4}, r"ends in the 2 states; actual batch shape \(3,\)"),
        (dist.Normal(torch.zeros(2), 1.0), {"longest": 4}, "over 0, 1, 2, ..., to which one is added; actual support"),
        (dist.Poisson(torch.ones(2)), {"longest": 0}, "longest must be a whole number of positions, at least 1"),
        (torch.zeros(2, 3), {"longest": 3}, "for durations that are a distribution; these are a table"),
    ],
)
def test_what_are_no_durations_is_refused(duration: Tensor, options: dict[str, int], says: str) -> None:
    with pytest.raises(StructureError, match=says):
        SemiMarkov(torch.zeros(2), torch.zeros(2, 2), duration, torch.zeros(2, 3), torch.tensor([2]), **options)


def test_a_length_that_no_stretches_add_up_to_cannot_be_drawn() -> None:
    never = torch.tensor([[-torch.inf, 0.0]] * 2)
    model = SemiMarkov(torch.zeros(2), torch.zeros(2, 2), never, torch.zeros(2, 3), torch.tensor([3]))
    assert model.log_prob(torch.zeros(3).long()) == -torch.inf
    with pytest.raises(StructureError, match="no sequence of states has one of the given lengths"):
        model.sample()

"""Skewing against enumeration: toward other weights, toward a fit, and toward a structure's own reference."""

from __future__ import annotations

import itertools

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from pyro.optim import Adam
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup.distributions import Dependency
from pyro_unsup.distributions.bracketing_priors import split_marginals
from pyro_unsup.distributions.cells import spans_of
from pyro_unsup.models import CCM, Tagger

from ..distributions.chain_case import enumerate_chain
from ..distributions.dependency_case import all_trees

SENTENCES = [[0, 1, 2], [2, 1], [0, 1, 1, 3]]
BETAS = [1e-6, 0.1, 0.5, 1.0, 2.0]


def chain_of(w: dict[str, Tensor]) -> pu.Chain:
    return pu.Chain(w["start"], w["transition"], w["emission"], torch.tensor([1]), w.get("second"), flat=True)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("order", [1, 2])
def test_a_skewed_tagger_is_the_enumeration_between_two_posteriors(order: int, beta: float) -> None:
    tagger = Tagger(2, 4, order, stop=True)
    other = pu.EM(tagger).run(SENTENCES, iterations=0, seed=5).weights
    em = pu.EM(pu.skew(tagger, beta, other))
    state = em.init(SENTENCES)
    info, expected = em.e_step(state)
    total, counts = 0.0, {name: torch.zeros_like(x) for name, x in state.weights.items()}
    for sentence in SENTENCES:
        own, reference = (enumerate_chain(chain_of(w), sentence) for w in (state.weights, other))
        mixed = beta * torch.tensor(own.scores) + max(1 - beta, 0) * torch.tensor(reference.scores)
        total += float(mixed.logsumexp(0)) / beta
        for p, used in zip(mixed.softmax(0).tolist(), own.counts, strict=True):
            for name in counts:
                counts[name] += p * used[name]
    assert info.objective == pytest.approx(total, rel=1e-9)
    for name, c in expected.counts.items():
        torch.testing.assert_close(c, counts[name], rtol=1e-7, atol=1e-9)


def mixture(x: Tensor) -> None:
    share, answer = pu.table("share", 2), pu.table("answer", 2, 3)
    with pyro.plate("data", len(x)):
        k = pyro.sample("k", pu.Categorical(share))
        pyro.sample("a", pu.Categorical(answer[k]), obs=x)
        pyro.sample("size", dist.Normal(k.float(), 1.0), obs=x.float())  # a factor that is no table


@pytest.mark.parametrize("beta", BETAS)
def test_an_enumerated_model_of_the_users_own(beta: float) -> None:
    x = torch.tensor([0, 2, 1, 2])
    start = pu.EM(mixture).run(x, iterations=0, seed=3)
    em = pu.EM(pu.skew(mixture, beta, toward=start))
    state = em.init(x)
    info, expected = em.e_step(state)
    fixed = dist.Normal(torch.tensor([0.0, 1.0]).double(), 1.0).log_prob(x.double()[:, None])
    own, other = (w["share"] + w["answer"][:, x].T + fixed for w in (state.weights, start.weights))
    mixed = beta * own + max(1 - beta, 0) * other  # (data, class)
    assert info.objective == pytest.approx(float(mixed.logsumexp(-1).sum() / beta), rel=1e-6)
    torch.testing.assert_close(expected.counts["share"], mixed.softmax(-1).sum(0), rtol=1e-5, atol=1e-6)


def test_near_zero_the_posterior_is_the_references() -> None:
    sentences = [[0, 1, 2, 0, 1], [2, 2, 1], [1, 0], [0, 1, 2, 2, 1, 0]]
    model = CCM.of(sentences, vocab=3)
    posterior = pu.EM(pu.skew(model, 1e-7, "split")).run(sentences, iterations=0).posterior(sentences)
    torch.testing.assert_close(posterior.marginals, split_marginals(torch.tensor([5, 3, 2, 6])), rtol=0, atol=1e-5)


@pytest.mark.parametrize("beta", [0.2, 1.0, 3.0])
def test_toward_random_splits_against_all_trees(beta: float) -> None:
    sentence = [[0, 1, 2, 0, 2]]
    model = CCM.of(sentence, vocab=3)
    em = pu.EM(pu.skew(model, beta, "split"))
    state = em.init(sentence)
    info, _ = em.e_step(state)
    fit = pu.EM(model, init=pu.init.from_weights(state.weights)).run(sentence, iterations=0)
    (site,) = (s for s in fit._sites(sentence) if s["name"] == "spans")
    start, end = spans_of(torch.tensor([5]))[1:]
    total = []
    for tree in _trees(0, 5):
        inside = torch.tensor([(int(i), int(j)) in tree for i, j in zip(start, end, strict=True)])
        node = sum(-torch.tensor(float(j - i - 1)).log() for i, j in tree if j - i > 1)
        own = site["fn"].score(site["value"], inside.long())
        total.append(beta * own + max(1 - beta, 0) * node)
    assert info.objective == pytest.approx(float(torch.stack(total).logsumexp(0)) / beta, rel=1e-9)


@pytest.mark.parametrize("beta", [0.3, 1.0, 3.0])
def test_toward_a_reference_that_has_weights_of_its_own(beta: float) -> None:
    """The harmonic one, which weighs arcs; and again in a model that has such weights already."""
    tags = [0, 1, 2, 0]
    g = torch.Generator().manual_seed(0)
    shapes = ((3,), (3, 2, 3), (3, 2, 2, 2))
    tables = [torch.randn(shape, generator=g) for shape in shapes]
    plain = Dependency(*tables, torch.tensor([4]))
    blank = plain.with_weights({name: torch.zeros_like(w) for name, w in plain.weights.items()})
    other = blank.with_potentials(**plain.references()["harmonic"])
    for trees in (plain, plain.with_potentials(arcs=torch.randn(20, generator=g))):
        total = []
        for heads in all_trees(4):
            own, reference = (one.score(torch.tensor(tags), torch.tensor(heads)) for one in (trees, other))
            total.append(beta * own + max(1 - beta, 0) * reference)

        def model(trees: Dependency = trees) -> None:
            pyro.sample("tags", trees, obs=torch.tensor(tags))

        found = pyro.poutine.trace(pu.skew(model, beta, "harmonic")).get_trace().log_prob_sum()
        assert float(found) == pytest.approx(float(torch.stack(total).logsumexp(0)) / beta, rel=1e-9)


def _trees(i: int, j: int) -> list[set[tuple[int, int]]]:
    if j - i == 1:
        return [{(i, j)}]
    return [{(i, j)} | a | b for k in range(i + 1, j) for a in _trees(i, k) for b in _trees(k, j)]


@pytest.mark.parametrize("toward", ["split", "weights"])
@pytest.mark.parametrize("beta", [0.2, 1.0])
def test_em_climbs_the_skewed_objective(beta: float, toward: str) -> None:
    sentences = [[0, 1, 2, 0, 1], [2, 2, 1], [1, 0], [0, 1, 2, 2, 1, 0]]
    model = CCM.of(sentences, vocab=3)
    reference = toward if toward == "split" else pu.EM(model).run(sentences, iterations=0, seed=2).weights
    fit = pu.EM(pu.skew(model, beta, reference)).run(sentences, iterations=25, tolerance=0)
    values = [row["objective"] for row in fit.rows]
    assert values[-1] > values[0]
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(values))


def test_with_stock_svi() -> None:
    tagger = Tagger(2, 4)
    start = pu.EM(tagger).run(SENTENCES, iterations=0)
    svi = SVI(pu.skew(tagger, 0.3, start), AutoDelta(tagger), Adam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step(SENTENCES) for _ in range(40)]
    assert losses[-1] < losses[0]


def test_what_it_cannot_skew_toward() -> None:
    tagger = Tagger(2, 4)
    start = pu.EM(tagger).run(SENTENCES, iterations=0)
    with pytest.raises(pu.UnsupError, match=r"has no reference 'split' to skew toward: it has none; give log-weights"):
        pu.EM(pu.skew(tagger, 0.5, "split")).run(SENTENCES)
    some = {name: w for name, w in start.weights.items() if name != "emission"}
    with pytest.raises(pu.UnsupError, match=r"no table 'emission': it has \['start', 'transition'\]"):
        pu.EM(pu.skew(tagger, 0.5, some)).run(SENTENCES)
    with pytest.raises(pu.UnsupError, match="toward should be log-weights by table, a fit, or the name of"):
        pu.skew(tagger, 0.5, 3)
    with pytest.raises(pu.TableError, match=r"table 'start': the model wants shape \(3,\), the given weights have"):
        pu.EM(pu.skew(Tagger(3, 4), 0.5, start)).run(SENTENCES)
    model = CCM.of([[0, 1, 2]], vocab=3)
    with pytest.raises(pu.UnsupError, match=r"no reference 'right' to skew toward: it has \['split'\]"):
        pu.EM(pu.skew(model, 0.5, "right")).run([[0, 1, 2]])

    def with_param(x: Tensor) -> None:
        centre = pyro.param("centre", torch.tensor([-1.0, 1.0]))
        share = pu.table("share", 2)
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", pu.Categorical(share))
            pyro.sample("x", dist.Normal(centre[k], 1.0), obs=x)

    with pytest.raises(pu.UnsupError, match="'centre' is a parameter but not a table"):
        pu.EM(pu.skew(with_param, 0.5, {"share": torch.zeros(2)})).run(torch.randn(3))


@pytest.mark.parametrize("beta", [0.0, -1.0, float("inf"), float("nan")])
def test_beta_must_be_positive(beta: float) -> None:
    with pytest.raises(pu.UnsupError, match="beta must be positive and finite"):
        pu.skew(Tagger(2, 4), beta, "split")

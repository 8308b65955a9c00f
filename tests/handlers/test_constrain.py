"""Constraints on hidden structure against enumeration, under EM and stock SVI, and where nothing is left."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from pyro.optim import Adam
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import components as c
from pyro_unsup.distributions import Dependency
from pyro_unsup.distributions.parts import Arcs, States
from pyro_unsup.models import CCM, DMV, Aligner, Clusterer, HMMAligner, Segmenter, Tagger

from ..distributions.dependency_case import all_trees, enumerate_trees

TAGS = pu.data.Vocab(["DT", "NN", "VB"])
SENTENCES = [[0, 1, 2, 0], [0, 1], [2, 1, 1], [1, 2, 0, 1]]


def short(parts: Arcs) -> Tensor:
    return parts.distance <= 1


def enumerated(weights: dict[str, Tensor], allowed: Callable[..., bool]) -> tuple[list[float], dict[str, Tensor]]:
    """log Z and counts over the trees that are allowed; over all, if none is."""
    totals, counts = [], {name: torch.zeros_like(w) for name, w in weights.items()}
    for tags in SENTENCES:
        one = Dependency(weights["root"], weights["attach"], weights["stop"], torch.tensor([len(tags)]))
        item = enumerate_trees(one, tags)
        keep = torch.tensor([allowed(heads, tags) for heads in all_trees(len(tags))])
        keep = keep if bool(keep.any()) else ~keep
        scores = torch.tensor(item.scores).masked_fill(~keep, -math.inf)
        totals.append(float(scores.logsumexp(0)))
        for p, used in zip(scores.softmax(0).tolist(), item.counts, strict=True):
            for name in counts:
                counts[name] += p * used[name]
    return totals, counts


CHECKS: list[tuple[Any, Callable[..., bool], int]] = [
    (short, lambda heads, tags: all(h == 0 or abs(h - k) <= 1 for k, h in enumerate(heads, 1)), 0),
    (c.verb_as_root("VB"), lambda heads, tags: tags[heads.index(0)] == 2, 1),  # one sentence has no verb
    (c.verb_as_root("VB") & c.right_attach(), lambda heads, tags: heads[-1] == 0 and tags[-1] == 2, 4),
]


@pytest.mark.parametrize(("component", "allowed", "fallbacks"), CHECKS[:2])
def test_em_counts_what_is_allowed(component: Any, allowed: Callable[..., bool], fallbacks: int) -> None:
    """The same at every iteration, though what never has anything left is looked for once only."""
    model = pu.constrain(DMV(TAGS), component)
    em = pu.EM(model, pu.AddLambda(0.1))
    state = em.init(SENTENCES)
    for _ in range(4):
        totals, counts = enumerated(state.weights, allowed)
        _, expected = em.e_step(state)
        assert expected.log_marginal == pytest.approx(math.fsum(totals), rel=1e-10)
        for name, found in expected.counts.items():
            torch.testing.assert_close(found, counts[name], rtol=1e-8, atol=1e-10)
        assert model.fallbacks == fallbacks
        state = em.m_step(state, expected)


def test_never_more_than_without() -> None:
    plain = pu.EM(DMV(TAGS)).run(SENTENCES, iterations=0)
    for component, _, _ in CHECKS[:2]:
        under = pu.EM(pu.constrain(DMV(TAGS), component), init=pu.init.from_weights(plain)).run(SENTENCES, iterations=0)
        assert under.objective < plain.objective
        sites = [poutine.trace(fit.trained).get_trace(SENTENCES).nodes["tags"] for fit in (under, plain)]
        log_z = [site["fn"].log_prob(site["value"]) for site in sites]
        assert bool((log_z[0] <= log_z[1] + 1e-12).all())


def test_the_objective_never_falls_and_data_need_not_be_looked_at_twice() -> None:
    looked = []
    corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(60, seed=1), max_length=8, drop=["PUNCT"])

    def verb(parts: Arcs) -> Tensor:
        looked.append(parts)
        return c.verb_as_root("AUX")(parts)

    model = pu.constrain(DMV.of(corpus), verb)
    fit = pu.EM(model, pu.AddLambda(0.1)).run(corpus, iterations=8, tolerance=0.0)
    assert len(looked) == 1
    rises = fit.history["objective"].diff().dropna()
    assert (rises >= 0).all()
    assert 0 < model.fallbacks < len(corpus)
    pu.EM(model, pu.AddLambda(0.1)).run(corpus.select(range(30)), iterations=1)
    assert len(looked) == 2


def test_the_same_mini_batch_numbers_may_be_other_words() -> None:
    """A mini-batch numbers the words that it has: labels follow."""
    vocab = pu.data.Vocab([f"w{k}" for k in range(20)])
    model = pu.constrain(Tagger(pu.data.Vocab(["A", "B"]), vocab), c.word_tags({"w7": "A", "w3": "B"}))
    fit = pu.EM(model, pu.AddLambda(0.1), init=pu.init.noise(0.1)).run(
        [[k % 20, (k + 1) % 20] for k in range(40)], iterations=1
    )
    assert fit.posterior([[7, 1]]).marginals[0, 1] == 0
    assert fit.posterior([[3, 1]]).marginals[0, 0] == 0
    assert 0 < float(fit.posterior([[1, 3]]).marginals[0, 0]) < 1


@pytest.mark.parametrize("engine", [pu.IncrementalEM, pu.StepwiseEM])
def test_mini_batches(engine: Any) -> None:
    corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(80, seed=1), max_length=6, drop=["PUNCT"])
    model = pu.constrain(DMV.of(corpus), c.verb_as_root("AUX") & c.short_dependencies(3))
    fit = engine(model, pu.AddLambda(0.1), batch_size=7).run(corpus, iterations=2)
    site = poutine.trace(fit.trained).get_trace(corpus).nodes["tags"]
    parts, marginals = site["fn"].parts(site["value"]), site["fn"].posterior(site["value"]).marginals
    bound = ~model.handler._fallen["tags"][parts.sentence]
    assert 0 < model.fallbacks < len(corpus)
    assert (marginals[(parts.distance > 3) & bound] == 0).all()
    assert float(marginals[parts.distance > 3].sum()) > 0


def test_a_component_that_forbids_everything_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["pyro_unsup.handlers.constrain"], "PATIENCE", 40)

    def nothing(parts: Arcs) -> Tensor:
        return parts.head < 0

    with pytest.raises(pu.UnsupError, match="the component nothing forbids everything in all examples, 4 here"):
        pu.EM(pu.constrain(DMV(TAGS), nothing)).run(SENTENCES, iterations=1)
    batches = pu.constrain(DMV(TAGS), nothing)
    start = pu.EM(DMV(TAGS)).run(SENTENCES, iterations=0).weights
    fixed = pu.given(batches, {name: w.requires_grad_() for name, w in start.items()})  # as if they were learned

    def stream(model: Any) -> None:
        for k in range(27):  # mini-batches, none of which comes again
            poutine.trace(model).get_trace([[k % 3, k // 3 % 3], [k // 9 % 3]]).compute_log_prob()

    with pytest.raises(ValueError, match="forbids everything"):
        stream(fixed)
    # If there was anything anywhere, there is hope.
    longer = pu.constrain(DMV(TAGS), lambda parts: parts.length > 2)
    fixed = pu.given(longer, {name: w.requires_grad_() for name, w in start.items()})
    poutine.trace(fixed).get_trace(SENTENCES).compute_log_prob()
    stream(fixed)
    assert longer.fallbacks == 2
    # Of labels that do not exist at all, that is known at once.
    with pytest.raises(pu.StructureError, match=r"none of 'VERB'.* is known as the tag of a child: there are .*'DT'"):
        pu.EM(pu.constrain(DMV(TAGS), c.verb_as_root(["VERB"]))).run(SENTENCES)


def test_new_data_may_have_nothing_that_is_allowed(tmp_path: Path) -> None:
    """Of which a model that has been trained says no more than how many there are."""
    model = pu.constrain(DMV(TAGS), c.verb_as_root("VB"))
    pu.EM(model, pu.AddLambda(0.1)).run(SENTENCES, iterations=2).save(tmp_path / "fit")
    fit = pu.load(tmp_path / "fit")
    assert fit.log_likelihood([[0, 1]]) == fit.log_likelihood([[0, 1]]) == fit.unhandled().log_likelihood([[0, 1]])
    guide = pu.MixtureEM(DMV(TAGS), [c.verb_as_root("VB")], pu.DirichletVB()).run(SENTENCES, iterations=2).guide()
    assert all(guide([[0, 1, 0]])["tags.structure"].shape == (3,) for _ in range(10))


def test_numbers_are_no_mask() -> None:
    with pytest.raises(pu.StructureError, match=r"actual torch.int32: for a mask compare, as in parts.distance <= 4"):
        pu.EM(pu.constrain(DMV(TAGS), lambda parts: (parts.distance <= 1).int())).run(SENTENCES)


def test_a_mask_to_the_power_of_zero_is_itself() -> None:
    fit = pu.EM(pu.constrain(DMV(TAGS), short), pu.AddLambda(0.1)).run(SENTENCES, iterations=1)
    site = poutine.trace(fit.trained).get_trace(SENTENCES).nodes["tags"]
    trees = site["fn"].with_temperature(math.inf).log_prob(site["value"]).exp()
    short_ones = sum(CHECKS[0][1](heads, SENTENCES[0]) for heads in all_trees(4))
    torch.testing.assert_close(trees[0], torch.tensor(float(short_ones), dtype=trees.dtype))


def test_weights_may_leave_nothing_where_the_component_alone_would() -> None:
    """A dictionary and a component that have no tag in common: the sentence is as it would be without the component."""
    dictionary = torch.tensor([[True, True], [False, True]])
    tagger = Tagger(2, 2, dictionary=dictionary)

    def second(parts: States) -> Tensor:
        return (parts.state == 1) | (parts.position > 0)

    start = pu.EM(tagger).run([[0, 1], [1, 0]], iterations=0)
    model = pu.constrain(tagger, second)
    em = pu.EM(model, init=pu.init.from_weights(start))
    state = em.init([[0, 1], [1, 0], [1, 1]])
    for _ in range(3):
        total = em.e_step(state)[0].log_likelihood
        assert model.fallbacks == 1
        assert total == pytest.approx(
            start.log_likelihood([[0, 1]])
            + sum(
                float(
                    torch.stack(
                        [
                            start.weights["start"][1]
                            + start.weights["emission"][1, 1]
                            + start.weights["transition"][1, z]
                            + start.weights["emission"][z, x]
                            for z in range(2)
                        ]
                    ).logsumexp(0)
                )
                for x in (0, 1)
            ),
            rel=1e-10,
        )


def test_soft_constraints_temper_and_viterbi() -> None:
    def soft(parts: Arcs) -> Tensor:
        return -0.7 * parts.distance

    start = pu.EM(DMV(TAGS)).run(SENTENCES, iterations=0)

    def total(model: Any) -> float:
        return pu.EM(model, init=pu.init.from_weights(start)).run(SENTENCES, iterations=0).objective

    def trees(power: float, best: bool = False) -> float:
        each = []
        for tags in SENTENCES:
            w = start.weights
            item = enumerate_trees(Dependency(w["root"], w["attach"], w["stop"], torch.tensor([len(tags)])), tags)
            far = [sum(abs(h - k) for k, h in enumerate(heads, 1) if h) for heads in all_trees(len(tags))]
            scores = torch.tensor(item.scores) * power - 0.7 * torch.tensor(far)
            each.append(float(scores.max() if best else scores.logsumexp(0)))
        return math.fsum(each)

    model = DMV(TAGS)
    assert total(pu.constrain(model, soft)) == pytest.approx(trees(1.0))
    assert total(pu.constrain(pu.temper(model, 0.5), soft)) == pytest.approx(trees(0.5) / 0.5)  # the component last
    assert total(pu.harden(pu.constrain(model, soft))) == pytest.approx(trees(1.0, best=True))
    assert total(pu.constrain(pu.harden(model), soft)) == pytest.approx(trees(1.0, best=True))
    twice = pu.constrain(pu.constrain(model, soft), c.short_dependencies(1))
    assert total(twice) == pytest.approx(total(pu.constrain(model, c.both(soft, c.short_dependencies(1)))))
    under = pu.EM(pu.temper(pu.constrain(model, short), 0.5), init=pu.init.from_weights(start)).run(
        SENTENCES, iterations=0
    )
    raised = pu.EM(pu.constrain(pu.temper(model, 0.5), short), init=pu.init.from_weights(start)).run(
        SENTENCES, iterations=0
    )
    assert under.objective == pytest.approx(raised.objective)  # a mask is the same to any power


def test_stock_svi() -> None:
    model = pu.constrain(DMV(TAGS), short)
    guide = AutoDelta(poutine.block(model, expose=["root", "attach", "stop"]))
    svi = SVI(model, guide, Adam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step(SENTENCES) for _ in range(40)]
    assert losses[-1] < losses[0]
    weights = {name: x.log() for name, x in guide.median().items()}
    site = poutine.trace(pu.given(model, weights)).get_trace(SENTENCES).nodes["tags"]
    totals, _ = enumerated(weights, CHECKS[0][1])
    torch.testing.assert_close(site["fn"].log_prob(site["value"]), torch.tensor(totals))


def test_a_component_with_a_gradient_of_its_own() -> None:
    far = torch.tensor(0.3, requires_grad=True)
    model = pu.constrain(DMV(TAGS), lambda parts: -far * parts.distance)
    fixed = pu.given(model, pu.EM(DMV(TAGS)).run(SENTENCES, iterations=0).weights)
    for _ in range(2):  # a graph of its own every time
        total = poutine.trace(fixed).get_trace(SENTENCES).log_prob_sum()
        site = poutine.trace(fixed).get_trace(SENTENCES).nodes["tags"]
        expected = site["fn"].posterior(site["value"]).marginals @ site["fn"].parts(site["value"]).distance.double()
        torch.testing.assert_close(torch.autograd.grad(total, far)[0], -expected.detach())


def test_a_tagger_under_stepwise_em() -> None:
    """Which would go by compiled mini-batches, if there were no component."""
    model = pu.constrain(Tagger(3, TAGS), c.word_tags({"DT": 0, "NN": [1, 2]}))
    fit = pu.StepwiseEM(model, pu.AddLambda(0.1), batch_size=2).run(SENTENCES, iterations=2)
    emission = fit.weights["emission"].exp()
    assert float(emission[1:, 0].max()) < float(emission[0, 0])
    marginals = fit.posterior(SENTENCES).marginals
    words = torch.tensor([word for sentence in SENTENCES for word in sentence])
    assert (marginals[words == 0][:, 1:] == 0).all()
    assert (marginals[words == 1][:, 0] == 0).all()


BITEXT = ([[0, 1, 2, 0], [2, 1], [1, 0, 2]], [[3, 1, 2], [2, 1, 0], [0, 3, 1]])
MODELS: list[tuple[Callable[[], Any], Any, Any]] = [
    (lambda: Tagger(3, TAGS), SENTENCES, c.word_tags({"DT": 0, "NN": [1, 2]})),
    (lambda: Tagger(3, TAGS, order=2, stop=True), SENTENCES, c.word_tags({"DT": 0, "NN": [1, 2]})),
    (lambda: CCM.of(SENTENCES, vocab=TAGS), SENTENCES, c.fragments(["NN"])),
    (lambda: CCM.of(SENTENCES, vocab=TAGS, variant=2, empty_spans=True), SENTENCES, c.fragments("NN")),
    (lambda: Segmenter.of(SENTENCES, vocab=pu.data.Vocab(["a", "b", "c"])), SENTENCES, c.spelled_with("ac")),
    (lambda: Clusterer(2, TAGS), SENTENCES, c.seeds({0: ["DT"], 1: ["VB"]})),
    (lambda: Aligner.of(BITEXT, source=3, target=4), BITEXT, c.near_diagonal(0.4)),
    (lambda: Aligner.of(BITEXT, None, source=3, target=4), BITEXT, c.near_diagonal(0.4)),
    (lambda: Aligner.of(BITEXT, "2008", source=3, target=4), BITEXT, c.near_diagonal(0.4)),
    (lambda: HMMAligner.of(BITEXT, source=3, target=4), BITEXT, c.near_diagonal(0.4)),
    (lambda: HMMAligner.of(BITEXT, None, source=3, target=4), BITEXT, c.near_diagonal(0.4)),
    (lambda: DMV(TAGS), SENTENCES, c.noun_sequence()),
]


@pytest.mark.parametrize(("make", "data", "component"), MODELS)
def test_every_model_learns_under_its_component_and_is_saved_with_it(
    make: Callable[[], Any], data: Any, component: Any, tmp_path: Path
) -> None:
    model = pu.constrain(make(), component)
    fit = pu.EM(model, pu.AddLambda(0.1)).run(data, iterations=3)
    site = next(
        s for s in poutine.trace(fit.trained).get_trace(data).nodes.values() if hasattr(s.get("fn"), "with_potentials")
    )
    inner, value = site["fn"], site["value"]
    marginals = inner.posterior(value).marginals
    free = inner.base.posterior(value).marginals
    assert model.fallbacks == 0 or isinstance(make(), CCM | Segmenter)
    assert bool(((marginals == 0) & (free > 1e-12)).any())  # it makes a difference
    fit.save(tmp_path / "fit")
    back = pu.load(tmp_path / "fit")
    assert repr(back.model) == repr(fit.model)
    assert f"constrain({component!r})" in repr(back.model)
    assert back.log_likelihood(data) == pytest.approx(fit.log_likelihood(data), rel=1e-12)


def test_a_component_of_ones_own_has_to_be_given_again(tmp_path: Path) -> None:
    fit = pu.EM(pu.constrain(DMV(TAGS), short), pu.AddLambda(0.1)).run(SENTENCES, iterations=1)
    fit.save(tmp_path / "fit")
    with pytest.raises(pu.InputError, match=r"under a component of your own: pass it, load\(folder, model=...\)"):
        pu.load(tmp_path / "fit")
    back = pu.load(tmp_path / "fit", model=pu.constrain(DMV(TAGS), short))
    assert back.log_likelihood(SENTENCES) == fit.log_likelihood(SENTENCES)


def test_copies_for_other_processes_and_resuming(tmp_path: Path) -> None:
    model = pu.constrain(DMV(TAGS), c.short_dependencies(1))
    first = pu.EM(model, pu.AddLambda(0.1)).run(SENTENCES, iterations=3)
    copy = cloudpickle.loads(cloudpickle.dumps(model))
    assert copy.handler._known == {}
    assert pu.EM(copy, pu.AddLambda(0.1)).run(SENTENCES, iterations=3).objective == first.objective
    whole = pu.EM(model, pu.AddLambda(0.1)).run(SENTENCES, iterations=6, tolerance=0.0)
    half = pu.EM(model, pu.AddLambda(0.1)).run(SENTENCES, iterations=3, tolerance=0.0)
    half.save(tmp_path / "half")
    again = pu.load(tmp_path / "half")
    rest = pu.EM(again.model, pu.AddLambda(0.1)).run(SENTENCES, iterations=6, tolerance=0.0, resume=again)
    assert all(torch.equal(rest.weights[name], w) for name, w in whole.weights.items())


def test_models_without_structured_distributions() -> None:
    def mixture(x: Tensor) -> None:
        share = pu.table("share", 2)
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", pu.Categorical(share))
            pyro.sample("x", dist.Normal(k.double(), 1.0), obs=x)

    with pytest.raises(pu.StructureError, match=r"constrain\(short\) found no structured distribution in the model"):
        pu.EM(pu.constrain(mixture, short)).run(torch.zeros(3))
    with pytest.raises(pu.StructureError, match="a component is a function of the parts of the data, actual 'short'"):
        pu.constrain(DMV(TAGS), "short")  # type: ignore[arg-type]


def test_new_data_can_be_drawn_as_if_there_were_none() -> None:
    weights = pu.EM(Tagger(2, 3)).run(SENTENCES, iterations=0).weights
    drawn = pu.given(pu.constrain(Tagger(2, 3), lambda parts: parts.state == 0), weights)(lengths=[3, 2])
    assert drawn.shape == (5,)

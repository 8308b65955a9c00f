"""The learned posterior as a guide: against the bound that training reports, under stock Pyro, and from disk."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import Predictive, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from torch import Tensor
from torch.distributions import kl_divergence

import pyro_unsup as pu
from pyro_unsup import UnsupError
from pyro_unsup import components as c
from pyro_unsup.distributions import Hidden, RowDirichlet, RowLogisticNormal, Structure
from pyro_unsup.models import CCM, DMV, Aligner, Clusterer, Segmenter, Tagger
from pyro_unsup.results.table_posterior import table_posterior

from .cases import latent, points

DATA = [[0, 1, 1], [1, 0], [1, 1, 0, 1], [2, 0]]
MODELS: list[Callable[[], Any]] = [lambda: Tagger(2, 3), lambda: DMV(3)]
ways = pytest.mark.parametrize("make", MODELS, ids=["tagger", "dmv"])


def trained(model: Any, estimate: Any, data: Any = DATA, iterations: int = 8, **settings: Any) -> pu.Fit:
    return pu.EM(model, estimate, **settings).run(data, iterations=iterations, tolerance=0, progress=False)


def short(parts: Any) -> Tensor:
    return parts.distance <= 1


KNOWN = [short, c.right_attach()]


def mixture(tied: bool = True, estimate: Any = None, components: Any = None) -> pu.Fit:
    estimate = pu.DirichletVB() if estimate is None else estimate
    engine = pu.MixtureEM(
        DMV(3),
        KNOWN if components is None else components,
        estimate,
        polytope=pu.schedules.fixed(0.5, even=True),
        tied=tied,
    )
    return engine.run(DATA, iterations=6, tolerance=0, progress=False)


def traced(guide: Any, data: Any = DATA, **given: Tensor) -> Any:
    trace = poutine.trace(poutine.condition(guide, given)).get_trace(data)
    trace.compute_log_prob()
    return trace


def terms(fit: pu.Fit, guide: Any, priors: dict[str, Any] | None = None) -> tuple[float, float]:
    """One draw of the bound, structure included; and of the ELBO, with structure summed out."""
    q = traced(guide)
    p = poutine.trace(poutine.replay(fit.model, trace=q)).get_trace(DATA)
    p.compute_log_prob()
    tables = sum(
        float((p.nodes[name]["fn"] if priors is None else priors[name]).log_prob(q.nodes[name]["value"]))
        - float(q.nodes[name]["log_prob"])
        for name in fit.weights
    )
    (site,) = (s for s in p.nodes.values() if s["type"] == "sample" and isinstance(s["fn"], Structure))
    y = q.nodes[f"{site['name']}.structure"]
    given = float(site["fn"].score(site["value"], y["value"]).sum() - y["fn"].log_prob(y["value"]))
    return tables + given, tables + float(site["log_prob"].sum())


def mean_and_error(draws: list[Any]) -> tuple[Any, Any]:
    x = np.array(draws)
    return x.mean(0), x.std(0, ddof=1) / len(x) ** 0.5


def kl(fit: pu.Fit, guide: Any, **given: Tensor) -> float:
    q, p = traced(guide, **given), poutine.trace(fit.model).get_trace(DATA)
    return sum(float(kl_divergence(q.nodes[name]["fn"], p.nodes[name]["fn"])) for name in fit.weights)


# -- the bound


@ways
@pytest.mark.parametrize("estimate", [pu.DirichletVB(), pu.EmpiricalDirichlet()], ids=repr)
def test_its_sites_are_the_terms_of_the_bound(make: Callable[[], Any], estimate: Any) -> None:
    """log Z of the structure, minus the divergence of the tables from their prior: exactly."""
    fit = trained(make(), estimate)
    guide = fit.guide()
    q = traced(guide)
    (hidden,) = (s["fn"] for s in q.nodes.values() if isinstance(s.get("fn"), Hidden))
    log_z = float(hidden.posterior.log_partition.sum())
    if isinstance(estimate, pu.DirichletVB):
        assert log_z - kl(fit, guide) == pytest.approx(fit.objective, rel=1e-9)
    else:  # the prior was learned too
        learned = {name: fit.memory[f"{name}.concentration"] for name in fit.weights}
        apart = sum(
            float(kl_divergence(q.nodes[name]["fn"], dist.Dirichlet(alpha.expand(w.shape)).to_event(w.dim() - 1)))
            for (name, alpha), w in zip(learned.items(), fit.weights.values(), strict=True)
        )
        # Concentrations of many millions leave fewer digits: those that log-gamma functions of their sums have.
        sizes = [
            torch.lgamma(alpha.expand(w.shape).sum(-1)).abs().sum()
            for alpha, w in zip(learned.values(), fit.weights.values(), strict=True)
        ]
        rounding = 16 * torch.finfo(torch.float64).eps * float(sum(sizes))
        assert log_z - apart == pytest.approx(fit.objective, rel=1e-9, abs=rounding)
    for name, w in fit.weights.items():
        alpha = q.nodes[name]["fn"].base_dist.concentration if w.dim() > 1 else q.nodes[name]["fn"].concentration
        expected = torch.digamma(alpha) - torch.digamma(alpha.sum(-1, keepdim=True))
        torch.testing.assert_close(expected, w, rtol=1e-9, atol=1e-9)


@ways
def test_draws_of_tables_and_structure_average_to_the_bound(make: Callable[[], Any]) -> None:
    """With structure summed out instead, the average is higher: log p(x) is convex in log theta."""
    fit = trained(make(), pu.DirichletVB())
    guide = fit.guide()
    (whole, summed), (error, spread) = mean_and_error([terms(fit, guide) for _ in range(60)])
    assert abs(whole - fit.objective) < 4 * error
    assert summed > fit.objective - 4 * spread
    elbo = TraceEnum_ELBO(max_plate_nesting=1, strict_enumeration_warning=False)
    for found in (Trace_ELBO(), elbo):
        mean, error = mean_and_error([-found.loss(fit.model, guide, DATA) for _ in range(25)])
        assert abs(mean - summed) < 4 * (error + spread)
        assert mean > fit.objective


@ways
def test_the_logistic_normal_bound_is_lower_and_close_where_rows_are_nearly_certain(make: Callable[[], Any]) -> None:
    gaps = []
    for variance in (1.0, 0.1):
        fit = trained(make(), pu.LogisticNormal(variance=variance, strict=True), iterations=15)
        guide, priors = fit.guide(), {}
        for name, w in fit.weights.items():
            mean = fit.memory[f"{name}.prior_mean"].reshape(w.shape)
            row = RowLogisticNormal(mean, torch.tensor([variance]), torch.tensor(w.shape[-1:]))
            priors[name] = row.to_event(w.dim() - 1)
        (whole, summed), (error, spread) = mean_and_error([terms(fit, guide, priors) for _ in range(40)])
        assert whole > fit.objective - 4 * error
        assert summed > fit.objective - 4 * spread
        gaps.append((whole - fit.objective) / abs(fit.objective))
    assert gaps[1] < 0.06
    assert gaps[1] < gaps[0] / 2


@pytest.mark.parametrize("tied", [True, False])
def test_components_are_the_terms_of_the_bound_of_a_mixture(tied: bool) -> None:
    fit = mixture(tied)
    guide, total = fit.guide(KNOWN), 0.0
    for i, share in enumerate(fit.state["lambda"].tolist()):
        chosen = torch.tensor(i)
        q = traced(guide, component=chosen)
        log_z = float(q.nodes["tags.structure"]["fn"].posterior.log_partition.sum())
        total += share * (log_z - kl(fit, guide, component=chosen))
        for name, w in fit.component(i).weights.items():
            torch.testing.assert_close(q.nodes[name]["fn"].mean.sum(-1), torch.ones(w.shape[:-1]))
    assert total == pytest.approx(fit.objective, rel=1e-9)
    draws = [traced(guide).nodes["component"]["value"] for _ in range(100)]
    seen = torch.bincount(torch.stack(draws), minlength=3) / 100
    torch.testing.assert_close(seen, fit.state["lambda"], rtol=0, atol=4 * (0.25 / 100) ** 0.5)


@pytest.mark.parametrize("tied", [True, False])
def test_structure_keeps_the_constraint_of_its_component(tied: bool) -> None:
    guide = mixture(tied).guide(KNOWN)
    place = torch.cat([torch.arange(1, len(s) + 1) for s in DATA])
    far, left = [], []
    for _ in range(20):
        heads = [traced(guide, component=torch.tensor(i)).nodes["tags.structure"]["value"] for i in range(3)]
        far.append([bool(((y > 0) & ((y - place).abs() > 1)).any()) for y in heads])
        left.append([bool(((y > 0) & (y < place)).any()) for y in heads])
    assert np.any(far, 0).tolist() == [True, False, True]
    assert np.any(left, 0).tolist() == [True, True, False]


def test_untied_components_draw_from_their_own_tables() -> None:
    fit = mixture(tied=False, estimate=pu.LogisticNormal())
    guide = fit.guide()
    for i in range(3):
        part = fit.component(i)
        q = traced(guide, component=torch.tensor(i)).nodes["root"]["fn"]
        torch.testing.assert_close(q.loc, part.memory["root.mean"])
    assert not torch.equal(fit.component(1).weights["root"], fit.component(2).weights["root"])
    assert fit.component(0) is fit
    tied = mixture(tied=True)
    assert tied.component(2) is tied


# -- what q is


def tables(fit: pu.Fit) -> dict[str, Any]:
    model: Any = fit.model
    return {name: table_posterior(fit, d, torch.float64) for name, d in model.declarations().items()}


@pytest.mark.parametrize("iterations", [0, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("estimate", [pu.Normalise(), pu.AddLambda(0.1), pu.LogLinear(kappa=0.1)], ids=repr)
def test_estimates_without_uncertainty_are_points(estimate: Any, dtype: torch.dtype, iterations: int) -> None:
    fit = trained(Tagger(2, 3), estimate, iterations=iterations, dtype=dtype)
    for name, q in tables(fit).items():
        assert isinstance(q, dist.Delta)
        torch.testing.assert_close(q.sample(), fit.weights[name].double().exp(), rtol=1e-5, atol=1e-6)
    assert isinstance(traced(fit.guide()).nodes["words.structure"]["fn"], Hidden)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_kind_of_q_is_told_from_the_fit_alone(dtype: torch.dtype) -> None:
    normal, other = pu.LogisticNormal(), pu.EmpiricalDirichlet()
    estimate = {"start": pu.DirichletVB(), "transition": normal, "emission": other}
    fit = trained(Tagger(2, 3), estimate, dtype=dtype)
    assert "transition.transition.mean" in fit.memory  # estimators that remember are told apart by prefix
    q = tables(fit)
    assert [type(q[name]).__name__ for name in q] == ["Dirichlet", "Independent", "Independent"]
    assert isinstance(q["transition"].base_dist, RowLogisticNormal)
    assert isinstance(q["emission"].base_dist, dist.Dirichlet)
    torch.testing.assert_close(q["transition"].base_dist.loc.flatten(), fit.memory["transition.transition.mean"])
    untrained = trained(Tagger(2, 3), pu.DirichletVB(), iterations=0)
    assert {type(one) for one in tables(untrained).values()} == {dist.Delta}


def dictionary() -> Tensor:
    return torch.tensor([[True, True, True, False], [False, True, False, False], [True, True, False, True]])


def stepwise(model: Any) -> pu.Fit:
    return pu.StepwiseEM(model, pu.DirichletVB()).run(DATA, iterations=3, progress=False)


BITEXT = ([[0, 1], [0, 2], [1]], [[5, 6], [5, 7], [6]])
EACH: dict[str, tuple[Callable[[], Any], Any]] = {
    "tagger": (lambda: Tagger(3, 4, dictionary=dictionary(), order=2, stop=True), DATA),
    "dmv": (lambda: DMV(3), DATA),
    "ccm": (lambda: CCM.of(DATA, vocab=3), DATA),
    "ccm by width": (lambda: CCM.of(DATA, vocab=3, variant=2), DATA),
    "segmenter": (lambda: Segmenter.of(DATA, vocab=3, max_length=3), DATA),
    "clusterer": (lambda: Clusterer(2, 3), DATA),
    "aligner": (lambda: Aligner.of(BITEXT, source=3, target=8), BITEXT),
}


@pytest.mark.parametrize("kind", EACH)
@pytest.mark.parametrize("estimate", [pu.DirichletVB(), pu.LogisticNormal(), pu.AddLambda(0.1)], ids=repr)
def test_sites_are_those_of_every_model(kind: str, estimate: Any) -> None:
    """Stock Pyro compares model and guide, and warns of whatever does not fit."""
    make, data = EACH[kind]
    fit = trained(make(), estimate, data, iterations=2)
    guide = fit.guide()
    assert math.isfinite(Trace_ELBO().loss(fit.model, guide, data))
    q = traced(guide, data)
    p = poutine.trace(fit.model).get_trace(data)
    for name in fit.weights:
        assert q.nodes[name]["value"].shape == p.nodes[name]["value"].shape
        assert q.nodes[name]["fn"].event_dim == p.nodes[name]["fn"].event_dim
        assert bool(p.nodes[name]["fn"].support.check(q.nodes[name]["value"]).all())
        if isinstance(p.nodes[name]["fn"], RowDirichlet):
            assert type(q.nodes[name]["fn"]) in (RowDirichlet, RowLogisticNormal, dist.Delta)
    hidden = [name for name, site in q.nodes.items() if isinstance(site.get("fn"), Hidden)]
    assert hidden
    assert set(guide(data)) == {*fit.weights, *hidden}


def test_stepwise_fits_have_a_guide_too() -> None:
    fit = stepwise(Tagger(2, 3))
    assert {type(q).__name__ for q in tables(fit).values()} == {"Dirichlet", "Independent"}


def test_single_precision() -> None:
    torch.set_default_dtype(torch.float32)
    for estimate in (pu.DirichletVB(), pu.LogisticNormal(), pu.AddLambda(0.1)):
        fit = trained(DMV(3), estimate)
        guide = fit.guide()
        assert math.isfinite(Trace_ELBO().loss(fit.model, guide, DATA))
        assert all(guide(DATA)[name].dtype == torch.float32 for name in fit.weights)


# -- under stock Pyro


def test_it_can_be_traced_replayed_and_predicted_from() -> None:
    fit = mixture()
    guide = fit.guide(KNOWN)
    trace = traced(guide)
    names = [name for name, site in trace.nodes.items() if site["type"] == "sample"]
    assert names == ["component", "root", "attach", "stop", "tags.structure"]
    assert [name for name in names if trace.nodes[name]["infer"].get("is_auxiliary")] == ["component", "tags.structure"]
    again = poutine.trace(poutine.replay(guide, trace=trace)).get_trace(DATA)
    assert all(torch.equal(again.nodes[name]["value"], trace.nodes[name]["value"]) for name in names)
    assert float(trace.log_prob_sum()) == pytest.approx(
        sum(float(trace.nodes[name]["log_prob"]) for name in ("root", "attach", "stop"))
    )
    drawn = Predictive(fit.model, guide=guide, num_samples=3)(DATA)
    assert drawn["attach"].shape == (3, 1, 3, 2, 3)
    new = Predictive(fit.model, guide=guide, num_samples=3)(None, torch.tensor([4, 2]))
    assert new["tags"].shape == (3, 6)
    assert math.isfinite(Trace_ELBO(num_particles=2).loss(fit.model, guide, DATA))
    with pytest.raises(UnsupError, match="one component at a time: use Predictive with parallel=False"):
        Predictive(fit.model, guide=guide, num_samples=3, parallel=True)(DATA)


@ways
@pytest.mark.parametrize("estimate", [pu.DirichletVB(), pu.LogisticNormal()], ids=repr)
def test_particles_can_be_vectorised(make: Callable[[], Any], estimate: Any) -> None:
    fit = trained(make(), estimate)
    guide, settings = fit.guide(), {"max_plate_nesting": 1}
    many = Trace_ELBO(num_particles=100, vectorize_particles=True, **settings).loss(fit.model, guide, DATA)
    mean, error = mean_and_error([Trace_ELBO(**settings).loss(fit.model, guide, DATA) for _ in range(20)])
    assert abs(many - mean) < 5 * error


def test_latent_variables_are_points_in_the_plates_of_the_model() -> None:
    x = points()
    fit = pu.EM(latent, pu.DirichletVB()).run(x, iterations=3, tolerance=0, progress=False)
    guide = fit.guide()
    q = traced(guide, x)
    for name in ("mean", "scale"):
        assert torch.equal(q.nodes[name]["value"], fit.points[name])
        assert q.nodes[name]["fn"].batch_shape == (2,)
    assert isinstance(q.nodes["share"]["fn"], dist.Dirichlet)
    elbo = TraceEnum_ELBO(max_plate_nesting=1)
    mean, error = mean_and_error([-elbo.loss(config_enumerate(latent), guide, x) for _ in range(25)])
    assert mean > fit.objective - 4 * error


def test_parameters_are_those_of_the_fit_and_the_store_stays_empty() -> None:
    from .cases import mixture as own

    fit = pu.EM(own, pu.DirichletVB()).run(points(), iterations=2, tolerance=0, progress=False)
    pyro.clear_param_store()
    assert set(fit.guide()(points())) == {"share"}
    assert not list(pyro.get_param_store())


def test_a_constrained_or_tempered_model_draws_what_it_weighs() -> None:
    for model in (pu.constrain(DMV(3), short), pu.temper(DMV(3), 0.5)):
        fit = trained(model, pu.DirichletVB())
        q = traced(fit.guide())
        y = q.nodes["tags.structure"]
        expected = fit.posterior(DATA).log_partition.sum()
        torch.testing.assert_close(y["fn"].posterior.log_partition.sum(), expected)


# -- from disk, and mistakes


@pytest.mark.parametrize("tied", [True, False])
def test_the_guide_of_a_loaded_fit_draws_the_same(tied: bool, tmp_path: Path) -> None:
    known = [c.short_dependencies(limit=1), c.right_attach()]
    for fit in (mixture(tied, components=known), mixture(tied, pu.LogisticNormal(), known)):
        fit.save(tmp_path / "fit", overwrite=True)
        both = []
        for one in (fit, pu.load(tmp_path / "fit")):
            pyro.set_rng_seed(3)
            guide = one.guide(known)
            both.append([guide(DATA) for _ in range(4)])
        for mine, theirs in zip(*both, strict=True):
            assert mine.keys() == theirs.keys()
            assert all(torch.equal(x, theirs[name]) for name, x in mine.items())


def test_ready_components_come_back_with_the_fit(tmp_path: Path) -> None:
    mixture(components=[c.right_attach(), c.short_dependencies(limit=1)]).save(tmp_path / "fit")
    drawn = traced(pu.load(tmp_path / "fit").guide(), component=torch.tensor(1)).nodes["tags.structure"]["value"]
    heads, places = drawn.split([len(one) for one in DATA]), [torch.arange(1, len(one) + 1) for one in DATA]
    assert all(bool(((h == 0) | (h > k)).all()) for h, k in zip(heads, places, strict=True))


def test_a_mixture_without_its_components_has_no_structure_to_draw() -> None:
    assert set(mixture().guide()(DATA)) == {"component", "root", "attach", "stop"}


def test_mistakes_are_named() -> None:
    fit, plain = mixture(), trained(DMV(3), pu.DirichletVB(), iterations=1)
    with pytest.raises(
        UnsupError, match=r"trained with the components \['short', 'right_attach\(\)'\], actual \['right_attach\(\)'\]"
    ):
        fit.guide([c.right_attach()])
    with pytest.raises(UnsupError, match=r"the fit is no mixture, actual \['short'\]"):
        plain.guide([short])
    with pytest.raises(UnsupError, match="the mixture has the components 0 to 2, actual 3"):
        fit.component(3)
    with pytest.raises(UnsupError, match="no mixture, so it has no components: it was trained by EM"):
        plain.component(0)
    assert repr(fit.guide()) == "Guide(3 components, root, attach, stop)"
    assert repr(plain.guide()) == "Guide(root, attach, stop)"

"""The estimator: its M step against optima that are known, its prior, its start, and weights that run away."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_unsup.errors import TableError
from pyro_unsup.estimate import Differentiable, Features, LogLinear, Parametric, Template, same
from pyro_unsup.tables import Declaration

from .feature_cases import TABLES, TEMPLATES, last, tables_of

cases = pytest.mark.parametrize("templates", TEMPLATES.values(), ids=TEMPLATES)


def counts_of(tables: dict[str, Declaration]) -> dict[str, Tensor]:
    return {name: 5 * torch.rand(d.layout.shape) * d.layout.allowed() for name, d in tables.items()}


def objective(how: LogLinear, tables: dict[str, Declaration], counts: dict[str, Tensor], memory: Any) -> float:
    weights = how.tables(tables, memory)
    return sum(float(torch.where(c > 0, c * weights[n], 0.0).sum()) for n, c in counts.items()) + how.log_prior(memory)


def test_it_keeps_to_the_contracts() -> None:
    assert isinstance(LogLinear(), Parametric)
    assert isinstance(LogLinear(), Differentiable)


@pytest.mark.parametrize("name", TABLES)
def test_basic_features_without_a_prior_are_relative_frequencies(name: str) -> None:
    tables = {name: TABLES[name]}
    counts, layout = counts_of(tables), TABLES[name].layout
    how = LogLinear(lbfgs_iterations=500)
    memory = how.update(tables, counts, how.begin(tables, {}, torch.Generator()))
    expected = layout.normalise(counts[name].log())
    torch.testing.assert_close(how.tables(tables, memory)[name].exp(), expected.exp(), rtol=0, atol=1e-6)


@cases
@pytest.mark.parametrize("kappa", [0.0, 0.3])
def test_an_m_step_ends_where_the_gradient_is_zero_and_never_lower(templates: list[Template], kappa: float) -> None:
    tables = tables_of(templates)
    counts, how = counts_of(tables), LogLinear(templates, kappa, lbfgs_iterations=1000)
    memory = how.begin(tables, {}, torch.Generator().manual_seed(1))
    before = objective(how, tables, counts, memory)
    for short in (how.refine, LogLinear(templates, kappa, lbfgs_iterations=1).update):
        assert objective(how, tables, counts, short(tables, counts, memory)) > before
    new = how.update(tables, counts, memory)
    gradient = how.gradient(tables, counts, how.tables(tables, new), new)["features"]
    assert float(gradient.abs().max()) < 1e-4
    again = how.update(tables, counts, new)
    assert objective(how, tables, counts, again) >= objective(how, tables, counts, new)


@cases
def test_its_gradient_is_that_of_its_objective(templates: list[Template]) -> None:
    tables = tables_of(templates)
    counts, how = counts_of(tables), LogLinear(templates, 0.7)
    features = Features(tables, templates)
    w = torch.randn(len(features), requires_grad=True)
    total = sum(torch.where(c > 0, c * features.table(n, w), 0.0).sum() for n, c in counts.items()) - 0.7 * w @ w
    assert isinstance(total, Tensor)
    (expected,) = torch.autograd.grad(total, w)
    memory = {"features": w.detach()}
    found = how.gradient(tables, counts, how.tables(tables, memory), memory)["features"]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


def test_it_starts_small_and_random_or_from_initial_tables() -> None:
    tables = {name: TABLES[name] for name in ("emission", "ragged")}
    how, generator = LogLinear(start=0.5), torch.Generator().manual_seed(3)
    w = how.begin(tables, {}, generator)["features"]
    assert torch.equal(w, how.begin(tables, {}, generator.manual_seed(3))["features"])
    assert float(w.std()) == pytest.approx(0.5, rel=0.4)
    initial = {name: d.layout.normalise(torch.randn(d.layout.shape)) for name, d in tables.items()}
    near = LogLinear(fit_start=True)
    found = near.tables(tables, near.begin(tables, initial, generator))
    for name, table in found.items():
        torch.testing.assert_close(table.exp(), initial[name].exp(), rtol=0, atol=1e-4)
    # A prior on the weights has no say in it, but one for the start has.
    tight = LogLinear(fit_start=True, start_kappa=10.0).begin(tables, initial, generator)["features"]
    assert float(tight.norm()) < 0.2 * float(near.begin(tables, initial, generator)["features"].norm())
    strong = LogLinear(fit_start=True, kappa=100.0)
    assert torch.equal(near.begin(tables, initial, generator)["features"],
                       strong.begin(tables, initial, generator)["features"])  # fmt: skip


@cases
def test_it_begins_with_the_weights_that_it_is_given(templates: list[Template]) -> None:
    tables = tables_of(templates)
    names = Features(tables, templates).names
    given = torch.randn(len(names), dtype=torch.float64)
    how = LogLinear(templates, begin_with=(names, given), fit_start=True)
    memory = how.begin(tables, {name: d.layout.uniform() for name, d in tables.items()}, torch.Generator())
    assert torch.equal(memory["features"], given)
    assert memory["features"] is not given
    other = LogLinear([Template("emission", "others", tag=same, word=last)], begin_with=(names, given))
    with pytest.raises(TableError, match="begin_with has weights of other features: "):
        other.begin(tables_of([Template("emission", "others", tag=same, word=last)]), {}, torch.Generator())


def test_coarse_features_tie_what_they_do_not_tell_apart() -> None:
    tables = {"emission": TABLES["emission"]}
    how = LogLinear([Template("emission", "last", tag=same, word=last)])
    memory = how.update(tables, counts_of(tables), how.begin(tables, {}, torch.Generator()))
    table = how.tables(tables, memory)["emission"]
    assert len(table[0].unique()) == 5  # g, s, t, 1, and nothing
    one_end = LogLinear([Template("emission", "s", word=lambda word: word.endswith("s"))])
    table = one_end.tables(tables, one_end.begin(tables, {}, torch.Generator()))["emission"]
    assert len(table.unique()) == 2


def test_noise_for_annealing() -> None:
    how, memory = LogLinear(), {"features": torch.zeros(100)}
    perturbed = how.perturbed({}, memory, 0.2, torch.Generator().manual_seed(0))["features"]
    assert 0 <= float(perturbed.min()) < float(perturbed.max()) <= 0.2
    assert float(memory["features"].abs().max()) == 0


def test_weights_that_run_away_are_an_error_that_names_them() -> None:
    tables = {"emission": TABLES["emission"]}
    how = LogLinear()
    w = how.begin(tables, {}, torch.Generator())["features"]
    w[3] = -2000.0
    message = (
        "the weights of features diverge: 'basic emission' of table 'emission' with tag=1, word='dogs' has -2e.03. "
        "Nothing holds it back: raise kappa, actual 0"
    )
    with pytest.raises(TableError, match=message):
        how.check(tables, {"features": w})
    w[3] = torch.nan
    with pytest.raises(TableError, match=r"diverge: .*word='dogs' has nan"):
        how.check(tables, {"features": w})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kappa": -1.0}, "LogLinear: kappa must be finite and not negative, actual -1.0"),
        ({"start": float("inf")}, "LogLinear: start must be finite and not negative, actual inf"),
        ({"kappa": "x"}, "LogLinear: kappa must be finite and not negative, actual 'x'"),
        ({"lbfgs_iterations": 0}, "LogLinear: lbfgs_iterations must be a whole number, at least 1, actual 0"),
        ({"lbfgs_iterations": 2.5}, "LogLinear: lbfgs_iterations must be a whole number, at least 1, actual 2.5"),
        ({"templates": [same]}, "LogLinear: templates must be a list of Template"),
        ({"templates": Template("emission", "t", word=same)}, "LogLinear: templates must be a list of Template"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        LogLinear(**settings)


def test_it_travels_without_its_matrices() -> None:
    how = LogLinear([Template("emission", "last", tag=same, word=last)], kappa=2.0)
    tables = {"emission": TABLES["emission"]}
    assert how.features(tables) is how.features(tables)
    again = pickle.loads(pickle.dumps(how))
    assert again._built is None
    assert again.features(tables).names.differs(how.features(tables).names) is None
    assert repr(again) == "LogLinear(1 templates, kappa=2, lbfgs_iterations=100)"

"""The logistic-normal estimator: every kind of table, every kind of prior, and its bound against exact evidence."""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pyro_unsup import FitError, LogisticNormal, TableError
from pyro_unsup.estimate.normal import logistic_normal as module
from pyro_unsup.estimate.normal.covariance import families
from pyro_unsup.tables import Axis, Declaration, Layout

from .normal_cases import FAMILIES, KINDS, LETTERS, bound_of, spd, table

PRIORS = {
    "diagonal": LogisticNormal(strict=True),
    "wide": LogisticNormal("uniform", variance=9.0, strict=True),
    "variances": LogisticNormal(covariance=torch.linspace(0.2, 3, 7, dtype=torch.float64), strict=True),
    "tensor": LogisticNormal(covariance=spd(7), strict=True),
    "families": LogisticNormal(covariance=FAMILIES, strict=True),
    "learned": LogisticNormal(covariance="full", strict=True),
    "shared": LogisticNormal(covariance=FAMILIES, shared=0.6, strict=True),
}
priors = pytest.mark.parametrize("prior", PRIORS)
kinds = pytest.mark.parametrize("kind", KINDS)


def usable(kind: str, prior: str) -> bool:
    """Some priors are refused for some tables, which has a test of its own."""
    if kind == "ragged":
        return prior not in ("variances", "learned", "shared")
    return (kind, prior) != ("support", "learned")


def some_counts(layout: Layout, seed: int, scale: float) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    counts = -(torch.rand(layout.shape, generator=generator, dtype=torch.float64).log() ** 3)
    used = torch.rand(layout.shape, generator=generator) < 0.7
    return scale * counts.abs() * used * layout.allowed()


def start(layout: Layout, seed: int) -> Tensor:
    noise = torch.randn(layout.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return layout.normalise(noise)


def objective(how: LogisticNormal, declaration: Declaration, counts: Tensor, memory: dict[str, Tensor]) -> float:
    """What an update raises: counts . psi and the log prior."""
    psi = how.tables({"t": declaration}, memory)["t"]
    return float((counts * psi.where(counts > 0, 0.0)).sum()) + how.log_prior(memory)


@kinds
@priors
@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 10_000), scale=st.floats(-2, 4))
def test_the_bound_never_falls(kind: str, prior: str, seed: int, scale: float) -> None:
    if not usable(kind, prior):
        return
    how, declaration = PRIORS[prior], table(kind)
    tables, layout = {"t": declaration}, declaration.layout
    memory = how.begin(tables, {"t": start(layout, seed)}, torch.Generator())
    for step in range(3):
        counts = some_counts(layout, seed + step, 10**scale)
        before = objective(how, declaration, counts, memory)
        memory = how.update(tables, {"t": counts}, memory)
        first = objective(how, declaration, counts, memory)
        assert first >= before - 1e-9 * abs(before)
        again = objective(how, declaration, counts, how.update(tables, {"t": counts}, memory))
        assert again >= first - 1e-9 * abs(first)
        weights = how.tables(tables, memory)["t"]
        layout.check("t", weights)
        assert (layout.row_sum(weights.exp()) <= 1 + 1e-12).all()


@kinds
def test_a_row_without_a_choice_is_certain(kind: str) -> None:
    declaration, how = table(kind), LogisticNormal("uniform", covariance=spd(7))
    layout = declaration.layout
    memory = how.begin({"t": declaration}, {"t": start(layout, 0)}, torch.Generator())
    memory = how.update({"t": declaration}, {"t": some_counts(layout, 1, 10)}, memory)
    weights = how.tables({"t": declaration}, memory)["t"]
    single = layout.row_sum(layout.allowed().double()) == 1
    total = layout.row_sum(weights.exp())
    assert (total[single] == 1).all()
    assert (total[~single] < 1).all()
    assert bool(single.any()) == (kind in ("support", "ragged"))


@pytest.mark.parametrize("prior", ["diagonal", "wide", "variances", "tensor", "families"])
@pytest.mark.parametrize("kind", ["matrix", "support", "ragged"])
def test_the_log_prior_is_that_of_each_row(kind: str, prior: str) -> None:
    """Row by row, with the covariance of the outcomes that the row has."""
    if not usable(kind, prior):
        return
    how, declaration = PRIORS[prior], table(kind)
    layout = declaration.layout
    begun = start(layout, 4)
    counts = some_counts(layout, 5, 10)
    memory = how.update(
        {"t": declaration}, {"t": counts}, how.begin({"t": declaration}, {"t": begun}, torch.Generator())
    )
    psi = how.tables({"t": declaration}, memory)["t"]
    whole = {
        "diagonal": torch.eye(7),
        "wide": 9 * torch.eye(7),
        "variances": torch.linspace(0.2, 3, 7).diag(),
        "tensor": spd(7),
        "families": families(LETTERS, FAMILIES),
    }[prior]
    believed = layout.uniform() if prior == "wide" else begun
    m, s2 = iter(memory["t.mean"]), iter(memory["t.variance"])
    expected = 0.0
    assert declaration.axes is not None
    flat = layout.row_lengths
    rows = len(flat) if flat is not None else layout.shape[0]
    for r in range(rows):
        if flat is None:
            columns = layout.allowed()[r].nonzero().squeeze(-1)
            mu, f, w = believed[r, columns], counts[r, columns], psi[r, columns]
        else:
            part = slice(int(flat[:r].sum()), int(flat[: r + 1].sum()))
            cells = declaration.axes[-1].cells
            assert cells is not None
            columns, mu, f, w = cells[part], believed[part], counts[part], psi[part]
        if len(columns) == 1:
            continue
        mean, variance = (torch.stack([next(x) for _ in columns]) for x in (m, s2))
        P = torch.linalg.inv(whole[columns][:, columns])
        expected += float(bound_of(f, mu, P, mean, variance)) - float(f @ w)
        torch.testing.assert_close(w, mean - torch.logsumexp(mean + variance / 2, 0))
    assert how.log_prior(memory) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("how", [LogisticNormal(), LogisticNormal(covariance=spd(7)), PRIORS["shared"]])
def test_a_table_without_any_choice(how: LogisticNormal) -> None:
    support = torch.eye(7, dtype=torch.bool)[:4]
    declaration = replace(table("matrix"), layout=Layout.dense(4, 7, support=support))
    memory = how.begin({"t": declaration}, {"t": declaration.layout.uniform()}, torch.Generator())
    memory = how.update({"t": declaration}, {"t": 3.0 * support}, memory)
    assert torch.equal(how.tables({"t": declaration}, memory)["t"], declaration.layout.uniform())
    assert how.log_prior(memory) == 0


def test_it_begins_at_the_initial_weights() -> None:
    declaration = table("matrix")
    begun = start(declaration.layout, 1)
    how = LogisticNormal()
    memory = how.begin({"t": declaration}, {"t": begun}, torch.Generator())
    torch.testing.assert_close(how.tables({"t": declaration}, memory)["t"], begun - 0.5)  # half the variance
    assert how.log_prior(memory) == pytest.approx(0, abs=1e-12)  # at the prior
    uniform = LogisticNormal("uniform").begin({"t": declaration}, {"t": begun}, torch.Generator())
    torch.testing.assert_close(uniform["t.mean"], begun.flatten())
    torch.testing.assert_close(uniform["t.prior_mean"], declaration.layout.uniform().flatten())
    given_mean = LogisticNormal(torch.arange(7.0)).begin({"t": declaration}, {"t": begun}, torch.Generator())
    torch.testing.assert_close(given_mean["t.prior_mean"], torch.arange(7.0).repeat(4))


@pytest.mark.parametrize("given", [spd(7), torch.linspace(0.2, 3, 7)], ids=["matrix", "variances"])
def test_arrays_and_lists_are_tensors(given: Tensor) -> None:
    declaration = table("matrix")
    tables, counts = {"t": declaration}, {"t": some_counts(declaration.layout, 2, 5)}
    mean = torch.linspace(-1, 1, 7)
    found = []
    for how in (
        LogisticNormal(mean, given, strict=True),
        LogisticNormal(mean.numpy(), given.numpy(), strict=True),  # type: ignore[arg-type]
        LogisticNormal(mean.tolist(), given.tolist(), strict=True),  # type: ignore[arg-type]
    ):
        memory = how.begin(tables, {"t": start(declaration.layout, 3)}, torch.Generator())
        found.append(how.update(tables, counts, memory))
    assert "t.prior_mean" in found[0]
    for other in found[1:]:
        assert all(torch.equal(x, other[key]) for key, x in found[0].items())


def test_means_of_forbidden_outcomes_may_be_anything() -> None:
    declaration = table("support")
    mean = torch.zeros(4, 7).masked_fill(~declaration.layout.allowed(), -math.inf)
    how = LogisticNormal(mean)
    memory = how.begin({"t": declaration}, {"t": declaration.layout.uniform()}, torch.Generator())
    assert bool((memory["t.prior_mean"] == 0).all())


def test_members_of_a_family_rise_together() -> None:
    """b, d and g are one family: counts of b raise d and g, unlike c."""
    declaration = table("vector")
    counts = torch.tensor([0.0, 9.0, 0, 0, 0, 0, 0])
    how = LogisticNormal(covariance=FAMILIES)
    memory = how.begin({"t": declaration}, {"t": declaration.layout.uniform()}, torch.Generator())
    w = how.tables({"t": declaration}, how.update({"t": declaration}, {"t": counts}, memory))["t"]
    b, c, d, g = (w[LETTERS.index(x)] for x in "bcdg")
    assert b > d > c
    torch.testing.assert_close(d, g)


def test_a_learned_covariance_finds_what_varies_together() -> None:
    generator = torch.Generator().manual_seed(0)
    root = torch.linalg.cholesky(families(range(6), {0: 0, 1: 0, 2: 0, 3: 1, 4: 1}, within=0.9))
    eta = torch.randn(60, 6, generator=generator) @ root.mT
    counts = 200 * eta.softmax(-1)
    declaration = Declaration("t", Layout.dense(60, 6), torch.tensor(1.0))
    how = LogisticNormal("uniform", "full", strict=True)
    memory = how.begin({"t": declaration}, {"t": declaration.layout.uniform()}, torch.Generator())
    bounds = []
    for _ in range(30):
        memory = how.update({"t": declaration}, {"t": counts}, memory)
        bounds.append(objective(how, declaration, counts, memory))
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(bounds))
    found = memory["t.covariance"]
    scale = found.diagonal().sqrt()
    correlation = found / scale[:, None] / scale
    assert correlation[0, 1] > 0.4 > 0.2 > correlation[0, 3]


def test_one_row_keeps_its_covariance() -> None:
    declaration = table("vector")
    memory = LogisticNormal(covariance="full").begin(
        {"t": declaration}, {"t": declaration.layout.uniform()}, torch.Generator()
    )
    assert "t.covariance" not in memory


@kinds
def test_draws_are_from_the_posterior(kind: str) -> None:
    declaration, how = table(kind), LogisticNormal(variance=0.5)
    layout, tables = declaration.layout, {"t": declaration}
    memory = how.begin(tables, {"t": start(layout, 0)}, torch.Generator())
    memory = how.update(tables, {"t": some_counts(layout, 1, 10)}, memory)
    draws = how.draw(tables, memory, torch.Generator().manual_seed(3), 4000)["t"]
    assert draws.shape == (4000, *layout.shape)
    layout.check("t", draws[0])
    torch.testing.assert_close(layout.row_sum(draws[7].exp()), torch.ones(layout.rows))
    again = how.draw(tables, memory, torch.Generator().manual_seed(3), 4000)["t"]
    assert torch.equal(draws, again)
    allowed, psi = layout.allowed(), how.tables(tables, memory)["t"]
    mean, error = draws.mean(0)[allowed], draws.std(0)[allowed] / math.sqrt(4000)
    assert (psi[allowed] <= mean + 4 * error + 1e-12).all()  # the weights are below the expected logs


def test_several_tables_are_kept_apart() -> None:
    tables = {"one": replace(table("matrix"), name="one"), "two": replace(table("ragged"), name="two")}
    begun = {name: d.layout.uniform() for name, d in tables.items()}
    how = LogisticNormal()
    memory = how.begin(tables, begun, torch.Generator())
    memory = how.update(tables, {name: some_counts(d.layout, 1, 3) for name, d in tables.items()}, memory)
    assert how.log_prior(memory) == pytest.approx(float(memory["one.log_prior"] + memory["two.log_prior"]))
    assert {name: w.shape for name, w in how.tables(tables, memory).items()} == {"one": (4, 7), "two": (13,)}
    copy = pickle.loads(pickle.dumps(how))
    assert repr(copy) == repr(how) == "LogisticNormal(mean='initial', covariance='diagonal', variance=1.0)"
    assert "families of 5 labels, variance=1.0, within=0.5, shared=0.6" in repr(PRIORS["shared"])
    assert "tensor of shape (7, 7)" in repr(PRIORS["tensor"])


def test_float32_weights_will_do() -> None:
    declaration, how = table("matrix"), LogisticNormal()
    memory = how.begin({"t": declaration}, {"t": declaration.layout.uniform(torch.float32)}, torch.Generator())
    memory = how.update({"t": declaration}, {"t": some_counts(declaration.layout, 1, 3).float()}, memory)
    assert all(x.dtype == torch.float64 for x in memory.values())


WRONG = {
    "mean is 'initial', 'uniform' or a tensor, actual 'zero'": {"mean": "zero"},
    "covariance is 'diagonal', 'full', a tensor or a mapping from labels to families, actual 'all'": {
        "covariance": "all"
    },
    "covariance=7.0 is a number: say variance=7.0 for a diagonal of them": {"covariance": 7.0},
    "covariance=3 is a number: say variance=3": {"covariance": torch.tensor(3)},
    "covariance=2.5 is a number: say variance=2.5": {"covariance": np.array(2.5)},
    "a mapping from labels to families, actual None": {"covariance": None},
    "a mapping from labels to families, actual True": {"covariance": True},
    r"a mapping from labels to families, actual \[\[1.0\], \[0.0, 1.0\]\]": {"covariance": [[1.0], [0.0, 1.0]]},
    r"a mapping from labels to families, actual \['a', 'b'\]": {"covariance": ["a", "b"]},
    r"a mapping from labels to families, actual array\(\[1.\+0.j\]\)": {"covariance": np.array([1 + 0j])},
    "mean is 'initial', 'uniform' or a tensor, actual None": {"mean": None},
    r"mean is 'initial', 'uniform' or a tensor, actual \[0.0, 'b'\]": {"mean": [0.0, "b"]},
    "the variance must be a number, positive and finite, actual 0": {"variance": 0.0},
    "the variance must be a number, positive and finite, actual '1'": {"variance": "1"},
    "the variance must be a number, positive and finite, actual None": {"variance": None},
    r"within and shared must be numbers in \[0, 1\), actual 1.0": {"within": 1.0},
    r"within and shared must be numbers in \[0, 1\), actual '0.5' and 0.0": {"within": "0.5"},
    "rows share by family: give covariance a mapping": {"shared": 0.5},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_makes_no_prior_is_refused(message: str) -> None:
    with pytest.raises(TableError, match=message):
        LogisticNormal(**WRONG[message])  # type: ignore[arg-type]


TROUBLE = {
    r"table 't': the covariance is not positive definite, its smallest eigenvalue is -1: add": (
        "matrix",
        LogisticNormal(covariance=2 * torch.ones(7, 7) - torch.eye(7)),
    ),
    r"table 't': a covariance has the shape \(7,\) \(variances\) or \(7, 7\), actual \(3, 3\)": (
        "matrix",
        LogisticNormal(covariance=torch.eye(3)),
    ),
    r"table 't': the covariance is not positive definite, its smallest eigenvalue is -2: add": (
        "matrix",
        LogisticNormal(covariance=3 * np.ones((7, 7)) - 2 * np.eye(7)),  # type: ignore[arg-type]
    ),
    "table 't': 2 allowed outcomes have a mean that is not finite: give all of them a log-weight": (
        "vector",
        LogisticNormal(mean=[0.0, math.nan, 0.0, 0.0, math.inf, 0.0, 0.0]),  # type: ignore[arg-type]
    ),
    "table 't': a covariance must be finite and symmetric": (
        "matrix",
        LogisticNormal(covariance=torch.eye(7) + torch.ones(7, 7).triu()),
    ),
    "table 't': variances must be positive and finite": ("matrix", LogisticNormal(covariance=torch.zeros(7))),
    r"table 't': the mean must broadcast to the shape \(4, 7\), actual \(3,\)": (
        "matrix",
        LogisticNormal(mean=torch.zeros(3)),
    ),
    "table 't': covariance='full' learns from rows that have the same outcomes": (
        "support",
        LogisticNormal(covariance="full"),
    ),
    "none of the labels in the families is a label of": ("matrix", LogisticNormal(covariance={"NN": "noun"})),
    "table 't': rows can share only where families are known by the labels of axes, in a dense table": (
        "ragged",
        LogisticNormal(covariance=FAMILIES, shared=0.5),
    ),
}


@pytest.mark.parametrize("message", TROUBLE)
def test_a_prior_that_does_not_fit_the_table_is_refused(message: str) -> None:
    kind, how = TROUBLE[message]
    declaration = table(kind)
    with pytest.raises(TableError, match=message):
        how.begin({"t": declaration}, {"t": declaration.layout.uniform()}, torch.Generator())


def test_a_ragged_table_without_labels_has_no_covariance() -> None:
    declaration = Declaration("t", Layout.ragged([2, 3]), torch.tensor(1.0))
    with pytest.raises(TableError, match="needs to know which outcome each cell is: declare its axes, or use"):
        LogisticNormal(covariance=spd(5)).begin(
            {"t": declaration}, {"t": declaration.layout.uniform()}, torch.Generator()
        )


def test_weights_of_zero_are_refused() -> None:
    declaration = table("vector")
    begun = torch.tensor([1.0, 1, 1, 1, 1, 0, 0]).log()
    with pytest.raises(TableError, match="table 't': 2 allowed outcomes start with weight zero"):
        LogisticNormal().begin({"t": declaration}, {"t": begun}, torch.Generator())


def test_a_falling_expert_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    declaration, how = table("matrix"), PRIORS["shared"]
    memory = how.begin({"t": declaration}, {"t": start(declaration.layout, 0)}, torch.Generator())
    monkeypatch.setattr(module, "MAY_FALL", -math.inf)
    with pytest.raises(FitError, match="table 't': the step of shared experts lowered the bound"):
        how.update({"t": declaration}, {"t": some_counts(declaration.layout, 0, 5)}, memory)


def test_too_many_outcomes_for_a_covariance() -> None:
    words = [str(i) for i in range(12_000)]
    declaration = Declaration("t", Layout.dense(12_000), torch.tensor(1.0), axes=(Axis("word", words),))
    with pytest.raises(TableError, match="12000 outcomes are too many for a covariance between them"):
        LogisticNormal(covariance={"7": "seven"}).begin(
            {"t": declaration}, {"t": declaration.layout.uniform()}, torch.Generator()
        )

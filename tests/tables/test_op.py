"""``table``: its default meaning under stock Pyro, and its errors. What handlers answer is tested with them."""

from __future__ import annotations

from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoNormal
from torch import Tensor

from pyro_unsup.distributions import RowDirichlet
from pyro_unsup.errors import TableError
from pyro_unsup.tables import Declaration, Layout, declare, table, take

SUPPORT = torch.tensor([[True, True, False, True], [False, True, False, False], [True, True, True, True]])
TABLES: dict[str, dict[str, Any]] = {
    "vector": {"shape": (4,)},
    "matrix": {"shape": (3, 4)},
    "cube": {"shape": (2, 3, 4)},
    "support": {"shape": (3, 4), "support": SUPPORT},
    "vector support": {"shape": (4,), "support": SUPPORT[0]},
    "cube support": {"shape": (2, 3, 4), "support": SUPPORT},
    "ragged": {"shape": (), "row_lengths": [2, 1, 4]},
}
cases = pytest.mark.parametrize("how", TABLES.values(), ids=TABLES)


def ask(how: dict[str, Any], **more: Any) -> Tensor:
    how = dict(how)
    return table("t", *how.pop("shape"), **how, **more)


def layout_of(how: dict[str, Any]) -> Layout:
    return (
        Layout.ragged(how["row_lengths"])
        if "row_lengths" in how
        else Layout.dense(*how["shape"], support=how.get("support"))
    )


@cases
def test_default_meaning_is_one_dirichlet_site(how: dict[str, Any]) -> None:
    layout = layout_of(how)
    trace = poutine.trace(ask).get_trace(how)
    assert [n for n, s in trace.nodes.items() if s["type"] == "sample"] == ["t"]
    weights = trace.nodes["_RETURN"]["value"]
    assert weights.shape == layout.shape
    assert torch.equal(weights == -torch.inf, ~layout.allowed())
    torch.testing.assert_close(layout.row_sum(weights.exp()), torch.ones(layout.rows))
    # The site's density is that of independent Dirichlets over the allowed cells of each row.
    trace.compute_log_prob()
    rows = weights.split(how["row_lengths"]) if "row_lengths" in how else weights.reshape(-1, layout.shape[-1])
    expected = sum(dist.Dirichlet(torch.ones(len(kept))).log_prob(kept) for row in rows
                   if len(kept := row[row > -torch.inf].exp()) > 1)  # fmt: skip
    torch.testing.assert_close(trace.nodes["t"]["log_prob"], torch.as_tensor(expected))


def test_format_shapes_shows_the_tables() -> None:
    def model() -> None:
        table("dense", 3, 4)
        table("known", 3, 4, support=SUPPORT)
        table("ragged", row_lengths=[2, 1, 4])

    shapes = poutine.trace(model).get_trace().format_shapes()
    lines = [line.split() for line in shapes.splitlines()]
    for line in (["dense", "dist", "|", "3", "4"], ["known", "dist", "|", "8"], ["ragged", "dist", "|", "7"]):
        assert line in lines


@pytest.mark.parametrize(
    "how", [TABLES["matrix"], TABLES["support"], TABLES["ragged"]], ids=["dense", "support", "ragged"]
)
def test_the_prior_reaches_its_cells(how: dict[str, Any]) -> None:
    """A large concentration pins the weights to its shape."""
    layout = layout_of(how)
    wanted = torch.rand(layout.shape) + 0.5
    weights = ask(how, prior=1e9 * wanted).exp()
    torch.testing.assert_close(weights, layout.normalise(wanted.log()).exp(), rtol=1e-3, atol=0)


def test_a_prior_may_be_a_number_an_integer_or_broadcast() -> None:
    def concentration(prior: Any) -> Tensor:
        site = poutine.trace(table).get_trace("t", 3, 4, prior=prior).nodes["t"]
        alpha: Tensor = site["fn"].base_dist.concentration
        return alpha

    assert (concentration(2) == 2).all()
    assert torch.equal(concentration(torch.tensor([[1.0], [2.0], [3.0]]))[:, 0], torch.tensor([1.0, 2.0, 3.0]))
    assert concentration(0.1).dtype == torch.float64


def test_a_prior_keeps_its_digits_where_float32_is_the_default() -> None:
    torch.set_default_dtype(torch.float32)
    kept: list[Declaration] = []

    class Keep(poutine.messenger.Messenger):
        def _pyro_table(self, msg: Any) -> None:
            kept.append(msg["args"][0])

    with Keep():
        weights = table("t", 3, prior=1.1)
    assert weights.dtype == torch.float32
    assert float(kept[0].prior) == 1.1


@cases
def test_touched_is_a_part_of_the_same_table(how: dict[str, Any]) -> None:
    touched = torch.tensor([3, 1])
    pyro.set_rng_seed(1)
    whole = ask(how)
    pyro.set_rng_seed(1)
    part = ask(how, touched=touched)
    assert torch.equal(part, whole[..., touched])
    assert torch.equal(take(whole, None), whole)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5)])
def test_whole_puts_counts_back_in_their_places(shape: tuple[int, ...]) -> None:
    declaration = Declaration("t", Layout.dense(*shape), torch.tensor(1.0), touched=torch.tensor([4, 0]))
    part = torch.rand(*shape[:-1], 2)
    whole = declaration.whole(part)
    assert whole.shape == shape
    assert torch.equal(whole[..., [4, 0]], part)
    assert (whole[..., [1, 2, 3]] == 0).all()
    full = torch.rand(shape)
    assert Declaration("t", Layout.dense(*shape), torch.tensor(1.0)).whole(full) is full


def test_inside_a_plate_there_is_one_table_an_item() -> None:
    for how in TABLES.values():
        with pyro.plate("items", 6):
            weights = ask(how)
        layout = layout_of(how)
        assert weights.shape == (6, *layout.shape)
        for one in weights:
            torch.testing.assert_close(layout.row_sum(one.exp()), torch.ones(layout.rows))
            assert torch.equal(one == -torch.inf, ~layout.allowed())


def test_underflow_is_tiny_and_not_a_structural_zero() -> None:
    weights = table("t", row_lengths=[1000], prior=1e-4)
    assert weights.isfinite().all()
    assert table("t", 1000, prior=1e-4).isfinite().all()


def test_declare_is_table_with_a_layout_made_before() -> None:
    declaration = Declaration("t", Layout.dense(2, 3, support=SUPPORT[:2, :3]), torch.tensor(1.0))
    trace = poutine.trace(declare).get_trace(declaration)
    assert isinstance(trace.nodes["t"]["fn"], RowDirichlet)
    assert torch.equal(trace.nodes["_RETURN"]["value"] == -torch.inf, ~SUPPORT[:2, :3])


def coins(flips: Tensor) -> None:
    """Six flips of the first side against two of the second, the third forbidden; and a ragged table beside."""
    coin = table("coin", 1, 3, support=torch.tensor([[True, True, False]]))[0]
    other = table("other", row_lengths=[1, 2])
    with pyro.plate("flips", len(flips)):
        pyro.sample("flip", dist.Categorical(logits=coin), obs=flips)
        pyro.sample("flop", dist.Categorical(logits=other[1:]), obs=flips)


FLIPS = torch.tensor([0] * 6 + [1] * 2)


def test_autodelta_finds_the_mode() -> None:
    guide = AutoDelta(coins)
    svi = SVI(coins, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
    for _ in range(300):
        svi.step(FLIPS)
    found = guide.median()
    torch.testing.assert_close(found["coin"], torch.tensor([0.75, 0.25]), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(found["other"], torch.tensor([1.0, 0.75, 0.25]), rtol=1e-3, atol=1e-3)


def test_autonormal_nears_the_posterior_mean() -> None:
    guide = AutoNormal(coins)
    svi = SVI(coins, guide, pyro.optim.Adam({"lr": 0.03}), Trace_ELBO())
    losses = [svi.step(FLIPS) for _ in range(300)]
    assert sum(losses[-50:]) < sum(losses[:50])
    mean = torch.stack([guide(FLIPS)["coin"] for _ in range(400)]).mean(0)
    torch.testing.assert_close(mean, torch.tensor([0.7, 0.3]), rtol=0, atol=0.06)


def test_nuts_and_predictive_run_on_tables() -> None:
    mcmc = MCMC(NUTS(coins, max_tree_depth=4), num_samples=60, warmup_steps=40, disable_progbar=True)
    mcmc.run(FLIPS)
    samples = mcmc.get_samples()
    assert samples["coin"].shape == (60, 2)
    torch.testing.assert_close(samples["coin"].sum(-1), torch.ones(60))
    # The posterior is Beta(7, 3): mean 0.7, standard deviation 0.138; 60 draws, hardly correlated.
    assert abs(float(samples["coin"][:, 0].mean()) - 0.7) < 0.1
    drawn = Predictive(lambda: coins(FLIPS), samples, return_sites=["other"])()
    assert torch.equal(drawn["other"].squeeze(1), samples["other"])  # Predictive keeps an axis for the plate


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: table("t"), r"table 't': give either a shape \(dense\) or row_lengths \(ragged\)"),
        (lambda: table("t", 2, row_lengths=[2]), "table 't': give either a shape"),
        (lambda: table("t", row_lengths=[2], support=torch.ones(2)),
         "table 't': a ragged table has no support; leave forbidden cells out of its rows"),
        (lambda: table("t", 2, 0), r"table 't': a table needs at least one outcome .* actual shape = \(2, 0\)"),
        (lambda: table("t", 2, support=torch.zeros(2)), "table 't': row .* has no allowed outcome"),
        (lambda: table("t", 2, 3, support=torch.ones(3, 2)), r"table 't': a support must broadcast .*\(2, 3\)"),
        (lambda: table("t", row_lengths=[0]), "table 't': row_lengths must be"),
        (lambda: table("t", 2, prior=0), "table 't': the Dirichlet prior must be positive, actual smallest = 0"),
        (lambda: table("t", 2, prior=torch.tensor([1.0, -2.0])), "must be positive, actual smallest = -2"),
        (lambda: table("t", 2, prior=float("nan")), "must be positive"),
        (lambda: table("t", 2, prior=torch.ones(3)),
         r"table 't': the prior must broadcast to the shape \(2,\), actual shape \(3,\)"),
    ],
)  # fmt: skip
def test_errors_name_the_table(call: Any, message: str) -> None:
    with pytest.raises(TableError, match=message):
        call()

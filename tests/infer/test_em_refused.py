"""Every way in which EM refuses to go on, and what it says."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import EM, AddLambda, FitError
from pyro_unsup.models import Tagger

from .em_cases import corpus, start_weights


def test_an_empty_row_is_an_error_that_names_table_and_iteration() -> None:
    data = [[0, 1], [1, 0]]
    w = start_weights(Tagger(2, 2), data)
    w["start"] = torch.tensor([1.0, 0.0]).log()
    w["transition"] = torch.tensor([[1.0, 0.0], [0.5, 0.5]]).log()  # state 1 cannot be reached
    with pytest.raises(
        FitError, match=r"iteration 0: table 'transition': row \(1,\) has no expected counts.*AddLambda"
    ):
        EM(Tagger(2, 2), init=pu.init.from_weights(w)).run(data)
    assert EM(Tagger(2, 2), AddLambda(0.1), init=pu.init.from_weights(w)).run(data).report.iterations > 0


def test_rows_of_contexts_that_the_corpus_never_visits_are_kept_and_reported() -> None:
    mask = torch.tensor([[True, False, False], [False, True, False], [False, False, True]])
    fit = EM(Tagger(3, 3, order=2, dictionary=mask)).run([[0, 1, 2], [0, 1]], iterations=3, tolerance=0)
    assert fit.report.unvisited["transition"] == 8
    assert "table 'transition': 8 rows were never used by the data" in str(fit.report)


def test_an_impossible_sentence_is_named() -> None:
    data = [[0, 1], [1, 0]]
    w = start_weights(Tagger(2, 2), data)
    w["start"] = torch.tensor([1.0, 0.0]).log()
    w["emission"] = torch.tensor([[1.0, 0.0], [0.5, 0.5]]).log()
    with pytest.raises(FitError, match="iteration 0: item 1 of site 'words' has probability zero"):
        EM(Tagger(2, 2), init=pu.init.from_weights(w)).run(data)


def test_nan_is_never_converged() -> None:
    def model(x: Tensor) -> None:
        z = pu.table("z", 2)
        scale = pyro.param("scale", torch.tensor(1.0))
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", pu.Categorical(z))
            pyro.sample("x", dist.Normal(torch.tensor([0.0, 1.0])[k], (scale - 2).log(), validate_args=False), obs=x)

    pyro.enable_validation(False)
    with pytest.warns(UserWarning, match="Encountered NaN"), pytest.raises(FitError, match=r"iteration 0: .*NaN"):
        EM(model).run(torch.randn(5))


def test_a_falling_objective_is_an_error() -> None:
    calls = {"n": 0}

    def model(x: Tensor) -> None:  # changes its mind between runs
        calls["n"] += 1
        z = pu.table("z", 2)
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", pu.Categorical(z))
            pyro.sample("x", dist.Normal(torch.tensor([0.0, 1.0])[k], float(calls["n"])), obs=x)

    with pytest.raises(FitError, match=r"iteration \d: the objective fell from .* EM cannot do that"):
        EM(model).run(torch.zeros(5), tolerance=0)


def test_a_stock_categorical_where_counts_are_needed_is_refused() -> None:
    def model(x: Tensor) -> None:
        z = pu.table("z", 2)
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", dist.Categorical(logits=z))
            pyro.sample("x", dist.Normal(torch.tensor([0.0, 1.0])[k], 1.0), obs=x)

    with pytest.raises(FitError, match=r"site 'k' uses Categorical with table 'z'.*Use pyro_unsup.Categorical"):
        EM(model).session().step(torch.zeros(5))


def test_a_table_that_nothing_uses_and_a_model_with_nothing_to_learn() -> None:
    def unused(x: Tensor) -> None:
        pu.table("ghost", 2)
        z = pu.table("z", 2)
        with pyro.plate("data", len(x)):
            pyro.sample("x", pu.Categorical(z), obs=x)

    with pytest.raises(FitError, match="iteration 0: table 'ghost' got no counts at all"):
        EM(unused).session().step(torch.tensor([0, 1]))
    with pytest.raises(FitError, match="nothing to learn"):
        EM(lambda x: pyro.sample("x", dist.Normal(0.0, 1.0), obs=x)).session().step(torch.tensor(0.0))


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(FitError, match="restarts must be at least 1"):
        EM(Tagger(2, 2)).run([[0, 1]], restarts=0)
    with pytest.raises(FitError, match="dtype must be"):
        EM(Tagger(2, 2), dtype=torch.float16)
    with pytest.raises(pu.TableError, match="finite and not negative"):
        AddLambda(-1)


def test_a_table_used_as_a_number_is_refused() -> None:
    def model(x: Tensor) -> None:
        w = pu.table("w", 2)
        pyro.sample("x", dist.Normal(w.exp()[0], 1.0), obs=x)

    with pytest.raises(
        FitError, match="iteration 0: table 'w' got negative counts, so the model uses it other than as"
    ):
        EM(model).session().step(torch.tensor(-3.0))


def test_a_collapsing_scale_says_when_and_what_to_do() -> None:
    def model(x: Tensor) -> None:
        scale = pyro.param("scale", torch.tensor(1.0), constraint=dist.constraints.positive)
        with pyro.plate("data", len(x)):
            pyro.sample("x", dist.Normal(0.0, scale), obs=x)

    with pytest.raises(FitError, match=r"iteration \d+: .*greater_than"):
        EM(model).run(torch.zeros(3), iterations=200, tolerance=0)


def test_a_checkpoint_folder_that_cannot_be_used_is_noticed_at_once(tmp_path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not replace")
    with pytest.raises(pu.InputError, match="is not a fit, so it is not replaced"):
        EM(Tagger(2, 4)).run(corpus(), checkpoint=tmp_path / "mine")
    fit = EM(Tagger(2, 4)).run(corpus(), iterations=2, tolerance=0, checkpoint=tmp_path / "run")
    assert pu.load(tmp_path / "run").objective == fit.objective


def test_the_impossible_item_is_the_one_that_no_state_can_explain() -> None:
    support = torch.tensor([[True, False, False], [True, True, False]])

    def model(x: Tensor) -> None:
        share, emission = pu.table("share", 2), pu.table("emission", 2, 3, support=support)
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", pu.Categorical(share))
            pyro.sample("x", pu.Categorical(emission[k]), obs=x)

    with pytest.raises(FitError, match="iteration 0: item 2 of site 'x' has probability zero"):
        EM(model).session().step(torch.tensor([1, 0, 2]))


def test_a_nan_density_in_a_chain_is_an_error_with_its_iteration() -> None:
    def model(x: Tensor) -> None:
        start, transition = pu.table("start", 2), pu.table("transition", 2, 2)
        density = dist.Normal(torch.tensor([[0.0], [1.0]]), 1.0, validate_args=False).log_prob(x)
        with pyro.plate("sequences", 1):
            pyro.sample("x", pu.Chain(start, transition, density, torch.tensor([3]), flat=True), obs=torch.arange(3))

    with pytest.raises(FitError, match=r"iteration 0: .*emission holds NaN"):
        EM(model).session().step(torch.tensor([0.0, float("nan"), 1.0]))


def test_an_estimator_for_a_table_that_is_not_there() -> None:
    with pytest.raises(FitError, match=r"estimate names tables that the model does not have: \['emision'\]"):
        EM(Tagger(2, 4), {"emision": AddLambda(1.0)}).session().step(corpus())

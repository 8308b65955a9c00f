"""What a user may get wrong, and what is said then: what was expected, what was found, and what to do."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pandas
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import MCMC, NUTS

import pyro_unsup as pu
from tests.matrix.models import LETTERS, TAGS, WORDS

from .cases import NORMAL, fit, mcmc

X = torch.tensor([-2.0, -1.7, 2.2, 1.9, 2.4, -2.2], dtype=torch.float64)


def tagger() -> Any:
    return pu.models.Tagger(2, WORDS.vocab)


def hmm() -> Any:
    return pu.models.HMM(2, "normal", prior=NORMAL)


def idle() -> Any:
    """A sampler that has not run."""
    return MCMC(NUTS(hmm()), num_samples=5, warmup_steps=5, disable_progbar=True)


@cache
def learned() -> pu.Fit:
    return fit(tagger(), (WORDS,))


@cache
def sampled() -> pu.Samples:
    return pu.CollapsedGibbs(tagger()).run(WORDS, sweeps=6, progress=False)


def labelled() -> Any:
    """A run of MCMC that keeps labels, and no tables."""
    run = MCMC(pu.CollapsedGibbs(tagger()), num_samples=3, warmup_steps=0, disable_progbar=True)
    run.run(WORDS)
    return run


def elpd(**columns: Any) -> pu.workflow.Elpd:
    return pu.workflow.Elpd(pandas.DataFrame({"elpd": [-1.0, -2.0, -3.0], **columns}), "K-fold")


def ranks() -> pu.workflow.Calibration:
    found = pandas.DataFrame({"a": [0.1, 0.5, 0.9]})
    return pu.workflow.Calibration(found, 0 * found + 10)


def tables(times: float) -> Any:
    """Draws of a tagger whose first table has other numbers than probabilities."""
    found = pu.to_arviz(learned(), WORDS, draws=2, groups="posterior").posterior
    return {name: x.values * (times if name == "start" else 1.0) for name, x in found.data_vars.items()}


def renamed(**given: Any) -> Any:
    """Draws of two centres under other names."""
    return pu.relabel({"loc": torch.arange(10.0).reshape(1, 5, 2)}, "stephens", axes={"loc": 0}, **given)


QUIET: dict[str, Any] = {"simulations": 2, "processes": 1, "progress": False}
CASES = {
    "to_arviz of MCMC that has not run": (lambda: pu.to_arviz(idle(), X), "the MCMC has not run, .*call mcmc.run"),
    "recover of the same": (lambda: pu.recover(idle(), None, X), "the MCMC has not run"),
    "relabel of the same": (lambda: pu.relabel(idle()), "the MCMC has not run"),
    "to_arviz of a model": (lambda: pu.to_arviz(tagger(), WORDS), "actual Tagger; a model has to be trained"),
    "to_arviz of data": (lambda: pu.to_arviz(WORDS, learned()), "expected a Fit, .* and then the data; actual Corpus"),
    "importance of MCMC": (lambda: pu.importance(mcmc(hmm(), (X,), 3), X), "a guide of SVI, actual MCMC. What was"),
    "importance of samples": (lambda: pu.importance(sampled(), WORDS), "actual Samples"),
    "importance without data": (lambda: pu.importance(learned()), r"needs the data .*: importance\(fit, data\)"),
    "importance with another model": (
        lambda: pu.importance(lambda x: None, X, model=learned()),
        "takes a model, actual Fit: give its model",
    ),
    "relabel of a fit": (lambda: pu.relabel(learned()), "a fit has one naming of its states"),
    "relabel of a model": (lambda: pu.relabel(tagger()), "expected draws: Samples, .*actual Tagger"),
    "recover with the data second": (
        lambda: pu.recover(sampled(), WORDS),
        r"the second argument of recover is the model, actual Corpus: write recover\(result, None, data\)",
    ),
    "recover with a list second": (lambda: pu.recover(learned(), [[0, 1]]), "actual list: write recover"),
    "sbc without lengths": (lambda: pu.sbc(hmm(), "nuts", None, **QUIET), r"how much it should draw.*None, \[20, 30\]"),
    "sbc with lengths first": (lambda: pu.sbc(hmm(), "nuts", 10, **QUIET), r"None in the place of the data.*\(10,\)"),
    "sbc of points": (lambda: pu.sbc(pu.models.HMM(2), "nuts", None, 5, **QUIET), "'loc' has no prior to draw it from"),
    "sbc of a fit": (lambda: pu.sbc(learned(), "nuts", None, 5, **QUIET), "sbc takes a model, actual Fit"),
    "sbc of a model that draws nothing": (
        lambda: pu.sbc(pu.models.Segmenter.of(LETTERS), "gibbs", None, [4, 3], **QUIET),
        r"Segmenter\(.* does not draw data when it is called with None",
    ),
    "relabel of labels in MCMC": (lambda: pu.relabel(labelled()), "keep_tables=True"),
    "a small limit": (lambda: pu.to_arviz(learned(), WORDS, draws=50, limit=100), "would take 8.0 kB.* of 100 bytes"),
    "other folds": (
        lambda: elpd(fold=[0, 1, 2], example=[0, 1, 2]).compare(elpd(fold=[0, 0, 1], example=[0, 1, 2])),
        "'fold' differs: run both with the same data, folds=",
    ),
    "other data": (lambda: elpd(example=[0, 1, 2]).compare(elpd(time=[3, 4, 5])), "'example' differs"),
    "no Elpd": (lambda: elpd().compare(3.0), "compare takes another Elpd, as k_fold returns it; actual float"),
    "evidence of a fit": (lambda: pu.evidence(learned(), WORDS), "takes a model, actual Fit: give its model"),
    "evidence of MCMC": (lambda: pu.evidence(idle(), X), "give its model, mcmc.kernel.model"),
    "evidence of nothing": (lambda: pu.evidence(tagger()), "evidence needs the data"),
    "k_fold of samples": (lambda: pu.k_fold(sampled(), WORDS, "gibbs"), "k_fold takes a model, actual Samples"),
    "prior_predictive of a fit": (lambda: pu.prior_predictive(learned(), WORDS), "takes a model, actual Fit"),
    "predictive_check of a fit": (
        lambda: pu.predictive_check(learned(), WORDS, model=tagger()),
        r"expected drawn data sets, actual Fit: draw them by pu.to_arviz\(result, data\)",
    ),
    "predictive_check of draws alone": (
        lambda: pu.predictive_check(pu.to_arviz(learned(), WORDS, draws=2, groups=["posterior"]), model=tagger()),
        "has no group observed_data",
    ),
    "predictive_check without data": (lambda: pu.predictive_check([[1.0]], statistics={"m": max}), "data are missing"),
    "predictive_check of another variable": (
        lambda: pu.predictive_check(pu.to_arviz(learned(), WORDS, draws=2), model=tagger(), variable="x"),
        "observed_data has no 'x': it has words",
    ),
    "sizes of a model without": (lambda: pu.compare_sizes(pu.models.DMV.of(TAGS), TAGS, [1, 2]), "has no with_states"),
    "a seed that is none": (lambda: pu.to_arviz(learned(), WORDS, seed="a"), "seed must be a whole number, 0 or more"),
    "a negative seed": (lambda: pu.sbc(hmm(), "nuts", None, 5, **QUIET, seed=-1), "seed must be .* actual -1"),
    "a seed of evidence": (lambda: pu.evidence(hmm(), X, seed=1.5), "seed must be .* actual 1.5"),
    "a limit that is none": (
        lambda: pu.recover(learned(), None, WORDS, limit="1GB"),
        "limit must be a number of bytes",
    ),
    "no draws from the prior": (lambda: pu.to_arviz(learned(), WORDS, prior_size=0), "prior_size must be .* actual 0"),
    "groups by number": (lambda: pu.to_arviz(learned(), WORDS, groups=3), "groups must be a list of names, actual int"),
    "no groups": (lambda: pu.to_arviz(learned(), WORDS, groups=[]), "groups is empty"),
    "wrong groups": (lambda: pu.to_arviz(learned(), WORDS, groups=["x", 3]), "there is no group 'x': expected some of"),
    "recover by number": (lambda: pu.recover(learned(), None, WORDS, how=3), "how must be one or several of"),
    "units by name": (
        lambda: pu.recover(learned(), None, WORDS, how="co_assignment", units="abc"),
        "units must be whole numbers",
    ),
    "no data": (lambda: pu.to_arviz(learned(), None), "neither data nor lengths: give the data"),
    "one sentence": (lambda: pu.to_arviz(learned(), [0, 1, 1]), r"Write one sentence as \[\[0, 1, 2\]\]"),
    "an unknown word": (lambda: pu.to_arviz(learned(), [[99999]]), "word numbers must lie in"),
    "a negative count": (
        lambda: pu.evidence(pu.models.HMM(2, "poisson", prior={"rate": dist.Gamma(2.0, 0.5)}), [1.0, -3.0]),
        "observation 1 is -3, which a Poisson cannot emit",
    ),
    "draws without chains": (
        lambda: pu.to_arviz({"start": torch.ones(2) / 2}, WORDS, model=tagger()),
        r"arrays of numbers \(chain, draw, ...\)",
    ),
    "draws of weights": (lambda: pu.to_arviz(tables(3.0), WORDS, model=tagger()), "sum to one .*actual sums 3 to 3"),
    "draws of NaN": (lambda: pu.to_arviz(tables(math.nan), WORDS, model=tagger()), "'start' must be probabilities"),
    "axes by name": (lambda: pu.relabel({"loc": torch.ones(1, 3, 2)}, axes={"loc": "a"}), "must be whole numbers"),
    "axes in a list": (lambda: pu.relabel({"loc": torch.ones(1, 3, 2)}, axes=[0]), "axes must be a dictionary"),
    "relabel of no draws": (
        lambda: pu.relabel({"loc": torch.ones(1, 0, 2)}, "pivot", axes={"loc": 0}),
        "there are no draws: expected",
    ),
    "relabel by numbers that are none": (
        lambda: pu.relabel({"loc": [[["a", "b"]]]}, "pivot", axes={"loc": 0}),
        "arrays of numbers, .*actual 'loc' of <U1",
    ),
    "allocations of other states": (
        lambda: renamed(allocations=torch.full((1, 5, 4), 7)),
        r"states 0 .. 1 of the observations.*7 .. 7",
    ),
    "probabilities of other states": (
        lambda: renamed(probabilities=torch.ones(1, 5, 4, 3) / 3),
        r"shape \(1, 5, N, 2\), actual \(1, 5, 4, 3\)",
    ),
    "probabilities of NaN": (
        lambda: renamed(probabilities=torch.full((1, 5, 4, 2), math.nan)),
        "some are negative, infinite or NaN",
    ),
    "a pivot of one number": (lambda: renamed(pivot=3), r"a chain and a draw below \(1, 5\), actual 3"),
    "iterations in a word": (lambda: renamed(iterations="a"), "iterations must be a whole number"),
    "axes of no parameter": (
        lambda: pu.sbc(hmm(), "gibbs", None, 5, **QUIET, axes={"lok": 0}),
        "axes name 'lok', which the model does not draw: it draws",
    ),
    "moves of evidence": (lambda: pu.evidence(hmm(), X, moves=0), "moves must be a whole number, 1 or more"),
    "a Bayes factor of a number": (
        lambda: pu.workflow.Evidence(-1.0, 0.1, 9.0, 0.1, (0.0, 1.0), (), "ais").bayes_factor(3),
        "a Bayes factor compares two models: .*actual int",
    ),
    "an engine by number": (lambda: pu.sbc(hmm(), 3, None, 5, **QUIET), "engine must be one of nuts, gibbs, vb"),
    "an option that no engine has": (
        lambda: pu.k_fold(tagger(), WORDS, "vb", folds=2, run={"sweep": 3}),
        "run has 'sweep', which is no option of EM: expected .*iterations",
    ),
    "an option of NUTS": (
        lambda: pu.sbc(hmm(), "nuts", None, 5, **QUIET, run={"samples": 3}),
        "no option of MCMC: expected draws, warmup",
    ),
    "no draws of NUTS": (lambda: pu.sbc(hmm(), "nuts", None, 5, **QUIET, run={"draws": 0}), "draws of run must be"),
    "options in a word": (lambda: pu.k_fold(tagger(), WORDS, "vb", run="fast"), "run must be a dictionary by name"),
    "folds in a word": (lambda: pu.k_fold(tagger(), WORDS, "vb", folds="two"), "folds must be a whole number, 2"),
    "a threshold in a word": (
        lambda: pu.leave_future_out(hmm(), X, "gibbs", first=3, threshold="low"),
        "threshold must be a number",
    ),
    "lengths in a word": (
        lambda: pu.sbc(hmm(), "gibbs", None, "a", **QUIET),
        "lengths must be integers, one an example",
    ),
    "a folder for simulations": (
        lambda: pu.sbc(hmm(), "gibbs", None, 5, **QUIET, checkpoint="."),
        "checkpoint must be a file in a folder that exists",
    ),
    "statistics in a list": (lambda: pu.predictive_check([[1.0]], [1.0], [max]), "statistics must be a dictionary"),
    "a statistic of words": (
        lambda: pu.predictive_check([[1.0]], [1.0], {"word": lambda x: "a"}),
        "statistic 'word' should return a number, actual 'a'",
    ),
    "a plot of no quantity": (lambda: ranks().plot(names=["b"]), "there is no quantity 'b': expected some of a"),
    "a plot of no kind": (lambda: ranks().plot("box"), "kind must be 'ecdf' or 'hist'"),
    "one size": (lambda: pu.compare_sizes(tagger(), WORDS, 3), "sizes must be a list of numbers"),
    "a size in a word": (lambda: pu.compare_sizes(tagger(), WORDS, ["a"]), "sizes must be whole numbers, 1 or more"),
    "sizes of tags with names": (
        lambda: pu.compare_sizes(pu.models.Tagger(["N", "V"], WORDS.vocab), WORDS, [1, 2]),
        "the tags of this tagger have names or a dictionary",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_explained(name: str) -> None:
    call, says = CASES[name]
    with pytest.raises(pu.UnsupError, match=says) as error:
        call()
    assert "Trace Shapes" not in str(error.value)


def test_one_length_will_do() -> None:
    found = pu.sbc(hmm(), lambda model: Prior(), None, 10, **QUIET)
    listed = pu.sbc(hmm(), lambda model: Prior(), None, lengths=[10], **QUIET)
    assert found.ranks.equals(listed.ranks)


class Prior:
    """An engine that does not look at the data."""

    def run(self, x: Any) -> Any:
        shapes = {"start": (2,), "transition": (2, 2), "loc": (2,), "scale": (2,)}
        drawn = {name: torch.rand(1, 20, *shape) for name, shape in shapes.items()}
        return {
            name: x / x.sum(-1, keepdim=True) if name in ("start", "transition") else x for name, x in drawn.items()
        }


def test_evidence_of_discrete_variables_is_exact() -> None:
    def urns(x: Any) -> None:
        urn = pyro.sample("urn", dist.Categorical(torch.tensor([0.2, 0.8])))
        with pyro.plate("data", len(x)):
            pyro.sample("x", dist.Bernoulli(torch.tensor([0.3, 0.6])[urn]), obs=x)

    x = torch.tensor([1.0, 0.0, 1.0])
    found = pu.evidence(urns, x, progress=False)
    right = torch.tensor(0.2 * 0.3 * 0.7 * 0.3 + 0.8 * 0.6 * 0.4 * 0.6).log()
    assert found.log == pytest.approx(float(right), rel=1e-6)
    assert (found.se, found.method, found.reliable) == (0.0, "exact", True)


@pytest.mark.parametrize("draws", [1, 2, 3])
@pytest.mark.filterwarnings("error")
def test_few_draws_of_nuts_are_draws(draws: int) -> None:
    pyro.set_rng_seed(0)
    run = MCMC(NUTS(hmm(), max_tree_depth=2), num_samples=draws, warmup_steps=2, disable_progbar=True)
    run.run(X)
    found = pu.to_arviz(run)
    assert found.sample_stats["diverging"].shape == (1, draws)
    assert found.log_likelihood["x"].shape == (1, draws, 1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("observed", [[1.0], [1.0, math.nan, 2.0]])
def test_a_series_without_neighbours_has_no_autocorrelation(observed: list[float]) -> None:
    drawn = [[1.0] * len(observed)] * 3
    found = pu.predictive_check(drawn, observed, model=hmm())
    assert found.table.loc["autocorrelation", "observed"] == 0.0

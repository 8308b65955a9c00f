"""Chains of trees from start to end: resumption, Pyro's MCMC, votes, ArviZ, and folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pyro.infer import MCMC

import pyro_unsup as pu
from pyro_unsup.distributions.bracketing import check_trees
from pyro_unsup.distributions.dependency import check_heads
from pyro_unsup.errors import InputError, UnsupError
from pyro_unsup.models import CCM, DMV, DMVCCM, PCFG, SimplePCFG

from .test_gibbs import same

CORPUS = pu.data.short_tag_sequences(pu.data.toy.sentences(40, seed=1), max_length=6, drop=["PUNCT"])
MODELS: dict[str, Any] = {
    "DMV": lambda: DMV.of(CORPUS),
    "DMV, valence 2": lambda: DMV.of(CORPUS, valence=2),
    "CCM 1": lambda: CCM.of(CORPUS),
    "CCM 2": lambda: CCM.of(CORPUS, variant=2, empty_spans=True),
    "DMV + CCM": lambda: DMVCCM.of(CORPUS, order="left"),
    "PCFG": lambda: PCFG.of(CORPUS, 2, 3),
    "SimplePCFG": lambda: SimplePCFG.of(CORPUS, 2, 3),
}
LABELLED = "PCFG", "SimplePCFG"
ALL = pytest.mark.parametrize("name", MODELS)
RUN: dict[str, Any] = {"sweeps": 12, "burn_in": 4, "thin": 2, "chains": 2, "seed": 3, "progress": False}


def kernel(name: str, **options: Any) -> pu.CollapsedGibbs:
    return pu.CollapsedGibbs(MODELS[name](), **{"hyper": "shared", **options})


@ALL
def test_a_chain_goes_on_bit_for_bit_and_comes_back_from_a_folder(name: str, tmp_path: Path) -> None:
    whole = kernel(name).run(CORPUS, **RUN)
    same(whole, kernel(name).run(CORPUS, **RUN, parallel=1))
    for stop in (1, 5, 11):
        with pytest.raises(KeyboardInterrupt):
            kernel(name).run(
                CORPUS,
                **RUN,
                parallel=1,
                checkpoint=tmp_path / f"{stop}",
                callbacks=[lambda x, stop=stop: x.sweep == stop],
            )
        same(kernel(name).run(CORPUS, **RUN, checkpoint=tmp_path / f"{stop}", resume=True), whole)
    with pytest.raises(InputError, match="holds a chain of other settings: alpha was None, now"):
        kernel(name, alpha=0.5).run(CORPUS, **RUN, checkpoint=tmp_path / "1", resume=True)
    whole.save(tmp_path / "samples")
    back = pu.Samples.load(tmp_path / "samples")
    same(back, whole)
    for how in ("best", "last", "vote"):
        np.testing.assert_array_equal(back.predict(how), whole.predict(how))  # type: ignore[arg-type]
    assert back.diagnostics().keys() == whole.diagnostics().keys()
    assert str(back.show())


@ALL
def test_votes_are_trees_that_draws_agree_on(name: str) -> None:
    samples = kernel(name).run(CORPUS, **RUN)
    state = samples.model.gibbs_state()(samples.model, CORPUS)
    for chain in (None, 0, 1):
        voted = samples.predict("vote", chain)
        state.labels = voted  # it is a structure of these sentences
        draws = samples.labels if chain is None else samples.labels[[chain]]
        draws = draws.reshape(-1, draws.shape[-1])
        if samples.structure == "heads":
            right = [(draws == one).mean() for one in (voted, *draws)]
        else:
            right = [(draws >= 0 if name in LABELLED else draws)[:, one > 0].mean(0).sum() for one in (voted, *draws)]
        assert right[0] >= max(right[1:]) - 1e-9 or name in LABELLED  # whose labels count, too
    agreed = samples.agreement("vote")
    assert agreed.shape == (2, 2)
    np.testing.assert_allclose(agreed.diagonal(), 1.0)
    assert ((agreed >= 0) & (agreed <= 1)).all()


@pytest.mark.parametrize("name", LABELLED)
def test_labels_of_constituents_are_called_alike_before_they_vote(name: str) -> None:
    """A chain that renames its labels at every draw votes as one that does not."""
    samples = kernel(name, hyper="fixed").run(CORPUS, **{**RUN, "chains": 1})
    voted, rng = samples.predict("vote"), np.random.default_rng(0)
    for draw in samples.draws["labels"][0]:
        name = np.concatenate([rng.permutation(2), 2 + rng.permutation(3), [-1]])
        draw[:] = name[draw]
    np.testing.assert_array_equal(samples.predict("vote"), voted)


@ALL
def test_under_mcmc_the_draws_are_the_same(name: str) -> None:
    samples = kernel(name).run(CORPUS, sweeps=16, burn_in=8, seed=0, progress=False)
    sampler = kernel(name, keep_tables=True)
    mcmc = MCMC(sampler, 8, 8, disable_progbar=True, initial_params=sampler.seeds(0))
    mcmc.run(CORPUS)
    labels, alpha, beta = sampler.labels_of(mcmc)
    np.testing.assert_array_equal(labels, samples.labels)
    np.testing.assert_array_equal(alpha, samples.draws["alpha"])
    np.testing.assert_array_equal(beta, samples.draws["beta"])
    drawn = mcmc.get_samples()
    for table, declaration in samples.model.declarations().items():
        layout = declaration.layout
        rows = torch.stack([layout.row_sum(one) for one in drawn[table]])
        torch.testing.assert_close(rows, torch.ones_like(rows))
    np.testing.assert_array_equal(drawn["log_joint"].numpy(), samples.log_joint[0])
    data = pu.to_arviz(mcmc)
    assert set(samples.invariants()) - {"labels_used", "entropy", "largest"} <= {*data.posterior.data_vars, "log_joint"}


@ALL
def test_as_arviz_data(name: str) -> None:
    samples = kernel(name).run(CORPUS, **RUN)
    data = pu.to_arviz(samples, CORPUS, groups=["posterior", "log_likelihood", "prior", "sample_stats"])
    for table in samples.model.declarations():
        assert data.posterior[table].shape[:2] == (2, 4)
        assert data.prior[table].shape[2:] == data.posterior[table].shape[2:]
        assert np.isfinite(data.posterior[table].values).all()
    numbers = {"heads": "arc_length"}.get(str(samples.structure), "width")
    assert samples.to_arviz().posterior[numbers].shape == (2, 4)


def test_the_prior_by_table_is_that_of_the_model() -> None:
    prior = {"root": 0.2, "attach": 0.3, "stop": 0.4, "yield": (2.0, 5.0), "context": (0.7, 0.1)}
    model = DMVCCM.of(CORPUS, prior=prior)
    state = model.gibbs_state()(model, CORPUS)
    assert [x.tolist() for x in state.concentrations] == [[0.2, 0.3, 0.4, 5.0, 2.0], [0.1, 0.7]]
    with pytest.raises(pu.FitError, match="one beta for all labels cannot start from several values"):
        pu.CollapsedGibbs(model, hyper="shared").run(CORPUS, **RUN)
    given = pu.CollapsedGibbs(model, alpha=0.5, beta=[0.6, 0.7]).run(CORPUS, **RUN)
    assert given.draws["alpha"][0, 0].tolist() == [0.5] * 5
    assert given.draws["beta"][0, 0].tolist() == [0.6, 0.7]


def test_what_labels_of_trees_are_not() -> None:
    samples = kernel("DMV").run(CORPUS, **RUN)
    for call in (samples.probabilities, lambda: samples.co_clustering(0, 1), samples.variation_between_chains):
        with pytest.raises(UnsupError, match=r"a DMV has trees: use samples\.predict\('vote'\) or samples\.agreement"):
            call()
    with pytest.raises(UnsupError, match=r"these are trees: samples\.predict\('vote'\) calls the labels"):
        kernel("PCFG").run(CORPUS, **RUN).relabel()
    tagger = pu.CollapsedGibbs(pu.models.Tagger(2, CORPUS.vocab)).run(CORPUS, **RUN)
    with pytest.raises(UnsupError, match=r"a Tagger has none: use samples\.variation_between_chains\(\)"):
        tagger.agreement()


def test_chains_find_what_em_finds() -> None:
    """Trees of toy sentences: all draws are trees, and cold chains get as far as EM."""
    corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(300, seed=1), max_length=8, drop=["PUNCT"])
    model = DMV.of(corpus)
    fit = pu.EM(model, pu.AddLambda(0.1), init=model.harmonic_start(corpus)).run(corpus, progress=False)
    samples = pu.CollapsedGibbs(model, temperature=pu.schedules.Cooling()).run(
        corpus, sweeps=150, chains=2, progress=False
    )
    lengths = torch.from_numpy(corpus.lengths)
    check_heads(torch.from_numpy(samples.labels[0, 0].astype(np.int64)), lengths)
    state = model.gibbs_state()(model, corpus)
    state.labels = fit.posterior(corpus).mode().numpy()
    alpha, beta = state.concentrations
    reached = state.log_choices(alpha) + float(state.log_emissions(beta).sum())
    assert samples.best_log_joint.max() > reached - 30
    brackets = pu.CollapsedGibbs(CCM.of(corpus)).run(corpus, sweeps=10, progress=False).predict("vote")
    check_trees(torch.from_numpy(brackets), lengths)

"""Rules whose share is bounded in training keep their weight: decoding heeds it, and it is shown and saved."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup import components as c
from pyro_unsup.models import DMV

TAGS = pu.data.Vocab(["DET", "NOUN", "VERB"])
SENTENCES = [[0, 1, 2], [2, 0, 1], [1, 2], [0, 1, 2, 0, 1]]
RULE = c.arc("VERB", "NOUN") | c.root("VERB")


def trained(share: float, iterations: int = 15, **options: object) -> pu.Fit:
    model = pu.regularise(DMV(TAGS), c.at_least(RULE, share), bound=0)
    return pu.EM(model, pu.AddLambda(0.1), init=pu.init.noise(1.0)).run(
        SENTENCES, iterations=iterations, progress=False, **options
    )


def test_the_weight_is_that_of_a_preference(tmp_path: Path) -> None:
    """Under the learned weight as a preference, posteriors are those of the bounded model on the text of training."""
    fit = trained(0.6, iterations=0)
    (weight,) = fit.config["rule_weights"]
    assert weight > 0.1
    bare = fit.unhandled()
    (preference,) = bare.preferences
    assert preference.rules == [RULE]
    assert preference.weight == [weight]
    liked = pu.prefer(DMV(TAGS), RULE, weight)
    again = pu.EM(liked, init=pu.init.from_weights(fit.weights)).run(SENTENCES, iterations=0)
    torch.testing.assert_close(bare.posterior(SENTENCES).marginals, again.posterior(SENTENCES).marginals)
    torch.testing.assert_close(
        bare.posterior(SENTENCES).marginals, fit.posterior(SENTENCES).marginals, rtol=0, atol=1e-5
    )
    fit.save(tmp_path / "m")
    loaded = pu.load(tmp_path / "m")
    assert repr(loaded.unhandled().preferences) == repr(bare.preferences)
    assert loaded.predict(SENTENCES).tolist() == bare.predict(SENTENCES).tolist()
    alone = loaded.without_preferences()
    assert alone.unhandled().preferences == ()
    assert repr(alone.model) == "DMV(tags=3)"


def test_restarts_bring_their_own_weights() -> None:
    fit = trained(0.45, restarts=2, processes=2)
    assert all(len(run.config["rule_weights"]) == 1 for run in fit.runs)
    assert fit.config["rule_weights"] in [run.config["rule_weights"] for run in fit.runs]


def test_other_bounds_have_no_such_weights() -> None:
    model = pu.regularise(DMV(TAGS), [lambda parts: parts.distance > 1], [0.3])
    fit = pu.EM(model, init=pu.init.uniform()).run(SENTENCES, iterations=1, progress=False)
    assert "rule_weights" not in fit.config
    assert fit.unhandled().preferences == ()
    each = pu.regularise(DMV(TAGS), c.at_least(RULE, 0.2), bound=0, each=True)
    fit = pu.EM(each, init=pu.init.uniform()).run(SENTENCES, iterations=1, progress=False)
    assert fit.unhandled().preferences == ()


def test_several_rules() -> None:
    rules = [c.at_least(RULE, 0.3), c.at_least(c.short_dependencies(1), 0.5)]
    fit = pu.EM(pu.regularise(DMV(TAGS), rules, [0.0, 0.0]), pu.AddLambda(0.1), init=pu.init.noise(1.0)).run(
        SENTENCES, iterations=3, progress=False
    )
    (preference,) = fit.unhandled().preferences
    assert len(preference.weight) == 2
    assert preference.weight == pytest.approx(fit.config["rule_weights"])

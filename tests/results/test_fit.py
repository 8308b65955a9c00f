"""What a fit can do once it is trained."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import Predictive
from pyro.nn import PyroModule
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import UnsupError
from pyro_unsup.models import Tagger

from .cases import anonymous, assert_same, latent, mixture, own, points, text, with_dictionary


def test_the_history_is_a_frame_with_a_row_an_iteration() -> None:
    fit = anonymous()
    frame = fit.history
    assert list(frame.columns) == ["iteration", "objective", "log_likelihood", "change", "seconds"]
    assert frame["iteration"].tolist() == [0, 1, 2, 3]
    assert frame["iteration"].dtype == np.int64
    assert all(frame[name].dtype == np.float64 for name in frame.columns[1:])
    assert frame["change"][0] == math.inf
    assert frame["objective"].is_monotonic_increasing
    assert frame["seconds"].is_monotonic_increasing
    assert frame["objective"].iloc[-1] == fit.objective == fit.report.objective
    frame.loc[0, "objective"] = 0.0  # a copy: the fit keeps its own
    assert fit.rows[0]["objective"] < 0


def test_the_history_keeps_its_types_on_disk(tmp_path: Any) -> None:
    anonymous().save(tmp_path / "fit")
    loaded = pu.load(tmp_path / "fit")
    assert loaded.history.equals(anonymous().history)
    assert loaded.history["iteration"].dtype == np.int64


def test_the_log_likelihood_is_that_of_the_last_row() -> None:
    fit = anonymous()
    assert fit.log_likelihood(text()) == pytest.approx(fit.rows[-1]["log_likelihood"], rel=1e-12)
    for model in (mixture, latent):
        mine = own(model)
        assert mine.log_likelihood(points()) == pytest.approx(mine.rows[-1]["log_likelihood"], rel=1e-12)


def test_the_log_likelihood_says_nothing_on_the_side(capfd: pytest.CaptureFixture[str]) -> None:
    own().log_likelihood(points())
    assert capfd.readouterr() == ("", "")


def test_predict_is_the_mode_or_the_best_tag_of_each_word() -> None:
    fit = anonymous(order=2, stop=True)
    posterior = fit.posterior(text())
    assert torch.equal(fit.predict(text()), posterior.mode())
    assert torch.equal(fit.predict(text(), how="mbr"), posterior.mbr())
    assert torch.equal(posterior.mbr(), posterior.marginals.argmax(-1))
    assert not torch.equal(posterior.mode(), posterior.mbr())


def test_probabilities_on_request() -> None:
    fit = with_dictionary()
    for how in ("viterbi", "mbr"):
        tags, p = fit.predict(text(), how=how, probabilities=True)
        assert torch.equal(tags, fit.predict(text(), how=how))
        assert p.shape == (text().tokens, 12)
        torch.testing.assert_close(p.sum(-1), torch.ones(text().tokens))
        assert (p.gather(1, tags[:, None]) > 0).all()
    barred = ~fit.model.declarations()["emission"].layout.support  # type: ignore[attr-defined]
    assert (p.T[barred[:, text().words]] == 0).all()


def test_new_text_of_any_form_is_tagged() -> None:
    fit = anonymous()
    flat = fit.predict(text())
    sentences = [text().words[a:b].tolist() for a, b in zip(text().offsets, text().offsets[1:], strict=False)]
    assert torch.equal(fit.predict(sentences), flat)
    assert torch.equal(fit.predict(text().words, text().lengths), flat)
    assert torch.equal(torch.cat([fit.predict([s]) for s in sentences[:5]]), flat[: text().offsets[5]])
    with pytest.raises(UnsupError, match="word numbers must lie in"):
        fit.predict([[10_000]])


def test_ways_to_predict_that_are_not_there() -> None:
    with pytest.raises(UnsupError, match=r"^how must be 'viterbi', 'mbr' or 'word', actual 'best'$"):
        anonymous().predict(text(), how="best")
    for asked in ({"how": "mbr"}, {"probabilities": True}):
        with pytest.raises(UnsupError, match="only a structured distribution offers 'mbr' and probabilities"):
            own().predict(points(), **asked)
    with pytest.raises(
        UnsupError, match=r"posterior\(\) wants a model with one structured site.*have probabilities\(\)"
    ):
        own().posterior(points())


def test_enumerated_variables_are_decoded_at_their_best() -> None:
    for model in (mixture, latent):
        fit = own(model)
        known = {**fit.params, **fit.points}
        log_p = fit.weights["share"] + dist.Normal(known["mean"], known["scale"]).log_prob(points()[:, None])
        assert fit.predict(points()).keys() == {"z"}
        assert torch.equal(fit.predict(points())["z"], log_p.argmax(-1))


def test_several_structured_sites_are_not_decoded_by_guess() -> None:
    def model(words: Tensor) -> None:
        start, transition, emission = pu.table("s", 2), pu.table("t", 2, 2), pu.table("e", 2, 3)
        with pyro.plate("sentences", len(words)):
            pyro.sample("left", pu.Chain(start, transition, emission, 4), obs=words)
            pyro.sample("right", pu.Chain(start, transition, emission, 4), obs=words)

    words = torch.randint(3, (6, 4))
    fit = pu.EM(model).run(words, iterations=2, progress=False)
    for call in (fit.predict, fit.posterior):
        with pytest.raises(
            UnsupError, match=r"the model has 2 structured sites \(left, right\), and only one can be decoded"
        ):
            call(words)
    sites = poutine.trace(fit.trained).get_trace(words).nodes
    assert sites["left"]["fn"].posterior(words).mode().shape == (6, 4)


# -- the trained model is a Pyro program


def test_the_trained_model_draws_new_data() -> None:
    fit = anonymous()
    lengths = torch.tensor([3, 4])
    trace = poutine.trace(fit.trained).get_trace(None, lengths)
    assert set(trace.nodes) == {"_INPUT", "sentences", "words", "_RETURN"}  # no table is left to draw
    drawn = Predictive(fit.trained, num_samples=5)(None, lengths)["words"]
    assert drawn.shape[0] == 5
    assert int(drawn.max()) < len(text().vocab)


def test_what_was_learned_comes_from_the_fit_and_not_from_the_store() -> None:
    fit = own()
    expected, likelihood = fit.predict(points())["z"], fit.log_likelihood(points())
    pyro.clear_param_store()
    assert torch.equal(fit.predict(points())["z"], expected)
    pyro.get_param_store()["mean"] = torch.tensor([50.0, 60.0])
    assert torch.equal(fit.predict(points())["z"], expected)
    assert fit.log_likelihood(points()) == likelihood
    assert torch.equal(pyro.param("mean").detach(), torch.tensor([50.0, 60.0]))


class Slope(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.line(x[:, None])[:, 0]  # type: ignore[no-any-return]


class PyroSlope(PyroModule):
    def __init__(self) -> None:
        super().__init__()
        self.line = PyroModule[torch.nn.Linear](1, 1)

    def forward(self, x: Tensor, y: Tensor) -> None:
        share = pu.table("share", 2)
        middle = self.line(x[:, None])[:, 0]
        with pyro.plate("data", len(x)):
            z = pyro.sample("z", pu.Categorical(share))
            pyro.sample("y", dist.Normal(middle + 3.0 * z, 1.0), obs=y)


def regression() -> tuple[Slope, Any]:
    net = Slope()

    def model(x: Tensor, y: Tensor) -> None:
        share = pu.table("share", 2)
        middle = pyro.module("net", net)(x)
        with pyro.plate("data", len(x)):
            z = pyro.sample("z", pu.Categorical(share))
            pyro.sample("y", dist.Normal(middle + 3.0 * z, 1.0), obs=y)

    return net, model


def lines() -> tuple[Tensor, Tensor]:
    x = torch.linspace(-1, 1, 30)
    return x, 5 * x + 3 * (torch.arange(30) % 2)


def test_the_parameters_of_a_module_are_learned_kept_and_put_back(tmp_path: Any) -> None:
    net, model = regression()
    fit = pu.EM(model).run(*lines(), iterations=10, progress=False)
    assert set(fit.params) == {"net$$$line.weight", "net$$$line.bias"}
    assert fit.params["net$$$line.weight"].item() == pytest.approx(5, abs=0.2)
    z = fit.predict(*lines())["z"]
    assert torch.equal(z, torch.arange(30) % 2)
    fit.save(tmp_path / "fit")
    pyro.clear_param_store()
    # Another day, another network: a fresh one with weights of its own.
    other, fresh = regression()
    before = deepcopy(other.state_dict())
    loaded = pu.load(tmp_path / "fit", fresh)
    assert_same(loaded, fit)
    assert torch.equal(loaded.predict(*lines())["z"], z)
    assert loaded.log_likelihood(*lines()) == pytest.approx(fit.log_likelihood(*lines()), rel=1e-12)
    assert all(torch.equal(value, before[name]) for name, value in other.state_dict().items())  # lent, and returned
    with torch.no_grad():
        net.line.weight.fill_(-100.0)
    assert torch.equal(fit.predict(*lines())["z"], z)


def test_a_module_gets_its_weights_back_after_an_error() -> None:
    net, model = regression()
    fit = pu.EM(model).run(*lines(), iterations=3, progress=False)
    with torch.no_grad():
        net.line.weight.fill_(7.0)
    with pytest.raises(Exception, match=r".+"):
        fit.predict(lines()[0], torch.zeros(4))
    assert net.line.weight.item() == 7.0


def test_a_pyro_module_is_a_model_as_well(tmp_path: Any) -> None:
    fit = pu.EM(PyroSlope()).run(*lines(), iterations=10, progress=False)
    assert set(fit.params) == {"line.weight", "line.bias"}
    z = fit.predict(*lines())["z"]
    assert torch.equal(z, torch.arange(30) % 2)
    fit.save(tmp_path / "fit")
    pyro.clear_param_store()
    assert torch.equal(pu.load(tmp_path / "fit", PyroSlope()).predict(*lines())["z"], z)


# -- names and looks


def test_labels_are_the_tags_or_what_relabel_said() -> None:
    assert anonymous().labels is None
    assert with_dictionary().labels == list(text().tagset or [])
    assert pu.EM(Tagger(["a", "b"], 3)).run([[0, 1, 2]], iterations=1, progress=False).labels == ["a", "b"]
    assert own().labels is None


def test_repr_names_the_model_its_tables_and_the_outcome() -> None:
    fit = anonymous()
    size = len(text().vocab)
    first, *rest = repr(fit).splitlines()
    assert first == (
        f"Fit of Tagger(tags=4, vocab={size}, order=1): start (4,), transition (4, 4), emission (4, {size})"
    )
    assert "\n".join(rest) == str(fit.report)
    assert repr(own()).startswith("Fit of <function mixture")


def test_fits_are_compared_by_identity() -> None:
    fit = anonymous()
    assert fit == anonymous()
    assert fit != deepcopy(fit)
    assert len({fit, anonymous()}) == 1


def test_a_fit_stays_as_it_is_when_its_engine_goes_on() -> None:
    for model in (mixture, latent):
        pyro.clear_param_store()
        engine = pu.EM(model)
        fit = engine.run(points(), iterations=2, tolerance=0, progress=False)
        before = deepcopy(fit)
        engine.run(points(), iterations=5, tolerance=0, progress=False)
        assert_same(fit, before)


def test_it_plots_its_learning_curve() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    ax = anonymous().plot()
    assert ax.get_lines()[0].get_ydata().tolist() == [row["objective"] for row in anonymous().rows]
    plt.close("all")

"""Hidden structure draw by draw: against enumeration, and against one draw at a time."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import scipy.stats
import torch

import pyro_unsup as pu
from pyro_unsup import kernels
from pyro_unsup.workflow import co_assignment
from pyro_unsup.workflow import groups as made
from pyro_unsup.workflow.draws import draws_of
from pyro_unsup.workflow.running import Program
from tests.matrix.models import BITEXT, MODELS

from .cases import fit

#: One example each, with so few structures that all of them can be written down.
SMALL: dict[str, tuple[Any, tuple[Any, ...]]] = {
    name: (MODELS[name].make, (MODELS[name].data[0].select([0]),))
    for name in (
        "bigram tagger", "trigram tagger", "DMV", "CCM 1", "CCM 2", "DMV + CCM", "segmenter", "Model 1", "HMM aligner",
        "clusterer", "HMM, Poisson", "HMM, normal",
    )
}  # fmt: skip
SMALL["agreeing aligner"] = (lambda: pu.models.Aligner.of(BITEXT), (BITEXT.select([0]),))
LABELS = ("bigram tagger", "trigram tagger", "clusterer", "HMM, Poisson", "HMM, normal")
EACH = 300


@cache
def case(name: str) -> tuple[pu.Fit, tuple[Any, ...], dict[str, Any]]:
    """A fit on all data, one example, and draws that take turns between two sets of tables."""
    make, data = SMALL[name]
    full = BITEXT if name == "agreeing aligner" else MODELS[name].data[0]
    torch.manual_seed(0)
    learned = fit(make(), (full,), iterations=1)
    if "scale" in learned.params:  # levels so wide that states are in doubt
        learned.params["scale"] = 6 * learned.params["scale"]
    two = draws_of(learned, data, None, 2, 3).take(0, 2)
    return learned, data, {n: np.tile(np.asarray(x), (EACH, *(1,) * (x.dim() - 1)))[None] for n, x in two.items()}


def model_of(name: str) -> Any:
    """The model, with the parameters that were learned and are no tables."""
    learned = case(name)[0]
    return learned.model if not learned.params else _Learned(learned)


class _Learned:
    """A model that knows its parameters, as a fit does."""

    def __init__(self, learned: pu.Fit) -> None:
        from pyro_unsup.results.fit import _Known

        self._fit, self._known = learned, _Known(learned.params)

    def declarations(self) -> Any:
        return self._fit.model.declarations()  # type: ignore[attr-defined]

    def __call__(self, *args: Any) -> Any:
        return self._known(self._fit.model)(*args)


def site_of(name: str, which: int) -> list[tuple[str, Any]]:
    """The structured sites of a run with one of the two sets of tables."""
    _, data, draws = case(name)
    program = Program(draws_of({n: x[:, which : which + 1] for n, x in draws.items()}, data, model_of(name), None, 0))
    return [(site, program.sites[site]) for site in program.structured]


def every(site: Any) -> dict[tuple[int, ...], float]:
    """All structures of one example with their probabilities, by the definition, without compiled code."""
    fn, value = site["fn"], site["value"]
    one = fn.posterior(value).mode()
    most = {"states": fn.sizes.get("K", 2), "clusters": fn.sizes.get("K", 2)}.get(fn.part, 2)
    most = len(one) + 1 if fn.part == "arcs" else most
    found = {}
    used = fn.grid.used(fn.turned) if fn.part == "links" and hasattr(fn, "turned") else torch.ones(len(one)).bool()
    with kernels.switched_off():
        for values in product(range(most), repeat=int(used.sum())):
            structure = torch.zeros_like(one)
            structure[used] = torch.tensor(values, dtype=one.dtype)
            try:
                score = float(fn.score(value, structure).sum())
            except pu.StructureError:
                continue
            if score > -np.inf:
                found[tuple(structure.tolist())] = score
        total = float(fn.log_prob(value).sum())
    assert np.logaddexp.reduce(list(found.values())) == pytest.approx(total, abs=1e-9)
    return {structure: float(np.exp(score - total)) for structure, score in found.items()}


@pytest.mark.parametrize("name", [name for name in SMALL if name != "agreeing aligner"])
def test_samples_pass_a_chi_squared_test_against_enumeration(name: str) -> None:
    _, data, draws = case(name)
    found = pu.recover(draws, model_of(name), *data, how=["sample", "mode", "log_prob", "probabilities"])
    for which in range(2):
        for site, node in site_of(name, which):
            start = f"{site}_" if f"{site}_sample" in found["recovered"] else ""
            exact = every(node)
            rows = found["recovered"][f"{start}sample"].values[0, which::2]
            seen: dict[tuple[int, ...], int] = {}
            for row in rows.tolist():
                seen[tuple(row)] = seen.get(tuple(row), 0) + 1
            assert set(seen) <= set(exact)
            often = [s for s, p in exact.items() if p * EACH >= 5]
            counts = np.array([*(seen.get(s, 0) for s in often), EACH - sum(seen.get(s, 0) for s in often)])
            expected = np.array([*(exact[s] for s in often), max(1 - sum(exact[s] for s in often), 1e-12)]) * EACH
            keep = expected > 1e-6
            shares = expected[keep] * counts[keep].sum() / expected[keep].sum()
            assert scipy.stats.chisquare(counts[keep], shares).pvalue > 1e-4
            best = max(exact, key=exact.__getitem__)
            modes = found["recovered"][f"{start}mode"].values[0, which::2]
            assert exact[tuple(modes[0].tolist())] == pytest.approx(exact[best], rel=1e-9)
            assert (modes == modes[0]).all()
            np.testing.assert_allclose(
                found["recovered"][f"{start}sample_log_prob"].values[0, which::2, 0],
                np.log([exact[tuple(row)] for row in rows.tolist()]),
                atol=1e-9,
            )


@pytest.mark.parametrize("name", SMALL)
def test_all_that_is_recovered_is_that_of_one_draw_at_a_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, data, draws = case(name)
    few = {n: x[:, :4] for n, x in draws.items()}
    ways = ["sample", "mode", "mbr", "log_prob", "entropy", "marginals", "probabilities"]
    ways += ["co_assignment"] if name in LABELS else []
    whole = pu.recover(few, model_of(name), *data, how=ways)
    monkeypatch.setattr(made, "AT_A_TIME", 1)
    alone = pu.recover(few, model_of(name), *data, how=ways)
    for group in ("recovered", "recovered_mean"):
        assert set(whole[group].data_vars) == set(alone[group].data_vars)
        for key, x in whole[group].data_vars.items():
            assert x.dtype == alone[group][key].dtype
            if name == "agreeing aligner" and str(key).startswith("sample"):
                continue  # both directions draw from one stream of numbers, in turns that depend on the draws at a time
            np.testing.assert_allclose(x.values, alone[group][key].values, rtol=1e-9, atol=1e-12)
    for key, x in whole["recovered"].data_vars.items():
        if key.endswith(("sample", "mode", "mbr")):
            assert x.dtype.kind == "i"
    sites = site_of(name, 0)
    for site, node in sites:
        start = f"{site}_" if len(sites) > 1 else ""
        posterior = node["fn"].posterior(node["value"])
        exact = {"marginals": posterior.marginals, "entropy": posterior.entropy, "mbr": posterior.mbr()}
        for way, expected in exact.items():
            np.testing.assert_allclose(whole["recovered"][start + way].values[0, 0], expected, atol=1e-9)
        mean = whole["recovered"][f"{start}marginals"].values[0].mean(0)
        np.testing.assert_allclose(whole["recovered_mean"][f"{start}probabilities"].values, mean, rtol=1e-12)


def agreeing(chain: Any, value: Any) -> Any:
    """P(same label) of all pairs of places of one example, by all its labellings."""
    N, K = int(chain.rows.size), int(chain.sizes["K"])
    every = list(product(range(K), repeat=N))
    weights = np.exp([float(chain.score(value, torch.tensor(z)).sum()) for z in every])
    found = np.zeros((N, N))
    for z, w in zip(np.array(every), weights / weights.sum(), strict=True):
        found += w * (z[:, None] == z)
    return found


@pytest.mark.parametrize("name", ["bigram tagger", "HMM, normal"])
def test_co_assignment_in_one_example_is_that_of_all_labellings(name: str) -> None:
    _, data, draws = case(name)
    exact = sum(agreeing(s["fn"], s["value"]) for which in (0, 1) for _, s in site_of(name, which)) / 2
    found = pu.recover(draws, model_of(name), *data, how="co_assignment")["recovered_mean"]
    np.testing.assert_allclose(found["co_assignment"].values, exact, atol=1e-9)
    each = [agreeing(s["fn"], s["value"]) for which in (0, 1) for _, s in site_of(name, which)]
    error = np.abs(each[0] - each[1]) / 2 / np.sqrt(2 * EACH - 1)  # half of the draws are of each
    np.testing.assert_allclose(found["co_assignment_error"].values, error, atol=1e-7)
    some = pu.recover(draws, model_of(name), *data, how="co_assignment", units=[2, 0])
    np.testing.assert_allclose(some["recovered_mean"]["co_assignment"].values, exact[np.ix_([2, 0], [2, 0])], atol=1e-9)
    assert some["recovered_mean"]["position_1"].values.tolist() == [2, 0]


@pytest.mark.parametrize("name", ["bigram tagger", "clusterer"])
def test_co_assignment_of_several_examples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS[name]
    learned = fit(model.make(), model.data)
    found = pu.recover(learned, None, *model.data, draws=8, how=["marginals", "co_assignment"])
    p = found["recovered"]["marginals"].values[0]  # (draws, places, labels)
    exact = (p @ p.swapaxes(1, 2)).mean(0)
    apart = np.ones(exact.shape, bool) & ~np.eye(len(exact), dtype=bool)
    if name == "bigram tagger":
        owner = np.repeat(np.arange(len(model.data[0])), model.data[0].lengths)
        apart = owner[:, None] != owner
    same = found["recovered_mean"]["co_assignment"].values
    np.testing.assert_allclose(same[apart], exact[apart], atol=1e-9)
    assert np.diag(same).tolist() == pytest.approx([1.0] * len(same))
    monkeypatch.setattr(co_assignment, "ROOM", 1)  # draw by draw
    monkeypatch.setattr(co_assignment, "WORK", 10**9)
    if name == "clusterer":
        again = pu.recover(learned, None, *model.data, draws=8, how=["co_assignment"])
        np.testing.assert_allclose(again["recovered_mean"]["co_assignment"].values, same, atol=1e-12)


@pytest.mark.parametrize("name", ["bigram tagger", "trigram tagger"])
def test_co_assignment_that_is_counted_is_right_on_average(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(co_assignment, "WORK", 0)
    _, data, draws = case(name)
    exact = sum(agreeing(s["fn"], s["value"]) for which in (0, 1) for _, s in site_of(name, which)) / 2
    found = pu.recover(draws, model_of(name), *data, how=["sample", "co_assignment"])
    tags = found["recovered"]["sample"].values[0]
    same = found["recovered_mean"]["co_assignment"].values
    np.testing.assert_allclose(same, (tags[:, :, None] == tags[:, None]).mean(0), rtol=1e-12)
    error = found["recovered_mean"]["co_assignment_error"].values
    np.testing.assert_allclose(error, np.sqrt(same * (1 - same) / (2 * EACH - 1)), atol=1e-12)
    assert (np.abs(same - exact) <= 4.5 * np.sqrt(exact * (1 - exact) / (2 * EACH)) + 1e-9).all()


def test_renaming_the_states_changes_no_co_assignment() -> None:
    _, data, draws = case("bigram tagger")
    turned = {**draws, "start": draws["start"][..., ::-1], "emission": draws["emission"][..., ::-1, :]}
    turned["transition"] = draws["transition"][..., ::-1, ::-1]
    found = [pu.recover(d, model_of("bigram tagger"), *data, how=["co_assignment", "entropy"]) for d in (draws, turned)]
    one, other = (x["recovered_mean"]["co_assignment"].values for x in found)
    np.testing.assert_allclose(one, other, atol=1e-9)
    np.testing.assert_allclose(*(x["recovered"]["entropy"].values for x in found), rtol=1e-9)


def test_parts_are_described() -> None:
    make, _ = SMALL["DMV"]
    corpus = MODELS["DMV"].data[0]
    found = pu.recover(fit(make(), (corpus,)), None, corpus, draws=3, how=["probabilities", "mode"])["recovered_mean"]
    heads = np.zeros(corpus.tokens)
    first = np.concatenate([[0], np.cumsum(corpus.lengths)])
    places = first[found["arc_example"].values] + found["arc_child"].values - 1
    np.add.at(heads, places, found["probabilities"].values)
    np.testing.assert_allclose(heads, 1, rtol=1e-9)  # every word has one head


def test_of_samples_and_of_new_data() -> None:
    model = MODELS["bigram tagger"]
    samples = pu.CollapsedGibbs(model.make()).run(*model.data, sweeps=10, burn_in=4, chains=2, progress=False)
    found = pu.recover(samples, None, *model.data, how="mode")["recovered"]["mode"]
    assert found.shape == (2, 6, model.data[0].tokens)
    learned = fit(model.make(), model.data)
    new = model.data[0].select([1, 0])
    assert pu.recover(learned, learned.model, new, draws=4)["recovered"]["sample"].shape == (1, 4, new.tokens)


def test_impossible_data_have_no_structure() -> None:
    learned = fit(pu.models.Tagger(2, 3), ([[0, 1], [1, 0]],), pu.Normalise())
    found = pu.recover(learned, None, [[0, 1], [2]], how=["mode", "sample", "log_prob", "entropy"])["recovered"]
    assert found["mode"].values[0, 0, 2] == found["sample"].values[0, 0, 2] == -1
    assert found["mode_log_prob"].values[0, 0, 1] == -np.inf
    assert found["entropy"].values[0, 0, 1] == 0


def test_what_cannot_be_recovered_is_refused() -> None:
    model = MODELS["bigram tagger"]
    learned = fit(model.make(), model.data)
    with pytest.raises(pu.UnsupError, match="how has 'viterbi', expected some of sample, mode, mbr"):
        pu.recover(learned, None, *model.data, how="viterbi")
    with pytest.raises(pu.UnsupError, match="recover needs the data"):
        pu.recover(learned, None)
    with pytest.raises(pu.UnsupError, match="log_prob is that of a sample, a mode or an mbr"):
        pu.recover(learned, None, *model.data, how="log_prob")
    with pytest.raises(pu.UnsupError, match=r"units are places 0 \.\. 16, actual 3 \.\. 17"):
        pu.recover(learned, None, *model.data, how="co_assignment", units=[3, 17])
    trees = MODELS["DMV"]
    with pytest.raises(pu.UnsupError, match="co_assignment is of labels; arcs are none: ask for probabilities"):
        pu.recover(fit(trees.make(), trees.data), None, *trees.data, how="co_assignment")
    own = MODELS["own, tables only"]
    with pytest.raises(pu.UnsupError, match="of enumerated variables there is no 'mbr': expected some of sample, mode"):
        pu.recover(fit(own.make(), own.data), None, *own.data, how="mbr")
    draws = {"level": np.zeros((1, 2))}
    with pytest.raises(pu.UnsupError, match="nothing is hidden"):
        pu.recover(draws, plain, torch.zeros(3))


def plain(x: torch.Tensor) -> None:
    """A model in which nothing is hidden but a number."""
    level = pyro.sample("level", dist.Normal(0.0, 1.0))
    with pyro.plate("data", len(x)):
        pyro.sample("x", dist.Normal(level, 1.0), obs=x)


def test_enumerated_variables_of_ones_own() -> None:
    """Town and mood of every person, against all combinations written out."""
    model = MODELS["own, tables only"]
    (answers,) = model.data
    two = draws_of(fit(model.make(), model.data, iterations=1), model.data, None, 2, 0).take(0, 2)
    each = 120
    draws = {name: np.tile(np.asarray(x), (each, *(1,) * (x.dim() - 1)))[None] for name, x in two.items()}
    found = pu.recover(draws, model.make(), answers, how=["sample", "mode", "marginals", "probabilities"])
    for which in range(2):
        town, mood, first, second = (two[name][which] for name in ("town", "mood", "first", "second"))
        joint = town[:, None] * mood * first[:, answers[:, 0]].T[:, None] * second[:, answers[:, 1]].T[:, :, None]
        exact = (joint / joint.sum((1, 2), keepdim=True)).numpy()  # (people, towns, moods)
        home, feels = (found["recovered"][f"{name}_sample"].values[0, which::2] for name in ("home", "feels"))
        for person in range(len(answers)):
            seen = np.zeros((2, 3))
            np.add.at(seen, (home[:, person], feels[:, person]), 1)
            assert scipy.stats.chisquare(seen.ravel(), each * exact[person].ravel()).pvalue > 1e-5
            best = np.unravel_index(exact[person].argmax(), (2, 3))
            modes = [found["recovered"][f"{name}_mode"].values[0, which, person] for name in ("home", "feels")]
            assert exact[person][tuple(modes)] == pytest.approx(exact[person][best])
        np.testing.assert_allclose(found["recovered"]["home_marginals"].values[0, which], exact.sum(2), rtol=1e-6)
        np.testing.assert_allclose(found["recovered"]["feels_marginals"].values[0, which], exact.sum(1), rtol=1e-6)
    mean = found["recovered"]["feels_marginals"].values[0].mean(0)
    np.testing.assert_allclose(found["recovered_mean"]["feels_probabilities"].values, mean, rtol=1e-9)
    assert found["recovered"]["home_sample"].dims == ("chain", "draw", "people")
    assert found["recovered"]["home_sample"].dtype.kind == "i"


def test_all_pairs_of_many_places_are_not_compared_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyro_unsup.workflow.recovered.UNITS", 5)
    model = MODELS["bigram tagger"]
    with pytest.raises(pu.UnsupError, match="co_assignment of all 17 places would have 289 pairs: name up to 5"):
        pu.recover(fit(model.make(), model.data), None, *model.data, how="co_assignment")


def own_chain(x: torch.Tensor, lengths: torch.Tensor) -> None:
    """A chain of a user's own, with padded series: it takes one draw at a time."""
    start, transition = pu.table("start", 2), pu.table("transition", 2, 2)
    with pyro.plate("series", len(lengths)):
        emission = dist.Normal(torch.tensor([-1.0, 1.0], dtype=torch.float64), 1.0)
        pyro.sample("x", pu.Chain(start, transition, emission, lengths), obs=x)


def own_stretches(words: torch.Tensor, lengths: torch.Tensor) -> None:
    """Stretches of explicit duration."""
    tables = [pu.table(name, *shape) for name, *shape in (("start", 2), ("transition", 2, 2), ("emission", 2, 3))]
    with pyro.plate("sentences", len(lengths)):
        stretches = pu.SemiMarkov(*tables, pu.table("duration", 2, 3), lengths, flat=True)
        pyro.sample("words", stretches, obs=words)


def test_padded_series_have_an_axis_of_examples() -> None:
    x = torch.tensor([[0.3, -1.0, 2.0, 2.5], [1.0, -2.0, 0.0, 0.0]], dtype=torch.float64)
    lengths, rng = torch.tensor([4, 2]), np.random.default_rng(0)
    draws = {"start": rng.dirichlet([1, 1], (1, 5)), "transition": rng.dirichlet([1, 1], (1, 5, 2))}
    ways = ["sample", "mode", "log_prob", "entropy", "probabilities", "co_assignment"]
    found = pu.recover(draws, own_chain, x, lengths, how=ways)
    assert found["recovered"]["mode"].dims == ("chain", "draw", "series", "position")
    assert (found["recovered"]["mode"].values[:, :, 1, 2:] == -1).all()
    assert found["recovered_mean"]["probabilities"].dims == ("series", "position", "state")
    tags = found["recovered"]["sample"].values.reshape(5, 8)
    same = ((tags[:, :, None] == tags[:, None, :]) & (tags[:, None, :] >= 0)).mean(0)
    np.testing.assert_allclose(found["recovered_mean"]["co_assignment"].values, same)
    groups = pu.to_arviz(
        draws, x, lengths, model=own_chain, groups=["log_likelihood", "observed_data", "constant_data"]
    )
    assert groups["observed_data"]["x"].shape == (2, 4)
    for i in range(5):
        one = {name: torch.from_numpy(w[0, i]) for name, w in draws.items()}
        chain = pu.Chain(
            one["start"].log(), one["transition"].log(), dist.Normal(torch.tensor([-1.0, 1.0]).double(), 1.0), lengths
        )
        np.testing.assert_allclose(groups["log_likelihood"]["x"].values[0, i], chain.log_prob(x), rtol=1e-9)
        scores = chain.score(x, torch.from_numpy(found["recovered"]["sample"].values[0, i].astype(np.int64)))
        expected = scores - chain.log_prob(x)
        np.testing.assert_allclose(found["recovered"]["sample_log_prob"].values[0, i], expected, atol=1e-9)


def test_stretches() -> None:
    words, lengths, rng = torch.tensor([0, 1, 2, 2, 1, 0]), torch.tensor([4, 2]), np.random.default_rng(0)
    shapes = {"start": (2,), "transition": (2, 2), "emission": (2, 3), "duration": (2, 3)}
    draws = {name: rng.dirichlet(np.ones(s[-1]), (1, 5, *s[:-1])) for name, s in shapes.items()}
    found = pu.recover(draws, own_stretches, words, lengths, how=["mode", "sample", "log_prob", "probabilities"])
    assert found["recovered"]["mode"].shape == (1, 5, 6, 2)
    assert (found["recovered"]["mode_log_prob"].values >= found["recovered"]["sample_log_prob"].values - 1e-12).all()
    ends = found["recovered_mean"]["probabilities"].values.sum((1, 2))
    assert ends[[3, 5]].tolist() == pytest.approx([1, 1])

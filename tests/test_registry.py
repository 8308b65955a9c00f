"""Names for models and the like: from the library, from packages and from scripts."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import registry
from pyro_unsup.errors import NotDescribable, RegistryError
from pyro_unsup.handlers import Handled, Handler
from pyro_unsup.handlers.component import component
from pyro_unsup.models import Tagger
from pyro_unsup.results.building import build_model, describe_model

SENTENCES = [[0, 1, 2], [2, 1], [0, 1, 1, 2]]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """What a test registers is gone after it."""
    before = {kind: dict(names) for kind, names in registry._registered.items()}
    yield
    for kind, names in before.items():
        registry._registered[kind].clear()
        registry._registered[kind].update(names)
    registry._installed.clear()


class Small(Tagger):
    """A model of someone's own."""


class Quiet(Handler):
    """A handler without settings."""


class Loud(Handler):
    """A handler with settings of both kinds."""

    def __init__(self, level: float, words: Tensor) -> None:
        super().__init__()
        self.level, self.words = level, words

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {"level": self.level}, {"words": self.words}

    def __repr__(self) -> str:
        return f"loud({self.level}, {self.words.tolist()})"


def package(where: Path, name: str, entry_points: str, module: str = "") -> None:
    """An installed package of one module."""
    (where / f"{name}.py").write_text(module)
    info = where / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)


# -- the library's own


@pytest.mark.parametrize("kind", registry.KINDS)
def test_all_own_names_can_be_found(kind: str) -> None:
    assert set(registry.OWN[kind]) <= set(registry.names(kind))
    for name in registry.OWN[kind]:
        assert registry.name_of(kind, registry.find(kind, name)) == name


def test_what_is_public_is_registered() -> None:
    # Series are data, not a model. Neural grammars have no tables, and are saved by methods of their own.
    assert set(registry.OWN["models"]) == set(pu.models.__all__) - {"Series", "CompoundPCFG", "NeuralPCFG"}
    assert set(registry.OWN["components"]) == set(pu.components.__all__)
    structures = {name for name in pu.distributions.__all__ if _is_structure(getattr(pu.distributions, name))}
    assert set(registry.OWN["structures"]) == structures
    estimators = {name for name in pu.estimate.__all__ if hasattr(getattr(pu.estimate, name), "log_prior")}
    assert set(registry.OWN["estimators"]) == estimators - {"Estimator", "Parametric", "Differentiable", "Additive"}
    named = {registry.find("models", name).task for name in registry.OWN["models"]}
    assert named | {"generic"} == set(registry.OWN["tasks"])


def _is_structure(what: Any) -> bool:
    return (
        isinstance(what, type)
        and issubclass(what, pu.distributions.Structure)
        and what
        not in (
            pu.distributions.Structure,
            pu.distributions.Hidden,
        )
    )


# -- a script


def test_a_registered_model_is_saved_loaded_and_decoded(tmp_path: Path) -> None:
    fit = pu.EM(Small(2, 3)).run(SENTENCES, iterations=2, progress=False)
    assert describe_model(Small(2, 3)) == (None, {})  # a subclass may be something else
    registry.register("models", "Small", Small)
    fit.save(tmp_path / "fit")
    back = pu.load(tmp_path / "fit")
    assert type(back.model) is Small
    assert back.log_likelihood(SENTENCES) == fit.log_likelihood(SENTENCES)
    registry.unregister("models", "Small")
    with pytest.raises(pu.InputError, match=r"unknown model 'Small': known are .*call pyro_unsup.registry.register"):
        pu.load(tmp_path / "fit")


def test_a_cell_that_is_run_again_registers_the_new_class() -> None:
    registry.register("models", "Small", Small)
    again = type("Small", (Tagger,), {"__module__": Small.__module__, "__qualname__": Small.__qualname__})
    registry.register("models", "Small", again)
    assert registry.find("models", "Small") is again


def test_handlers_in_any_order(tmp_path: Path) -> None:
    registry.register("handlers", "quiet", Quiet)
    registry.register("handlers", "loud", Loud)
    one, other = Loud(0.5, torch.tensor([1.0, 2.0])), Loud(2.0, torch.tensor([3.0]))
    for model in (
        one.around(pu.temper(other.around(Tagger(2, 3)), 0.5)),
        pu.temper(one.around(Quiet().around(pu.harden(Tagger(2, 3)))), 0.5),
        other.around(pu.skew(one.around(Tagger(2, 3)), 0.5, {"start": torch.zeros(2)})),
    ):
        said, tensors = describe_model(model)
        back = build_model(said, tensors)
        while isinstance(model, Handled):
            assert isinstance(back, Handled)
            assert type(back) is type(model)
            assert type(back.handler) is type(model.handler)
            if isinstance(model.handler, Loud):
                assert repr(back.handler) == repr(model.handler)
            model, back = model.model, back.model
        assert repr(back) == repr(model)


def test_all_own_handlers_in_a_random_order(tmp_path: Path) -> None:
    tables = {"root": torch.zeros(3), "attach": torch.zeros(3, 2, 3), "stop": torch.zeros(3, 2, 2, 2)}
    near = pu.components.short_dependencies(2)
    around = [
        lambda model: pu.temper(model, 0.5),
        lambda model: pu.skew(model, 0.5, tables),
        pu.harden,
        lambda model: pu.constrain(model, near & pu.components.verb_as_root([2])),
        lambda model: pu.regularise(model, [near], 3.0, each=True),
    ]
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        model: Any = pu.models.DMV(3)
        for i in torch.randperm(len(around), generator=generator).tolist():
            model = around[i](model)
        said, tensors = describe_model(model)
        back = build_model(said, tensors)
        assert repr(back) == repr(model)
        assert describe_model(back)[0] == said


def test_a_handler_that_is_not_registered(tmp_path: Path) -> None:
    fit = pu.EM(Quiet().around(Tagger(2, 3))).run(SENTENCES, iterations=1, progress=False)
    with pytest.raises(pu.UnsupError, match=r"the handler is not registered: save fit\.unhandled\(\), or register"):
        fit.save(tmp_path / "fit")
    fit.unhandled().save(tmp_path / "fit")


def test_a_component_of_ones_own(tmp_path: Path) -> None:
    @component
    def not_far(parts: pu.distributions.parts.Arcs, steps: int = 2) -> Tensor:
        return parts.distance <= steps

    model = pu.constrain(pu.models.DMV(3), not_far(1))
    assert describe_model(model) == (None, {})
    registry.register("components", "not_far", not_far)
    said, tensors = describe_model(model)
    assert repr(build_model(said, tensors)) == repr(model)


def test_a_task_of_ones_own() -> None:
    class Upside(pu.tasks.Task):
        def decode(self, fit: pu.Fit, data: Any, how: str = "viterbi") -> Any:
            return "decoded"

        def scores(self, fit: pu.Fit, gold: Any, decoded: Any) -> dict[str, float]:
            return {"length": float(len(decoded))}

    registry.register("models", "Small", Small)
    registry.register("tasks", "upside", Upside)
    model = Small(2, 3)
    model.task = "upside"
    fit = pu.EM(model).run(SENTENCES, iterations=1, progress=False)
    assert fit.decode(SENTENCES) == "decoded"
    assert fit.evaluate(SENTENCES) == {"length": 7.0}
    model.task = "downside"
    with pytest.raises(pu.UnsupError, match="unknown task 'downside': known are adaptor, aligner"):
        fit.decode(SENTENCES)
    registry.register("tasks", "sideways", object)
    model.task = "sideways"
    with pytest.raises(pu.UnsupError, match="the task 'sideways' of Small should be a subclass"):
        fit.decode(SENTENCES)


def test_a_model_without_a_task_is_decoded_all_the_same() -> None:
    registry.register("models", "Small", Small)
    model = Small(2, 3)
    model.task = None  # type: ignore[assignment]
    fit = pu.EM(model).run(SENTENCES, iterations=3, progress=False)
    assert torch.equal(fit.decode(SENTENCES).structure, fit.posterior(SENTENCES).mode())
    assert torch.equal(fit.decode(SENTENCES, how="mbr").structure, fit.posterior(SENTENCES).mbr())
    assert float(fit.decode(SENTENCES).log_likelihood.sum()) == pytest.approx(fit.log_likelihood(SENTENCES))
    with pytest.raises(pu.UnsupError, match=r"the gold data have no structure to compare with: expected .* \(9,\)"):
        fit.evaluate(SENTENCES)


# -- estimators


@pytest.mark.parametrize(
    "estimate",
    [
        pu.Normalise(),
        pu.AddLambda(0.25),
        pu.DirichletMAP(1.5),
        pu.DirichletVB(torch.tensor(0.5)),  # type: ignore[arg-type]
        pu.EmpiricalDirichlet(per="outcome"),
        pu.LogisticNormal(variance=2.0),
        pu.LogisticNormal(mean=torch.zeros(3), covariance=[1.0, 2.0, 3.0]),  # type: ignore[arg-type]
        pu.LogLinear(kappa=0.1),
    ],
    ids=lambda how: type(how).__name__,
)
def test_estimators_come_back(tmp_path: Path, estimate: Any) -> None:
    tagger = Tagger(3, 3)
    fit = pu.EM(tagger, {"emission": estimate, "transition": pu.AddLambda(0.1), "start": pu.AddLambda(0.1)})
    found = fit.run(SENTENCES, iterations=2, progress=False)
    found.save(tmp_path / "fit")
    back = pu.load(tmp_path / "fit")
    assert back.posteriors == found.posteriors
    assert repr(back.estimators["emission"]) == repr(estimate)
    assert type(back.estimators["emission"]) is type(estimate)
    assert repr(back.guide()) == repr(found.guide())


def test_tables_that_share_an_estimator_share_it_again(tmp_path: Path) -> None:
    pu.EM(Tagger(2, 3), pu.DirichletVB()).run(SENTENCES, iterations=1, progress=False).save(tmp_path / "fit")
    found = pu.load(tmp_path / "fit").estimators
    assert len({id(how) for how in found.values()}) == 1
    assert found.keys() == {"start", "transition", "emission"}


def test_estimators_that_cannot_be_described_are_left_out(tmp_path: Path) -> None:
    class Own:
        posterior = pu.estimate.TablePosterior.DIRICHLET

        def weights(self, declaration: Any, counts: Tensor, old: Tensor) -> Tensor:
            return pu.DirichletVB().weights(declaration, counts, old)

        def log_prior(self, declaration: Any, log_weights: Tensor) -> Tensor:
            return pu.DirichletVB().log_prior(declaration, log_weights)

    last = pu.Template("emission", "odd", tag=pu.same, word=lambda word: word % 2)
    how: Any = {"emission": pu.LogLinear([last]), "start": Own()}
    fit = pu.EM(Tagger(2, 3), how).run(SENTENCES, iterations=2, progress=False)
    fit.save(tmp_path / "fit")
    back = pu.load(tmp_path / "fit")
    assert back.estimators == {"transition": pu.Normalise()}
    assert back.posteriors == fit.posteriors  # what the weights stand for is known all the same
    assert back.posteriors["start"] == "dirichlet"


def test_rows_that_sum_below_one_are_no_dirichlet_by_themselves() -> None:
    """A point estimate of weights that are not normalised stays a point."""

    class Smaller:
        def weights(self, declaration: Any, counts: Tensor, old: Tensor) -> Tensor:
            return pu.AddLambda(0.1).weights(declaration, counts, old) - math.log(2)

        def log_prior(self, declaration: Any, log_weights: Tensor) -> float:
            return 0.0

    engine = pu.StepwiseEM(Tagger(2, 3), Smaller())
    fit = engine.run(SENTENCES, iterations=1, progress=False)
    assert set(fit.posteriors.values()) == {pu.estimate.TablePosterior.POINT}
    q = fit.guide()(SENTENCES)["emission"]
    torch.testing.assert_close(q.sum(-1), torch.ones(2))


@dataclass(frozen=True)
class _Mixed(registry.PlainSettings):
    what: Any


@pytest.mark.parametrize("what", [len, {1: 2}, [len], object(), {"a": {2}}])
def test_what_is_not_plain_cannot_be_described(what: Any) -> None:
    with pytest.raises(NotDescribable, match=r"'what' holds .* neither a plain value nor a tensor"):
        _Mixed(what).settings()


# -- packages


def test_a_package_that_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = "[pyro_unsup.models]\nBroken = broken_package:Broken\nMissing = broken_package:nothing.at.all\n"
    package(tmp_path, "broken_package", points, "raise ImportError('no such\\nlibrary')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._installed.clear()
    assert {"Broken", "Missing", "Tagger"} <= set(registry.names("models"))
    what = (
        r"^the model 'Broken' is registered by broken_package as 'broken_package:Broken', which cannot be imported "
        r"\(ImportError: no such library\): repair or remove that package$"
    )
    with pytest.raises(RegistryError, match=what):
        registry.find("models", "Broken")
    assert registry.find("models", "Tagger") is Tagger
    assert describe_model(Tagger(2, 3))[0] is not None  # saving other models goes on


def test_two_packages_with_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, "first_package", "[pyro_unsup.models]\nTwin = first_package:Twin\n", "class Twin: pass\n")
    package(tmp_path, "second_package", "[pyro_unsup.models]\nTwin = second_package:Twin\nTagger = second_package:T\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._installed.clear()
    with pytest.raises(RegistryError, match=r"the model 'Twin' is registered twice, by (first|second)_package and "):
        registry.find("models", "Twin")
    with pytest.raises(RegistryError, match=r"'Tagger' is registered twice, by pyro_unsup and second_package: rename"):
        registry.find("models", "Tagger")
    assert registry.find("models", "DMV") is pu.models.DMV
    assert "first_package" not in sys.modules


def test_names_that_are_taken() -> None:
    with pytest.raises(RegistryError, match=r"'Tagger' is registered twice, by pyro_unsup and register\(\) for tests"):
        registry.register("models", "Tagger", Small)
    registry.register("models", "Small", Small)
    with pytest.raises(RegistryError, match=r"'Small' is registered twice, by register\(\) for .*Small and register"):
        registry.register("models", "Small", pu.models.DMV)


def test_bad_calls() -> None:
    with pytest.raises(RegistryError, match="expected one of the kinds models, handlers"):
        registry.register("model", "Small", Small)
    with pytest.raises(RegistryError, match="a registered name is a string that is not empty, actual ''"):
        registry.register("models", "", Small)
    with pytest.raises(RegistryError, match=r"no model 'Tagger' was registered by register\(\) in this process"):
        registry.unregister("models", "Tagger")
    registry.register("models", "Bare", dict)
    with pytest.raises(NotDescribable, match=r"the model Bare is registered, but has no method settings\(\)"):
        registry.describe("models", {})
    with pytest.raises(RegistryError, match=r"the model Bare is registered, but has no from_settings"):
        registry.build("models", {"name": "Bare", "settings": {}}, {})

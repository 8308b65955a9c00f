"""Priors, features and knowledge on the command line: what the library gives, whatever they are combined with."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import pyro_unsup as pu

from .beliefs_cases import TEXTS, model_of, small_texts
from .conftest import Run, contents
from .test_bad_input import refusal


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_texts(tmp_path_factory.mktemp("texts"))


def translations(kappa: float, **options: Any) -> dict[str, pu.LogLinear]:
    tables = ("translation_forward", "translation_backward")
    return {name: pu.LogLinear(pu.templates.alignment(name), kappa, **options) for name in tables}


Make = Callable[[Any, Any], Any]
know = pu.components
tags = pu.templates.dependency("upos")
TREES = (
    "--constraint",
    "right_attach",
    "--constraint",
    "verb-as-root=VERB,AUX",
    "--constraint",
    "short-dependencies=2",
)
CASES: dict[str, tuple[str, tuple[object, ...], Make]] = {
    "tagger by VB": ("tagger", ("--vb", 0.1), lambda m, s: pu.EM(m, pu.DirichletVB(0.1), s)),
    "tagger by features": (
        "tagger",
        ("--features", 0.5),
        lambda m, s: pu.EM(m, pu.LogLinear(pu.templates.tagging(), 0.5), s),
    ),
    "tagger by the gradient": (
        "tagger",
        ("--features", 0.5, "--gradient"),
        lambda m, s: pu.Gradient(m, pu.LogLinear(pu.templates.tagging(), 0.5), s),
    ),
    "tagger that knows words": (
        "tagger",
        ("--constraint", "word-tags=the:0,.:1|2"),
        lambda m, s: pu.MixtureEM(m, [know.word_tags({"the": [0], ".": [1, 2]})], None, s),
    ),
    "ccm by VB": ("ccm", ("--vb", 1), lambda m, s: pu.EM(m, pu.DirichletVB(1.0), s)),
    "ccm that knows fragments": (
        "ccm",
        ("--constraint", "fragments=AUX", "--smooth", 2, "--smooth-distituents", 8),
        lambda m, s: pu.MixtureEM(m, [know.fragments(["AUX"])], pu.DirichletMAP(), s),
    ),
    "dmv by logistic normals": ("dmv", ("--logistic-normal",), lambda m, s: pu.EM(m, pu.LogisticNormal(), s)),
    "dmv by features": (
        "dmv",
        ("--features", 1),
        lambda m, s: pu.EM(m, pu.LogLinear(tags, 1.0, fit_start=True), s),
    ),
    "dmv that knows trees": (
        "dmv",
        (*TREES, "--evenly", "--free", "0.8:0.82", "--logistic-normal"),
        lambda m, s: pu.MixtureEM(
            m,
            [know.right_attach(), know.verb_as_root(["VERB", "AUX"]), know.short_dependencies(2)],
            pu.LogisticNormal(),
            s,
            polytope=pu.schedules.Loosen(0.8, 0.82, even=True),
        ),
    ),
    "dmv-ccm that knows nouns": (
        "dmv-ccm",
        ("--constraint", "noun-sequence=NOUN,PROPN", "--free", 0.9),
        lambda m, s: pu.MixtureEM(
            m, [know.noun_sequence(["NOUN", "PROPN"])], pu.DirichletMAP(), s, polytope=pu.schedules.fixed(0.9)
        ),
    ),
    "clusterer by fitted VB": ("clusterer", ("--vb", "fitted"), lambda m, s: pu.EM(m, pu.EmpiricalDirichlet(), s)),
    "clusterer that knows seeds": (
        "clusterer",
        ("--constraint", "seeds=0:rope|boats,1:swim", "--vb", 1),
        lambda m, s: pu.MixtureEM(m, [know.seeds({0: ["rope", "boats"], 1: ["swim"]})], pu.DirichletVB(1.0), s),
    ),
    "segmenter by features": (
        "segmenter",
        ("--features", 0.2),
        lambda m, s: pu.EM(m, pu.LogLinear(pu.templates.segmentation(), 0.2, fit_start=True), s),
    ),
    "segmenter that knows vowels": (
        "segmenter",
        ("--constraint", "spelled-with=aeiou"),
        lambda m, s: pu.MixtureEM(m, [know.spelled_with(list("aeiou"))], None, s),
    ),
    "aligner by features": (
        "aligner",
        ("--features", 1),
        lambda m, s: pu.EM(m, translations(1.0, fit_start=True), s),
    ),
    "aligner with few translations": (
        "aligner",
        ("--sparse", 2, "--sparse-width", 0.1),
        lambda m, s: pu.EM(m, pu.SparseL0(2.0, 0.1), s),
    ),
    "aligner that knows the diagonal": (
        "aligner",
        ("--constraint", "near-diagonal=0.3"),
        lambda m, s: pu.MixtureEM(m, [know.near_diagonal(0.3)], None, s),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_fit_is_what_the_library_gives_and_survives_a_break(
    tmp_path: Path, texts: Path, run: Run, stop_at: Callable[..., None], case: str
) -> None:
    kind, how, make = CASES[case]
    text, *options = TEXTS[kind]
    fit = (
        "fit",
        kind,
        texts / str(text),
        *options,
        *how,
        "--tolerance",
        0,
        "--max-iterations",
        4,
        "--out",
        tmp_path / "m",
    )
    stop_at(0, 2)
    assert run(*fit).exit_code == 130
    stop_at(None)
    result = run(*fit, "--resume")
    assert result.exit_code == 0, result.stderr
    assert "warning" not in result.stderr
    data, model, start = model_of(kind, texts)
    expected = make(model, start).run(data, tolerance=0, iterations=4, progress=False)
    found = pu.load(tmp_path / "m")
    assert [row["objective"] for row in found.rows] == [row["objective"] for row in expected.rows]
    assert all(torch.equal(found.weights[name], w) for name, w in expected.weights.items())
    said = "constraints were ignored where they cannot be satisfied: "
    last = [line.removeprefix(said) for line in result.stderr.splitlines() if line.startswith(said)]
    if any(expected.config.get("fallbacks", ())):
        names = [str(one).partition("=")[0] for before, one in pairwise(how) if before == "--constraint"]
        first, *others = (f"{name} in {n}" for name, n in zip(names, expected.config["fallbacks"], strict=True))
        assert last == [", ".join([f"{first} of {len(data)} examples", *others])]
    else:
        assert last == []


@pytest.mark.parametrize("weighing", [("--vb", 0.2), ("--vb", "fitted"), ("--logistic-normal",), ("--features", 0.5)])
@pytest.mark.parametrize("kind", ["dmv", "tagger"])
def test_everything_else_combines(tmp_path: Path, texts: Path, run: Run, kind: str, weighing: tuple[object]) -> None:
    text, *options = TEXTS[kind]
    for name, engine in {
        "anneal": ("--anneal", "--beta-start", 0.5, "--beta-factor", 2, "--tolerance", 0.01),
        "stepwise": ("--stepwise", "--batch-size", 7, "--max-iterations", 4),
        "viterbi": ("--viterbi", "--max-iterations", 4),
    }.items():
        fit = ("fit", kind, texts / str(text), *options, *weighing, *engine)
        assert run(*fit, "--out", tmp_path / name).exit_code == 0
        found = pu.load(tmp_path / name)
        assert found.config["engine"] == {"anneal": "Anneal", "stepwise": "StepwiseEM", "viterbi": "EM"}[name]
        assert found.rows[-1].get("beta", 1.0) == 1.0
        how = {"--logistic-normal": "LogisticNormal", "--features": "LogLinear"}.get(str(weighing[0]), "Dirichlet")
        assert how in found.config["estimate"]


@pytest.mark.parametrize("kind", ["tagger", "clusterer", "segmenter", "aligner"])
def test_streams(tmp_path: Path, texts: Path, run: Run, kind: str) -> None:
    file, *options = TEXTS[kind]
    text = (texts / str(file)).read_text()
    stream = ("fit", kind, "-", *options, "--stepwise", "--batch-size", 9, "--vocab-from", texts / str(file))
    stream += ("--format", "tagged") if kind == "tagger" else ()
    for weighing in (("--vb", 0.1), ("--features", 1)):
        assert run(*stream, *weighing, "--out", tmp_path / str(weighing[0]), stdin=text).exit_code == 0
    if kind == "segmenter":
        assert refusal(run(*stream, "--logistic-normal", "--out", tmp_path / "n", stdin=text)) == (
            "--logistic-normal gives every segment some weight, and --vocab-from gives none to those that are not "
            "known; give one of them"
        )


def test_kinds_without_templates_have_a_feature_for_each_cell(tmp_path: Path, texts: Path, run: Run) -> None:
    for kind in ("ccm", "clusterer"):
        text, *options = TEXTS[kind]
        fit = (
            "fit",
            kind,
            texts / str(text),
            *options,
            "--features",
            1,
            "--max-iterations",
            2,
            "--out",
            tmp_path / kind,
        )
        assert run(*fit).exit_code == 0
        found = pu.load(tmp_path / kind)
        assert len(found.memory["features"]) == sum(w.numel() for w in found.weights.values())


def test_aligner_by_jumps(tmp_path: Path, texts: Path, run: Run) -> None:
    fit = ("fit", "aligner", texts / "pairs.txt", "--model", "hmm")
    for name, how in {
        "features": ("--features", 1, "--agreement", "none"),
        "gradient": ("--features", 1, "--gradient", "--agreement", "2008", "--max-iterations", 7),
        "known": ("--constraint", "near-diagonal"),
    }.items():
        assert run(*fit, *how, "--tolerance", 0, "--out", tmp_path / name).exit_code == 0
        assert pu.load(tmp_path / name).report.iterations == (7 if name == "gradient" else 5)
    message = refusal(run(*fit, "--features", 1, "--gradient", "--out", tmp_path / "m"))
    assert message.endswith("; add --agreement 2008, or --agreement none")


def test_aligner_without_a_stemmer(tmp_path: Path, texts: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyro_unsup.tasks.aligner.find_spec", lambda name: None)
    result = run("fit", "aligner", texts / "pairs.txt", "--features", 1, "--max-iterations", 1, "--out", tmp_path / "m")
    assert "features have no stems of words in them: pip install nltk for those" in result.stderr
    names = {t for one in pu.load(tmp_path / "m").features.values() for t in (f.template for f in one.families)}
    assert not any("stem" in name for name in names)


def test_restarts(tmp_path: Path, texts: Path, run: Run) -> None:
    fit = ("--max-iterations", 2, "--restarts", 2, "--jobs", 1, "--out")
    known = ("--constraint", "all-right", "--noise", 0.1)
    for kind, how in (("tagger", ("--features", 1)), ("dmv", known), ("dmv", ("--features", 1, "--noise", 0.1))):
        (text, *options), out = TEXTS[kind], tmp_path / f"{kind}{how[0]}"
        assert run("fit", kind, texts / str(text), *options, *how, *fit, out).exit_code == 0
        assert len(set(pu.load(out).report.restarts)) == 2


def test_a_checkpoint_belongs_to_one_run(tmp_path: Path, texts: Path, run: Run, stop_at: Callable[..., None]) -> None:
    text, *options = TEXTS["dmv"]
    fit = ("fit", "dmv", texts / str(text), *options, "--max-iterations", 3, "--tolerance", 0, "--out", tmp_path / "m")
    known = ("--constraint", "all-right", "--constraint", "short-dependencies=2")
    stop_at(0, 1)
    assert run(*fit, *known).exit_code == 130
    stop_at(None)
    before = contents(tmp_path)
    for arguments, what in (
        (("--constraint", "all-right"), "--constraint ['all-right', 'short-dependencies=2'], not ['all-right']"),
        ((*known, "--evenly"), "--evenly False, not True"),
        ((*known, "--vb", 1), "--vb None, not '1'"),
        ((*known, "--features", 1, "--classes", "upos"), "--classes None, not 'upos'"),
    ):
        message = run(*fit, *arguments, "--resume").stderr.splitlines()[-1]
        assert message.startswith(f"error: {tmp_path / 'm.checkpoint'}: is of a run with {what}")
    assert contents(tmp_path) == before
    assert run(*fit, *known, "--resume").exit_code == 0


@pytest.mark.parametrize(
    "how", [("--vb", 0.5), ("--features", 1), ("--constraint", "right-attach", "--logistic-normal")]
)
def test_fits_are_used_as_others_are(tmp_path: Path, texts: Path, run: Run, how: tuple[object]) -> None:
    text, *options = TEXTS["dmv"]
    file = texts / str(text)
    assert run("fit", "dmv", file, *options, *how, "--max-iterations", 2, "--out", tmp_path / "m").exit_code == 0
    scores = json.loads(run("evaluate", tmp_path / "m", file, "--json").stdout)
    data, *_ = model_of("dmv", texts)
    expected = pu.load(tmp_path / "m").evaluate(data)
    assert {name: scores[name] for name in expected} == expected
    assert run("predict", tmp_path / "m", file).stdout.count("\n") == file.read_text().count("\n")
    shown = json.loads(run("show", tmp_path / "m", "--json").stdout)
    assert shown["config"]["engine"] == ("MixtureEM" if how[0] == "--constraint" else "EM")
    assert "likeliest to the left" in run("show", tmp_path / "m").stdout

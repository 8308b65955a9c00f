"""Priors, features and knowledge on the command line: what the library gives, whatever they are combined with."""

from __future__ import annotations

import json
from collections.abc import Callable
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.cli.knowledge import PARTS, WRITTEN, component_of
from pyro_unsup.data import (
    read_bitext,
    read_brackets,
    read_conllu,
    read_documents,
    read_segmented,
    read_tagged,
    short_tag_sequences,
    toy,
    write_brackets,
    write_tagged,
)

from .conftest import Run, contents
from .test_bad_input import refusal
from .test_dmv import conllu
from .test_kinds import refusal_after_reading

SIZE, LENGTH = 25, 6
TEXTS: dict[str, tuple[object, ...]] = {
    "tagger": ("text.tagged", "--tags", 3),
    "ccm": ("trees.mrg", "--max-length", LENGTH),
    "dmv": ("text.conllu", "--max-length", LENGTH, "--tags", "upos"),
    "dmv-ccm": ("text.conllu", "--max-length", LENGTH, "--tags", "upos"),
    "clusterer": ("documents.txt", "--clusters", 3, "--drop-frequent", 4, "--min-count", 2),
    "segmenter": ("lines.txt", "--max-length", 5),
    "aligner": ("pairs.txt",),
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small text for every kind of model."""
    folder = tmp_path_factory.mktemp("texts")
    corpus = toy.sentences(SIZE, seed=3)
    write_tagged(corpus, None, folder / "text.tagged")
    (folder / "text.conllu").write_text(conllu(corpus))
    write_brackets(corpus, None, folder / "trees.mrg")
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in toy.utterances(SIZE, seed=3).segmented))
    words, labels, topics = toy.documents(SIZE, seed=3, topics=3)
    rows = (f"{topics[label]}\t{' '.join(words.sentence(i))}\n" for i, label in enumerate(labels))
    (folder / "documents.txt").write_text("".join(rows))
    pairs = toy.bitext(SIZE, seed=3)
    sides = ([" ".join(side.sentence(i)) for i in range(SIZE)] for side in (pairs.source, pairs.target))
    (folder / "pairs.txt").write_text("".join(f"{one} ||| {other}\n" for one, other in zip(*sides, strict=True)))
    return folder


def model_of(kind: str, texts: Path) -> tuple[Any, Any, Any]:
    """Data, model and start, as the command line should make them."""
    file = texts / str(TEXTS[kind][0])
    data: Any
    model: Any
    if kind == "tagger":
        data = read_tagged(file)
        return data, pu.models.Tagger(3, data.vocab), None
    if kind == "ccm":
        data = short_tag_sequences(read_brackets(file), LENGTH, ["PUNCT"])
        model = pu.models.CCM.of(data, prior=(3.0, 9.0))
        return data, model, model.split_start(data, estimate=pu.DirichletMAP())
    if kind == "dmv":
        data = short_tag_sequences(read_conllu(file, "upos", drop_upos=["PUNCT"]), LENGTH, ())
        return data, (model := pu.models.DMV.of(data)), model.harmonic_start(data)
    if kind == "dmv-ccm":
        data = short_tag_sequences(read_conllu(file, "upos", drop_upos=["PUNCT"]), LENGTH, ())
        prior: Any = {
            **dict.fromkeys(("root", "attach", "stop"), 1.0),
            **dict.fromkeys(("yield", "context"), (3.0, 9.0)),
        }
        return data, (model := pu.models.DMVCCM.of(data, prior=prior)), model.start(data, estimate=pu.DirichletMAP())
    if kind == "clusterer":
        data = read_documents(file).drop_frequent(4).drop_rare(2)
        return data, pu.models.Clusterer(3, data.vocab), pu.noise(1e-3)
    if kind == "segmenter":
        data = read_segmented(file)
        return data, pu.models.Segmenter.of(data, max_length=5), pu.uniform()
    data = read_bitext(file)
    return data, pu.models.Aligner.of(data), pu.uniform()


def translations(kappa: float, **options: Any) -> dict[str, pu.LogLinear]:
    tables = ("translation_forward", "translation_backward")
    return {name: pu.LogLinear(pu.templates.alignment(name), kappa, **options) for name in tables}


Make = Callable[[Any, Any], Any]
know = pu.components
tags = pu.templates.dependency("upos")
TREES = ("--know", "right_attach", "--know", "verb-as-root=VERB,AUX", "--know", "short-dependencies=2")
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
        ("--know", "word-tags=the:0,.:1|2"),
        lambda m, s: pu.MixtureEM(m, [know.word_tags({"the": [0], ".": [1, 2]})], None, s),
    ),
    "ccm by VB": ("ccm", ("--vb", 1), lambda m, s: pu.EM(m, pu.DirichletVB(1.0), s)),
    "ccm that knows fragments": (
        "ccm",
        ("--know", "fragments=AUX", "--smooth", 2, "--smooth-distituents", 8),
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
            polytope=pu.Loosen(0.8, 0.82, even=True),
        ),
    ),
    "dmv-ccm that knows nouns": (
        "dmv-ccm",
        ("--know", "noun-sequence=NOUN,PROPN", "--free", 0.9),
        lambda m, s: pu.MixtureEM(
            m, [know.noun_sequence(["NOUN", "PROPN"])], pu.DirichletMAP(), s, polytope=pu.fixed(0.9)
        ),
    ),
    "clusterer by fitted VB": ("clusterer", ("--vb", "fitted"), lambda m, s: pu.EM(m, pu.EmpiricalDirichlet(), s)),
    "clusterer that knows seeds": (
        "clusterer",
        ("--know", "seeds=0:rope|boats,1:swim", "--vb", 1),
        lambda m, s: pu.MixtureEM(m, [know.seeds({0: ["rope", "boats"], 1: ["swim"]})], pu.DirichletVB(1.0), s),
    ),
    "segmenter by features": (
        "segmenter",
        ("--features", 0.2),
        lambda m, s: pu.EM(m, pu.LogLinear(pu.templates.segmentation(), 0.2, fit_start=True), s),
    ),
    "segmenter that knows vowels": (
        "segmenter",
        ("--know", "spelled-with=aeiou"),
        lambda m, s: pu.MixtureEM(m, [know.spelled_with(list("aeiou"))], None, s),
    ),
    "aligner by features": (
        "aligner",
        ("--features", 1),
        lambda m, s: pu.EM(m, translations(1.0, fit_start=True), s),
    ),
    "aligner that knows the diagonal": (
        "aligner",
        ("--know", "near-diagonal=0.3"),
        lambda m, s: pu.MixtureEM(m, [know.near_diagonal(0.3)], None, s),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_fit_is_what_the_library_gives_and_survives_a_break(
    tmp_path: Path, texts: Path, run: Run, stop_at: Callable[..., None], case: str
) -> None:
    kind, how, make = CASES[case]
    text, *options = TEXTS[kind]
    fit = ("fit", kind, texts / str(text), *options, *how, "--tolerance", 0, "--iterations", 4, "--out", tmp_path / "m")
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
    said = "where nothing is left of what is known, it did not count: "
    last = [line.removeprefix(said) for line in result.stderr.splitlines() if line.startswith(said)]
    if "fallbacks" in expected.config:
        names = [str(one).partition("=")[0] for before, one in pairwise(how) if before == "--know"]
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
        "stepwise": ("--stepwise", "--batch-size", 7, "--passes", 4),
        "viterbi": ("--viterbi", "--iterations", 4),
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
        fit = ("fit", kind, texts / str(text), *options, "--features", 1, "--iterations", 2, "--out", tmp_path / kind)
        assert run(*fit).exit_code == 0
        found = pu.load(tmp_path / kind)
        assert len(found.memory["features"]) == sum(w.numel() for w in found.weights.values())


def test_aligner_by_jumps(tmp_path: Path, texts: Path, run: Run) -> None:
    fit = ("fit", "aligner", texts / "pairs.txt", "--model", "hmm")
    for name, how in {
        "features": ("--features", 1, "--agreement", "none"),
        "gradient": ("--features", 1, "--gradient", "--agreement", "2008", "--iterations", 7),
        "known": ("--know", "near-diagonal"),
    }.items():
        assert run(*fit, *how, "--tolerance", 0, "--out", tmp_path / name).exit_code == 0
        assert pu.load(tmp_path / name).report.iterations == (7 if name == "gradient" else 5)
    message = refusal(run(*fit, "--features", 1, "--gradient", "--out", tmp_path / "m"))
    assert message.endswith("; add --agreement 2008, or --agreement none")


def test_aligner_without_a_stemmer(tmp_path: Path, texts: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyro_unsup.cli.kinds.aligner.find_spec", lambda name: None)
    result = run("fit", "aligner", texts / "pairs.txt", "--features", 1, "--iterations", 1, "--out", tmp_path / "m")
    assert "features have no stems of words in them: pip install nltk for those" in result.stderr
    names = {t for one in pu.load(tmp_path / "m").features.values() for t in (f.template for f in one.families)}
    assert not any("stem" in name for name in names)


def test_restarts(tmp_path: Path, texts: Path, run: Run) -> None:
    fit = ("--iterations", 2, "--restarts", 2, "--processes", 1, "--out")
    known = ("--know", "all-right", "--noise", 0.1)
    for kind, how in (("tagger", ("--features", 1)), ("dmv", known), ("dmv", ("--features", 1, "--noise", 0.1))):
        (text, *options), out = TEXTS[kind], tmp_path / f"{kind}{how[0]}"
        assert run("fit", kind, texts / str(text), *options, *how, *fit, out).exit_code == 0
        assert len(set(pu.load(out).report.restarts)) == 2


def test_a_checkpoint_belongs_to_one_run(tmp_path: Path, texts: Path, run: Run, stop_at: Callable[..., None]) -> None:
    text, *options = TEXTS["dmv"]
    fit = ("fit", "dmv", texts / str(text), *options, "--iterations", 3, "--tolerance", 0, "--out", tmp_path / "m")
    known = ("--know", "all-right", "--know", "short-dependencies=2")
    stop_at(0, 1)
    assert run(*fit, *known).exit_code == 130
    stop_at(None)
    before = contents(tmp_path)
    for arguments, what in (
        (("--know", "all-right"), "--know ['all-right', 'short-dependencies=2'], not ['all-right']"),
        ((*known, "--evenly"), "--evenly False, not True"),
        ((*known, "--vb", 1), "--vb None, not '1'"),
        ((*known, "--features", 1, "--classes", "upos"), "--classes None, not 'upos'"),
    ):
        message = run(*fit, *arguments, "--resume").stderr.splitlines()[-1]
        assert message.startswith(f"error: {tmp_path / 'm.checkpoint'}: is of a run with {what}")
    assert contents(tmp_path) == before
    assert run(*fit, *known, "--resume").exit_code == 0


@pytest.mark.parametrize("how", [("--vb", 0.5), ("--features", 1), ("--know", "right-attach", "--logistic-normal")])
def test_fits_are_used_as_others_are(tmp_path: Path, texts: Path, run: Run, how: tuple[object]) -> None:
    text, *options = TEXTS["dmv"]
    file = texts / str(text)
    assert run("fit", "dmv", file, *options, *how, "--iterations", 2, "--out", tmp_path / "m").exit_code == 0
    scores = json.loads(run("evaluate", tmp_path / "m", file, "--json").stdout)
    data, *_ = model_of("dmv", texts)
    expected = pu.load(tmp_path / "m").evaluate(data)
    assert {name: scores[name] for name in expected} == expected
    assert run("predict", tmp_path / "m", file).stdout.count("\n") == file.read_text().count("\n")
    shown = json.loads(run("show", tmp_path / "m", "--json").stdout)
    assert shown["config"]["engine"] == ("MixtureEM" if how[0] == "--know" else "EM")
    assert "likeliest to the left" in run("show", tmp_path / "m").stdout


def test_nouns_and_verbs(tmp_path: Path, texts: Path, run: Run) -> None:
    fit = ("fit", "dmv", texts / "text.conllu", "--features", 1, "--iterations", 1)
    upos = run(*fit, "--tags", "upos", "--out", tmp_path / "upos").stderr.splitlines()
    assert upos[1].startswith("features: nouns are ")
    nouns, verbs = (set(part.split(" are ")[1].split(", ")) for part in upos[1].split("; "))
    assert (nouns, verbs) == ({"NOUN", "PROPN", "PRON"}, {"VERB", "AUX"})
    needs = "error: --features needs nouns and verbs, and the text does not have both by "
    says = "; say which tags are, by --classes NOUN,NOUN:VERB,VERB"
    for options, which in (((), "penn, upos, ctb"), (("--classes", "penn"), "--classes penn")):  # tags in lower case
        assert refusal_after_reading(run(*fit, *options, "--out", tmp_path / "m")) == f"{needs}{which}{says}"
    own = run(*fit, "--classes", "noun,propn:verb", "--out", tmp_path / "own").stderr.splitlines()
    assert own[1] in (
        "features: nouns are noun, propn; verbs are verb",
        "features: nouns are propn, noun; verbs are verb",
    )


def test_ties_between_tag_sets(tmp_path: Path, run: Run) -> None:
    """Penn's tags and those of the Chinese Treebank both have NN; verbs tell them apart."""
    (tmp_path / "zh.txt").write_text("NN VV NN\nNN MD VV PRP\nVV NNP PRP\n")
    fit = ("fit", "dmv", tmp_path / "zh.txt", "--format", "lines", "--features", 1, "--iterations", 1)
    assert "features: nouns are NN; verbs are VV" in run(*fit, "--out", tmp_path / "m").stderr


def test_every_component_can_be_named() -> None:
    listed = set()
    for name in set(pu.components.__all__) - {"both"}:
        make, spelled = getattr(pu.components, name), name.replace("_", "-")
        assert (spelled in WRITTEN) == bool(signature(make).parameters)
        listed.add(spelled)
    assert WRITTEN.keys() <= listed
    found = set()
    for kind in PARTS:
        with pytest.raises(pu.errors.UnsupError, match="nothing by this name is known") as caught:
            component_of("?", kind)
        found |= set(str(caught.value).rpartition("but ")[2].split(", "))
    assert found == listed


def test_marks_without_their_meaning() -> None:
    assert component_of(r"fragments=\,,\:", "ccm").settings == {"separators": [",", ":"]}
    found = component_of(r"word-tags=10\:30:CD,a\|b:X|Y,10\:30:NN", "tagger")
    assert found.settings == {"tags": [["10:30", ["CD", "NN"]], ["a|b", ["X", "Y"]]]}


def test_symbols_of_several_letters(tmp_path: Path, run: Run) -> None:
    (tmp_path / "t.txt").write_text("aa-b b-aa\naa b-o\n")
    fit = ("fit", "segmenter", tmp_path / "t.txt", "--symbol-separator", "-", "--iterations", 1)
    assert run(*fit, "--know", "spelled-with=aa,o", "--out", tmp_path / "m").exit_code == 0
    assert pu.load(tmp_path / "m").config["components"] == ["spelled_with(symbols=['aa', 'o'])"]


WAYS = "; give one of them"
REFUSED: dict[str, tuple[tuple[object, ...], str]] = {
    "vb": (("--vb", "x"), "--vb is a positive number or 'fitted', actual 'x'"),
    "vb zero": (("--vb", 0), "--vb is a positive number or 'fitted', actual '0'"),
    "kappa": (("--features", "inf"), "--features must be a finite number, actual inf"),
    "two": (("--vb", 1, "--features", 1), f"--vb and --features are two ways to make weights of counts{WAYS}"),
    "smooth": (
        ("--logistic-normal", "--smooth", 0),
        f"--logistic-normal and --smooth are two ways to make weights of counts{WAYS}",
    ),
    "gradient": (("--gradient",), "--gradient belongs to --features; add that, or leave it out"),
    "engines": (("--features", 0, "--gradient", "--anneal"), f"--gradient and --anneal are two ways to learn{WAYS}"),
    "stepwise": (("--know", "all-right", "--stepwise"), f"--know and --stepwise are two ways to learn{WAYS}"),
    "viterbi": (("--know", "all-right", "--viterbi"), f"--know and --viterbi are two ways to learn{WAYS}"),
    "both": (
        ("--know", "all-right", "--features", 1, "--gradient"),
        f"--know and --gradient are two ways to learn{WAYS}",
    ),
    "free": (("--free", 0.9), "--free belongs to --know; add that, or leave it out"),
    "evenly": (("--evenly",), "--evenly belongs to --know; add that, or leave it out"),
    "share": (
        ("--know", "all-right", "--free", "0.9:0.8"),
        "--free is a share between 0 and 1, or two of which the second is no less, such as 0.85:0.95, actual '0.9:0.8'",
    ),
    "name": (
        ("--know", "near-diagonal=1"),
        "--know near-diagonal: nothing by this name is known of a dmv, but all-right, left-chain, noun-sequence, "
        "right-attach, short-dependencies, verb-as-root",
    ),
    "no values": (("--know", "right-attach=1"), "--know right-attach has no values, actual '1'"),
    "values": (("--know", "verb-as-root"), "--know verb-as-root needs tags, as in --know verb-as-root=TAG,TAG"),
    "empty": (
        ("--know", "verb-as-root=VERB,"),
        "--know verb-as-root needs tags, as in --know verb-as-root=TAG,TAG, actual 'VERB,'",
    ),
    "number": (
        ("--know", "short-dependencies=0"),
        "--know short-dependencies needs limit, as in --know short-dependencies=N, actual '0'",
    ),
    "classes": (("--classes", "penn"), "--classes belongs to --features; add that, or leave it out"),
    "tag set": (
        ("--features", 1, "--classes", "brown"),
        "--classes is one of penn, upos, ctb, or NOUN,NOUN:VERB,VERB, actual 'brown'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_options_that_are_refused(tmp_path: Path, texts: Path, run: Run, case: str) -> None:
    options, what = REFUSED[case]
    assert refusal(run("fit", "dmv", texts / "text.conllu", *options, "--out", tmp_path / "m")) == what
    assert not any(tmp_path.iterdir())


def test_smoothing_of_constituents_is_refused_too(tmp_path: Path, texts: Path, run: Run) -> None:
    for kind, name in (("ccm", "--smooth-distituents"), ("dmv-ccm", "--smooth-constituents")):
        text, *options = TEXTS[kind]
        fit = ("fit", kind, texts / str(text), *options, "--vb", 1, name, 2, "--out", tmp_path / "m")
        assert refusal(run(*fit)) == f"--vb and {name} are two ways to make weights of counts{WAYS}"


LABELS: dict[str, tuple[str, str, str]] = {
    "tag": ("dmv", "verb-as-root=VB", "--know verb-as-root: the text that is learned from has no VB, but such as "),
    "default": ("dmv", "noun-sequence", "--know noun-sequence: the text that is learned from has no NN, but such as "),
    "dropped": ("ccm", "fragments=PUNCT", "--know fragments: the text that is learned from has no PUNCT, but such as "),
    "number": (
        "tagger",
        "word-tags=the:DT",
        "--know word-tags: without a dictionary tags are numbers, 0 to 2, actual ",
    ),
    "range": ("tagger", "word-tags=the:3", "--know word-tags: without a dictionary tags are numbers, 0 to 2, actual "),
    "cluster": ("clusterer", "seeds=3:rope", "none of ['3'] is known as 'cluster': there are [0, 1, 2]"),
}


@pytest.mark.parametrize("case", LABELS)
def test_labels_that_are_not_there(tmp_path: Path, texts: Path, run: Run, case: str) -> None:
    kind, known, what = LABELS[case]
    text, *options = TEXTS[kind]
    message = refusal_after_reading(
        run("fit", kind, texts / str(text), *options, "--know", known, "--out", tmp_path / "m")
    )
    assert message.startswith(f"error: {what}")
    assert not any(tmp_path.iterdir())


def test_some_labels_are_not_there(tmp_path: Path, texts: Path, run: Run) -> None:
    text, *options = TEXTS["dmv"]
    fit = ("fit", "dmv", texts / str(text), *options, "--know", "verb-as-root=VERB,VB,MD", "--iterations", 1)
    result = run(*fit, "--out", tmp_path / "m")
    assert result.exit_code == 0
    assert "warning: --know verb-as-root: the text that is learned from has no VB, MD\n" in result.stderr


def test_advice(tmp_path: Path, texts: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise pu.errors.FitError(said)

    monkeypatch.setattr("pyro_unsup.EM.run", fail)
    fit = ("fit", "tagger", texts / "text.tagged", "--out", tmp_path / "m")
    for options, said, advice in (
        (("--features", 0), "raise kappa", ". On the command line, kappa is the number after --features"),
        (("--vb", 1), "bad luck", ""),
        ((), "bad luck", ". On the command line, --smooth 0.1 often helps"),
    ):
        assert refusal_after_reading(run(*fit, *options)) == f"error: {said}{advice}"

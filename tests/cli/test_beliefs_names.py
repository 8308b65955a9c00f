"""Components, tags and words as they are named on the command line."""

from __future__ import annotations

from inspect import signature
from pathlib import Path

import pytest

import pyro_unsup as pu
from pyro_unsup import registry, tasks
from pyro_unsup.cli.constraints import NO_CONSTRAINTS, WRITTEN, component_of

from .beliefs_cases import TEXTS, small_texts
from .conftest import Run
from .test_kinds import refusal_after_reading


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_texts(tmp_path_factory.mktemp("texts"))


def test_nouns_and_verbs(tmp_path: Path, texts: Path, run: Run) -> None:
    fit = ("fit", "dmv", texts / "text.conllu", "--features", 1, "--max-iterations", 1)
    upos = run(*fit, "--column", "upos", "--out", tmp_path / "upos").stderr.splitlines()
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
    fit = ("fit", "dmv", tmp_path / "zh.txt", "--format", "lines", "--features", 1, "--max-iterations", 1)
    assert "features: nouns are NN; verbs are VV" in run(*fit, "--out", tmp_path / "m").stderr


def test_every_component_can_be_named() -> None:
    listed = set()
    combined = {"at_least", "both", "either", "opposite", "symmetric"}  # --prefer-share, & | ~, --symmetric
    for name in set(pu.components.__all__) - combined - {one.replace("-", "_") for one in NO_CONSTRAINTS}:
        make, spelled = getattr(pu.components, name), name.replace("_", "-")
        assert (spelled in WRITTEN) == bool(signature(make).parameters)
        listed.add(spelled)
    assert WRITTEN.keys() <= listed | {"cognates", "distance", "ends-in", "starts-with"}
    found = set()
    for kind in tasks.names():
        with pytest.raises(pu.errors.UnsupError, match=r".* has no constraint of this name") as caught:
            component_of("?", tasks.find(kind))
        found |= set(str(caught.value).rpartition("there are ")[2].split(", "))
    own = {name.replace("_", "-") for name in registry.OWN["components"]}  # other tests register others
    assert found & own == listed


def test_marks_without_their_meaning() -> None:
    assert component_of(r"fragments=\,,\:", tasks.find("ccm")).values == {"separators": [",", ":"]}
    found = component_of(r"word-tags=10\:30:CD,a\|b:X|Y,10\:30:NN", tasks.find("tagger"))
    assert found.values == {"tags": [["10:30", ["CD", "NN"]], ["a|b", ["X", "Y"]]]}


def test_symbols_of_several_letters(tmp_path: Path, run: Run) -> None:
    (tmp_path / "t.txt").write_text("aa-b b-aa\naa b-o\n")
    fit = ("fit", "segmenter", tmp_path / "t.txt", "--symbol-separator", "-", "--max-iterations", 1)
    assert run(*fit, "--constraint", "spelled-with=aa,o", "--out", tmp_path / "m").exit_code == 0
    assert pu.load(tmp_path / "m").config["components"] == ["spelled_with(symbols=['aa', 'o'])"]


LABELS: dict[str, tuple[str, str, str]] = {
    "tag": (
        "dmv",
        "verb-as-root=VB",
        "--constraint verb-as-root: the text that is learned from has no VB, but such as ",
    ),
    "default": (
        "dmv",
        "noun-sequence",
        "--constraint noun-sequence: the text that is learned from has no NN, but such as ",
    ),
    "dropped": (
        "ccm",
        "fragments=PUNCT",
        "--constraint fragments: the text that is learned from has no PUNCT, but such as ",
    ),
    "number": (
        "tagger",
        "word-tags=the:DT",
        "--constraint word-tags: without a dictionary tags are numbers, 0 to 2, actual ",
    ),
    "range": (
        "tagger",
        "word-tags=the:3",
        "--constraint word-tags: without a dictionary tags are numbers, 0 to 2, actual ",
    ),
    "cluster": ("clusterer", "seeds=3:rope", "none of 3 is known as a cluster: there are 0, 1, 2"),
}


@pytest.mark.parametrize("case", LABELS)
def test_labels_that_are_not_there(tmp_path: Path, texts: Path, run: Run, case: str) -> None:
    kind, known, what = LABELS[case]
    text, *options = TEXTS[kind]
    message = refusal_after_reading(
        run("fit", kind, texts / str(text), *options, "--constraint", known, "--out", tmp_path / "m")
    )
    assert message.startswith(f"error: {what}")
    assert not any(tmp_path.iterdir())


def test_some_labels_are_not_there(tmp_path: Path, texts: Path, run: Run) -> None:
    text, *options = TEXTS["dmv"]
    fit = ("fit", "dmv", texts / str(text), *options, "--constraint", "verb-as-root=VERB,VB,MD", "--max-iterations", 1)
    result = run(*fit, "--out", tmp_path / "m")
    assert result.exit_code == 0
    assert "warning: --constraint verb-as-root: the text that is learned from has no VB, MD\n" in result.stderr

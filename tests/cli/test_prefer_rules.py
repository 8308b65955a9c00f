"""Rules for distances, widths and first tags, as the command line writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pyro_unsup as pu
from pyro_unsup.cli.constraints import component_of, preferences_of
from pyro_unsup.tasks import find

from .beliefs_cases import TEXTS, small_texts
from .conftest import Run


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_texts(tmp_path_factory.mktemp("texts"))


@pytest.mark.parametrize(
    ("written", "least", "most"),
    [("3", 3, 3), ("2-5", 2, 5), (" 2 - 5 ", 2, 5), ("-5", 1, 5), ("2-", 2, None), ("1-1", 1, 1)],
)
def test_bounds(written: str, least: int, most: int | None) -> None:
    for name, task in (("distance", "dmv"), ("width", "ccm"), ("width", "segmenter"), ("width", "pcfg")):
        (found,) = preferences_of([f"{name}={written}"], find(task))
        assert found.values == {"least": least, "most": most}  # type: ignore[attr-defined]
        assert (found.name) == name  # type: ignore[attr-defined]


@pytest.mark.parametrize("written", ["", "-", "0", "5-2", "2-5-6", "a", "-0", "1.5", "--5"])
def test_bounds_that_are_none(written: str) -> None:
    for name, task in (("distance", "dmv"), ("width", "ccm")):
        said = rf"--prefer {name} needs bounds, 1 or more, as in {name}=2-5, {name}=-5 .*, actual '{written}'"
        with pytest.raises(pu.UnsupError, match=said):
            preferences_of([f"{name}={written}"], find(task))


@pytest.mark.parametrize(
    ("kind", "rules", "said"),
    [
        ("dmv", ["NOUN->ADJ & distance=-2", "distance=1"], ["distance(least=1, most=2)", "distance(least=1, most=1)"]),
        ("dmv-ccm", ["~distance=4-"], ["~distance(least=4, most=None)"]),
        (
            "ccm",
            ["starts-with=DET & width=2-3 | ends-in=NOUN"],
            ["starts_with(tags=['DET'])", "ends_in(tags=['NOUN'])"],
        ),
        ("segmenter", ["width=-3"], ["width(least=1, most=3)"]),
    ],
)
def test_fit_show_predict_evaluate(
    tmp_path: Path, texts: Path, run: Run, kind: str, rules: list[str], said: list[str]
) -> None:
    name, *options = TEXTS[kind]
    text, given = texts / str(name), [one for rule in rules for one in ("--prefer", rule)]
    result = run("fit", kind, text, *options, *given, "--max-iterations", 2, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.stderr
    shown = json.loads(run("show", tmp_path / "m", "--json").stdout)["preferences"]
    assert all(one in str(shown) for one in said), shown
    for command in ("predict", "evaluate"):
        assert run(command, tmp_path / "m", text).exit_code == 0
        assert run(command, tmp_path / "m", text, "--without-preferences").exit_code == 0
    assert pu.load(tmp_path / "m").unhandled().preferences


def test_models_without_such_parts(texts: Path, tmp_path: Path, run: Run) -> None:
    for kind, rule in (("tagger", "width=3"), ("tagger", "distance=3"), ("dmv", "width=3"), ("ccm", "distance=3")):
        name, *options = TEXTS[kind]
        result = run("fit", kind, texts / str(name), *options, "--prefer", rule, "--out", tmp_path / "m")
        assert result.exit_code == 2
        what = rule.partition("=")[0]
        assert f"error: --prefer {what}: {kind} has no rule of this name; there are" in result.stderr
    assert not (tmp_path / "m").exists()


def test_constraints_that_leave_no_tree() -> None:
    for kind, rule in (("ccm", "width"), ("pcfg", "starts-with"), ("dmv", "distance")):
        with pytest.raises(pu.UnsupError, match=f"{kind} has no constraint of this name"):
            component_of(f"{rule}=2-3", find(kind))
    assert component_of("width=-8", find("segmenter")).values == {"least": 1, "most": 8}


def test_a_tag_that_the_text_does_not_have(texts: Path, tmp_path: Path, run: Run) -> None:
    name, *options = TEXTS["ccm"]
    result = run("fit", "ccm", texts / str(name), *options, "--prefer", "starts-with=XX", "--out", tmp_path / "m")
    assert result.exit_code == 2
    assert "--prefer starts-with: the text that is learned from has no XX, but such as" in result.stderr


def test_help_tells_how_rules_are_written(run: Run) -> None:
    for kind, forms in (
        ("dmv", ["distance=-3"]),
        ("ccm", ["starts-with=DT,PDT", "width=-4"]),
        ("pcfg", ["ends-in=NN"]),
    ):
        text = " ".join(run("fit", kind, "--help").stdout.replace("│", " ").split())
        assert all(form in text for form in forms), text


def test_states_of_series(tmp_path: Path, run: Run) -> None:
    values = [*range(20), *range(30, 50)]
    (tmp_path / "s.csv").write_text("x\n" + "".join(f"{(7 * x) % 5}\n" for x in values))
    fit = ("fit", "hmm", tmp_path / "s.csv", "--states", 2, "--max-iterations", 3)
    rule = ("--prefer", "states-at=1:1-10,0:31-,1:20", "--prefer-weight", 40)
    result = run(*fit, *rule, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.stderr
    states = [
        int(row.split("\t")[0]) for row in run("predict", tmp_path / "m", tmp_path / "s.csv").stdout.split("\n")[1:-1]
    ]
    assert states[:10] == [1] * 10
    assert states[19] == 1
    assert states[30:] == [0] * 10
    shown = json.loads(run("show", tmp_path / "m", "--json").stdout)["preferences"]
    assert shown == ["prefer(states_at(steps=[[1, [[1, 10], [20, 20]]], [0, [[31, None]]]]) x 40)"]
    assert run(*fit, "--constraint", "states-at=1:1-10", "--out", tmp_path / "forbids").exit_code == 0
    for given, said in (
        ("closed-classes=0:1", "hmm has no rule of this name, because series have no words; there are"),
        ("word-tags=a:0", "hmm has no rule of this name, because series have no words; there are"),
        ("states-at=2:1-3", "--prefer states-at: states are numbers, 0 to 1, actual '2'"),
        ("states-at=0", "needs states and their steps, as in states-at=0:1-100,1:300-, actual '0'"),
        ("states-at=0:0-4", "needs bounds, 1 or more, as in states-at=0:2-5, states-at=0:-5 (at most 5)"),
    ):
        result = run(*fit, "--prefer", given, "--out", tmp_path / "none")
        assert result.exit_code == 2
        assert said in result.stderr
    page = " ".join(run("fit", "hmm", "--help").stdout.replace("│", " ").split())
    assert "states-at=0:1-100" in page
    assert "word-tags" not in page


def test_states_at_in_a_tagger(texts: Path, tmp_path: Path, run: Run) -> None:
    name, *options = TEXTS["tagger"]
    result = run("fit", "tagger", texts / str(name), *options, "--prefer", "states-at=99:1", "--out", tmp_path / "m")
    assert "--prefer states-at: without a dictionary tags are numbers, 0 to" in result.stderr


def test_the_side_of_a_child_is_left_or_right(texts: Path, tmp_path: Path, run: Run) -> None:
    name, *options = TEXTS["dmv"]
    fit = ("fit", "dmv", texts / str(name), *options, "--max-iterations", 1)
    result = run(*fit, "--prefer", "VERB->NOUN:up", "--out", tmp_path / "m")
    assert result.exit_code == 2
    said = "--prefer 'VERB->NOUN:up': the side of a child is written :left or :right, actual 'up'"
    assert said in result.stderr


def test_heads_of_conllu(texts: Path, tmp_path: Path, run: Run) -> None:
    """Rules for function heads that tags alone chose are not silent where heads are content words."""
    lines = (texts / "text.conllu").read_text().splitlines()
    penn = {
        "VERB": "VB",
        "NOUN": "NN",
        "DET": "DT",
        "ADP": "IN",
        "AUX": "MD",
        "ADJ": "JJ",
        "PROPN": "NNP",
        "PRON": "PRP",
    }
    rows = [line.split("\t") for line in lines]
    for row in rows:
        if len(row) > 4:
            row[4] = penn.get(row[3], row[3])
    (tmp_path / "x.conllu").write_text("\n".join("\t".join(row) for row in rows) + "\n")
    said = "warning: heads in CoNLL-U files are mostly content words"
    for options, warned in (
        (("--prefer", "universal"), True),
        (("--prefer", "universal & distance=-3"), True),
        (("--prefer", "universal=function"), False),
        (("--prefer", "universal=content"), False),
        (("--prefer", "universal", "--column", "upos"), False),
    ):
        fit = ("fit", "dmv", tmp_path / "x.conllu", *options, "--max-iterations", 0, "--overwrite")
        result = run(*fit, "--out", tmp_path / "m")
        assert result.exit_code == 0, result.stderr
        assert (said in result.stderr) is warned, options
        assert ("--prefer universal=content" in result.stderr) is warned


def test_help_tells_what_rules_change(run: Run) -> None:
    page = " ".join(run("fit", "dmv", "--help").stdout.replace("│", " ").split())
    assert "0; with --prefer 1" in page
    assert "recommended: plain EM; with --prefer, EM that adds 1 to every expected count" in page
    assert "with --prefer 1" not in " ".join(run("fit", "ccm", "--help").stdout.split())

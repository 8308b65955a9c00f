"""Options for priors, features and knowledge that make no sense together, and what is said then."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyro_unsup as pu

from .beliefs_cases import TEXTS, small_texts
from .conftest import Run
from .test_bad_input import refusal
from .test_kinds import refusal_after_reading


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_texts(tmp_path_factory.mktemp("texts"))


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
    "stepwise": (
        ("--constraint", "all-right", "--stepwise"),
        f"--constraint and --stepwise are two ways to learn{WAYS}",
    ),
    "viterbi": (("--constraint", "all-right", "--viterbi"), f"--constraint and --viterbi are two ways to learn{WAYS}"),
    "both": (
        ("--constraint", "all-right", "--features", 1, "--gradient"),
        f"--constraint and --gradient are two ways to learn{WAYS}",
    ),
    "free": (("--free", 0.9), "--free belongs to --constraint; add that, or leave it out"),
    "evenly": (("--evenly",), "--evenly belongs to --constraint; add that, or leave it out"),
    "share": (
        ("--constraint", "all-right", "--free", "0.9:0.8"),
        "--free is a share between 0 and 1, or two of which the second is no less, such as 0.85:0.95, actual '0.9:0.8'",
    ),
    "name": (
        ("--constraint", "near-diagonal=1"),
        "--constraint near-diagonal: dmv has no constraint of this name; there are all-right, left-chain, "
        "noun-sequence, right-attach, short-dependencies, verb-as-root",
    ),
    "no values": (("--constraint", "right-attach=1"), "--constraint right-attach has no values, actual '1'"),
    "values": (
        ("--constraint", "verb-as-root"),
        "--constraint verb-as-root needs tags, as in verb-as-root=TAG,TAG",
    ),
    "empty": (
        ("--constraint", "verb-as-root=VERB,"),
        "--constraint verb-as-root needs tags, as in verb-as-root=TAG,TAG, actual 'VERB,'",
    ),
    "number": (
        ("--constraint", "short-dependencies=0"),
        "--constraint short-dependencies needs limit, a whole number, 1 or more, as in short-dependencies=4, "
        "actual '0'",
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


def test_advice(tmp_path: Path, texts: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[type[pu.UnsupError]] = []  # the error of a run, and the one that it comes from

    def fail(*_: object, **__: object) -> None:
        try:
            raise raised[1]("the cause")
        except pu.UnsupError:
            raise raised[0]("bad luck") from None  # as engines do, which tell the iteration

    monkeypatch.setattr("pyro_unsup.EM.run", fail)
    fit = ("fit", "tagger", texts / "text.tagged", "--out", tmp_path / "m")
    smooth = ". On the command line, --smooth 0.1 often helps"
    kappa = ". On the command line, kappa is the number after --features"
    for options, case, advice in (
        (("--features", 0), (pu.FitError, pu.errors.DivergenceError), kappa),
        (("--features", 0), (pu.FitError, pu.TableError), ""),
        (("--vb", 1), (pu.FitError, pu.TableError), ""),
        (("--algorithm", "em"), (pu.errors.SplitError, pu.TableError), ""),
        (("--algorithm", "em"), (pu.FitError, pu.TableError), smooth),
    ):
        raised[:] = case
        assert refusal_after_reading(run(*fit, *options)) == f"error: bad luck{advice}"

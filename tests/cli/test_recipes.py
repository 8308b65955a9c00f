"""How ``fit`` learns if no option says so."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyro_unsup as pu

from .conftest import Run

SAID = "as recommended for this model; --algorithm em is plain EM"


def trained(run: Run, out: Path, *arguments: object) -> tuple[pu.Fit, str]:
    result = run("fit", *arguments, "--out", out)
    assert result.exit_code == 0, result.stderr
    return pu.load(out), result.stderr


def test_a_tagger_has_features(tmp_path: Path, world: Path, run: Run) -> None:
    fit = ("tagger", world / "text.tagged", "--tags", 4)
    found, said = trained(run, tmp_path / "a", *fit)
    assert SAID in said
    assert found.config["engine"] == "Gradient"
    assert found.features
    assert found.report.iterations <= 60
    assert "before it converged" not in said  # so many iterations are the recipe
    plain, said = trained(run, tmp_path / "b", *fit, "--algorithm", "em")
    assert SAID not in said
    assert plain.config["engine"] == "EM"
    assert not plain.features


@pytest.mark.parametrize("option", [("--smooth", 0.1), ("--vb", 1), ("--anneal",), ("--viterbi",), ("--stepwise",)])
def test_an_option_that_says_how_to_learn_replaces_the_recipe(
    tmp_path: Path, world: Path, run: Run, option: tuple[object, ...]
) -> None:
    fit, said = trained(run, tmp_path / "m", "tagger", world / "text.tagged", "--max-iterations", 2, *option)
    assert SAID not in said
    assert not fit.features


def test_a_dictionary_goes_with_plain_em(tmp_path: Path, world: Path, run: Run) -> None:
    known = ("--dictionary", world / "dictionary.txt", "--max-iterations", 2)
    fit, said = trained(run, tmp_path / "m", "tagger", world / "text.tagged", *known)
    assert SAID not in said
    assert fit.config["engine"] == "EM"


def test_a_clusterer_is_annealed(tmp_path: Path, zoo: Path, run: Run) -> None:
    fit, said = trained(run, tmp_path / "m", "clusterer", zoo / "documents.txt", "--clusters", 3)
    assert SAID in said
    assert fit.config["engine"] == "Anneal"
    assert fit.config["schedule"] == pu.schedules.geometric(0.02, 2)
    assert fit.config["tolerance"] == 1e-5
    for given in (1e-6, 0):  # what is given counts
        told = ("--clusters", 3, "--tolerance", given, "--max-iterations", 300)
        fit, _ = trained(run, tmp_path / f"told-{given}", "clusterer", zoo / "documents.txt", *told)
        assert fit.config["engine"] == "Anneal"
        assert fit.config["tolerance"] == given
    plain, _ = trained(run, tmp_path / "plain", "clusterer", zoo / "documents.txt", "--algorithm", "em")
    assert plain.config["tolerance"] == 1e-6


def test_the_penalty_suits_the_script(tmp_path: Path, run: Run) -> None:
    characters = [chr(0x4E00 + k) for k in range(600)]
    (tmp_path / "zh.txt").write_text("\n".join("".join(characters[k : k + 6]) for k in range(590)), encoding="utf-8")
    (tmp_path / "en.txt").write_text("thedog\nacat\n")
    chinese, _ = trained(run, tmp_path / "a", "segmenter", tmp_path / "zh.txt", "--max-iterations", 1)
    english, _ = trained(run, tmp_path / "b", "segmenter", tmp_path / "en.txt")
    asked, _ = trained(run, tmp_path / "c", "segmenter", tmp_path / "zh.txt", "--penalty", 2, "--max-length", 3)
    models = [fit.model for fit in (chinese, english, asked)]
    assert [(m.penalty, m.max_length) for m in models] == [(2.5, 5), (1.6, 10), (2.0, 3)]
    assert english.report.iterations <= 20


@pytest.mark.deep
def test_chinese_words_beat_characters(tmp_path: Path, real_data: Path, run: Run) -> None:
    import json

    text = real_data / "zh" / "sighan2005-pku-test-gold.txt"
    trained(run, tmp_path / "m", "segmenter", text)
    found = json.loads(run("evaluate", tmp_path / "m", text, "--json").stdout)
    assert found["token_f1"] > 0.7 > 0.4 > found["every_symbol"]["token_f1"]

"""`pu.load`: whatever was saved, by what is in the folder."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import pyro_unsup as pu
from pyro_unsup.data import Corpus, Documents, write_flat
from pyro_unsup.errors import InputError

from ..cli.conftest import run_command

TEXT = Corpus.of(["a b a", "b b"])


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    fit = pu.EM(pu.models.Tagger(2, TEXT.vocab)).run(TEXT, iterations=1, progress=False)
    samples = pu.CollapsedGibbs(pu.models.Tagger(2, TEXT.vocab)).run(TEXT, sweeps=3, chains=1, progress=False)
    documents = Documents.of([["a", "b"], ["b"]])
    for name, one in (("fit", fit), ("samples", samples), ("corpus", TEXT), ("documents", documents)):
        one.save(tmp_path / name)
    write_flat(TEXT, tmp_path / "flat")
    found = {one.name: pu.load(one) for one in tmp_path.iterdir()}
    assert isinstance(found["fit"], pu.Fit)
    assert isinstance(found["samples"], pu.Samples)
    assert np.array_equal(found["samples"].labels, samples.labels)
    assert found["corpus"] == found["flat"] == TEXT
    assert isinstance(found["documents"], Documents)
    assert found["documents"].vocab == documents.vocab


def test_errors_name_what_was_found(tmp_path: Path) -> None:
    def refusal(path: Path) -> str:
        with pytest.raises(InputError) as error:
            pu.load(path)
        return str(error.value)

    missing = f"{tmp_path / 'fit.json'}: missing; the folder holds no fit, samples, corpus or documents, but "
    assert refusal(tmp_path) == missing + "nothing"
    (tmp_path / "notes.txt").touch()
    assert refusal(tmp_path) == missing + "'notes.txt'"
    for k in range(6):
        (tmp_path / f"a{k}").touch()
    assert refusal(tmp_path) == missing + "'a0', 'a1', 'a2', 'a3', 'a4' and 2 more"
    assert "no such folder" in refusal(tmp_path / "notes.txt")
    (tmp_path / "corpus.json").write_text("{}")
    assert re.search(r"corpus\.json", refusal(tmp_path))
    with pytest.raises(InputError, match="the folder holds no fit"):
        pu.load(tmp_path, model=lambda: None)


def test_commands_want_a_model(tmp_path: Path) -> None:
    TEXT.save(tmp_path / "corpus")
    result = run_command("show", tmp_path / "corpus")
    assert result.exit_code == 2
    expected = "holds Corpus(2 sentences, 5 tokens, 2 types), expected a model that `fit` wrote, or what `sample` wrote"
    assert result.stderr == f"error: {tmp_path / 'corpus'}: {expected}\n"

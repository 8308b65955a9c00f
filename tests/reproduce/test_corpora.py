"""Corpora are found plain or packed, read once, and named when they are missing."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pyro_unsup.errors import InputError, UnsupError
from pyro_unsup.reproduce import Corpora
from pyro_unsup.reproduce.corpora import SOURCES, corpora_in

from .conftest import TREE


def test_read_once_plain_or_packed(tmp_path: Path, corpora: Corpora) -> None:
    assert corpora["wsj"].tokens == 9
    assert corpora["wsj"] is Corpora(corpora.folder)["wsj"]
    (tmp_path / "wsj_nltk.mrg.gz").write_bytes(gzip.compress(TREE.encode()))
    assert Corpora(tmp_path)["wsj"].tokens == 3
    assert Corpora(tmp_path).files("wsj") == [tmp_path / "wsj_nltk.mrg.gz"]
    assert Corpora(tmp_path).digest(("wsj",)) != corpora.digest(("wsj",))


def test_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = Corpora(tmp_path).missing(("hansards-test",))
    assert str(error) == (
        f"{tmp_path}/align/naacl2003-enfr.test.lc-ascii.en-fr: not there, nor with .xz, .gz, .bz2 after it: sentences "
        "of Hansards with links by hand, test (en ||| fr in ASCII and lower case; links as sentence en fr S|P, numbers "
        "from 1), from the shared task on word alignment of NAACL 2003; name the folder that has it by --data or "
        "PYRO_UNSUP_DATA"
    )
    monkeypatch.delenv("PYRO_UNSUP_DATA", raising=False)
    with pytest.raises(UnsupError, match="where are the corpora"):
        corpora_in(None)
    with pytest.raises(InputError, match="no such folder of corpora"):
        corpora_in(tmp_path / "lost")
    monkeypatch.setenv("PYRO_UNSUP_DATA", str(tmp_path))
    assert corpora_in(None) == Corpora(tmp_path.resolve())


def test_all_are_there(real_data: Path) -> None:
    assert Corpora(real_data).missing(tuple(SOURCES)) is None
    assert Corpora(real_data)["hansards-trial"].links is not None

"""Coarse tags."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyro_unsup.data import read_brackets, read_conllu, read_tagged
from pyro_unsup.data.tagmaps import SMITH_EISNER_17, SMITH_EISNER_17_WEB

COARSE = ["ADJ", "ADV", "CONJ", "DET", "ENDPUNC", "INPUNC", "LPUNC", "N", "POS", "PREP", "PRT", "RPUNC", "TO", "V"]
COARSE += ["VBG", "VBN", "W"]


def test_seventeen_tags_from_forty_five() -> None:
    assert sorted(set(SMITH_EISNER_17.values())) == COARSE == sorted(set(SMITH_EISNER_17_WEB.values()))
    assert len(SMITH_EISNER_17) == 45
    with pytest.raises(TypeError):
        SMITH_EISNER_17["NN"] = "V"  # type: ignore[index]


@pytest.mark.parametrize(
    ("fine", "coarse"),
    [("NNS", "N"), ("PRP", "N"), ("PRP$", "ADJ"), ("CD", "ADJ"), ("MD", "V"), ("VBN", "VBN"), ("``", "LPUNC")],
)
def test_some_tags(fine: str, coarse: str) -> None:
    assert SMITH_EISNER_17[fine] == coarse


def test_every_tag_of_the_treebank_maps(real_data: Path) -> None:
    corpus = read_brackets(real_data / "wsj_nltk.mrg.xz")
    assert corpus.tagset is not None
    assert set(corpus.tagset) == set(SMITH_EISNER_17)
    coarse = corpus.with_tags(SMITH_EISNER_17)
    assert coarse.tagset is not None
    assert sorted(coarse.tagset) == COARSE
    assert coarse.compact().tagset == coarse.tagset  # each of them occurs


def test_later_corpora_map_too(real_data: Path) -> None:
    web = read_conllu(real_data / "ud" / "en_ewt-ud-train.conllu.xz").with_tags(SMITH_EISNER_17_WEB)
    chunks = read_tagged(real_data / "wsj_conll2000.train.txt.gz").with_tags(SMITH_EISNER_17_WEB)
    assert web.tagset == chunks.tagset

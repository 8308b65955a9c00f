"""What ``predict`` writes is valid CoNLL-U by the rules of Universal Dependencies, and keeps all that the input had."""

from __future__ import annotations

import io
import lzma
from pathlib import Path

import pytest

import pyro_unsup as pu
from pyro_unsup.data import Corpus, write_brackets

from . import ud_rules
from .conftest import Run

TREEBANKS = ("en_ewt", "fr_sequoia", "id_gsd", "it_isdt", "zh_gsd_v1")
TEXT = """\
# sent_id = one
# text = Vámonos al mar 500 000.
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\tV1\tMood=Imp|Number=Plur\t0\troot\t0:root\t_
2\tnos\tnosotros\tPRON\tP1\tCase=Acc\t1\tobj\t1:obj|5:nsubj\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\tS\t_\t5\tcase\t5:case\t_
4\tel\tel\tDET\tD\t_\t5\tdet\t5:det\t_
5\tmar\tmar\tNOUN\tN\t_\t1\tobl\t1:obl:a\tRef=3
5.1\tvamos\tir\tVERB\tV1\t_\t_\t_\t1:conj\tCopyOf=1
6\t500 000\t500 000\tNUM\tZ\t_\t5\tnummod\t5:nummod\tSpaceAfter=No
7\t.\t.\tPUNCT\tF\t_\t1\tpunct\t1:punct\tSpaceAfter=No

# sent_id = two
1\tNo\tno\tADV\tR\t_\t2\tadvmod\t_\t_
2\tva\tir\tVERB\tV\t_\t0\troot\t_\tGloss=it goes
3\t!\t!\tPUNCT\tF\t_\t2\tpunct\t_\t_

"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\t0\troot\t0:root", "\t2\tdep\t2:dep"),
        ("6\t500", "7\t500"),
        ("\tADV\t", "\tRB\t"),
        ("5.1\t", "5.2\t"),
        ("3-4", "4-5"),
        ("1:obj|5:nsubj", "5:nsubj|1:obj"),
        ("2\tadvmod", "2\t_"),
        ("2\tadvmod", "1\tadvmod"),
        ("5:case", "9:case"),
        ("Gloss=it goes", " "),
    ],
)
def test_the_rules_hold_for_gold_and_notice_faults(old: str, new: str) -> None:
    ud_rules.check(TEXT)
    assert old in TEXT
    with pytest.raises(AssertionError):
        ud_rules.check(TEXT.replace(old, new))


def trained(run: Run, folder: Path, kind: str, text: Path, *options: object) -> Path:
    result = run("fit", kind, text, *options, "--max-iterations", 1, "--out", folder / kind)
    assert result.exit_code == 0, result.stderr
    return folder / kind


def check_predictions(run: Run, folder: Path, train: Path, text: Path, universal: bool = True) -> None:
    before = text.read_text(encoding="utf-8")
    before = before if before.endswith("\n\n") else before + "\n"
    named = ("--dictionary-from", train, "--column", "upos")
    tagger = trained(run, folder, "tagger", train, *named)
    result = run("predict", tagger, text, "--column", "upos")
    assert result.exit_code == 0, result.stderr
    ud_rules.check_same(before, result.stdout, 3)
    ud_rules.check(result.stdout, universal)
    for kind in ("dmv", "dmv-ccm"):
        model = trained(run, folder, kind, train, "--column", "upos")
        result = run("predict", model, text)
        assert result.exit_code == 0, result.stderr
        ud_rules.check_same(before, result.stdout, 6, 7, 8)
        ud_rules.check(result.stdout, universal)
        rows = [row for block in ud_rules.sentences(result.stdout) for row in block if len(row) == 10]
        words = [row for row in rows if row[0].isdecimal() and row[7] != "root"]
        assert all((row[7] == "punct") == (row[3] == "PUNCT") for row in words)
    ccm = trained(run, folder, "ccm", train, "--column", "upos")
    result = run("predict", ccm, text)
    assert result.exit_code == 0, result.stderr
    (folder / "trees.mrg").write_text(result.stdout, encoding="utf-8")
    assert pu.data.read_brackets(folder / "trees.mrg").tokens


def test_predictions_are_valid(tmp_path: Path, run: Run) -> None:
    (tmp_path / "text.conllu").write_text(TEXT, encoding="utf-8")
    check_predictions(run, tmp_path, tmp_path / "text.conllu", tmp_path / "text.conllu")


def test_white_space_inside_a_word_can_be_written_in_brackets() -> None:
    stream = io.StringIO()
    write_brackets(Corpus.of([["a", "500 000", "(b  c)"]]), [[0, 0, 2]], stream, space="_")
    assert stream.getvalue() == "(X (X (_ a) (_ 500_000)) (_ -LRB-b_c-RRB-))\n"


@pytest.mark.deep
@pytest.mark.parametrize("treebank", TREEBANKS)
def test_predictions_on_treebanks_are_valid(tmp_path: Path, run: Run, real_data: Path, treebank: str) -> None:
    for part in ("dev", "test"):
        packed = real_data / "ud" / f"{treebank}-ud-{part}.conllu.xz"
        (tmp_path / f"{part}.conllu").write_bytes(lzma.decompress(packed.read_bytes()))
    universal = "_v1" not in treebank  # version 1 has other tags
    check_predictions(run, tmp_path, tmp_path / "dev.conllu", tmp_path / "test.conllu", universal)

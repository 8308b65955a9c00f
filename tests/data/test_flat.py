"""Corpora on disk: written in pieces, mapped, and given back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pyro_unsup.data import Bitext, Corpus, InputError, Segmented, Vocab, read, toy, write_flat
from pyro_unsup.data.mapped import mapping_of, release, take

CORPUS = toy.sentences(40, seed=2)


def pieces(size: int, corpus: Corpus = CORPUS) -> Iterator[Corpus]:
    for first in range(0, len(corpus), size):
        yield corpus.select(np.arange(first, min(first + size, len(corpus))))


@pytest.mark.parametrize("size", [1, 7, 40])
@pytest.mark.parametrize("mmap", [True, False])
def test_pieces_are_the_whole(tmp_path: Path, size: int, mmap: bool) -> None:
    write_flat(pieces(size), tmp_path / "c")
    CORPUS.save(tmp_path / "whole")
    assert Corpus.open(tmp_path / "c", mmap=mmap) == CORPUS
    for one in (tmp_path / "whole").iterdir():
        assert (tmp_path / "c" / one.name).read_bytes() == one.read_bytes()


def test_empty_sentences_and_empty_pieces(tmp_path: Path) -> None:
    vocab = Vocab(["a", "b"])
    parts = [Corpus([], [0], vocab), Corpus([0, 1], [0, 0, 2, 2], vocab), Corpus([], [0, 0], vocab)]
    write_flat(iter(parts), tmp_path / "c")
    assert Corpus.open(tmp_path / "c") == Corpus([0, 1], [0, 0, 2, 2, 2], vocab)


def test_one_corpus_is_a_piece(tmp_path: Path) -> None:
    write_flat(CORPUS, tmp_path / "c")
    assert Corpus.open(tmp_path / "c") == CORPUS
    with pytest.raises(InputError, match="expected corpora, one piece after the other, actual 5"):
        write_flat([CORPUS, 5], tmp_path / "d")  # type: ignore[list-item]


def test_a_folder_is_read_as_it_is(tmp_path: Path) -> None:
    write_flat(CORPUS, tmp_path / "c")
    found = read(tmp_path / "c")
    assert found == CORPUS
    assert found.on_disk
    fewer = Vocab([*CORPUS.vocab.types[:5], "<unk>"], "<unk>")
    assert read(tmp_path / "c", vocab=fewer) == CORPUS.with_vocab(fewer)
    with pytest.raises(InputError, match="a saved corpus cannot be changed while it is read; leave out lowercase"):
        read(tmp_path / "c", lowercase=True)
    with pytest.raises(InputError, match="leave out tagset"):
        read(tmp_path / "c", tagset=CORPUS.tagset)
    with pytest.raises(InputError, match=r"missing: no such file$"):
        read(tmp_path / "missing")


def test_texts_of_mapped_corpora_are_on_disk(tmp_path: Path) -> None:
    write_flat(CORPUS, tmp_path / "c")
    mapped = Corpus.open(tmp_path / "c")
    assert Bitext(mapped, CORPUS).on_disk
    assert Bitext(CORPUS, mapped).on_disk
    assert not Bitext(CORPUS, CORPUS).on_disk
    assert Segmented(mapped).on_disk
    assert not Segmented(CORPUS).on_disk


def test_pieces_that_do_not_go_together(tmp_path: Path) -> None:
    one, other = Corpus([0], [0, 1], Vocab(["a"])), Corpus([0], [0, 1], Vocab(["b"]))
    with pytest.raises(InputError, match="has another vocab than the piece before it: use with_vocab, or one tagset"):
        write_flat([one, other], tmp_path / "c")
    with pytest.raises(InputError, match="has words, offsets, the piece before it words, offsets, tags"):
        write_flat([CORPUS, one], tmp_path / "c")
    with pytest.raises(InputError, match="c: no pieces to write, expected one or more"):
        write_flat([], tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


def test_an_older_corpus_stays_until_all_is_written(tmp_path: Path) -> None:
    write_flat(pieces(10), tmp_path / "c")

    def failing() -> Iterator[Corpus]:
        yield CORPUS
        raise RuntimeError("the text ended")

    with pytest.raises(RuntimeError, match="the text ended"):
        write_flat(failing(), tmp_path / "c")
    assert Corpus.open(tmp_path / "c") == CORPUS
    assert [one.name for one in tmp_path.iterdir()] == ["c"]
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").touch()
    with pytest.raises(InputError, match="exists and is not a corpus folder"):
        write_flat(pieces(10), tmp_path / "thesis")


def test_bad_folders(tmp_path: Path) -> None:
    write_flat(pieces(10), tmp_path / "c")
    words = np.load(tmp_path / "c" / "words.npy")
    words[3] = len(CORPUS.vocab)
    np.save(tmp_path / "c" / "words.npy", words)
    with pytest.raises(InputError, match=f"c: words: expected values from 0 to {len(CORPUS.vocab) - 1}, found"):
        Corpus.open(tmp_path / "c")
    np.save(tmp_path / "c" / "words.npy", words[:-1])
    with pytest.raises(InputError, match="c: offsets: expected numbers from 0 to the"):
        Corpus.open(tmp_path / "c")
    with pytest.raises(InputError, match=r"no corpus\.json here, expected a corpus folder"):
        Corpus.open(tmp_path / "no")


def test_a_run_of_sentences_is_a_view_in_memory_and_a_copy_on_disk(tmp_path: Path) -> None:
    CORPUS.save(tmp_path / "c")
    mapped = Corpus.open(tmp_path / "c")
    assert mapped.on_disk
    assert not CORPUS.on_disk
    run, some = np.arange(5, 12), np.array([7, 3, 20])
    assert mapped.select(run) == CORPUS.select(run) == CORPUS.select([*range(5, 12)])
    assert mapped.select(some) == CORPUS.select(some)
    assert np.shares_memory(CORPUS.select(run).words, CORPUS.words)
    assert not mapped.select(run).on_disk
    assert mapping_of(take(mapped.words, slice(0, 3))) is None
    release(mapped.words, None, CORPUS.words)
    assert mapped == CORPUS


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="this system does not tell the peak of memory")
def test_a_large_corpus_is_opened_and_read_in_little_memory(tmp_path: Path) -> None:
    """4 million tokens: 16 MB that are never in memory at once."""
    vocab = Vocab([str(i) for i in range(100)])
    sentence = np.arange(20, dtype=np.int32)
    block = Corpus(np.tile(sentence, 10_000), np.arange(10_001) * 20, vocab)
    write_flat((block for _ in range(20)), tmp_path / "c")
    code = f"""
import re, numpy as np
from pyro_unsup.data import Corpus
def status(name): return int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
Corpus.open({str(tmp_path / "c")!r}).select(np.arange(10))
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
corpus = Corpus.open({str(tmp_path / "c")!r})
resting = status("VmRSS") - before
for first in range(0, 200_000, 10_000):
    part = corpus.select(np.arange(first, first + 10_000))
    assert part.words.sum() == 10_000 * 190
print(resting, status("VmRSS") - before)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    resting, reading = map(float, found.stdout.split())
    assert resting < 4
    assert reading < 8

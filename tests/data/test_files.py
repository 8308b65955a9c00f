"""Files out: all or nothing, and nothing else overwritten; folders of arrays read back, or refused with the file."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.files import write_text
from pyro_unsup.data.vocab import Vocab
from pyro_unsup.errors import InputError

from .cases import small


def test_a_written_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with write_text(path) as stream:
        stream.write("Wörter\n")
        assert not path.exists()
    assert path.read_bytes() == "Wörter\n".encode()

    def fail() -> None:
        with write_text(path) as stream:
            stream.write("half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert path.read_bytes() == "Wörter\n".encode()
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def test_writing_goes_through_links_and_into_pipes(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with write_text(tmp_path / "link") as stream:
        stream.write("text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "text"
    with write_text("/dev/null") as stream:
        stream.write("text")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_writing_where_one_cannot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path, reason in ((tmp_path, "Is a directory"), (tmp_path / "no" / "where", "No such file or directory")):
        with pytest.raises(InputError, match=rf"cannot be written: {reason}$"), write_text(path):
            pass
    with write_text("-") as stream:
        stream.write("to standard output")
    assert capsys.readouterr().out == "to standard output"


@pytest.mark.parametrize("mmap", [True, False])
def test_save_and_open(tmp_path: Path, mmap: bool) -> None:
    folder = tmp_path / "deep" / "corpus"
    small().save(folder)
    assert Corpus.open(folder, mmap=mmap) == small()
    assert {one.name for one in folder.parent.iterdir()} == {"corpus"}
    names = {"corpus.json", *(f"{name}.npy" for name in ("words", "offsets", "tags", "heads", "spans", "span_offsets"))}
    assert {one.name for one in folder.iterdir()} == names
    plain = Corpus(np.array([0]), np.array([0, 1]), Vocab(["\ud800 lone"], unknown=None))
    plain.save(folder)  # an older corpus is replaced, with nothing of it left
    assert Corpus.open(folder, mmap=mmap) == plain
    assert {one.name for one in folder.iterdir()} == {"corpus.json", "words.npy", "offsets.npy"}


def test_a_mapped_corpus_is_an_ordinary_one(tmp_path: Path) -> None:
    import torch

    small().save(tmp_path / "c")
    corpus = Corpus.open(tmp_path / "c")
    assert type(corpus.words) is np.ndarray
    assert not corpus.words.flags.owndata
    assert torch.from_numpy(corpus.words).sum() == 28  # no warning about arrays that cannot be written
    corpus.select([0]).save(tmp_path / "c")  # replacing the files under a mapped corpus leaves it whole
    assert corpus == small()
    assert pickle.loads(pickle.dumps(corpus)) == small()


def test_empty_arrays_are_mapped_too(tmp_path: Path) -> None:
    corpus = small().select([2])
    corpus.save(tmp_path / "c")
    assert corpus.spans is not None
    assert corpus.spans.shape == (0, 2)
    assert Corpus.open(tmp_path / "c") == corpus


def test_save_overwrites_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    small().save(tmp_path / "empty")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("dear")
    (tmp_path / "lookalike").mkdir()
    (tmp_path / "lookalike" / "corpus.json").write_text("{}")
    (tmp_path / "file").write_text("dear")
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for name in ("mine", "lookalike", "file", "link"):
        with pytest.raises(InputError, match=r"exists and is not a corpus folder; choose another name or remove it$"):
            small().save(tmp_path / name)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == (tmp_path / "file").read_text() == "dear"
    assert {one.name for one in tmp_path.iterdir()} == {"empty", "mine", "lookalike", "file", "link"}


def test_a_failed_save_leaves_the_old_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small().save(tmp_path / "c")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(InputError, match=r"c: cannot be written: No space left on device$"):
        small().select([0]).save(tmp_path / "c")
    assert [one.name for one in tmp_path.iterdir()] == ["c"]
    assert Corpus.open(tmp_path / "c") == small()


class Trap:
    """Unpickling this would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


def test_open_never_unpickles(tmp_path: Path) -> None:
    small().save(tmp_path / "c")
    trap = tmp_path / "trap"
    (tmp_path / "c" / "words.npy").write_bytes(pickle.dumps(Trap(trap)))
    with pytest.raises(InputError, match=r"words\.npy: not a \.npy array; save it again$"):
        Corpus.open(tmp_path / "c")
    np.save(tmp_path / "c" / "words.npy", np.array([Trap(trap)]), allow_pickle=True)
    with pytest.raises(InputError, match=r"words\.npy: is damaged; save it again$"):
        Corpus.open(tmp_path / "c")
    assert not trap.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: (c / "corpus.json").unlink(), "no corpus.json here, expected a corpus folder"),
        (lambda c: (c / "corpus.json").write_text("{"), "corpus.json: cannot be read as JSON; save it again"),
        (lambda c: (c / "corpus.json").write_text("[" * 100_000), "corpus.json: cannot be read as JSON; save it again"),
        (lambda c: (c / "corpus.json").write_text("[]"), "corpus.json: not a description of a corpus; save it again"),
        (lambda c: edit(c, version=9), "corpus.json: version 9, expected 1; read it with the release that wrote it"),
        (lambda c: edit(c, arrays=["../x"]), "corpus.json: expected arrays among words, offsets, tags, heads"),
        (lambda c: edit(c, arrays=["words"]), "corpus.json does not say what its arrays are; save it again"),
        (lambda c: edit(c, vocab=None), "corpus.json does not say what its arrays are; save it again"),
        (lambda c: edit(c, vocab={"types": ["a"], "unknown": None}), "words: expected values from 0 to 0, found 1"),
        (lambda c: edit(c, vocab={"types": ["a", "a"], "unknown": None}), "'a' is twice in the vocabulary"),
        (lambda c: edit(c, vocab={"types": 3, "unknown": None}), "corpus.json does not say what its arrays are"),
        (lambda c: (c / "tags.npy").unlink(), "tags.npy: cannot be read: No such file or directory"),
        (lambda c: (c / "tags.npy").write_bytes((c / "tags.npy").read_bytes()[:-4]), "tags.npy: is damaged"),
        (lambda c: np.save(c / "tags.npy", np.zeros(8)), "tags.npy: expected an array of int32, found float64"),
        (lambda c: np.save(c / "tags.npy", np.zeros(7, np.int32)), "tags: expected shape (8,), found (7,)"),
        (lambda c: np.save(c / "tags.npy", np.full(8, -1, np.int32)), "tags: expected values from 0 to 4, found -1"),
    ],
)
@pytest.mark.parametrize("mmap", [True, False])
def test_open_names_what_is_wrong_in_a_folder(tmp_path: Path, change: object, message: str, mmap: bool) -> None:
    small().save(tmp_path / "c")
    change(tmp_path / "c")  # type: ignore[operator]
    with pytest.raises(InputError) as error:
        Corpus.open(tmp_path / "c", mmap=mmap)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert str(tmp_path / "c") in str(error.value)


def edit(folder: Path, **changes: object) -> None:
    head = json.loads((folder / "corpus.json").read_text())
    (folder / "corpus.json").write_text(json.dumps(head | changes))


@settings(max_examples=500, derandomize=True, deadline=None)
@given(data=st.data())
def test_a_damaged_folder_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    shutil.rmtree(folder, ignore_errors=True)
    small().save(folder)
    path = data.draw(st.sampled_from(sorted(folder.iterdir())))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content)))
        content[start : start + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
    path.write_bytes(content)
    mmap = data.draw(st.booleans())
    message = ""
    try:
        assert isinstance(Corpus.open(folder, mmap=mmap), Corpus)
    except InputError as error:
        message = str(error)
    assert "\n" not in message

"""Bad days: processes killed while they save, two that write one folder, full disks, folders that are locked."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pyro_unsup as pu
from pyro_unsup import InputError
from pyro_unsup.cli import app
from pyro_unsup.data import Corpus, TagDictionary, read_documents, read_lines, write_flat, write_tagged

from .cases import anonymous, text, tree, with_dictionary
from .kill import SAVINGS, sampled


def said(module: str, *arguments: str, patience: float = 400) -> list[dict[str, Any]]:
    """The lines that a command prints, if it ends well. It forks, which a process with threads had better not."""
    command = [sys.executable, "-m", f"tests.results.{module}", *arguments]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, timeout=patience, env=env, cwd=Path(__file__).parents[2])
    assert ended.returncode == 0, ended.stderr.decode()[-3000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]


QUICK = ("fit", "new fit", "samples", "corpus")


def test_killed_while_saving() -> None:
    quick = said("kill", "--moments", "15", *(f"--only={name}" for name in QUICK))
    slow = said("kill", "--moments", "2", *(f"--only={name}" for name in SAVINGS if name not in QUICK))
    assert [one["saving"] for one in (*quick, *slow)] == list(SAVINGS)
    assert sum(one["in the middle of a file"] for one in quick) > 0


@pytest.mark.deep
@pytest.mark.parametrize("name", SAVINGS)
def test_killed_at_more_moments(name: str) -> None:
    """``python -m tests.results.kill --moments 200`` takes as many as one likes."""
    (found,) = said("kill", "--moments", "20", f"--only={name}", patience=600)
    assert found["moments"] == 20


def test_two_processes_write_one_folder() -> None:
    found = said("rivals", "--seconds", "0.7")
    assert len(found) == 5
    assert all(min(one["writes"]) > 0 and one["reads"] > 0 for one in found[:-1])


# -- a disk that is full


def chain(folder: Path) -> None:
    kernel = pu.CollapsedGibbs(pu.models.Tagger(3, text().vocab))
    kernel.run(text(), sweeps=4, parallel=1, progress=False, checkpoint=folder)


def train(folder: Path) -> None:
    model = pu.models.Tagger(3, text().vocab)
    pu.EM(model).run(text(), iterations=3, tolerance=0.0, progress=False, checkpoint=folder)


#: How each is written, and what is there before.
WRITERS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "fit": (lambda at: anonymous().save(at, overwrite=True), lambda at: with_dictionary().save(at)),
    "samples": (lambda at: sampled()[0].save(at, overwrite=True), lambda at: sampled()[1].save(at)),
    "corpus": (lambda at: text().save(at), lambda at: text().select([0]).save(at)),
    "flat corpus": (lambda at: write_flat([text(), text()], at), lambda at: text().select([0]).save(at)),
    "text": (lambda at: write_tagged(text(), None, at), lambda at: at.write_text("before")),
    "dictionary": (lambda at: TagDictionary.from_corpus(text()).save(at), lambda at: at.write_text("before")),
    "checkpoint": (train, lambda at: with_dictionary().save(at)),
    "chain": (chain, lambda at: None),
}


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: the system refuses the write, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("name", WRITERS)
def test_no_room_for_a_file(tmp_path: Path, name: str, before: bool) -> None:
    write, prepare = WRITERS[name]
    write(tmp_path / "whole")
    sizes = [one.stat().st_size for one in tmp_path.rglob("*") if one.is_file()]
    folder = tmp_path / "here"
    folder.mkdir()
    if before:
        prepare(folder / "it")
    old = tree(folder)
    exactly = () if name in ("checkpoint", "chain") else (x - 1 for x in sizes)  # those tell the time that they took
    for size in sorted({0, 1, max(sizes) // 2, *exactly}):
        with largest_file(size), pytest.raises(InputError, match=r"it.*: cannot be written: File too large"):
            write(folder / "it")
        assert tree(folder) == old
        assert {one.name for one in folder.iterdir()} <= {"it"}
    write(folder / "it")
    assert tree(folder) != old


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 kB, where one may be made."""
    mount = shutil.which("mount")
    where = tmp_path / "disk"
    where.mkdir()
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=256k,nr_inodes=64", "tmpfs", str(where)]
    if mount is None or os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("only root may mount a file system")
    yield where
    subprocess.run(["umount", str(where)], check=True)


@pytest.mark.parametrize("name", WRITERS)
def test_no_room_on_a_disk(tmp_path: Path, small_disk: Path, name: str) -> None:
    write, prepare = WRITERS[name]
    prepare(small_disk / "it")
    old = tree(small_disk)
    filler = small_disk / "filler"
    with open(filler, "wb", buffering=0) as stream, suppress(OSError):
        while stream.write(b"x" * 4096):
            pass
    with pytest.raises(InputError, match=r"it.*: cannot be written: No space left on device"):
        write(small_disk / "it")
    filler.unlink()
    assert tree(small_disk) == old
    write(small_disk / "it")


# -- folders that may not be written to, and files that may not be read


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root, if we have them."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that others can get to."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    for one in folder.rglob("*"):
        one.chmod(0o700)
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_locked_folder(shared: Path, name: str, mode: int) -> None:
    write, prepare = WRITERS[name]
    write(shared / "elsewhere")  # with all that is imported and compiled for it
    (shared / "locked").mkdir()
    if name not in ("text", "dictionary"):
        prepare(shared / "locked" / "it")
    old = tree(shared)
    for one in (shared / "locked" / "it", shared / "locked"):
        if one.exists():
            one.chmod(mode)
    with as_nobody(), pytest.raises(InputError, match=r"it.*: cannot be (written|read|removed): Permission denied"):
        write(shared / "locked" / "it")
    with as_nobody(), pytest.raises(InputError, match=r"new.*: cannot be (written|read|removed): Permission denied"):
        write(shared / "locked" / "new" / "it" if name not in ("text", "dictionary") else shared / "locked" / "new")
    for one in (shared / "locked", shared / "locked" / "it"):
        if one.exists():
            one.chmod(0o755)
    assert tree(shared) == old


def test_what_may_not_be_read(shared: Path) -> None:
    anonymous().save(shared / "fit")
    sampled()[0].save(shared / "samples")
    text().save(shared / "corpus")
    (shared / "lines").write_text("a b\n")
    (shared / "groups" / "a").mkdir(parents=True)
    (shared / "groups" / "a" / "1").write_text("a b\n")
    TagDictionary.from_corpus(text()).save(shared / "d.json")
    readers: list[tuple[Callable[[Path], object], str, list[str]]] = [
        (pu.load, "fit", ["fit/fit.json", "fit"]),
        (pu.Samples.load, "samples", ["samples/samples.json", "samples"]),
        (Corpus.open, "corpus", ["corpus/words.npy", "corpus/corpus.json", "corpus"]),
        (read_lines, "lines", ["lines"]),
        (read_documents, "groups", ["groups/a/1", "groups/a", "groups"]),
        (TagDictionary.load, "d.json", ["d.json"]),
    ]
    for read, name, locked in readers:
        read(shared / name)
        for one in locked:
            before = (shared / one).stat().st_mode
            (shared / one).chmod(0o000)
            with as_nobody(), pytest.raises(InputError, match=r"^/\S+: ") as caught:
                read(shared / name)
            assert "\n" not in str(caught.value)
            assert str(shared / name) in str(caught.value)
            (shared / one).chmod(before)


def test_a_command_in_a_locked_folder(shared: Path) -> None:
    (shared / "text.txt").write_text("the dog barks\na cat sleeps\n")
    (shared / "locked").mkdir(mode=0o555)
    fit = ["fit", "tagger", str(shared / "text.txt"), "--tags", "2", "--out"]
    assert CliRunner().invoke(app, [*fit, str(shared / "first")]).exit_code == 0
    with as_nobody():
        result = CliRunner().invoke(app, [*fit, str(shared / "locked" / "m")])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert "Permission denied" in result.stderr
    assert not list((shared / "locked").iterdir())

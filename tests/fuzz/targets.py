"""Everything that is read from outside: what it is given when all is well, and what must hold whatever it is given."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

import pyro_unsup as pu
from pyro_unsup.cli.training import Checkpoint
from pyro_unsup.data import (
    Bitext,
    Corpus,
    Documents,
    Segmented,
    TagDictionary,
    Vocab,
    blocks,
    read_bitext,
    read_brackets,
    read_conllu,
    read_documents,
    read_lines,
    read_links,
    read_segmented,
    read_tagged,
)
from pyro_unsup.data.archive import newsgroups
from pyro_unsup.data.remote import _expected
from pyro_unsup.data.streams import by_gap, by_tree
from pyro_unsup.errors import InputError, UnsupError

from .files import Files, seal
from .inputs import (
    COLUMNS,
    CONLLU,
    CONLLX,
    DICTIONARY,
    FILE,
    LINES,
    MESSAGE,
    NEWSGROUPS,
    PAIRS,
    PHARAOH,
    QUIET,
    RUN,
    SLASHES,
    TREES,
    WA,
    archive,
    bags,
    chains,
    engine,
    fits,
    flat,
    gibbs,
    one,
    packed,
    resumable,
    run_record,
    sampled,
    tagged,
)


@dataclass(frozen=True)
class Target:
    """Something that reads.

    :param read: reads the files in a folder; what it gives is looked at.
    :param samples: files that it likes.
    :param sealed: makes checksums right again.
    :param pipes: whether a pipe is refused, rather than waited on.
    :param names_path: whether an error has to name a file.
    """

    read: Callable[[Path], Any]
    samples: Callable[[], list[Files]]
    sealed: Callable[[Files], Files] = dict
    pipes: bool = True
    names_path: bool = True

    def check(self, folder: Path) -> bool:
        """Raise unless the files are read, or refused in one line that names one of them. True if they were read."""
        try:
            usable(self.read(folder))
        except UnsupError as error:
            message = str(error)
            assert "\n" not in message, message
            assert len(message) < 2000, message
            assert str(folder) in message or not self.names_path, message
            return False
        return True


# -- what it means that an object is a valid one


def usable(found: Any) -> None:
    """Raise unless an object is what its class says."""
    if isinstance(found, tuple | list):
        for one in found:
            usable(one)
        return
    assert repr(found)
    if isinstance(found, Corpus | Documents):
        assert len(found) > 0 or isinstance(found, Corpus)
        assert type(found)(**{field.name: getattr(found, field.name) for field in fields(found)}) == found
        assert found.select([]).vocab == found.vocab
    elif isinstance(found, Segmented):
        usable(found.symbols)
        assert Segmented(found.symbols, found.ends) == found
        assert len(found.lines()) == len(found) if found.ends is not None else True
    elif isinstance(found, Bitext):
        usable([found.source, found.target])
        assert Bitext(found.source, found.target, found.links) == found
    elif isinstance(found, TagDictionary):
        assert TagDictionary(found.tagset, found.words, found.table) == found
        assert all(found[word] for word in found.words)
    elif isinstance(found, pu.Fit):
        assert found._repr_html_()
        assert len(found.history) > 0
        if type(found.model).__name__ == "Tagger":
            assert found.predict([[0, 0], [0]]).shape == (3,)
    elif isinstance(found, pu.Samples):
        assert found.predict().shape == found.predict("last").shape == found.labels.shape[-1:]
        assert found.token_counts.sum() == found.labels.size
        assert found.invariants().keys() >= {"log_joint", "entropy"}
        assert all(((rate >= 0) | True).all() for rate in found.rates.values())
        assert found.sentences() if "words" in found.data else True


# -- readers of several files, and of what lies in a folder


def read_all_bitext(folder: Path) -> Bitext:
    return read_bitext(folder / "source", folder / "target", folder / "links")


def read_stream(folder: Path) -> list[Corpus]:
    vocab = Vocab(["<unk>"], unknown="<unk>")
    found = []
    for block in blocks(folder / FILE, 2, by_gap):
        found.append(read_conllu(block, None, vocab=vocab))
    return found


def read_tree_stream(folder: Path) -> list[Corpus]:
    vocab = Vocab(["<unk>"], unknown="<unk>")
    return [read_brackets(block, vocab=vocab) for block in blocks(folder / FILE, 2, by_tree)]


def read_archive(folder: Path) -> str:
    if not (folder / FILE).is_file():
        raise InputError("nothing to pack", folder)
    path = folder / "packed.tar.gz"
    path.write_bytes(gzip.compress((folder / FILE).read_bytes(), 1))
    return "\n".join(newsgroups(path, "train"))


def read_links_as(format: Any) -> Callable[[Path], Any]:
    bitext = Bitext(*(Corpus([0, 1, 0, 1], [0, 2, 4], Vocab(["a", "b"])) for _ in range(2)))
    return lambda folder: read_links(folder / FILE, bitext, format)


def resume(name: str) -> Callable[[Path], pu.Fit]:
    def read(folder: Path) -> pu.Fit:
        found: pu.Fit = engine(name).run(tagged(), resume=pu.load(folder), **{**QUIET, "iterations": 3})
        return found

    return read


def resume_chain(folder: Path) -> pu.Samples:
    kernel, data = gibbs("tagger")
    (folder.parent / "chain-0").unlink(missing_ok=True)
    (folder.parent / "chain-0").symlink_to(folder)
    found: pu.Samples = kernel.run(data, checkpoint=folder.parent, resume=True, **RUN)
    return found


def file(read: Callable[..., Any], *args: Any, **options: Any) -> Callable[[Path], Any]:
    return lambda folder: read(folder / FILE, *args, **options)


def text(read: Callable[[Path], Any], samples: Callable[[], list[Files]]) -> Target:
    """A reader that takes pipes too."""
    return Target(read, samples, pipes=False)


TARGETS: dict[str, Target] = {
    "conllu": text(file(read_conllu), one(CONLLU, CONLLX)),
    "conllx": text(file(read_conllu, "upos", "lemma", drop_upos={"P"}, min_count=2), one(CONLLX, CONLLU)),
    "brackets": text(file(read_brackets), one(TREES)),
    "columns": text(file(read_tagged, "columns"), one(COLUMNS)),
    "slashes": text(file(read_tagged, "slashes"), one(SLASHES)),
    "tagged": text(file(read_tagged), one(COLUMNS, SLASHES)),
    "lines": text(file(read_lines, min_count=2, lowercase=True), one(LINES)),
    "packed": text(file(read_lines), packed),
    "segmented": text(file(read_segmented), one("the dog\nruns\n")),
    "segmented by marks": text(
        file(read_segmented, word_sep=";", symbol_sep=" ", max_segment=9), one("dh ax;d ao g\n")
    ),
    "documents": text(file(read_documents), one(LINES, "a\tthe dog\nb\tit ran\n", NEWSGROUPS)),
    "documents kept": text(file(read_documents, empty="keep", lowercase=True), one(LINES, NEWSGROUPS)),
    "folders": Target(
        lambda folder: read_documents(folder, "folders", empty="drop"),
        lambda: [{"a/1": MESSAGE.encode(), "a/2": b"orbit", "b/10": b"a car"}],
    ),
    "folders in latin-1": Target(
        lambda folder: read_documents(folder, encoding="latin-1", empty="keep"),
        lambda: [{"a/1": b"caf\xe9", "b/x": gzip.compress(b"a car\r\n")}],
    ),
    "bitext": text(file(read_bitext), one(PAIRS)),
    "bitext in files": text(
        read_all_bitext,
        lambda: [{"source": b"a b\nb\n", "target": b"x\ny z\n", "links": b"0-0 1?0\n0-1\n"}],
    ),
    "links, wa": text(read_links_as("wa"), one(WA)),
    "links, pharaoh": text(read_links_as("pharaoh"), one(PHARAOH)),
    "links, auto": text(read_links_as("auto"), one(WA, PHARAOH)),
    "dictionary": text(file(TagDictionary.read), one(DICTIONARY)),
    "dictionary, JSON": Target(
        lambda folder: TagDictionary.load(folder / "d.json"),
        lambda: [
            {"d.json": b'{"format": "pyro_unsup.dictionary", "version": 1, "tagset": ["N"], "words": {"a": [0]}}'},
        ],
    ),
    "stream": text(read_stream, one(CONLLU)),
    "stream of trees": text(read_tree_stream, one(TREES)),
    "archive": text(read_archive, archive),
    "checksum": Target(lambda folder: _expected(folder / "x", None), lambda: [{"x.sha256": b"0" * 64}]),
    "flat corpus": Target(lambda folder: Corpus.open(folder, mmap=False), flat),
    "mapped corpus": Target(lambda folder: Corpus.open(folder).select([0, 0]), flat),
    "flat documents": Target(lambda folder: Documents.open(folder, mmap=False), bags),
    "mapped documents": Target(lambda folder: Documents.open(folder).select([0, 0]), bags),
    "run": Target(lambda folder: Checkpoint(folder, {"--tags": 3, "text": "ab"}).open(resume=True), run_record),
    "fit": Target(pu.load, fits, seal("fit.json")),
    "samples": Target(pu.Samples.load, sampled, seal("samples.json")),
    "EM resumed": Target(resume("EM"), resumable("EM"), seal("fit.json"), names_path=False),
    "incremental EM resumed": Target(
        resume("incremental"), resumable("incremental"), seal("fit.json"), names_path=False
    ),
    "stepwise EM resumed": Target(resume("stepwise"), resumable("stepwise"), seal("fit.json"), names_path=False),
    "chain resumed": Target(resume_chain, chains, seal("samples.json"), names_path=False),
}


def prepare() -> None:
    """Doubles everywhere, one thread, no warnings."""
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)

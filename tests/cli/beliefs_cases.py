"""A small text for every kind of model, and its model as the command line should make it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyro_unsup as pu
from pyro_unsup.data import (
    read_bitext,
    read_brackets,
    read_conllu,
    read_documents,
    read_segmented,
    read_tagged,
    short_tag_sequences,
    toy,
    write_brackets,
    write_tagged,
)

from .test_dmv import conllu

SIZE, LENGTH = 25, 6
TEXTS: dict[str, tuple[object, ...]] = {
    "tagger": ("text.tagged", "--tags", 3),
    "ccm": ("trees.mrg", "--max-length", LENGTH),
    "dmv": ("text.conllu", "--max-length", LENGTH, "--column", "upos"),
    "dmv-ccm": ("text.conllu", "--max-length", LENGTH, "--column", "upos"),
    "clusterer": ("documents.txt", "--clusters", 3, "--drop-frequent", 4, "--min-count", 2),
    "segmenter": ("lines.txt", "--max-length", 5),
    "aligner": ("pairs.txt",),
}


def small_texts(folder: Path) -> Path:
    """The folder, with a small text for every kind of model in it."""
    corpus = toy.sentences(SIZE, seed=3)
    write_tagged(corpus, None, folder / "text.tagged")
    (folder / "text.conllu").write_text(conllu(corpus))
    write_brackets(corpus, None, folder / "trees.mrg")
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in toy.utterances(SIZE, seed=3).segmented))
    words, labels, topics = toy.documents(SIZE, seed=3, topics=3)
    rows = (f"{topics[label]}\t{' '.join(words.sentence(i))}\n" for i, label in enumerate(labels))
    (folder / "documents.txt").write_text("".join(rows))
    pairs = toy.bitext(SIZE, seed=3)
    sides = ([" ".join(side.sentence(i)) for i in range(SIZE)] for side in (pairs.source, pairs.target))
    (folder / "pairs.txt").write_text("".join(f"{one} ||| {other}\n" for one, other in zip(*sides, strict=True)))
    return folder


def model_of(kind: str, texts: Path) -> tuple[Any, Any, Any]:
    """Data, model and start, as the command line should make them."""
    file = texts / str(TEXTS[kind][0])
    data: Any
    model: Any
    if kind == "tagger":
        data = read_tagged(file)
        return data, pu.models.Tagger(3, data.vocab), None
    if kind == "ccm":
        data = short_tag_sequences(read_brackets(file), LENGTH, ["PUNCT"])
        model = pu.models.CCM.of(data, prior=(3.0, 9.0))
        return data, model, model.split_start(data, estimate=pu.DirichletMAP())
    if kind == "dmv":
        data = short_tag_sequences(read_conllu(file, "upos", drop_upos=["PUNCT"]), LENGTH, ())
        return data, (model := pu.models.DMV.of(data)), model.harmonic_start(data)
    if kind == "dmv-ccm":
        data = short_tag_sequences(read_conllu(file, "upos", drop_upos=["PUNCT"]), LENGTH, ())
        prior: Any = {
            **dict.fromkeys(("root", "attach", "stop"), 1.0),
            **dict.fromkeys(("yield", "context"), (3.0, 9.0)),
        }
        return data, (model := pu.models.DMVCCM.of(data, prior=prior)), model.start(data, estimate=pu.DirichletMAP())
    if kind == "clusterer":
        data = read_documents(file).drop_frequent(4).drop_rare(2)
        return data, pu.models.Clusterer(3, data.vocab), pu.init.noise(1e-3)
    if kind == "segmenter":
        data = read_segmented(file)
        return data, pu.models.Segmenter.of(data, max_length=5), pu.init.uniform()
    data = read_bitext(file)
    return data, pu.models.Aligner.of(data), pu.init.uniform()

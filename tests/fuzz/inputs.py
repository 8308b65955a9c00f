"""Good input of every kind, for a fuzzer to spoil."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.cli.training import Checkpoint
from pyro_unsup.data import Corpus, Documents, Segmented, TagDictionary, Vocab

from .files import Files

FILE = "file"

# -- texts

CONLLU = (
    "# text = a dog's life\n1\ta\ta\tDET\tDT\t_\t4\tdet\t_\t_\n2-3\tdog's\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "2\tdog\tdog\tNOUN\tNN\t_\t4\tnmod\t_\t_\n3\t's\t's\tPART\tPOS\t_\t2\tcase\t_\t_\n"
    "3.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n4\tlife\tlife\tNOUN\tNN\t_\t0\troot\t_\t_\n\n"
    "1\tyes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_\n\n"
)
CONLLX = "1\tthe\t_\tD\tDT\t_\t2\tdet\t_\t_\n2\tdog\t_\tN\tNN\t_\t0\troot\t_\t_\n3\t.\t_\tP\t.\t_\t2\tp\t_\t_\n\n"
TREES = "( (S (NP-SBJ (DT a) (NN dog))\n (VP (VBZ is) (NP (-NONE- *))) (. .)))\n(UH yes)\n"
COLUMNS = "a DT B\ndog NN I\n\nyes UH O\n1 000\tCD\tO\n\n"
SLASHES = "a/DT dog/NN 1\\/2/CD\nyes/UH\n"
LINES = "a dog 's life\nyes\n"
NEWSGROUPS = "train\tsci.space\t1\tthe orbit\ntest\trec.autos\t2\ta car a car\n"
PAIRS = "the house ||| das haus\na book ||| ein buch\n"
WA, PHARAOH = "1 1 1 S\n1 2 2 P\n2 1 2\n", "0-0 1?1\n1-0\n"
DICTIONARY = "the DET\ndog NOUN VERB\na b\tNUM NOUN\n"
MESSAGE = "From: me@here\nSubject: Re: Orbits\n\nIt is 42 km, isn't it?\n"
PACKERS: tuple[Callable[[bytes], bytes], ...] = (gzip.compress, bz2.compress, lzma.compress)


def one(*texts: str | bytes) -> Callable[[], list[Files]]:
    return lambda: [{FILE: text.encode() if isinstance(text, str) else text} for text in texts]


def packed() -> list[Files]:
    return [{FILE: pack(LINES.encode())} for pack in PACKERS] + [{FILE: pack(LINES.encode()) * 2} for pack in PACKERS]


def archive() -> list[Files]:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("20news-bydate-train/sci.space/1", "20news-bydate-train/rec.autos/22"):
            member = tarfile.TarInfo(name)
            member.size = len(MESSAGE)
            tar.addfile(member, io.BytesIO(MESSAGE.encode()))
    long = io.BytesIO()
    with tarfile.open(fileobj=long, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("20news-bydate-train/" + "x" * 120 + "/1"))
    return [{FILE: out.getvalue()}, {FILE: long.getvalue()}]


def written(save: Callable[[Path], None]) -> Files:
    with TemporaryDirectory() as scratch:
        save(Path(scratch) / "it")
        return {x.name: x.read_bytes() for x in (Path(scratch) / "it").iterdir()}


@cache
def tagged() -> Corpus:
    return pu.data.toy.sentences(12, seed=1)


@cache
def symbols() -> Segmented:
    return Segmented(Corpus([0, 1, 0, 1, 1], [0, 3, 5], Vocab(["a", "b"])), np.array([False, True, True, True, True]))


def flat() -> list[Files]:
    return [written(tagged().save), written(tagged().select([0]).tags_as_words().save)]


def bags() -> list[Files]:
    text = tagged()
    plain = Documents.count(text.words, text.offsets, text.vocab)
    labels = [i % 2 for i in range(len(plain))]
    return [
        written(plain.save),
        written(Documents.count(text.words, text.offsets, text.vocab, labels, Vocab(["x", "y"])).save),
    ]


# -- models

QUIET: dict[str, Any] = {"progress": False, "tolerance": 0.0, "iterations": 2}
RUN: dict[str, Any] = {"sweeps": 4, "burn_in": 1, "progress": False, "parallel": 1}


def tagger() -> pu.models.Tagger:
    return pu.models.Tagger(3, tagged().vocab)


def engine(name: str) -> Any:
    smooth = pu.AddLambda(0.1)
    if name == "incremental":
        return pu.IncrementalEM(tagger(), smooth, batch_size=5)
    if name == "stepwise":
        return pu.StepwiseEM(tagger(), smooth, batch_size=5)
    if name == "features":
        return pu.EM(tagger(), pu.LogLinear(pu.templates.tagging(), kappa=1.0, lbfgs_iterations=2))
    return pu.EM(tagger(), smooth)


@cache
def trained(name: str) -> pu.Fit:
    found: pu.Fit = engine(name).run(tagged(), **QUIET)
    return found


@cache
def fits() -> list[Files]:
    text, tagset = tagged(), tagged().tagset
    assert tagset is not None
    named = pu.models.Tagger(tagset, text.vocab, dictionary=TagDictionary.from_corpus(text, min_count=2), prior=0.3)
    tags = text.tags_as_words()
    bitext = pu.data.toy.bitext(6, seed=1)
    bags = Documents.count(text.words, text.offsets, text.vocab)
    known = pu.constrain(pu.models.DMV.of(tags), pu.components.verb_as_root("VERB"))
    models: list[tuple[Any, Any]] = [
        (named, text),
        (known, tags),
        (pu.temper(pu.models.CCM.of(tags), 0.5), tags),
        (pu.models.Segmenter.of(symbols(), max_length=3), symbols()),
        (pu.models.Aligner.of(bitext, agreement=None), bitext),
        (pu.models.HMMAligner.of(bitext, agreement=None), bitext),
        (pu.models.Clusterer(2, bags.vocab), bags),
    ]
    plain = pu.models.Tagger(2, text.vocab)
    start = pu.EM(plain, pu.AddLambda(0.1)).run(text, **QUIET)
    models += [(pu.temper(pu.skew(plain, 0.5, toward=start), 0.9), text)]
    normal = pu.LogisticNormal(mean=torch.zeros(1), variance=0.5)  # settings with a tensor
    made = [
        trained("EM"),
        trained("features"),
        pu.EM(plain, pu.AddLambda(0.1)).run(text, restarts=2, processes=1, **QUIET),
        pu.EM(plain, {"start": normal, "emission": pu.DirichletVB()}).run(text, **QUIET),
    ]
    made += [pu.EM(model, pu.AddLambda(0.1)).run(data, **QUIET) for model, data in models]
    return [written(fit.save) for fit in made]


def resumable(name: str) -> Callable[[], list[Files]]:
    return lambda: [written(trained(name).save)]


def gibbs(kind: str) -> tuple[Any, Any]:
    text = tagged()
    if kind == "tagger":
        return pu.CollapsedGibbs(tagger(), hyper="shared"), text
    if kind == "segmenter":
        return pu.CollapsedGibbs(pu.models.Segmenter.of(symbols(), max_length=3)), symbols()
    bags = Documents.count(text.words, text.offsets, text.vocab)
    return pu.CollapsedGibbs(pu.models.Clusterer(2, bags.vocab), hyper="separate"), bags


@cache
def sampled() -> list[Files]:
    made = [(kernel, data) for kernel, data in map(gibbs, ("tagger", "segmenter", "clusterer"))]
    return [written(kernel.run(data, chains=2, **RUN).save) for kernel, data in made]


@cache
def chains() -> list[Files]:
    with TemporaryDirectory() as scratch:
        kernel, data = gibbs("tagger")
        try:
            kernel.run(data, checkpoint=scratch, callbacks=[lambda sweep: sweep.sweep == 2], **RUN)
        except KeyboardInterrupt:
            return [{x.name: x.read_bytes() for x in (Path(scratch) / "chain-0").iterdir()}]
    raise AssertionError


def run_record() -> list[Files]:
    with TemporaryDirectory() as scratch:
        Checkpoint(Path(scratch) / "it", {"--tags": 3, "text": "ab"}).open(resume=False)
        return [{"run.json": (Path(scratch) / "it" / "run.json").read_bytes()}]

"""The corpora that experiments read: what they are, by which names they are looked for, and where they come from."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .. import data
from ..data.opening import open_text
from ..errors import InputError, UnsupError

ZUCCHINI = "the data of Zucchini & MacDonald (2009)"
SWITCHING = "the tests of statsmodels"
PACKED = ("", ".xz", ".gz", ".bz2")  # what a file may be packed as, in the order of looking


@dataclass(frozen=True)
class Source:
    """A corpus.

    :param files: below the folder of corpora, without the ending of packed ones.
    :param what: it is.
    :param format: of its files.
    :param origin: where one gets such data.
    :param read: from its files to data.
    """

    files: tuple[str, ...]
    what: str
    format: str
    origin: str
    read: Callable[..., Any]


def _ud(language: str, part: str, name: str, **options: Any) -> Source:
    return Source(
        (f"ud/{language}-ud-{part}.conllu",),
        f"{name}, {part}",
        "CoNLL-U",
        "Universal Dependencies, universaldependencies.org",
        lambda path: data.read_conllu(path, **options),
    )


def _gold(part: str) -> Source:
    return Source(
        (f"align/naacl2003-enfr.{part}.lc-ascii.en-fr", f"align/naacl2003-enfr.{part}.wa"),
        f"sentences of Hansards with links by hand, {part}",
        "en ||| fr in ASCII and lower case; links as sentence en fr S|P, numbers from 1",
        "the shared task on word alignment of NAACL 2003",
        lambda path, links: data.read_bitext(path, links=links),
    )


def _series(name: str, what: str, origin: str, ending: str = "csv") -> Source:
    return Source((f"series/{name}.{ending}",), what, "CSV with a header, a row a time step", origin, read_columns)


def read_columns(path: Path) -> Any:
    """The columns of a CSV file by name, numbers where they are numbers; empty cells are NaN."""
    return np.genfromtxt(path, delimiter=",", names=True, dtype=None, encoding="utf-8")


def _read_notes(path: Path) -> Any:
    return json.loads("".join(line for _, line in open_text(path)))


#: Without punctuation, as grammar induction wants them.
_BARE = {"drop_upos": {"PUNCT", "SYM"}}

SOURCES = {
    "wsj": Source(
        ("wsj_nltk.mrg",),
        "the WSJ sample: 3,914 sentences of the Penn Treebank",
        "Penn brackets",
        "NLTK's treebank sample (nltk.download('treebank')), its files in one",
        data.read_brackets,
    ),
    "wsj-heads": Source(
        ("wsj_nltk_dep.conll",),
        "the same sentences with heads",
        "CoNLL-X",
        "NLTK's dependency treebank (nltk.download('dependency_treebank')), its files in one",
        data.read_conllu,
    ),
    "ewt": _ud("en_ewt", "train", "UD English-EWT"),
    "ewt-test": _ud("en_ewt", "test", "UD English-EWT"),
    "ewt-bare": _ud("en_ewt", "train", "UD English-EWT", **_BARE),
    "ewt-bare-test": _ud("en_ewt", "test", "UD English-EWT", **_BARE),
    "zh-bare": _ud("zh_gsd_v1", "train", "UD Chinese-GSD 1.3", **_BARE),
    "zh-bare-test": _ud("zh_gsd_v1", "test", "UD Chinese-GSD 1.3", **_BARE),
    "fr": _ud("fr_sequoia", "train", "UD French-Sequoia", tags="upos"),
    "fr-test": _ud("fr_sequoia", "test", "UD French-Sequoia", tags="upos"),
    "fr-bare": _ud("fr_sequoia", "train", "UD French-Sequoia", tags="upos", **_BARE),
    "fr-bare-test": _ud("fr_sequoia", "test", "UD French-Sequoia", tags="upos", **_BARE),
    "ewt-upos": _ud("en_ewt", "train", "UD English-EWT", tags="upos", **_BARE),
    "ewt-upos-test": _ud("en_ewt", "test", "UD English-EWT", tags="upos", **_BARE),
    "zh-upos": _ud("zh_gsd_v1", "train", "UD Chinese-GSD 1.3", tags="upos", **_BARE),
    "zh-upos-test": _ud("zh_gsd_v1", "test", "UD Chinese-GSD 1.3", tags="upos", **_BARE),
    "it-upos": _ud("it_isdt", "dev", "UD Italian-ISDT", tags="upos", **_BARE),
    "it-upos-test": _ud("it_isdt", "test", "UD Italian-ISDT", tags="upos", **_BARE),
    "id-upos": _ud("id_gsd", "dev", "UD Indonesian-GSD", tags="upos", **_BARE),
    "id-upos-test": _ud("id_gsd", "test", "UD Indonesian-GSD", tags="upos", **_BARE),
    "speech": Source(
        ("br-phono.txt",),
        "child-directed speech: 9,790 utterances in phonemes",
        "an utterance a line, words split by spaces, a character a phoneme",
        "the Bernstein-Ratner corpus of CHILDES, as Brent and Goldwater transcribed it",
        data.read_segmented,
    ),
    "sinica": Source(
        ("zh/sighan2005-as-test-gold.txt",),
        "Chinese in words: 14,429 lines of Academia Sinica",
        "a sentence a line, words split by spaces",
        "the test set of Academia Sinica in the second SIGHAN bakeoff (2005)",
        data.read_segmented,
    ),
    "newsgroups": Source(
        ("20news-bydate.txt",),
        "20 Newsgroups by date",
        "split TAB group TAB id TAB words, a document a line",
        "qwone.com/~jason/20Newsgroups, lower-cased, letters only",
        data.read_documents,
    ),
    "hansards": Source(
        ("align/hansards36.train.tok.en-fr",),
        "Hansards of the 36th parliament: 310,661 pairs of sentences",
        "en ||| fr in ASCII and lower case",
        "the aligned Hansards of the 36th parliament of Canada (ISI)",
        data.read_bitext,
    ),
    "hansards-test": _gold("test"),
    "hansards-trial": _gold("trial"),
    "earthquakes": _series("earthquakes", "earthquakes of magnitude 7 or more by year", ZUCCHINI),
    "geyser": _series(
        "geyser", "Old Faithful: waiting times, durations and how these were noted", "R's MASS, " + ZUCCHINI
    ),
    "lamb": _series("lamb", "movements of a fetal lamb", "Leroux & Puterman (1992)"),
    "soap": _series("soap", "weekly sales of a soap", ZUCCHINI),
    "seizures": _series("seizures", "epileptic seizures by day", ZUCCHINI),
    "tinnitus": _series("tinnitus", "scores of arousal by day", "the repository HMM_with_TMB"),
    "wind": _series("wind", "hourly wind at Koeberg", ZUCCHINI),
    "speed": _series("speed", "response times and accuracy", "R's depmixS4"),
    "sp500": _series("sp500", "S&P 500 by month", "R's depmixS4"),
    "gnp": _series("hamilton_gnp", "growth of GNP by quarter", SWITCHING),
    "fedfunds": _series("fedfunds", "federal funds rate, output gap, inflation", SWITCHING),
    "areturns": _series("areturns", "absolute returns on stocks by week", SWITCHING),
    "mumps": _series("mumps", "cases of mumps by month", SWITCHING),
    "filardo": _series("filardo", "industrial production and a leading index by month", SWITCHING),
    "chorales": Source(
        ("series/jsb-chorales-quarter.json",),
        "Bach's chorales in quarter notes",
        "JSON: by part, chorales of steps of MIDI notes",
        "JSB chorales, in the split of Boulanger-Lewandowski et al. (2012)",
        _read_notes,
    ),
}


@dataclass(frozen=True)
class Corpora:
    """A folder of corpora, each read once a process, when it is first asked for.

    :param folder: where the files are.

    >>> from pathlib import Path
    >>> from pyro_unsup.reproduce import Corpora
    >>> Corpora(Path("nowhere"))
    Corpora(folder=PosixPath('nowhere'))
    """

    folder: Path

    def __getitem__(self, name: str) -> Any:
        return _read(self.folder, name)

    def files(self, name: str) -> list[Path]:
        """The files of a corpus, for those who read only part of it."""
        return find(self.folder, name)

    def missing(self, needs: tuple[str, ...]) -> InputError | None:
        """What is wrong with the first of these corpora that is not there, if one is not."""
        for name in needs:
            try:
                find(self.folder, name)
            except InputError as error:
                return error
        return None

    def digest(self, needs: tuple[str, ...]) -> str:
        """A few letters that change when these corpora do."""
        return "-".join(_digest(path) for name in needs for path in find(self.folder, name))


def find(folder: Path, name: str) -> list[Path]:
    """The files of a corpus, plain or packed.

    :raises InputError: where one is missing: what it is, in which format, and where it comes from.
    """
    source = SOURCES[name]
    found = []
    for file in source.files:
        places = [folder / file, folder / Path(file).name]  # the folder may be that of one kind of data only
        named = [place.with_name(place.name + ending) for place in places for ending in PACKED]
        there = next((path for path in named if path.is_file()), None)
        if there is None:
            raise InputError(
                f"not there, nor with {', '.join(PACKED[1:])} after it: {source.what} ({source.format}), from "
                f"{source.origin}; name the folder that has it by --data or PYRO_UNSUP_DATA",
                folder / file,
            )
        found.append(there)
    return found


@cache
def _read(folder: Path, name: str) -> Any:
    return SOURCES[name].read(*find(folder, name))


@cache
def _digest(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:12]


def corpora_in(folder: str | os.PathLike[str] | None) -> Corpora:
    """The corpora in a folder, by default that in the environment variable ``PYRO_UNSUP_DATA``."""
    named = folder or os.environ.get("PYRO_UNSUP_DATA")
    if not named:
        raise UnsupError("where are the corpora? Name their folder by --data, or by PYRO_UNSUP_DATA")
    if not Path(named).is_dir():
        raise InputError("no such folder of corpora; name another by --data or PYRO_UNSUP_DATA", named)
    return Corpora(Path(named).resolve())

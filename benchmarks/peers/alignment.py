"""IBM Model 1: an EM iteration in one direction, from even weights, and one in both beside a sweep of a sampler.

In one direction the translation table after the first iteration must be the same. Error rates (``aer``) are of the
first 500 pairs against the true links, after five iterations of EM or eleven sweeps.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from .problem import Contender, Curve, Job, Problem, squares
from .texts import Arrays, bitext, offsets

JUDGED, ITERATIONS, SWEEPS = 500, 5, 10
#: More pairs than this would keep nltk busy for minutes before its first measurement.
NLTK_JUDGED = 2_000


def error_rate(data: Arrays, found: Sequence[tuple[int, int, int]] | np.ndarray) -> float:
    """:param found: rows of pair, source place and target place."""
    gold = {tuple(row) for row in data["links"].tolist() if row[0] < JUDGED}
    ours = {tuple(row) for row in np.asarray(found).tolist() if row[0] < JUDGED}
    return 1 - 2 * len(gold & ours) / (len(gold) + len(ours))


def _text(data: Arrays, pairs: int | None = None) -> Any:
    import pyro_unsup as pu

    vocab = pu.data.Vocab(str(k) for k in range(int(data["words"])))
    sides = []
    for name in ("source", "target"):
        ends = offsets(data[f"{name}_lengths"][:pairs])
        sides.append(pu.data.Corpus(data[name][: ends[-1]], ends, vocab))
    return pu.data.Bitext(*sides)


def _lines(data: Arrays, name: str) -> list[list[str]]:
    words = [f"{name[0]}{k}" for k in data[name].tolist()]
    ends = offsets(data[f"{name}_lengths"]).tolist()
    return [words[a:b] for a, b in itertools.pairwise(ends)]


def _judge(data: Arrays, aligner: Any, weights: dict[str, Any], how: str) -> float:
    from pyro_unsup.tasks.decoding.aligner import decode

    fit: Any = SimpleNamespace(model=aligner, weights=weights, config={}, preferences=())
    return error_rate(data, decode(fit, _text(data, JUDGED), how).links.rows)


def our_direction(data: Arrays) -> Job:
    import pyro
    import torch

    import pyro_unsup as pu
    from pyro_unsup.distributions import Alignment
    from pyro_unsup.tables import declare

    text = _text(data)
    aligner = pu.models.Aligner.of(text, agreement=None)
    pairs, tables = aligner.index(text), aligner.declarations()
    table = tables["translation_forward"]

    def model(pairs: Any) -> None:
        translation = declare(table)
        alone = -(pairs.grid.source_lengths + 1).to(translation.dtype).log()
        with pyro.plate("pairs", len(pairs)):
            pyro.sample("forward", Alignment(translation, pairs.grid, alone, alone), obs=pairs.cells)

    even = torch.full_like(table.layout.uniform(), -float(np.log(int(data["words"]))))
    em = pu.EM(model, init=pu.init.from_weights({"translation_forward": even})).session()
    em.start(pairs)

    def answer(_: float) -> dict[str, float]:
        checksum = squares(em.weights["translation_forward"].exp())
        for _ in range(ITERATIONS - 1):
            em.step(pairs)
        weights = {**em.weights, "translation_backward": tables["translation_backward"].layout.uniform()}
        return {"translations": checksum, "aer": _judge(data, aligner, weights, "forward")}

    return Job(lambda: em.step(pairs), answer)


def nltk(data: Arrays) -> Job:
    from nltk.translate import AlignedSent, IBMModel1

    pairs = [AlignedSent(*both) for both in zip(_lines(data, "target"), _lines(data, "source"), strict=True)]
    model = IBMModel1(pairs, 0)

    def answer(_: None) -> dict[str, float]:
        found = {"translations": sum(x * x for row in model.translation_table.values() for x in row.values())}
        if len(pairs) > NLTK_JUDGED:
            return found
        for _ in range(ITERATIONS - 1):
            model.train(pairs)
        model.align_all(pairs[:JUDGED])
        links = [(k, i, j) for k, pair in enumerate(pairs[:JUDGED]) for j, i in pair.alignment if i is not None]
        return {**found, "aer": error_rate(data, links)}

    return Job(lambda: model.train(pairs), answer)


def our_directions(data: Arrays) -> Job:
    import pyro_unsup as pu

    text = _text(data)
    aligner = pu.models.Aligner.of(text, agreement=None)
    pairs = aligner.index(text)
    em = pu.EM(aligner, init=pu.init.uniform()).session()
    em.start(pairs)

    def answer(_: float) -> dict[str, float]:
        for _ in range(ITERATIONS - 1):
            em.step(pairs)
        return {"aer": _judge(data, aligner, em.weights, "forward"), **_stages(em)}

    return Job(lambda: em.step(pairs), answer)


def _stages(session: Any) -> dict[str, float]:
    """Where an iteration goes."""
    em, began = session.engine, time.perf_counter()
    _, expected = em.e_step(session.state)
    between = time.perf_counter()
    em.m_step(session.state, expected)
    return {"e_step_s": between - began, "m_step_s": time.perf_counter() - between}


def eflomal(data: Arrays) -> Job:
    from eflomal import Aligner

    source, target = ([" ".join(line) for line in _lines(data, name)] for name in ("source", "target"))

    def sweeps(number: int) -> tuple[float, list[str]]:
        sampler = Aligner(model=1, n_iterations=(number, 0, 0), n_samplers=1)
        with tempfile.TemporaryDirectory() as folder:
            names = {f"links_filename_{way}": f"{folder}/{way}" for way in ("fwd", "rev")}
            began = time.perf_counter()
            sampler.align(source, target, **names, quiet=True)
            seconds = time.perf_counter() - began
            return seconds, Path(names["links_filename_fwd"]).read_text().splitlines()

    def run() -> dict[str, Any]:
        (few, _), (many, links) = sweeps(1), sweeps(1 + SWEEPS)
        return {"seconds": max(many - few, 1e-6) / SWEEPS, "links": links}

    def answer(found: dict[str, Any]) -> dict[str, float]:
        links = [(k, *map(int, link.split("-"))) for k, line in enumerate(found["links"]) for link in line.split()]
        return {"aer": error_rate(data, links)}

    return Job(run, answer)


def _curves(values: tuple[int, ...]) -> dict[str, Curve]:
    sizes, small = (tuple({"pairs": n, "words": words} for n in some)
                    for some, words in ((values, 8_000), ((100, 400), 1_000)))  # fmt: skip
    return {"pairs": Curve("pairs", sizes, small, "pairs")}


def _problem(name: str, unit: str, main: int, ours: Callable[[Arrays], Job], peer: Contender) -> Problem:
    tiny, values = {"pairs": 4, "words": 50}, (1_000, 5_000, 30_000)
    return Problem(name, unit, bitext, tiny, _curves(values), (Contender("ours", ours), peer), main)


PROBLEMS = (
    _problem(
        "alignment, one direction", "EM iteration", 2, our_direction,
        Contender("nltk", nltk, "nltk", "plain Python; of equals it links the last", agrees=("translations",)),
    ),
    _problem(
        "alignment, both directions", "EM iteration or sweep", 2, our_directions,
        Contender(
            "eflomal", eflomal, "eflomal", "samples links, in C: no posteriors, no likelihood",
            "a sweep draws one link a target word and moves two counts; ours adds the posterior of every link to a "
            "table of all pairs of words that meet, and normalises it",
        ),
    ),
)  # fmt: skip

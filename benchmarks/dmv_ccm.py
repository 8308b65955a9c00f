"""The product of dependency and constituent-context model, beside each of the two alone: what they learn, and time.

    python -m benchmarks.dmv_ccm                    # all of it
    python -m benchmarks.dmv_ccm --only speed       # or learning

What is learned is measured on the WSJ sample (in ``--data`` or ``PYRO_UNSUP_DATA``): tags of at most ten words
without punctuation, 555 sentences, with heads and brackets of the same words. EM from the harmonic start (heads) and
random splits (brackets), the text learned from is the text that is scored. Klein & Manning (2004) report, on ten times
as much text, 43.2 directed and 63.7 undirected for the dependency model alone, 71.9 F for the constituent-context model
alone, and 47.5, 64.5 and 77.6 for the product; F is of brackets with those of whole sentences. "F, inner" is without
them. Dependency models have brackets, too: those that go with their heads, if heads take the children on the right
first ("right") or those on the left.

Time is that of one E step on 7,000 random tag sequences of length 1 to 10, and how it grows with their length.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.data import bracket_rows, short_tag_sequences
from pyro_unsup.distributions.bracketing import constituents
from pyro_unsup.distributions.headed_bracketing import brackets_of
from pyro_unsup.evaluate import bracket_scores, head_scores
from pyro_unsup.models import CCM, DMV, DMVCCM

from .ccm import problem
from .common import arguments, corpora, figure, in_processes, markdown, plain, report, side_by_side

ARCS, SPANS = ("root", "attach", "stop"), ("yield", "context")
SMOOTHING = ((2.0, 8.0), (0.5, 2.0))  # of constituents and distituents
ITERATIONS = (20, 40)


def treebank(data: str) -> pu.data.Corpus:
    """Short sentences with heads and brackets."""
    found = corpora(data, "wsj-heads", "wsj")
    heads, trees = (short_tag_sequences(found[name]) for name in ("wsj-heads", "wsj"))
    assert [heads.sentence(i) for i in range(len(heads))] == [trees.sentence(i) for i in range(len(trees))]
    return replace(heads, spans=trees.spans, span_offsets=trees.span_offsets)


def learn(
    corpus: pu.data.Corpus, kind: str, order: str, arcs: float, spans: tuple[float, float], iterations: int
) -> dict[str, Any]:
    """One row of the table.

    :param arcs: what is added to counts of dependencies.
    :param spans: the same of constituents and distituents.
    """
    prior = {**dict.fromkeys(ARCS, 1 + arcs), **dict.fromkeys(SPANS, (1 + spans[0], 1 + spans[1]))}
    estimate, model, start = pu.DirichletMAP(), None, None
    if kind == "DMV":
        model = DMV.of(corpus, {name: prior[name] for name in ARCS})
        start = model.harmonic_start(corpus)
    elif kind == "CCM":
        model = CCM.of(corpus, prior={name: prior[name] for name in SPANS})
        start = model.split_start(corpus, estimate=estimate)
    else:
        model = DMVCCM.of(corpus, prior=prior, order=order)
        start = model.start(corpus, estimate=estimate)
    fit = pu.EM(model, estimate, start).run(corpus, iterations=iterations, tolerance=0, progress=False)
    return scores(corpus, fit.predict(corpus), order, kind == "CCM")


def scores(corpus: pu.data.Corpus, structure: torch.Tensor, order: str, brackets: bool = False) -> dict[str, Any]:
    """Of heads and the brackets that go with them; or of brackets alone."""
    found: dict[str, Any] = {}
    lengths = torch.from_numpy(corpus.lengths)
    if not brackets:
        found |= head_scores(corpus.heads, structure, corpus.lengths)
        structure = brackets_of(structure, lengths, order)
    gold, rows = bracket_rows(corpus), constituents(structure, lengths).numpy()
    found["f1"] = bracket_scores(gold, rows, corpus.lengths, "klein_manning_2004")["f1"]
    return {**found, "f1_inner": bracket_scores(gold, rows, corpus.lengths)["f1"]}


def learning(processes: int, data: str) -> None:
    corpus = treebank(data)
    figure("WSJ sample, <= 10", sentences=len(corpus), tokens=corpus.tokens, tags=len(corpus.vocab))
    keys: list[tuple[str, str, float, tuple[float, float], int]] = []
    for iterations in ITERATIONS:
        keys += [("DMV", "right", arcs, (0.0, 0.0), iterations) for arcs in (0.0, 0.1)]
        keys += [("CCM", "right", 0.0, spans, iterations) for spans in SMOOTHING]
        keys += [
            ("DMV + CCM", order, arcs, spans, iterations)
            for order in ("right", "left")
            for arcs in (0.0, 0.1)
            for spans in SMOOTHING
        ]
    names = {_name(*key): key for key in keys}
    found = dict(in_processes([(name, learn, (corpus, *key)) for name, key in names.items()], processes))
    for order in ("right", "left"):
        name = f"gold heads, {order}"
        names[name] = ("gold heads", order, 0.0, (0.0, 0.0), 0)
        found[name] = scores(corpus, torch.from_numpy(np.asarray(corpus.heads)).long(), order)
    rows = []
    for name, (kind, order, arcs, spans, iterations) in names.items():
        one = found[name]
        figure(name, **plain(one))
        smoothed = f"{arcs:g}" if kind == "DMV" else f"{spans[0]:g} / {spans[1]:g}"
        smoothed = f"{arcs:g}; {smoothed}" if kind == "DMV + CCM" else smoothed if iterations else ""
        shown = [100 * one[key] if key in one else "" for key in ("directed", "undirected", "ned", "f1", "f1_inner")]
        rows.append([kind, "" if kind == "CCM" else order, smoothed, iterations or "", *shown])
    markdown(["", "first", "smoothing", "iterations", "directed", "undirected", "NED", "F", "F, inner"], rows)


def _name(kind: str, order: str, arcs: float, spans: tuple[float, float], iterations: int) -> str:
    return f"{kind}, {order}, smoothing {arcs:g}; {spans[0]:g} / {spans[1]:g}, {iterations} iterations"


def step(corpus: pu.data.Corpus, model: Any, start: Any) -> Callable[[], Any]:
    em = pu.EM(model, init=start)
    state = em.init(corpus)
    return lambda: em.e_step(state)


def speed() -> None:
    corpus, _ = problem()
    dmv, ccm, both = DMV.of(corpus), CCM.of(corpus), DMVCCM.of(corpus)
    engines = {
        "DMV": step(corpus, dmv, dmv.harmonic_start(corpus)),
        "CCM": step(corpus, ccm, ccm.split_start(corpus)),
        "DMV + CCM": step(corpus, both, both.start(corpus)),
    }
    seconds = side_by_side(engines, repeats=9)
    alone = seconds["DMV"] + seconds["CCM"]
    report("DMV + CCM E step", seconds["DMV + CCM"], "DMV and CCM E steps", alone, sentences=len(corpus))
    lengths, times = [10, 20, 40, 80], []
    for n in lengths:
        sentences = max(2, 4000 // n**2)
        words = np.random.default_rng(n).integers(0, 30, sentences * n)
        text = pu.data.Corpus(words, np.arange(sentences + 1) * n, pu.data.Vocab(str(k) for k in range(30)))
        model = DMVCCM.of(text)
        times.append(side_by_side({"ours": step(text, model, model.start(text))}, repeats=5)["ours"] / sentences)
    exponent = float(np.polyfit(np.log(lengths[-2:]), np.log(times[-2:]), 1)[0])
    shown = [float(f"{t:.3g}") for t in times]
    figure("growth in length", words=lengths, seconds_a_sentence=shown, last_exponent=round(exponent, 2))


def main() -> None:
    asked = arguments(__doc__, ("speed", "learning"), only="", processes=2, data="")
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    if asked.only in ("", "speed"):
        speed()
    if asked.only in ("", "learning"):
        learning(asked.processes, asked.data)


if __name__ == "__main__":
    main()

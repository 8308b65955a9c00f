"""Stepwise EM with tiny mini-batches: what a pass costs, beside a pass of batch EM, for every model.

    python -m benchmarks.stepwise                       # some minutes
    python -m benchmarks.stepwise --only segmenter      # or another model

Mini-batches of 3; whole passes (the second one), all updates included, against whole iterations of batch EM on the same
data, in the same run: by the clock, and by the time of the processor (on a busy machine long passes wait more often
than short ones). ``one_by_one`` is what an update costs where each mini-batch is a run of the model: the mean of 300.
The tagger: 8,000 sentences of mean length 22, 45 states, 10,000 words. Trees: random tag sequences of length 1 to 10,
34 tags. Others as in the benchmarks of their models. What is learned: ``pyro-unsup reproduce liang-klein-2009``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

import pyro_unsup as pu
from pyro_unsup.models import CCM, DMV, DMVCCM, PCFG, Aligner, Clusterer, HMMAligner, Segmenter, SimplePCFG, Tagger

from .common import arguments, figure, report, side_by_side
from .hmm_em import problem
from .peers.segmentation import LONGEST
from .peers.texts import PHONEMES, TAGS, bitext, documents, offsets, tag_sequences, utterances

BATCH_SIZE, ONE_BY_ONE = 3, 300
SMOOTH = pu.AddLambda(0.1)

Case = tuple[Any, Any, dict[str, Any]]  #: a model, data, and settings of both engines


def tagger() -> Case:
    words, lengths, weights = problem()
    K, V = weights["emission"].shape
    corpus = pu.data.Corpus(words.numpy(), offsets(lengths.numpy()), pu.data.Vocab([f"w{i}" for i in range(V)]))
    return Tagger(K, corpus.vocab), corpus, {"init": pu.init.from_weights(weights)}


def trigram_tagger(dictionary: bool = False) -> Case:
    _, corpus, _ = tagger()
    corpus = corpus.select(range(2_000))
    allowed = None
    if dictionary:  # three tags a word
        generator = torch.Generator().manual_seed(0)
        allowed = torch.rand(17, len(corpus.vocab), generator=generator).topk(3, 0).indices
        allowed = torch.zeros(17, len(corpus.vocab), dtype=torch.bool).scatter(0, allowed, True)
    return Tagger(17, corpus.vocab, order=2, dictionary=allowed), corpus, {}


def tags(sentences: int) -> pu.data.Corpus:
    made = tag_sequences(sentences, 0, single=True)
    return pu.data.Corpus(made["tags"], offsets(made["lengths"]), pu.data.Vocab(str(k) for k in range(TAGS)))


def dmv(valence: int) -> Case:
    corpus = tags(7_000)
    model = DMV.of(corpus, valence=valence)
    return model, corpus, {"estimate": SMOOTH, "init": model.harmonic_start(corpus)}


def spans(kind: type[CCM | DMVCCM], empty_spans: bool = False) -> Case:
    corpus = tags(7_000 if kind is CCM else 3_000)
    model = kind.of(corpus, empty_spans=empty_spans)
    init = model.start(corpus) if isinstance(model, DMVCCM) else model.split_start(corpus)
    return model, corpus, {"estimate": SMOOTH, "init": init}


def grammar(kind: type[PCFG | SimplePCFG], labels: tuple[int, int]) -> Case:
    corpus = tags(2_000)
    model = kind.of(corpus, *labels)
    return model, corpus, {"estimate": SMOOTH, "init": model.split_start(corpus)}


def segmenter() -> Case:
    made = utterances(10_000)
    corpus = pu.data.Corpus(made["symbols"], offsets(made["lengths"]), pu.data.Vocab(list(PHONEMES)))
    return Segmenter.of(corpus, max_length=LONGEST), corpus, {"init": pu.init.uniform()}


def clusterer() -> Case:
    made = documents(5_000, 20, 10_000)
    vocab = pu.data.Vocab(f"w{i}" for i in range(10_000))
    return Clusterer(20, vocab), pu.data.Corpus(made["words"], offsets(made["lengths"]), vocab), {"estimate": SMOOTH}


def aligner(kind: type[Aligner], agreement: str | None) -> Case:
    made, vocab = bitext(6_000, 3_000, twice=True), pu.data.Vocab(str(k) for k in range(3_000))
    sides = (pu.data.Corpus(made[name], offsets(made[f"{name}_lengths"]), vocab) for name in ("source", "target"))
    text = pu.data.Bitext(*sides)
    return kind.of(text, agreement), text, {"init": pu.init.uniform()}


CASES: dict[str, Callable[[], Case]] = {
    "tagger": tagger,
    "segmenter": segmenter,
    "dmv": lambda: dmv(1),
    "dmv-valence-2": lambda: dmv(2),
    "clusterer": clusterer,
    "ccm": lambda: spans(CCM),
    "ccm-empty-spans": lambda: spans(CCM, True),
    "pcfg": lambda: grammar(PCFG, (10, 20)),
    "simple-pcfg": lambda: grammar(SimplePCFG, (30, 60)),
    "trigram-tagger": trigram_tagger,
    "trigram-tagger-dictionary": lambda: trigram_tagger(True),
    "aligner": lambda: aligner(Aligner, None),
    "aligner-product": lambda: aligner(Aligner, "product"),
    "hmm-aligner": lambda: aligner(HMMAligner, None),
    "hmm-aligner-product": lambda: aligner(HMMAligner, "product"),
    "dmv-ccm": lambda: spans(DMVCCM),
}


def speed(name: str) -> None:
    model, data, how = CASES[name]()
    batch, online = pu.EM(model, **how).session(), pu.StepwiseEM(model, batch_size=BATCH_SIZE, **how)
    batch.start(data)
    state = online.init(data)
    examples = online.examples_of(state)
    alone, parts = one_by_one(online, data), list(examples.batches(BATCH_SIZE, (0, 0)))
    runs = {"batch": lambda: batch.step(data)}
    if state.shortcut is not None:
        later, _ = online.step(state)  # the very first update is a run of the model
        runs["stepwise"] = lambda: online.step(later)
    seconds = side_by_side(runs, repeats=7)
    whole = seconds.get("stepwise", alone * len(parts))
    report(
        f"{name}: stepwise pass, mini-batches of {BATCH_SIZE}",
        whole,
        "pass of batch EM",
        seconds["batch"],
        threads=torch.get_num_threads(),
        examples=examples.size,
        updates=len(parts),
        compiled=state.shortcut is not None,
        times_a_batch_pass=round(whole / seconds["batch"], 2),
        microseconds_an_update=round(1e6 * whole / len(parts), 1),
        **(by_processor(runs, len(parts)) if state.shortcut is not None else {}),
        one_by_one=round(1e6 * alone, 1),
    )


def by_processor(runs: dict[str, Callable[[], Any]], updates: int, repeats: int = 21) -> dict[str, float]:
    """What a pass takes of the processor, all threads together: the least of some passes, turn by turn."""
    least = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            began = time.process_time()
            run()
            least[name] = min(least[name], time.process_time() - began)
    return {
        "processor_microseconds_an_update": round(1e6 * least["stepwise"] / updates, 1),
        "times_a_batch_pass_of_the_processor": round(least["stepwise"] / least["batch"], 2),
    }


def one_by_one(online: pu.StepwiseEM, data: Any) -> float:
    """Seconds an update, each of them a run of the model."""
    state: Any = online.init(data)
    examples = online.examples_of(state)
    parts = list(examples.batches(BATCH_SIZE, (0, 0)))[:ONE_BY_ONE]
    online.update(state, examples.select(parts[0]), {})
    began = time.perf_counter()
    for part in parts:
        online.update(state, examples.select(part), {})
    return (time.perf_counter() - began) / len(parts)


if __name__ == "__main__":
    only = arguments(__doc__, list(CASES), only="").only
    figure("machine", threads=torch.get_num_threads(), torch=torch.__version__)
    for name in CASES if not only else [only]:
        speed(name)

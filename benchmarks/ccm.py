"""One E step of the constituent-context model: against supar, tempered against plain, as it grows; and what it learns.

    python -m benchmarks.ccm                   # all of it
    python -m benchmarks.ccm --quick           # the ratios only
    python -m benchmarks.ccm --only learning   # or ratios, growth, schedules, trials
    python -m benchmarks.ccm --plot growth.png # also draw how time grows

7,000 random tag sequences of length 1 to 10, 47,835 tags. The peer is supar's constituency CRF (``pip install supar``;
without it that row is left out): marginals of all spans, sentences batched by length so that nothing is padded. First
on the same problem, one weight for each pair of first and last tag, where both must find the same sum; then a whole E
step of the model, whose tables have 98,638 yields and 1,226 contexts, through Pyro, in float64. On a busy machine set
``OMP_NUM_THREADS=1``: the peer's many small products wait for each other's threads.

What is learned is measured as Smith & Eisner (2004) did, on the WSJ sample (in ``PYRO_UNSUP_DATA``, or
``../shared/data``): tags of at most ten words, and of at most twenty, without punctuation; EM from where all trees are
alike, EM from random splits, annealing from the first (it forgets its start, so that is all the same), and annealing
toward random splits from the second. Pseudo-counts for constituents / distituents are added in every M step and to the
start. Betas 0.01, 0.015, ... and at last exactly 1. Scores are of the text that was learned from, by Viterbi: brackets
that are neither single tags nor whole sentences, averaged over brackets. "Objective" is how much higher annealing ends
than EM from the same start, in nats. Sign tests are against EM from random splits with the same model and smoothing:
sentences in which more gold brackets were found, and in which fewer cross a gold one, better : worse, and p (or 1e-99,
if that is more).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.data import bracket_rows, short_tag_sequences
from pyro_unsup.distributions import Bracketing
from pyro_unsup.distributions.bracketing_sum import spans_of
from pyro_unsup.evaluate import bracket_scores, left_branching, right_branching, sign_test_parses, upper_bound
from pyro_unsup.infer import jackknife_fits
from pyro_unsup.models import CCM
from pyro_unsup.results.decoding.parsing import decode, scores

from .common import DATA, arguments, figure, in_processes, markdown, peers_data, plain, report, side_by_side

SMOOTHING = ((0.1, 0.1), (0.5, 2.0), (2.0, 8.0))
METHODS = ("EM (uniform)", "DA", "EM (split)", "SDA (split)")
TOLERANCE = {10: 1e-9, 20: 1e-7}  # relative change of the objective, by the longest sentence
SAME = 1e-6  # two objectives that differ by less, relatively, are called the same


def problem() -> tuple[pu.data.Corpus, torch.Tensor]:
    """The tag sequences, and a log-weight for each pair of first and last tag."""
    raw = np.load(peers_data() / "tree.npz")
    vocab = pu.data.Vocab(str(k) for k in range(int(raw["T"])))
    corpus = pu.data.Corpus(raw["tokens"], np.concatenate([[0], np.cumsum(raw["lens"])]), vocab)
    return corpus, torch.from_numpy(raw["span"])


def supar_marginals(corpus: pu.data.Corpus, span: torch.Tensor) -> Callable[[], float] | None:
    """Marginals by supar, for the log-weights of the pair of tags at either end of a span; gives the sum of log Z."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from supar.structs import ConstituencyCRF
    except ImportError:
        return None
    batches = []
    for n in range(2, 11):  # supar has no trees of one word
        rows = np.flatnonzero(corpus.lengths == n)
        starts = corpus.offsets[rows][:, None] + np.arange(n)
        batches.append(torch.from_numpy(corpus.words[starts]).long())
    single = span.float()

    def run() -> float:
        total = 0.0
        for x in batches:
            scores = torch.zeros(len(x), x.shape[1] + 1, x.shape[1] + 1)
            scores[:, :-1, 1:] = single[x[:, :, None], x[:, None, :]]
            crf = ConstituencyCRF(scores, torch.full((len(x),), x.shape[1]))
            _ = crf.marginals
            total += float(crf.log_partition.detach().sum())
        return total

    return run


def same_problem(corpus: pu.data.Corpus, span: torch.Tensor) -> Callable[[], float]:
    lengths = torch.from_numpy(corpus.lengths)
    owner, start, end = spans_of(lengths)
    words, offsets = torch.from_numpy(corpus.words).long(), torch.from_numpy(corpus.offsets)
    pair = words[offsets[owner] + start] * len(span) + words[offsets[owner] + end - 1]
    value = torch.stack([pair, torch.zeros_like(pair)], 1)
    yields = torch.stack([torch.zeros(span.numel(), dtype=span.dtype), span.reshape(-1)])
    trees = Bracketing(yields, torch.zeros(2, 1, dtype=span.dtype), lengths)

    def run() -> float:
        posterior = trees.posterior(value)
        assert len(posterior.marginals) == len(value)
        return float(posterior.log_partition[lengths > 1].sum())

    return run


def e_step(corpus: pu.data.Corpus, model: Callable[..., Any], start: Any) -> pu.EM:
    em = pu.EM(model, init=start)
    em.start(corpus)
    em.look()
    return em


def ratios() -> None:
    corpus, span = problem()
    ccm = CCM.of(corpus)
    start = ccm.split_start(corpus)
    plain, tempered = e_step(corpus, ccm, start), e_step(corpus, pu.temper(ccm, 0.5), start)
    ours = same_problem(corpus, span)
    runs: dict[str, Callable[[], Any]] = {"ours": ours, "plain": plain.look}
    peer = supar_marginals(corpus, span)
    if peer is None:
        figure("supar is not installed: its rows are left out (pip install supar)")
    else:
        found = ours(), peer()
        assert abs(found[0] - found[1]) < 1e-5 * abs(found[0]), found
        runs["supar"] = peer
    seconds = side_by_side(runs, repeats=31)
    about = {"threads": torch.get_num_threads(), "sentences": len(corpus), "tokens": corpus.tokens}
    if peer is not None:
        report("span posteriors, the same weights", seconds["ours"], "supar", seconds["supar"], **about)
        report("CCM E step", seconds["plain"], "supar", seconds["supar"], **about, yields=len(ccm.inventory.yields))
    pair = side_by_side({"plain": plain.look, "tempered": tempered.look}, repeats=101)
    report("CCM tempered E step", pair["tempered"], "plain E step", pair["plain"], **about)


def text(sentences: int, words: int, seed: int = 0) -> pu.data.Corpus:
    """Random sentences of one length."""
    rng = np.random.default_rng(seed)
    tokens = np.minimum((30 ** rng.random(sentences * words)).astype(np.int64), 29)
    return pu.data.Corpus(tokens, np.arange(sentences + 1) * words, pu.data.Vocab(str(k) for k in range(30)))


def time_one(sentences: int, words: int) -> float:
    corpus = text(sentences, words)
    model = CCM.of(corpus)
    em = e_step(corpus, model, model.split_start(corpus))
    return side_by_side({"ours": em.look}, repeats=7)["ours"]


def time_trees(sentences: int, words: int) -> float:
    """Seconds a sentence for posteriors and counts, with tables so small that only the trees take time."""
    generator = torch.Generator().manual_seed(0)
    size = sentences * words * (words + 1) // 2
    value = torch.randint(50, (size, 2), generator=generator)
    yields, contexts = 0.1 * torch.randn(2, 2, 50, generator=generator, dtype=torch.float64)
    trees = Bracketing(yields, contexts, torch.full((sentences,), words))
    return side_by_side({"ours": lambda: trees.posterior(value).counts}, repeats=7)["ours"] / sentences


def growth(plot: str | None) -> None:
    lengths = [20, 40, 80, 160, 320, 640]
    by_length = [time_trees(max(4, 4000 // n), n) for n in lengths]
    sizes = [2_000, 4_000, 8_000, 16_000, 32_000]
    by_size = [time_one(n, 10) for n in sizes]
    slopes = [_slope(lengths[-3:], by_length[-3:]), _slope(sizes[-3:], by_size[-3:])]
    figure("growth in length", words=lengths, seconds_a_sentence=_rounded(by_length), last_exponent=round(slopes[0], 2))
    figure("growth in sentences", sentences=sizes, seconds=_rounded(by_size), last_exponent=round(slopes[1], 2))
    if plot is None:
        return
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure_, axes = plt.subplots(1, 2, figsize=(9, 3.5))
    for ax, x, y, label in (
        (axes[0], lengths, by_length, "words in a sentence"),
        (axes[1], sizes, by_size, "sentences of ten words"),
    ):
        power = 3 if ax is axes[0] else 1
        ax.loglog(x, y, "o-", label="E step")
        ax.loglog(x, [y[-1] * (n / x[-1]) ** power for n in x], ":", label="n³" if power == 3 else "n")
        ax.set(xlabel=label, ylabel="seconds a sentence" if power == 3 else "seconds")
        ax.set_xticks(x, [f"{n:,}" for n in x])
        ax.set_xticks([], minor=True)
        ax.legend()
    figure_.tight_layout()
    figure_.savefig(plot)


def _slope(x: list[int], y: list[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _rounded(values: list[float]) -> list[float]:
    return [float(f"{value:.3g}") for value in values]


def engine(
    corpus: pu.data.Corpus, variant: int, smoothing: tuple[float, float], method: str, factor: float = 1.5
) -> pu.EM:
    """EM or annealing of a model that has the yields and contexts of this text.

    :param factor: by which beta rises.
    """
    estimate = pu.DirichletMAP()
    ccm = CCM.of(corpus, variant=variant, prior=(1 + smoothing[0], 1 + smoothing[1]))
    start = (ccm.split_start if "split" in method else ccm.uniform_start)(corpus, estimate=estimate)
    if method.startswith("EM"):
        return pu.EM(ccm, estimate, start)
    toward = "split" if method.startswith("SDA") else None
    return pu.Anneal(ccm, estimate, start, schedule=pu.geometric(0.01, factor), toward=toward, jitter=0)


def induce(
    corpus: pu.data.Corpus, variant: int, smoothing: tuple[float, float], method: str, factor: float = 1.5
) -> dict[str, Any]:
    """One row of the table, and the brackets that a sign test needs."""
    tolerance = TOLERANCE[int(corpus.lengths.max())]
    trained = engine(corpus, variant, smoothing, method, factor)
    fit = trained.run(corpus, iterations=100_000, tolerance=tolerance, progress=False)
    decoded = decode(fit, corpus)
    found = {"e_steps": len(fit.rows), "objective": fit.objective, **scores(fit, corpus, decoded)}
    return {**found, "brackets": decoded.brackets}


def baselines(corpus: pu.data.Corpus) -> list[list[Any]]:
    gold, rows = bracket_rows(corpus), []
    for name, brackets in (
        ("right-branching", right_branching(corpus.lengths)),
        ("left-branching", left_branching(corpus.lengths)),
        ("upper bound", upper_bound(gold, corpus.lengths)),
    ):
        found = bracket_scores(gold, brackets, corpus.lengths)
        figure(f"{name}, <= {int(corpus.lengths.max())}", **plain(found))
        rows.append(["", "", name, "", "", *_shown(found), "", "", ""])
    return rows


def learning(corpus: pu.data.Corpus, processes: int) -> None:
    """A table like the paper's second."""
    longest = int(corpus.lengths.max())
    about = {"sentences": len(corpus), "tokens": corpus.tokens, "tags": len(corpus.vocab)}
    figure(f"WSJ sample, <= {longest}", **about, tolerance=TOLERANCE[longest])
    rows = baselines(corpus)
    names = {
        (variant, smoothing, method): f"CCM {variant}, {method}, smoothing {smoothing[0]:g}/{smoothing[1]:g}"
        for variant in (1, 2)
        for smoothing in SMOOTHING
        for method in METHODS
    }
    found = {}
    for name, result in in_processes([(name, induce, (corpus, *key)) for key, name in names.items()], processes):
        figure(f"{name}, <= {longest}", **plain(result))
        found[name] = result
    gold = bracket_rows(corpus)
    for (variant, smoothing, method), name in names.items():
        one, base = found[name], found[names[variant, smoothing, "EM (split)"]]
        row = [variant, f"{smoothing[0]:g} / {smoothing[1]:g}", method, one["e_steps"], f"{one['bits_per_tag']:.4f}"]
        row += _shown(one)
        if method.startswith("EM"):
            row.append("")
        else:
            same_start = "EM (split)" if "split" in method else "EM (uniform)"
            over = one["objective"] - found[names[variant, smoothing, same_start]]["objective"]
            row.append(f"{over:+.1f}" if abs(over) > SAME * abs(one["objective"]) else "the same")
        for by in ("matches", "crossings"):
            test = sign_test_parses(gold, one["brackets"], base["brackets"], corpus.lengths, by)
            row.append("" if one is base else f"{test.wins} : {test.losses}, {max(test.p_value, 1e-99):.1g}")
        rows.append(row)
    markdown(
        ["model", "smoothing", "", "E steps", "bits a tag", "UR", "UP", "F", "CB", "objective", "matches", "crossings"],
        rows,
    )


def _shown(found: dict[str, float]) -> list[float]:
    return [100 * found["recall"], 100 * found["precision"], 100 * found["f1"], found["crossing"]]


def schedules(corpus: pu.data.Corpus, processes: int) -> None:
    """Where annealing ends, by how fast beta rises, beside EM from the same start."""
    starts = {"DA": "EM (uniform)", "SDA (split)": "EM (split)"}
    keys = [
        (variant, (0.5, 2.0), method, factor)
        for variant in (1, 2)
        for annealed, plain_em in starts.items()
        for method, factor in ((plain_em, 1.5), *((annealed, factor) for factor in (1.5, 1.3, 1.15, 1.05)))
    ]
    jobs = [(f"CCM {key[0]}, {key[2]}, beta x {key[3]:g}", induce, (corpus, *key)) for key in keys]
    found = dict(in_processes(jobs, processes))
    rows: list[list[Any]] = []
    base: dict[str, Any] = {}
    for name, _, (_, variant, _, method, factor) in jobs:
        one = found[name]
        figure(name, **plain(one))
        row = [variant, method, one["e_steps"], f"{one['bits_per_tag']:.4f}", 100 * one["f1"]]
        if method.startswith("EM"):  # what follows has the same start
            base = one
            rows.append([*row[:2], "", *row[2:], ""])
        else:
            rows.append([*row[:2], f"{factor:g}", *row[2:], f"{one['objective'] - base['objective']:+.1f}"])
    markdown(["model", "", "beta times", "E steps", "bits a tag", "F", "objective"], rows)


def trials(corpus: pu.data.Corpus, processes: int) -> None:
    """A table like the paper's third: F on the text that was learned from, a tenth of it or all but a tenth."""
    rows = []
    for variant in (1, 2):
        for smoothing in SMOOTHING:
            for method in ("EM (split)", "SDA (split)"):
                row: list[Any] = [variant, f"{smoothing[0]:g} / {smoothing[1]:g}", method]
                for use in ("part", "rest"):
                    found = jackknife_fits(
                        lambda part, key=(variant, smoothing, method): engine(part, *key),
                        corpus,
                        lambda fit, part, _: 100 * fit.evaluate(part)["f1"],
                        use=use,
                        processes=processes,
                        iterations=100_000,
                        tolerance=TOLERANCE[int(corpus.lengths.max())],
                    ).scores["score"]
                    row += [found.mean, found.deviation]
                figure("jack-knife", row=row)
                rows.append(row)
    markdown(["model", "smoothing", "", "10%: mean F", "deviation", "90%: mean F", "deviation"], rows)


def main() -> None:
    asked = arguments(__doc__, quick=False, only="", plot="", processes=2)
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    only, processes = "ratios" if asked.quick else asked.only, asked.processes
    if only in ("", "ratios"):
        ratios()
    if only in ("", "growth"):
        growth(asked.plot or None)
    path = DATA / "wsj_nltk.mrg.xz"
    if not path.exists():
        figure(f"the WSJ sample is not at {path}: set PYRO_UNSUP_DATA")
        return
    treebank = pu.data.read_brackets(path)
    if only in ("", "learning"):
        for longest in (10, 20):
            learning(short_tag_sequences(treebank, longest), processes)
    if only in ("", "schedules"):
        schedules(short_tag_sequences(treebank, 10), processes)
    if only in ("", "trials"):
        trials(short_tag_sequences(treebank, 10), processes)


if __name__ == "__main__":
    main()

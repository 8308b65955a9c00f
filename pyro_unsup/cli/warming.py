"""``pyro-unsup warm-up``: compile all kernels once, so that nothing waits for a compiler later."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..data import Corpus

#: By name, a small model and data that it takes.
Case = tuple[Callable[..., Any], Any]


def warm_up(
    jobs: Annotated[int | None, typer.Option(metavar="NUMBER", min=1, help="Processes; by default one a core.")] = None,
) -> None:
    """Compile everything that is compiled when it is first used, for instance in a new image of a container.

    Kernels are compiled once and kept beside the package, or where NUMBA_CACHE_DIR says. Without this command, each is
    compiled when a model needs it first, which takes some seconds.
    """
    from joblib import Parallel, delayed

    from ..infer.progress import progress_bar

    names, began = sorted(cases()), time.perf_counter()
    processes = jobs or os.cpu_count() or 1
    run = Parallel(n_jobs=processes, return_as="generator_unordered")
    with progress_bar(total=len(names), shown=None, unit="model") as bar:
        for name in run(delayed(used)(name) for name in names):
            bar.set_postfix_str(name, refresh=False)
            bar.update()
    what = "1 kind" if len(names) == 1 else f"{len(names)} kinds"
    typer.echo(f"compiled for {what} of models in {time.perf_counter() - began:.0f} s")


def cases() -> dict[str, Callable[[], Case]]:
    """What is run: every model of the library, in the variants that have kernels of their own."""
    import pyro_unsup as pu
    from pyro_unsup.data import toy

    def words() -> Corpus:
        return toy.sentences(12, seed=1)

    def tags() -> Corpus:
        return pu.data.short_tag_sequences(toy.sentences(60, seed=1), max_length=6, drop=["PUNCT"])

    def letters() -> Any:
        return toy.utterances(12, seed=1).symbols

    def bitext() -> Any:
        return toy.bitext(12, seed=1)

    def documents() -> Any:
        return toy.documents(12, seed=1).bags

    def of(kind: Any, data: Callable[[], Any], *given: Any, **settings: Any) -> Callable[[], Case]:
        def make() -> Case:
            found = data()
            return kind.of(found, *given, **settings), found

        return make

    def tagger(**settings: Any) -> Callable[[], Case]:
        return lambda: (pu.models.Tagger(3, words().vocab, **settings), words())

    def series(emission: str) -> Callable[[], Case]:
        return lambda: (pu.models.HMM(states=2, emission=emission), [[1, 2, 1, 9, 8, 9, 2, 1], [8, 9, 1, 2]])

    models = pu.models
    return {
        "tagger": tagger(),
        "tagger, trigrams": tagger(order=2),
        "dmv": of(models.DMV, tags),
        "dmv, two valences": of(models.DMV, tags, valence=2),
        "ccm": of(models.CCM, tags),
        "dmv-ccm": of(models.DMVCCM, tags),
        "pcfg": of(models.PCFG, tags, 2, 3),
        "pcfg, factored rules": of(models.SimplePCFG, tags, 2, 3),
        "segmenter": of(models.Segmenter, letters),
        "adaptor": lambda: (models.Adaptor(letters().vocab, "collocations"), letters()),
        "adaptor, bigrams": lambda: (models.Adaptor(letters().vocab, "words", order=2), letters()),
        "aligner": of(models.Aligner, bitext),
        "aligner, directions apart": of(models.Aligner, bitext, agreement=None),
        "aligner, jumps": of(models.HMMAligner, bitext),
        "aligner, jumps, directions apart": of(models.HMMAligner, bitext, agreement=None),
        "clusterer": lambda: (models.Clusterer(2, documents().vocab), documents()),
        "hmm, counts": series("poisson"),
        "hmm, measurements": series("normal"),
    }


def used(name: str) -> str:
    """Use a model in all ways that have kernels of their own. Returns its name."""
    model, data = cases()[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of models that learn next to nothing
        for use in _uses(model, data):
            use()
    return name


def _uses(model: Any, data: Any) -> Iterator[Callable[[], object]]:
    import pyro_unsup as pu

    short: dict[str, Any] = {"iterations": 2, "tolerance": 0.0, "progress": False}
    if hasattr(model, "declarations") and model.declarations():
        fit = pu.EM(model, pu.AddLambda(0.1)).run(data, **short)
        yield lambda: fit.predict(data)
        if getattr(model, "agreement", "product") is not None:  # else there are two posteriors
            found = fit.posterior(data)
            yield from (found.mode, found.mbr, found.sample, partial(getattr, found, "marginals"))
        yield lambda: pu.EM(model, pu.DirichletVB()).run(data, **short)
        yield lambda: pu.StepwiseEM(model, pu.AddLambda(0.1), batch_size=3).run(data, **short)
        yield lambda: pu.EM(pu.harden(model), pu.AddLambda(0.1)).run(data, **short)
    if hasattr(model, "gibbs_state") and getattr(model, "agreement", None) is None:  # else labels are not sampled
        yield lambda: pu.CollapsedGibbs(model).run(data, sweeps=3, progress=False)

"""``recover``: the hidden structure of data, draw by draw of everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ..errors import UnsupError
from ..results.arviz import as_arviz, dataset
from .arguments import check_limit, check_seed, own_errors
from .convert import LIMIT
from .draws import draws_of
from .enumerated import Enumerated
from .groups import Walk, hidden_numbers
from .recovered import WAYS, Site
from .relabelled_groups import STATES
from .running import Program
from .seeds import generator, stream


@own_errors()
@torch.random.fork_rng(devices=[])
def recover(
    posterior: Any,
    model: Callable[..., Any] | None,
    *data: Any,
    how: str | Sequence[str] = ("sample", "mode"),
    units: Any = None,
    draws: int | None = None,
    seed: int = 0,
    limit: float = LIMIT,
    progress: bool = True,
) -> Any:
    """The hidden structure of data under every draw of a posterior: tags, states, trees, brackets, segments, links,
    clusters.

    In the group ``recovered``, by draw, as ``how`` says:

    - ``"sample"``: an exact draw from p(structure | data, draw), so that all draws together are from the posterior of
      the structure; ``"mode"``: the most probable one; ``"mbr"``: the one with the most parts expected to be right.
      These are integers, -1 where there is no structure.
    - ``"log_prob"``: log p(structure | data, draw) of each of them, for every example.
    - ``"entropy"`` of p(structure | data, draw), in nats, for every example.
    - ``"marginals"``: the probability of every part.

    In the group ``recovered_mean``, over all draws, what needs no names of labels to be the same in all of them:

    - ``"probabilities"``: of parts, such as arcs, links and constituents. (States and clusters are labels: take
      ``"co_assignment"``, or relabel the draws first.)
    - ``"co_assignment"``: the probability that two positions, or two documents, have the same label. Given a draw it is
      exact, but for positions of one long series, or of one sentence under a trigram tagger or very many tags. There it
      is counted in one drawn structure a draw. ``co_assignment_error`` is its standard error over draws.

    Draws go through the compiled kernels, as many at a time as fit into about a hundred megabytes. Enumerated variables
    of a model of your own go through Pyro's enumeration, draw by draw: ``"sample"`` and ``"mode"`` of all together,
    ``"marginals"`` and ``"probabilities"`` of each.

    :param posterior: a :class:`.Fit`, :class:`.Samples`, Pyro's ``MCMC``, a guide, an ArviZ object, or arrays
        (chain, draw, ...) by name.
    :param model: that it is of; None for a fit, samples and MCMC, which have one.
    :param data: what the model is called with. They need not be those of training, but for samples.
    :param how: one or several of the words above.
    :param units: of ``"co_assignment"``, the positions or documents to compare; by default all, up to 2000.
    :param draws: from a fit or a guide, how many.
    :param seed: the same draws come from the same seed.
    :param limit: bytes that a result may take. What would take more is refused before it is made.
    :param progress: show a bar if it takes longer than two seconds.
    :return: an ArviZ object.

    >>> import pyro_unsup as pu
    >>> corpus = pu.data.toy.sentences(20, seed=1)
    >>> model = pu.models.Tagger(tags=2, vocab=corpus.vocab)
    >>> fit = pu.EM(model, pu.DirichletVB()).run(corpus, iterations=5)
    >>> found = pu.recover(fit, model, corpus, draws=50, how=["mode", "co_assignment"], units=[0, 1, 2])
    >>> found.recovered["mode"].shape == (1, 50, corpus.tokens), found.recovered["mode"].dtype.kind
    (True, 'i')
    >>> found.recovered_mean["co_assignment"].shape
    (3, 3)
    """
    check_seed(seed)
    check_limit(limit)
    if not isinstance(how, Iterable) or not how:
        raise UnsupError(f"how must be one or several of {', '.join(WAYS)}; actual {how!r:.80}")
    wanted = [how] if isinstance(how, str) else list(how)
    if wrong := [name for name in wanted if name not in WAYS]:
        raise UnsupError(f"how has {wrong[0]!r:.80}, expected some of {', '.join(WAYS)}")
    if model is not None and not callable(model):
        raise UnsupError(
            f"the second argument of recover is the model, actual {type(model).__name__}: write recover(result, None, "
            "data) for a fit, samples or MCMC, which know their model"
        )
    if not data:
        raise UnsupError("recover needs the data whose structure is to be recovered")
    source = draws_of(posterior, data, model, draws, seed)
    program = Program(source)
    sites: list[Any]
    if program.structured:
        sites = _structures(program, wanted, units, seed, limit, progress)
    elif program.hidden:
        sites = [_enumerated(program, wanted, seed, limit, progress)]
    else:
        raise UnsupError("the model has neither a structured site nor an enumerated variable: nothing is hidden")
    each: dict[str, Any] = {}
    mean: dict[str, Any] = {}
    dims: dict[str, list[str]] = {}
    coords: dict[str, Any] = {}
    for site in sites:
        each |= {name: source.by_chain(x) for name, x in site.found.items()}
        mean |= site.means()
        dims |= site.dims
        coords |= site.coords
    groups = {"recovered": dataset(each, dims, coords)} if each else {}
    for name, states in ((n, k) for site in sites for n, k in getattr(site, "states", {}).items()):
        groups["recovered"][name].attrs[STATES] = states  # so that relabel knows which values are names of states
    if mean:
        groups["recovered_mean"] = dataset(mean, dims, coords, lead=())
    return as_arviz(groups)


def _structures(
    program: Program, wanted: Sequence[str], units: Any, seed: int, limit: float, progress: bool
) -> list[Site]:
    several = len(program.structured) > 1
    sites = [Site(program, name, wanted, units, f"{name}_" if several else "", limit) for name in program.structured]
    generators = [generator(seed, f"recover {site.name}") for site in sites]
    numbers = hidden_numbers(program) + sum(site.numbers for site in sites)
    for first, _, values in Walk(program.draws, numbers, "recover", progress):
        for start, end, trace in program.runs(values):
            for site, source in zip(sites, generators, strict=True):
                site.add(trace.nodes[site.name], first + start, first + end, source)
    return sites


def _enumerated(program: Program, wanted: Sequence[str], seed: int, limit: float, progress: bool) -> Enumerated:
    found = Enumerated(program, wanted, limit)
    torch.manual_seed(stream(seed, "recover"))
    for first, last, values in Walk(program.draws, 0, "recover", progress):
        for i in range(last - first):
            found.add({name: x[i : i + 1] for name, x in values.items()}, first + i)
    return found

"""Collapsed Gibbs sampling, as a kernel of Pyro's MCMC and with chains of its own."""

from __future__ import annotations

import multiprocessing
import os
from collections import OrderedDict
from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import torch
from pyro.infer.mcmc.mcmc_kernel import MCMCKernel
from pyro.poutine.messenger import Messenger
from pyro.poutine.runtime import get_plates
from torch import Tensor

from ..array import Array
from ..errors import FitError
from ..handlers import Handled
from ..models.gibbs_trees import LABELLED_SPANS
from ..results.sample_tables import draw_tables
from ..results.sample_trees import Trees, structure_of
from ..results.samples import Samples
from ..results.table_posterior import to_site
from .gibbs_chain import GibbsChain, How, a_model, own_numbers, state_of
from .gibbs_checks import is_whole, numbers
from .gibbs_identity import digest
from .hyperparameters import Gamma, Hyperparameters, Hyperprior, Learn, hyperprior
from .sampling import COLUMNS, Plan, SweepCallback, run_chains
from .schedules import Temperature, at_sweep


class CollapsedGibbs(MCMCKernel):
    """Samples the hidden labels of a model, its tables integrated out: the tags of a tagger [1], the clusters of a
    clusterer, the cuts of a segmenter [3], the links of an aligner [4], the trees of a grammar [5].

    The target is the posterior of the Pyro program itself: the Dirichlet tables of :class:`.Tagger` are integrated out
    in closed form, and what is left is p(tags | words, alpha, beta). How the boundary of a sentence is read is the
    model's ``stop``. With it, ending is one of K + 1 outcomes that the tags predict; without, the boundary is only a
    context, and there are K. (The paper prints K and leaves the rest open. Some count a second event after the end,
    (b, end, end); it is certain, so it is no part of the model here.) The number of words W that a tag may have is that
    of the model's dictionary over the model's vocabulary.

    ``how`` the labels move, by default in the first way that the model has; at temperature 1 all of these are exact:

    - ``"pointwise"``: one at a time, each from its exact conditional [1]. The fastest sweep.
    - ``"blocked"``: a sentence at a time, proposed by forward filtering and backward sampling from the counts of all
      others, and accepted by Metropolis-Hastings, which makes it exact.
    - ``"uncollapsed"``: draws the tables given the tags, then the tags of all sentences given the tables, side by side
      on several threads with the same result.

    At another temperature T the first two leave p(labels | ...)^(1/T) invariant; the third draws tags from their
    tempered posterior given tables, a heuristic. Concentrations always move at temperature 1.

    :param model: a :class:`.Tagger`; or a :class:`.Clusterer` or :class:`.Segmenter`, which is not drawn
        ``"uncollapsed"``; a clusterer only ``"pointwise"``, and so is an :class:`.Aligner` or :class:`.HMMAligner`
        without agreement. The jumps of the latter cannot be integrated out: their tables are drawn after each sweep. An
        :class:`.Adaptor` is drawn only ``"blocked"``, and so are the trees of :class:`.DMV`, :class:`.CCM`,
        :class:`.DMVCCM`, :class:`pyro_unsup.models.PCFG` and :class:`pyro_unsup.models.SimplePCFG`. Their chains start
        from trees that are drawn given the tables of the model's usual start: short dependencies, random splits.
    :param alpha: concentration of the tables that labels come from; by default what the model's ``prior`` says. Of an
        :class:`.Adaptor`, the concentration of all levels. Of trees, that of all tables but those of beta.
    :param beta: of the tables that words come from, a number or one a label; by default likewise. Of an
        :class:`.Adaptor`, the discount. Of trees, of the table ``attach`` of a DMV, ``emission`` of a grammar,
        ``context`` of the others (of those for distituents and for constituents).
    :param hyper: ``"fixed"``; ``"shared"``: one alpha and one beta are sampled (the paper's BHMM1); ``"separate"``: one
        alpha, and a beta for each label (BHMM2), or both for each level of an :class:`.Adaptor`, which is its default.
        Of trees ``"fixed"`` or ``"shared"``. By default it is ``"fixed"``.
    :param hyperprior: of alpha and beta: ``"gamma"`` for Gamma(1, 1), ``"log_uniform"``, anything with
        ``log_density(x)``, or the paper's ``"flat"``, which is improper.
    :param temperature: a number, or a function of (sweep, sweeps) such as :class:`.Cooling`. Under ``MCMC`` it runs
        over the warm-up, and stays where that ends.
    :param width: of the proposals of alpha and beta, relative to their value.
    :param hyper_steps: of Metropolis-Hastings in each sweep.
    :param keep_labels: under ``MCMC``, hand out the labels of every draw as ``diagnostics()["labels"]``. (As a sample
        they would be cast to floats, and an R-hat of labels means nothing.)
    :param keep_tables: under ``MCMC``, draw the tables given the labels, and hand them out as samples: so that
        ``Predictive`` and the likelihood of ``az.from_pyro`` have what the model asks for. Without it
        ``pu.to_arviz`` draws them as it needs them.
    :param fertility: for an aligner, let words differ in how many links they have: the concentration of the rows, one
        for each word, that these numbers are drawn from [4]. 0.5 is common.

    On its own::

        >>> import pyro_unsup as pu
        >>> corpus = pu.data.toy.sentences(50, seed=1)
        >>> kernel = pu.CollapsedGibbs(pu.models.Tagger(tags=5, vocab=corpus.vocab), hyper="shared")
        >>> samples = kernel.run(corpus, sweeps=40, burn_in=20, chains=2, seed=0, progress=False)
        >>> samples.labels.shape == (2, 20, corpus.tokens)
        True

    Under Pyro, with the same draws::

        >>> from pyro.infer import MCMC
        >>> mcmc = MCMC(kernel, num_samples=20, warmup_steps=20, disable_progbar=True, initial_params=kernel.seeds(0))
        >>> mcmc.run(corpus)
        >>> bool(mcmc.get_samples()["alpha"][-1] == samples.alpha[0, -1])
        True

    **References:**

    [1] S. Goldwater and T. Griffiths (2007) "A fully Bayesian approach to unsupervised part-of-speech tagging".
    [2] J. Gao and M. Johnson (2008) "A comparison of Bayesian estimators for unsupervised hidden Markov model POS
        taggers" (blocked and uncollapsed).
    [3] S. Goldwater, T. Griffiths and M. Johnson (2009) "A Bayesian framework for word segmentation" (the sampler).
    [4] R. Östling and J. Tiedemann (2016) "Efficient word alignment with Markov chain Monte Carlo".
    [5] M. Johnson, T. Griffiths and S. Goldwater (2007) "Bayesian inference for PCFGs via Markov chain Monte Carlo".
    """

    def __init__(
        self,
        model: Any,
        alpha: float | None = None,
        beta: float | Sequence[float] | None = None,
        hyper: Learn | None = None,
        hyperprior: Hyperprior | str = "gamma",
        how: How | None = None,
        temperature: Temperature = 1.0,
        width: float = 0.1,
        hyper_steps: int = 1,
        keep_labels: bool = True,
        keep_tables: bool = False,
        fertility: float | None = None,
    ) -> None:
        self._program = model
        self.transforms: dict[str, Any] = {}
        self._state, self._how = state_of(model, how, fertility)
        self._fertility = fertility
        self._alpha, self._beta = numbers("alpha", alpha), numbers("beta", beta, axes=1)
        self._learn: Learn = getattr(model, "hyper", "fixed") if hyper is None else hyper
        self._prior = _hyperprior(hyperprior)
        self._temperature, self._width, self._hyper_steps = temperature, width, hyper_steps
        self._keep_labels = keep_labels
        self._keep_tables = keep_tables
        self.model = model if keep_tables else Handled(model, _Integrated())
        at_sweep(temperature, 0, 2)
        self._given: dict[str, Tensor] = {}
        self._walk: GibbsChain | None = None
        # Better refused now than at the first sweep.
        learns = getattr(model.gibbs_state(), "learns", (self._learn,))
        if self._learn not in learns:
            raise FitError(
                f"the concentrations of {a_model(model)} are sampled how hyper = "
                f"{' or '.join(map(repr, learns))}, actual {self._learn!r:.80}: its labels are no rows of a table"
            )
        if own_numbers(model) is None:
            self._hyperparameters(np.ones(1), np.ones(1 if self._beta is None else self._beta.size))
        else:
            self._own_hyperparameters(np.ones(1), np.zeros(1))

    def _hyperparameters(self, alpha: Array, beta: Array) -> Hyperparameters:
        if self._alpha is not None:
            alpha = np.full(len(alpha), self._alpha)
        if self._beta is not None:
            if self._beta.ndim and self._beta.shape != beta.shape:
                raise FitError(f"beta must be a number or {len(beta)}, one a label, actual {len(self._beta)}")
            beta = np.broadcast_to(self._beta, beta.shape)
        return Hyperparameters(alpha, beta, self._learn, self._prior, self._width, self._hyper_steps)

    def _hyperparameters_of(self, state: Any) -> Any:
        own = own_numbers(self._program) is not None
        return (self._own_hyperparameters if own else self._hyperparameters)(*state.concentrations)

    def _own_hyperparameters(self, alpha: Array, beta: Array) -> Any:
        if not isinstance(self._prior, Gamma) or self._prior != Gamma():
            raise FitError("this model has priors of its own for what is sampled: leave hyperprior out")
        given = (alpha if self._alpha is None else self._alpha, beta if self._beta is None else self._beta)
        make: Any = own_numbers(self._program)
        return make(*(np.broadcast_to(x, alpha.shape) for x in given), self._learn)

    def _begin(self, data: Any, sweeps: int, seed: int, labels: Any = None, chain: int = 0) -> GibbsChain:
        state = self._state(data)
        start = None if labels is None else np.asarray(labels)
        hyper = self._hyperparameters_of(state)
        hyper.check_start()
        return GibbsChain(state, hyper, self._how, self._temperature, sweeps, seed, start, chain)

    def run(
        self,
        data: Any,
        sweeps: int = 1000,
        burn_in: int | None = None,
        thin: int = 1,
        chains: int = 1,
        parallel: int | None = None,
        seed: int = 0,
        initial: Any = None,
        callbacks: Sequence[SweepCallback] = (),
        progress: bool = True,
        checkpoint: str | PathLike[str] | None = None,
        resume: bool = False,
        checkpoint_seconds: float = 30.0,
    ) -> Samples:
        """Sample the labels of these data.

        :param data: what the model takes.
        :param sweeps: in all, for each chain.
        :param burn_in: how many of them to leave out; by default half.
        :param thin: keep every so many of the others.
        :param chains: how many there are.
        :param parallel: how many chains at a time; by default as many as there are cores. The draws are the same.
        :param seed: of the first chain; the others have the next ones.
        :param initial: labels to start every chain from; by default drawn evenly from what the dictionary allows, or
            trees by the model's usual start.
        :param callbacks: called with every :class:`.Sweep`; a true answer, or an error, interrupts all chains.
        :param progress: show how far it is.
        :param checkpoint: a folder in which to keep the chains, written every so many seconds, when the run is
            interrupted, and at the end.
        :param resume: go on from what ``checkpoint`` holds. The result is that of an uninterrupted run, bit for bit.
        :param checkpoint_seconds: how often to write.
        """
        if not (is_whole(chains, 1) and is_whole(seed, 0)):
            raise FitError(
                "expected one chain or more and a seed that is a whole number and not negative, actual "
                f"{chains!s:.80} and {seed!s:.80}"
            )
        plan = Plan(sweeps, sweeps // 2 if burn_in is None else burn_in, thin)
        walks = [self._begin(data, sweeps, seed + i, initial, i) for i in range(chains)]
        threads = min(chains, parallel or os.cpu_count() or 1)
        settings = self.settings() | ({} if initial is None else {"initial": digest({"": np.asarray(initial)})})
        traces = run_chains(
            self._program, walks, plan, settings, threads, callbacks, progress, checkpoint, resume, checkpoint_seconds
        )
        first = walks[0].state
        return Samples(
            self._program,
            draws={name: np.stack([trace.draws[name] for trace in traces]) for name in traces[0].draws},
            path={name: np.stack([trace.path[:, i] for trace in traces]) for i, name in enumerate(COLUMNS)},
            kept=plan.kept,
            best=np.stack([walk.best for walk in walks]),
            best_log_joint=np.array([walk.best_log_joint for walk in walks]),
            last=np.stack([walk.state.labels for walk in walks]),
            data=first.data,
            tables=first.tables,
            config={
                **settings,
                "sweeps": sweeps,
                "burn_in": plan.burn_in,
                "thin": thin,
                "chains": chains,
                "seed": seed,
            },
        )

    def concentrations(self, state: Any) -> tuple[Array, Array]:  # (kinds of rows,), (K,)
        """alpha and beta that chains start with, and keep unless they are learned.

        :param state: labels of data, of the model's ``gibbs_state()``.

        >>> import pyro_unsup as pu
        >>> tagger = pu.models.Tagger(tags=2, vocab=2)
        >>> state = tagger.gibbs_state()(tagger, [[0, 1]])
        >>> [x.tolist() for x in pu.CollapsedGibbs(tagger, alpha=0.5).concentrations(state)]
        [[0.5, 0.5], [1.0, 1.0]]
        """
        hyper = self._hyperparameters_of(state)
        return hyper.alpha, hyper.beta

    def settings(self) -> dict[str, Any]:
        """How it samples, in plain values.

        >>> import pyro_unsup as pu
        >>> pu.CollapsedGibbs(pu.models.Tagger(tags=2, vocab=2), alpha=0.5).settings()["alpha"]
        0.5
        """
        t = self._temperature
        temperature = (getattr(t, "__qualname__", None) or repr(t)) if callable(t) else float(t)
        if own_numbers(self._program) is not None:  # which have priors and moves of their own
            start = (np.full(1, getattr(self._program, name)) for name in ("concentration", "discount"))
            told = {"hyper": self._learn, "how": self._how, "temperature": temperature}
            return {**self._own_hyperparameters(*start).record, **told}
        return {
            "alpha": None if self._alpha is None else self._alpha.tolist(),
            "beta": None if self._beta is None else self._beta.tolist(),
            "hyper": self._learn,
            "hyperprior": repr(self._prior),
            "how": self._how,
            "temperature": temperature,
            "width": self._width,
            "hyper_steps": self._hyper_steps,
            **({} if self._fertility is None else {"fertility": float(self._fertility)}),
        }

    # What Pyro's MCMC asks of a kernel.

    def seeds(self, seed: int, chains: int = 1) -> dict[str, Tensor]:
        """``initial_params`` for :class:`pyro.infer.MCMC` that give each chain a generator of its own.

        Then the draws are those of :meth:`run` by the same seed, in sequence or in parallel. Without them, chains are
        seeded by Pyro's generator, and MCMC seeds that otherwise in sequence than in parallel.
        """
        found = {"seed": torch.full((chains,), seed), "chain": torch.arange(chains)}
        return {name: x[0] for name, x in found.items()} if chains == 1 else found

    @property
    def initial_params(self) -> dict[str, Tensor]:
        return self._params()

    @initial_params.setter
    def initial_params(self, params: dict[str, Tensor]) -> None:
        if params.keys() != {"seed", "chain"}:
            raise FitError(f"initial_params should be kernel.seeds(seed, chains), actual {sorted(params)}")
        self._given = dict(params)

    def setup(self, warmup_steps: int, *args: Any, **kwargs: Any) -> None:
        """Begin a chain on these data."""
        if len(args) + len(kwargs) != 1:
            raise FitError(
                "mcmc.run takes the data and nothing else (sentences, not words and lengths), actual "
                f"{len(args) + len(kwargs)} arguments"
            )
        (data,) = (*args, *kwargs.values())
        seed = int(self._given["seed"]) + self._chain() if self._given else int(torch.randint(2**31, ()))
        self._walk = self._begin(data, warmup_steps, seed)
        self._warmup, self._labels, self._rates = warmup_steps, list[Tensor](), list[dict[str, float]]()
        self._concentrations: list[Tensor] = []
        self._generator = torch.Generator().manual_seed(seed)  # of the tables: the chain has one of its own

    def _chain(self) -> int:
        # MCMC's workers are named after their chains, and all have the initial_params of the last one.
        name = multiprocessing.current_process().name
        worker = multiprocessing.parent_process() is not None and name.isdigit()
        return int(name) if worker else int(self._given["chain"])

    def sample(self, params: dict[str, Tensor]) -> dict[str, Tensor]:
        """One sweep. The chain goes on from where it is, which is what ``params`` tell of."""
        assert self._walk is not None
        found = self._walk.step()
        if found.sweep > self._warmup:
            self._rates.append(found.rates)
            if self._keep_labels:
                self._labels.append(torch.from_numpy(self._walk.state.labels))
                hyper = self._walk.hyper
                self._concentrations.append(torch.from_numpy(np.concatenate([hyper.alpha, hyper.beta])))
        return self._params()

    def _params(self) -> dict[str, Tensor]:
        """Numbers that mean the same however the labels are called, as far as there are any; and the tables."""
        assert self._walk is not None
        state, hyper = self._walk.state, self._walk.hyper
        parts: dict[str, Any] = {**hyper.sampled, **_numbers(self._program, state)}
        parts["log_joint"] = np.array(self._walk.log_joint)
        if self._keep_tables:
            drawn = draw_tables(self._program, state, hyper.alpha, hyper.beta, self._generator)
            declared = self._program.declarations()
            parts |= {name: to_site(declared[name].layout, w.exp()).numpy() for name, w in drawn.items()}
        flat = torch.from_numpy(np.concatenate([x.reshape(-1) for x in parts.values()], dtype=np.float64))
        ends = np.cumsum([x.size for x in parts.values()]).tolist()
        return {
            name: flat[end - x.size : end].reshape(x.shape) if x.ndim else flat[end - 1]
            for (name, x), end in zip(parts.items(), ends, strict=True)
        }

    def logging(self) -> OrderedDict[str, str]:
        assert self._walk is not None
        walk = self._walk
        now = at_sweep(self._temperature, min(walk.sweep, max(walk.sweeps - 1, 0)), walk.sweeps)
        return OrderedDict([("temperature", f"{now:.3g}"), ("log joint", f"{walk.log_joint:.1f}")])

    def diagnostics(self) -> dict[str, Any]:
        """Acceptance rates after the warm-up, the best and the last labels, and those of every draw."""
        assert self._walk is not None
        names = self._rates[0] if self._rates else {}
        found: dict[str, Any] = {
            "acceptance rate": {name: float(np.mean([rates[name] for rates in self._rates])) for name in names},
            "best": torch.from_numpy(self._walk.best),
            "best log joint": self._walk.best_log_joint,
            "last": torch.from_numpy(self._walk.state.labels),
            "divergences": [],  # which az.from_pyro asks every kernel for
            "alphas": len(self._walk.hyper.alpha),
        }
        if not self._labels:
            return found
        return {**found, "labels": torch.stack(self._labels), "concentrations": torch.stack(self._concentrations)}

    def labels_of(self, mcmc: Any) -> tuple[Array, Array, Array]:
        """Of a run of MCMC with this kernel: labels (chains, draws, units), alpha (chains, draws, kinds of rows), beta
        (chains, draws, K).

        >>> import pyro_unsup as pu
        >>> from pyro.infer import MCMC
        >>> kernel = pu.CollapsedGibbs(pu.models.Tagger(tags=2, vocab=3))
        >>> mcmc = MCMC(kernel, num_samples=5, warmup_steps=0, disable_progbar=True)
        >>> mcmc.run([[0, 1, 2], [1, 1]])
        >>> [x.shape for x in kernel.labels_of(mcmc)]
        [(1, 5, 5), (1, 5, 2), (1, 5, 2)]
        """
        told = mcmc.diagnostics()
        if "labels" not in told:
            raise FitError("the run has not kept its labels: use CollapsedGibbs(keep_labels=True)")
        each = [f"chain {i}" for i in range(mcmc.num_chains)]
        labels = np.stack([told["labels"][chain].numpy() for chain in each])
        both = np.stack([told["concentrations"][chain].numpy() for chain in each])
        kinds = told["alphas"][each[0]]
        return labels, both[..., :kinds], both[..., kinds:]

    def cleanup(self) -> None:
        self._given = {}


def _numbers(model: Any, state: Any) -> dict[str, Array]:
    """What sums labels up: how many units have each, from the largest; of trees, what :meth:`.Trees.numbers` says."""
    labels = state.labels
    found = {}
    if structure_of(model) is not None:
        found = {name: np.array(x) for name, x in Trees(model, np.diff(state.offsets)).numbers(labels).items()}
    if structure_of(model) in (None, LABELLED_SPANS):
        found["cluster_sizes"] = np.sort(np.bincount(labels[labels >= 0], minlength=state.K))[::-1]
    return found


class _Integrated(Messenger):
    """Refuses to make tables for draws that have none: those of the prior would be taken for the posterior's."""

    def _pyro_table(self, msg: Any) -> None:
        if any(plate.name == "_num_predictive_samples" for plate in get_plates()):
            raise FitError(
                f"the draws have no table '{msg['name']}', which was integrated out: use "
                "CollapsedGibbs(keep_tables=True), or pu.to_arviz"
            )


_hyperprior = hyperprior  # the argument of the same name hides it

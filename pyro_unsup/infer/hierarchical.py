"""Empirical Bayes for any model: weights of its own for every example, and a logistic-normal prior learned from all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import FitError, TableError
from ..estimate.normal.covariance import Given, brief, covariance_of, know_some_label, shapes, understood
from ..estimate.normal.empirical_normal import RowPriors, expected, reestimated
from ..estimate.normal.logistic_normal_updates import Array, Posterior, at_prior, divergence
from ..estimate.settings import is_number
from ..estimate.table_rows import TableRows
from ..kernels.threads import plain_torch
from ..results import Fit
from ..tables import Declaration
from .em import EM
from .examples import Examples
from .init import Initial, noise
from .loop import Info
from .outcome import State
from .own_weights import OwnExpectation
from .used_rows import Pairs, used_rows

#: Bytes that a cell of a pair takes: its posterior, log-weight, count and place, old and new.
BYTES = 64


class HierarchicalEM(EM):
    """Variational EM in which every example draws its own weights, and what all examples have in common is learned [1]:

        for each row of each table:  mu, Sigma
        for each example:            eta ~ N(mu, Sigma) for each row, theta = softmax(eta); then the example by theta

    The posterior of an example is its hidden structure, summed out under its own weights, times a Gaussian for every
    row that it uses, N(m, diag s2). An iteration sums the structures of every example (E step), fits the Gaussians to
    what is expected of each, and re-estimates mu and Sigma from all of them (:mod:`.empirical_normal`). The objective
    is a lower bound of the log evidence, which no step lowers: the log Z of all examples, each under its own weights
    (their sum is ``log_likelihood`` in the history), minus the divergences of all Gaussians from N(mu, Sigma), plus a
    log prior that keeps covariances from collapsing.

    The tables of a fit are softmax(mu), as for a new example: what is decoded, text that was learned from too, is
    decoded with them. ``fit.guide()`` and ``fit.to_arviz(draws=...)`` draw the tables of a new example, softmax(eta)
    with eta ~ N(mu, Sigma). ``fit.memory`` has mu and Sigma of all rows that have a choice, ``<table>.mean`` and
    ``<table>.covariance``; ``fit.state`` the posteriors of the examples, to go on from.

    Examples are told apart as for mini-batches (a model's ``index``). Which rows one can use is found by an E step
    under uniform weights, once: rows without counts meet no data, and are left out. A model with ``own_weights = True``
    has the E steps of many examples done at once; any other is run once for each example, a few milliseconds every
    time.

    :param init: where mu starts (a harmonic start, say), see :mod:`pyro_unsup.infer.init`.
    :param covariance: of the outcomes of a row: ``"diagonal"`` or ``"full"``, which start at the variance times the
        identity; or where Sigma starts. That is a mapping from the labels of outcomes to families, which vary together,
        or a tensor (an array, lists) for the tables that it suits: (outcomes, outcomes), or (outcomes,) of variances.
        Families and matrices make the covariance of a table full, variances diagonal; tables that they say nothing of
        are diagonal. All are learned from there.
    :param variance: on the diagonal of Sigma at the start, where ``covariance`` is not a tensor.
    :param within: the correlation within a family at the start.
    :param rounds: how often structures and Gaussians take turns before mu and Sigma move.
    :param strict: check the bound after every coordinate step of the Gaussians.
    :param max_gib: most memory for the posteriors of all examples: as many numbers as the rows have outcomes that each
        uses, a few times over.

        >>> import pyro_unsup as pu
        >>> sentences = [[0, 1, 1, 2], [2, 1, 0], [0, 1, 2]]
        >>> fit = pu.HierarchicalEM(pu.models.DMV(tags=3)).run(sentences, iterations=5, tolerance=0)
        >>> bool((fit.history.objective.diff()[1:] > 0).all())
        True
        >>> sorted(fit.memory)[:2]
        ['attach.covariance', 'attach.mean']

    **References:** [1] S. Cohen, K. Gimpel and N. Smith (2008) "Logistic normal priors for unsupervised probabilistic
    grammar induction".
    """

    ADDS_UP = False  # examples keep what is theirs

    def __init__(
        self,
        model: Callable[..., Any],
        init: Initial | None = None,
        *,
        covariance: Given = "diagonal",
        variance: float = 1.0,
        within: float = 0.5,
        rounds: int = 1,
        strict: bool = False,
        max_gib: float = 4.0,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__(model, None, init, dtype=dtype)
        if not (is_number(variance) and 0 < variance < float("inf")):
            raise FitError(
                "the covariance is not positive definite: variance must be a finite number above 0, actual "
                f"{variance!r:.80}"
            )
        if not (is_number(within) and 0 <= within < 1):
            raise FitError(f"within must be a number in [0, 1), actual {within!r:.80}")
        if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
            raise FitError(f"rounds must be a whole number, 1 or more, actual {rounds!r:.80}")
        self.covariance: Given = understood("HierarchicalEM", covariance)
        self.variance, self.within, self.rounds = float(variance), within, rounds
        self.strict, self.max_gib = strict, max_gib
        self._rows: dict[str, TableRows] = {}  # of tables that have a choice somewhere
        self._pairs: dict[str, Pairs] = {}
        self._posteriors: dict[str, Posterior] = {}
        self._counts: dict[str, Array] = {}
        self._own: OwnExpectation | None = None
        self._began_with: tuple[Any, ...] = ()

    # -- where it begins

    def start(self, *args: Any, seed: int = 0, **kwargs: Any) -> None:
        data, fresh = (*args, *kwargs.values()), self._marginal is None
        known = self._began_with
        if not fresh and (len(data) != len(known) or any(a is not b for a, b in zip(data, known, strict=True))):
            raise FitError(
                "HierarchicalEM remembers the posteriors of the data that it began with, and these are others: make a "
                "new engine for them, with init=pu.init.from_weights(fit) to start from what was learned"
            )
        examples = Examples.of(self.model, args, kwargs) if fresh else None
        super().start(*args, seed=seed, **kwargs)
        if examples is None:
            return
        try:
            self._begin(examples)
        except BaseException:
            self._marginal = None
            raise
        self._began_with = data

    def _initialise(self, generator: torch.Generator) -> None:
        """mu at the initial weights."""
        init = noise(self.NOISE) if self.init is None else self.init
        found = init(self.declarations, generator)
        know_some_label("HierarchicalEM", self.covariance, self.declarations)
        if not any(self._suits(declaration) for declaration in self.declarations.values()):
            assert isinstance(self.covariance, Tensor)
            sizes = {name: shapes(declaration)[1] for name, declaration in self.declarations.items()}
            raise TableError(
                f"HierarchicalEM: a covariance of shape {tuple(self.covariance.shape)} suits no table, expected one of "
                f"{sizes} or the variances on its diagonal"
            )
        priors: dict[str, RowPriors] = {}
        for name, declaration in self.declarations.items():
            start = declaration.layout.check(name, found[name])
            given = self.covariance if self._suits(declaration) else "diagonal"
            sigma = covariance_of(declaration, given, self.variance, self.within)
            prior = RowPriors.start(declaration, start, sigma, isinstance(given, str) and given == "full")
            if len(prior.rows.numbers):
                priors[name] = prior
        self._rows = {name: prior.rows for name, prior in priors.items()}
        self._remember(priors)

    def _suits(self, declaration: Declaration) -> bool:
        return not isinstance(self.covariance, Tensor) or self.covariance.shape in shapes(declaration)

    def _begin(self, examples: Examples) -> None:
        """Find out which rows every example uses, and begin with posteriors at the prior."""
        assert self._marginal is not None
        if others := sorted(self._moving()):
            raise FitError(f"examples cannot each have their own {others}, only tables: train the model with EM")
        if not self._rows:
            raise FitError("no row of any table has two outcomes: there is nothing to learn")
        uniform = {name: d.layout.uniform(self.dtype) for name, d in self.declarations.items()}
        cells = sum(w.numel() for w in uniform.values())
        self._own = OwnExpectation(self.model, self._points, self.dtype, self._marginal.plates, examples, cells)
        found = used_rows(self._own, uniform, self._rows)
        for name, (_, rows) in found.items():
            if not len(rows):
                raise FitError(f"table '{name}' gets no counts at all: does the model use it?")
            self.unvisited[name] = len(self._rows[name].numbers) - len(np.unique(rows))
        need = BYTES * sum(int(np.diff(self._rows[name].offsets)[rows].sum()) for name, (_, rows) in found.items())
        if need > self.max_gib * 2**30:
            raise FitError(
                f"the posteriors of {examples.size} examples would take about {need / 2**30:.3g} GiB, more than "
                f"max_gib = {self.max_gib:g}: learn from fewer examples, raise max_gib, or use EM with LogisticNormal, "
                "where all examples share their weights"
            )
        self._pairs = {name: Pairs.of(self._rows[name], *both, examples.size) for name, both in found.items()}
        self._posteriors = {
            name: at_prior(prior.of_pairs(self._pairs[name].rows)) for name, prior in self._priors().items()
        }

    # -- an iteration

    def look(self) -> Info:
        """The E step of every example."""
        found, self._counts = self._expectations(self._posteriors)
        with plain_torch():
            bound = found
            for name, prior in self._priors().items():
                rows = self._pairs[name].rows
                bound -= float(divergence(prior.of_pairs(rows), self._posteriors[name]).sum())
                bound += prior.log_prior(rows)
        return Info(self.iteration, bound, found)

    def move(self) -> None:
        """The posteriors of all pairs, and then mu and Sigma."""
        posteriors, priors, counts = self._posteriors, self._priors(), self._counts
        for round_ in range(self.rounds):
            if round_:
                _, counts = self._expectations(posteriors)
            with plain_torch():
                posteriors = {
                    name: expected(
                        counts[name], self._pairs[name].rows, prior, posteriors[name], strict=self.strict
                    ).posterior
                    for name, prior in priors.items()
                }
        with plain_torch():
            new = {name: reestimated(prior, self._pairs[name].rows, posteriors[name]) for name, prior in priors.items()}
            self._remember(new)
        self._posteriors = posteriors
        self.iteration += 1

    def evaluate_loss(self, *args: Any, **kwargs: Any) -> float:
        """The loss as it is now, without an update."""
        self.start(*args, **kwargs)
        return -self.look().objective

    def _expectations(self, posteriors: Mapping[str, Posterior]) -> tuple[float, dict[str, Array]]:
        """The sum of log Z, and the expected counts of every cell of every pair."""
        assert self._own is not None
        psi = {name: q.log_weights(self._pairs[name].offsets) for name, q in posteriors.items()}
        counts: dict[str, Array] = {name: np.zeros(len(x)) for name, x in psi.items()}

        def weights(first: int, last: int) -> dict[str, Tensor]:
            others = {name: w.expand(last - first, *w.shape) for name, w in self.weights.items() if name not in psi}
            own = (self._pairs[name].tables(x, self.weights[name], first, last) for name, x in psi.items())
            return others | dict(zip(psi, own, strict=True))

        total = 0.0
        for first, last, found in self._own(weights, self.iteration):
            total += found.log_marginal
            for name, pairs in self._pairs.items():
                mine, heard = pairs.gather(found.counts[name], first, last)
                counts[name][mine] = heard.clip(min=0)  # what rounding leaves below zero is zero
        return total, counts

    # -- what there is to know, and to keep

    def _priors(self) -> dict[str, RowPriors]:
        memory = self.remembered
        return {
            name: RowPriors(rows, memory[f"{name}.mean"].numpy(), memory[f"{name}.covariance"].numpy())
            for name, rows in self._rows.items()
        }

    def _remember(self, priors: Mapping[str, RowPriors]) -> None:
        """Make these the current priors, and the tables those at their means."""
        self.remembered = {
            f"{name}.{key}": torch.from_numpy(x)
            for name, prior in priors.items()
            for key, x in (("mean", prior.mean), ("covariance", prior.covariance))
        }
        mean = {name: p.rows.scatter(torch.from_numpy(p.mean)) for name, p in priors.items()}
        layouts = {name: declaration.layout for name, declaration in self.declarations.items()}
        self.weights = {
            name: layout.normalise(mean[name] if name in mean else layout.uniform()).to(self.dtype)
            for name, layout in layouts.items()
        }

    def described(self) -> dict[str, Any]:
        given = self.covariance
        return {
            "estimate": "a logistic normal of each example",
            "covariance": given if isinstance(given, str) else brief(given),
            "variance": self.variance,
            **({"within": self.within} if isinstance(given, Mapping) else {}),
            "rounds": self.rounds,
        }

    def _settings(self) -> dict[str, Any]:
        own = ("model", "init", "covariance", "variance", "within", "rounds", "strict", "max_gib", "dtype")
        return {name: getattr(self, name) for name in own}

    def _state(self) -> State:
        kept: dict[str, Tensor] = {}
        for name, pairs in self._pairs.items():
            q = self._posteriors[name]
            found = {"examples": pairs.examples, "rows": pairs.rows, "mean": q.mean, "variance": q.variance}
            kept |= {f"{name}.{key}": torch.from_numpy(x) for key, x in found.items()}
        return {**super()._state(), "state": kept}

    def _adopt(self, fit: Fit, args: Any, kwargs: Any) -> None:
        super()._adopt(fit, args, kwargs)
        for name, pairs in self._pairs.items():
            self._check_covariance(name)
            kept = [fit.state.get(f"{name}.{key}", torch.zeros(0)) for key in ("examples", "rows", "mean", "variance")]
            same = [np.array_equal(x.numpy(), own) for x, own in zip(kept, (pairs.examples, pairs.rows), strict=False)]
            if not all(same) or any(x.shape != pairs.places.shape for x in kept[2:]):
                raise FitError(
                    f"the fit to go on from has posteriors of other examples for table '{name}': resume with the data "
                    "that it was trained on, or start from what was learned with init=pu.init.from_weights(fit)"
                )
            self._posteriors[name] = Posterior(kept[2].numpy(), kept[3].numpy())

    def _check_covariance(self, name: str) -> None:
        x = self.remembered[f"{name}.covariance"]
        bad = ~(x > 0) if x.dim() == 1 else torch.linalg.cholesky_ex(x).info > 0
        if bool(bad.any()):
            row = int(bad.nonzero()[0, 0])
            which = f"the variance of cell {row}" if x.dim() == 1 else f"the covariance of row {row}"
            raise FitError(f"table '{name}': {which} in the fit to go on from is not positive definite")

"""Expectation-maximisation for any Pyro model whose hidden structure is summed out or enumerated."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..errors import FitError, TableError
from ..estimate import Additive
from ..kernels.threads import plain_torch
from .climb import climb
from .engine import Engine
from .expectation import Expectation, naming
from .loop import Info


class EM(Engine):
    """Batch EM, with the manners of :class:`pyro.infer.SVI`: ``step(batch)`` returns the loss, ``run(corpus)`` a fit.

    The model is a Pyro program. Its tables (:func:`pyro_unsup.table`) are re-estimated from expected counts, in
    closed form or, with features (:class:`.LogLinear`), by L-BFGS; its ``pyro.param`` sites and continuous latent
    variables (at their posterior mode) by L-BFGS on the expected complete log-likelihood. Discrete latent variables are
    enumerated without being asked to.

    :param estimate: how counts become weights, one for all tables or by table name (others then :class:`.Normalise`).
    :param init: where to start, see :mod:`pyro_unsup.infer.init`.
    :param dtype: of the tables and all sums.
    :param lbfgs_iterations: L-BFGS iterations in each M step, for parameters that are not tables.

    The objective is the log-likelihood plus the estimators' log priors, and never falls; what looks like a fall beyond
    rounding is an error, as are NaN and rows without counts. (A structure whose E step is a heuristic may fall.)

        >>> import pyro_unsup as pu
        >>> sentences = [[0, 1], [0, 1, 1], [1, 0, 1]]
        >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2)).run(sentences, iterations=20)
        >>> fit.predict([[0, 1, 1]]).shape
        torch.Size([3])

    In a loop of your own::

        >>> engine = pu.EM(pu.models.Tagger(tags=2, vocab=2))
        >>> engine.start(sentences, seed=1)
        >>> for _ in range(3):
        ...     info = engine.look()  # the E step
        ...     engine.move()  # the M step
        >>> info.iteration, engine.settled(info, tolerance=1e-6), engine.described()
        (2, False, {})
        >>> engine.step(sentences) > engine.evaluate_loss(sentences)
        True
    """

    _expected: Expectation | None = None

    def step(self, *args: Any, **kwargs: Any) -> float:
        """One E step and one M step on a batch. Returns the loss before the update, as ``SVI.step`` does."""
        self.start(*args, **kwargs)
        info = self.look()
        self.move()
        return -info.objective

    def evaluate_loss(self, *args: Any, **kwargs: Any) -> float:
        """The loss of the current weights on a batch, without an update."""
        self.start(*args, **kwargs)
        return -(self._log_likelihood(self.weights) + self._log_prior())

    def look(self) -> Info:
        """The E step."""
        self._expected = None  # its counts make room for new ones
        found = self._expected = self._checked(self._expect(self.weights))
        with plain_torch():
            return Info(self.iteration, found.log_marginal + self._log_prior(), found.log_marginal)

    def move(self) -> None:
        """The M step."""
        assert self._expected is not None
        found = self._expected
        with plain_torch():
            new, memory = self._estimated(found, self.weights, self.remembered)
        if found.factors:
            with naming(self.iteration):
                self._move_others(found)
        self.weights, self.remembered = new, memory
        self.iteration += 1

    def _estimated(
        self, found: Expectation, old: dict[str, Tensor], memory: dict[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """New weights of every table, and what there is to remember besides."""
        new = {}
        for name, declaration in self.declarations.items():
            counts = found.counts[name]
            empty = declaration.layout.row_sum(counts) == 0
            if bool(empty.all()) and not self._needs_none(name):
                raise FitError(
                    f"iteration {self.iteration}: table '{name}' got no counts at all: does the model use it? If the "
                    "data do not reach it (sentences of one word, say), a prior tells what it is: smooth (AddLambda)"
                )
            if name in self.estimation.plain:
                self.unvisited[name] = int(empty.sum())
        try:
            for name, how in self.estimation.plain.items():
                new[name] = how.weights(self.declarations[name], found.counts[name], old[name])
            memory = self.estimation.update(found.counts, memory)
        except TableError as error:
            raise FitError(f"iteration {self.iteration}: {error}") from None
        new |= self.estimation.tables(memory, self.dtype)
        return {name: new[name] for name in self.declarations}, memory

    def _needs_none(self, name: str) -> bool:
        """Whether a prior tells what a table is that no data reach (that of attachment in one-word sentences, say)."""
        how: Any = self.estimation.plain.get(name)
        if not isinstance(how, Additive):
            return how is None
        return bool((how.pseudo_counts(self.declarations[name]) > 0).any())

    def _move_others(self, found: Expectation) -> None:
        """Parameters that are not tables: climb the expected complete log-likelihood."""
        marginal = self._marginal
        assert marginal is not None
        climb(
            [p for p in self._moving().values() if p.requires_grad],
            lambda: marginal.expected_complete(self.weights, found.factors, *self._data),
            self.lbfgs_iterations,
        )

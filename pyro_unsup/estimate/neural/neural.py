"""Neural tables: rows that come from networks, trained in the M step."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import shorten
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ... import registry
from ...errors import DivergenceError, NotDescribable, TableError
from ...tables import Declaration
from ..base import Declarations, Differentiable, Tensors
from .embeddings import Embeddings
from .networks import MakeNetwork, Networks
from .training import (
    Objective,
    adam,
    expected_objective,
    lbfgs,
    seed_of,
    slope,
    value_at,
)

#: What it remembers besides the weights of its networks: the seed of its chance numbers, and updates so far.
CHANCE = "chance"
#: Weights beyond this say no more than that something is impossible.
LARGEST = 1e3
#: Steps after a mini-batch, and to fit networks to initial tables; the prior of that fit.
FEW, MANY, START_DECAY = 5, 200, 1e-6
#: Where the learning rate leads down, this part of it is tried, then this part of that.
SLOWER, RATES = 0.1, 3


class Neural(Differentiable):
    """Tables whose rows are softmaxes of the scores of a network [1, 2].

    Each table has a network, by default :class:`.Embeddings`: vectors for the labels of its axes, and for the
    endings and shapes of words. The M step trains the networks on the expected counts:

        maximise  sum over cells of count * log theta  -  weight_decay * (sum of squares of all weights)

    The second part is a Gaussian prior, so the objective of EM is the log-likelihood with it. An M step keeps the old
    weights if training found no better ones: the objective never falls. For the direct gradient of the log marginal
    instead, see :class:`pyro_unsup.Gradient`. For stock ``SVI`` with mini-batches, see :meth:`networks`.

    :param net: makes the network of a table: :class:`.Embeddings` with other settings, :class:`.Cells`, or a function
        of your own from a :class:`.Declaration` to a ``torch.nn.Module``. The module is called without arguments and
        returns the scores of all cells, in the shape of the table. To save yours with fits, register its class
        (``pu.registry.register("networks", name, Class)``) and give it ``settings`` and ``from_settings``.
    :param weight_decay: strength of the prior, 1 / (2 variance); the ``kappa`` of :class:`.LogLinear`.
    :param optimiser: ``"adam"``, or ``"lbfgs"`` for networks without dropout, which goes further in as many steps.
    :param learning_rate: of Adam. A step that ends lower than it began is tried again with a tenth, twice at most.
    :param steps: the most in an M step (engines for mini-batches make 5 after each, if this is more).
    :param tolerance: relative change of the objective of an M step at which it is done.
    :param fresh: train a new network in each M step, from new random weights, instead of going on with the old one.
    :param fit_start: begin with networks fitted to the engine's initial tables, ``init=``; else they start random.

    Resuming goes on exactly where a run ended. Torch's global generator is left as it was. A fit keeps the weights of
    the networks by name in ``fit.memory``, and a description of how to build them.

        >>> import pyro_unsup as pu
        >>> words = ["dog", "dogs", "cat", "cats"]
        >>> model = pu.models.Tagger(tags=2, vocab=pu.data.Vocab(words))
        >>> fit = pu.EM(model, pu.Neural(weight_decay=0.01)).run([[0, 1], [2, 3, 1]], iterations=5)
        >>> fit.history.objective.is_monotonic_increasing
        True
        >>> list(fit.memory)[:3]
        ['chance', 'start.bias', 'start.only_row']

    A network of your own: all tags share their scores of words, up to a factor::

        >>> import torch
        >>> class Shared(torch.nn.Module):
        ...     def __init__(self, declaration):
        ...         super().__init__()
        ...         tags, words = declaration.layout.shape
        ...         self.factor = torch.nn.Parameter(torch.randn(tags, 1))
        ...         self.scores = torch.nn.Parameter(torch.randn(words))
        ...     def forward(self):
        ...         return self.factor * self.scores
        >>> fit = pu.EM(model, {"emission": pu.Neural(Shared)}).run([[0, 1], [2, 3, 1]], iterations=2)
        >>> fit.memory["emission.factor"].shape
        torch.Size([2, 1])

    **References:** [1] Y. Jiang, W. Han and K. Tu (2016) "Unsupervised neural dependency parsing"; [2] K. Tran et al.
    (2016) "Unsupervised neural hidden Markov models".
    """

    def __init__(
        self,
        net: MakeNetwork | None = None,
        *,
        weight_decay: float = 0.0,
        optimiser: Literal["adam", "lbfgs"] = "adam",
        learning_rate: float = 0.01,
        steps: int = 50,
        tolerance: float = 1e-5,
        fresh: bool = False,
        fit_start: bool = False,
    ) -> None:
        if net is not None and not callable(net):
            raise TableError(
                f"Neural: net must be a function from the declaration of a table to a torch.nn.Module, "
                f"actual {net!r:.80}"
            )
        for name, value in (("weight_decay", weight_decay), ("tolerance", tolerance)):
            _check_number(name, value, least=0.0)
        _check_number("learning_rate", learning_rate, least=float(np.nextafter(0, 1)))
        if optimiser not in ("adam", "lbfgs"):
            raise TableError(f"Neural: optimiser must be 'adam' or 'lbfgs', actual {optimiser!r:.80}")
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            raise TableError(f"Neural: steps must be a whole number, at least 1, actual {steps!r:.80}")
        for name, flag in (("fresh", fresh), ("fit_start", fit_start)):
            if not isinstance(flag, bool):
                raise TableError(f"Neural: {name} must be True or False, actual {flag!r:.80}")
        self.net: MakeNetwork = Embeddings() if net is None else net
        self.weight_decay, self.optimiser, self.learning_rate = float(weight_decay), optimiser, float(learning_rate)
        self.steps, self.tolerance, self.fresh, self.fit_start = steps, float(tolerance), fresh, fit_start
        self._built: tuple[list[Declaration], Networks] | None = None

    def networks(self, declarations: Declarations) -> Networks:
        """The networks of these tables. Those of the last tables asked for are kept.

        Stock SVI trains them so::

            >>> import pyro
            >>> import pyro_unsup as pu
            >>> from pyro.infer import SVI, Trace_ELBO
            >>> from pyro.infer.autoguide import AutoDelta, init_to_value
            >>> model = pu.models.Tagger(tags=2, vocab=3)
            >>> networks = pu.Neural().networks(model.declarations())
            >>> lifted = pu.featured(model, networks, kappa=0.1)
            >>> guide = AutoDelta(lifted, init_loc_fn=init_to_value(values={"features": networks.start.float()}))
            >>> pyro.clear_param_store()
            >>> svi = SVI(lifted, guide, pyro.optim.Adam({"lr": 0.01}), Trace_ELBO())
            >>> losses = [svi.step([[0, 1, 2], [2, 1]]) for _ in range(20)]
            >>> losses[-1] < losses[0]
            True

        The log-likelihood of a mini-batch stands for that of all data, so it is scaled; the prior of the networks is
        not. What was learned becomes a fit by the tables that it makes::

            >>> from pyro import poutine
            >>> sentences = [[0, 1, 2], [2, 1], [0, 2], [1, 0]]
            >>> def scaled(batch):
            ...     with poutine.scale(scale=len(sentences) / len(batch)):
            ...         return model(batch)
            >>> pyro.clear_param_store()
            >>> lifted = pu.featured(scaled, networks, kappa=0.1)
            >>> guide = AutoDelta(lifted, init_loc_fn=init_to_value(values={"features": networks.start.float()}))
            >>> stock = SVI(lifted, guide, pyro.optim.Adam({"lr": 0.01}), Trace_ELBO())
            >>> for _ in range(5):
            ...     losses = [stock.step(batch) for batch in (sentences[:2], sentences[2:])]
            >>> tables = networks.log_weights(guide.median()["features"].double())
            >>> fit = pu.EM(model, init=pu.init.from_weights(tables)).run(sentences, iterations=0)
            >>> fit.predict([[0, 1]]).shape
            torch.Size([2])
        """
        tables = list(declarations.values())
        if self._built is None or [id(d) for d in self._built[0]] != [id(d) for d in tables]:
            networks = Networks(declarations, self.net)
            if self.optimiser == "lbfgs" and networks.has_dropout:
                raise TableError(
                    "Neural: L-BFGS compares values of one function, and dropout changes it from step to step: use "
                    "optimiser='adam', or a network without dropout"
                )
            self._built = (tables, networks)
        return self._built[1]

    # -- what engines call

    def begin(self, declarations: Declarations, weights: Tensors, generator: torch.Generator) -> dict[str, Tensor]:
        """Random networks; or such as come close to the initial tables."""
        chance = torch.stack([torch.randint(2**31, (), generator=generator), torch.tensor(0)])
        w = self._fresh(declarations, chance)
        networks = self.networks(declarations)
        if self.fit_start:
            shares = {name: d.layout.normalise(weights[name].double()).exp() for name, d in declarations.items()}
            w = lbfgs(expected_objective(networks, shares, START_DECAY), w, MANY, tolerance=1e-9)
        return {CHANCE: chance, **networks.named(w)}

    @torch.no_grad()
    def tables(self, declarations: Declarations, memory: Tensors) -> dict[str, Tensor]:
        """The softmax of every row."""
        networks = self.networks(declarations)
        return networks.log_weights(networks.flat(memory))

    def update(self, declarations: Declarations, counts: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Training on the counts; the old weights where that found no better ones."""
        return self._trained(declarations, counts, memory, self.steps, self.fresh)

    def refine(self, declarations: Declarations, counts: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """A few steps of the same, for counts that change little. It never starts anew.

        :param declarations: of the tables, by name.
        :param counts: expected, by table.
        :param memory: to start from.
        """
        return self._trained(declarations, counts, memory, min(FEW, self.steps), fresh=False)

    def is_random(self, declarations: Declarations) -> bool:
        """Whether training draws random numbers: for new networks, or for dropout."""
        return self.fresh or self.networks(declarations).has_dropout

    def log_prior(self, memory: Tensors) -> float:
        """Minus the weight decay times the squares of the weights."""
        if not self.weight_decay:
            return 0.0
        return -self.weight_decay * sum(float(x.square().sum()) for name, x in memory.items() if name != CHANCE)

    def gradient(
        self,
        declarations: Declarations,
        counts: Tensors,
        weights: Tensors,
        memory: Tensors,
    ) -> dict[str, Tensor]:
        """The gradient that counts times log-weights have in the weights of the networks, minus that of the prior.

        Nothing is dropped here, for L-BFGS needs one function.
        """
        networks = self.networks(declarations)
        _, found = slope(expected_objective(networks, counts, self.weight_decay), networks.flat(memory))
        return {CHANCE: torch.zeros_like(memory[CHANCE]), **networks.named(found)}

    def perturbed(
        self,
        declarations: Declarations,
        memory: Tensors,
        jitter: float,
        generator: torch.Generator,
    ) -> dict[str, Tensor]:
        """Noise on the weights.

        :param declarations: of the tables, by name.
        :param memory: to start from.
        :param jitter: the size of the noise.
        :param generator: where it comes from.
        """
        noise = {n: torch.rand(x.shape, dtype=x.dtype, generator=generator) for n, x in memory.items() if n != CHANCE}
        return {**memory, **{name: memory[name] + jitter * x for name, x in noise.items()}}

    def draw_prior(
        self,
        declarations: Declarations,
        memory: Tensors,
        generator: torch.Generator,
        draws: int = 1,
    ) -> dict[str, Tensor]:  # (draws, *layout.shape)
        """Log-weights of every table, the weights of networks drawn from their prior, N(0, 1 / (2 weight_decay)).

        :param declarations: of the tables, by name.
        :param memory: not used here: this prior is not learned.
        :param generator: where the draws come from.
        :param draws: how many.
        """
        if not self.weight_decay:
            raise TableError(
                "Neural with weight_decay=0 has no prior to draw from: give weight_decay a positive value, or leave "
                "the groups prior and prior_predictive out"
            )
        networks = self.networks(declarations)
        w = torch.randn(draws, len(networks), generator=generator, dtype=torch.float64) / (2 * self.weight_decay) ** 0.5
        with torch.no_grad():
            return {name: networks.table(name, w) for name in declarations}

    def check(self, declarations: Declarations, memory: Tensors) -> None:
        """Raise if the weights have run away.

        :raises DivergenceError: naming the layer that went furthest.
        """
        sizes = {n: float(x.abs().max().nan_to_num(torch.inf)) for n, x in memory.items() if n != CHANCE and x.numel()}
        worst = max(sizes, key=lambda name: sizes[name])
        if sizes[worst] > LARGEST:
            raise DivergenceError(
                f"the weights of a network diverge: '{worst}' has one of size {sizes[worst]:.3g}. Nothing holds it "
                f"back: raise weight_decay, actual {self.weight_decay:g}, or lower the learning rate, actual "
                f"{self.learning_rate:g}"
            )

    # -- one M step

    def _trained(
        self, declarations: Declarations, counts: Tensors, memory: Tensors, steps: int, fresh: bool
    ) -> dict[str, Tensor]:
        networks, chance = self.networks(declarations), memory[CHANCE] + torch.tensor([0, 1])
        objective, old = (
            expected_objective(networks, counts, self.weight_decay),
            networks.flat(memory),
        )
        start, reached = self._fresh(declarations, chance) if fresh else old, value_at(objective, old)
        tries = (
            self._adam(networks, objective, start, steps, self.learning_rate * SLOWER**trial, chance)
            if self.optimiser == "adam"
            else lbfgs(objective, start, steps, self.tolerance)
            for trial in range(RATES if self.optimiser == "adam" else 1)
        )
        new = next((one for one in tries if value_at(objective, one) > reached), old)
        found = {CHANCE: chance, **networks.named(new)}
        self.check(declarations, found)
        return found

    def _adam(
        self, networks: Networks, objective: Objective, start: Tensor, steps: int, rate: float, chance: Tensor
    ) -> Tensor:
        with networks.training(seed_of(chance, "dropout")):
            return adam(objective, start, rate, steps, self.tolerance)

    def _fresh(self, declarations: Declarations, chance: Tensor) -> Tensor:
        """The weights of new networks."""
        return Networks(declarations, self.net, seed_of(chance, "network")).start

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_built": None}  # another process builds its own

    # -- what is saved

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Plain values, the description of the network among them, and its tensors (of :class:`.Embeddings`: none).

        :raises NotDescribable: if the network is your own and is not registered.
        """
        said = registry.describe("networks", self.net)
        if said is None:
            raise NotDescribable(
                "Neural has a network of your own that is not registered: a fit stores the weights of the network, but "
                "not how to build it. Give the same net again to resume, or register its class with "
                "pu.registry.register('networks', name, Class)"
            )
        own = ("weight_decay", "optimiser", "learning_rate", "steps", "tolerance", "fresh", "fit_start")
        return {"net": said[0], **{name: getattr(self, name) for name in own}}, said[1]

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Tensors) -> Neural:
        """Build an estimator from its :meth:`settings`."""
        others = {name: value for name, value in plain.items() if name != "net"}
        return cls(registry.build("networks", plain["net"], tensors), **others)

    def __repr__(self) -> str:
        net = getattr(self.net, "__name__", self.net)
        said = shorten(f"{net}", 300, placeholder=" ...")
        return f"Neural({said}, weight_decay={self.weight_decay:g}, {self.optimiser!r}, steps={self.steps})"


def _check_number(name: str, value: Any, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < float("inf"):
        more = "positive" if least else "not negative"
        raise TableError(f"Neural: {name} must be finite and {more}, actual {value!r:.80}")

"""``temper``: hidden structure weighed by its probability to a power, as deterministic annealing does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pyro.distributions import TorchDistribution
from pyro.poutine.util import site_is_subsample
from torch import Size, Tensor

from ..distributions import Categorical, Structure
from ..errors import UnsupError
from .handled import Handled, Handler


class TemperMessenger(Handler):
    """Replaces log p(x) = log sum_y p(x, y) by its tempered form.

    .. math:: F_\\beta(x) = \\frac{1}{\\beta} \\log \\sum_y p(x, y)^\\beta

    Its gradient in the log-weights is the expected counts under the posterior raised to the power beta and normalised:
    flat for beta near 0, the true posterior at 1, ever more certain above. What is raised is the weight of every
    discrete choice and observation, inside the sum; the 1/beta goes outside. (``poutine.scale`` alone would give
    beta log p(x).)

    ``beta`` may be changed between runs of the model.

    >>> import pyro_unsup as pu
    >>> model = pu.models.Tagger(tags=2, vocab=2)
    >>> fit = pu.EM(model).run([[0, 1, 1]], iterations=0)
    >>> with pu.handlers.TemperMessenger(1e-6):
    ...     flat = fit.posterior([[0, 1, 1]]).marginals
    >>> flat.round(decimals=4)
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000],
            [0.5000, 0.5000]], dtype=torch.float64)

    **References:** [1] N. A. Smith and J. Eisner (2004) "Annealing techniques for unsupervised statistical language
    learning", equation 2.
    """

    looks_at_weights = False

    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = beta

    @property
    def beta(self) -> float:
        """The inverse temperature; it may be set."""
        return self._beta

    @beta.setter
    def beta(self, beta: float) -> None:
        if not isinstance(beta, int | float) or not 0 < beta < math.inf:
            raise UnsupError(f"beta must be positive and finite, actual {beta}")
        self._beta = float(beta)

    def _pyro_sample(self, msg: Any) -> None:
        if weighs_structure(msg):
            msg["fn"] = _raised(msg["fn"], self.beta)
            msg["scale"] = msg["scale"] / self.beta

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this handler again: plain values, and tensors."""
        return {"beta": self.beta}, {}

    def __repr__(self) -> str:
        return f"temper(beta={self.beta:g})"


def weighs_structure(msg: Any) -> bool:
    """Whether a sample site is a factor in the weight of hidden structure: a discrete choice, or an observation.

    Continuous latent variables are parameters here: their prior is left as it is.
    """
    hidden = getattr(msg["fn"], "has_enumerate_support", False)
    return not site_is_subsample(msg) and bool(hidden or msg["is_observed"])


def temper(model: Callable[..., Any], beta: float) -> Handled:
    """The model with its posterior tempered; see :class:`TemperMessenger`.

    >>> import torch, pyro
    >>> from pyro import poutine
    >>> import pyro_unsup as pu
    >>> coin = lambda: pyro.sample("x", pu.Categorical(torch.tensor([0.25, 0.75]).log()), obs=torch.tensor(1))
    >>> poutine.trace(pu.temper(coin, 0.5)).get_trace().log_prob_sum().exp()  # nothing hidden: nothing changes
    tensor(0.7500)
    """
    return Handled(model, TemperMessenger(beta))


def _raised(fn: Any, beta: float) -> Any:
    """The distribution whose unnormalised weights are those of ``fn`` to the power beta."""
    if isinstance(fn, Structure):
        return fn.with_temperature(1 / beta)
    if isinstance(fn, Categorical):
        raised = Categorical(fn.logits * beta)
        return raised.expand(fn.batch_shape)
    return _Raised(fn, beta)


class _Raised(TorchDistribution):
    """Any other distribution to the power beta."""

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, base: Any, beta: float) -> None:
        self.base, self.beta = base, beta
        self.has_enumerate_support = getattr(base, "has_enumerate_support", False)
        super().__init__(base.batch_shape, base.event_shape, validate_args=False)

    @property
    def support(self) -> Any:
        return self.base.support

    def expand(self, batch_shape: Any, _instance: Any = None) -> _Raised:
        return _Raised(self.base.expand(Size(batch_shape)), self.beta)

    def log_prob(self, value: Tensor) -> Tensor:
        result: Tensor = self.base.log_prob(value) * self.beta
        return result

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn: Tensor = self.base.sample(sample_shape)
        return drawn

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values: Tensor = self.base.enumerate_support(expand)
        return values

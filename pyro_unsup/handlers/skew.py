"""``skew``: hidden structure weighed between a reference posterior and the model's own, as skewed annealing does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from pyro.poutine.util import site_is_subsample
from torch import Tensor

from ..distributions import Structure
from ..errors import UnsupError
from ..tables import Declaration
from .given import part_of
from .handled import Handled
from .temper import TemperMessenger, weighs_structure


class SkewMessenger(TemperMessenger):
    """Replaces log p(x) by its skewed form, with q(y | x) a reference posterior over the hidden structure.

    .. math:: F'_\\beta(x) = \\frac{1}{\\beta} \\log \\sum_y p(x, y)^\\beta \\, q(y \\mid x)^{1 - \\beta}

    Near 0 the posterior is the reference's, at 1 the model's own. A uniform reference gives :class:`TemperMessenger`,
    and so does a beta above 1, where nothing is left of the reference.

    The reference is one of

    * other log-weights by table, or a fit that has some. q is then the posterior of the same model under those weights,
      and what comes out is F' + (1 - beta) / beta log Z_q(x), Z_q being the probability of the data under the
      reference: a number that the weights do not change. (:class:`pyro_unsup.Anneal` leaves it out again.)
    * the name of a distribution over structures that the model's structured distribution has by itself, such as
      ``"split"`` of a bracketing.

    >>> import torch, pyro_unsup as pu
    >>> mine, reference = {"share": torch.tensor([0.36, 0.64]).log()}, {"share": torch.tensor([0.25, 0.25]).log()}
    >>> with pu.handlers.GivenMessenger(mine), pu.handlers.SkewMessenger(0.5, toward=reference):
    ...     weights = pu.table("share", 2)
    >>> weights.exp()  # half way in logs
    tensor([0.3000, 0.4000])

    **References:** [1] N. A. Smith and J. Eisner (2004) "Annealing techniques for unsupervised statistical language
    learning", equation 4.
    """

    def __init__(self, beta: float, toward: Mapping[str, Tensor] | str | Any) -> None:
        super().__init__(beta)
        found = toward if isinstance(toward, str) else getattr(toward, "weights", toward)
        if not isinstance(found, str | Mapping):
            raise UnsupError(
                f"toward should be log-weights by table, a fit, or the name of a structure's own reference, "
                f"actual {toward!r:.80}"
            )
        self.toward: Mapping[str, Tensor] | str = found
        self._tables: set[str] = set()

    def _pyro_table(self, msg: Any) -> None:
        self._tables.add(msg["name"])

    def _pyro_post_table(self, msg: Any) -> None:
        # All that a table says goes into the weight of a structure once, so weighing tables is weighing structures.
        if self.beta >= 1 or isinstance(self.toward, str):
            return
        declaration: Declaration = msg["args"][0]
        if declaration.name not in self.toward:
            raise UnsupError(
                f"the reference to skew toward has no table '{declaration.name}': it has {sorted(self.toward)}"
            )
        other = part_of(declaration, self.toward[declaration.name]).detach().to(msg["value"].dtype)
        msg["value"] = self.beta * msg["value"] + (1 - self.beta) * other

    def _pyro_param(self, msg: Any) -> None:
        self._refuse(msg["name"])

    def _pyro_sample(self, msg: Any) -> None:
        if not weighs_structure(msg):
            if msg["name"] not in self._tables and not site_is_subsample(msg):
                self._refuse(msg["name"])
            return
        if self.beta >= 1:
            super()._pyro_sample(msg)
            return
        if isinstance(self.toward, str):
            msg["fn"] = _toward(msg, self.toward, self.beta)
        # Factors that are no tables are the same in both posteriors, and their powers add up to one.
        msg["scale"] = msg["scale"] / self.beta

    def _refuse(self, name: str) -> None:
        if not isinstance(self.toward, str):
            raise UnsupError(
                f"'{name}' is a parameter but not a table: skew knows how to go between tables of weights only. "
                "Use temper, or a structure's own reference"
            )

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this handler again: plain values, and the reference if it is tables."""
        if isinstance(self.toward, str):
            return {"beta": self.beta, "toward": self.toward}, {}
        return {"beta": self.beta}, dict(self.toward)

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """Build a handler from its :meth:`settings`."""
        return cls(plain["beta"], plain.get("toward", dict(tensors)))

    def __repr__(self) -> str:
        toward = repr(self.toward) if isinstance(self.toward, str) else f"{{{', '.join(self.toward)}}}"
        return f"skew(beta={self.beta:g}, toward={toward})"


def skew(model: Callable[..., Any], beta: float, toward: Mapping[str, Tensor] | str | Any) -> Handled:
    """The model with its posterior skewed toward a reference; see :class:`SkewMessenger`.

    :param model: a Pyro program.
    :param beta: how much of the model's own posterior there is: none near 0, all from 1 on.
    :param toward: log-weights by table, a fit, or the name of a reference that the structure has by itself.

    >>> import torch, pyro_unsup as pu
    >>> model, sentences = pu.models.Tagger(2, 2), [[0, 1, 1]]
    >>> start = pu.EM(model).run(sentences, iterations=0)
    >>> near = pu.EM(pu.skew(model, 1e-6, toward=start)).run(sentences, iterations=0, seed=1)
    >>> torch.allclose(near.posterior(sentences).marginals, start.posterior(sentences).marginals, atol=1e-4)
    True
    """
    return Handled(model, SkewMessenger(beta, toward))


def _toward(msg: Any, name: str, beta: float) -> Structure:
    """The distribution between its own and the reference that it has by that name."""
    fn: Structure = msg["fn"]
    known = fn.references() if isinstance(fn, Structure) else {}
    if name not in known:
        raise UnsupError(
            f"site '{msg['name']}' ({type(fn).__name__}) has no reference '{name}' to skew toward: "
            + (f"it has {sorted(known)}" if known else "it has none; give log-weights by table, or a fit")
        )
    return fn.with_temperature(1 / beta).with_potentials(**{part: (1 - beta) * x for part, x in known[name].items()})

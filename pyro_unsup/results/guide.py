"""The learned posterior as a Pyro guide: q(theta, y) = sum_i lambda_i q_i(theta) q_i(y)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.poutine.messenger import Messenger
from torch import Tensor

from ..distributions import Structure
from ..distributions.hidden import Hidden
from ..errors import UnsupError
from ..handlers.component import build
from ..handlers.constrain import constrain
from ..handlers.parts import Component, named
from ..tables import Declaration
from .table_posterior import table_posterior

if TYPE_CHECKING:
    from .fit import Fit


class Guide:
    """What was learned about the tables, and about the hidden structure of some data, as a guide of the model.

    Called with the model's arguments it draws, in this order:

    * ``component`` from Categorical(lambda), if the fit is a mixture (:class:`pyro_unsup.MixtureEM`);
    * every table under its own name, as probabilities (:func:`.table_posterior`): Dirichlet rows, logistic-normal rows,
      or the point that was estimated; of the component that was drawn, if each has its own;
    * the estimated continuous latent variables, which are points;
    * ``{site}.structure``, the hidden structure of every structured site that is observed, from :class:`.Hidden` under
      the constraint of the component and the weights of the fit, not the theta that was drawn: in mean field, structure
      and tables are independent. A mixture with components of your own has such sites only if they are given, since a
      fit knows them by name.

    It can be traced, replayed, and given to ``Predictive`` (with ``parallel=False``) or to an ELBO. The model has
    summed the structure out, and knows no components, so these two sites are auxiliary, and masked: they count for
    nothing in an ELBO, which is then

    .. math:: \\sum_i \\lambda_i \\, E_{q_i(\\theta)}[\\log p(x \\mid \\theta) + \\log p(\\theta) - \\log q_i(\\theta)]

    with the Dirichlet p(theta) that the model declares. It is below the log evidence, and where that prior is the one
    of training, no lower than the bound of the fit, in which q_i(y) has the place of p(y | x, theta). (The masked sites
    still have distributions that tell their log-probabilities.)

    :param components: those of the mixture, as :class:`pyro_unsup.MixtureEM` was given them; by default those that the
        fit can describe, which are the ready ones (:mod:`pyro_unsup.components`).

        >>> import pyro, pyro_unsup as pu
        >>> sentences = [[0, 1, 1, 2], [2, 1, 0]]
        >>> fit = pu.EM(pu.models.DMV(tags=3), pu.DirichletVB()).run(sentences, iterations=5)
        >>> pyro.set_rng_seed(0)
        >>> {name: tuple(value.shape) for name, value in fit.guide()(sentences).items()}
        {'root': (3,), 'attach': (3, 2, 3), 'stop': (3, 2, 2, 2), 'tags.structure': (7,)}

    **References:** [1] S. B. Cohen and N. A. Smith (2010) "Variational inference for grammar induction with prior
    knowledge".
    """

    def __init__(self, fit: Fit, components: Sequence[Component] | None = None) -> None:
        self.fit, self.shares = fit, fit.state.get("lambda")
        if components is None:
            described = fit.config.get("described", [])
            components = [] if None in described else [build(one) for one in described]
        else:
            _check(fit, components)
        models: list[Callable[..., Any]] = [fit.model, *(constrain(fit.model, one) for one in components)]
        size = 1 if self.shares is None else len(self.shares)
        self._structured = len(models) == size
        self._parts = [
            replace(fit if size == 1 else fit.component(i), model=models[i] if self._structured else fit.model)
            for i in range(size)
        ]
        self._known: dict[tuple[int, str, torch.dtype], Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """Draw all sites, and return their values by name."""
        drawn: dict[str, Tensor] = {}
        i = 0
        if self.shares is not None:
            drawn["component"] = self._auxiliary("component", dist.Categorical(self.shares))
            if drawn["component"].numel() != 1:
                raise UnsupError("a mixture draws one component at a time: use Predictive with parallel=False")
            i = int(drawn["component"])
        part = self._parts[i]
        declarations, sites = run(part, *args, **kwargs)
        for name, declaration in declarations.items():
            if name in part.weights:
                drawn[name] = pyro.sample(name, self._table(i, declaration))
        plates: dict[str, Any] = {}
        for name, value in part.points.items():
            if name in sites:
                with _within(sites[name], plates):
                    drawn[name] = pyro.sample(name, dist.Delta(value, event_dim=sites[name]["fn"].event_dim))
        for name, site in sites.items():
            if self._structured and site["is_observed"] and isinstance(site["fn"], Structure):
                hidden = f"{name}.structure"
                drawn[hidden] = self._auxiliary(hidden, Hidden(site["fn"], site["value"]))
        return drawn

    def _table(self, i: int, declaration: Declaration) -> Any:
        key = (i, declaration.name, torch.get_default_dtype())  # as the model's own site has it
        if key not in self._known:
            self._known[key] = table_posterior(self._parts[i], declaration, key[2])
        return self._known[key]

    @staticmethod
    def _auxiliary(name: str, fn: Any) -> Tensor:
        with poutine.mask(mask=False):
            value: Tensor = pyro.sample(name, fn, infer={"is_auxiliary": True})
        return value

    def __repr__(self) -> str:
        size = "" if self.shares is None else f"{len(self.shares)} components, "
        return f"Guide({size}{', '.join(self.fit.weights)})"


def run(fit: Fit, *args: Any, **kwargs: Any) -> tuple[dict[str, Declaration], dict[str, Any]]:
    """The tables that a run of a trained model declares, and its sample sites, unseen by handlers around it."""
    said = _Said()
    with poutine.block():
        sites = replace(fit, model=said(fit.model))._sites(*args, **kwargs)
    return said.found, {site["name"]: site for site in sites}


def component_of(fit: Fit, i: int) -> Fit:
    """The fit with the tables and the memory of a component."""
    shares = fit.state.get("lambda")
    if shares is None:
        raise UnsupError(
            f"the fit is no mixture, so it has no components: it was trained by {fit.config.get('engine')}"
        )
    if not 0 <= i < len(shares):
        raise UnsupError(f"the mixture has the components 0 to {len(shares) - 1}, actual {i}")

    def own(group: str) -> dict[str, Tensor]:
        start = f"{i}.{group}."
        return {key.removeprefix(start): x for key, x in fit.state.items() if key.startswith(start)}

    weights = own("weights")
    return replace(fit, weights=weights, memory=own("memory"), state={}) if weights else fit


def _check(fit: Fit, components: Sequence[Component]) -> None:
    known, here = fit.config.get("components", []), [named(one) for one in components]
    if known != here:
        said = f"the mixture was trained with the components {known}" if known else "the fit is no mixture"
        raise UnsupError(f"{said}, actual {here}")


class _Said(Messenger):
    """Hears which tables are declared."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, Declaration] = {}

    def _pyro_table(self, msg: Any) -> None:
        self.found[msg["name"]] = msg["args"][0]


@contextmanager
def _within(site: Any, plates: dict[str, Any]) -> Iterator[None]:
    """In plates like those of a site of the model."""
    with ExitStack() as stack:
        for frame in site["cond_indep_stack"]:
            if frame.vectorized:
                if frame.name not in plates:
                    plates[frame.name] = pyro.plate(frame.name, frame.size, dim=frame.dim)
                stack.enter_context(plates[frame.name])
        yield

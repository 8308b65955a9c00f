"""``importance``: how far a variational posterior is from the true one, by importance weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from pyro.infer import MCMC
from pyro.poutine.messenger import Messenger
from torch import Tensor

from ..errors import UnsupError
from ..estimate import DirichletVB
from ..handlers import bare
from ..results import Fit, Samples
from ..results.arviz import is_arviz
from ..results.fit import with_params
from ..results.guide import run
from ..results.table_posterior import is_point, table_posterior
from ..tables import Declaration
from .arguments import check_model, check_seed, check_whole, own_errors
from .densities import Densities
from .guides import guide_draws
from .psis import GOOD, psis
from .states import states_of


@dataclass(eq=False)
class Importance:
    """Draws of a variational posterior q, weighed by p(theta, data) / q(theta).

    :param k: k-hat, the tail index of the weights. Below 0.5 q is close to the posterior; up to 0.7 weights mend it;
        above, q is too narrow, and so are its intervals.
    :param elbo: the mean log weight, a lower bound of the log evidence.
    :param log_evidence: the log of the mean weight: on average a higher lower bound.
    :param se: its standard error, which is too small if k is above 0.7.
    :param ess: how many draws of the posterior the weighed draws are worth.
    :param draws: (draws, ...) by parameter.
    :param log_weights: (draws,) smoothed; their exponentials sum to one.
    :param log_namings: log K! of K exchangeable states, each naming of which may have a hill of its own; else 0.

    >>> import numpy as np
    >>> from pyro_unsup.workflow import Importance
    >>> found = Importance(0.3, -5.2, -5.0, 0.1, 80.0, {}, np.log(np.full(100, 0.01)))
    >>> found.reliable
    True
    """

    k: float
    elbo: float
    log_evidence: float
    se: float
    ess: float
    draws: dict[str, Tensor]
    log_weights: np.ndarray[Any, Any]
    log_namings: float = 0.0

    @property
    def reliable(self) -> bool:
        """Whether weighed draws can be used for the posterior."""
        return self.k < GOOD

    def mean(self, name: str) -> Tensor:
        """The posterior mean of a parameter, (...): that of its weighed draws.

        :param name: of the parameter.
        """
        if name not in self.draws:
            raise UnsupError(f"there is no parameter {name!r:.80}: expected one of {', '.join(self.draws)}")
        weights = torch.from_numpy(np.exp(self.log_weights)).to(self.draws[name])
        found: Tensor = torch.tensordot(weights, self.draws[name], 1)
        return found

    def resample(self, size: int, seed: int = 0) -> dict[str, Tensor]:  # (1, size, ...) each
        """Draws that are closer to the posterior than those of q: drawn again by their weights.

        :param size: how many.
        :param seed: the same draws come from the same seed.
        """
        check_whole("size", size)
        check_seed(seed)
        rng = np.random.default_rng(seed)
        p = np.exp(self.log_weights)
        chosen = torch.from_numpy(rng.choice(len(p), size, p=p / p.sum()))
        return {name: x[chosen][None] for name, x in self.draws.items()}

    def __repr__(self) -> str:
        verdict = "reliable" if self.reliable else "too narrow: do not trust its intervals"
        more = ""
        if self.log_namings:
            more = f" (of one naming of the states; up to {self.log_namings:.2f} more, if other namings are apart)"
        return (
            f"k-hat {self.k:.2f} ({verdict}); ELBO {self.elbo:.2f}, log evidence {self.log_evidence:.2f} +- "
            f"{self.se:.2f}{more}; {len(self.log_weights)} draws are worth {self.ess:.0f}"
        )


@own_errors()
def importance(
    fit: Fit | Callable[..., Any],
    *data: Any,
    model: Callable[..., Any] | None = None,
    draws: int = 1000,
    seed: int = 0,
    progress: bool | None = None,
) -> Importance:
    """Weigh draws of a variational posterior by the model itself, with hidden structure summed out [1].

    Variational Bayes finds the best posterior of a simple form, which is often too narrow. The weights
    p(theta, data) / q(theta) say how far off it is (k-hat), and estimate the evidence better than its bound does.

    A posterior over K exchangeable states has a hill for each of their K! orders, and q sits on one of them. Where the
    hills are apart, no draw of q sees the others: k-hat is low, and the evidence found is that of one hill, log K! too
    low. ``log_namings`` is log K!, of models whose states are known to be exchangeable. The true log evidence lies
    between ``log_evidence`` and the sum of both.

    :param fit: of variational Bayes, ``pu.EM(model, pu.DirichletVB()).run(data)``; or a guide of Pyro that was trained
        by SVI.
    :param data: that it was trained on, as the model takes them.
    :param model: of a guide. A fit knows its own.
    :param draws: how many.
    :param seed: the same draws come from the same seed.
    :param progress: show a bar, of guides; by default where there is a terminal.

    >>> import pyro_unsup as pu
    >>> sentences = [[0, 1, 1], [1, 0], [0, 0, 1]]
    >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2), pu.DirichletVB()).run(sentences)
    >>> found = pu.importance(fit, sentences, draws=500)
    >>> bool(fit.objective < found.elbo < found.log_evidence)
    True

    **References:** [1] Y. Yao, A. Vehtari, D. Simpson and A. Gelman (2018) "Yes, but did it work? Evaluating
    variational inference".
    """
    check_whole("draws", draws, 20)
    check_seed(seed)
    if isinstance(fit, Samples | MCMC | Mapping) or is_arviz(fit) or not (isinstance(fit, Fit) or callable(fit)):
        raise UnsupError(
            "importance weighs draws of a variational posterior, whose density is known: expected a fit of "
            f"pu.DirichletVB() or a guide of SVI, actual {type(fit).__name__}. What was sampled by Gibbs or NUTS needs "
            "no weights: look at R-hat and ESS, az.summary(pu.to_arviz(result, data))"
        )
    if model is not None:
        check_model("importance(model=)", model)
    if not data:
        raise UnsupError("importance needs the data that the fit was trained on: importance(fit, data)")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        if isinstance(fit, Fit):
            own = _Prior(_concentrations(fit))(fit.unhandled().model if model is None else model)
            density = Densities(with_params(own, fit.params) if fit.params else own, data)
            values, log_q = _of_fit(fit, data, draws)
        else:
            if model is None:
                raise UnsupError("a guide does not know its model: give model=")
            density = Densities(model, data)
            values, log_q = _of_guide(fit, data, draws, density, seed, progress)
        prior, likelihood = density.both(values)
    ratios = (prior + likelihood - log_q).double().numpy()
    if not np.isfinite(ratios).all():
        raise UnsupError(
            f"{int((~np.isfinite(ratios)).sum())} of {draws} draws have no finite weight: the guide goes where the "
            "model has probability zero, or both are not of the same data"
        )
    weights, k = psis(ratios)
    top = ratios.max()
    raw = np.exp(ratios - top)
    return Importance(
        k,
        float(ratios.mean()),
        float(top + np.log(raw.mean())),
        float(raw.std(ddof=1) / raw.mean() / math.sqrt(draws)),
        float(1 / np.exp(2 * weights).sum()),
        values,
        weights,
        _log_namings(fit.model if isinstance(fit, Fit) else model),
    )


def _log_namings(model: Any) -> float:
    """log K! of a model with K exchangeable states; 0 of one whose states are not known, or told apart."""
    try:
        states = states_of(bare(model))
    except UnsupError:
        return 0.0
    return 0.0 if states is None else math.lgamma(states + 1)


def _of_fit(fit: Fit, data: Any, draws: int) -> tuple[dict[str, Tensor], Tensor]:
    """Draws of the tables, and their log density: under a mixture of posteriors, if there is one."""
    if fit.points:
        raise UnsupError(
            f"{', '.join(fit.points)} are points, which have no density to weigh: train a guide by SVI, or use NUTS"
        )
    shares = fit.state.get("lambda")
    parts = [fit] if shares is None else [fit.component(i) for i in range(len(shares))]
    own = [_posteriors(part, data) for part in parts]
    chosen = {name for name, weights in fit.weights.items() if weights.shape[-1] > 1}  # one outcome is always sure
    if any(is_point(q) for part in own for name, q in part.items() if name in chosen):  # weights as they were at first
        raise UnsupError("the fit has no posterior yet: train for an iteration or more")
    which = torch.zeros(draws, dtype=torch.long)
    if shares is not None:
        which = torch.multinomial(shares, draws, replacement=True)
    values: dict[str, Tensor] = {}
    for name in own[0]:
        each = torch.stack([part[name].sample((draws,)) for part in own])
        values[name] = each[which, torch.arange(draws)]
    log_q = torch.stack([_log_density(part, values) for part in own])
    shared = torch.zeros(1) if shares is None else shares.log()
    return values, (log_q + shared[:, None]).logsumexp(0)


def _concentrations(fit: Fit) -> dict[str, float]:
    """By table, the concentration that training had in the place of the model's own."""
    found = {}
    for name, how in fit.estimators.items():
        if not isinstance(how, DirichletVB):
            raise UnsupError(
                f"table '{name}' was trained by {how!r:.80}, whose prior is not the model's: expected a fit of "
                "pu.DirichletVB(), or a guide of Pyro"
            )
        if how.concentration is not None:
            found[name] = how.concentration
    return found


class _Prior(Messenger):
    """Gives tables other concentrations than the model declares."""

    def __init__(self, concentrations: dict[str, float]) -> None:
        super().__init__()
        self.concentrations = concentrations

    def _pyro_table(self, msg: Any) -> None:
        declaration: Declaration = msg["args"][0]
        if declaration.name in self.concentrations:
            prior = torch.tensor(self.concentrations[declaration.name], dtype=torch.float64)
            msg["args"] = (replace(declaration, prior=prior), *msg["args"][1:])


def _posteriors(fit: Fit, data: Any) -> dict[str, Any]:
    declared, _ = run(fit, *data)
    dtype = torch.get_default_dtype()
    return {name: table_posterior(fit, d, dtype) for name, d in declared.items() if name in fit.weights}


def _log_density(part: dict[str, Any], values: dict[str, Tensor]) -> Tensor:  # (draws,)
    tiny = {name: torch.finfo(x.dtype).tiny for name, x in values.items()}
    return torch.stack([q.log_prob(values[name].clamp(min=tiny[name])) for name, q in part.items()]).sum(0)


def _of_guide(
    guide: Callable[..., Any], data: Any, draws: int, density: Densities, seed: int, progress: bool | None
) -> tuple[dict[str, Tensor], Tensor]:
    found = guide_draws(guide, data, None, draws, seed, progress)
    if missing := density.sites.keys() - found.keys():
        raise UnsupError(f"the guide has no {', '.join(sorted(missing))}, which the model has")
    values = {name: found[name][0] for name in density.sites}
    still = [name for name, x in values.items() if bool((x == x[:1]).all())]
    if points := [name for name in still if bool((values[name] != 1).any())]:  # one outcome has probability 1, always
        raise UnsupError(
            f"the guide draws the same {', '.join(sorted(points))} every time: a point has no density to weigh. Train "
            "a guide with a spread, such as AutoNormal, or use NUTS"
        )
    return values, found.log_q

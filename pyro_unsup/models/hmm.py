"""The hidden Markov model of time series: counts, measurements, angles, vectors, with any emission."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

from ..distributions import Chain
from ..distributions.markov import stationary
from ..distributions.ragged import Rows, check_lengths
from ..errors import NotDescribable, StructureError
from ..tables import Axis, Declaration, Layout, declare
from ..tables.derived import derived
from ..tables.op import sample_for_plates
from .emissions import COVARIANCES, FAMILIES, groups, start_of
from .series import Series

STARTS = ("free", "stationary", "uniform")
SUPPORTS = ("all", "left-to-right")


class HMM:
    """A hidden Markov model of series, as an ordinary Pyro model.

        start ~ Dirichlet,  transition[z] ~ Dirichlet
        for each series:  z_1 by ``start``, z_t by ``transition`` given z_{t-1}, x_t by the emission of state z_t;
                          states summed out

    Tables: ``start`` (K,), ``transition`` (K, K). Parameters of the emission have the names that Pyro's distribution
    gives them, with an axis of states first: ``loc`` and ``scale`` of a normal one, ``rate`` of a Poisson one. EM
    estimates all of them in closed form where their family has one.

    Data are numbers, (N,), or vectors, (N, D): an array, a pandas column or table, or a list of such, one a series.
    NaN is a missing value.

    :param states: how many.
    :param emission: the name of a family: ``normal``, ``student_t``, ``log_normal``, ``gamma``, ``exponential``,
        ``von_mises``, ``poisson``, ``negative_binomial``, ``geometric``, ``bernoulli``, ``multivariate_normal``,
        ``categorical``. Or a function of the number of states that declares its own parameters and returns a
        distribution of batch shape (states,).
    :param dim: how many coordinates an observation has; None for numbers. Coordinates are independent given the state,
        but for ``multivariate_normal``.
    :param categories: of a categorical emission, how many; observations are 0 .. categories - 1.
    :param start: of the first state: ``free`` (a table), ``stationary`` (what the transitions lead to in the long run),
        or ``uniform``.
    :param support: which transitions are possible: ``all``, ``left-to-right`` (a state is kept or goes to the next
        one), or a matrix of truth values, (K, K).
    :param covariance: of ``multivariate_normal``: ``full``, ``tied`` (one for all states), ``diagonal`` or
        ``spherical``.
    :param independent: make every observation draw its state by ``start``: a mixture, without transitions.
    :param prior: by parameter of the emission, a distribution: then it is a random variable, for NUTS and SVI, and EM
        finds its posterior mode. ``start`` and ``transition`` name concentrations of Dirichlet priors, which EM uses if
        its estimator does: ``pu.EM(model, pu.DirichletMAP())``.
    :param init: where EM starts the parameters: at groups of observations by ``kmeans``, or by ``quantiles``. Or a dict
        of values.
    :param floor: the least scale of a normal emission, so that no state shrinks onto one observation.

    >>> import torch
    >>> import pyro_unsup as pu
    >>> noise = torch.randn(120, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> x = noise + torch.tensor([-3.0] * 40 + [3.0] * 30 + [-3.0] * 50)
    >>> fit = pu.EM(pu.models.HMM(states=2, emission="normal")).run(x)
    >>> [round(mean, 1) for mean in fit.params["loc"].tolist()]
    [-3.0, 3.0]
    >>> fit.posterior(x).mode()[[0, 39, 40, 69, 70]]
    tensor([0, 0, 1, 1, 0])
    >>> fit.posterior(x).forecast(2).mean.shape
    torch.Size([1, 2])

    **References:** [1] W. Zucchini and I. L. MacDonald (2009) "Hidden Markov models for time series".
    """

    #: The registered task: what its fits read, write and show.
    task = "hmm"
    interchangeable = True
    #: Series are short and their figures are compared to many digits, so that training ends late.
    tolerance, iterations = 1e-9, 1000
    #: A run depends on the data and on settings that never change (:mod:`pyro_unsup.infer.replay`).
    replayable = True

    def __init__(
        self,
        states: int,
        emission: str | Callable[[int], TorchDistribution] = "normal",
        *,
        dim: int | None = None,
        categories: int | None = None,
        start: str = "free",
        support: str | Tensor = "all",
        covariance: str = "full",
        independent: bool = False,
        prior: Mapping[str, Any] | None = None,
        init: str | Mapping[str, Any] = "kmeans",
        floor: float = 0.0,
    ) -> None:
        if type(states) is not int or states < 1:
            raise StructureError(f"states must be a whole number, 1 or more, actual {states!r:.80}")
        if isinstance(emission, str) and emission not in {*FAMILIES, "multivariate_normal", "categorical"}:
            known = ", ".join([*FAMILIES, "multivariate_normal", "categorical"])
            raise StructureError(f"there is no emission {emission!r:.80}: use one of {known}, or a function")
        if emission == "multivariate_normal" and dim is None:
            raise StructureError("a multivariate_normal emission needs dim, the number of coordinates")
        if emission == "categorical" and (categories is None or dim is not None):
            raise StructureError("a categorical emission needs categories, their number, and no dim")
        _one_of("start", start, STARTS)
        _one_of("covariance", covariance, COVARIANCES)
        if isinstance(init, str):
            _one_of("init", init, ("kmeans", "quantiles"))
        self.states, self.emission, self.dim, self.categories = states, emission, dim, categories
        self.start, self.support, self.covariance, self.independent = start, support, covariance, independent
        self.prior, self.init, self.floor = dict(prior or {}), init, floor
        self._last: tuple[Any, Series] | None = None
        self._tables = self._declared()
        self._check_names()
        bare_scale = "scale" in self.prior or (emission == "multivariate_normal" and covariance in ("full", "tied"))
        if floor and bare_scale:
            raise StructureError(
                "floor bounds scales that EM estimates: leave it out with a prior on scale, or with a full or tied "
                "covariance"
            )

    def _declared(self) -> dict[str, Declaration]:
        K, prior = self.states, self.prior
        tables = {}
        support = _support(self.support, K)
        if support is not None and self.start == "stationary" and not self.independent:
            raise StructureError("a stationary start needs transitions between all states: leave support out")
        if self.start == "free":
            shape = Layout.dense(K)
            tables["start"] = Declaration("start", shape, _number(prior.get("start", 1.0)), axes=(Axis("state", K),))
        if not self.independent and self.start != "stationary":
            axes = (Axis("state", K), Axis("next", K))
            layout = Layout.dense(K, K, support=support)
            concentration = _number(prior.get("transition", 1.0))
            tables["transition"] = Declaration("transition", layout, concentration, "keep", axes=axes)
        if self.emission == "categorical":
            assert self.categories is not None
            axes = (Axis("state", K), Axis("category", self.categories))
            layout = Layout.dense(K, self.categories)
            tables["emission"] = Declaration("emission", layout, _number(prior.get("emission", 1.0)), "keep", axes=axes)
        return tables

    def _check_names(self) -> None:
        """Raise where ``init`` or ``prior`` speak of a parameter that there is not."""
        if not isinstance(self.emission, str):
            return
        family = "normal" if self.emission == "multivariate_normal" else self.emission
        names = set(FAMILIES[family].supports) if family in FAMILIES else set()
        if self.emission == "multivariate_normal" and self.covariance in ("full", "tied"):
            names = {"loc", "covariance"}
        own = {"transition"} if self.start == "stationary" and not self.independent else set()
        begin = set(self.init) if isinstance(self.init, Mapping) else set()
        for what, given, known in (
            ("init", begin, names | own),
            ("prior", set(self.prior), names | own | set(self._tables)),
        ):
            if wrong := sorted(given - known):
                table = what == "init" and wrong[0] in self._tables
                hint = "; a table starts by EM(model, init=init.from_weights(...))" if table else ""
                raise StructureError(f"{what} has {wrong[0]!r}, expected {', '.join(sorted(known)) or 'none'}{hint}")
        if both := sorted(begin & set(self.prior) & names):
            raise StructureError(
                f"{both[0]} has a prior and an init: init is for parameters without a prior; leave one out"
            )

    # -- the program

    def __call__(self, x: Any = None, lengths: Any = None) -> Tensor:
        """The model. Without data it draws series, of the lengths that are given."""
        data = None if x is None else self.index(x, lengths)
        sizes = check_lengths(lengths).reshape(-1) if data is None else data.lengths
        if self.independent:  # each observation is a series of its own
            sizes = torch.ones(int(sizes.sum()), dtype=torch.long)
        start, transition = self._chain()
        emission, value = self._emission(data), None if data is None else data.values
        if value is not None and isinstance(emission, Tensor):
            emission, value = categories(emission, value)
        chain = Chain(start, transition, emission, sizes, flat=True)
        with pyro.plate("series", len(sizes)):
            drawn: Tensor = pyro.sample("x", chain, obs=value)
        return drawn

    def _chain(self) -> tuple[Tensor, Tensor]:
        """Log-weights of starts and transitions."""
        K = self.states
        if self.independent:
            start = declare(self._tables["start"]) if self.start == "free" else torch.full((K,), 1 / K).double().log()
            return start, torch.zeros(K, K, dtype=start.dtype)
        # A start that depends on the transitions is not counted: then they are no table.
        in_table = self.start != "stationary"
        transition = declare(self._tables["transition"]) if in_table else self._transition_parameter()
        if self.start == "free":
            return declare(self._tables["start"]), transition
        if self.start == "stationary":
            return stationary(transition), transition
        return torch.full((K,), 1 / K, dtype=transition.dtype).log(), transition

    def _transition_parameter(self) -> Tensor:
        K = self.states
        if "transition" in self.prior:
            rows = dist.Dirichlet(_number(self.prior["transition"]).expand(K, K)).to_event(1)
            found = sample_for_plates("transition", rows)
        else:
            begin = self.init.get("transition") if isinstance(self.init, Mapping) else None
            default = torch.full((K, K), 0.2 / max(K - 1, 1), dtype=torch.float64).fill_diagonal_(0.8 if K > 1 else 1.0)
            value = default if begin is None else torch.as_tensor(begin, dtype=torch.float64)
            found = pyro.param("transition", lambda: value, constraint=constraints.simplex)
        return found.clamp(min=torch.finfo(found.dtype).tiny).log()

    def _emission(self, data: Series | None) -> TorchDistribution | Tensor:
        if not isinstance(self.emission, str):
            return self.emission(self.states)
        if self.emission == "categorical":
            return declare(self._tables["emission"])
        return self._vectors(data) if self.emission == "multivariate_normal" else self._numbers(data)

    def _numbers(self, data: Series | None) -> TorchDistribution:
        family = FAMILIES[str(self.emission)]
        begin = _Once(lambda: self._above_floor(start_of(family, *self._grouped(data), self.states)))
        given = {}
        for name, support in family.supports.items():
            if name == "scale" and self.floor:
                support = constraints.greater_than(self.floor)
            given[name] = self._parameter(name, support, begin, self._shape)
        found = family.build(**given)
        return found if self.dim is None else found.to_event(1)

    def _vectors(self, data: Series | None) -> TorchDistribution:
        K, D, kind = self.states, self.dim, self.covariance
        assert D is not None
        normal = FAMILIES["normal"]
        begin = _Once(lambda: start_of(normal, *self._grouped(data), K))
        loc = self._parameter("loc", constraints.real, begin, (K, D))
        positive = constraints.greater_than(self.floor) if self.floor else constraints.positive
        if kind in ("diagonal", "spherical"):
            begin = _Once(lambda: self._above_floor(_scales(start_of(normal, *self._grouped(data), K), kind)))
            shape = (K, 1) if kind == "spherical" else (K, D)
            return dist.Normal(loc, self._parameter("scale", positive, begin, shape)).to_event(1)
        begin = _Once(lambda: {"covariance": _covariances(start_of(normal, *self._grouped(data), K), kind)})
        every = 1 if kind == "tied" else K
        covariance = self._parameter("covariance", constraints.positive_definite, begin, (every, D, D))
        return dist.MultivariateNormal(loc, covariance_matrix=covariance)

    @property
    def _shape(self) -> tuple[int, ...]:
        """Of a parameter with a number for every state, and for every coordinate."""
        return (self.states,) if self.dim is None else (self.states, self.dim)

    def _above_floor(self, begin: dict[str, Tensor]) -> dict[str, Tensor]:
        if self.floor and "scale" in begin:
            begin["scale"] = begin["scale"].clamp(min=1.01 * self.floor)
        return begin

    def _parameter(self, name: str, support: Any, begin: _Once, shape: tuple[int, ...]) -> Tensor:
        """A parameter of the emission: a random variable if it has a prior, else a ``pyro.param``."""
        if name in self.prior:
            prior = self.prior[name]
            wide = prior.expand(shape) if not prior.event_shape else prior.expand(shape[:1])
            found = sample_for_plates(name, wide.to_event(len(wide.batch_shape)))
            # Draws of the parameters come in front. An axis for the steps of a series has to stand before the states.
            lead = found.dim() - len(wide.batch_shape) - len(prior.event_shape)
            return found.unsqueeze(lead) if lead else found
        given = self.init.get(name) if isinstance(self.init, Mapping) else None
        if given is not None:
            given = torch.as_tensor(given, dtype=torch.float64)
            if given.shape != shape:
                raise StructureError(f"init of {name} must have shape {shape}, actual {tuple(given.shape)}")
            if not bool(support.check(given).all()):
                raise StructureError(f"init of {name} must be {support}, actual {given.tolist()}")
        value: Any = (lambda: begin()[name]) if given is None else (lambda: given)
        return pyro.param(name, value, constraint=support)  # type: ignore[no-any-return]

    def _grouped(self, data: Series | None) -> tuple[Tensor, Tensor]:
        """The observations, and a first guess of their states."""
        if data is None:
            raise StructureError("an HMM starts at its data: train it, or give init the values of all parameters")
        how = self.init if isinstance(self.init, str) else "kmeans"
        seed = int(torch.randint(2**31 - 1, ()))
        if isinstance(self.support, str) and self.support == "left-to-right":  # states come one after the other
            rows = Rows(data.lengths)
            return data.values, rows.position * self.states // data.lengths[rows.owner]
        return data.values, groups(data.values, self.states, how, seed)

    # -- data, and what is saved

    def index(self, x: Any, lengths: Any = None) -> Series:
        """Series as the model sees them."""
        if self._last is not None and self._last[0] is x and lengths is None:
            return self._last[1]
        found = Series.of(x, lengths)
        expected = "(N,)" if self.dim is None else f"(N, {self.dim})"
        shape = tuple(found.values.shape)
        if isinstance(self.emission, str) and shape[1:] != (() if self.dim is None else (self.dim,)):
            hint = f": give HMM dim={shape[1]}" if self.dim is None else ""
            raise StructureError(f"expected observations of shape {expected}, actual {shape}{hint}")
        if isinstance(x, Series):  # series never change; arrays may
            self._last = (x, found)
        return found

    def with_states(self, states: int) -> HMM:
        """The same model with another number of states."""
        return HMM(**{**self._plain(), "support": self.support, "prior": self.prior, "states": states})

    def free_parameters(self) -> int:
        """How many numbers are estimated, each table row counting one less than it has cells."""
        if not isinstance(self.emission, str):
            raise StructureError("how many parameters a function declares is not known before it runs")
        K, D = self.states, 1 if self.dim is None else self.dim
        cells = _support(self.support, K)
        moves = K * (K - 1) if cells is None else int((cells.sum(-1) - 1).sum())
        chain = (K - 1 if self.start == "free" else 0) + (0 if self.independent else moves)
        if self.emission == "categorical":
            return chain + K * ((self.categories or 1) - 1)
        if self.emission != "multivariate_normal":
            return chain + K * D * len(FAMILIES[self.emission].supports)
        full = D * (D + 1) // 2
        return chain + K * D + {"full": K * full, "tied": full, "diagonal": K * D, "spherical": K}[self.covariance]

    def declarations(self) -> dict[str, Declaration]:
        """The tables, by name."""
        return dict(self._tables)

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this model again: plain values, and tensors by name.

        :raises NotDescribable: if its emission is a function, or a parameter has a prior: pass it to ``load``.
        """
        if not isinstance(self.emission, str):
            raise NotDescribable("the emission of this HMM is a function, which is not saved")
        if wrong := [name for name, x in self.prior.items() if not isinstance(x, int | float)]:
            raise NotDescribable(f"the prior of {wrong[0]!r} is no number, so it is not saved")
        plain = {**self._plain(), "prior": self.prior}
        if isinstance(self.support, str):
            return {**plain, "support": self.support}, {}
        return plain, {"support": self.support}

    def _plain(self) -> dict[str, Any]:
        return {
            "states": self.states,
            "emission": self.emission,
            "dim": self.dim,
            "categories": self.categories,
            "start": self.start,
            "covariance": self.covariance,
            "independent": self.independent,
            "init": self.init if isinstance(self.init, str) else "kmeans",
            "floor": self.floor,
        }

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> HMM:
        """Build a model from its :meth:`settings`."""
        return cls(**{**plain, **tensors})

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}

    def __repr__(self) -> str:
        kind = self.emission if isinstance(self.emission, str) else getattr(self.emission, "__name__", "own emission")
        return f"HMM(states={self.states}, emission={kind!r})"


class _Once:
    """Something that is computed when it is first asked for."""

    def __init__(self, make: Callable[[], dict[str, Tensor]]) -> None:
        self._make, self._found = make, None

    def __call__(self) -> dict[str, Tensor]:
        if self._found is None:
            self._found = self._make()  # type: ignore[assignment]
        return self._found  # type: ignore[return-value]


def categories(table: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:  # (*draws, K, V), (N,)
    """Categories as words of a table. A missing one is a word more, which every state emits with probability 1.

    :raises StructureError: if a value is not the number of a category.
    """
    missing, many = values.isnan(), table.shape[-1]
    wrong = ~missing & ((values != values.round()) | (values < 0) | (values >= many))
    if bool(wrong.any()):
        place = int(wrong.nonzero()[0])
        raise StructureError(
            f"categories are whole numbers from 0 to {many - 1}, actual {float(values[place]):g} at observation "
            f"{place}: number them from 0, or raise categories"
        )
    if not bool(missing.any()):
        return table, values.long()
    wide: Tensor = derived(_with_blank, table)
    return wide, torch.where(missing, float(many), values).long()


def _with_blank(table: Tensor) -> Tensor:
    return torch.cat([table, torch.zeros_like(table[..., :1])], -1)


def _support(support: str | Tensor, states: int) -> Tensor | None:  # (K, K) bool
    """Which transitions are possible; None for all."""
    if isinstance(support, str):
        _one_of("support", support, SUPPORTS)
        if support == "all":
            return None
        eye = torch.eye(states, dtype=torch.bool)
        return eye | eye.roll(1, 1).triu()
    found = torch.as_tensor(support, dtype=torch.bool)
    if found.shape != (states, states):
        raise StructureError(f"support must have shape ({states}, {states}), actual {tuple(found.shape)}")
    if not bool(found.any(-1).all()):
        dead = int((~found.any(-1)).nonzero()[0])
        raise StructureError(f"row {dead} of support has no possible transition: state {dead} leads nowhere")
    return found


def _scales(begin: dict[str, Tensor], kind: str) -> dict[str, Tensor]:
    scale = begin["scale"]
    return {**begin, "scale": scale.mean(-1, keepdim=True) if kind == "spherical" else scale}


def _covariances(begin: dict[str, Tensor], kind: str) -> Tensor:
    each = torch.diag_embed(begin["scale"] ** 2)  # (K, D, D)
    return each.mean(0, keepdim=True) if kind == "tied" else each


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise StructureError(f"{name} must be one of {', '.join(allowed)}; actual {value!r:.80}")


def _number(value: Any) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float64)

"""What hidden states emit: any Pyro distribution, with values that may be missing."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution, is_validation_enabled
from torch import Size, Tensor
from torch.distributions import constraints

from ..errors import StructureError
from .normal_density import normal_density
from .ragged import Rows, flatten, valid


class Joint(TorchDistribution):
    """Several independent measurements side by side, each with a family of its own.

    A value is a vector. Each part takes the next coordinates of it: one if its events are numbers, D if they are
    vectors of D numbers.

    :param parts: distributions with the same batch shape, over numbers or vectors.

    >>> import torch
    >>> import pyro.distributions as dist
    >>> import pyro_unsup as pu
    >>> both = pu.Joint(dist.Normal(torch.zeros(3), 1.0), dist.Bernoulli(torch.full((3,), 0.5)))
    >>> both.batch_shape, both.event_shape
    (torch.Size([3]), torch.Size([2]))
    >>> both.log_prob(torch.tensor([0.0, 1.0]))
    tensor([-1.6121, -1.6121, -1.6121])
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, *parts: TorchDistribution, validate_args: bool | None = None) -> None:
        if not parts or any(len(part.event_shape) > 1 for part in parts):
            raise StructureError("Joint needs distributions over numbers or vectors, at least one")
        shape = Size(torch.broadcast_shapes(*(part.batch_shape for part in parts)))
        self.parts = tuple(part if part.batch_shape == shape else part.expand(shape) for part in parts)
        self.widths = [part.event_shape.numel() for part in parts]
        super().__init__(shape, Size([sum(self.widths)]), validate_args=False)
        if validate_args is not None:
            self._validate_args = validate_args

    @constraints.dependent_property(is_discrete=False, event_dim=1)
    def support(self) -> constraints.Constraint:
        each = [part.support for part in self.parts]
        wide = [s if part.event_shape else constraints.independent(s, 1) for s, part in zip(each, self.parts)]  # noqa: B905
        return constraints.cat(wide, -1, self.widths)

    @property
    def has_rsample(self) -> bool:
        return all(part.has_rsample for part in self.parts)

    def split(self, value: Tensor) -> list[Tensor]:  # (..., sum of widths) -> one value a part
        """The coordinates of each part, in the form of its events.

        :param value: (*batch, sum of widths).
        """
        pieces = value.split(self.widths, -1)
        return [x if part.event_shape else x.squeeze(-1) for x, part in zip(pieces, self.parts, strict=True)]

    def log_prob(self, value: Tensor) -> Tensor:
        total: Tensor = sum(part.log_prob(x) for x, part in zip(self.split(value), self.parts, strict=True))
        return total

    def _drawn(self, how: str, sample_shape: Any) -> Tensor:
        drawn = [getattr(part, how)(sample_shape) for part in self.parts]
        wide = [x if part.event_shape else x.unsqueeze(-1) for x, part in zip(drawn, self.parts, strict=True)]
        dtype = max((x.dtype for x in wide), key=lambda kind: kind.is_floating_point)
        return torch.cat([x.to(dtype) for x in wide], -1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._drawn("sample", Size(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._drawn("rsample", Size(sample_shape))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Joint:
        return Joint(*(part.expand(Size(batch_shape)) for part in self.parts))

    @property
    def mean(self) -> Tensor:
        return self._moment("mean")

    @property
    def variance(self) -> Tensor:
        return self._moment("variance")

    def _moment(self, name: str) -> Tensor:
        found = [getattr(part, name) for part in self.parts]
        return torch.cat([x if part.event_shape else x.unsqueeze(-1) for x, part in zip(found, self.parts)], -1)  # noqa: B905


def check_emission(emission: TorchDistribution, states: int) -> None:
    """Raise unless the batch of a distribution ends in the states."""
    shape = tuple(emission.batch_shape)
    if not shape or shape[-1] != states:
        raise StructureError(
            f"the batch shape of the emission must end in the {states} states; actual batch shape {shape}, event shape "
            f"{tuple(emission.event_shape)} of a {type(emission).__name__}. Parameters of shape (..., {states}) give "
            "that; .to_event(1) makes the last axis of a batch part of each observation"
        )


def observed_cells(value: Tensor, event: Size, mask: Tensor | None) -> Tensor | None:  # bool, as value; None for all
    """Which numbers of a value were observed: those that are not NaN and that a mask does not hide.

    :param value: (*batch, *event).
    :param mask: (*batch) or (*batch, *event), True for what was observed.
    """
    found = None
    if value.is_floating_point():
        missing = value.isnan()
        if bool(missing.any()):
            found = ~missing
    if mask is None:
        return found
    mask = torch.as_tensor(mask, dtype=torch.bool, device=value.device)
    lead = value.dim() - len(event)
    if mask.shape == value.shape[:lead] and event:
        mask = mask.reshape(*mask.shape, *(1,) * len(event))
    try:
        mask = mask.expand(value.shape)
    except RuntimeError:
        raise StructureError(
            f"the mask must have the shape of the observations, {tuple(value.shape)}, or of the steps, "
            f"{tuple(value.shape[:lead])}; actual shape {tuple(mask.shape)}"
        ) from None
    return mask if found is None else found & mask


def log_density(emission: TorchDistribution, value: Tensor, observed: Tensor | None) -> Tensor:
    """log p(value | state) of every observation. What is missing is integrated out.

    :param emission: of batch shape (..., K).
    :param value: (*batch, *event), which ``emission.batch_shape[:-1]`` broadcasts to.
    :param observed: as value, False for what is missing; None if nothing is.
    :return: (*batch, K).
    """
    found = normal_density(emission, value, observed)
    if found is not None:
        return found
    event = len(emission.event_shape)
    if observed is None:
        return _checked(emission, value.unsqueeze(-1 - event))
    value = torch.where(observed, value, _placeholder(emission, value, observed))
    return partial_density(emission, value.unsqueeze(-1 - event), observed.unsqueeze(-1 - event))


def _checked(emission: TorchDistribution, value: Tensor) -> Tensor:
    """``emission.log_prob(value)``. If a value is outside its support, the error names the first one."""
    try:
        found: Tensor = emission.log_prob(value)
        return found
    except ValueError:
        inside = emission.support.check(value)
        if bool(inside.all()):
            raise
        if inside.shape[-1:] == emission.batch_shape[-1:]:  # each state has a support of its own
            if bool(inside.any(-1).all()):
                return _where_possible(emission, value, inside)
            inside = inside.any(-1, keepdim=True)
        lead = value.dim() - len(emission.event_shape) - 1
        place = (~inside).nonzero()[0].tolist()[:lead]
        bad = value[tuple(place)].flatten()
        shown = f"{bad[0].item():g}" if bad.numel() == 1 else str([round(x, 6) for x in bad.tolist()[:8]])
        raise StructureError(
            f"observation {place[0] if len(place) == 1 else tuple(place)} is {shown}, which a "
            f"{type(emission).__name__} cannot emit: expected {emission.support}"
        ) from None


def _where_possible(emission: TorchDistribution, value: Tensor, inside: Tensor) -> Tensor:
    """Log-densities of values that some states cannot emit, and others can: -inf in the former."""
    event = len(emission.event_shape)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        other = emission.sample()  # that every state can emit, in the place of what it cannot
    wide = inside.reshape(*inside.shape, *(1,) * event)
    found: Tensor = emission.log_prob(torch.where(wide, value, other.to(value)))
    return torch.where(inside, found, -torch.inf)


def _placeholder(emission: TorchDistribution, value: Tensor, observed: Tensor) -> Tensor:
    """A value that can be emitted, to stand where a value is missing: its density is computed and thrown away."""
    event = len(emission.event_shape)
    rows, seen = value.reshape(-1, *emission.event_shape), observed.reshape(-1, *emission.event_shape)
    whole = seen.flatten(1).all(1).nonzero() if event else seen.nonzero()
    if len(whole):
        return rows[whole[0, 0]]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        drawn = emission.sample()
    found: Tensor = drawn.reshape(-1, *emission.event_shape)[0].to(value)
    return found


def partial_density(emission: TorchDistribution, value: Tensor, observed: Tensor) -> Tensor:
    """Densities of what was observed.

    :param value: (*batch, 1, *event) without NaN.
    :param observed: as value.
    """
    event = len(emission.event_shape)
    if event == 0:
        return torch.where(observed, _checked(emission, value), 0.0)
    steps = observed.flatten(observed.dim() - event).all(-1)  # (*batch, 1)
    none = ~observed.flatten(observed.dim() - event).any(-1)
    if bool((steps | none).all()):
        return torch.where(steps, _checked(emission, value), 0.0)
    if isinstance(emission, dist.Independent):
        return _by_coordinate(emission, value, observed)
    if isinstance(emission, Joint):
        parts = zip(emission.parts, emission.split(value), emission.split(observed), strict=True)
        total: Tensor = sum(partial_density(part, x, seen) for part, x, seen in parts)  # type: ignore[assignment]
        return total
    if isinstance(emission, torch.distributions.MultivariateNormal):
        return _by_pattern(emission, value, observed)
    if isinstance(emission, torch.distributions.MixtureSameFamily):
        inner = emission.component_distribution
        each = partial_density(inner, value.unsqueeze(-1 - event), observed.unsqueeze(-1 - event))
        weights = emission.mixture_distribution.logits.log_softmax(-1)
        return torch.logsumexp(each + weights, -1)
    raise StructureError(
        f"some coordinates of an observation are missing, and a {type(emission).__name__} cannot leave out single "
        "coordinates. Use independent coordinates (.to_event(1)), a MultivariateNormal or a Joint, or hide whole steps "
        "with a mask"
    )


def _by_coordinate(emission: Any, value: Tensor, observed: Tensor) -> Tensor:
    """Independent coordinates: those that are missing are left out of the sum."""
    base, own = emission.base_dist, emission.reinterpreted_batch_ndims
    seen = observed
    if base.event_shape:
        inner = observed.flatten(observed.dim() - len(base.event_shape))
        seen = inner.all(-1)
        if bool((seen != inner.any(-1)).any()):
            raise StructureError(
                f"some coordinates of a {type(base).__name__} are missing: hide all of its coordinates, or none"
            )
    each = torch.where(seen, _checked(base, value), 0.0)
    return each.flatten(each.dim() - own).sum(-1) if own else each


def _by_pattern(emission: Any, value: Tensor, observed: Tensor) -> Tensor:
    """A multivariate normal of the coordinates that were observed, for every pattern of missing ones."""
    loc, covariance = emission.loc, emission.covariance_matrix  # (*batch, K, D), (*batch, K, D, D)
    lead = torch.broadcast_shapes(value.shape[:-1], loc.shape[:-1])
    x, D = value.expand(*lead, value.shape[-1]), value.shape[-1]
    seen = observed.expand(*lead, D)
    patterns, which = torch.unique(observed.reshape(-1, D), dim=0, return_inverse=True)
    which = which.reshape(observed.shape[:-1]).expand(lead)
    total = x.new_zeros(lead)
    for i, pattern in enumerate(patterns):
        place = pattern.nonzero()[:, 0]
        if not len(place):
            continue
        part = dist.MultivariateNormal(
            loc.index_select(-1, place),
            covariance.index_select(-1, place).index_select(-2, place),
            validate_args=False,
        )
        total = torch.where(which == i, part.log_prob(x.index_select(-1, place)), total)
    return torch.where(seen.any(-1), total, 0.0)


def _check_steps(batch: Size, steps: int) -> None:
    if len(batch) > 1 and batch[-2] not in (1, steps):
        raise StructureError(
            f"the emission has parameters for {batch[-2]} steps, the data have {steps} (batch shape {tuple(batch)}, "
            "whose last axes are steps and states): are the covariates as long as the data?"
        )


def refused(density: Tensor) -> Tensor:
    """Densities that can be summed: an error where one is NaN or infinite, or an impossible state.

    A sampler switches validation off, since it may try parameters that overflow. Then such a state is impossible, and
    the sampler rejects the step.
    """
    if not density.numel() or float(density.detach().amax()) < torch.inf:  # NaN is not below
        return density
    wrong = ~(density.detach() < torch.inf)
    if not is_validation_enabled():
        return density.masked_fill(wrong, -torch.inf)
    *place, state = wrong.nonzero()[0].tolist()
    raise StructureError(
        f"the emission of state {state} gives observation {place[-1]} the log-density "
        f"{density.detach()[wrong][0].item():g}: its parameters are NaN, infinite, or at the edge of what they may be"
    )


class Densities:
    """The log-densities of observations by state, computed once for each value.

    Copies of a distribution share this object, so that one run of a model has one tensor of densities, whatever
    handlers make of the distribution. The gradient of log Z in it is the posterior of the states.

    :param emission: of batch shape (*draws, *examples, T, K), where leading axes may be missing or 1.
    :param mask: which values were observed, as :func:`observed_cells` takes it.
    """

    def __init__(self, emission: TorchDistribution, mask: Tensor | None) -> None:
        self.emission, self.mask = emission, mask
        self.last: Tensor | None = None  # (*draws, rows, K)
        self._value: Tensor | None = None
        self._version: tuple[int, bool] | None = None

    def of(self, value: Tensor, rows: Rows, form: tuple[Size, int] | None) -> Tensor:  # (*draws, rows, K)
        """Densities of all observations, end to end.

        :param value: as the user gave it: padded, (*examples, T, *event), or flat, (rows, *event).
        :param form: the batch and the longest of a padded value; None for a flat one.
        """
        version = (value._version, torch.is_grad_enabled())
        if self.last is None or self._value is not value or self._version != version:
            self.last = refused(self._found(value, rows, form))
            self._value, self._version = value, version
        return self.last

    def _found(self, value: Tensor, rows: Rows, form: tuple[Size, int] | None) -> Tensor:
        emission, event, batch = self.emission, self.emission.event_shape, self.emission.batch_shape
        observed = observed_cells(value, event, self.mask)
        if not value.is_floating_point():
            value = value.to(torch.get_default_dtype())
        own_series = form is None and len(batch) > 2 and batch[-3] > 1
        if form is not None and len(batch) > 1 and batch[-2] == rows.longest < form[1]:  # padding beyond the last step
            time, form = len(form[0]), (form[0], rows.longest)
            value = value.narrow(time, 0, rows.longest)
            observed = None if observed is None else observed.narrow(time, 0, rows.longest)
        _check_steps(batch, rows.longest if own_series else rows.size if form is None else form[1])
        if not own_series and (form is None or len(batch) == 1):
            if form is not None:
                shape, T = form
                value = flatten(value.reshape(shape.numel(), T, *event), rows.lengths)
                if observed is not None:
                    observed = flatten(observed.reshape(shape.numel(), T, *event), rows.lengths)
            found = log_density(emission, value, observed)  # (*draws, [1,] rows, K)
            return found.squeeze(-3) if len(batch) > 2 else found
        seen = torch.ones_like(value, dtype=torch.bool) if observed is None else observed
        if form is None:  # parameters that belong to the series: lay the series side by side
            shape, T = Size([len(rows)]), rows.longest
            value, seen = rows.pad(value, 0), rows.pad(seen, 0)
        else:
            shape, T = form
            there = valid(rows.lengths, T).reshape(*shape, T, *(1,) * len(event)).to(value.device)
            seen = seen & there
        found = log_density(emission, value, seen)  # (*draws, *shape, T, K)
        lead = found.dim() - len(shape) - 2
        found = found.reshape(*found.shape[:lead], len(rows), T, found.shape[-1])
        return rows.flatten(found[..., : rows.longest, :], lead)

    def draw(self, states: Tensor, rows: Rows, form: tuple[Size, int] | None) -> Tensor:  # (*draws, rows, *event)
        """One observation for each state, (*draws, rows), in the order of the rows."""
        emission, batch = self.emission, self.emission.batch_shape
        event = emission.event_shape
        K, lead = batch[-1], states.dim() - 1
        own_series = form is None and len(batch) > 2 and batch[-3] > 1
        if own_series or (form is not None and len(batch) > 1):
            shape, T = (Size([len(rows)]), rows.longest) if form is None else form
            every = emission.expand(Size((*states.shape[:lead], *shape, T, K))).sample()
            every = every.reshape(*states.shape[:lead], len(rows), T, K, *event)
            cut = every.narrow(lead + 1, 0, rows.longest)
            each = rows.flatten(cut, lead)  # (*draws, rows, K, *event)
        else:
            few = emission if len(batch) < 3 else emission.expand(Size((*states.shape[:lead], 1, *batch[-2:])))
            each = few.expand(Size((*states.shape[:lead], *((1,) if len(batch) > 2 else ()), rows.size, K))).sample()
            each = each.squeeze(lead) if len(batch) > 2 else each
        chosen = states.reshape(*states.shape, 1, *(1,) * len(event)).expand(*states.shape, 1, *event)
        return each.gather(lead + 1, chosen).squeeze(lead + 1)

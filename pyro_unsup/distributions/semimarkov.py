"""The semi-Markov chain: a hidden Markov model whose states last, for explicit durations."""

from __future__ import annotations

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.nn.functional import one_hot, pad

from ..errors import StructureError
from ..kernels.threads import plain_torch
from .duration import check_duration, duration_table, longer, survivor
from .lasting import SemiMarkovPosterior
from .parts import Stretches
from .semiring import Sum
from .sequences import Sequences
from .structure import Potentials


class SemiMarkov(Sequences):
    """Observations emitted by stretches of states, the states and their durations summed out.

    The story, for a sequence of length n: draw a state from ``start``, then one after the other from ``transition``
    given the state before. Each state lasts for 1 to D positions, drawn from ``duration``, and draws their observations
    from ``emission``. The last one ends with the sequence; or, if it is ``censored``, the end of the sequence cuts it
    off, and it would have lasted for at least so long. Weights are logs of anything, and

    .. math:: \\log p(x) = \\log \\sum_{z, d} w(z_1) \\prod_{s > 1} w(z_s \\mid z_{s-1})
              \\prod_s w(d_s \\mid z_s) \\prod_{t \\in s} w(x_t \\mid z_s),

    where the last duration has the weight of all that are at least as long, if it is censored. With -inf on the
    diagonal of ``transition`` a state never follows itself, and the durations say all about how long it lasts.

    With weights of durations that are powers, :math:`w(d \\mid z) = a_z^{d - 1}`, and transitions to other states only,
    it is a :class:`.Chain` that stays in z with weight :math:`a_z`. O(n K (K + D)). On CPU a compiled kernel does the
    work.

    A structure is (rows, 2): the state of each position, and 1 where its stretch ends, else 0. The last stretch ends
    with its sequence, censored or not. Its parts are stretches, (rows, D, K), by their last position, duration and
    state. Durations of censored stretches are a table of their own among the weights, ``last``. It is computed from the
    durations, so that gradients find their way back: to counts of how long a stretch would have lasted.

    :param start: (*batch, K).
    :param transition: (*batch, K, K) axes (old, new).
    :param duration: (*batch, K, D) log-weights of lasting for 1 to D positions; or a distribution over 0, 1, 2, ... of
        batch shape (*batch, K), such as ``NegativeBinomial``, ``Poisson`` or ``Geometric``: a state then lasts for one
        more than it draws.
    :param emission: (*batch, K, V) log-weights of words; or a distribution of batch shape (..., K), as in
        :class:`.Chain`.
    :param lengths: () or (B,). A sequence of length 0 is skipped: probability 1, no counts.
    :param flat: True: values lie end to end, ``(sum of lengths, *event)``. False: values are padded,
        ``(*B, T, *event)``. A single length () is one sequence, which is both.
    :param mask: which values were observed, of the shape of a value or of its steps. NaN is missing without a mask.
        What is missing is integrated out.
    :param censored: whether the last stretch is cut off by the end of its sequence.
    :param longest: D, if the durations are a distribution. No stretch is longer; a censored one would be, perhaps.
    :param renormalise: whether the weights of the D durations of a distribution shall sum to one.

    Example, all weights 1, so that p(x) counts structures, of stretches of at most two words::

        >>> import torch
        >>> from pyro_unsup.distributions import SemiMarkov
        >>> zeros, lengths = torch.zeros, torch.tensor([1, 2, 3])
        >>> SemiMarkov(zeros(2), zeros(2, 2), zeros(2, 2), zeros(2, 1), lengths).log_prob(zeros(6).long()).exp().round()
        tensor([ 2.,  6., 16.])

    A series of measurements, whose states last for about five steps::

        >>> import pyro.distributions as dist
        >>> other = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).log()
        >>> normal, poisson = dist.Normal(torch.tensor([-1.0, 1.0]), 1.0), dist.Poisson(torch.tensor([4.0, 4.0]))
        >>> series = torch.tensor([-1.2, -0.8, 0.3, -1.1, torch.nan, 1.1, -0.1, 0.9, 1.3])
        >>> model = SemiMarkov(zeros(2), other, poisson, normal, len(series), censored=True, longest=20)
        >>> model.posterior(series).mode()[:, 0]
        tensor([0, 0, 0, 0, 0, 1, 1, 1, 1])

    **References:**

    [1] S.-Z. Yu (2010) "Hidden semi-Markov models".
    [2] Y. Guédon (2003) "Estimating hidden semi-Markov chains from discrete sequences" (the censored last stretch).
    """

    axes = {"start": "K", "transition": "K K", "duration": "K D", "emission": "K V", "last": "K D"}  # noqa: RUF012
    part = "stretches"
    part_axes = ("D", "K")
    structure_dim = 1
    shared_groups = ("steps",)
    kernel = "pyro_unsup.kernels.semimarkov"

    def __init__(
        self,
        start: Tensor,
        transition: Tensor,
        duration: Tensor | TorchDistribution,
        emission: Tensor | TorchDistribution,
        lengths: Tensor | int,
        validate_args: bool | None = None,
        *,
        flat: bool = True,
        mask: Tensor | None = None,
        censored: bool = False,
        longest: int | None = None,
        renormalise: bool = False,
    ) -> None:
        lengths, beyond = torch.as_tensor(lengths), None
        #: The distribution of durations, less one; None if they are a table, or renormalised.
        self.lasting: TorchDistribution | None = None
        if isinstance(duration, torch.distributions.Distribution):
            if longest is None:
                raise StructureError(
                    f"durations that are a {type(duration).__name__} need longest=D, the longest stretch to sum over"
                )
            check_duration(duration, torch.as_tensor(start).shape[-1])
            self.lasting = None if renormalise else duration
            with plain_torch():
                beyond = longer(duration, longest) if censored and not renormalise else None
                duration = duration_table(duration, longest, renormalise)
        elif longest is not None or renormalise:
            raise StructureError("longest and renormalise are for durations that are a distribution; these are a table")
        last, duration = None, torch.as_tensor(duration)
        if censored:  # on a copy, so that the gradient in the durations does not count last ones as well
            last, duration = survivor(duration, beyond), duration.clone()
        weights = {"start": start, "transition": transition, "duration": duration, "emission": None, "last": last}
        super().__init__(weights, emission, lengths, flat and lengths.dim() > 0, self.axes, mask, validate_args)

    @property
    def censored(self) -> bool:
        """Whether the last stretch of a sequence is cut off by its end, and has weights of its own."""
        return "last" in self.weights

    def potentials(self, value: Tensor) -> Potentials:
        """Stretches with all their observations, (*draws, rows, D, K); and the steps between them."""
        device, rows, D = value.device, self.rows, self.sizes["D"]
        owner, position = rows.owner.to(device), rows.position.to(device)
        emitted = self.look_up(self.table("emission").mT, owner, value.long())  # (*draws, rows, K)
        window, windows = torch.zeros_like(emitted), []
        for d in range(min(D, rows.longest)):  # the observations from d positions ago to here
            earlier = emitted.roll(d, -2).masked_fill((position < d).unsqueeze(-1), -torch.inf)
            window = window + earlier
            windows.append(window)
        words = pad(torch.stack(windows, -2), (0, 0, 0, D - len(windows)), value=-torch.inf)
        first = (position.unsqueeze(-1) == torch.arange(D, device=device)).unsqueeze(-1)  # (rows, D, 1)
        start = self.spread(self.table("start"), owner).unsqueeze(-2)
        duration = self.spread(self.table("duration").mT, owner)  # (*draws, 1 or rows, D, K)
        if self.censored:
            last = (rows.position == rows.lengths[rows.owner] - 1).to(device)[:, None, None]
            duration = torch.where(last, self.spread(self.table("last").mT, owner), duration)
        return {"stretches": words + duration + torch.where(first, start, 0.0), "steps": self.table("transition")}

    def total(self, potentials: Potentials, sum_: Sum) -> Tensor:
        """Sums over all ways to explain the first t words, by the state that ends there, and by the one that follows::

        after[0, b] = 0
        ahead[t, b] = sum_{d <= D}  after[t - d, b] + stretch[t, d, b]
        after[t, b] = sum_a  ahead[t, a] + step[a, b]
        total       = sum_b  ahead[n, b]
        """
        flat, steps = potentials["stretches"], potentials["steps"]
        stretches = self.rows.pad(flat, flat.dim() - 3, -torch.inf)  # (*draws, B, T, D, K)
        none = torch.full_like(stretches[..., 0, :, :], -torch.inf)
        recent = torch.cat(
            [torch.zeros_like(none[..., :1, :]), none[..., 1:, :]], -2
        )  # after[t - 1], after[t - 2], ...
        ahead = []
        for t in range(stretches.shape[-3]):
            ahead.append(sum_(recent + stretches[..., t, :, :], -2))  # (*draws, B, K)
            after = sum_(ahead[-1].unsqueeze(-1) + steps, -2)
            recent = torch.cat([after.unsqueeze(-2), recent[..., :-1, :]], -2)
        each = sum_(torch.stack(ahead, -1), -2)  # (*draws, B, T) by length
        last = (self.rows.lengths - 1).clamp(min=0).to(flat.device).unsqueeze(-1)
        return each.gather(-1, last.expand(*each.shape[:-1], 1)).squeeze(-1)

    def to_structure(self, parts: Tensor) -> Tensor:  # (*draws, tokens, D, K) -> (*draws, tokens, 2)
        covers = torch.zeros_like(
            parts[..., 0, :]
        )  # (*draws, tokens, K) whether a stretch of this state is over a word
        for d in range(min(self.sizes["D"], self.rows.longest)):  # of one that ends d words later, and lasts for more
            covers = covers + pad(parts[..., d:, d:, :].sum(-2), (0, 0, 0, d))
        return torch.stack([covers.argmax(-1), parts.sum((-1, -2)).long()], -1)

    def to_parts(self, structure: Tensor) -> Tensor:  # (*draws, tokens, 2) -> (*draws, tokens, D, K)
        state, ends = structure[..., 0].clamp(min=0).long(), structure[..., 1] == 1
        number = torch.arange(1, ends.shape[-1] + 1, device=ends.device)
        latest = torch.where(ends, number, 0).cummax(-1).values  # sequences end in the end of a stretch
        before = torch.cat([torch.zeros_like(latest[..., :1]), latest[..., :-1]], -1)
        lasts = (number - before).unsqueeze(-1) == torch.arange(1, self.sizes["D"] + 1, device=ends.device)
        return (ends.unsqueeze(-1) & lasts).unsqueeze(-1) & one_hot(state, self.sizes["K"]).bool().unsqueeze(-2)

    def check_structure(self, structure: Tensor) -> None:
        K, D = self.sizes["K"], self.sizes["D"]
        if structure.shape != (self.rows.size, 2):
            raise StructureError(f"expected a state and an end for each of {self.rows.size} words, actual shape "
                                 f"{tuple(structure.shape)}")  # fmt: skip
        state, ends = structure.unbind(-1)
        if state.numel() and (int(state.min()) < 0 or int(state.max()) >= K):
            raise StructureError(
                f"states must lie in 0 .. {K - 1}, actual range {int(state.min())} .. {int(state.max())}"
            )
        there = self.to_parts(structure).flatten(-2).any(-1)
        last = self.rows.position == self.rows.lengths[self.rows.owner] - 1
        inside = (ends == 0) & ~last.to(ends.device)
        changed = inside & (state != state.roll(-1))
        if (
            bool(((ends == 1) & ~there).any())
            or bool((last.to(ends.device) & (ends != 1)).any())
            or bool(changed.any())
        ):
            raise StructureError(
                f"expected stretches of one state and at most {D} words, each ending in 1, the last with its sequence"
            )

    def posterior(self, value: Tensor) -> SemiMarkovPosterior:
        """The posterior over states and durations, with filtered probabilities, forecasts and the like."""
        return SemiMarkovPosterior(*self.laid_flat(torch.as_tensor(value)))

    def parts(self, value: Tensor) -> Stretches:
        words, lengths, form = self.described(value)
        return Stretches(words, lengths, self.sizes["D"], self.sizes["K"], form)

    def draw_states(self) -> Tensor:  # (*draws, rows)
        return self.draw_structure()[..., 0]

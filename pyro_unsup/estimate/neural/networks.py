"""The networks of some tables, as one function of one vector of weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ...errors import TableError
from ...tables import Declaration
from ..base import Declarations, Tensors

#: Makes a network for a table: a module that is called without arguments, and gives the scores of all cells.
MakeNetwork = Callable[[Declaration], nn.Module]


class Networks:
    """Each row of a table is a softmax of scores that a network gives: log theta = score - log-sum-exp over the row.

    It has what :class:`.Features` has for :func:`pyro_unsup.featured`, so that stock ``SVI`` can train networks, with
    mini-batches if the model takes them.

    :param declarations: of the tables, by name.
    :param net: makes the network of a table, such as :class:`.Embeddings`.
    :param seed: of the weights to start with. Torch's global generator is left as it was.

        >>> import pyro_unsup as pu
        >>> tables = pu.models.Tagger(2, ["dog", "dogs", "cats"]).declarations()
        >>> networks = pu.estimate.Networks(tables, pu.estimate.Embeddings(size=3, hidden=()))
        >>> networks.tables, len(networks) == networks.start.numel()
        (['start', 'transition', 'emission'], True)
        >>> networks.table("emission", networks.start).exp().sum(-1)
        tensor([1.0000, 1.0000], dtype=torch.float64)
    """

    def __init__(self, declarations: Declarations, net: MakeNetwork, seed: int = 0) -> None:
        self._layouts = {name: declaration.layout for name, declaration in declarations.items()}
        self._modules = _build(declarations, net, seed)
        self._numbers = {name: i for i, name in enumerate(declarations)}
        tables = list(declarations)
        inner = dict(self._modules.named_parameters())  # a module that two tables share is here once
        self._names = {_outer(key, tables): key for key in inner}
        self._start = {name: inner[key].detach().clone() for name, key in self._names.items()}

    def __len__(self) -> int:
        return sum(x.numel() for x in self._start.values())

    @property
    def tables(self) -> list[str]:
        """The tables that they are of."""
        return list(self._layouts)

    @property
    def start(self) -> Tensor:  # (F,)
        """The weights that the networks were made with, end to end."""
        return self.flat(self._start)

    @property
    def has_dropout(self) -> bool:
        """Whether training differs from use."""
        kinds = nn.modules.dropout._DropoutNd
        return any(isinstance(one, kinds) and one.p > 0 for one in self._modules.modules())

    def named(self, w: Tensor) -> dict[str, Tensor]:  # (F,)
        """The weights of each layer by name, ``table.layer``."""
        parts = w.split([x.numel() for x in self._start.values()])
        return {name: part.reshape(x.shape) for (name, x), part in zip(self._start.items(), parts, strict=True)}

    def flat(self, named: Tensors) -> Tensor:  # (F,)
        """The way back."""
        return torch.cat([named[name].detach().double().reshape(-1) for name in self._start])

    def table(self, name: str, w: Tensor) -> Tensor:  # (*batch, F) -> (*batch, *shape)
        """One of the tables, as a differentiable function of the weights."""
        if w.dim() == 1:
            return self._table(name, self._inner(w.double()))
        found = [self.table(name, one) for one in w.reshape(-1, w.shape[-1])]
        return torch.stack(found).reshape(*w.shape[:-1], *self._layouts[name].shape)

    def log_weights(self, w: Tensor) -> dict[str, Tensor]:  # (F,)
        """All tables that these weights stand for."""
        inner = self._inner(w)
        return {name: self._table(name, inner) for name in self._layouts}

    def expected(self, w: Tensor, counts: Tensors) -> Tensor:  # (F,) -> ()
        """Counts times log-weights, of all tables together: the expected complete log-likelihood."""
        total = w.new_zeros(())
        for name, table in self.log_weights(w).items():
            allowed = self._layouts[name].support
            # A structural zero has no counts, and 0 * -inf is 0.
            total = total + (counts[name] * (table if allowed is None else table.masked_fill(~allowed, 0.0))).sum()
        return total

    @contextmanager
    def training(self, seed: int) -> Iterator[None]:
        """Drop inputs at random inside, if the networks have dropout."""
        self._modules.train()
        try:
            with seeded(seed):
                yield
        finally:
            self._modules.eval()

    def _inner(self, w: Tensor) -> dict[str, Tensor]:
        return {self._names[name]: x for name, x in self.named(w).items()}

    def _table(self, name: str, inner: Mapping[str, Tensor]) -> Tensor:
        scores, layout = functional_call(self._modules, dict(inner), (self._numbers[name],)), self._layouts[name]
        if not isinstance(scores, Tensor) or scores.shape != layout.shape:
            shape = tuple(scores.shape) if isinstance(scores, Tensor) else scores
            raise TableError(
                f"the network of table '{name}' must return scores of the table's shape {tuple(layout.shape)} when it "
                f"is called without arguments, actual {shape!s:.80}"
            )
        return layout.normalise(scores.double())


class _Modules(nn.ModuleList):
    """The networks, called by number."""

    def forward(self, number: int) -> Any:
        return self[number]()


def _build(declarations: Declarations, net: MakeNetwork, seed: int) -> _Modules:
    before = torch.get_default_dtype()
    with seeded(seed):
        torch.set_default_dtype(torch.float64)  # the same draws, whatever the user's default is
        try:
            found = [net(declaration) for declaration in declarations.values()]
        finally:
            torch.set_default_dtype(before)
    for name, one in zip(declarations, found, strict=True):
        if not isinstance(one, nn.Module):
            raise TableError(f"net must make a torch.nn.Module for a table, actual {one!r:.80} for table '{name}'")
        if any(isinstance(m, nn.modules.batchnorm._NormBase) and m.track_running_stats for m in one.modules()):
            raise TableError(
                f"the network of table '{name}' keeps running statistics of what it sees, so that the same weights "
                "would stand for different tables: use nn.LayerNorm, or track_running_stats=False"
            )
        if not any(True for _ in one.parameters()):
            raise TableError(f"the network of table '{name}' has no parameters: nothing could be learned")
    return _Modules(found).double().eval()


def _outer(key: str, tables: list[str]) -> str:
    number, _, rest = key.partition(".")
    return f"{tables[int(number)]}.{rest}"


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's global generator starts from this seed inside, and is as it was afterwards. Layers of torch draw from it.

    >>> import torch
    >>> from pyro_unsup.estimate.neural.networks import seeded
    >>> before = torch.get_rng_state()
    >>> with seeded(3):
    ...     x = torch.rand(())
    >>> torch.equal(torch.get_rng_state(), before)
    True
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed other devices too
        yield

"""What a model learns besides its tables: ``pyro.param`` sites, and points of continuous latent variables (MAP)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyro
import torch
from pyro.infer.autoguide.initialization import init_to_median
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor
from torch.distributions import Transform, biject_to, constraints, transform_to

from ..errors import FitError


class Points(Messenger):
    """Answers the continuous latent sites of a model with values that an M step can move.

    Values are kept unconstrained, so that L-BFGS may go anywhere. A site that is met for the first time starts at its
    prior's median.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unconstrained: dict[str, Tensor] = {}
        self.transforms: dict[str, Transform] = {}
        self.supports: dict[str, Any] = {}

    def _pyro_sample(self, msg: Any) -> None:
        if msg["is_observed"] or msg["done"] or site_is_subsample(msg):
            return
        fn = msg["fn"]
        if getattr(fn, "has_enumerate_support", False):
            return
        if fn.support.is_discrete:
            raise FitError(
                f"site '{msg['name']}' ({type(fn).__name__}) is a discrete latent variable that cannot be "
                "enumerated: observe it, or sum it out by hand"
            )
        transform = self.transforms[msg["name"]] = biject_to(fn.support)
        self.supports[msg["name"]] = fn.support
        if msg["name"] not in self.unconstrained:
            with torch.no_grad():
                value = transform.inv(init_to_median(msg))
            self.unconstrained[msg["name"]] = value.detach().clone().requires_grad_()
        msg["value"] = transform(self.unconstrained[msg["name"]])
        # Conditioned on, as far as Pyro is concerned: nothing else should sample it or miss it in a guide.
        msg["done"] = msg["is_observed"] = True


class Parameters:
    """The parameters and points of one model, in a parameter store of their own.

    The model runs inside :meth:`active`. There it finds this store in the place of Pyro's global one, which is put
    back afterwards. The leaves stay the same tensors (a network computes with its own), so values are copied into them.
    """

    def __init__(self) -> None:
        self.points = Points()
        self.names: list[str] = []  # of ``pyro.param`` sites
        self._store: Any = {"params": {}, "constraints": {}}
        self._transforms: dict[str, tuple[Transform, Transform]] = {}

    @contextmanager
    def active(self) -> Iterator[None]:
        """Answer the parameters and continuous latent variables of a model that runs in this block."""
        with pyro.get_param_store().scope(self._store), self.points:
            yield

    @property
    def leaves(self) -> dict[str, Tensor]:
        """The unconstrained tensors that an M step moves, by parameter or site."""
        return {**{name: self._store["params"][name] for name in self.names}, **self.points.unconstrained}

    def read(self) -> dict[str, Tensor]:
        """Copies of the leaves."""
        return {name: leaf.detach().clone() for name, leaf in self.leaves.items()}

    def write(self, unconstrained: Mapping[str, Tensor]) -> None:
        """Make these the values of the leaves."""
        leaves = self.leaves
        with torch.no_grad():
            for name, x in unconstrained.items():
                leaves[name].copy_(x)

    def start_from(self, unconstrained: Mapping[str, Tensor], source: str) -> None:
        """Start at these values.

        :param source: where they come from, for errors.
        """
        for name, leaf in self.leaves.items():
            if name not in unconstrained:
                raise FitError(f"{source} has no parameter '{name}': it has {sorted(unconstrained)}")
            if unconstrained[name].shape != leaf.shape:
                raise FitError(
                    f"{source} has parameter '{name}' of shape {tuple(unconstrained[name].shape)}, the model wants "
                    f"{tuple(leaf.shape)}"
                )
        self.write({name: unconstrained[name] for name in self.leaves})

    def start_from_store(self) -> None:
        """Start at the values that Pyro's global store has, where it has one."""
        store, own = pyro.get_param_store(), self.read()
        given = {name: store[name].unconstrained() for name in self.names if name in store}
        self.start_from({**own, **given}, "Pyro's parameter store")

    def support(self, name: str) -> Any:
        """The constraint on a parameter, or the support of a point."""
        constraint = self._store["constraints"].get(name)
        return self.points.supports[name] if constraint is None else constraint

    def values(self) -> dict[str, Tensor]:
        """The values of parameters as the model sees them, without gradients."""
        found = {}
        for name in self.names:
            x = self._store["params"][name].detach()
            found[name] = x.clone() if self._store["constraints"][name] is constraints.real else self.transform(name)(x)
        return found

    def transform(self, name: str) -> Transform:
        """From the space that an M step moves a parameter or point in, to its values."""
        if name in self.points.transforms:
            return self.points.transforms[name]  # of the last run: a support may depend on other values
        if name not in self._transforms:
            found = transform_to(self._store["constraints"][name])
            self._transforms[name] = found, found.inv  # torch makes an inverse anew, unless someone keeps it
        return self._transforms[name][0]

    def constrained(self, unconstrained: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Values of parameters, and of points, as the model sees them."""
        params = {name: self.transform(name)(unconstrained[name].clone()) for name in self.names}
        points = {name: how(unconstrained[name].clone()) for name, how in self.points.transforms.items()}
        return params, points

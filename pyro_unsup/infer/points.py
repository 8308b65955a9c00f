"""Continuous latent variables under EM: point estimates, their log prior included (MAP)."""

from __future__ import annotations

from typing import Any

import torch
from pyro.infer.autoguide.initialization import init_to_median
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor
from torch.distributions import Transform, biject_to

from ..errors import FitError


class Points(Messenger):
    """Answers the continuous latent sites of a model with values that an M step can move.

    Values are kept unconstrained, so that L-BFGS may go anywhere; a site that is met for the first time starts at its
    prior's median.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unconstrained: dict[str, Tensor] = {}
        self._transforms: dict[str, Transform] = {}

    def values(self) -> dict[str, Tensor]:
        """The current estimates, in the space of the sites. They stay as they are when an M step moves on."""
        return {name: self._transforms[name](x.detach().clone()) for name, x in self.unconstrained.items()}

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
        transform = self._transforms[msg["name"]] = biject_to(fn.support)
        if msg["name"] not in self.unconstrained:
            with torch.no_grad():
                value = transform.inv(init_to_median(msg))
            self.unconstrained[msg["name"]] = value.detach().clone().requires_grad_()
        msg["value"] = transform(self.unconstrained[msg["name"]])
        # Conditioned on, as far as Pyro is concerned: nothing else should sample it or miss it in a guide.
        msg["done"] = msg["is_observed"] = True

"""What a chain is of: corpus, model and settings, so that a chain of anything else is not resumed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from ..array import Array
from ..results.building import describe_model
from .gibbs_chain import GibbsChain
from .hyperparameters import LARGEST, SMALLEST, Hyperprior
from .schedules import at_sweep

#: What a chain may be of, in words; whatever else differs is named.
OTHER = {
    "corpus": "another corpus",
    "model": "another model",
    "temperatures": "other temperatures",
    "hyperprior": "another hyperprior",
}
#: At so many concentrations two hyperpriors are compared.
POINTS = 100_001


def digest(parts: dict[str, Array]) -> str:
    """SHA-256 of arrays by name."""
    found = hashlib.sha256()
    for name, x in sorted(parts.items()):
        found.update(f"{name} {x.dtype} {x.shape}\n".encode())
        found.update(np.ascontiguousarray(x).tobytes())
    return found.hexdigest()


def temperatures(walk: GibbsChain) -> str:
    """What a schedule comes to: functions have no names that tell them apart."""
    return digest({"": np.array([at_sweep(walk.temperature, sweep, walk.sweeps) for sweep in range(walk.sweeps)])})


def densities(prior: Hyperprior) -> str:
    """The same for a prior."""
    with np.errstate(all="ignore"):  # it may be -inf, or nothing at all, at the far ends
        return digest({"": np.asarray(prior.log_density(np.geomspace(SMALLEST, LARGEST, POINTS)), np.float64)})


def identity(model: Any, walk: GibbsChain, settings: dict[str, Any]) -> dict[str, Any]:
    """What a chain is of, in plain values."""
    named = {name: value for name, value in settings.items() if name not in ("temperature", "hyperprior")}
    plain, tensors = describe_model(model)
    described = json.dumps(plain, sort_keys=True).encode() + digest({k: x.numpy() for k, x in tensors.items()}).encode()
    return {
        "corpus": digest(walk.state.data),
        "model": hashlib.sha256(described).hexdigest(),
        "settings": {**named, "seed": walk.seed},
        "temperatures": temperatures(walk),
        "hyperprior": densities(walk.hyper.prior),
    }

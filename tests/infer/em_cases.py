"""Small random corpora for EM, and weights to start from."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from pyro_unsup import EM
from pyro_unsup.models import Tagger


def corpus(n: int = 12, V: int = 4, longest: int = 5, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(V, size=rng.integers(1, longest + 1)).tolist() for _ in range(n)]


def start_weights(model: Tagger, data: list[list[int]], seed: int = 0) -> dict[str, Tensor]:
    return EM(model).init(data, seed=seed).weights

"""Seeds for several uses of one seed, so that what is drawn here does not depend on what is drawn there."""

from __future__ import annotations

import zlib

import numpy as np
import torch


def stream(seed: int, use: str) -> int:
    """A seed of its own for one use. Two generators with one seed would draw the same numbers: parameters, and the
    noise of data that are drawn with them, would go together.

    >>> from pyro_unsup.workflow.seeds import stream
    >>> stream(0, "prior") == stream(0, "prior"), stream(0, "prior") == stream(0, "data")
    (True, False)
    """
    return int(np.random.SeedSequence([seed % 2**64, zlib.crc32(use.encode())]).generate_state(1)[0])


def generator(seed: int, use: str) -> torch.Generator:
    """A generator of torch for one use."""
    return torch.Generator().manual_seed(stream(seed, use))

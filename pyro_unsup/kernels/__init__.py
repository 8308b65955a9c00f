"""Compiled passes over flat ragged data. Nothing is compiled at import; what is compiled is cached on disk.

Kernels are speed, never meaning: each agrees with the torch definition in :mod:`pyro_unsup.distributions`. To go
without them, set the environment variable ``PYRO_UNSUP_KERNELS=off``, or use :func:`switched_off`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_SAID = os.environ.get("PYRO_UNSUP_KERNELS", "on").lower()
_on: ContextVar[bool] = ContextVar("kernels", default=_SAID not in ("off", "0", "no"))


def enabled() -> bool:
    """Whether structures may use their kernels."""
    return _on.get()


@contextmanager
def switched_off() -> Iterator[None]:
    """Let the torch definitions do all sums, as they do on any other device than the CPU.

    >>> import torch, pyro_unsup as pu
    >>> from pyro_unsup import kernels
    >>> chain = pu.Chain(torch.zeros(2), torch.zeros(2, 2), torch.zeros(2, 3), torch.tensor([3]), flat=True)
    >>> with kernels.switched_off():
    ...     total = chain.log_prob(torch.tensor([0, 1, 2]))
    >>> total.exp().round()
    tensor([8.])
    """
    token = _on.set(False)
    try:
        yield
    finally:
        _on.reset(token)

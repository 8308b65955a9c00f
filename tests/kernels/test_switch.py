"""Kernels can be switched off, for a while or for good."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup import kernels
from pyro_unsup.kernels import chain as kernel


def _never(*_: object) -> None:
    raise AssertionError("a kernel was used")


def chain() -> tuple[pu.Chain, torch.Tensor]:
    weights = torch.randn(2), torch.randn(2, 2), torch.randn(2, 3)
    return pu.Chain(*weights, torch.tensor([3, 2]), flat=True), torch.tensor([0, 1, 2, 2, 0])


def test_switched_off_the_definition_does_all_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    dist, words = chain()
    before = dist.posterior(words)
    expected = before.log_partition, before.marginals, before.entropy, before.mode(), before.counts["transition"]
    for name in ("sums", "solve", "decode", "pick"):
        monkeypatch.setattr(kernel, name, _never)
    with pytest.raises(AssertionError, match="a kernel was used"):
        dist.log_prob(words)
    with kernels.switched_off():
        torch.testing.assert_close(dist.log_prob(words), expected[0])
        after = dist.posterior(words)
        found = after.log_partition, after.marginals, after.entropy, after.mode(), after.counts["transition"]
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other)
        assert after.sample((2,)).shape == (2, 5)
        assert after.mbr().shape == (5,)


def test_it_ends_where_it_ends_and_is_for_one_thread() -> None:
    seen = []
    with kernels.switched_off():
        with kernels.switched_off():
            assert not kernels.enabled()
        assert not kernels.enabled()
        other = threading.Thread(target=lambda: seen.append(kernels.enabled()))
        other.start()
        other.join()
    assert kernels.enabled()
    assert seen == [True]
    with pytest.raises(ZeroDivisionError), kernels.switched_off():
        raise ZeroDivisionError
    assert kernels.enabled()


@pytest.mark.parametrize(("setting", "loaded"), [("off", False), ("on", True), (None, True)])
def test_the_environment_switches_them_off_for_good(setting: str | None, loaded: bool) -> None:
    """Without kernels, what numba compiles is not even loaded."""
    program = (
        "import sys, torch, pyro_unsup as pu\n"
        "chain = pu.Chain(torch.zeros(2), torch.zeros(2, 2), torch.zeros(2, 3), torch.tensor([3]), flat=True)\n"
        "print(chain.log_prob(torch.tensor([0, 1, 2])).exp().round().tolist())\n"
        "print(pu.kernels.enabled(), 'pyro_unsup.kernels.chain' in sys.modules)\n"
    )
    environment = {name: x for name, x in os.environ.items() if name != "PYRO_UNSUP_KERNELS"}
    environment |= {} if setting is None else {"PYRO_UNSUP_KERNELS": setting}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert run.stdout.split("\n")[:2] == ["[8.0]", f"{loaded} {loaded}"]

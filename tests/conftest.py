"""Every test starts from the same state: float64, a fixed seed, an empty parameter store, one thread."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyro
import pytest
import torch


@pytest.fixture(autouse=True)
def _same_state() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    pyro.set_rng_seed(0)
    pyro.clear_param_store()
    pyro.enable_validation(True)
    yield
    torch.set_default_dtype(before)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real corpora, which are not part of the project."""
    folder = Path(os.environ.get("PYRO_UNSUP_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real corpora not found at {folder}: set PYRO_UNSUP_DATA to the folder that holds them")
    return folder

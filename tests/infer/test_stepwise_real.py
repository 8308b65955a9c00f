"""What stepwise EM learns from a real text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pyro_unsup as pu
from pyro_unsup.models import Segmenter


@pytest.mark.deep
def test_words_of_child_directed_speech(real_data: Path) -> None:
    """With the setting that Liang & Klein (2009) chose by likelihood; their mean is 81.0, after 20 passes."""
    text = pu.data.read_segmented(real_data / "br-phono.txt")
    model = Segmenter.of(text, max_length=10)
    found = []
    for seed in range(5):
        engine = pu.StepwiseEM(model, init=pu.init.noise(1e-3), power=0.7, batch_size=1000, order_seed=seed)
        fit = engine.run(text, iterations=10, tolerance=0, seed=seed, progress=False)
        found.append(100 * fit.evaluate(text)["token_f1"])
    assert np.mean(found) >= 81
    assert np.min(found) >= 80.5

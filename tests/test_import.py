"""Importing the package is cheap, and kernels are compiled once."""

from __future__ import annotations

import json
import subprocess
import sys

PROBE = """
import json, sys, time
import pyro
began = time.process_time()
import pyro_unsup
seconds = time.process_time() - began
heavy = [m for m in "numba arviz matplotlib pandas sklearn joblib nltk pooch".split() if m in sys.modules]
print(json.dumps({"seconds": seconds, "heavy": heavy}))
"""

KERNELS = """
import sys, json
sys.path.insert(0, sys.argv[1])
import torch
import pyro_unsup as pu
chain = pu.Chain(torch.zeros(2), torch.zeros(2, 2), torch.zeros(2, 3), torch.tensor([2]), flat=True)
chain.log_prob(torch.tensor([0, 1]))
from pyro_unsup.kernels.chain_dense import dense_pass
print(json.dumps(sum(dense_pass.stats.cache_hits.values())))
"""


def test_import_is_light() -> None:
    found = min(
        (
            json.loads(subprocess.run([sys.executable, "-c", PROBE], capture_output=True, check=True).stdout)
            for _ in range(3)
        ),
        key=lambda r: r["seconds"],
    )
    assert found["heavy"] == []
    assert found["seconds"] < 1


def test_kernels_are_cached_on_disk() -> None:
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", KERNELS, "."], capture_output=True, check=True).stdout)
        for _ in range(2)
    ]
    assert runs[1] == 1


TRAINING = """
import json, sys
import pyro_unsup as pu
pu.EM(pu.models.Tagger(2, 3)).run([[0, 1, 2], [1, 2]], iterations=2, progress=False)
print(json.dumps([m for m in "scipy.stats arviz matplotlib pandas sklearn joblib".split() if m in sys.modules]))
"""


def test_training_imports_what_it_needs() -> None:
    ran = subprocess.run([sys.executable, "-c", TRAINING], capture_output=True, check=True)
    assert json.loads(ran.stdout) == []

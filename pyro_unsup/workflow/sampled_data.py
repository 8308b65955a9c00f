"""The data that labels were sampled for."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..errors import UnsupError
from ..models.clusterer import Bags
from ..models.sentences import Sentences
from ..results import Samples


def sampled_data(samples: Samples) -> Any:
    """The data that labels were sampled for, as the model takes them."""
    found = {name: torch.from_numpy(np.asarray(x)) for name, x in samples.data.items()}
    if "times" in found:
        return Bags(torch.stack([found["words"], found["times"]], 1), found["offsets"].diff())
    if "words" not in found:
        raise UnsupError(
            f"labels of {samples.model!r} are no states with tables of their own: expected samples of a tagger or a "
            "clusterer"
        )
    return Sentences(found["words"], found["offsets"])

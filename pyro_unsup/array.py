"""The type of arrays, whatever their shape and dtype: those are said in comments."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

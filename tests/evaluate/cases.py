"""A small table of tags and clusters, and random ones."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

# The 3 x 3 table below, token by token. Greedy matching takes 5 + 1 + 0; the best matching takes 4 + 4 + 2.
TABLE = [[5, 4, 0], [4, 1, 0], [0, 0, 2]]
GOLD = np.repeat([0, 0, 0, 1, 1, 1, 2, 2, 2], np.ravel(TABLE))
PREDICTED = np.repeat([0, 1, 2, 0, 1, 2, 0, 1, 2], np.ravel(TABLE))

pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), min_size=1, max_size=60).map(
    lambda rows: tuple(np.array(rows).T)
)
property_test = settings(derandomize=True, deadline=None, max_examples=200)

"""When is scaled real arithmetic exact enough? A certificate, checked on every sequence.

Passes in scaled real space keep forward messages ``a_t`` that sum to 1 and backward messages ``b_t`` with
``a_t . b_t = 1``. Whatever underflows on the way was below ``tiny`` (the smallest normal number) after scaling, so it
would have added at most ``tiny * b`` to a total of 1. Hence, if no backward message (divided by its scale factor)
exceeds a limit, the mass lost is below ``tiny * limit`` a step and state, which for the limits below is far under the
rounding error. A sequence that breaks the limit is done again in log space.
"""

from __future__ import annotations

import numpy as np

#: No reordering that could hide a NaN or an infinity: the certificate relies on them.
FAST = {"reassoc", "contract", "arcp", "nsz"}

LIMIT = {np.dtype(np.float64): 1e250, np.dtype(np.float32): 1e24}

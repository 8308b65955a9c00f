"""Hidden Markov models in hmmlearn's signature: replace ``from hmmlearn import hmm`` by ``from pyro_unsup import hmm``.

Classes, arguments, attributes and methods have hmmlearn's names and meanings, and training takes the same steps: from
the same start, with the same priors, it finds the same numbers. Two things differ. Where ``fit`` chooses a start, it
does so by a k-means of its own, with even tables. And a row of transitions that no data reach keeps its values.

Missing values (NaN) may be in the data. ``fit_`` is a :class:`pyro_unsup.Fit` of a :class:`pyro_unsup.models.HMM`, with
forecasts, filtered probabilities and plots.
"""

from .base import ConvergenceMonitor
from .counts import CategoricalHMM, PoissonHMM
from .gaussian import GaussianHMM
from .mixture import GMMHMM

__all__ = ["GMMHMM", "CategoricalHMM", "ConvergenceMonitor", "GaussianHMM", "PoissonHMM"]

"""Hidden Markov models of time series as textbooks and manuals work them out: estimates, forecasts and decodings."""

from __future__ import annotations

from . import textbook_hmm_counts, textbook_hmm_measures_tables, textbook_hmm_posterior, textbook_hmm_switching
from .experiment import Paper

ABOUT = (
    "l is the log-likelihood in nats, of the data as probabilities or densities, factorials included. A stationary "
    "start is that of the long run; a free one is estimated, and adds parameters to AIC and BIC. States are in the "
    "order of their means. Published figures come from public notes, manuals and tests that quote the books."
)
PAPER = Paper(
    "textbook-hmm",
    "Worked examples of hidden Markov models: Zucchini & MacDonald, Hamilton, depmixS4, statsmodels, hmmlearn",
    (
        *textbook_hmm_counts.TABLES,
        *textbook_hmm_posterior.TABLES,
        *textbook_hmm_measures_tables.TABLES,
        *textbook_hmm_switching.TABLES,
    ),
    about=ABOUT,
)

"""The tables of papers, run again: one file a paper, which says what its rows are, how to get them and what it printed.

``pyro-unsup reproduce`` lists the papers and runs them; :func:`paper` gives one of them in Python.
"""

from __future__ import annotations

from importlib import import_module

from ..errors import UnsupError
from .corpora import Corpora
from .experiment import Column, Curve, Found, Paper, Row, Table
from .plan import Plan
from .runner import Finished, run

__all__ = ["PAPERS", "Column", "Corpora", "Curve", "Finished", "Found", "Paper", "Plan", "Row", "Table", "paper", "run"]

#: Modules of this folder, each with a ``PAPER``, in the order of the list.
PAPERS: tuple[str, ...] = (
    "smith_eisner_2004",
    "goldwater_griffiths_2007",
    "liang_klein_2009",
    "berg_kirkpatrick_2010",
    "cohen_smith_2010",
    "textbook_hmm",
)


def paper(name: str) -> Paper:
    """A paper by its name, with hyphens or underscores.

    >>> from pyro_unsup.reproduce import paper
    >>> paper("smith-eisner-2004").name
    'smith-eisner-2004'
    """
    module = name.replace("-", "_")
    if module not in PAPERS:
        known = ", ".join(one.replace("_", "-") for one in PAPERS)
        raise UnsupError(f"no paper {name!r:.80}, expected one of {known}")
    found: Paper = import_module(f"{__name__}.{module}").PAPER
    return found

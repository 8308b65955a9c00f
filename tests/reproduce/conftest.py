"""A folder with a tiny corpus in it, and a way to run plans."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from pyro_unsup.reproduce import Corpora, Finished, Plan, run

TREE = "(S (NP (DT the) (NN dog)) (VP (VBZ runs)))\n"


@pytest.fixture
def corpora(tmp_path: Path) -> Corpora:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "wsj_nltk.mrg").write_text(3 * TREE)
    return Corpora(folder)


def finish(plan: Plan, out: Path, processes: int = 1) -> Finished:
    """Run a plan to its end."""
    with closing(run(plan, out, processes)) as states:
        return list(states)[-1]

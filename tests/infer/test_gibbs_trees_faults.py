"""Planted faults: samplers of trees that draw from another distribution are noticed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

from pyro_unsup.kernels import gibbs_brackets, gibbs_factored, gibbs_headed, gibbs_heads, gibbs_labels, gibbs_urns

from .test_gibbs_trees import PROBLEMS, again, chi_squared


@njit
def uncorrected(old, new, urns, decision):  # type: ignore[no-untyped-def]
    """Every proposal is accepted."""
    gibbs_urns.put(new, urns)
    gibbs_urns.refresh(new, urns)
    return True


@njit
def half_corrected(old, new, urns, decision):  # type: ignore[no-untyped-def]
    """The proposal is left out of the ratio."""
    before = gibbs_urns.put(old, urns)
    gibbs_urns.take(old, urns)
    after = gibbs_urns.put(new, urns)
    if np.log(decision) < after - before:
        gibbs_urns.refresh(new, urns)
        return True
    gibbs_urns.take(new, urns)
    gibbs_urns.put_back(old, urns)
    return False


@pytest.mark.parametrize("settle", [half_corrected, pytest.param(uncorrected, marks=pytest.mark.deep)])
@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("DMV, sharp", gibbs_heads),
        ("CCM 1, pairs", gibbs_brackets),
        ("DMV + CCM", gibbs_headed),
        ("PCFG, sharp", gibbs_labels),
        ("SimplePCFG, sharp", gibbs_factored),
    ],
)
def test_the_test_notices_when_the_correction_is_left_out(
    settle: Any, name: str, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "sweep", again(module, "sweep", settle=settle))
    assert chi_squared(PROBLEMS[name]()) < 1e-10


@njit
def without_the_first(tags, heads, places, room, cells):  # type: ignore[no-untyped-def]
    """The draws of a tree, that of its first word left out."""
    used = gibbs_heads.cells_of_heads(tags, heads, places, room, cells)
    for k in range(used - 1):
        cells[k] = cells[k + 1]
    return used - 1


@njit
def without_contexts(n, at, structure, columns, cells):  # type: ignore[no-untyped-def]
    used = gibbs_brackets.cells_of_brackets(n, at, structure, columns, cells)
    for m in range(used // 2):
        cells[m] = cells[2 * m]
    return used // 2


@njit
def without_a_rule(words, structure, places, cells):  # type: ignore[no-untyped-def]
    return gibbs_labels.cells_of_labels(words, structure, places, cells) - 1


@njit
def without_a_part(words, structure, places, cells):  # type: ignore[no-untyped-def]
    """The draws of a tree, the right part of the whole sentence left out."""
    return gibbs_factored.cells_of_labels(words, structure, places, cells) - 1


@pytest.mark.parametrize(
    ("name", "module", "cells", "wrong"),
    [
        ("DMV, one sentence", gibbs_heads, "cells_of_heads", without_the_first),
        ("CCM 1, pairs", gibbs_brackets, "cells_of_brackets", without_contexts),
        ("PCFG, sharp", gibbs_labels, "cells_of_labels", without_a_rule),
        ("SimplePCFG, sharp", gibbs_factored, "cells_of_labels", without_a_part),
    ],
)
def test_the_test_notices_a_draw_that_is_not_counted(
    name: str, module: Any, cells: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "sweep", again(module, "sweep", **{cells: wrong}))
    assert chi_squared(PROBLEMS[name](), kept=8000, sweeps=3) < 1e-6


@njit
def left_wholes_only(mode, words, places, urns, room):  # type: ignore[no-untyped-def]
    """The weights of a sentence, labels not divided by the wholes of their right parts."""
    gibbs_factored.weigh_sentence(mode, words, places, urns, room)
    for a in range(places.N):
        room.top[a] *= np.exp(urns.whole[1 + places.N + a])
        room.label[:, a] *= np.exp(urns.whole[1 + places.N + a])


@njit
def nothing(cells, places, urns, room):  # type: ignore[no-untyped-def]
    """Rules stay as they were before a sentence changed them."""


@pytest.mark.parametrize(
    ("name", "function", "wrong"),
    [
        ("SimplePCFG, sharp", "refresh_parts", nothing),
        pytest.param("SimplePCFG, labels", "weigh_sentence", left_wholes_only, marks=pytest.mark.deep),
    ],
)
def test_the_test_notices_proposals_by_other_weights(
    name: str, function: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = again(gibbs_factored, "draw_labels", **{function: wrong})
    monkeypatch.setattr(
        gibbs_factored, "sweep", again(gibbs_factored, "sweep", **{"draw_labels": draw, function: wrong})
    )
    assert chi_squared(PROBLEMS[name]()) < 1e-10

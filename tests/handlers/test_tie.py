"""Symmetry of both directions of aligners: in training, decoding and saving, and where it cannot be had."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch
from pyro import poutine
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import components as c
from pyro_unsup import kernels
from pyro_unsup.handlers import TieMessenger, given
from pyro_unsup.models import Aligner, HMMAligner, Tagger
from pyro_unsup.tasks.decoding.aligner import decode

PAIRS = pu.data.toy.bitext(25, seed=1)
BOTH = pytest.mark.parametrize("kind", [Aligner, HMMAligner])


def random_start(model: Any) -> Any:
    generator, start = torch.Generator().manual_seed(3), {}
    for name, d in model.declarations().items():
        start[name] = d.layout.normalise(torch.randn(d.layout.shape, generator=generator, dtype=torch.float64))
    return pu.init.from_weights(start)


def marginals(model: Any, weights: Any, bitext: Any) -> list[Tensor]:
    trace = poutine.trace(given(model, weights)).get_trace(bitext)
    return [trace.nodes[way]["fn"].posterior(trace.nodes[way]["value"]).marginals for way in ("forward", "backward")]


def apart(model: Any, weights: Any, bitext: Any) -> float:
    """The largest difference between the two directions, of links between words."""
    pairs = pu.handlers.bare(model).index(bitext)  # type: ignore[attr-defined]
    row, column = pairs.grid.parts()
    inner = (pairs.grid.place[row] > 0) & (column > 0)
    one, other = marginals(model, weights, bitext)
    return float((one - other)[inner].abs().max())


@BOTH
@pytest.mark.parametrize("compiled", [True, False])
def test_em_never_lowers_the_objective_and_keeps_to_the_tie(kind: Any, compiled: bool) -> None:
    model = kind.of(PAIRS, agreement=None)
    tied = pu.regularise(model, c.symmetric(1e-6))
    em = pu.EM(tied, init=random_start(model))
    if compiled:
        fit = em.run(PAIRS, iterations=6, tolerance=0, progress=False)
    else:
        with kernels.switched_off():
            fit = em.run(PAIRS, iterations=6, tolerance=0, progress=False)
    path = [row["objective"] for row in fit.rows]
    assert all(b >= a - 1e-8 * abs(a) for a, b in itertools.pairwise(path))
    assert apart(tied, fit.weights, PAIRS) <= 1e-6
    assert tied.apart is not None
    assert float(tied.apart.max()) <= 1e-6
    assert apart(model, fit.weights, PAIRS) > 0.05  # without the tie
    free = pu.EM(model, init=random_start(model)).run(PAIRS, iterations=0, progress=False)
    assert path[0] < free.objective


@BOTH
def test_kernels_make_no_difference(kind: Any) -> None:
    model = kind.of(PAIRS, agreement=None)
    tied = pu.regularise(model, c.symmetric(1e-10))
    em = pu.EM(tied, init=random_start(model))
    info, found = em.e_step(em.init(PAIRS))
    with kernels.switched_off():
        other, same = em.e_step(em.init(PAIRS))
    assert info.objective == pytest.approx(other.objective, rel=1e-12)
    for name, counts in found.counts.items():
        torch.testing.assert_close(counts, same.counts[name], rtol=0, atol=1e-7)


@BOTH
def test_steps_are_pure_and_resume_bit_for_bit(kind: Any) -> None:
    model = kind.of(PAIRS, agreement=None)
    states = []
    for _ in range(2):
        tied = pu.regularise(model, c.symmetric())
        em = pu.EM(tied, init=random_start(model))
        state = em.init(PAIRS)
        for _ in range(4):
            state, _ = em.step(state)
        states.append(state.weights)
    half = pu.EM(pu.regularise(model, c.symmetric()), init=random_start(model))
    state = half.init(PAIRS)
    for k in range(4):
        if k == 2:  # an engine that has not seen the steps before
            half = pu.EM(pu.regularise(model, c.symmetric()), init=pu.init.from_weights(state.weights))
            state = half.init(PAIRS)
        state, _ = half.step(state)
    for name, w in states[0].items():
        assert torch.equal(w, states[1][name])
        torch.testing.assert_close(state.weights[name], w, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "around",
    [
        lambda m: pu.temper(pu.regularise(m, c.symmetric()), 0.5),
        lambda m: pu.regularise(pu.temper(m, 0.5), c.symmetric()),
        lambda m: pu.regularise(pu.prefer(m, c.near_diagonal(0.2), 2.0), c.symmetric()),
        lambda m: pu.prefer(pu.regularise(m, c.symmetric()), c.near_diagonal(0.2), 2.0),
    ],
)
@BOTH
def test_other_handlers_inside_and_outside(kind: Any, around: Any) -> None:
    model = kind.of(PAIRS, agreement=None)
    tied = around(model)
    fit = pu.EM(tied, pu.DirichletVB(0.1), init=random_start(model)).run(PAIRS, iterations=2, progress=False)
    assert apart(tied, fit.weights, PAIRS) <= 1e-3


def test_the_order_of_handlers_makes_no_difference() -> None:
    model = Aligner.of(PAIRS, agreement=None)
    one, other = (
        pu.regularise(pu.prefer(model, c.near_diagonal(0.2), 2.0), c.symmetric(1e-9)),
        pu.prefer(pu.regularise(model, c.symmetric(1e-9)), c.near_diagonal(0.2), 2.0),
    )
    first, second = (pu.EM(m, init=random_start(model)).run(PAIRS, iterations=0, progress=False) for m in (one, other))
    assert first.objective == pytest.approx(second.objective, rel=1e-10)


def test_mini_batches_pieces_and_the_agreement_of_2008() -> None:
    model = Aligner.of(PAIRS, agreement=None)
    tied = pu.regularise(model, c.symmetric())
    fit = pu.StepwiseEM(tied, pu.AddLambda(0.1), batch_size=7).run(PAIRS, iterations=2, progress=False)
    assert apart(tied, fit.weights, PAIRS) <= 1e-3
    exact = pu.regularise(model, c.symmetric(1e-10))
    start = random_start(model)
    whole = pu.EM(exact, init=start).run(PAIRS, iterations=1, progress=False)
    parts = pu.EM(exact, init=start).run(PAIRS, iterations=1, progress=False, chunk=60)
    assert parts.objective == pytest.approx(whole.objective, rel=1e-9)
    joint = pu.regularise(Aligner.of(PAIRS, agreement="2008"), c.symmetric(1e-6))
    fit = pu.EM(joint, init=start).run(PAIRS, iterations=5, tolerance=0, progress=False)
    path = [row["objective"] for row in fit.rows]
    assert all(b >= a - 1e-8 * abs(a) for a, b in itertools.pairwise(path))
    assert apart(joint, fit.weights, PAIRS) <= 1e-6


@BOTH
def test_saving_and_decoding_of_words_that_are_not_known(kind: Any, tmp_path: Path) -> None:
    known = [("la maison bleue", "the blue house"), ("la nation", "the nation"), ("une maison", "a house")]
    text = pu.data.Bitext.of(known)
    model = kind.of(text, agreement=None)
    tied = pu.regularise(model, c.symmetric(1e-5))
    fit = pu.EM(tied, pu.AddLambda(0.1), init=random_start(model)).run(text, iterations=3, progress=False)
    fit.save(tmp_path / "fit")
    back = pu.load(tmp_path / "fit")
    assert repr(back.model).startswith("regularise(symmetric(tolerance=1e-05)) of ")
    assert back.log_likelihood(text) == fit.log_likelihood(text)
    alone = back.unhandled()
    assert [type(one) for one in alone.preferences] == [TieMessenger]
    new = pu.data.Bitext.of([("la maison rouge", "the red house"), ("une nation bleue", "a blue nation")])
    found = decode(alone, new)
    assert sum(found.unseen) > 0
    assert float((found.forward - found.backward).abs().max()) <= 1.1e-5
    free = decode(back.without_preferences(), new)
    assert float((free.forward - free.backward).abs().max()) > 0.01
    assert back.predict(new).tolist() == found.structure.tolist()
    # Probabilities are those of the model alone.
    torch.testing.assert_close(
        pu.tasks.find("aligner").decode(alone, new).log_likelihood, free.log_likelihood, rtol=1e-12, atol=0
    )


def test_a_copy_in_another_process() -> None:
    model = Aligner.of(PAIRS, agreement=None)
    tied = pu.regularise(model, c.symmetric())
    fit = pu.EM(tied, init=random_start(model)).run(PAIRS, iterations=1, progress=False)
    copy = pickle.loads(pickle.dumps(tied))
    assert apart(copy, fit.weights, PAIRS) == apart(tied, fit.weights, PAIRS)


def test_the_wrong_sign_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: multipliers that push both directions the same way."""
    from pyro_unsup.distributions import tied as room

    model = Aligner.of(PAIRS, agreement=None)
    tied = pu.regularise(model, c.symmetric(1e-6))
    fit = pu.EM(model, init=random_start(model)).run(PAIRS, iterations=0, progress=False)
    assert apart(tied, fit.weights, PAIRS) <= 1e-6
    right = room.potentials
    monkeypatch.setattr(room, "potentials", lambda x, signs, side: right(x, signs, 0))
    assert apart(tied, fit.weights, PAIRS) > 0.01


def run(model: Any, data: Any = PAIRS) -> Any:
    return pu.EM(model, init=pu.init.uniform()).run(data, iterations=1, progress=False)


def test_what_is_refused() -> None:
    free = Aligner.of(PAIRS, agreement=None)
    tie = c.symmetric()
    with pytest.raises(pu.UnsupError, match="symmetric\\(\\) ties the two directions of an aligner"):
        run(pu.regularise(Aligner.of(PAIRS), tie))
    with pytest.raises(pu.UnsupError, match=r"in [0-9]+ of 25 examples expectations cannot be brought closer than"):
        run(pu.regularise(Aligner.of(PAIRS, agreement=None, null=0.0), tie))
    once = [c.links_into(k) for k in range(1, 12)]
    bounded = pu.regularise(free, once, [1.0] * 11, each=True)
    with pytest.raises(pu.UnsupError, match="another handler has put Regularised around 'forward': use one of the two"):
        run(pu.regularise(bounded, tie))
    tied = pu.regularise(free, tie)
    near = c.near_diagonal(0.3)
    for both in (pu.regularise(tied, once, [1.0] * 11, each=True), pu.constrain(tied, near), pu.harden(tied)):
        with pytest.raises(pu.UnsupError, match=r"what is tied to another site .* cannot be constrained, hardened or"):
            run(both)
    for both in (pu.constrain(free, near), pu.harden(free)):
        with pytest.raises(pu.UnsupError, match=r"another handler has put [A-Za-z]+ around 'forward': use one"):
            run(pu.regularise(both, tie))
    with pytest.raises(pu.StructureError, match="stands alone, and has no bound"):
        pu.regularise(free, [tie, *once], 1.0)  # type: ignore[arg-type]
    with pytest.raises(pu.StructureError, match="stands alone, and has no bound"):
        pu.regularise(free, tie, 0.0)
    with pytest.raises(pu.StructureError, match="a bound is missing of what is expected of"):
        pu.regularise(free, once)  # type: ignore[call-overload]
    with pytest.raises(pu.StructureError, match="above 0 and below 1, actual 0"):
        c.symmetric(0)

    class Ones(c.choices.Symmetric):
        def __call__(self, parts: Any) -> Tensor:
            return torch.ones(parts.shape)

    with pytest.raises(pu.UnsupError, match=r"its parts are of shape \(3, 2\), its data of \(3,\)"):
        run(pu.regularise(Tagger(2, 3), Ones(0.1)), [[0, 1, 2]])
    with pytest.raises(pu.UnsupError, match="what is tied at the first site and at 'backward' is not the same"):
        run(pu.regularise(free, Ones(0.1)))
    one_way = poutine.block(free, hide=["backward"])
    with pytest.raises(pu.UnsupError, match="but the model has one such site"):
        pu.regularise(one_way, tie)(PAIRS)
    with pytest.raises(pu.StructureError, match="found no structured distribution"):
        pu.regularise(lambda: pyro.sample("x", pyro.distributions.Normal(0.0, 1.0)), tie)()

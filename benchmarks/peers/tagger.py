"""One EM iteration of a hidden Markov model of words, from one start, whose log-likelihood all must find.

Answers besides: checksums of the emissions and, where there are any, the transitions after the iteration.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from .problem import Contender, Curve, Job, Problem, batches, squares, threads
from .texts import Arrays, sentences


def _answer(log_likelihood: float, emission: Any, transition: Any = None) -> dict[str, float]:
    """:param emission: (K, V) expected counts or probabilities; so are the transitions, (K, K)."""
    rows = {"emission": emission} if transition is None else {"emission": emission, "transition": transition}
    found = {name: np.asarray(x, dtype=np.float64) for name, x in rows.items()}
    return {"log_likelihood": log_likelihood} | {
        name: squares(x / x.sum(1, keepdims=True)) for name, x in found.items()
    }


def ours(precision: str) -> Any:
    def prepare(data: Arrays) -> Job:
        import torch

        import pyro_unsup as pu

        dtype = getattr(torch, precision)
        words, lengths = torch.from_numpy(data["words"]), torch.from_numpy(data["lengths"])
        names = ("start", "transition", "emission")
        start = {name: torch.from_numpy(data[name]).log().to(dtype) for name in names}
        em = pu.EM(pu.models.Tagger(*data["emission"].shape), init=pu.init.from_weights(start), dtype=dtype)
        first = em.init(words, lengths)

        def answer(found: Any) -> dict[str, float]:
            state, info = found
            return _answer(info.objective, state.weights["emission"].exp(), state.weights["transition"].exp())

        return Job(lambda: em.step(first), answer)

    return prepare


def hmmlearn(implementation: str) -> Any:
    def prepare(data: Arrays) -> Job:
        import logging

        from hmmlearn.hmm import CategoricalHMM

        logging.getLogger("hmmlearn").setLevel(logging.ERROR)
        K, V = data["emission"].shape
        column = data["words"][:, None]

        def run() -> Any:
            model = CategoricalHMM(K, n_features=V, n_iter=1, tol=0, init_params="", implementation=implementation)
            model.startprob_, model.transmat_ = data["start"], data["transition"]
            model.emissionprob_ = data["emission"]
            return model.fit(column, data["lengths"])

        return Job(run, lambda model: _answer(model.monitor_.history[0], model.emissionprob_, model.transmat_))

    return prepare


def pyro_discrete_hmm(data: Arrays) -> Job:
    import pyro.distributions as dist
    import torch

    class Lookup(dist.TorchDistribution):
        """Words by a table of log-probabilities (K, V). A Categorical's gradient would be dense: (B, n, K, V)."""

        arg_constraints = {}  # noqa: RUF012
        support = dist.constraints.nonnegative_integer

        def __init__(self, table: torch.Tensor) -> None:
            self.columns = table.t()
            super().__init__((len(table),), validate_args=False)

        def expand(self, batch_shape: Any, _instance: Any = None) -> Lookup:
            return self

        def log_prob(self, value: torch.Tensor) -> torch.Tensor:
            return self.columns[value.squeeze(-1)]

    first, transition, emission = _leaves(data, ("first", "transition", "emission"))

    def log_likelihood(words: torch.Tensor) -> torch.Tensor:
        hmm = dist.DiscreteHMM(first, transition, Lookup(emission), duration=words.shape[1], validate_args=False)
        return hmm.log_prob(words).sum()

    return _by_gradient(data, log_likelihood, emission)


def pyro_trace_enum(data: Arrays) -> Job:
    import pyro
    import pyro.distributions as dist
    import torch
    from pyro.infer import TraceEnum_ELBO, config_enumerate

    pyro.enable_validation(False)
    start, transition, emission = _leaves(data, ("start", "transition", "emission"))

    @config_enumerate
    def model(words: torch.Tensor) -> None:
        with pyro.plate("sentences", len(words)):
            tag: Any = None
            for place in pyro.markov(range(words.shape[1])):
                logits = start if tag is None else transition[tag]
                tag = pyro.sample(f"tag {place}", dist.Categorical(logits=logits))
                pyro.factor(f"word {place}", emission[tag, words[:, place]])

    elbo = TraceEnum_ELBO(max_plate_nesting=1, strict_enumeration_warning=False)
    return _by_gradient(data, lambda words: -elbo.differentiable_loss(model, lambda words: None, words), emission)


def _leaves(data: Arrays, names: tuple[str, ...]) -> Any:
    import torch

    return [torch.from_numpy(data[name]).float().log().requires_grad_() for name in names]


def _by_gradient(data: Arrays, log_likelihood: Any, emission: Any) -> Job:
    """Expected counts as the gradient of the log-likelihood."""
    import torch

    texts = [torch.from_numpy(x) for x in batches(data["words"], data["lengths"])]

    def run() -> float:
        emission.grad, total = None, 0.0
        for words in texts:
            found = log_likelihood(words)
            found.backward()
            total += float(found.detach())
        return total

    return Job(run, lambda total: _answer(total, emission.grad))


def torch_struct(data: Arrays) -> Job:
    import torch
    from torch_struct import LinearChainCRF

    warnings.filterwarnings("ignore")
    start, transition, emission = (x.detach() for x in _leaves(data, ("start", "transition", "emission")))
    texts = [torch.from_numpy(x) for x in batches(data["words"], data["lengths"], 512)]
    columns = emission.t().contiguous()
    K = len(start)

    def run() -> tuple[float, torch.Tensor, torch.Tensor]:
        moves, says, total = torch.zeros(K, K), torch.zeros_like(columns), 0.0
        for words in texts:
            said = columns[words]
            parts = (transition.t() + said[:, 1:, :, None]).contiguous()  # (B, n - 1, next, previous)
            parts[:, 0] += (start + said[:, 0])[:, None, :]
            crf = LinearChainCRF(parts)
            found = crf.marginals.detach()
            total += float(crf.partition.detach().sum())
            moves += found.sum((0, 1)).t()
            tags = torch.cat([found[:, :1].sum(2), found.sum(3)], 1)
            says.index_add_(0, words.reshape(-1), tags.reshape(-1, K))
        return total, says, moves

    return Job(run, lambda found: _answer(found[0], found[1].t(), found[2]))


def pomegranate(data: Arrays) -> Job:
    import torch
    from pomegranate.distributions import Categorical
    from pomegranate.hmm import DenseHMM

    texts = [torch.from_numpy(x)[..., None] for x in batches(data["words"], data["lengths"], 1 << 40)]
    start, transition, emission = (torch.from_numpy(data[x]).float() for x in ("start", "transition", "emission"))
    end = 1e-20  # it must be able to end; this little changes nothing but the likelihood, by a known amount

    def run() -> tuple[float, Any]:
        tags = [Categorical(row[None]) for row in emission]
        model = DenseHMM(tags, edges=transition, starts=start, ends=torch.full((len(start),), end))
        total = sum(float(model.summarize(words).double().sum()) for words in texts)
        model.from_summaries()
        return total, model

    def answer(found: tuple[float, Any]) -> dict[str, float]:
        total, model = found
        says = torch.cat([tag.probs.detach() for tag in model.distributions])
        return _answer(total - len(data["lengths"]) * float(np.log(end)), says, model.edges.detach().exp())

    return Job(run, answer)


def dynamax(data: Arrays) -> Job:
    if threads() == 1 and hasattr(os, "sched_setaffinity"):  # XLA has no setting for its threads
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    from functools import partial

    import jax
    import jax.numpy as jnp
    from dynamax.hidden_markov_model import CategoricalHMM

    K, V = data["emission"].shape
    hmm = CategoricalHMM(K, 1, V)
    params, props = hmm.initialize(
        initial_probs=jnp.array(data["start"]),
        transition_matrix=jnp.array(data["transition"]),
        emission_probs=jnp.array(data["emission"])[:, None],
    )
    state = hmm.initialize_m_step_state(params, props)
    # It makes tables of words by states and vocabulary, so that batches must be small to fit into memory.
    texts = [jnp.array(x)[..., None] for x in batches(data["words"], data["lengths"], 256)]

    @jax.jit
    def e_step(params: Any, words: Any) -> Any:
        counts, log_likelihood = jax.vmap(partial(hmm.e_step, params))(words)
        return jax.tree_util.tree_map(lambda x: x.sum(0, keepdims=True), (counts, log_likelihood))

    m_step = jax.jit(lambda counts: hmm.m_step(params, props, counts, state)[0])

    def run() -> Any:
        found = None
        for words in texts:
            part = e_step(params, words)
            found = part if found is None else jax.tree_util.tree_map(jnp.add, found, part)
        jax.block_until_ready(m_step(found[0]))
        return found

    def answer(found: Any) -> dict[str, float]:
        (_, moves, says), total = found
        return _answer(float(total[0]), says["sum_x"][0, :, 0], moves[0])

    return Job(run, answer)


SAME, EMITS = ("log_likelihood", "emission", "transition"), ("log_likelihood", "emission")

PROBLEMS = (
    Problem(
        "HMM",
        "EM iteration",
        sentences,
        {"sentences": 2, "states": 3, "words": 20},
        {
            "tokens": Curve(
                "sentences",
                tuple({"sentences": n, "states": 45, "words": 10_000} for n in (250, 1_000, 8_000, 16_000)),
                tuple({"sentences": n, "states": 10, "words": 500} for n in (40, 80)),
                "tokens",
                22,
            ),
            "states": Curve(
                "states",
                tuple({"sentences": 200, "states": n, "words": 500} for n in (8, 16, 32, 64, 128)),
                ({"sentences": 40, "states": 4, "words": 100},),
                "states",
            ),
        },
        (
            Contender("ours, float64", ours("float64")),
            Contender("ours, float32", ours("float32"), agrees=SAME),
            Contender("hmmlearn, scaling", hmmlearn("scaling"), "hmmlearn", "one thread", agrees=SAME),
            Contender("hmmlearn, log", hmmlearn("log"), "hmmlearn", "one thread; its default", agrees=SAME),
            Contender("Pyro DiscreteHMM", pyro_discrete_hmm, "pyro", "gradient only, float32; emissions looked up",
                      agrees=EMITS),
            Contender("Pyro TraceEnum", pyro_trace_enum, "pyro", "gradient only, float32; emissions looked up",
                      agrees=EMITS),
            Contender("dynamax", dynamax, "dynamax", "float32, one compilation a length; adds 0.1 to counts",
                      agrees=SAME, compiles=True),
            Contender("torch-struct", torch_struct, "torch-struct", "E step only, float32", agrees=SAME),
            Contender("pomegranate", pomegranate, "pomegranate", "float32; a torch call for each state and word",
                      agrees=SAME, curves=("states",)),
        ),
        main=2,
    ),
)  # fmt: skip

"""Hidden Markov models of series beside hmmlearn, scikit-learn, Pyro and numpyro, side by side in one run.

    python -m benchmarks.hmm_series
    python -m benchmarks.hmm_series --only em --runs 9

``em``: one EM iteration of a Gaussian HMM, E and M step, from the same parameters; both of hmmlearn's implementations.
``mixture``: one EM iteration of a Gaussian mixture beside scikit-learn's. ``gradient``: log-likelihood and its gradient
in all parameters, as NUTS asks for it, beside Pyro's DiscreteHMM and TraceEnum. ``nuts``: effective draws per second
beside numpyro on the same marginal model (``pip install numpyro``; left out if it is not there). ``durations``: the
kernel of the semi-Markov chain beside its definition in torch.

Figures are medians of turns. A ratio above 1 says that we are faster. Log-likelihoods are compared first.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from pyro.infer import TraceEnum_ELBO, config_enumerate
from torch import Tensor

import pyro_unsup as pu


def turns(works: dict[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    """Median seconds of each, taking turns."""
    for work in works.values():
        work()
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(runs):
        for name, work in works.items():
            begin = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(each) for name, each in seconds.items()}


def report(what: str, found: dict[str, float]) -> None:
    ours = found["pyro_unsup"]
    others = "  ".join(f"{name} {1000 * s:.3f} ms, {s / ours:.2f}" for name, s in found.items() if name != "pyro_unsup")
    print(f"{what:44} pyro_unsup {1000 * ours:.3f} ms  {others}", flush=True)


def series(K: int, lengths: list[int], D: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Observations of states that last, with means 2 apart."""
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    states = np.cumsum(rng.random(n) < 0.1) % K
    return rng.normal(size=(n, D)) + 2.0 * states[:, None]


def em(K: int, lengths: list[int], D: int, runs: int) -> None:
    from hmmlearn.hmm import GaussianHMM

    X = series(K, lengths, D)
    means = 2.0 * np.arange(K)[:, None] + np.zeros((K, D)) + 0.3
    iterations = max(2, min(50, 200_000 // len(X)))

    def peer(implementation: str) -> Any:
        model = GaussianHMM(
            K, "diag", n_iter=1, tol=-np.inf, init_params="", implementation=implementation, min_covar=0, covars_prior=0
        )
        model.covars_weight, model.means_weight = 1, 0
        model.startprob_, model.transmat_ = np.full(K, 1 / K), np.full((K, K), 1 / K)
        model.means_, model.covars_ = means, np.ones((K, D))
        return model

    def train(implementation: str) -> float:
        model = peer(implementation)
        model.n_iter = iterations
        model.monitor_.n_iter = iterations
        model.fit(X, lengths)
        return float(model.monitor_.history[0])

    data = pu.models.Series.of(X[:, 0] if D == 1 else X, lengths)
    init = {"loc": means[:, 0] if D == 1 else means, "scale": np.ones(K if D == 1 else (K, D))}
    engine = pu.EM(pu.models.HMM(K, "normal", dim=None if D == 1 else D, init=init), init=pu.init.uniform())
    state = engine.init(data)
    for _ in range(3):  # the third is the first that is replayed
        state, _ = engine.step(state)
    first = engine.e_step(engine.init(data))[0].log_likelihood

    def ours() -> None:
        now = state
        for _ in range(iterations):
            now, _ = engine.step(now)

    works = {"pyro_unsup": ours, "hmmlearn (log)": lambda: train("log"), "hmmlearn (scaling)": lambda: train("scaling")}
    gap = abs(first - train("scaling")) / abs(first)
    found = {name: s / iterations for name, s in turns(works, runs).items()}
    report(f"EM, K = {K}, {len(lengths)} x {lengths[0]}, D = {D} (log L apart {gap:.0e})", found)


def mixture(K: int, n: int, D: int, runs: int) -> None:
    from sklearn.mixture import GaussianMixture

    X = series(K, [n], D)
    means = 2.0 * np.arange(K)[:, None] + np.zeros((K, D)) + 0.3
    iterations = max(2, min(30, 200_000 // n))

    def peer() -> None:
        model = GaussianMixture(
            K,
            covariance_type="diag",
            max_iter=iterations,
            tol=0.0,
            reg_covar=0.0,
            weights_init=np.full(K, 1 / K),
            means_init=means,
            precisions_init=np.ones((K, D)),
        )
        model.fit(X)

    data = pu.models.Series.of(X[:, 0] if D == 1 else X)
    init = {"loc": means[:, 0] if D == 1 else means, "scale": np.ones(K if D == 1 else (K, D))}
    model = pu.models.HMM(K, "normal", dim=None if D == 1 else D, init=init, independent=True)
    engine = pu.EM(model, init=pu.init.uniform())
    state = engine.init(data)
    for _ in range(3):
        state, _ = engine.step(state)

    def ours() -> None:
        now = state
        for _ in range(iterations):
            now, _ = engine.step(now)

    found = {name: s / iterations for name, s in turns({"pyro_unsup": ours, "scikit-learn": peer}, runs).items()}
    report(f"mixture, K = {K}, N = {n}, D = {D}", found)


def gradient(K: int, T: int, runs: int) -> None:
    """log p(x) and its gradient in start, transition, means and scales."""
    torch.manual_seed(0)
    x = torch.as_tensor(series(K, [T], 1)[:, 0])
    leaves = [torch.randn(K), torch.randn(K, K), 2.0 * torch.arange(K).double(), torch.zeros(K)]
    leaves = [leaf.double().requires_grad_() for leaf in leaves]

    def emission() -> Any:
        return dist.Normal(leaves[2], leaves[3].exp())

    def grad(total: Tensor) -> float:
        torch.autograd.grad(total.sum(), leaves)
        return float(total.detach().sum())

    def ours() -> float:
        return grad(pu.Chain(leaves[0].log_softmax(-1), leaves[1].log_softmax(-1), emission(), T).log_prob(x))

    def stock() -> float:  # makes a transition before the first observation: start and transition are others
        return grad(dist.DiscreteHMM(leaves[0], leaves[1], emission(), duration=T).log_prob(x))

    def model() -> None:
        z = None
        for t in pyro.markov(range(T)):
            z = pyro.sample(f"z{t}", dist.Categorical(logits=leaves[0] if z is None else leaves[1][z]))
            pyro.sample(f"x{t}", dist.Normal(leaves[2][z], leaves[3].exp()[z]), obs=x[t])

    def enumerated() -> float:
        elbo = TraceEnum_ELBO(max_plate_nesting=0, strict_enumeration_warning=False)
        return -grad(elbo.differentiable_loss(config_enumerate(model), lambda: None))

    assert abs(ours() - enumerated()) < 1e-6 * T
    works = {"pyro_unsup": ours, "DiscreteHMM": stock}
    found = turns(works, runs) | {"TraceEnum": turns({"TraceEnum": enumerated}, 1)["TraceEnum"]}
    report(f"gradient, K = {K}, T = {T}", found)


def nuts(runs: int, T: int = 200, draws: int = 300) -> None:
    """Effective draws per second of the means, 2 states, from the same priors."""
    try:
        import jax
        import numpyro
    except ImportError:
        print("nuts: numpyro is not installed", flush=True)
        return
    import jax.numpy as jnp
    import numpyro.distributions as ndist
    from arviz import ess

    jax.config.update("jax_enable_x64", True)
    X = series(2, [T], 1)[:, 0]

    def theirs(x: Any) -> None:
        start = numpyro.sample("start", ndist.Dirichlet(jnp.ones(2)))
        rows = numpyro.sample("transition", ndist.Dirichlet(jnp.ones((2, 2))).to_event(1))
        loc = numpyro.sample("loc", ndist.Normal(0, 5).expand([2]).to_event(1))
        scale = numpyro.sample("scale", ndist.HalfNormal(2).expand([2]).to_event(1))
        density = ndist.Normal(loc, scale).log_prob(x[:, None])

        def step(message: Any, here: Any) -> tuple[Any, None]:
            return jax.nn.logsumexp(message[:, None] + jnp.log(rows), 0) + here, None

        last, _ = jax.lax.scan(step, jnp.log(start) + density[0], density[1:])
        numpyro.factor("x", jax.nn.logsumexp(last))

    priors = {"loc": dist.Normal(0.0, 5.0), "scale": dist.HalfNormal(2.0)}
    torch.set_default_dtype(torch.float64)
    model = pu.models.HMM(2, "normal", prior=priors)
    begin = time.perf_counter()
    pyro.set_rng_seed(0)
    ours = pyro.infer.MCMC(pyro.infer.NUTS(model), draws, warmup_steps=draws, disable_progbar=True)
    ours.run(torch.as_tensor(X))
    seconds = time.perf_counter() - begin
    found = np.sort(ours.get_samples()["loc"].numpy(), -1)
    mine = min(float(ess(found[None, :, k])) for k in range(2)) / seconds
    begin = time.perf_counter()
    other = numpyro.infer.MCMC(numpyro.infer.NUTS(theirs), num_warmup=draws, num_samples=draws, progress_bar=False)
    other.run(jax.random.PRNGKey(0), jnp.asarray(X))
    seconds = time.perf_counter() - begin
    drawn = np.sort(np.asarray(other.get_samples()["loc"]), -1)
    both = min(float(ess(drawn[None, :, k])) for k in range(2)) / seconds
    apart = np.abs(found.mean(0) - drawn.mean(0)).max()
    print(f"NUTS, 2 states, T = {T}, {draws} draws: effective draws a second {mine:.1f}, numpyro {both:.1f} "
          f"(with compiling); means apart {apart:.3f}", flush=True)  # fmt: skip


def durations(runs: int, B: int = 20, T: int = 500, K: int = 4, D: int = 30) -> None:
    """log Z and gradient of a semi-Markov chain: its kernel beside its definition in torch."""
    torch.manual_seed(0)
    x = torch.as_tensor(series(K, [T] * B, 1)[:, 0])
    leaves = [torch.randn(K), torch.randn(K, K), torch.randn(K, D), 2.0 * torch.arange(K).double(), torch.ones(K)]
    leaves = [leaf.double().requires_grad_() for leaf in leaves]

    def work() -> float:
        tables = [leaf.log_softmax(-1) for leaf in leaves[:3]]
        chain = pu.SemiMarkov(*tables, dist.Normal(leaves[3], leaves[4]), torch.full((B,), T))
        total = chain.log_prob(x).sum()
        torch.autograd.grad(total, leaves)
        return float(total.detach())

    def defined() -> float:
        with pu.kernels.switched_off():
            return work()

    assert abs(work() - defined()) < 1e-8 * B * T
    report(f"durations, K = {K}, {B} x {T}, up to {D}", turns({"pyro_unsup": work, "definition": defined}, runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("em", "mixture", "gradient", "nuts", "durations"))
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    print(f"threads {torch.get_num_threads()}, load {os.getloadavg()[0]:.1f}")
    wanted = [given.only] if given.only else ["em", "mixture", "gradient", "durations", "nuts"]
    if "em" in wanted:
        for D in (1, 10):
            em(3, [500], D, given.runs)
            em(5, [500] * 200, D, given.runs)
            em(5, [1_000_000], D, max(2, given.runs // 2))
    if "mixture" in wanted:
        for n, D in ((500, 1), (20_000, 1), (20_000, 10), (500_000, 1)):
            mixture(5, n, D, given.runs)
    if "gradient" in wanted:
        gradient(4, 1000, given.runs)
    if "durations" in wanted:
        durations(given.runs)
    if "nuts" in wanted:
        nuts(given.runs)


if __name__ == "__main__":
    main()

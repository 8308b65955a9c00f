"""The whole idea of pyro_unsup in one file, with nothing but torch and Pyro:  python tutorials/mini.py

Expected counts are the gradient of the log marginal in the log-weights. From that one line follow EM and all its kin,
on three axes that know nothing of each other: which posterior, how counts are pooled, how weights come from counts.
"""

from itertools import pairwise

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.poutine.messenger import Messenger
from pyro.poutine.runtime import effectful


# A model is a Pyro program. What is hidden is summed out by a distribution whose log_prob is a log partition function;
# its weights need not be normalised.
class Chain(dist.TorchDistribution):
    """Words of a hidden Markov model, its tags summed out by the forward algorithm."""

    def __init__(self, start, transition, emission, length):  # (K,), (K, K), (K, V)
        self.start, self.transition, self.emission = start, transition, emission
        super().__init__(event_shape=(length,), validate_args=False)

    def log_prob(self, words):
        alpha = self.start + self.emission[:, words[0]]
        for word in words[1:]:
            alpha = (alpha[:, None] + self.transition).logsumexp(0) + self.emission[:, word]
        return alpha.logsumexp(0)


@effectful(type="table")
def table(site, *shape):
    """Log-weights of some multinomials. To stock Pyro they are a Dirichlet site; handlers may answer otherwise."""
    return pyro.sample(site, dist.Dirichlet(torch.ones(shape)).to_event(len(shape) - 1)).log()


TAGS, WORDS = 2, 4


def tagger(sentences):
    tables = table("start", TAGS), table("transition", TAGS, TAGS), table("emission", TAGS, WORDS)
    for i, words in enumerate(sentences):
        pyro.sample(f"words {i}", Chain(*tables, len(words)), obs=words)


# The first axis, which posterior: a handler changes how hidden structure is weighed.
class Given(Messenger):
    """Answers tables with given log-weights, and adds up the log marginal of what is observed."""

    def __init__(self, weights):
        super().__init__()
        self.weights, self.log_marginal = weights, 0.0

    def _pyro_table(self, msg):
        msg["value"], msg["done"] = self.weights[msg["args"][0]], True

    def _pyro_post_sample(self, msg):
        self.log_marginal = self.log_marginal + msg["fn"].log_prob(msg["value"])


class Temper(Messenger):
    """Weights to the power of beta, the sum to that of 1 / beta: flat at first, the posterior itself at beta = 1."""

    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    def _pyro_sample(self, msg):
        fn = msg["fn"]
        if isinstance(fn, Chain):
            raised = Chain(*(self.beta * w for w in (fn.start, fn.transition, fn.emission)), *fn.event_shape)
            raised.log_prob = lambda words, sum_=raised.log_prob: sum_(words) / self.beta
            msg["fn"] = raised


def expect(model, weights, data):
    """The E step of any model: the log marginal, and its gradient."""
    leaves = {name: w.clone().requires_grad_() for name, w in weights.items()}
    with Given(leaves) as run:
        model(data)
    counts = torch.autograd.grad(run.log_marginal, list(leaves.values()))
    return float(run.log_marginal.detach()), dict(zip(leaves, counts, strict=True))


# The second axis, how weights come from counts.
def relative_frequencies(counts):
    return (counts / counts.sum(-1, keepdim=True)).clamp(min=1e-12).log()


def variational(counts, alpha=0.5):  # exp(E[log theta]) under Dirichlet(counts + alpha): rows sum to less than one
    return torch.digamma(counts + alpha) - torch.digamma((counts + alpha).sum(-1, keepdim=True))


def features(counts):  # rows are softmax(matrix w): here one feature a cell, and one for words 0 and 1 under each tag
    matrix = torch.cat([torch.eye(TAGS * WORDS), torch.kron(torch.eye(TAGS), torch.tensor([[1.0], [1], [0], [0]]))], 1)
    w = torch.zeros(matrix.shape[1], requires_grad=True)
    climb = torch.optim.Adam([w], lr=0.3)
    for _ in range(40):
        loss = -(counts * (matrix @ w).reshape(counts.shape).log_softmax(-1)).sum() + 0.01 * (w * w).sum()
        climb.zero_grad(), loss.backward(), climb.step()
    return (matrix @ w).reshape(counts.shape).log_softmax(-1).detach()


def m_step(counts, how):
    return {name: (how or {}).get(name, relative_frequencies)(c) for name, c in counts.items()}


# The third axis, how counts are pooled: all at once, or a little of each mini-batch.
def em(model, data, weights, iterations=20, how=None, posterior=lambda model, i: model):
    history = []
    for i in range(iterations):
        objective, counts = expect(posterior(model, i), weights, data)
        weights, history = m_step(counts, how), [*history, objective]
    return weights, history


def stepwise_em(model, data, weights, passes=6, power=0.7, how=None):
    pooled, k = {name: torch.ones_like(w) for name, w in weights.items()}, 0
    for example in data * passes:
        eta, k = (k + 2) ** -power, k + 1
        counts = expect(model, weights, [example])[1]
        pooled = {name: (1 - eta) * pooled[name] + eta * c for name, c in counts.items()}
        weights = m_step(pooled, how)
    return weights


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    pyro.set_rng_seed(0)
    data = [torch.tensor(words) for words in ([0, 2, 0, 2], [1, 3], [0, 3, 1, 2], [1, 2, 0], [0, 2, 1, 3, 0, 2])]
    trace = poutine.trace(tagger).get_trace(data)  # an ordinary Pyro model: draws from the priors are a start
    start = {name: trace.nodes[name]["value"].log() for name in ("start", "transition", "emission")}

    learned, history = em(tagger, data, start)
    print(f"EM                   {history[0]:9.4f} -> {history[-1]:9.4f}")
    assert all(b >= a - 1e-9 for a, b in pairwise(history)), "EM never lowers the log marginal"

    same, _ = em(tagger, data, start, posterior=lambda model, i: Temper(1.0)(model))
    assert all(torch.allclose(learned[name], same[name]) for name in same), "at beta = 1 annealing is EM"
    betas = [min(1.0, 0.5 * 1.1**i) for i in range(20)]
    annealed, _ = em(tagger, data, start, posterior=lambda model, i: Temper(betas[i])(model))
    print(f"annealing ends at               {expect(tagger, annealed, data)[0]:9.4f}")
    print(f"stepwise EM ends at             {expect(tagger, stepwise_em(tagger, data, start), data)[0]:9.4f}")
    rich, history = em(tagger, data, start, how={"emission": features})
    print(f"features             {history[0]:9.4f} -> {history[-1]:9.4f}")
    bayes, _ = em(tagger, data, start, how=dict.fromkeys(start, variational))
    print(f"variational Bayes: rows of emission sum to {bayes['emission'].exp().sum(-1).tolist()}")

"""A table in a distribution that normalises is an error; distributions with parameters of their own are fine."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor
from torch.distributions import constraints

from pyro_unsup import EM, Categorical, table
from pyro_unsup.errors import FitError

DATA = torch.tensor([0, 1, 2, 1, 1, 0, 2, 2, 1, 0])


def in_plate(kind: Callable[[Tensor], Any]) -> Callable[[], None]:
    """Observe the data through a distribution made of the table 'topics'."""

    def model() -> None:
        topics = table("topics", 3)
        with pyro.plate("items", len(DATA)):
            pyro.sample("word", kind(topics), obs=DATA)

    return model


def hidden_in_stock() -> None:
    """The table of the hidden variable, not of the observed one."""
    topics, words = table("topics", 2), table("words", 2, 3)
    with pyro.plate("items", len(DATA)):
        z = pyro.sample("z", dist.Categorical(logits=topics))
        pyro.sample("word", Categorical(words[z]), obs=DATA)


def emitted_by_stock() -> None:
    """The rows that an enumerated variable picks."""
    topics, words = table("first", 2), table("topics", 2, 3)
    with pyro.plate("items", len(DATA)):
        z = pyro.sample("z", Categorical(topics))
        pyro.sample("word", dist.Categorical(logits=words[z]), obs=DATA)


def without_plate() -> None:
    topics = table("topics", 3)
    pyro.sample("word", dist.Categorical(logits=topics).expand([len(DATA)]).to_event(1), obs=DATA)


def ragged_and_touched() -> None:
    topics = table("topics", row_lengths=[3, 4], touched=torch.arange(3))
    with pyro.plate("items", len(DATA)):
        pyro.sample("word", dist.Categorical(logits=topics), obs=DATA)


def one_hot() -> None:
    topics = table("topics", 3)
    with pyro.plate("items", len(DATA)):
        pyro.sample("word", dist.OneHotCategorical(logits=topics), obs=torch.nn.functional.one_hot(DATA, 3).double())


def counts() -> None:
    topics = table("topics", 3)
    pyro.sample("word", dist.Multinomial(10, logits=topics), obs=torch.bincount(DATA, minlength=3).double())


def bits() -> None:
    topics = table("topics", 2)
    with pyro.plate("items", len(DATA)):
        pyro.sample("word", dist.Bernoulli(topics[0].exp()), obs=(DATA > 0).double())


def mixed() -> None:
    topics = table("topics", 2)
    with pyro.plate("items", len(DATA)):
        components = dist.Normal(torch.tensor([-1.0, 1.0]), 1.0)
        pyro.sample("word", dist.MixtureSameFamily(dist.Categorical(logits=topics), components), obs=DATA.double())


def chained() -> None:
    start, move = torch.zeros(2), table("topics", 2, 2)
    hmm = dist.DiscreteHMM(start, move, dist.Normal(torch.tensor([-1.0, 1.0]), 1.0), duration=len(DATA))
    pyro.sample("word", hmm, obs=DATA.double())


def chained_emissions() -> None:
    words = table("topics", 2, 3)
    hmm = dist.DiscreteHMM(torch.zeros(2), torch.zeros(2, 2), dist.Categorical(logits=words), duration=len(DATA))
    pyro.sample("word", hmm, obs=DATA)


CASES: dict[str, tuple[Callable[[], None], str, str]] = {
    "logits": (in_plate(lambda t: dist.Categorical(logits=t)), "word", "Categorical"),
    "probs": (in_plate(lambda t: dist.Categorical(probs=t.exp())), "word", "Categorical"),
    "expanded": (in_plate(lambda t: dist.Categorical(logits=t.expand(len(DATA), 3))), "word", "Categorical"),
    "tempered": (in_plate(lambda t: dist.Categorical(logits=0.5 * t + 1)), "word", "Categorical"),
    "masked": (in_plate(lambda t: dist.Categorical(logits=t).mask(DATA > 0)), "word", "Categorical"),
    "binomial": (in_plate(lambda t: dist.Binomial(2, t[0].exp())), "word", "Binomial"),
    "geometric": (in_plate(lambda t: dist.Geometric(t[0].exp())), "word", "Geometric"),
    "independent": (without_plate, "word", "Categorical"),
    "hidden": (hidden_in_stock, "z", "Categorical"),
    "enumerated rows": (emitted_by_stock, "word", "Categorical"),
    "ragged": (ragged_and_touched, "word", "Categorical"),
    "one hot": (one_hot, "word", "OneHotCategorical"),
    "table": (counts, "word", "Multinomial"),
    "bernoulli": (bits, "word", "Bernoulli"),
    "mixture": (mixed, "word", "Categorical"),
    "hmm": (chained, "word", "DiscreteHMM"),
    "hmm emissions": (chained_emissions, "word", "Categorical"),
}


@pytest.mark.parametrize(("model", "site", "kind"), CASES.values(), ids=CASES)
def test_a_table_in_a_normalising_distribution_is_an_error(model: Callable[[], None], site: str, kind: str) -> None:
    message = (
        rf"site '{site}' uses {kind} with table 'topics': Pyro's own normalises its weights, so its gradient is not "
        r"expected counts\. Use pyro_unsup\.Categorical\(log_weights\) there"
    )
    with pytest.raises(FitError, match=message):
        EM(model).session().step()
    with pytest.raises(FitError, match=message):
        EM(model).run(progress=False)


def rising(model: Callable[..., None], *args: Any) -> Any:
    fit = EM(model).run(*args, iterations=30, tolerance=1e-10, progress=False)
    values = [row["objective"] for row in fit.rows]
    assert len(values) > 2
    assert values[-1] > values[0] + 1e-3
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(values))
    return fit


def test_stock_with_a_parameter_of_its_own_is_fine() -> None:
    def model() -> None:
        theta = pyro.param("theta", torch.tensor([0.6, 0.2, 0.2]), constraint=constraints.simplex)
        with pyro.plate("items", len(DATA)):
            pyro.sample("word", dist.Categorical(theta), obs=DATA)

    fit = rising(model)
    torch.testing.assert_close(fit.params["theta"], torch.tensor([0.3, 0.4, 0.3]), rtol=0, atol=1e-5)


def test_stock_with_a_dirichlet_latent_is_fine() -> None:
    def model() -> None:
        theta = pyro.sample("theta", dist.Dirichlet(torch.full((3,), 2.0)))
        with pyro.plate("items", len(DATA)):
            pyro.sample("word", dist.Categorical(theta), obs=DATA)

    fit = rising(model)
    torch.testing.assert_close(fit.points["theta"], torch.tensor([4.0, 5.0, 4.0]) / 13, rtol=0, atol=1e-5)


def test_stock_beside_a_table_is_fine() -> None:
    """A mixture whose hidden variable has a table, and whose words have a parameter in a stock distribution."""

    def model(words: Tensor) -> None:
        topics = table("topics", 2)
        logits = pyro.param("logits", torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
        with pyro.plate("items", words.shape[1]):
            z = pyro.sample("z", Categorical(topics))
            with pyro.plate("words", len(words)):
                pyro.sample("word", dist.Categorical(logits=logits[z]), obs=words)

    rising(model, torch.randint(3, (4, 12)))


def test_our_own_categorical_is_fine() -> None:
    def model() -> None:
        topics, words = table("topics", 2), table("words", 2, 3)
        with pyro.plate("items", 5):
            z = pyro.sample("z", Categorical(topics))
            with pyro.plate("words", 2):
                pyro.sample("word", Categorical(words[z]), obs=DATA.reshape(2, 5))

    rising(model)

"""A mixture of products (latent class analysis): hidden classes behind the answers to a questionnaire.

    class[i] --> answer[i, q]           class[i]     ~ share
                 for each question q    answer[i, q] ~ answers[class[i], q]

Given the class of a person, the answers are independent. Some answers are missing; questions have different numbers of
answers, so the table has a support: what is not an answer to a question has no weight, and gets none.

Both tables are re-estimated in closed form. ``pu.AddLambda`` adds half an answer of each kind to every class, which
keeps a small class from calling anything impossible.

Checked in tests/docs/test_examples.py: EM by brute force, in numpy, goes through every class of every person.
Objectives and tables agree with it, with and without smoothing.
"""

from __future__ import annotations

import pyro
import torch
from pyro import poutine
from torch import Tensor

import pyro_unsup as pu

QUESTIONS = {"commute": ["walk", "bicycle", "bus", "car"], "home": ["flat", "house"], "pets": ["none", "cat", "dog"]}
SIZES = [len(answers) for answers in QUESTIONS.values()]


def model(
    answers: Tensor,  # (N, Q) answer numbers, -1 where missing
    sizes: list[int],  # how many answers each of the Q questions has
    classes: int,
) -> None:
    """One enumerated variable a person. The axes of people and questions are plates, so nothing is a Python loop."""
    allowed = torch.arange(max(sizes)) < torch.tensor(sizes).unsqueeze(-1)  # (Q, V)
    share = pu.table("share", classes)
    table = pu.table("answers", classes, *allowed.shape, support=allowed)
    people = pyro.plate("people", len(answers), dim=-1)
    questions = pyro.plate("questions", len(sizes), dim=-2)
    with people:
        group = pyro.sample("class", pu.Categorical(share))
    with people, questions as q, poutine.mask(mask=answers.mT >= 0):
        rows = table[group, q.unsqueeze(-1)]  # (classes, Q, 1, V) while the class is enumerated
        pyro.sample("answer", pu.Categorical(rows), obs=answers.mT.clamp(min=0))


def draw(people: int = 400, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Answers (N, Q), one in ten missing, and the classes (N,) behind them."""
    generator = torch.Generator().manual_seed(seed)
    tables = [
        torch.tensor([[0.30, 0.60, 0.09, 0.01], [0.05, 0.10, 0.80, 0.05], [0.02, 0.03, 0.05, 0.90]]),
        torch.tensor([[0.95, 0.05], [0.70, 0.30], [0.05, 0.95]]),
        torch.tensor([[0.85, 0.10, 0.05], [0.10, 0.85, 0.05], [0.15, 0.15, 0.70]]),
    ]
    classes = torch.multinomial(torch.tensor([0.3, 0.2, 0.5]), people, replacement=True, generator=generator)
    answers = torch.cat([torch.multinomial(t[classes], 1, generator=generator) for t in tables], -1)
    return answers.masked_fill(torch.rand(answers.shape, generator=generator) < 0.1, -1), classes


def main() -> None:
    answers, classes = draw()
    engine = pu.EM(model, estimate=pu.AddLambda(0.5))
    # EM finds a local optimum: several starts, and the report says how far apart they ended.
    fit = engine.run(answers, SIZES, 3, iterations=500, restarts=8, processes=1, progress=False)
    print(fit.report)

    share, table = fit.weights["share"].exp(), fit.weights["answers"].exp()
    for k in share.argsort(descending=True):
        print(f"\nclass {int(k)}: {100 * share[k]:.0f}% of the people")
        for q, (question, names) in enumerate(QUESTIONS.items()):
            likely = "  ".join(f"{name} {table[k, q, v]:.2f}" for v, name in enumerate(names))
            print(f"  {question:8} {likely}")

    found = fit.predict(answers, SIZES, 3)["class"]
    print(f"\n{100 * pu.evaluate.one_to_one(classes, found):.0f}% of the people are in the class they came from")


if __name__ == "__main__":
    main()

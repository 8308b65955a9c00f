"""A task: what the model reads, writes, scores and shows. This file gives it the commands of ``pyro-unsup``."""

from __future__ import annotations

from typing import Any

import torch

import pyro_unsup as pu
from pyro_unsup.tasks import Baseline, Command, Option, Score, Shown, Table, Task
from pyro_unsup.tasks.shown import likeliest, listed

from .model import CoinModel, Flips

FILE = "Lines of `heads tails`, perhaps with the number of the coin after them."


class CoinTask(Task):
    """Which coin was it?"""

    name = "coin"
    examples = "examples"
    scores_known = (Score("accuracy", "each coin taken as its commonest gold coin"),)
    baselines_known = (Baseline("one_coin", "all examples have the same coin"),)
    commands = {  # noqa: RUF012
        "fit": Command(
            "Learn which coin each example was flipped with.",
            FILE,
            [Option("coins", "How many coins.", 2, int, metavar="NUMBER", low=1)],
        ),
        "predict": Command("Find the coin of each example, and write its number.", FILE),
        "evaluate": Command("Score a mixture of coins on examples with gold coins.", FILE),
        "show": Command("Show a mixture of coins: the sides of each."),
    }

    def read(self, file: Any, given: Any) -> Flips:
        rows = [[int(cell) for cell in line.split()] for _, line in pu.data.opening.open_text(file)]
        if not rows or len({len(row) for row in rows} - {2, 3}):
            raise pu.InputError("expected lines of `heads tails`, or `heads tails coin`", file)
        found = torch.tensor(rows)
        return Flips(found[:, :2], found[:, 2] if found.shape[1] == 3 else None)

    def build(self, data: Flips, given: Any) -> CoinModel:
        return CoinModel(given.coins)

    def scores(self, fit: pu.Fit, gold: Flips, decoded: Any) -> dict[str, float]:
        return {"accuracy": pu.evaluate.many_to_one(gold.structure, decoded.structure)}

    def baselines(self, gold: Flips) -> dict[str, dict[str, float]]:
        return {"one_coin": {"accuracy": pu.evaluate.many_to_one(gold.structure, 0 * gold.structure)}}

    def show(self, fit: pu.Fit) -> Shown:
        rows = [(str(k), likeliest(row, ["heads", "tails"], 2)) for k, row in enumerate(fit.weights["side"])]
        record = {"coins": [listed(row, "side") for _, row in rows]}
        return Shown(record, [Table("coin", "sides", rows)])

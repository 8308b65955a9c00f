"""What samples of every kind have in common: which labelling is looked at, its scores, and how the chains agree."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InputError
from ..common import console, print_json, printable
from ..tables import Likely, print_scores

if TYPE_CHECKING:
    from ...results.samples import Samples


class Which(StrEnum):
    """Which labelling of each chain is looked at."""

    LAST = "last"
    BEST = "best"


WhichOption = Annotated[
    Which, typer.Option("--how", help="last: after the last sweep; best: of the highest log joint, in each chain.")
]


def score(
    samples: Samples, gold: Any, file: str, how: Which, meaning: Mapping[str, str], size: dict[str, int], as_json: bool
) -> None:
    """Scores against the gold labels of the same text: mean and deviation over chains. Another text is refused.

    :param size: of the gold text, for JSON.
    """
    from ...results.sample_text import same_text

    if not same_text(samples, gold):
        raise InputError(
            f"is not the text that was sampled, of {len(samples.data['offsets']) - 1:,} examples and "
            f"{samples.labels.shape[-1]:,} labels, which belong to that one alone", file
        )  # fmt: skip
    found = samples.evaluate(gold, how.value)
    if as_json:
        print_json({**found, **size})
        return
    means, deviations = ({name: one[key] for name, one in found.items()} for key in ("mean", "deviation"))
    print_scores(means, meaning, {f"deviation of {len(samples.last)} chains": deviations})


def record(samples: Samples, labelled: str) -> dict[str, Any]:
    """What samples tell of themselves, for JSON.

    :param labelled: what has labels, in the plural.
    """
    chains, draws, units = samples.labels.shape
    return {
        "model": repr(samples.model),
        "config": samples.config,
        "chains": chains,
        "draws": draws,
        labelled: units,
        "best_log_joint": samples.best_log_joint.tolist(),
        "accepted": {name: rate.tolist() for name, rate in samples.rates.items()},
        "diagnostics": samples.diagnostics(),
        "vi_between_chains": samples.variation_between_chains().tolist(),
    }


def print_samples(samples: Samples, labelled: str) -> None:
    """The same for the eye."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    chains, draws, units = samples.labels.shape
    facts = Table.grid(padding=(0, 2))
    settings = ", ".join(f"{key} {value}" for key, value in samples.config.items())
    facts.add_row("[bold]model", escape(repr(samples.model)))
    facts.add_row("[bold]sampler", escape(printable(settings)))
    facts.add_row("[bold]samples", f"{chains} chains of {draws:,} draws, labels of {units:,} {labelled}")
    facts.add_row("[bold]best log joint", ", ".join(f"{x:,.1f}" for x in samples.best_log_joint))
    if chains > 1:
        between = samples.variation_between_chains()
        apart = [between[i, j] for i in range(chains) for j in range(i)]
        facts.add_row("[bold]between chains", f"VI {min(apart):.3f} to {max(apart):.3f} bits: 0 if all label alike")
    if (samples.path["temperature"][:, samples.kept] != 1).any():
        facts.add_row("[bold]temperature", "not 1: the draws are on the way to good labels, not of the posterior")
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("whatever labels are called")
    for name in ("mean", "sd", "r_hat", "ess"):
        table.add_column(name, justify="right")
    for name, one in samples.diagnostics().items():
        table.add_row(name, f"{one['mean']:,.3f}", f"{one['sd']:.3g}", f"{one['r_hat']:.3f}", f"{one['ess']:,.0f}")
    console().print(facts)
    console().print(table)


def commonest(counts: Any, names: Any, n: int) -> Likely:  # (names,)
    """The names of the largest counts, each with its share of the whole; none without any."""
    import numpy as np

    best = np.argsort(-counts, kind="stable")[:n]
    return [(names[i], float(counts[i] / counts.sum())) for i in best.tolist() if counts[i]]

"""Numbers of sampled labels that do not depend on what the labels are called, and how well chains agree on them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..evaluate import variation_of_information
from ..models.gibbs_trees import LABELLED_SPANS
from .arviz import as_arviz, dataset, from_groups
from .sample_trees import trees_of

if TYPE_CHECKING:
    import xarray

    from .samples import Samples

Array = np.ndarray[Any, Any]

#: What R-hat would mean if it were taken of labels.
R_HAT_OF_LABELS = (
    "R-hat compares the spread of a number within chains with its spread between them. A label is a name, not a "
    "number, and without a dictionary every renaming of the labels is equally probable: two chains that found the very "
    "same clusters under other names would get a large R-hat, and one that is stuck in a single naming a small one. "
    "Even with a dictionary the mean of tag numbers means nothing. So R-hat and ESS are given for numbers that survive "
    "renaming (the log joint, the labels used, entropy, concentrations), and clusterings are compared by variation of "
    "information. Small R-hats there do not prove that chains agree on clusters; a large VI between chains disproves "
    "it."
)


def sizes(labels: Array, K: int) -> Array:  # (chains, draws, units) -> (chains, draws, K)
    """How many have each label."""
    chains, draws, _ = labels.shape
    found = np.empty((chains, draws, K), np.int64)
    for c in range(chains):
        for d in range(draws):
            own = labels[c, d]
            found[c, d] = np.bincount(own[own >= 0], minlength=K)  # below 0 is no label
    return found


def invariants(samples: Samples) -> dict[str, Array]:  # (chains, draws) each
    """``log_joint``, ``labels_used``, ``entropy`` (bits), ``largest`` (share), and shared concentrations if learned. Of
    trees, what :meth:`.Trees.numbers` says; of labels only if constituents have some."""
    found = {"log_joint": samples.log_joint, **numbers_of_trees(samples)}
    if samples.structure in (None, LABELLED_SPANS):
        counts = samples.token_counts
        p = counts / counts.sum(-1, keepdims=True)
        entropy = -(p * np.log2(p, where=p > 0, out=np.zeros_like(p))).sum(-1)
        used = (counts > 0).sum(-1).astype(np.float64)
        found |= {"labels_used": used, "entropy": entropy, "largest": p.max(-1)}
    if samples.levels:
        found |= {f"{name}_{level}": x[..., k] for name, x in samples.level_numbers.items()
                  for k, level in enumerate(samples.levels)}  # fmt: skip
    elif samples.learned != "fixed":
        found["alpha"] = samples.alpha
        found["beta"] = samples.beta if samples.learned == "shared" else np.sort(samples.beta, -1).mean(-1)
    return found


def numbers_of_trees(samples: Samples) -> dict[str, Array]:  # (chains, draws) each
    """What sums up the trees of every draw; nothing of other labels."""
    if samples.structure is None:
        return {}
    trees = trees_of(samples)
    each = [[trees.numbers(labels) for labels in chain] for chain in samples.labels]
    return {name: np.array([[one[name] for one in chain] for chain in each]) for name in each[0][0]}


def diagnostics(samples: Samples) -> dict[str, dict[str, float]]:
    """Mean, deviation, R-hat and effective sample size of each invariant. NaN if it is constant in each chain."""
    values = invariants(samples)
    moving = {name: x for name, x in values.items() if (np.ptp(x, axis=1) > 0).any()}
    r_hat, ess = _by_arviz(moving, "rhat"), _by_arviz(moving, "ess")
    return {
        name: {
            "mean": float(x.mean()),
            "sd": float(x.std()),
            "r_hat": r_hat.get(name, float("nan")),
            "ess": ess.get(name, float("nan")),
        }
        for name, x in values.items()
    }


def _by_arviz(values: dict[str, Array], what: str) -> dict[str, float]:
    chains, draws = next(iter(values.values())).shape[:2] if values else (0, 0)
    if draws < 4 or chains < (2 if what == "rhat" else 1):  # too few to say anything
        return {}
    data = from_groups({"posterior": values})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ArviZ on few draws, and on its own future
        import arviz

        found: Any = getattr(arviz, what)(data)
    group = found["posterior"] if "posterior" in getattr(found, "children", {}) else found
    return {name: float(group[name]) for name in values}


def between_chains(labels: Array) -> Array:  # (chains, units) -> (chains, chains)
    """Variation of information in bits between the clusterings of every two chains."""
    chains = len(labels)
    found = np.zeros((chains, chains))
    for i in range(chains):
        for j in range(i):
            found[i, j] = found[j, i] = variation_of_information(labels[i], labels[j])
    return found


def to_arviz(samples: Samples) -> Any:
    """An ArviZ object of everything but the labels themselves, which are integers and stay beside it."""
    return as_arviz({"posterior": posterior(samples), "sample_stats": draw_statistics(samples)})


def posterior(
    samples: Samples,
    tables: Mapping[str, Any] | None = None,
    dims: Mapping[str, Any] | None = None,
    coords: Mapping[str, Any] | None = None,
) -> xarray.Dataset:
    """Cluster sizes, numbers that sum up trees, and the concentrations that were learned.

    :param tables: drawn given the labels, (chains, draws, ...), with what their dimensions are called.
    """
    found: dict[str, Any] = numbers_of_trees(samples)
    if samples.levels:
        found["token_counts"] = samples.token_counts
    elif samples.structure in (None, LABELLED_SPANS):
        counts = samples.token_counts
        found |= {
            "cluster_sizes": -np.sort(-counts, -1),
            "token_counts": counts,
            "labels_used": (counts > 0).sum(-1),
        }
    # Not "label", which ArviZ 1.x has a column of its own for.
    own = {"token_counts": ["tag"], "cluster_sizes": ["rank"]} if "token_counts" in found else {}
    names = {"tag": samples.names} if "token_counts" in found else {}
    if samples.levels:
        found |= samples.level_numbers
        own = {"token_counts": ["ends"], **{name: ["level"] for name in samples.level_numbers}}
        names = {"ends": ["no", "yes"]}
        coords = {"level": list(samples.levels), **(coords or {})}
    elif samples.learned != "fixed":
        found |= {"alpha": samples.alpha, "beta": samples.beta}
        own |= {"beta": ["tag"]} if np.ndim(samples.beta) == 3 else {}
    return dataset({**found, **(tables or {})}, {**own, **(dims or {})}, {**names, **(coords or {})})


def draw_statistics(samples: Samples) -> xarray.Dataset:
    """What the sampler said of each draw."""
    at = samples.kept
    return dataset(
        {
            "lp": samples.log_joint,
            "energy": -samples.log_joint,  # what plots of energy ask for
            "temperature": samples.path["temperature"][:, at],
            **{f"acceptance_{name}": samples.path[f"rate_{name}"][:, at] for name in samples.rates},
        }
    )


def training(samples: Samples) -> xarray.Dataset:
    """The log joint and the temperature of every sweep, those of the burn-in among them."""
    return dataset({name: samples.path[name] for name in ("log_joint", "temperature")}, lead=["chain", "sweep"])

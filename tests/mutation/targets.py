"""Which tests are there for which module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]

#: How kernels run: as Python; compiled, with the fault; or as they are, if the fault is elsewhere.
Kernels = Literal["plain", "compiled anew", "as they are"]

_DISTRIBUTIONS = "tests/distributions/test_"


def _contract(structure: str, name: str = "") -> tuple[str, ...]:
    """The tests of the contract that compare a kernel with enumeration, and long examples with their definition.

    :param structure: the class of tests.
    :param name: under which either of its passes is tested alone, if it has two.
    """
    names = (
        "sums_agree_with_enumeration",
        "sums_hold_at_the_ends_of_the_number_range",
        "posterior_against_enumeration",
        "added_potentials_weigh_parts",
        "draws_follow_the_posterior",
        "items_weigh_in_as_the_gradient_asks",
    )
    kinds = range(4)
    found = [f"Test{structure}::test_{name}[kernel]" for name in names]
    found += [f"Test{structure}::test_long_examples_against_the_definition[kernel-{kind}]" for kind in kinds]
    if name:
        found += [f"test_either_pass_alone[{kind}-{how}-{name}]" for how in ("scaled", "logs") for kind in kinds]
    return tuple(f"{_DISTRIBUTIONS}contract.py::{name}" for name in found)


_TREES = ("tests/infer/test_gibbs_trees.py", "tests/infer/test_gibbs_trees_joint.py")
_PCFG = (*_contract("PCFG", "pcfg"), f"{_DISTRIBUTIONS}pcfg.py")
_SIMPLE_PCFG = (*_contract("SimplePCFG", "simple_pcfg"), f"{_DISTRIBUTIONS}simple_pcfg.py")

#: Where kernels of mini-batches are tested, of whatever structure: those whose names end so.
STEPWISE = "stepwise"
STEPWISE_TESTS = tuple(f"tests/infer/test_{name}.py" for name in ("shortcut", "stepwise", "stepwise_dense"))

#: By the beginning of another kernel's name, the longest that fits: where it is tested.
KERNELS: dict[str, tuple[str, ...]] = {
    "adaptor/": (
        "tests/infer/test_adaptor.py",
        "tests/infer/test_adaptor_bigram.py",
        "tests/infer/test_adaptor_numbers.py",
        "tests/models/test_adaptor.py",
    ),
    "alignment/": (
        *_contract("Alignment", "alignment"),
        f"{_DISTRIBUTIONS}alignment.py",
        f"{_DISTRIBUTIONS}agreement.py",
        "tests/models/test_aligner.py",
    ),
    "alignment/hmm": (
        *_contract("AlignmentHMM", "alignment_hmm"),
        f"{_DISTRIBUTIONS}alignment_hmm.py",
        f"{_DISTRIBUTIONS}alignment_hmm_agreement.py",
    ),
    "balance": (f"{_DISTRIBUTIONS}balance.py", f"{_DISTRIBUTIONS}tied.py", "tests/handlers/test_tie.py"),
    "bracketing": (
        *_contract("Bracketing", "bracketing"),
        f"{_DISTRIBUTIONS}bracketing.py",
        "tests/models/test_ccm.py",
    ),
    "chain": (*_contract("Chain", "chain"), f"{_DISTRIBUTIONS}chain.py", "tests/models/test_tagger.py"),
    "choice": (*_contract("Chain", "chain"), *_contract("Segmentation", "segmentation"), f"{_DISTRIBUTIONS}chain.py"),
    "dependency": (
        *_contract("Dependency", "dependency"),
        f"{_DISTRIBUTIONS}dependency.py",
        "tests/models/test_dmv.py",
    ),
    "dirichlet": (
        "tests/kernels/test_dirichlet.py",
        "tests/estimate/test_variational.py",
        "tests/distributions/test_row_dirichlet.py",
    ),
    "edit_distance": ("tests/estimate/templates", "tests/evaluate/test_segmentation.py"),
    "exp_log": ("tests/kernels/test_exp_log.py", "tests/tables/test_layout.py"),
    "features": ("tests/estimate/features",),
    "gibbs": ("tests/infer/test_gibbs_exact.py", "tests/infer/test_gibbs.py"),
    "gibbs_brackets": _TREES,
    "gibbs_choice": ("tests/infer/test_gibbs_exact.py", "tests/infer/test_gibbs_clusters.py"),
    "gibbs_factored": _TREES,
    "gibbs_headed": _TREES,
    "gibbs_heads": _TREES,
    "gibbs_joint": (
        "tests/infer/test_gibbs_exact.py",
        "tests/infer/test_gibbs_clusters.py",
        "tests/infer/test_gibbs_segments.py",
    ),
    "gibbs_labels": _TREES,
    "gibbs_links": ("tests/infer/test_gibbs_links.py",),
    "gibbs_mixture": ("tests/infer/test_gibbs_clusters.py",),
    "gibbs_segments": ("tests/infer/test_gibbs_segments.py",),
    "gibbs_urns": _TREES,
    "grammar": (*_PCFG, *_SIMPLE_PCFG),
    "headed_bracketing": (
        *_contract("HeadedBracketing", "headed_bracketing"),
        f"{_DISTRIBUTIONS}headed_bracketing.py",
        "tests/models/test_dmv_ccm.py",
    ),
    "lexicon": ("tests/models/test_lexicon.py", "tests/models/test_aligner.py"),
    "limits": ("tests/kernels/test_limits.py",),
    "logistic_normal": ("tests/estimate/normal",),
    "mixture": (*_contract("Mixture"), f"{_DISTRIBUTIONS}mixture.py", "tests/models/test_clusterer.py"),
    "normal": ("tests/kernels/test_normal.py",),
    "pcfg": (*_PCFG, "tests/models/test_pcfg.py"),
    "prefixes": ("tests/models/test_segment_types.py", "tests/models/test_inventory.py"),
    "running": (*_contract("Segmentation", "segmentation"), f"{_DISTRIBUTIONS}segmentation.py"),
    "segmentation": (
        *_contract("Segmentation", "segmentation"),
        f"{_DISTRIBUTIONS}segmentation.py",
        "tests/models/test_segmenter.py",
    ),
    "semimarkov": (*_contract("SemiMarkov", "semimarkov"), f"{_DISTRIBUTIONS}semimarkov.py"),
    "series": (*_contract("Series"), f"{_DISTRIBUTIONS}series.py", "tests/kernels/test_series.py"),
    "simple_pcfg": (*_SIMPLE_PCFG, "tests/models/test_simple_pcfg.py"),
    "sparse_rows": ("tests/estimate/test_sparse.py",),
    "symmetrisation": ("tests/evaluate/test_symmetrisation.py",),
    "words": ("tests/data/test_packing.py",),
    "": ("tests/kernels", f"{_DISTRIBUTIONS}chain.py", f"{_DISTRIBUTIONS}mixture.py", f"{_DISTRIBUTIONS}alignment.py"),
}


#: Kernels whose tests rely on floats that overflow silently, as they do in compiled code only.
COMPILED = ("gibbs_segments",)


@dataclass(frozen=True)
class Target:
    """A module, the tests that are to find its faults, and how the names of those begin that are to try first."""

    path: Path
    tests: tuple[str, ...]
    kernels: Kernels
    first: str = ""


def tests_of(kernel: str) -> tuple[str, ...]:
    """Where a kernel is tested, by its name under the folder of kernels."""
    if kernel.endswith(STEPWISE):
        return STEPWISE_TESTS
    return KERNELS[max((beginning for beginning in KERNELS if kernel.startswith(beginning)), key=len)]


def targets(area: str) -> Iterator[Target]:
    """The modules of an area of the package."""
    folder = ROOT / "pyro_unsup" / area
    for path in sorted(folder.glob("**/*.py" if area == "kernels" else "*.py")):
        if path.stem == "__init__":
            continue
        if area == "kernels":
            name = path.relative_to(folder).with_suffix("").as_posix()
            tests = tests_of(name)
            yield Target(path, tests, "compiled anew" if path.stem.startswith(COMPILED) else "plain")
        else:
            yield Target(path, (f"tests/{area}",), "as they are", f"tests/{area}/test_{path.stem}.py")

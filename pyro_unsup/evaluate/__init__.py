"""Scores of what was learned against gold annotation, and tests of whether a difference is real."""

from pyro_unsup.evaluate.alignment import alignment_error_rate, alignment_report
from pyro_unsup.evaluate.clustering import clustering_report
from pyro_unsup.evaluate.dependencies import (
    HeadCounts,
    chain_to_next,
    chain_to_previous,
    head_counts,
    head_scores,
    sign_test_heads,
)
from pyro_unsup.evaluate.labels import Confusion, confusion, contingency, relabel
from pyro_unsup.evaluate.parsing import (
    BracketCounts,
    bracket_counts,
    bracket_scores,
    labelled_scores,
    left_branching,
    right_branching,
    sign_test_parses,
    upper_bound,
)
from pyro_unsup.evaluate.resampling import Jackknife, jackknife, random_parts
from pyro_unsup.evaluate.segmentation import segmentation_report
from pyro_unsup.evaluate.significance import SignTest, sign_test_sentences, sign_test_tokens
from pyro_unsup.evaluate.symmetrisation import above_threshold, competitive, link_rows, symmetrise
from pyro_unsup.evaluate.tagging import (
    accuracy,
    accuracy_ambiguous,
    bits_per_word,
    clusters_used,
    many_to_one,
    one_to_one,
    tag_entropy,
    tagging_report,
    v_measure,
    variation_of_information,
)
from pyro_unsup.evaluate.variance import SeedVariance, seed_variance

__all__ = [
    "BracketCounts",
    "Confusion",
    "HeadCounts",
    "Jackknife",
    "SeedVariance",
    "SignTest",
    "above_threshold",
    "accuracy",
    "accuracy_ambiguous",
    "alignment_error_rate",
    "alignment_report",
    "bits_per_word",
    "bracket_counts",
    "bracket_scores",
    "chain_to_next",
    "chain_to_previous",
    "clustering_report",
    "clusters_used",
    "competitive",
    "confusion",
    "contingency",
    "head_counts",
    "head_scores",
    "jackknife",
    "labelled_scores",
    "left_branching",
    "link_rows",
    "many_to_one",
    "one_to_one",
    "random_parts",
    "relabel",
    "right_branching",
    "seed_variance",
    "segmentation_report",
    "sign_test_heads",
    "sign_test_parses",
    "sign_test_sentences",
    "sign_test_tokens",
    "symmetrise",
    "tag_entropy",
    "tagging_report",
    "upper_bound",
    "v_measure",
    "variation_of_information",
]

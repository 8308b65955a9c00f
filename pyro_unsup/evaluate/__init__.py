"""Scores of what was learned against gold annotation, and tests of whether a difference is real."""

from pyro_unsup.evaluate.labels import Confusion, confusion, contingency, relabel
from pyro_unsup.evaluate.significance import SignTest, sign_test_sentences, sign_test_tokens
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

__all__ = [
    "Confusion",
    "SignTest",
    "accuracy",
    "accuracy_ambiguous",
    "bits_per_word",
    "clusters_used",
    "confusion",
    "contingency",
    "many_to_one",
    "one_to_one",
    "relabel",
    "sign_test_sentences",
    "sign_test_tokens",
    "tag_entropy",
    "tagging_report",
    "v_measure",
    "variation_of_information",
]

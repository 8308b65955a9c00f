from __future__ import annotations

import pytest

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate import clustering_report, many_to_one, one_to_one, v_measure, variation_of_information

GOLD, FOUND = [0, 0, 0, 1, 1, 2], [3, 3, 1, 1, 1, 1]


def test_all_scores_by_name():
    report = clustering_report(GOLD, FOUND, log_likelihood=-30.0, tokens=12)
    assert report == {
        "accuracy": pytest.approx(4 / 6),  # clusters 3 and 1 stand for labels 0 and 1
        "one_to_one": one_to_one(GOLD, FOUND),
        "v_measure": v_measure(GOLD, FOUND),
        "vi_bits": variation_of_information(GOLD, FOUND),
        "clusters_used": 2,
        "loglik_per_token": -2.5,
    }
    assert report["accuracy"] == many_to_one(GOLD, FOUND)
    assert "loglik_per_token" not in clustering_report(GOLD, FOUND)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"log_likelihood": -1.0}, "log_likelihood and tokens belong together"),
        ({"tokens": 3}, "log_likelihood and tokens belong together"),
        ({"log_likelihood": -1.0, "tokens": 0}, "needs at least 1 token, got 0"),
    ],
)
def test_errors(options, message):
    with pytest.raises(UnsupError, match=message):
        clustering_report(GOLD, FOUND, **options)

"""How well do clusters of documents match their gold labels? The scores of induced tags, with documents for tokens."""

from __future__ import annotations

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.labels import Array
from pyro_unsup.evaluate.tagging import tagging_report


def clustering_report(
    gold: Array, predicted: Array, *, log_likelihood: float | None = None, tokens: int | None = None
) -> dict[str, float]:
    """All the scores that apply, by name. ``accuracy`` is many-to-one: each cluster takes its most frequent label.

    :param gold: gold label ids, shape (documents,).
    :param predicted: cluster ids, shape (documents,).
    :param log_likelihood: of the words of these documents, natural logarithm; needs ``tokens``.
    :param tokens: how many words those are.

    >>> from pyro_unsup.evaluate import clustering_report
    >>> clustering_report([0, 0, 1, 1], [2, 2, 2, 0], log_likelihood=-40.0, tokens=10)["loglik_per_token"]
    -4.0
    >>> clustering_report([0, 0, 1, 1], [2, 2, 2, 0])["accuracy"]
    0.75
    """
    if (log_likelihood is None) != (tokens is None):
        raise UnsupError("log_likelihood and tokens belong together, found only one of them; give both or neither")
    found = tagging_report(gold, predicted)
    report = {"accuracy": found.pop("many_to_one"), **found}
    if log_likelihood is not None and tokens is not None:
        if tokens < 1:
            raise UnsupError(f"a log-likelihood per token needs at least 1 token, got {tokens}")
        report["loglik_per_token"] = float(log_likelihood) / tokens
    return report

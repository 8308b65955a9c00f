"""What a state says: its most probable words as bars.

Words in other scripts need a font that has them: put one in ``matplotlib.rcParams["font.family"]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.labels import Array, to_numpy
from pyro_unsup.handlers import bare

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_WORD = 22  # characters; longer ones (web addresses) would leave no room for the bars
GRID_COLUMNS = 5
TABLES = ("emission", "words")  # what taggers and clusterers call it


class Words(Protocol):
    """A vocabulary, or any sequence of strings."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> str: ...


def top_words(
    log_weights: Any,
    vocab: Words | None = None,
    state: int = 0,
    n: int = 12,
    ax: Axes | None = None,
    *,
    label: str | None = None,
) -> Axes:
    """The ``n`` most probable words of one state, the likeliest on top. Words of probability 0 are left out.

    :param log_weights: a fit; or log-weights of words in states, shape (K, V); rows need not be normalised.
    :param vocab: the words, by id; by default those of the fit.
    :param state: the row to draw.
    :param ax: where to draw; by default a new figure.
    :param label: the title, by default the state's name in the fit, or its number.

    >>> import torch
    >>> from pyro_unsup.plot import top_words
    >>> weights = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]).log()
    >>> [label.get_text() for label in top_words(weights, ["the", "a", "dog"], state=1, n=2).get_yticklabels()]
    ['dog', 'the']
    """
    weights, vocab, names = _parts(log_weights, vocab, n)
    _check_states(weights, [state])
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(4.6, 0.9 + 0.24 * n), layout="constrained")[1]
    _bars(ax, weights[state], vocab, n, names[state] if label is None else label)
    ax.set_xlabel("p(word | state)")
    return ax


def top_words_grid(
    log_weights: Any,
    vocab: Words | None = None,
    states: Sequence[int] | None = None,
    n: int = 8,
    *,
    labels: Sequence[str] | None = None,
) -> NDArray[Any]:
    """The most probable words of several states, in one new figure. Each state has a scale of its own.

    :param log_weights: a fit; or log-weights of words in states, shape (K, V); rows need not be normalised.
    :param vocab: the words, by id; by default those of the fit.
    :param states: the rows to draw, by default all.
    :param labels: a title for each drawn state, by default its name in the fit, or its number.
    :param n: words of each state.
    :returns: one axes a state, shape (states,).

    >>> import torch
    >>> from pyro_unsup.plot import top_words_grid
    >>> weights = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]).log()
    >>> top_words_grid(weights, ["the", "a", "dog"], n=2, labels=["DT", "NN"]).shape
    (2,)
    """
    weights, vocab, names = _parts(log_weights, vocab, n)
    states = range(len(weights)) if states is None else states
    _check_states(weights, states)
    titles = [names[state] for state in states] if labels is None else labels
    if len(titles) != len(states):
        raise UnsupError(f"expected one label a state, got {len(titles)} labels for {len(states)} states")
    import matplotlib.pyplot as plt

    columns = min(GRID_COLUMNS, len(states))
    rows = -(-len(states) // columns)
    size = (2.3 * columns, (0.45 + 0.17 * n) * rows)
    figure, table = plt.subplots(rows, columns, figsize=size, squeeze=False)
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.06)  # inches, so that neighbours keep apart
    grid = table.ravel()
    for ax in grid[len(states) :]:
        ax.remove()
    axes = grid[: len(states)]
    for ax, state, title in zip(axes, states, titles, strict=True):
        _bars(ax, weights[state], vocab, n, title, fontsize="x-small")
    return axes


def _parts(log_weights: Any, vocab: Words | None, n: int) -> tuple[NDArray[np.float64], Words, Sequence[str]]:
    """The matrix, its words, and what to call its rows."""
    names = None
    if hasattr(log_weights, "weights"):
        fit = log_weights
        table = next((name for name in TABLES if name in fit.weights), None)
        if table is None:
            raise UnsupError(f"the fit has no table of words ({' or '.join(TABLES)}), it has {', '.join(fit.weights)}")
        log_weights, names = fit.weights[table], getattr(fit, "labels", None)
        model: Any = bare(fit.model)
        known = model.vocab if vocab is None else vocab
        vocab = [str(i) for i in range(known)] if isinstance(known, int) else known
    if vocab is None:
        raise UnsupError("log_weights need a vocab beside them; only a fit brings its own")
    weights = _matrix(log_weights, vocab, n)
    return weights, vocab, [f"state {k}" for k in range(len(weights))] if names is None else names


def _matrix(log_weights: Array, vocab: Words, n: int) -> NDArray[np.float64]:
    weights = to_numpy(log_weights).astype(np.float64)
    if weights.ndim != 2:
        raise UnsupError(f"log_weights must have shape (K, V), actual shape {weights.shape}")
    if weights.shape[1] != len(vocab):
        raise UnsupError(f"log_weights are over {weights.shape[1]} words but the vocabulary has {len(vocab)}")
    if n < 1:
        raise UnsupError(f"n must be 1 or more, got {n}")
    return weights


def _check_states(weights: NDArray[np.float64], states: Sequence[int]) -> None:
    if len(states) == 0:
        raise UnsupError("states is empty: there is nothing to draw")
    for state in states:
        if not 0 <= state < len(weights):
            raise UnsupError(f"state {state} does not exist, expected 0 to {len(weights) - 1}")
        row = weights[state]
        if np.isnan(row).any() or not -np.inf < row.max() < np.inf:
            raise UnsupError(f"log_weights of state {state} are no distribution: NaN, infinite or all minus infinity")


def _bars(ax: Axes, row: NDArray[np.float64], vocab: Words, n: int, title: str, fontsize: str = "small") -> None:
    """Draw one state; ``row`` holds its log-weights, shape (V,)."""
    p = np.exp(row - row.max())
    p /= p.sum()
    best = np.argsort(-p, kind="stable")[:n]
    best = best[p[best] > 0]
    places = range(len(best))
    bars = ax.barh(places, p[best], height=0.72, color="C0")
    ax.bar_label(bars, [f"{value:#.2g}" for value in p[best]], padding=3, fontsize=fontsize, color="0.4")
    ax.set_yticks(places, [_short(vocab[int(i)]) for i in best], parse_math=False, fontsize=fontsize)
    ax.set_ylim(n - 0.4, -0.6)  # as tall for few words as for many, the first on top
    ax.set_xlim(0, 1.2 * p[best[0]])  # room for the numbers
    ax.set_xticks([])
    ax.tick_params(length=0)
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.spines["left"].set_color("0.7")
    ax.set_title(title, loc="left", fontsize="medium", parse_math=False)


def _short(word: str) -> str:
    return word if len(word) <= LONGEST_WORD else word[: LONGEST_WORD - 1] + "…"

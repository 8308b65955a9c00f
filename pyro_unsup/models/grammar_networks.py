"""Networks of neural grammars: from embeddings of labels to tables of rules, and from a sentence to its z."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

#: What a scale is at least, so that its logarithm stays a number.
LEAST = 1e-4


class Residual(nn.Module):
    """x + relu(A relu(B x))."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:  # (..., dim) -> (..., dim)
        found: Tensor = x + self.second(self.first(x).relu()).relu()
        return found


class Choices(nn.Module):
    """Log-probabilities of some choices, a row for each label, from an embedding of the label and from z.

    :param rows: how many labels.
    :param choices: how many there are to choose from.
    :param deep: whether there are residual layers between; else the scores are a product of matrices.
    """

    def __init__(self, rows: int, choices: int, dim: int, z_dim: int, deep: bool) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(rows, dim))
        width = dim if deep else choices
        # A product with (embedding, z) is a sum of two. What z adds is the same for all labels.
        self.of_label, self.of_z = nn.Linear(dim, width), nn.Linear(z_dim, width, bias=False) if z_dim else None
        self.deep = nn.Sequential(Residual(dim), Residual(dim), nn.Linear(dim, choices)) if deep else None
        for x in self.parameters():
            if x.dim() > 1:
                nn.init.xavier_uniform_(x)

    def forward(self, z: Tensor | None) -> Tensor:  # (*batch, z_dim) -> (*batch, rows, choices)
        scores = self.of_label(self.embedding)
        if self.of_z is not None and z is not None:
            scores = scores + self.of_z(z).unsqueeze(-2)
        if self.deep is not None:
            scores = self.deep(scores)
        found: Tensor = scores.log_softmax(-1)
        return found


class Tables(nn.Module):
    """The tables of a grammar.

    :param factored: whether rules are products of two tables, ``left`` and ``right``; else they are one, ``rules``.
    """

    def __init__(self, N: int, P: int, V: int, dim: int, z_dim: int, factored: bool) -> None:
        super().__init__()
        self.root, self.emission = Choices(1, N, dim, z_dim, True), Choices(P, V, dim, z_dim, True)
        self.size, self.factored = N + P, factored
        if factored:
            self.left, self.right = Choices(N, N + P, dim, z_dim, False), Choices(N, N + P, dim, z_dim, False)
        else:
            self.rules = Choices(N, (N + P) ** 2, dim, z_dim, False)

    def forward(self, z: Tensor | None = None) -> dict[str, Tensor]:  # (*batch, z_dim)
        """Tables by name, (*batch, *axes)."""
        found = {"root": self.root(z).squeeze(-2), "emission": self.emission(z)}
        if self.factored:
            return found | {"left": self.left(z), "right": self.right(z)}
        return found | {"rules": self.rules(z).unflatten(-1, (self.size, self.size))}


class Encoder(nn.Module):
    """Mean and scale of z from the words of a sentence: an LSTM in both directions, and the largest of its outputs."""

    def __init__(self, V: int, hidden: int, z_dim: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, hidden)
        self.lstm = nn.LSTM(hidden, hidden, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * hidden, 2 * z_dim)

    def forward(self, words: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:  # (tokens,), (B,) -> (B, z_dim) twice
        embedded = self.embedding(words)
        at_least_one, longest = lengths.clamp(min=1), max(int(lengths.max()), 1)
        padded = embedded.new_zeros(len(lengths), longest, embedded.shape[-1])
        padded[torch.arange(longest) < lengths.unsqueeze(-1)] = embedded
        packed = pack_padded_sequence(padded, at_least_one, batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, padding_value=-torch.inf)
        mean, scale = self.out(out.amax(1)).chunk(2, -1)
        return mean, torch.nn.functional.softplus(scale) + LEAST

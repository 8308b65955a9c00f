"""What the rows and cells of translation tables are called."""

from __future__ import annotations

from collections.abc import Sized
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..tables import Axis
from .lexicon import Lexicon


def lexicon_axes(lexicon: Lexicon, source: int | Sized, target: int | Sized) -> dict[str, tuple[Axis, Axis]]:
    """The axes of a table by source words (``"forward"``) and of one by target words (``"backward"``).

    Words are labels; that of the null word is empty.
    """
    rows = {
        name: Axis(name, partial(_rows, lexicon, words, sizes))
        for name, words, sizes in (("source", source, "sizes"), ("target", target, "turned_sizes"))
    }
    return {
        "forward": (rows["source"], Axis("target", target, partial(_met, lexicon))),
        "backward": (rows["target"], Axis("source", source, partial(_met_back, lexicon))),
    }


def _rows(lexicon: Lexicon, words: Any, sizes: str) -> list[Any]:
    names = range(words) if isinstance(words, int) else words
    return [*(names[i] for i in getattr(lexicon, sizes).nonzero()[:, 0].tolist()), ""]


def _met(lexicon: Lexicon) -> Tensor:  # (P + target,)
    return torch.cat([lexicon.met.long(), torch.arange(lexicon.target)])


def _met_back(lexicon: Lexicon) -> Tensor:  # (P + source,)
    words = torch.repeat_interleave(torch.arange(lexicon.source), lexicon.sizes)
    cells = torch.empty_like(words)
    cells[lexicon.turned[: len(lexicon)].long()] = words
    return torch.cat([cells, torch.arange(lexicon.source)])

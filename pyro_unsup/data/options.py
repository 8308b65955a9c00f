"""What all readers have in common."""

from __future__ import annotations

from typing import TypedDict

from pyro_unsup.data.opening import Limits
from pyro_unsup.data.vocab import Vocab


class Options(TypedDict, total=False):
    """What every reader takes by keyword.

    :param vocab: encode the words with this vocabulary (that of a trained model) rather than make one. Words outside
        it become its unknown symbol, or are an error where it has none.
    :param tagset: encode the tags with this set; tags outside it are an error.
    :param lowercase: fold the words to lower case.
    :param min_count: words seen fewer times become the unknown symbol.
    :param unknown: the unknown symbol to put into the new vocabulary. Default: ``<unk>`` where ``min_count`` is above
        1, else none.
    :param limits: sizes beyond which a file is refused.
    """

    vocab: Vocab | None
    tagset: Vocab | None
    lowercase: bool
    min_count: int
    unknown: str | None
    limits: Limits

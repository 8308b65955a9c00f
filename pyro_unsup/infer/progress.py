"""Progress bars, in a terminal or in a notebook."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

#: Quick work shows no bar.
SHOW_AFTER_SECONDS = 2


def progress_bar(items: Iterable[Any] | None = None, shown: bool | None = True, **options: Any) -> Any:
    """A bar of tqdm, which appears when the work has taken two seconds.

    :param items: what the bar goes through; without it, call ``update``.
    :param shown: False for no bar; None for a bar only where there is a terminal.
    :param options: of tqdm, such as ``total`` and ``unit``.
    """
    if find_spec("ipywidgets") is None:  # tqdm.auto would warn in every notebook
        from tqdm import tqdm
    else:
        from tqdm.auto import tqdm
    return tqdm(items, delay=SHOW_AFTER_SECONDS, disable=None if shown is None else not shown, **options)

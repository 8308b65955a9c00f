"""Formulas as MathML, which browsers draw themselves: nothing is fetched when a page is read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx

logger = logging.getLogger(__name__)
#: Commands that docutils does not know, as regular expressions, and others that look nearly the same.
ALIKE = {
    r"\\[dt]frac\b": r"\\frac",
    r"\\dots\b": r"\\ldots",
    r"\\[bB]igg?(?![a-zA-Z])|\\(?:text|display)style\b": "",
    "½": r"\\frac{1}{2}",
}


def drawn(node: Any, block: bool) -> str:
    """A formula in MathML; one that is not understood is a warning, and shown as it is written."""
    text = node.astext()
    for one, other in ALIKE.items():
        text = re.sub(one, other, text)
    try:
        return str(tex2mathml(text, as_block=block))
    except (MathError, SyntaxError) as error:
        logger.warning("a formula that cannot be drawn, %s: %s", error, text, location=node)
        return f"<code>{node.astext()}</code>"


def inline(self: Any, node: Any) -> None:
    self.body.append(f'<span class="math">{drawn(node, block=False)}</span>')
    raise nodes.SkipNode


def block(self: Any, node: Any) -> None:
    self.body.append(f'<div class="math">{drawn(node, block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Ready components: what is known of a language, as a yes or no to every part of hidden structure.

A component is a function from the parts of the data to truth values, and anyone can write one. Those here have a name
and settings besides, so that fits under them can be saved. :func:`pyro_unsup.constrain` forbids what a component says
no to, :func:`pyro_unsup.prefer` makes likelier what it says yes to, and :func:`pyro_unsup.regularise` bounds how often
it does. Components combine, by ``&``, ``|`` and ``~``:

    >>> import pyro_unsup as pu
    >>> pu.components.short_dependencies(limit=4) & pu.components.verb_as_root(["VERB", "AUX"])
    both(short_dependencies(limit=4), verb_as_root(tags=['VERB', 'AUX']))

**References:** [1] S. B. Cohen and N. A. Smith (2010) "Variational inference for grammar induction with prior
knowledge"; [2] T. Naseem et al. (2010) "Using universal linguistic knowledge to guide grammar induction".
"""

from ..component import at_least, both, either, opposite
from .choices import cognates, links_into, near_diagonal, punctuation_alike, seeds, symmetric
from .dependencies import (
    all_right,
    arc,
    distance,
    left_chain,
    noun_sequence,
    right_attach,
    root,
    short_dependencies,
    verb_as_root,
)
from .sequences import closed_classes, spelled_with, states_at, word_tags
from .spans import ends_in, fragments, starts_with, width
from .universal_rules import universal

__all__ = [
    "all_right",
    "arc",
    "at_least",
    "both",
    "closed_classes",
    "cognates",
    "distance",
    "either",
    "ends_in",
    "fragments",
    "left_chain",
    "links_into",
    "near_diagonal",
    "noun_sequence",
    "opposite",
    "punctuation_alike",
    "right_attach",
    "root",
    "seeds",
    "short_dependencies",
    "spelled_with",
    "starts_with",
    "states_at",
    "symmetric",
    "universal",
    "verb_as_root",
    "width",
    "word_tags",
]

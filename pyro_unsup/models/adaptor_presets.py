"""Adaptor grammars that are known by name: what words are made of, and what is made of words.

**References:**

[1] M. Johnson and S. Goldwater (2009) "Improving nonparameteric Bayesian inference: experiments on unsupervised word
    segmentation with adaptor grammars".
[2] M. Johnson, A. Christophe, E. Dupoux and K. Demuth (2014) "Modelling function words improves unsupervised word
    segmentation".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

_SYLLABLES = {
    "whole": "onset_first? rhyme_last",
    "initial": "onset_first? rhyme",
    "syllable": "onset? rhyme",
    "final": "onset? rhyme_last",
    "rhyme": "nucleus coda?",
    "rhyme_last": "nucleus coda_last?",
}
_WORD_OF_SYLLABLES = {
    "word": "whole | initial syllable{0,2} final",
    **dict.fromkeys(("onset_first", "onset", "coda", "coda_last"), "consonant+"),
    "nucleus": "vowel+",
}
_FUNCTIONS = {f"functions{k}": f"function{k}+" for k in (1, 2, 3)}


@dataclass(frozen=True)
class Preset:
    """A grammar: its levels, which are remembered, its other parts, which units are words, and how chains begin.

    :param sweeps: how many the command line makes: as many as the quality of the benchmark takes.
    :param start: ``"batch"``: all sentences at once, as if nothing were known; ``"incremental"``: one by one. Which is
        better was found on English phonemes: with function words ``"batch"``, without them ``"incremental"``.
    """

    levels: dict[str, str]
    parts: dict[str, str] = field(default_factory=dict)
    words: tuple[str, ...] = ("word",)
    start: Literal["batch", "incremental"] = "incremental"
    sweeps: int = 500

    @property
    def vowels(self) -> bool:
        """Whether it must be told which symbols are vowels."""
        return "nucleus" in self.levels


#: By name: words of symbols; words in collocations; the same with words of syllables [1]; three levels of collocations,
#: each of which may begin with function words of one syllable [2].
PRESETS = {
    "words": Preset({"word": "symbol+"}),
    "collocations": Preset({"collocation": "word+", "word": "symbol+"}),
    "syllables": Preset({"collocation": "word+", **_WORD_OF_SYLLABLES}, _SYLLABLES),
    "function-words": Preset(
        {
            "collocation3": "functions3? collocation2+",
            "collocation2": "functions2? collocation1+",
            "collocation1": "functions1? word+",
            **{f"function{k}": "whole" for k in (3, 2, 1)},
            **_WORD_OF_SYLLABLES,
        },
        {**_FUNCTIONS, **_SYLLABLES},
        ("word", "function1", "function2", "function3"),
        "batch",
        700,
    ),
}

"""The toy world: one small English-like language, in every form that the models learn from.

A hand-written probabilistic grammar (:mod:`.grammar`) and lexicon (:mod:`.lexicon`) draw

- :func:`sentences`: text with gold tags, dependencies and brackets,
- :func:`utterances`: the same as phoneme strings without word boundaries,
- :func:`bitext`: the same with translations into an invented language and gold alignments,
- :func:`documents`: bags of content words, one topic each.

Everything is seeded, of any size, and fast, and the truth is open: ``GRAMMAR.rules``, ``CLASSES`` (words and their
probabilities), ``TAGS``, :func:`tag_dictionary`, ``TRANSLATIONS``, :func:`topic_words`.
"""

from pyro_unsup.data.toy.grammar import GRAMMAR, Rule
from pyro_unsup.data.toy.lexicon import CLASSES, TAGS, WORDS, WordClass, tag_dictionary
from pyro_unsup.data.toy.parallel import PARTICLE_RATE, PARTICLES, TRANSLATIONS, bitext
from pyro_unsup.data.toy.speech import Utterances, phonemes, utterances
from pyro_unsup.data.toy.topics import TOPICS, Documents, documents, topic_words
from pyro_unsup.data.toy.treebank import TAGSET, VOCAB, sentences

__all__ = [
    "CLASSES",
    "GRAMMAR",
    "PARTICLES",
    "PARTICLE_RATE",
    "TAGS",
    "TAGSET",
    "TOPICS",
    "TRANSLATIONS",
    "VOCAB",
    "WORDS",
    "Documents",
    "Rule",
    "Utterances",
    "WordClass",
    "bitext",
    "documents",
    "phonemes",
    "sentences",
    "tag_dictionary",
    "topic_words",
    "utterances",
]

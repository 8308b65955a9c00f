"""Documents of the toy world: each has one topic, and a topic is a distribution over content words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pyro_unsup.data import documents as bags_of_words
from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.toy.derive import stream
from pyro_unsup.data.toy.grammar import GRAMMAR, Choice, Float, Int
from pyro_unsup.data.toy.lexicon import CLASSES
from pyro_unsup.data.toy.treebank import VOCAB
from pyro_unsup.data.vocab import Vocab
from pyro_unsup.errors import InputError

#: The words that each topic is about, by dictionary form.
TOPICS: dict[str, str] = {
    "farm": "farmer field horse barn cow sheep goat hen seed tractor harvest fence pig meadow shepherd plant feed ripe",
    "sea": "ship sailor boat captain wave harbour fish net beach sail whale pirate rope deck port swim drift salty wet",
    "kitchen": "kitchen cook soup table knife plate pan spoon bowl recipe cake pie cheese potato baker bake boil taste",
    "music": "song singer band drum violin piano tune choir concert dance guitar trumpet note stage voice sing loud",
    "school": "teacher school book lesson class pupil desk page library pencil test word mistake number read study",
    "war": "soldier king castle sword battle guard fight wall tower knight gun queen shield tent general attack brave",
    "weather": "cloud wind star moon sky storm mountain valley hill winter summer snow rain sun shine melt sunny windy",
    "market": "market merchant price coin shop customer bank trade debt bill store basket penny seller buyer sell",
}
CONTENT_TAGS = ("NOUN", "VERB", "ADJ")
#: The share of a document that is about its topic; the rest is content words as sentences have them.
ON_TOPIC = 0.4
SHORTEST, LONGEST = 20, 100


def topic_words(topics: int = len(TOPICS)) -> Float:
    """(topics, words) the distribution over the vocabulary of each topic: what ``documents`` draws from.

    >>> from pyro_unsup.data.toy import VOCAB, topic_words
    >>> topic_words(2).shape == (2, len(VOCAB)), topic_words(2).sum(1).round(6).tolist()
    (True, [1.0, 1.0])
    """
    expected = GRAMMAR.expected()
    content, about = np.zeros(len(VOCAB)), np.zeros((topics, len(VOCAB)))
    chosen = [set(words.split()) for words in list(TOPICS.values())[:topics]]
    for name, entry in CLASSES.items():
        if entry.tag in CONTENT_TAGS:
            for word, lemma, probability in zip(entry.words, entry.lemmas, entry.probabilities, strict=True):
                content[VOCAB.index[word]] += expected[name] * probability
                for topic, lemmas in enumerate(chosen):
                    about[topic, VOCAB.index[word]] += expected[name] * probability * (lemma in lemmas)
    mixed: Float = ON_TOPIC * about / about.sum(1, keepdims=True) + (1 - ON_TOPIC) * content / content.sum()
    return mixed


class Documents(NamedTuple):
    """Documents with their gold topics.

    :param corpus: one document a "sentence": the words in the order drawn.
    :param labels: (documents,) index into ``topics``.
    :param topics: names.

    >>> from pyro_unsup.data.toy import documents
    >>> found = documents(3, seed=1, topics=2)
    >>> len(found.corpus), found.labels.shape, found.bags
    (3, (3,), Documents(3 documents, 170 tokens, 755 types, 2 labels))
    """

    corpus: Corpus
    labels: Int
    topics: tuple[str, ...]

    @property
    def bags(self) -> bags_of_words.Documents:
        """The same as bags of words with labels, which models and scores take."""
        words, offsets, vocab = self.corpus.words, self.corpus.offsets, self.corpus.vocab
        return bags_of_words.Documents.count(words, offsets, vocab, self.labels, Vocab(self.topics))


def documents(n: int, seed: int = 0, topics: int = len(TOPICS)) -> Documents:
    """Draws documents: a topic, a length of 20 to 100 words, and words one by one from the topic.

    :param n: number of documents.
    :param seed: same seed, same documents.
    :param topics: how many topics, all equally likely.

    >>> from pyro_unsup.data.toy import documents
    >>> corpus, labels, topics = documents(100, seed=7)
    >>> topics[labels[0]], " ".join(corpus.sentence(0)[:8])
    ('war', 'sang suns guard brave soldiers fight knight moons')
    """
    if n < 0:
        raise InputError(f"expected a number of documents of 0 or more, got {n}")
    if not 1 <= topics <= len(TOPICS):
        raise InputError(f"expected 1 to {len(TOPICS)} topics, got {topics}: the toy world has no more")
    labels = stream(seed, "topics").integers(topics, size=n)
    lengths = stream(seed, "lengths").integers(SHORTEST, LONGEST, size=n, endpoint=True)
    probabilities = topic_words(topics)
    topic, word = np.nonzero(probabilities)
    options = Choice(topic, probabilities[topic, word]).draw(np.repeat(labels, lengths), stream(seed, "words"))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    corpus = Corpus(words=word[options].astype(np.int32), offsets=offsets, vocab=VOCAB)
    return Documents(corpus, labels, tuple(TOPICS)[:topics])

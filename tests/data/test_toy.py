"""The toy world: gold structure that holds together, draws that follow the tables, and speed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pyro_unsup.data import Bitext, Documents, Segmented, toy
from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.toy.derive import BLOCK, LONGEST, forests
from pyro_unsup.data.toy.grammar import Choice
from pyro_unsup.data.toy.parallel import TARGET_VOCAB, invent
from pyro_unsup.errors import InputError

SIZE = 20_000
LEAST_P = 1e-4


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return toy.sentences(SIZE, seed=3)


def agrees(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """The p-value of Pearson's test; an option of probability 0 must not occur."""
    assert not counts[probabilities == 0].any()
    possible = probabilities > 0
    if possible.sum() == 1:
        return 1.0
    return float(stats.chisquare(counts[possible], counts.sum() * probabilities[possible]).pvalue)


# The grammar and the lexicon


def test_grammar_is_closed_and_proper() -> None:
    used = {child for rule in toy.GRAMMAR.rules for child in rule.right}
    assert used <= set(toy.GRAMMAR.symbols)
    assert set(toy.CLASSES) <= used
    assert set(toy.GRAMMAR.phrases) - used == {"ROOT"}
    np.testing.assert_allclose(np.bincount(toy.GRAMMAR.left, toy.GRAMMAR.choice.probabilities), 1)
    assert all(sorted(rule.order) == list(range(len(rule.right))) for rule in toy.GRAMMAR.rules)
    assert all(0 <= rule.head < len(rule.right) for rule in toy.GRAMMAR.rules)
    assert str(toy.GRAMMAR.rules[2]) == "S -> SUBJ VP*"


def test_lexicon() -> None:
    assert len(toy.TAGS) == 12
    assert len(toy.WORDS) > 700
    for entry in toy.CLASSES.values():
        assert len(set(entry.words)) == len(entry.words) == len(entry.lemmas)
        assert sum(entry.probabilities) == pytest.approx(1)
        assert list(entry.probabilities) == sorted(entry.probabilities, reverse=True)
    assert not [word for name in ("noun.sg", "adj") for word in toy.CLASSES[name].words if word[0] in "aeiou"]
    tags = toy.tag_dictionary()
    assert set(tags) == set(toy.WORDS)
    assert tags["dance"] == ("NOUN", "VERB")
    assert sum(len(found) > 1 for found in tags.values()) > 40


def test_choice_stays_in_its_group() -> None:
    choice = Choice(np.array([0, 1, 1, 2]), np.array([5.0, 1.0, 3.0, 2.0]))

    class Extreme:
        def __init__(self, value: float) -> None:
            self.value = value

        def random(self, n: int) -> np.ndarray:
            return np.full(n, self.value)

    groups = np.array([0, 1, 2])
    assert choice.draw(groups, Extreme(0.0)).tolist() == [0, 1, 3]  # type: ignore[arg-type]
    assert choice.draw(groups, Extreme(np.nextafter(1, 0))).tolist() == [0, 2, 3]  # type: ignore[arg-type]
    np.testing.assert_allclose(choice.probabilities, [1, 0.25, 0.75, 1])


def test_rules_follow_the_table() -> None:
    counts = np.zeros(len(toy.GRAMMAR.rules), np.int64)
    for forest in forests(SIZE, seed=3):
        counts += np.bincount(forest.rule[forest.rule >= 0], minlength=len(counts))
    assert counts.min() > 0
    for phrase in range(len(toy.GRAMMAR.phrases)):
        rows = toy.GRAMMAR.left == phrase
        assert agrees(counts[rows], toy.GRAMMAR.choice.probabilities[rows]) > LEAST_P


def test_words_follow_the_lexicon() -> None:
    counts = np.zeros((len(toy.GRAMMAR.symbols), len(toy.WORDS)), np.int64)
    for forest in forests(SIZE, seed=3):
        leaves = forest.rule < 0
        np.add.at(counts, (forest.symbol[leaves], forest.word[leaves]), 1)
    for name, entry in toy.CLASSES.items():
        probabilities = np.zeros(len(toy.WORDS))
        probabilities[[toy.WORDS.index(word) for word in entry.words]] = entry.probabilities
        assert agrees(counts[toy.GRAMMAR.symbols.index(name)], probabilities) > LEAST_P


# Sentences


def test_lengths(corpus: Corpus) -> None:
    expected = toy.GRAMMAR.expected()
    mean = sum(expected[name] for name in toy.CLASSES)
    assert mean == pytest.approx(8, abs=0.25)
    error = corpus.lengths.std() / np.sqrt(SIZE)
    assert corpus.lengths.mean() == pytest.approx(mean, abs=5 * error)
    assert corpus.lengths.max() <= LONGEST
    assert corpus.lengths.min() == 3
    per_tag = np.bincount(corpus.tags, minlength=len(toy.TAGS)) / SIZE
    for tag, count in zip(toy.TAGS, per_tag, strict=True):
        wanted = sum(expected[name] for name, entry in toy.CLASSES.items() if entry.tag == tag)
        assert count == pytest.approx(wanted, rel=0.06)


def test_words_fit_tags_and_punctuation_comes_last(corpus: Corpus) -> None:
    allowed = np.zeros((len(toy.WORDS), len(toy.TAGS)), np.bool_)
    for word, tags in toy.tag_dictionary().items():
        allowed[toy.VOCAB.index[word], toy.TAGSET.encode(tags)] = True
    assert allowed[corpus.words, corpus.tags].all()
    punctuation = np.flatnonzero(corpus.tags == toy.TAGSET.index["PUNCT"])
    np.testing.assert_array_equal(punctuation, corpus.offsets[1:] - 1)


def test_heads_are_projective_trees_with_one_root(corpus: Corpus) -> None:
    for begin, end in zip(corpus.offsets[:5000], corpus.offsets[1:5001], strict=True):
        heads = corpus.heads[begin:end].tolist()
        assert heads.count(0) == 1
        for place in range(1, len(heads) + 1):
            passed = set()
            while place != 0:
                assert place not in passed
                passed.add(place)
                place = heads[place - 1]
        # The arc from the root, at 0, may not be crossed either.
        arcs = [(min(place, head), max(place, head)) for place, head in enumerate(heads, 1)]
        assert not [1 for a, b in arcs for c, d in arcs if a < c < b < d]


def test_roots_are_verbs_and_arcs_make_sense(corpus: Corpus) -> None:
    tags = np.array(toy.TAGS)[corpus.tags]
    assert set(tags[corpus.heads == 0]) == {"VERB"}
    head = np.repeat(corpus.offsets[:-1], corpus.lengths) + corpus.heads - 1
    head_tag = np.where(corpus.heads == 0, "ROOT", tags[np.maximum(head, 0)])
    wanted = {"DET": {"NOUN"}, "AUX": {"VERB"}, "COMP": {"VERB"}, "PUNCT": {"VERB"}, "ADJ": {"NOUN", "VERB"}}
    for tag, heads in wanted.items():
        assert set(head_tag[tags == tag]) == heads


def test_spans_nest_and_hold_the_sentence(corpus: Corpus) -> None:
    for at in range(5000):
        spans = [tuple(span) for span in corpus.spans[corpus.span_offsets[at] : corpus.span_offsets[at + 1]].tolist()]
        assert spans == sorted(set(spans))
        assert (0, corpus.lengths[at]) in spans
        assert all(end - begin >= 2 for begin, end in spans)
        assert not [1 for a, b in spans for c, d in spans if a < c < b < d]


def test_every_bracket_has_one_head(corpus: Corpus) -> None:
    for at in range(2000):
        heads = corpus.heads[corpus.offsets[at] : corpus.offsets[at + 1]]
        for begin, end in corpus.spans[corpus.span_offsets[at] : corpus.span_offsets[at + 1]]:
            outside = (heads[begin:end] <= begin) | (heads[begin:end] > end)
            assert outside.sum() == 1


def test_a_sentence_by_hand() -> None:
    corpus = toy.sentences(SIZE, seed=3)
    wanted = ["DET", "ADJ", "NOUN", "AUX", "VERB", "DET", "NOUN", "PUNCT"]
    at = next(at for at in range(SIZE) if toy.TAGSET.decode(corpus.tags[slice(*corpus.offsets[at : at + 2])]) == wanted)
    assert corpus.heads[slice(*corpus.offsets[at : at + 2])].tolist() == [3, 3, 5, 5, 0, 7, 5, 5]
    spans = corpus.spans[slice(*corpus.span_offsets[at : at + 2])].tolist()
    assert spans == [[0, 3], [0, 7], [0, 8], [1, 3], [3, 7], [4, 7], [5, 7]]


# Seeds and sizes


@settings(derandomize=True, deadline=None, max_examples=15)
@given(small=st.integers(0, 300), more=st.integers(0, 2 * BLOCK), seed=st.integers(0, 2**70))
def test_same_seed_same_draw_and_smaller_is_a_prefix(small: int, more: int, seed: int) -> None:
    first = np.arange(small)
    assert toy.sentences(small, seed) == toy.sentences(small + more, seed).select(first)
    short, long = toy.bitext(small, seed), toy.bitext(small + more, seed)
    assert short.source == toy.sentences(small, seed)
    assert short == long.select(first)
    assert toy.utterances(small, seed).segmented == toy.utterances(small + more, seed).segmented[:small]
    few, many = toy.documents(small, seed), toy.documents(small + more, seed)
    assert few.corpus == many.corpus.select(first)
    np.testing.assert_array_equal(few.labels, many.labels[:small])


def test_other_seed_other_draw() -> None:
    assert toy.sentences(50, seed=0) != toy.sentences(50, seed=1)
    assert toy.documents(50, seed=0).corpus != toy.documents(50, seed=1).corpus


@pytest.mark.parametrize("draw", [toy.sentences, toy.utterances, toy.bitext, toy.documents])
def test_wrong_arguments(draw: Callable[..., object]) -> None:
    with pytest.raises(InputError, match=r"expected a number of \w+ of 0 or more, got -1"):
        draw(-1)
    with pytest.raises(InputError, match="expected a seed of 0 or more, got -5"):
        draw(1, seed=-5)


def test_speed() -> None:
    begin = time.process_time()
    toy.sentences(100_000)
    toy.bitext(100_000)
    toy.utterances(100_000)
    assert time.process_time() - begin < 15  # about 3 s on an idle core


# Speech


def test_utterances_are_the_sentences_without_punctuation(corpus: Corpus) -> None:
    heard = toy.utterances(200, seed=3)
    said = [[toy.phonemes(word) for word in corpus.sentence(at)[:-1]] for at in range(200)]
    assert len(heard) == 200
    assert heard.segmented == [" ".join(words) for words in said]
    assert heard.unsegmented == ["".join(words) for words in said]
    assert isinstance(heard, Segmented)
    assert heard.phonemes is heard.symbols
    assert heard.ends is not None
    assert heard.ends.sum() == sum(map(len, said))
    assert heard.ends[heard.phonemes.offsets[1:] - 1].all()


def test_phonemes() -> None:
    spelled = {word: toy.phonemes(word) for word in toy.WORDS if word.isalpha()}
    assert all(spelled.values())
    assert len(set(spelled.values())) > 0.97 * len(spelled)  # few words sound alike
    assert spelled["ship"] == "Sip"
    assert spelled["teacher"] == "tiCer"
    assert spelled["summer"] == "sumer"


# Bitext


def test_links_are_the_translations() -> None:
    text = toy.bitext(SIZE, seed=3)
    assert isinstance(text, Bitext)
    assert text.links is not None
    assert text.links.sure.all()
    source, target, links = text.source, text.target, text.links.rows
    linked: dict[int, list[tuple[int, int]]] = {at: [] for at in range(2000)}
    for sentence, left, right in links[links[:, 0] < 2000].tolist():
        linked[sentence].append((left, right))
    for at in range(2000):
        theirs, ours = target.sentence(at), source.sentence(at)
        made: dict[int, list[str]] = {place: [] for place in range(len(ours))}
        for left, right in linked[at]:
            made[left].append(theirs[right])
        for place, words in made.items():
            assert tuple(words) in [option for _, option in toy.TRANSLATIONS[ours[place]]]
        unlinked = set(range(len(theirs))) - {right for _, right in linked[at]}
        assert {theirs[right] for right in unlinked} <= set(toy.PARTICLES)
        assert len({right for _, right in linked[at]}) == len(linked[at])


def test_translation_rates() -> None:
    text = toy.bitext(SIZE, seed=3)
    assert text.links is not None
    source, target, links = text.source, text.target, text.links.rows
    begin = source.offsets[links[:, 0]]
    fertility = np.bincount(begin + links[:, 1], minlength=source.tokens)
    the = fertility[source.words == toy.VOCAB.index["the"]]
    drop = toy.TRANSLATIONS["the"][0][0]
    assert stats.binomtest(int((the == 0).sum()), len(the), drop).pvalue > LEAST_P
    assert set(fertility.tolist()) == {0, 1, 2}
    particles = target.tokens - len(links)
    assert stats.binomtest(particles, len(links), toy.PARTICLE_RATE).pvalue > LEAST_P
    synonyms = next(options for options in toy.TRANSLATIONS.values() if len(options) == 2 and options[0][1])
    assert synonyms[0][0] + synonyms[1][0] == pytest.approx(1)


def test_target_order() -> None:
    text = toy.bitext(SIZE, seed=3)
    assert text.links is not None
    source, links = text.source, text.links.rows
    wanted = toy.TAGSET.encode(["DET", "ADJ", "NOUN", "AUX", "VERB", "DET", "NOUN", "PUNCT"]).tolist()
    at = next(at for at in range(SIZE) if source.tags[slice(*source.offsets[at : at + 2])].tolist() == wanted)
    rows = links[links[:, 0] == at]
    order = list(dict.fromkeys(rows[np.argsort(rows[:, 2]), 1].tolist()))
    dropped = set(range(8)) - set(order)
    assert order == [place for place in [0, 2, 1, 5, 6, 4, 3, 7] if place not in dropped]


def test_invented_words_are_distinct() -> None:
    assert len({invent(number) for number in range(4900)}) == 4900
    assert len(TARGET_VOCAB) > len(toy.WORDS)


# Documents


def test_documents_follow_their_topics() -> None:
    corpus, labels, topics = toy.documents(4000, seed=3)
    assert topics == tuple(toy.TOPICS)
    assert stats.chisquare(np.bincount(labels, minlength=8)).pvalue > LEAST_P
    probabilities = toy.topic_words()
    np.testing.assert_allclose(probabilities.sum(1), 1)
    label = np.repeat(labels, corpus.lengths)
    for topic in range(8):
        counts = np.bincount(corpus.words[label == topic], minlength=len(corpus.vocab))
        assert agrees(counts, probabilities[topic]) > LEAST_P
    guess = np.add.reduceat(np.log(np.maximum(probabilities, 1e-300))[:, corpus.words], corpus.offsets[:-1], axis=1)
    assert (guess.argmax(0) == labels).mean() > 0.98


def test_documents_as_bags() -> None:
    drawn = toy.documents(50, seed=3, topics=3)
    bags = drawn.bags
    assert isinstance(bags, Documents)
    assert bags.tokens == drawn.corpus.tokens
    assert bags.bag(7) == Counter(drawn.corpus.sentence(7))
    assert [bags.label(i) for i in range(50)] == [drawn.topics[label] for label in drawn.labels]


def test_topics_are_made_of_known_words() -> None:
    lemmas = {lemma for entry in toy.CLASSES.values() for lemma in entry.lemmas}
    for words in toy.TOPICS.values():
        assert set(words.split()) <= lemmas
        assert len(words.split()) == len(set(words.split()))


def test_fewer_topics() -> None:
    corpus, labels, topics = toy.documents(100, topics=2)
    assert topics == ("farm", "sea")
    assert set(labels.tolist()) == {0, 1}
    assert len(corpus) == 100
    with pytest.raises(InputError, match="expected 1 to 8 topics, got 9: the toy world has no more"):
        toy.documents(10, topics=9)

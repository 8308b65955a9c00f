"""Adaptor grammars: how patterns are read, what is refused, and how models are saved."""

from __future__ import annotations

import json
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pyro_unsup as pu
from pyro_unsup.errors import StructureError, UnsupError
from pyro_unsup.models import Adaptor
from pyro_unsup.models.adaptor_grammar import Item, Nested, read_pattern
from pyro_unsup.models.adaptor_presets import PRESETS
from pyro_unsup.results.building import build_model, describe_model

EVERY = {"symbol": np.ones(3, bool)}


def rebuilt(model: Adaptor) -> Adaptor:
    """The model as it comes out of a file."""
    said, tensors = describe_model(model)
    found: Adaptor = build_model(json.loads(json.dumps(said)), tensors, 0)
    return found


def written(nested: Nested) -> set[str]:
    """The rules by name."""
    return {
        f"{nested.names[parent]} -> {' '.join(nested.names[part] for part in parts if part >= 0)}"
        for parent, *parts in nested.rules
    }


def test_patterns() -> None:
    assert read_pattern("a", "b c? | d{0,2}e+") == [[Item("b"), Item("c", 0, 1)], [Item("d", 0, 2), Item("e", 1, None)]]


def test_rules_have_one_or_two_parts_and_parts_come_first() -> None:
    nested = Nested({"word": "stem ending{0,2} symbol", "stem": "symbol+"}, {"ending": "symbol"}, EVERY, ["word"])
    assert written(nested) == {
        "stem: symbol+ -> symbol",
        "stem: symbol+ -> symbol stem: symbol+",
        "stem -> stem: symbol+",
        "ending -> symbol",
        "word: ending symbol -> ending symbol",
        "word: ending ending symbol -> ending word: ending symbol",
        "word -> stem symbol",
        "word -> stem word: ending symbol",
        "word -> stem word: ending ending symbol",
        "sentence: word+ -> word",
        "sentence: word+ -> word sentence: word+",
    }
    for parent, left, right in nested.rules:
        assert left < parent
        assert right <= parent
    assert nested.adapted == ["stem", "word"]
    assert nested.rigid("stem")
    assert not nested.rigid("word")


def test_repetitions_in_two_units_are_learned_apart() -> None:
    nested = Nested({"a": "b+ c", "b": "symbol+", "c": "symbol+"}, {}, EVERY, ["b", "c"])
    assert {name for name in nested.names if name.endswith("symbol+")} == {"b: symbol+", "c: symbol+"}


@pytest.mark.parametrize("name", PRESETS)
def test_grammars_by_name(name: str) -> None:
    preset = PRESETS[name]
    model = Adaptor(list("abcde"), name, vowels="ae" if preset.vowels else None)
    assert set(model.adapted) == set(preset.levels)
    assert model.start == preset.start
    again = rebuilt(model)
    assert again.settings() == model.settings()
    assert again.nested.rules == model.nested.rules


def test_a_grammar_of_ones_own_is_built_again() -> None:
    model = Adaptor(
        list("abc"),
        {"word": "root tail?", "root": "hard+"},
        {"tail": "soft"},
        {"hard": "ab", "soft": ["c"]},
        max_length=5,
        discount=0.1,
        concentration=2.0,
        start="batch",
    )
    again = rebuilt(model)
    assert again.settings() == model.settings()
    assert (again.max_length, again.discount, again.concentration, again.start) == (5, 0.1, 2.0, "batch")
    assert repr(model) == "Adaptor(vocab=3, word > root)"


def test_words_that_depend_on_the_word_before_are_built_again() -> None:
    model = Adaptor(list("abc"), "words", order=2)
    again = rebuilt(model)
    assert again.settings() == model.settings()
    assert (again.order, again.discount, again.adapted) == (2, 0.0, ["word", "word_bigram"])
    assert repr(again) == "Adaptor(vocab=3, 'words', order=2)"
    assert Adaptor(list("abc"), "words", order=2, discount=0.2).discount == 0.2
    assert Adaptor(list("abc"), "words").discount == 0.5


@pytest.mark.parametrize(
    ("told", "match"),
    [
        ({"levels": "letters"}, "one of words, collocations, syllables, function-words; actual 'letters'"),
        ({"levels": "syllables"}, "'syllables' needs vowels="),
        ({"levels": "words", "vowels": "a"}, "'words' has no vowels: take 'syllables' or 'function-words', or leave"),
        ({"levels": "syllables", "vowels": "xyz"}, "vowels has no symbol of the vocabulary"),
        ({"levels": "syllables", "vowels": "abc"}, "leave some of them for consonants"),
        ({"levels": "words", "parts": {"x": "symbol"}}, "has its own parts and words"),
        ({"levels": {"word": "symbol+"}, "vowels": "a"}, "use classes="),
        ({"levels": {}}, "at least one level"),
        ({"levels": {"word": "symbol*"}}, r"has '\*' at character 7. Write names with \?, \+ or \{0,2\} behind"),
        ({"levels": {"word": "symbol |"}}, "an alternative with nothing in it"),
        ({"levels": {"word": "symbol?"}}, "allows a unit with nothing in it"),
        ({"levels": {"word": "symbol{2,1}"}}, "can never be there"),
        ({"levels": {"word": 3}}, "should be a text such as"),
        ({"levels": {"word": "letter+"}}, "the pattern of 'word' names 'letter', which is no level, part or class"),
        ({"levels": {"word": "stem", "stem": "word symbol"}}, r"'word' is a part of itself \(word > stem > word\)"),
        ({"levels": {"word": "symbol+", "stem": "symbol+"}}, "no pattern uses 'stem'"),
        ({"levels": {"word": "symbol+"}, "parts": {"word": "symbol"}}, "'word' stands for two things"),
        ({"levels": {"a b": "symbol+"}}, "called by letters, digits and _"),
        ({"levels": {"sentence": "symbol+"}}, "and not 'sentence'"),
        ({"levels": {"word": "vowel+"}, "classes": {"vowel": "xyz"}}, "the class 'vowel' has no symbol"),
        ({"levels": {"unit": "symbol+"}}, r"none is called 'word': say .* such as words=\['unit'\]"),
        ({"levels": {"group": "word+ symbol?", "word": "symbol+"}}, "under 'group' some symbols lie in 0 or 1"),
        ({"levels": {"group": "word+", "word": "symbol+"}, "words": ["group", "word"]}, "some symbols lie in 2"),
        ({"levels": {"word": " ".join(["symbol?"] * 8 + ["symbol{1,60}"])}}, "at most 64 are allowed"),
        ({"levels": "words", "max_length": 0}, "max_length must be a whole number"),
        ({"levels": "words", "discount": 1.0}, "discount must lie from 0 to below 1"),
        ({"levels": "words", "discount": "a"}, "discount must lie from 0 to below 1, actual 'a'"),
        ({"levels": "words", "concentration": 0.0}, "concentration must be positive"),
        ({"levels": "words", "concentration": "a"}, "concentration must be positive and finite, actual 'a'"),
        ({"levels": "words", "max_length": "a"}, "max_length must be a whole number, 1 or more, or None; actual 'a'"),
        ({"levels": "words", "order": "a"}, "order must be 1, or 2: each word depends on that before; actual 'a'"),
        ({"levels": "words", "start": "cold"}, "start must be 'batch' or 'incremental'"),
        ({"levels": "words", "order": 3}, "order must be 1, or 2: each word depends on that before; actual 3"),
        ({"levels": "words", "order": True}, "order must be 1, or 2"),
        ({"order": 2}, "the levels here are collocation > word.*Take levels='words', or order=1"),
        ({"levels": {"word": "symbol symbol+"}, "order": 2}, "one level of words that are spelled symbol by symbol"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*not in the vocabulary")
def test_refused(told: dict[str, Any], match: str) -> None:
    with pytest.raises(StructureError, match=match):
        Adaptor(list("abc"), **told)


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ({"levels": "syllables", "vowels": "axey"}, "vowels"),
        ({"levels": {"word": "vowel+ | symbol"}, "classes": {"vowel": "axey"}}, "the class 'vowel'"),
    ],
)
def test_symbols_that_are_not_in_the_vocabulary_are_named(told: dict[str, Any], name: str) -> None:
    with pytest.warns(UserWarning, match=f"{name} has symbols that are not in the vocabulary: 'x', 'y'$") as said:
        model = Adaptor(list("abcde"), **told)
    assert said[0].filename == __file__
    assert model.nested.classes["vowel"].tolist() == [True, False, False, False, True]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        assert rebuilt(model).settings() == model.settings()


def test_the_command_knows_the_grammars() -> None:
    from pyro_unsup.tasks.adaptor import NAMES, WITH_VOWELS, AdaptorTask

    assert tuple(PRESETS) == NAMES
    assert tuple(name for name, one in PRESETS.items() if one.vowels) == WITH_VOWELS
    usual, most = AdaptorTask.sweeps, PRESETS["function-words"].sweeps
    assert {preset.sweeps for name, preset in PRESETS.items() if name != "function-words"} == {usual}
    assert AdaptorTask.sweeps_shown == f"{usual}, with --grammar function-words {most}"


def test_the_command_knows_which_concentrations_are_sampled() -> None:
    from pyro_unsup.models.gibbs_adaptor import LEAST, MOST
    from pyro_unsup.tasks.adaptor import SAMPLED, AdaptorTask

    assert (LEAST, MOST) == SAMPLED
    names = ("symbol_separator", "level", "part", "symbol_class", "words", "vowels", "grammar", "discount", "symbols")
    given = SimpleNamespace(**dict.fromkeys(names), order=1, fixed=True, concentration=1e-13)
    AdaptorTask().check(given)  # type: ignore[arg-type]
    given.fixed = False
    with pytest.raises(UnsupError, match=r"starts between 1e-12 and 1e\+20.* actual 1e-13: .* give --fixed too"):
        AdaptorTask().check(given)  # type: ignore[arg-type]


def test_symbols_may_be_listed() -> None:
    """As a vocabulary would have them, also in a model that was saved."""
    lines, found = ["abc", "ab", "cab"], []
    for vocab in (list("abc"), tuple("abc"), pu.data.Vocab(["a", "b", "c"])):
        model = Adaptor(vocab, "words")
        for one in (model, rebuilt(model)):
            found += [one.index(lines).words.tolist(), one.index([list(line) for line in lines]).words.tolist()]
    assert found == [[0, 1, 2, 0, 1, 2, 0, 1]] * 12
    pairs = Adaptor(["th", "e"], "words").index([["th", "e"], ["e"]])
    assert (pairs.words.tolist(), pairs.lengths.tolist()) == ([0, 1, 1], [2, 1])
    with pytest.raises(StructureError, match=r"does not list: 'd', 'x'; expected those of 'a', 'b', 'c'\. List all"):
        Adaptor(list("abc"), "words").index(["abc", "badxd"])


@pytest.mark.parametrize(
    ("vocab", "match"),
    [
        ("abc", r"how many .*, a vocabulary, or a list of symbols; actual one text, 'abc'\. .* write list\('abc'\)"),
        (3.5, r"or a list of symbols; actual 3\.5\. Give one of these"),
        (list("abca"), r"list every symbol once; actual 'a' more than once\. Leave the others out"),
    ],
)
def test_symbols_that_are_refused(vocab: Any, match: str) -> None:
    with pytest.raises(StructureError, match=match):
        Adaptor(vocab, "words")


def test_long_lines_of_many_symbols() -> None:
    """Weights are scaled by the rarity of symbols: a unit of 300 rare ones would be beyond the range of numbers."""
    rng = np.random.default_rng(0)
    lines = ["".join(chr(0x4E00 + k) for k in rng.integers(0, 2000, n)) for n in (300, 20, 8)]
    vocab = pu.data.Vocab(sorted(set("".join(lines))))
    with pytest.raises(pu.StructureError, match=r"a unit may have 300 symbols here.*give max_length, 30 or so"):
        pu.CollapsedGibbs(pu.models.Adaptor(vocab, "words")).run(lines, sweeps=2, progress=False)
    model = pu.models.Adaptor(vocab, "words", max_length=12)
    samples = pu.CollapsedGibbs(model).run(lines, sweeps=4, progress=False)
    assert np.isfinite(samples.log_joint).all()
    assert samples.predict("last").sum() >= 3


def test_units_whose_probabilities_vanish_are_refused() -> None:
    rng = np.random.default_rng(0)
    text = ["".join(rng.choice(list("abcdefghij"), 300)) for _ in range(3)]
    model = Adaptor(pu.data.Vocab(list("abcdefghij")), "collocations", discount=0.0)
    with pytest.raises(
        pu.FitError, match=r"below the least number that there is; lines have up to 300 symbols here: give"
    ):
        pu.CollapsedGibbs(model).run(text, sweeps=5, seed=0, progress=False)
    short = Adaptor(pu.data.Vocab(list("abcdefghij")), "collocations", discount=0.0, max_length=30)
    assert pu.CollapsedGibbs(short).run(text, sweeps=2, seed=0, progress=False).labels.any()

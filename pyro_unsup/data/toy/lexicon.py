"""The words of the toy world: classes of words, their tags, and how likely each word is in its class.

A class is what the grammar needs (``noun.sg``, ``verb.t.past``); a tag is what a tagger may learn (``NOUN``, ``VERB``).
Some words live in several classes, and a few in several tags: *walk* is a noun and a verb, *her* a determiner and a
pronoun, *that* a determiner, a pronoun and a complementiser. Nouns and adjectives begin with a consonant sound, so *a*
is always right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# Written as ``form``, or ``singular/plural`` and ``base/past`` where the ending is not regular. Commonest first.
NOUNS = """
man/men woman/women child/children friend day house dog town night door road letter hand story/stories boy girl cat
window garden river room mother father brother sister stranger picture name game dream walk talk plan visit smile look
call light sound step corner secret gift box/boxes question problem reason work play love hope fear rest saw ride help
need watch/watches run fall will can count farmer ship teacher soldier song kitchen cloud market field sailor school
king singer cook wind merchant horse boat book castle band soup star coin cow captain lesson sword drum table moon
price barn wave class/classes battle violin knife/knives sky/skies shop sheep/sheep harbour pupil guard piano plate
storm customer goat fish/fish desk fight tune pan mountain bank hen net page wall choir spoon valley trade seed
beach/beaches library/libraries tower concert bowl hill debt tractor sail pencil knight dance recipe season bill fence
whale test gun guitar cake winter store harvest pirate word queen trumpet pie summer basket pig rope mistake shield
note cheese snow penny/pennies meadow deck number plant hunt tent stage potato/potatoes rain seller shepherd port
professor general voice baker sun buyer
"""
INTRANSITIVE = """
sleep/slept come/came walk laugh run/ran work wait smile talk go/went play sing/sang dance cry/cried fall/fell dream
rest fight/fought swim/swam sail arrive travel/travelled ride/rode hide/hid wander listen fish cook shine/shone bark
vanish melt drift march trade
"""
TRANSITIVE = """
see/saw find/found love take/took want watch make/made hear/heard follow help hold/held carry/carried know/knew
leave/left call need like visit open buy/bought build/built catch/caught read/read lose/lost paint close clean guard
pull push break/broke steal/stole cook play sing/sang study/studied hunt plant plan/planned count feed/fed attack
ride/rode hide/hid kiss burn taste boil bake test name
"""
DITRANSITIVE = "give/gave send/sent show tell/told bring/brought sell/sold teach/taught offer lend/lent hand"
LINKING = "seem become/became look feel/felt remain sound turn stay/stayed grow/grew"
CLAUSAL = "say/said think/thought know/knew hope believe hear/heard dream see/saw claim fear forget/forgot learn"
ADJECTIVES = """
good big little young poor new happy dark cold strong long red quiet green white tired sad lost rich blue black warm
bright hard clean light left short tall brave fast loved hungry wild strange sweet painted deep busy closed heavy
pretty wet dry sharp soft loud proud lazy gentle fresh clever still cheap salty ripe golden muddy wooden sunny windy
stormy royal frozen careful costly general
"""


def plural(noun: str) -> str:
    return noun + "s"


def past(verb: str) -> str:
    return verb + ("d" if verb.endswith("e") else "ed")


@dataclass(frozen=True)
class WordClass:
    """The words of one class, the commonest first.

    :param tag: the gold tag of the class.
    :param words: surface forms.
    :param lemmas: the dictionary form of each word.
    :param shift: the probability of the word of rank r = 1, 2, ... goes with 1 / (r + shift). Zipf's law is shift 0;
        open classes are flatter, so that no single noun takes a fifth of all nouns.

    >>> from pyro_unsup.data.toy import CLASSES
    >>> CLASSES["noun.pl"].words[:2], CLASSES["noun.pl"].lemmas[:2], round(sum(CLASSES["noun.pl"].probabilities), 6)
    (('men', 'women'), ('man', 'woman'), 1.0)
    """

    tag: str
    words: tuple[str, ...]
    lemmas: tuple[str, ...]
    shift: float

    @property
    def probabilities(self) -> tuple[float, ...]:
        """Of the words, in their order."""
        weights = [1.0 / (rank + self.shift) for rank in range(1, len(self.words) + 1)]
        return tuple(weight / sum(weights) for weight in weights)


OPEN_SHIFT = 4.0


def _closed(tag: str, words: str) -> WordClass:
    return WordClass(tag, tuple(words.split()), tuple(words.split()), 0.0)


def _open(tag: str, words: str) -> WordClass:
    return WordClass(tag, tuple(words.split()), tuple(words.split()), OPEN_SHIFT)


def _inflected(name: str, tag: str, entries: str, endings: tuple[str, str]) -> Iterator[tuple[str, WordClass]]:
    """The two classes of a word with two forms, such as noun.sg and noun.pl."""
    rule = plural if tag == "NOUN" else past
    pairs = [(form, other or rule(form)) for form, _, other in (entry.partition("/") for entry in entries.split())]
    lemmas = tuple(form for form, _ in pairs)
    for ending, forms in zip(endings, zip(*pairs, strict=True), strict=True):
        yield f"{name}.{ending}", WordClass(tag, forms, lemmas, OPEN_SHIFT)


#: Every word class by name, in a fixed order.
CLASSES: dict[str, WordClass] = {
    "det.sg": _closed("DET", "the a his this her my that every their our your each another"),
    "det.pl": _closed("DET", "the some his many her these my their those all our few your several both"),
    **dict(_inflected("noun", "NOUN", NOUNS, ("sg", "pl"))),
    "name": _open(
        "PROPN",
        "Anna Peter Maria Tom Clara John Ruth Oscar Nora Simon Lucy Paul Emma Karl Rosa Hugo Ida Max Grace Mark Helen "
        "Victor Rose Frank London Paris Rome Dublin",
    ),
    "pron.subj": _closed("PRON", "he she they it this we that you some I all someone both nobody"),
    "pron.obj": _closed("PRON", "him her it them this me that us some you all something both nothing"),
    **dict(_inflected("verb.i", "VERB", INTRANSITIVE, ("base", "past"))),
    **dict(_inflected("verb.t", "VERB", TRANSITIVE, ("base", "past"))),
    **dict(_inflected("verb.d", "VERB", DITRANSITIVE, ("base", "past"))),
    **dict(_inflected("verb.l", "VERB", LINKING, ("base", "past"))),
    **dict(_inflected("verb.s", "VERB", CLAUSAL, ("base", "past"))),
    "aux": _closed("AUX", "will can would could did must should may might"),
    "adj": _open("ADJ", ADJECTIVES),
    "adv.frame": _open("ADV", "then now today yesterday sometimes perhaps suddenly finally once tomorrow"),
    "adv.early": _open("ADV", "never always often soon only still already almost quickly slowly quietly suddenly"),
    "adv.late": _open(
        "ADV",
        "again in slowly up on well near away over here behind quickly together there quietly hard alone "
        "fast outside early late happily loudly carefully badly gently sadly down under",
    ),
    "adv.degree": _closed("ADV", "very so too quite really rather pretty"),
    "adp": _closed(
        "ADP", "in on with to near at from for by under behind over after through before beside like without up"
    ),
    "adp.of": _closed("ADP", "of"),
    "conj": _closed("CONJ", "and or but"),
    "comp.that": _closed("COMP", "that"),
    "comp.rel": _closed("COMP", "who that which"),
    "comp.sub": _closed("COMP", "because when if while after before until although since"),
    "stop": _closed("PUNCT", ". !"),
    "ask": _closed("PUNCT", "?"),
}

#: The tag set, in order of first use.
TAGS: tuple[str, ...] = tuple(dict.fromkeys(entry.tag for entry in CLASSES.values()))

#: Every word form once, in order of first use: the vocabulary of all toy corpora, whatever their size.
WORDS: tuple[str, ...] = tuple(dict.fromkeys(word for entry in CLASSES.values() for word in entry.words))


def tag_dictionary() -> dict[str, tuple[str, ...]]:
    """The true tags of every word.

    >>> from pyro_unsup.data.toy import tag_dictionary
    >>> tag_dictionary()["walk"], tag_dictionary()["that"]
    (('NOUN', 'VERB'), ('DET', 'PRON', 'COMP'))
    """
    found: dict[str, dict[str, None]] = {word: {} for word in WORDS}
    for entry in CLASSES.values():
        for word in entry.words:
            found[word][entry.tag] = None
    return {word: tuple(tags) for word, tags in found.items()}

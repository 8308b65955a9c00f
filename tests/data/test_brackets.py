"""Penn brackets: what is read, what is refused, and agreement with nltk on the real sample."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from pyro_unsup.data import Limits, Vocab, read_brackets, short_tag_sequences
from pyro_unsup.data.brackets import plain_tag
from pyro_unsup.errors import InputError

TEXT = """\
( (S (NP-SBJ-1 (DT The) (NN-TMP dog) )
     (VP (VBD was) (VP (VBN seen) (NP (-NONE- *-1) )))
     (. .) ))
(X (NP (NN Yes))) (NN no)
"""


def put(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "text.mrg"
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path, **options: object) -> str:
    with pytest.raises(InputError) as error:
        read_brackets(path, **options)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{path}:")


def test_words_tags_and_brackets(tmp_path: Path) -> None:
    corpus = read_brackets(put(tmp_path, TEXT))
    assert [corpus.sentence(i) for i in range(3)] == [["The", "dog", "was", "seen", "."], ["Yes"], ["no"]]
    assert [corpus.sentence_tags(i) for i in range(3)] == [["DT", "NN", "VBD", "VBN", "."], ["NN"], ["NN"]]
    assert corpus.spans is not None
    assert corpus.spans.tolist() == [[0, 2], [0, 5], [2, 4]]
    assert corpus.span_offsets is not None
    assert corpus.span_offsets.tolist() == [0, 3, 3, 3]
    assert corpus.heads is None


def test_a_tree_of_traces_is_no_sentence(tmp_path: Path) -> None:
    assert len(read_brackets(put(tmp_path, "(S (-NONE- *)) (NN word)"))) == 1
    assert refused(put(tmp_path, "(S (-NONE- *))")) == " no sentence in it, expected at least one"


@pytest.mark.parametrize(
    ("tag", "plain"),
    [("NN", "NN"), ("NP-SBJ-1", "NP"), ("NP=2", "NP"), ("-LRB-", "-LRB-"), ("PRP$", "PRP$"), ("=", "="), ("$", "$")],
)
def test_function_tags_go(tag: str, plain: str) -> None:
    assert plain_tag(tag) == plain


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(NN a)\n(S (NN b)\n(NN c)", "2: this bracket is still open at the end of the file; add )"),
        ("(S (NP (NN b)", "1: this bracket and 1 in it are still open at the end of the file; add )"),
        ("(NN a)\n)", "2: a ) without its ("),
        ("(NN a)\nword", "2: 'word' outside of any bracket, expected ("),
        ("(NN\na b)", "2: 'b' inside the bracket 'NN', expected one word or brackets, not both"),
        ("(NP (NN a) b)", "1: 'b' inside the bracket 'NP', expected one word or brackets, not both"),
        ("( (NN a) b)", "1: 'b' inside a bracket without a label, expected one word or brackets, not both"),
        ("(NN a (NN b))", "1: a bracket after the word of the bracket 'NN'; expected )"),
        ("(S ())", "1: a bracket without a label is empty, expected a word or brackets in it"),
        ("(S (NN))", "1: the bracket 'NN' is empty, expected a word or brackets in it"),
        (" \n\n", " no sentence in it, expected at least one"),
        ("(" * 10_001, "1: more than 10,000 open brackets; is a ) missing?"),
        ("(S" + " (N w)" * 100_001 + ")", "1: a sentence of more than 100,000 words; is a sentence break missing?"),
    ],
)
def test_refusals_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    assert refused(put(tmp_path, text)).startswith(message)


def test_deep_trees_need_no_recursion(tmp_path: Path) -> None:
    deep = 5000
    text = "".join(f"(S (N w{i}) " for i in range(deep)) + "(N last)" + ")" * deep
    corpus = read_brackets(put(tmp_path, text))
    assert corpus.tokens == deep + 1
    assert corpus.spans is not None
    assert len(corpus.spans) == deep


def test_options(tmp_path: Path) -> None:
    path = put(tmp_path, TEXT)
    assert read_brackets(path, lowercase=True).sentence(1) == ["yes"]
    assert refused(path, tagset=Vocab(["DT", "NN"])).startswith("2: the tag 'VBD' is not in the given set of 2")
    assert refused(path, limits=Limits(max_sentence=4)).startswith("3: a sentence of more than 4 words")


def nltk_spans(tree: Any, start: int, spans: set[tuple[int, int]], leaves: list[tuple[str, str]]) -> int:
    if len(tree) == 1 and isinstance(tree[0], str):
        if tree.label() == "-NONE-":
            return start
        leaves.append((tree[0], tree.label()))
        return start + 1
    end = start
    for child in tree:
        end = nltk_spans(child, end, spans, leaves)
    if end - start > 1:
        spans.add((start, end))
    return end


def test_agrees_with_nltk(real_data: Path) -> None:
    tree = pytest.importorskip("nltk.tree")
    path = real_data / "wsj_nltk.mrg.xz"
    corpus = read_brackets(path)
    assert repr(corpus) == "Corpus(3,914 sentences, 94,084 tokens, 11,968 types, 45 tags, brackets)"
    assert corpus.spans is not None
    assert corpus.span_offsets is not None
    with lzma.open(path, "rt", encoding="utf-8") as stream:
        for i, line in enumerate(stream):
            spans: set[tuple[int, int]] = set()
            leaves: list[tuple[str, str]] = []
            nltk_spans(tree.Tree.fromstring(line, remove_empty_top_bracketing=True), 0, spans, leaves)
            assert list(zip(corpus.sentence(i), corpus.sentence_tags(i), strict=True)) == leaves
            start, end = corpus.span_offsets[i : i + 2]
            assert corpus.spans[start:end].tolist() == [list(span) for span in sorted(spans)]


def test_the_same_words_as_the_dependency_version(real_data: Path) -> None:
    from pyro_unsup.data import read_conllu

    brackets, heads = read_brackets(real_data / "wsj_nltk.mrg.xz"), read_conllu(real_data / "wsj_nltk_dep.conll.xz")
    assert (brackets.words == heads.words).all()
    assert brackets.vocab == heads.vocab
    assert (brackets.offsets == heads.offsets).all()


def test_short_tag_sequences(tmp_path: Path) -> None:
    short = short_tag_sequences(read_brackets(put(tmp_path, TEXT)), max_length=4)
    assert [short.sentence(i) for i in range(3)] == [["DT", "NN", "VBD", "VBN"], ["NN"], ["NN"]]
    assert short.vocab.types == ("DT", "NN", "VBD", "VBN")
    assert short.spans is not None
    assert short.spans.tolist() == [[0, 2], [0, 4], [2, 4]]
    assert len(short_tag_sequences(read_brackets(put(tmp_path, TEXT)), max_length=4, drop=())) == 2


def test_short_tag_sequences_of_the_wall_street_journal(real_data: Path) -> None:
    corpus = read_brackets(real_data / "wsj_nltk.mrg.xz")
    assert len(short_tag_sequences(corpus, max_length=20)) == 2036
    short = short_tag_sequences(corpus)
    assert (len(short), short.tokens, len(short.vocab)) == (555, 3856, 32)
    assert short.spans is not None
    assert short.span_offsets is not None
    for i in range(len(short)):
        spans = short.spans[short.span_offsets[i] : short.span_offsets[i + 1]].tolist()
        assert spans == sorted(map(list, set(map(tuple, spans))))
        assert short.lengths[i] == 1 or [0, short.lengths[i]] in spans  # the whole sentence stays a bracket


def test_labels_of_brackets(tmp_path: Path) -> None:
    """Without function tags; of a unary chain the highest; of brackets that become one, the widest."""
    text = "( (S (NP-SBJ (DT The) (NN dog)) (VP-X (VP (VBD saw) (NP=2 (PRP it)))) (. .)) )\n((NN yes) (NN no))\n"
    corpus = read_brackets(put(tmp_path, text), labels=True)
    assert corpus.spans is not None
    assert corpus.span_labels is not None
    assert corpus.span_labelset is not None

    def named(one: Any) -> list[tuple[int, int, str]]:
        names = one.span_labelset.decode(one.span_labels)
        return [(i, j, name) for (i, j), name in zip(one.spans.tolist(), names, strict=True)]

    assert named(corpus) == [(0, 2, "NP"), (0, 5, "S"), (2, 4, "VP"), (0, 2, "X")]
    assert named(corpus.select([1, 0])) == [(0, 2, "X"), (0, 2, "NP"), (0, 5, "S"), (2, 4, "VP")]
    assert named(corpus.drop_tags("VBD", "PRP", ".")) == [(0, 2, "S"), (0, 2, "X")]
    corpus.save(tmp_path / "saved")
    assert type(corpus).open(tmp_path / "saved") == corpus
    assert read_brackets(tmp_path / "text.mrg").span_labels is None


def test_folders_of_earlier_versions_have_no_labels(tmp_path: Path) -> None:
    corpus = read_brackets(put(tmp_path, TEXT))
    corpus.save(tmp_path / "saved")
    head = tmp_path / "saved" / "corpus.json"
    plain = json.loads(head.read_text())
    assert plain.pop("span_labelset", 0) is None
    head.write_text(json.dumps(plain))
    assert type(corpus).open(tmp_path / "saved") == corpus

"""Tagged sentences and trees of nltk, in and out."""

from __future__ import annotations

import nltk
import pytest

import pyro_unsup as pu

interop = pu.interop.nltk


def test_tagged_there_and_back(corpus: pu.data.Corpus) -> None:
    tagged = interop.to_tagged(corpus)
    assert tagged[0] == list(zip(corpus.sentence(0), corpus.sentence_tags(0), strict=True))
    assert interop.to_tagged(interop.from_tagged(tagged)) == tagged


def test_tags_of_a_fit(corpus: pu.data.Corpus, tagger: pu.Fit) -> None:
    found = [tag for sentence in interop.to_tagged(corpus, tagger) for _, tag in sentence]
    assert found == [str(int(tag)) for tag in tagger.predict(corpus)]


def test_trees_there_and_back(corpus: pu.data.Corpus) -> None:
    trees = interop.to_trees(corpus)
    back = interop.from_trees(trees)
    assert interop.to_trees(back) == trees
    whole = {(i, 0, n) for i, n in enumerate(corpus.lengths) if n > 1}  # a tree has a bracket around it
    rows = {tuple(row) for row in pu.data.bracket_rows(corpus).tolist()}
    assert {tuple(row) for row in pu.data.bracket_rows(back).tolist()} == rows | whole


def test_trees_of_a_fit(corpus: pu.data.Corpus, ccm: pu.Fit) -> None:
    tags = corpus.tags_as_words()
    trees = interop.to_trees(tags, ccm, text=corpus)
    assert [tree.leaves() for tree in trees] == [corpus.sentence(i) for i in range(len(corpus))]
    inner = sum(len(list(tree.subtrees(lambda t: t.height() > 2))) for tree in trees)
    assert inner == sum(n - 1 for n in corpus.lengths if n > 1) + sum(n == 1 for n in corpus.lengths)  # binary


def test_as_the_reader_reads(tmp_path: object) -> None:
    text = "( (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks) (NP (-NONE- *T*)))) )"
    corpus = interop.from_trees([nltk.Tree.fromstring(text)])
    file = tmp_path / "one.mrg"  # type: ignore[operator]
    file.write_text(text)
    assert corpus == pu.data.read(file)


def test_deep_trees_and_bare_leaves() -> None:
    tree = nltk.Tree("X", ["the", "end"])
    for _ in range(4_999):
        tree = nltk.Tree("X", [tree, "a"])
    corpus = interop.from_trees([tree])
    assert corpus.tokens == 5_001
    assert corpus.tags is None


def test_what_is_refused(corpus: pu.data.Corpus, tagger: pu.Fit) -> None:
    with pytest.raises(pu.InputError, match=r"sentence 1 should be a list of \(word, tag\) pairs"):
        interop.from_tagged([["the", "dog"]])
    with pytest.raises(pu.InputError, match=r"tree 1 should be an nltk\.Tree, actual 'the dog'"):
        interop.from_trees(["the dog"])
    with pytest.raises(pu.InputError, match="tree 1 has 2 words and 1 tags; tag all of its words or none"):
        interop.from_trees([nltk.Tree("S", [nltk.Tree("DT", ["the"]), "dog"])])
    with pytest.raises(
        pu.UnsupError, match="the model finds no constituents; expected the fit of a CCM, DMVCCM or PCFG"
    ):
        interop.to_trees(corpus, tagger)
    plain = pu.data.Corpus.of(["the dog"])
    with pytest.raises(pu.InputError, match="the text has no tags; give the fit of a tagger"):
        interop.to_tagged(plain)
    with pytest.raises(pu.UnsupError, match="the text has no brackets; give the fit of a CCM, DMVCCM or PCFG"):
        interop.to_trees(plain)


def test_labelled_trees_of_a_fit(corpus: pu.data.Corpus) -> None:
    tags = corpus.tags_as_words()
    model = pu.models.PCFG.of(tags, 2, 3)
    fit = pu.EM(model, init=model.split_start(tags)).run(tags, iterations=2, progress=False)
    frame = fit.to_frame(tags)
    for i, tree in enumerate(interop.to_trees(tags, fit, text=corpus)):
        assert tree.leaves() == corpus.sentence(i)
        nodes = [node.label() for node in tree.subtrees(lambda node: len(node) > 1)]
        assert sorted(nodes) == sorted(frame["label"][frame["sentence"] == i])

"""Documents of spaCy hold what the text, or a fit, knows; and come back as they went."""

from __future__ import annotations

import numpy as np
import pytest

import pyro_unsup as pu

pytest.importorskip("spacy")
from spacy.displacy import render
from spacy.tokens import Doc
from spacy.vocab import Vocab

to_docs, from_docs, displacy = (getattr(pu.interop.spacy, name) for name in ("to_docs", "from_docs", "displacy"))


def test_there_and_back(corpus: pu.data.Corpus) -> None:
    back = from_docs(to_docs(corpus), tag="tag", vocab=corpus.vocab, tagset=corpus.tagset)
    for name in ("words", "offsets", "tags", "heads"):
        np.testing.assert_array_equal(getattr(back, name), getattr(corpus, name))


def test_brackets_are_spans(corpus: pu.data.Corpus) -> None:
    doc = to_docs(corpus)[2]
    a, b = corpus.span_offsets[2:4]
    assert [[span.start, span.end] for span in doc.spans["constituents"]] == corpus.spans[a:b].tolist()


def test_tags_of_a_fit(corpus: pu.data.Corpus, tagger: pu.Fit) -> None:
    docs, (tags, marginals) = to_docs(corpus, tagger), tagger.predict(corpus, probabilities=True)
    assert [token.tag_ for doc in docs for token in doc] == [str(int(tag)) for tag in tags]
    found = [one for doc in docs for one in doc.user_data["probabilities"]]
    np.testing.assert_allclose(found, marginals.gather(1, tags[:, None])[:, 0].numpy(), atol=1e-12)
    assert not docs[0].has_annotation("DEP")  # the gold heads are not the tagger's


def test_heads_of_a_fit_over_words(corpus: pu.data.Corpus, dmv: pu.Fit) -> None:
    tags = corpus.tags_as_words()
    docs, heads = to_docs(tags, dmv, text=corpus), dmv.predict(tags).tolist()
    assert [doc.text.split() for doc in docs] == [corpus.sentence(i) for i in range(len(corpus))]
    found = [0 if token.head.i == token.i else token.head.i + 1 for doc in docs for token in doc]
    assert found == heads
    assert docs[0][0].tag_ == corpus.sentence_tags(0)[0]


def test_constituents_of_a_fit(corpus: pu.data.Corpus, ccm: pu.Fit) -> None:
    tags = corpus.tags_as_words()
    doc, frame = to_docs(tags, ccm, text=corpus)[1], ccm.to_frame(tags)
    rows = frame[frame["sentence"] == 1]
    expected = sorted(zip(rows["first"] - 1, rows["last"], strict=True))
    assert [(span.start, span.end) for span in doc.spans["constituents"]] == expected


def test_sentences_of_a_document_and_white_space() -> None:
    words = ["dogs", "\n", "bark", "cats", "sleep"]
    doc = Doc(Vocab(), words=words, heads=[1, 2, 2, 4, 4], deps=["nsubj", "dep", "ROOT", "nsubj", "ROOT"],
              pos=["NOUN", "SPACE", "VERB", "NOUN", "VERB"])  # fmt: skip
    corpus = from_docs([doc])
    assert [corpus.sentence(i) for i in range(len(corpus))] == [["dogs", "bark"], ["cats", "sleep"]]
    assert corpus.heads.tolist() == [2, 0, 2, 0]  # the head of dogs was white space, whose head is bark
    assert corpus.sentence_tags(0) == ["NOUN", "VERB"]


def test_displacy_draws_it(corpus: pu.data.Corpus, dmv: pu.Fit) -> None:
    tags = corpus.tags_as_words()
    found = displacy(tags, dmv, sentence=3, text=corpus)
    heads = dmv.predict(tags.select([3])).tolist()
    assert len(found["arcs"]) == sum(head > 0 for head in heads)
    for arc in found["arcs"]:
        child, head = (arc["start"], arc["end"]) if arc["dir"] == "left" else (arc["end"], arc["start"])
        assert heads[child] == head + 1
    svg = render(found, style="dep", manual=True, jupyter=False)
    assert svg.count("displacy-arrow") >= len(found["arcs"])
    assert all(word["text"] in svg for word in found["words"])


def test_what_is_refused(corpus: pu.data.Corpus, tagger: pu.Fit) -> None:
    with pytest.raises(pu.InputError, match="no sentence 40: the text has 40, numbered from 0"):
        displacy(corpus, sentence=40)
    with pytest.raises(pu.InputError, match="expected the same sentences"):
        to_docs(corpus, tagger, text=corpus.select([0]))
    with pytest.raises(pu.InputError, match="tag must be 'pos' or 'tag', actual 'upos'"):
        from_docs([], tag="upos")
    documents = pu.data.toy.documents(20, seed=1).bags
    clusters = pu.EM(pu.models.Clusterer(2, documents.vocab)).run(documents, iterations=1, progress=False)
    with pytest.raises(
        pu.UnsupError, match="expected a model that finds tags, heads or constituents, actual Clusterer"
    ):
        to_docs(documents, clusters)

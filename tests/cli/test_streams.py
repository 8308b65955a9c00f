"""Learning from standard input as it comes: by pipes that stay open, broken off and gone on with."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import blocks, read_bitext, read_documents, read_lines, read_segmented
from pyro_unsup.data.streams import each_line

from .conftest import Run, contents
from .test_bad_input import refusal
from .test_processes import PATIENCE, started

STEPS = ("--stepwise", "--power", 0.8, "--batch-size", 7)


@pytest.fixture(scope="session")
def texts(world: Path, zoo: Path) -> dict[str, list[str]]:
    files = {
        "tagger": world / "plain.txt",
        "clusterer": zoo / "documents.txt",
        "segmenter": zoo / "lines.txt",
        "aligner": zoo / "pairs.txt",
    }
    return {kind: file.read_text().splitlines(keepends=True) for kind, file in files.items()}


#: Options of each kind, and what it reads a block with, by a model.
KINDS: dict[str, tuple[tuple[object, ...], Callable[[Any, Any], Any]]] = {
    "tagger": (("--tags", 4), lambda block, model: read_lines(block, vocab=model.vocab)),
    "clusterer": (
        ("--clusters", 3, "--drop-frequent", 4, "--min-count", 2, "--smooth", 0.1),
        lambda block, model: read_documents(block, "labelled", vocab=model.vocab),
    ),
    "segmenter": (("--max-length", 6), lambda block, model: read_segmented(block, vocab=model.vocab)),
    "aligner": ((), lambda block, model: read_bitext(block, source_vocab=model.source, target_vocab=model.target)),
}


def engine_of(kind: str, known: Path) -> pu.StepwiseEM:
    """As the command line should make it."""
    estimate, start = (pu.AddLambda(0.1), pu.init.noise(1e-3)) if kind == "clusterer" else (None, None)
    if kind == "tagger":
        model: Any = pu.models.Tagger(4, read_lines(known, unknown="<unk>").vocab)
    elif kind == "clusterer":
        model = pu.models.Clusterer(3, read_documents(known).drop_frequent(4).drop_rare(2).vocab)
    elif kind == "segmenter":
        model = pu.models.Segmenter.of(read_segmented(known), max_length=6)
        segments = torch.zeros(len(model.types) + 1)
        segments[-1] = -torch.inf
        start = pu.init.from_weights({"segments": segments.log_softmax(-1), "stop": torch.full((2,), 0.5).log()})
    else:
        model, start = pu.models.Aligner.of(read_bitext(known, unknown="<unk>")), pu.init.uniform()
    return pu.StepwiseEM(model, estimate, start, power=0.8)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_is_learned_from_as_the_library_does(
    tmp_path: Path, run: Run, texts: dict[str, list[str]], kind: str
) -> None:
    """By the words of the first lines, which are not all; and again by those that the model has."""
    known = tmp_path / "known.txt"
    known.write_text("".join(texts[kind][:25]))
    options, read = KINDS[kind]
    text = "".join(texts[kind])
    fit = ("fit", kind, "-", *options, *STEPS, "--seed", 2)
    result = run(*fit, "--vocab-from", known, "--out", tmp_path / "m", stdin=text)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert "mini-batch 2, line 14: log-likelihood " in result.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == ["known.txt", "m"]
    engine, lines = engine_of(kind, known), enumerate(text.splitlines(), 1)
    expected = engine.run_stream(
        (read(block, engine.model) for block in blocks("-", 7, each_line, lines)), seed=2, progress=False
    )
    found = pu.load(tmp_path / "m")
    assert all(torch.equal(found.weights[name], w) for name, w in expected.weights.items())
    assert found.config["updates"] == -(-len(texts[kind]) // 7)
    formatted = ("--format", "lines") if kind == "tagger" else ()
    again = run(*fit, *formatted, "--vocab-from", tmp_path / "m", "--out", tmp_path / "again", stdin=text)
    assert again.exit_code == 0, again.stderr
    assert all(torch.equal(pu.load(tmp_path / "again").weights[name], w) for name, w in expected.weights.items())


@pytest.mark.parametrize("format", ["text.tagged", "text.slashes.tagged", "text.conllu"])
def test_tagged_text_streams_too(tmp_path: Path, world: Path, run: Run, format: str) -> None:
    fit = ("fit", "tagger", "-", "--tags", 4, *STEPS)
    for out, file in (("plain", "plain.txt"), ("other", format)):
        text = (world / file).read_bytes()
        assert run(*fit, "--vocab-from", world / file, "--out", tmp_path / out, stdin=text).exit_code == 0
    one, other = (pu.load(tmp_path / out).weights for out in ("plain", "other"))
    assert all(torch.equal(one[name], w) for name, w in other.items())


def test_a_dictionary_and_a_stream(tmp_path: Path, world: Path, run: Run) -> None:
    fit = ("fit", "tagger", "-", "--dictionary", world / "dictionary.txt", "--vocab-from", world / "plain.txt", *STEPS)
    text = (world / "plain.txt").read_text() + "a zork runs .\n"
    assert run(*fit, "--out", tmp_path / "m", stdin=text).exit_code == 0
    model: Any = pu.load(tmp_path / "m").model
    assert model.vocab.unknown == "<unk>"
    assert model.tags.types == pu.load(world / "named").model.tags.types  # type: ignore[attr-defined]


class Pipe:
    """Standard input that gives a line at a time, and knows how many it gave."""

    def __init__(self, lines: list[str], times: int) -> None:
        self.text, self.rest, self.given = [line.encode() for line in lines], len(lines) * times, 0

    def read1(self, size: int) -> bytes:
        if self.given == self.rest:
            return b""
        self.given += 1
        return self.text[(self.given - 1) % len(self.text)]


def test_no_more_is_read_than_is_learned_from(
    tmp_path: Path, world: Path, run: Run, texts: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the stream: when a mini-batch is learned from, the text after it has not been read."""
    pipe, ahead, step = Pipe(texts["tagger"], 5), [], pu.StepwiseEM.batch_step

    def noting(engine: pu.StepwiseEM, state: Any) -> Any:
        ahead.append(pipe.given - 7 * (state.updates + 1))
        return step(engine, state)

    monkeypatch.setattr(pu.StepwiseEM, "batch_step", noting)
    monkeypatch.setattr("pyro_unsup.data.opening._stdin", lambda: pipe)
    fit = ("fit", "tagger", "-", "--tags", 3, *STEPS, "--vocab-from", world / "plain.txt", "--out", tmp_path / "m")
    assert run(*fit).exit_code == 0
    assert len(ahead) == -(-pipe.given // 7) == -(-len(texts["tagger"]) * 5 // 7)
    assert max(ahead[:-1]) == 0


def test_a_pipe_that_stays_open(tmp_path: Path, run: Run, texts: dict[str, list[str]]) -> None:
    """Learning is on its way before the end of the text is there; Ctrl-C keeps it, and the rest can follow later."""
    lines, known, kept = texts["segmenter"], tmp_path / "known.txt", tmp_path / "m.checkpoint"
    known.write_text("".join(lines))
    fit = ("fit", "segmenter", "-", "--max-length", 6, *STEPS, "--vocab-from", known, "--out", tmp_path / "m")
    with started(*fit, scratch=tmp_path, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        said = b""
        for first in (0, 14):
            process.stdin.write("".join(lines[first : first + 14]).encode())
            process.stdin.flush()
            while not said.startswith(f"mini-batch {(first + 14) // 7}, line {first + 14}: ".encode()):
                said = process.stderr.readline()
                assert said, "it ended"
        process.stdin.write(b"half a li")
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE) == 130
        said = process.stderr.read()
    again = "repeat the command with --resume and the text after line 28; without any (< /dev/null) that ends it"
    assert said.decode().splitlines() == [f"interrupted; what was learned is kept in {kept}. To go on, {again}"]
    assert not (tmp_path / "m").exists()
    assert json.loads((kept / "seed-0" / "fit.json").read_text())["config"]["updates"] == 4
    other = run(*fit, "--resume", "--power", 0.9, stdin="")
    assert f"{kept}: is of a run with --power 0.8, not 0.9; give the same again" in other.stderr
    result = run(*fit, "--resume", stdin="".join(lines[28:]))
    assert result.exit_code == 0, result.stderr
    whole = run(*fit[:-1], tmp_path / "whole", stdin="".join(lines))
    assert whole.exit_code == 0
    one, other_weights = (pu.load(tmp_path / out).weights for out in ("m", "whole"))
    assert all(torch.equal(one[name], w) for name, w in other_weights.items())
    assert not kept.exists()


def test_a_line_that_cannot_be_read_loses_nothing(tmp_path: Path, run: Run, texts: dict[str, list[str]]) -> None:
    lines, known = texts["segmenter"], tmp_path / "known.txt"
    known.write_text("".join(lines))
    fit = ("fit", "segmenter", "-", *STEPS, "--vocab-from", known, "--out", tmp_path / "m")
    result = run(*fit, stdin="".join(lines[:20]) + "Te 9\n")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-2:] == [
        f"what was learned before is kept in {tmp_path / 'm.checkpoint'}; --resume goes on from it",
        f"error: -:21: the symbol '9' is not in the given set of {symbols_of(known)}; give --vocab-from a text that "
        "has it",
    ]
    ended = run(*fit, "--resume", stdin="")
    assert ended.exit_code == 0, ended.stderr
    assert pu.load(tmp_path / "m").config["updates"] == 2
    assert run(*fit[:-1], tmp_path / "first", stdin="Te 9\n").exit_code == 2
    assert not (tmp_path / "first.checkpoint").exists()


def symbols_of(path: Path) -> int:
    return len(read_segmented(path).vocab)


def test_a_pair_that_never_met_and_words_that_are_not_known(tmp_path: Path, run: Run) -> None:
    (tmp_path / "known.txt").write_text("a b ||| x y\nb ||| y\nc ||| z\n")
    fit = ("fit", "aligner", "-", *STEPS, "--vocab-from", tmp_path / "known.txt")
    text = "a ||| x\na ||| z\nnew words ||| x\nc ||| other\n" * 4
    assert run(*fit, "--out", tmp_path / "m", stdin=text).exit_code == 0
    assert run(*fit, "--agreement", "none", "--out", tmp_path / "n", stdin=text).exit_code == 0
    weights = pu.load(tmp_path / "m").weights
    assert all(bool(w.isfinite().any()) and not bool(w.isnan().any()) for w in weights.values())


@pytest.mark.parametrize(
    ("kind", "options", "what"),
    [
        (
            "tagger",
            ["--max-iterations", 3],
            "--max-iterations makes no sense with --vocab-from: a stream is read once; leave it",
        ),
        ("tagger", ["--restarts", 3], "--restarts makes no sense with --vocab-from: a stream is read once; leave it"),
        ("tagger", ["--tolerance", 0], "--tolerance makes no sense with --vocab-from: a stream is read once; leave it"),
        ("tagger", ["--order-seed", 1], "--order-seed makes no sense with --vocab-from: a stream is read once;"),
        ("clusterer", ["--format", "folders"], "-: a folder, which is no stream; expected lines of text, or - for"),
    ],
)
def test_what_a_stream_has_no_use_for(
    tmp_path: Path, zoo: Path, world: Path, run: Run, kind: str, options: list[object], what: str
) -> None:
    known = world / "plain.txt" if kind == "tagger" else zoo / "documents.txt"
    folder = ("--drop-frequent", 0, "--min-count", 1) if kind == "clusterer" else ()
    if "folders" in options:
        known = tmp_path / "texts"
        (known / "label").mkdir(parents=True)
        (known / "label" / "1").write_text("a word")
    before = contents(tmp_path)
    result = run(
        "fit", kind, "-", "--stepwise", "--vocab-from", known, *folder, *options, "--out", tmp_path / "m", stdin=""
    )
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith(f"error: {what}")
    assert contents(tmp_path) == before


def test_what_does_not_tell_the_words(tmp_path: Path, zoo: Path, world: Path, run: Run) -> None:
    fit = ("fit", "tagger", "-", "--out", tmp_path / "m")
    message = refusal(run(*fit, "--vocab-from", world / "plain.txt", stdin=""))
    assert message == "--vocab-from belongs to --stepwise; add that, or leave it out"
    message = refusal(run(*fit, "--stepwise", "--vocab-from", "-", stdin=""))
    assert message == "--vocab-from is FILE itself; leave it out, or name another text that has the same words"
    message = refusal(run(*fit, "--stepwise", "--format", "lines", "--vocab-from", zoo / "clusterer", stdin=""))
    told = "holds a Clusterer, expected a Tagger: --vocab-from takes the vocabulary of such a model, or of a text"
    assert message == f"{zoo / 'clusterer'}: {told}"
    message = refusal(run(*fit, "--stepwise", "--vocab-from", world / "model", stdin=""))
    assert message.startswith("-: cannot tell the format from the name; give one with --format: ")
    message = refusal(run("fit", "aligner", "-", zoo / "target.txt", "--stepwise", "--vocab-from", zoo / "pairs.txt",
                          "--out", tmp_path / "m", stdin=""))  # fmt: skip
    assert message == "a stream has both languages, `source ||| target` a line; leave FILE2 out"
    empty = run(*fit, "--stepwise", "--vocab-from", world / "plain.txt", stdin="\n\n")
    assert empty.stderr.splitlines()[-1] == "error: -: nothing in it to learn from, expected at least one line"
    unknown = run(*fit, "--stepwise", "--vocab-from", world / "model", "--format", "lines", stdin="the zork\n")
    assert unknown.stderr.splitlines()[-1].startswith("error: -:1: the word 'zork' is not in the given set of ")
    segment = ("fit", "segmenter", "-", "--stepwise", "--vocab-from", zoo / "segmenter", "--out", tmp_path / "m")
    bad = run(*segment, "--word-separator", "", stdin="Te\n").stderr.splitlines()[-1]
    assert bad == "error: -: --word-separator is empty, expected at least one character, or None for the default"
    assert not any(tmp_path.iterdir())


def test_documents_without_known_words_are_passed_over(tmp_path: Path, run: Run) -> None:
    (tmp_path / "known.txt").write_text("a b\nb c\n")
    fit = ("fit", "clusterer", "-", "--stepwise", "--batch-size", 2, "--clusters", 2, "--drop-frequent", 0)
    fit = (*fit, "--min-count", 1, "--smooth", 0.1, "--vocab-from", tmp_path / "known.txt")
    text = "a c\nzork\nzork blix\nzork\nb c\n"
    assert run(*fit, "--out", tmp_path / "m", stdin=text).exit_code == 0
    assert pu.load(tmp_path / "m").config["updates"] == 2
    message = run(*fit, "--out", tmp_path / "n", stdin="a c\n\nb c\n").stderr.splitlines()[-1]
    assert message == "error: -:2: an empty document, expected at least one word; drop it, or add --skip-empty"
    assert run(*fit, "--skip-empty", "--out", tmp_path / "n", stdin="a c\n\nb c\n").exit_code == 0
    splits = "train\tg\t1\ta b\ntest\tg\t2\tb b\ntrain\tg\t3\tc c\n"
    assert run(*fit, "--format", "newsgroups", "--split", "train", "--vocab-from", tmp_path / "s", "--out",
               tmp_path / "o", stdin=splits).exit_code == 2  # fmt: skip
    (tmp_path / "s").write_text(splits)
    made = run(*fit, "--format", "newsgroups", "--split", "train", "--vocab-from", tmp_path / "s", "--out",
               tmp_path / "o", stdin=splits)  # fmt: skip
    assert made.exit_code == 0, made.stderr
    assert "mini-batch 1, line 3: " in made.stderr


def test_a_bad_byte_keeps_the_mini_batches_before_it(tmp_path: Path, run: Run) -> None:
    (tmp_path / "known.txt").write_text("a b c\n")
    stdin = b"a b c\nc b a\n" * 450 + b"a \xff b\n" + b"a b\n" * 50
    fit = ("fit", "tagger", "-", "--format", "lines", "--vocab-from", tmp_path / "known.txt", "--tags", 2)
    result = run(*fit, "--stepwise", "--batch-size", 100, "--out", tmp_path / "m", stdin=stdin)
    assert result.exit_code == 2
    assert result.stderr.endswith("error: -:901: byte 0xff is not UTF-8; convert the file to UTF-8 first\n")
    (learned,) = tmp_path.rglob("fit.json")  # in the checkpoint, for --resume
    assert pu.load(learned.parent).config["updates"] == 9

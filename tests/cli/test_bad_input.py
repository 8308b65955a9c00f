"""Bad input of every kind: one line with file and line on standard error, exit code 2, nothing written or changed."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from pyro_unsup.results.record import checksum

from .conftest import Run, contents


def refusal(result: Result) -> str:
    """The message, if the command refused as it should."""
    assert result.exit_code == 2, (result.stdout, result.stderr)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.endswith("\n")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("error: ").rstrip("\n")


GOOD = "1\ta\t_\t_\tDT\t_\t2\t_\t_\t_\n2\tdog\t_\t_\tNN\t_\t0\t_\t_\t_\n\n"
BAD_FILES: dict[str, tuple[str, bytes, str]] = {
    "empty": ("x.conllu", b"", ": no sentence in it, expected at least one"),
    "empty_lines": ("x.txt", b"\n\n", ": no sentence in it, expected at least one"),
    "ragged_line": (
        "x.tagged",
        b"a DT\ndog NN\n\nthe\n",
        ":4: expected 2 columns as on line 1, found 1; mend the line",
    ),
    "columns": ("x.conllu", GOOD.encode() + b"1\ta\t_\n", ":4: expected 10 tab-separated columns, found 3"),
    "cycle": ("x.conllu", GOOD.replace("\t0\t", "\t1\t").encode(), ":1: "),
    "nul": ("x.txt", b"a dog\nb\0d\n", ":2: a NUL byte, expected UTF-8 text; is this a binary file?"),
    "utf8": ("x.tagged", b"a DT\n\xff NN\n", ":2: byte 0xff is not UTF-8; convert the file to UTF-8 first"),
    "cut_xz": ("x.conllu.xz", lzma.compress(GOOD.encode() * 50)[:-9], ": the xz data end too early"),
    "bomb": ("x.txt.gz", gzip.compress(b"a dog\n" + b"\n" * 3_000_000), ": gzip data that grow more than 200 times"),
    "missing": ("x.txt", b"", ": cannot be read: No such file or directory"),
    "nameless": ("x.what", b"a\n", ": cannot tell the format from the name; give one with --format: conllu, brackets,"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_bad_text(tmp_path: Path, world: Path, run: Run, kind: str) -> None:
    name, content, what = BAD_FILES[kind]
    file = tmp_path / name
    if kind != "missing":
        file.write_bytes(content)
    (tmp_path / "tagged.txt").write_text("here before\n")
    before, model_before = contents(tmp_path), contents(world)
    for arguments in (
        ("fit", "tagger", file, "--out", tmp_path / "new"),
        ("fit", "tagger", world / "text.tagged", "--dictionary-from", file, "--out", tmp_path / "new"),
        ("predict", world / "model", file, "--out", tmp_path / "tagged.txt"),
        ("predict", world / "model", world / "new.txt", "--relabel", file, "--out", tmp_path / "tagged.txt"),
        ("predict", world / "model", file),
        ("evaluate", world / "model", file),
        ("evaluate", world / "model", file, "--json"),
    ):
        message = refusal(run(*arguments))
        assert message.startswith(str(file))
        assert kind == "nameless" or what in message
        assert contents(tmp_path) == before
        assert contents(world) == model_before


def test_a_cycle_names_its_line(tmp_path: Path, world: Path, run: Run) -> None:
    file = tmp_path / "x.conllu"
    file.write_text(GOOD + GOOD.replace("\t0\t", "\t1\t"))
    assert "cycle" in refusal(run("predict", world / "model", file))
    assert refusal(run("predict", world / "model", file)).startswith(f"{file}:4: ")


def test_marks_line_ends_and_packing_are_fine(tmp_path: Path, world: Path, run: Run) -> None:
    plain = (world / "new.txt").read_bytes()
    expected = run("predict", world / "model", world / "new.txt").stdout
    for name, content in (
        ("bom.txt", b"\xef\xbb\xbf" + plain),
        ("crlf.txt", plain.replace(b"\n", b"\r\n")),
        ("packed.txt.xz", lzma.compress(plain)),
        ("packed.txt.gz", gzip.compress(plain)),
    ):
        (tmp_path / name).write_bytes(content)
        assert run("predict", world / "model", tmp_path / name).stdout == expected


def test_standard_input_is_as_strict(world: Path, run: Run) -> None:
    assert refusal(run("predict", world / "model", "-", "--format", "lines", stdin=b"a\n\xff\n")).startswith(
        "-:2: byte 0xff"
    )
    message = refusal(run("predict", world / "model", "-", stdin="a\n"))
    assert message.startswith("-: cannot tell the format from the name")


def test_gold_tags_that_the_model_does_not_have_are_wrong(tmp_path: Path, world: Path, run: Run) -> None:
    right, strange = tmp_path / "right.tagged", tmp_path / "strange.tagged"
    right.write_text("the DET\ndog NOUN\n\n. PUNCT\n")
    strange.write_text("the DET\ndog NOUN\n\n. PUNCTISH\n")
    before, after = (json.loads(run("evaluate", world / "named", one, "--json").stdout) for one in (right, strange))
    assert (before["accuracy"], after["accuracy"]) == (1.0, pytest.approx(2 / 3))
    said = run("evaluate", world / "named", strange)
    assert said.exit_code == 0
    assert "1 of 3 words have gold tags that the model does not have, and count as wrong: PUNCTISH\n" in said.stderr
    untagged = refusal(run("evaluate", world / "named", world / "plain.txt"))
    assert untagged.startswith(f"{world / 'plain.txt'}: no tags in it, expected a tagged text; is --format right")
    (tmp_path / "x.conllu").write_text("1\tdog\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n")
    other = refusal(run("evaluate", world / "named", tmp_path / "x.conllu"))
    assert other == f"{tmp_path / 'x.conllu'}: no tags in its column xpos; take another with --column upos"


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("d.txt", "the DET\ndog\n", ":2: the word 'dog' has no allowed tag; add one or drop the line"),
        ("d.txt", "the DET\ndog NOUN\nthe ADJ\n", ":3: the word 'the' is listed twice, first on line 1"),
        ("d.txt", "", ": no word in it, expected lines of a word and its tags"),
        ("d.json", "{", ": not JSON; save the dictionary again"),
        ("d.json", '{"format": "x"}', ": not a tag dictionary of version 1; save the dictionary again"),
    ],
)
def test_bad_dictionaries(tmp_path: Path, world: Path, run: Run, name: str, content: str, what: str) -> None:
    file = tmp_path / name
    file.write_text(content)
    before = contents(tmp_path)
    result = run("fit", "tagger", world / "text.tagged", "--dictionary", file, "--out", tmp_path / "new")
    assert refusal(result) == f"{file}{what}"
    assert contents(tmp_path) == before


class Harmful:
    """A pickle of this creates a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return open, (str(self.path), "w")


def edit(folder: Path, **changes: object) -> None:
    """Change the record as a careful attacker would, checksum and all."""
    record = json.loads((folder / "fit.json").read_text()) | changes
    record["checksum"] = checksum(record)
    (folder / "fit.json").write_text(json.dumps(record))


def damage(folder: Path, kind: str) -> Path:
    """Damage a model; returns the file that is to blame."""
    record, tensors = folder / "fit.json", next(folder.glob("*.safetensors"))
    raw = tensors.read_bytes()
    harmful = pickle.dumps(Harmful(folder.parent / "harm"))
    if kind == "no record":
        record.unlink()
        return record
    if kind == "no tensors":
        tensors.unlink()
        return tensors
    if kind == "altered tensors":
        tensors.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
        return tensors
    if kind == "cut tensors":
        tensors.write_bytes(raw[: len(raw) // 2])
        return tensors
    if kind == "pickled tensors":
        tensors.write_bytes(harmful)
        return tensors
    if kind == "pickled tensors, record to match":
        digest = hashlib.sha256(harmful).hexdigest()
        edit(folder, file=f"{digest[:16]}.safetensors", sha256=digest)
        (folder / f"{digest[:16]}.safetensors").write_bytes(harmful)
        return folder / f"{digest[:16]}.safetensors"
    if kind == "pickled record":
        record.write_bytes(harmful)
    elif kind == "altered record":
        record.write_text(record.read_text().replace('"order": 1', '"order": 2'))
    elif kind == "another class":
        model = json.loads(record.read_text())["model"] | {"name": "__import__('os').system"}
        edit(folder, model=model)
    elif kind == "file elsewhere":
        edit(folder, file="../harm.safetensors")
    elif kind == "labels that do not fit":
        edit(folder, config={"labels": ["just one"]})
    elif kind == "next schema":
        edit(folder, schema=99)
    elif kind == "nested too deep":
        record.write_text("[" * 100_000)
    return record


DAMAGES = ["no record", "no tensors", "altered tensors", "cut tensors", "pickled tensors", "pickled record",
           "pickled tensors, record to match", "altered record", "another class", "file elsewhere",
           "labels that do not fit", "next schema", "nested too deep"]  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGES)
def test_bad_models(tmp_path: Path, world: Path, run: Run, kind: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(world / "model", folder)
    blamed = damage(folder, kind)
    before = contents(tmp_path)
    for arguments in (
        ("show", folder),
        ("show", folder, "--json"),
        ("predict", folder, world / "new.txt", "--out", tmp_path / "out.txt"),
        ("evaluate", folder, world / "text.tagged", "--json"),
    ):
        assert refusal(run(*arguments)).startswith(f"{blamed}: ")
    assert contents(tmp_path) == before  # nothing was run, written or removed


def test_no_model(tmp_path: Path, world: Path, run: Run) -> None:
    assert refusal(run("show", tmp_path / "no")).startswith(f"{tmp_path / 'no'}: no such folder; expected one that")
    assert refusal(run("show", world / "new.txt")).startswith(f"{world / 'new.txt'}: no such folder")


def test_a_model_is_not_overwritten_and_no_work_is_done_in_vain(tmp_path: Path, world: Path, run: Run) -> None:
    before = contents(world)
    for out in (world / "model", world, world / "new.txt"):
        message = refusal(run("fit", "tagger", tmp_path / "not there", "--out", out))
        assert message.startswith(
            f"{out}: exists already; choose another folder, or replace it (overwrite=True, or --o"
        )
    message = refusal(run("fit", "tagger", tmp_path / "not there", "--out", world, "--overwrite"))
    assert message.startswith(f"{world}: exists and is not a fit, so it is not replaced")
    assert contents(world) == before
    (tmp_path / "m.checkpoint").mkdir()
    (tmp_path / "m.checkpoint" / "thesis.tex").touch()
    message = refusal(run("fit", "tagger", world / "text.tagged", "--out", tmp_path / "m", "--overwrite"))
    assert message.startswith(f"{tmp_path / 'm.checkpoint'}: exists, but is not a checkpoint folder")


def test_output_that_cannot_be_written(tmp_path: Path, world: Path, run: Run) -> None:
    blocked = world / "new.txt" / "inside"
    assert "Not a directory" in refusal(run("predict", world / "model", world / "new.txt", "--out", blocked))
    result = run("fit", "tagger", world / "text.tagged", "--out", blocked)
    assert result.exit_code == 2
    assert "Not a directory" in result.stderr.splitlines()[-1]
    assert result.stderr.splitlines()[-1].startswith("error: ")


def test_options_that_contradict(tmp_path: Path, world: Path, run: Run) -> None:
    text, dictionary = world / "text.tagged", world / "dictionary.txt"
    fit = ("fit", "tagger", text, "--out", tmp_path / "m")
    message = refusal(run(*fit, "--dictionary", dictionary, "--tags", 45))
    assert message == f"{dictionary}: has 12 tags, which --tags 45 contradicts; leave --tags out"
    message = refusal(run(*fit, "--dictionary", dictionary, "--dictionary-from", text))
    assert message == "--dictionary and --dictionary-from are two ways to say the same; give one of them"
    message = refusal(run(*fit, "--tags", 20_000, "--order", 2))
    assert message.startswith("20,000 tags of order 2 over ")
    assert message.endswith("take fewer tags, --order 1 or a higher --min-count")
    message = refusal(run("predict", world / "model", text, "--probabilities", "--output-format", "slashes"))
    assert message == "--probabilities needs --output-format columns, not slashes"
    for arguments in (["--order", 3], ["--tags", 0], ["--tolerance", "x"], ["--restarts", 0], ["--nonsense"]):
        result = run(*fit, *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--tolerance", "--smooth"])
def test_numbers_that_are_not_finite(tmp_path: Path, world: Path, run: Run, option: str) -> None:
    fit = ("fit", "tagger", world / "text.tagged", "--out", tmp_path / "m", option)
    assert refusal(run(*fit, "inf")) == f"{option} must be a finite number, actual inf"
    assert run(*fit, "nan").exit_code == 2
    assert not any(tmp_path.iterdir())


def test_seeds_have_a_bound(tmp_path: Path, world: Path, run: Run) -> None:
    fit = ("fit", "tagger", world / "text.tagged", "--tags", 2, "--max-iterations", 1, "--out", tmp_path / "m")
    for arguments in (fit, ("demo", "--out", tmp_path / "demo")):
        result = run(*arguments, "--seed", 99999999999999999999999)
        assert (result.exit_code, result.stdout) == (2, "")
        assert not any(tmp_path.iterdir())
    assert run(*fit, "--seed", 2**63 - 1 - 1000).exit_code == 0


def test_several_roots_do_not_matter_to_a_tagger(tmp_path: Path, world: Path, run: Run) -> None:
    file = tmp_path / "x.conllu"
    file.write_text(GOOD.replace("\t2\t_\t_\t_\n2", "\t0\t_\t_\t_\n2"))
    assert file.read_text().count("\t0\t") == 2
    assert run("fit", "tagger", file, "--tags", 2, "--out", tmp_path / "m").exit_code == 0
    assert [row.split("\t")[1] for row in run("predict", world / "model", file).stdout.splitlines() if row] == [
        "a",
        "dog",
    ]
    assert run("evaluate", world / "model", file, "--json").exit_code == 0


@pytest.mark.parametrize("options", [(), ("--probabilities",), ("--output-format", "conllu")])
def test_labels_cannot_drive_the_terminal(tmp_path: Path, world: Path, run: Run, options: tuple[str, ...]) -> None:
    folder = tmp_path / "m"
    shutil.copytree(world / "model", folder)
    config = json.loads((folder / "fit.json").read_text())["config"]
    edit(folder, config=config | {"labels": [f"\x1b[2J\t{k}" for k in range(5)]})
    tagged = run("predict", folder, world / "new.txt", *options)
    assert tagged.exit_code == 0
    assert "\x1b" not in tagged.stdout
    assert "\\x1b[2J\\t" in tagged.stdout


def test_what_a_file_says_cannot_drive_the_terminal(tmp_path: Path, world: Path, run: Run) -> None:
    text = tmp_path / "t.txt"
    text.write_text("\x1b[2Jboo [red]hello[/nonsense] hello\nhello \x1b[2Jboo\n")
    assert run("fit", "tagger", text, "--tags", 2, "--out", tmp_path / "m").exit_code == 0
    shown = run("show", tmp_path / "m").stdout
    assert "\x1b" not in shown
    assert "\\x1b[2Jboo" in shown
    assert "[red]hello[/nonsense]" in shown
    json.loads(run("show", tmp_path / "m", "--json").stdout)

"""Folders that are damaged, foreign or hostile: each is refused by name, and nothing in them is ever run."""

from __future__ import annotations

import json
import os
import pickle
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup import registry
from pyro_unsup.results import record_folder

from .cases import mixture, own, with_dictionary
from .damage import Record, put_back, refused, rewrite, tensors_of, with_tensors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put_back(tmp_path / "fit", with_dictionary)
    return tmp_path / "fit"


# -- files


def test_a_rewritten_fit_is_a_fit(folder: Path) -> None:
    rewrite(folder)
    with_tensors(folder, lambda tensors: None)
    assert pu.load(folder).labels == with_dictionary().labels


def test_nothing_there(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "nowhere: no such folder; expected one that fit.save or `pyro-unsup fit --out` wrote")
    refused(tmp_path, "fit.json: missing; the folder holds no fit")
    (tmp_path / "file").write_text("{}")
    refused(tmp_path / "file", "file: no such folder")
    refused(Path("nul\0byte"), "no such folder")


def test_a_missing_file(folder: Path) -> None:
    tensors_of(folder).unlink()
    refused(folder, r"[0-9a-f]{16}\.safetensors: missing; the folder is not complete")
    (folder / "fit.json").unlink()
    refused(folder, r"fit\.json: missing")


@pytest.mark.parametrize("keep", [0, 1, 8, 100, -1])
def test_a_file_cut_short(folder: Path, keep: int) -> None:
    whole = tensors_of(folder).read_bytes()
    tensors_of(folder).write_bytes(whole[:keep])
    refused(folder, r"safetensors: the checksum differs from the one in the record: the file was altered or cut short$")
    tensors_of(folder).write_bytes(whole)
    record = (folder / "fit.json").read_bytes().rstrip()
    (folder / "fit.json").write_bytes(record[:keep])
    refused(folder, r"fit\.json: not a JSON record: ")


def test_an_altered_byte_anywhere_is_found(folder: Path) -> None:
    for file in (tensors_of(folder), folder / "fit.json"):
        whole = file.read_bytes()
        for place in range(0, len(whole.rstrip()), max(1, len(whole) // 150)):
            for bit in (1, 0x20):
                changed = bytearray(whole)
                changed[place] ^= bit
                if file.suffix == ".json" and _same_json(bytes(changed), whole):
                    continue  # another kind of white space
                file.write_bytes(changed)
                refused(folder, "checksum|not a JSON record|schema|not the record of a fit")
        file.write_bytes(whole)
    assert pu.load(folder).seed == 0


def _same_json(one: bytes, other: bytes) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def test_a_word_altered_by_hand_is_found(folder: Path) -> None:
    file = folder / "fit.json"
    assert '"the"' in file.read_text()
    file.write_text(file.read_text().replace('"the"', '"teh"'))
    refused(folder, r"fit\.json: the checksum differs from the one in it: the record was altered or cut short$")


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/null", "fifo", "folder", "fit.json"])
def test_only_plain_files_are_read(folder: Path, target: str) -> None:
    """A device without an end, a pipe that nobody writes to: reading them would never come back."""
    if target == "fifo":
        os.mkfifo(folder / "fifo")
    elif target == "folder":
        (folder / "folder").mkdir()
    for file in (tensors_of(folder), folder / "fit.json"):
        if file.name == target:
            continue
        file.unlink()
        file.symlink_to(target)
        refused(folder, "not a plain file" if target != "fit.json" else "the checksum differs")


def test_files_that_are_too_large_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(tensors_of(folder), "r+b") as stream:
        stream.truncate(65 * 2**30)  # takes no space on disk
    refused(folder, f"safetensors: larger than {64 * 2**30} bytes, too large for a fit")
    with open(folder / "fit.json", "r+b") as stream:
        stream.truncate(257 * 2**20)
    refused(folder, f"fit.json: larger than {256 * 2**20} bytes, too large for a fit")

    def no_memory(self: Path) -> bytes:
        raise MemoryError

    monkeypatch.setattr(record_folder, "MAX_RECORD", 2**30)
    monkeypatch.setattr(Path, "read_bytes", no_memory)
    refused(folder, f"fit.json: {257 * 2**20} bytes, more than fit into memory")


# -- the record


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "not a JSON record"),
        (b"\xff\xfe{}", "not a JSON record: 'utf-8' codec"),
        (b"[" * 200_000, "not a JSON record: maximum recursion depth|not a JSON record: .*recursion"),
        (b'{"a":' * 200_000, "not a JSON record: .*recursion"),
        (b"1" * 10_000, "not a JSON record: Exceeds the limit"),
        (b"[]", "not the record of a fit"),
        (b"null", "not the record of a fit"),
        (b"{}", "not the record of a fit"),
        (b'{"kind": "pyro_unsup fit"}', "schema None; this version reads 2"),
        (b'{"kind": "pyro_unsup fit", "schema": 1}', "schema 1; this version reads 2"),
        (b'{"kind": "pyro_unsup fit", "schema": "' + b"x" * 5000 + b'"}', "schema 'xxx.*; this version reads 2"),
        (b'{"kind": "pyro_unsup fit", "schema": 2}', "the checksum differs"),
        (b'{"kind": "pyro_unsup fit", "schema": 2, "x": NaN}', "not a JSON record: Out of range float"),
        (b'{"kind": "pyro_unsup fit", "schema": 2, "x": 1e999}', "not a JSON record: Out of range float"),
        (b"\0" * 1000, "not a JSON record"),
        (pickle.dumps({"kind": "pyro_unsup fit"}), "not a JSON record"),
    ],
)
def test_what_is_no_record(folder: Path, raw: bytes, says: str) -> None:
    (folder / "fit.json").write_bytes(raw)
    refused(folder, f"fit.json: ({says})")


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "../fit/x.safetensors",
        "/etc/passwd",
        "/tmp/x.safetensors",
        "a/b.safetensors",
        "x.safetensors",
        "",
        ".",
        "..",
        "x\0.safetensors",
        "\ud800.safetensors",
        "fit.json",
        "C:\\x.safetensors",
        "x" * 5000 + ".safetensors",
        None,
        5,
        [],
        {},
        True,
    ],
)
def test_tensors_are_read_from_the_folder_and_nowhere_else(folder: Path, name: object) -> None:
    (folder.parent / "x.safetensors").write_bytes(tensors_of(folder).read_bytes())
    rewrite(folder, lambda record: record.update(file=name))
    refused(folder, r"fit\.json: names .* as its tensors, expected a \.safetensors file named after its checksum")


@pytest.mark.parametrize("digest", [None, 5, "", "0" * 64, "../" * 20, "\0" * 64, "A" * 64])
def test_the_checksum_of_the_tensors_has_to_be_one(folder: Path, digest: object) -> None:
    rewrite(folder, lambda record: record.update(sha256=digest, file=f"{str(digest)[:16]}.safetensors"))
    refused(folder, "names .* as its tensors|missing; the folder is not complete")


@pytest.mark.parametrize(
    "name",
    [
        "__builtins__",
        "Tagger.__init__",
        "tagger",
        "models.Tagger",
        "os.system",
        "__init__",
        "",
        "Tagger\0",
        None,
        0,
        [],
        ["Tagger"],
        {"Tagger": 1},
        "x" * 10_000,
        "a\nb",
    ],
)
def test_a_model_that_the_library_does_not_have(folder: Path, name: object) -> None:
    rewrite(folder, lambda record: record["model"].update({"name": name}))
    known = ", ".join(sorted(registry.OWN["models"]))
    says = (
        rf"fit\.json: unknown model .*: known are {known}\. If it comes from another package, install the package that"
    )
    refused(folder, rf"{says} registers it|the record does not describe a fit")


BIG = 10**30


def each(*path: str | int, values: Sequence[object]) -> list[tuple[tuple[str | int, ...], object]]:
    """One place in a record, and things that must not be there."""
    return [(path, value) for value in values]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *each("model", values=([], {}, 5, "Tagger", {"name": "Tagger"}, {"name": "Tagger", "settings": 3})),
        *each("model", "settings", "tags", values=(0, -1, 5, 1.5, BIG, None, [], "ab", {}, {"types": 3})),
        *each("model", "settings", "tags", "types", values=(5, "ab", [1, 2], ["a", "a"], [["a"]], None, [])),
        *each("model", "settings", "vocab", values=(0, -1, BIG, 2**40, None, [], {"types": ["a"]})),
        *each("model", "settings", "vocab", "unknown", values=(5, "not there", [], {})),
        *each("model", "settings", "order", values=(0, 3, 2, BIG, 1.5, "1", None, [])),
        *each("model", "settings", "stop", values=(True, 7, -1, BIG, "yes", None, [])),
        *each("model", "settings", "prior", values=([], "x", None, {"start": "x"}, {"start": {}})),
        (("model", "settings", "dictionary"), [[True]]),
        (("model", "settings", "colour"), "red"),
        *each("estimators", values=(None, 5, "x", {"name": 1}, [5], [{}], [{"name": "AddLambda"}])),
        *each("estimators", values=([{"name": "os.system", "settings": {}, "tables": ["start"]}],)),
        *each("estimators", values=([{"name": "Tagger", "settings": {"tags": 2, "vocab": 2}, "tables": ["start"]}],)),
        *each("estimators", 0, "settings", values=(None, 5, [], {"amount": -1}, {"amount": []}, {"x": 1})),
        *each("estimators", 0, "tables", values=(None, 5, "ab", [3], [[]], [{}])),
        *each("posteriors", values=(None, 5, "x", [], {"start": "normal"}, {"start": 1}, {"start": []})),
        *each("seed", values=(None, [], "x", {})),
        *each("config", values=(None, [], "x", 5, [["a", 1]])),
        *each("config", "labels", values=(None, "abc", [1], ["a"], {}, [["a"]])),
        *each("rows", values=(None, [], {}, "x", 5, [5], [[]], [{}], ["x"], [None])),
        *each("rows", 0, "objective", values=(None, "x", [], {})),
        *each("rows", 0, "iteration", values=(None, "x", "inf", [], {})),
        *each("rows", 1, "mine", values=("x", [], {})),
        *each("report", values=(None, [], "x", 5, {})),
        *each("report", "objective", values=(None, "x", [])),
        *each("report", "unvisited", values=(None, [1], "x", {"a": None})),
        *each("report", "restarts", values=(None, 5, ["x"], [None])),
        *each("tensors", values=(None, [], {}, 5)),
        (("tensors", "weights/start", "shape"), [2**62]),
        (("tensors", "weights/start", "dtype"), "torch.float32"),
        (("tensors", "weights/ghost"), {"shape": [1], "dtype": "torch.float64"}),
    ],
)
def test_a_record_that_makes_no_sense(folder: Path, path: tuple[Any, ...], value: object) -> None:
    def change(record: Record) -> None:
        place: Any = record
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    rewrite(folder, change)
    refused(folder, r"(fit\.json|safetensors): ['a-z]")


@pytest.mark.parametrize("key", ["model", "seed", "config", "report", "rows", "tensors", "file", "sha256"])
def test_a_record_without_one_of_its_parts(folder: Path, key: str) -> None:
    rewrite(folder, lambda record: record.pop(key))
    refused(
        folder,
        rf"the record does not describe a fit: KeyError\('{key}'\)|names None|not those that the record lists|names ",
    )


def test_messages_say_what_is_wrong(folder: Path) -> None:
    rewrite(folder, lambda record: record["model"]["settings"].update(order=3))
    refused(folder, r"fit\.json: the model cannot be built: order must be 1 \(bigram\) or 2 \(trigram\), actual = 3$")


# -- the tensors


class Touch:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_is_not_run(folder: Path, tmp_path: Path, protocol: int) -> None:
    trap = tmp_path / "trapped"
    evil = pickle.dumps(Touch(trap), protocol)
    rewrite(folder, raw=evil)
    refused(folder, "safetensors: not a safetensors file")
    torch.save({"weights/start": torch.zeros(2)}, tmp_path / "zip.pt")
    rewrite(folder, raw=(tmp_path / "zip.pt").read_bytes())
    refused(folder, "safetensors: not a safetensors file")
    (folder / "fit.json").write_bytes(evil)
    refused(folder, "not a JSON record")
    for name in ("model.pkl", "pytorch_model.bin", "__init__.py", "conftest.py"):
        (folder / name).write_bytes(evil)
    refused(folder, "not a JSON record")
    assert not trap.exists()
    pickle.loads(evil)
    assert trap.exists()  # it would have worked


def header(description: object, data: bytes = b"", length: int | None = None) -> bytes:
    text = description if isinstance(description, bytes) else json.dumps(description).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff" * 8,
        struct.pack("<Q", 2**63) + b"{}",
        header({}, length=2**40),
        header(b"not json"),
        header(b"[" * 50_000),
        header({"weights/start": {"dtype": "F64", "shape": [2**60], "data_offsets": [0, 8]}}, bytes(8)),
        header({"weights/start": {"dtype": "F64", "shape": [1], "data_offsets": [0, 2**40]}}, bytes(8)),
        header({"weights/start": {"dtype": "F64", "shape": [1], "data_offsets": [8, 0]}}, bytes(8)),
        header({"weights/start": {"dtype": "F64", "shape": [-1], "data_offsets": [0, 8]}}, bytes(8)),
        header({"weights/start": {"dtype": "OBJECT", "shape": [1], "data_offsets": [0, 8]}}, bytes(8)),
        header({"weights/start": {"dtype": "F64", "shape": [2**32, 2**32, 2], "data_offsets": [0, 0]}}),
        header(
            {
                "a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]},
                "b": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]},
            },
            bytes(8),
        ),
    ],
)
def test_what_is_no_file_of_tensors(folder: Path, raw: bytes) -> None:
    rewrite(folder, raw=raw)
    refused(folder, "safetensors: (not a safetensors file|the tensors are not those that the record lists)")


def test_tensors_that_the_record_does_not_list(folder: Path) -> None:
    for change in (
        lambda t: t.update({"weights/ghost": torch.zeros(2)}),
        lambda t: t.pop("weights/start"),
        lambda t: t.update({"weights/start": t["weights/start"].float()}),
        lambda t: t.update({"weights/start": t["weights/start"][None]}),
    ):
        with_tensors(folder, change, relist=False)
        refused(folder, r"safetensors: the tensors are not those that the record lists$")
        put_back(folder, with_dictionary)


def put(name: str, value: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[dict[str, torch.Tensor]], None]:
    return lambda tensors: tensors.update({name: value(tensors[name])})


def filled(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: x.clone().index_fill_(-1, torch.tensor([1]), value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put("weights/start", filled(float("nan"))), "table 'start' holds NaN or"),
        (put("weights/transition", filled(float("inf"))), "table 'transition' holds NaN or"),
        (put("weights/emission", lambda x: x.clamp(min=-50.0)), "table 'emission': a structural zero has weight"),
        (put("weights/emission", lambda x: x[:, :-1]), r"table 'emission': expected log-weights of shape \(12, 37\)"),
        (put("weights/emission", lambda x: x.T), r"table 'emission': expected log-weights of shape \(12, 37\)"),
        (put("weights/start", lambda x: x[:0]), r"table 'start': expected log-weights of shape \(12,\), actual \(0,\)"),
        (
            put("weights/start", lambda x: x.long()),
            "table 'start': expected log-weights in float64 or float32, actual .*int64",
        ),
        (put("weights/start", lambda x: x.half()), "table 'start': expected log-weights in float64 or float32"),
        (
            put("weights/start", lambda x: x.to(torch.complex64)),
            "table 'start': expected log-weights in|not a safetensors",
        ),
        (
            put("weights/start", lambda x: x.to(torch.float8_e4m3fn)),
            "table 'start': expected log-weights in|not a safetensors",
        ),
        (
            lambda t: t.pop("weights/start"),
            r"the model has the tables \['emission', 'start', 'transition'\], the fit has",
        ),
        (lambda t: t.update({"weights/ghost": torch.zeros(2)}), "the fit has .*'ghost'"),
        (lambda t: t.update({"code/ghost": torch.zeros(2)}), "tensor 'code/ghost' is of no known kind"),
        (lambda t: t.update({"a\nb": torch.zeros(2)}), r"tensor 'a\\nb' is of no known kind"),
        (lambda t: t.update({"params/p": torch.tensor(float("nan"))}), "'p' holds NaN"),
        (lambda t: t.update({"points/p": torch.tensor([0.0, float("nan")])}), "'p' holds NaN"),
        (lambda t: t.update({"model/ghost": torch.zeros(2)}), "the model has the tensors .*'dictionary'.*'ghost'"),
        (lambda t: t.pop("model/dictionary"), ""),
        (put("model/dictionary", lambda x: x[:1]), "the model cannot be built: the dictionary mask should have shape"),
        (put("model/dictionary", lambda x: x & False), "the model cannot be built: word .* has no allowed tag"),
        (put("model/dictionary", lambda x: ~x), "table 'emission'|the model cannot be built"),
    ],
)
def test_tensors_that_make_no_sense(folder: Path, change: Callable[[Any], Any], says: str) -> None:
    with_tensors(folder, change)
    if not says:  # a looser dictionary than the weights were trained with is still one that they fit
        assert pu.load(folder).model.declarations()["emission"].layout.support is None  # type: ignore[attr-defined]
    else:
        refused(folder, says)


def test_a_model_of_ones_own_is_checked_too(tmp_path: Path) -> None:
    own().save(tmp_path / "fit")
    with_tensors(tmp_path / "fit", put("params/mean", filled(float("nan"))))
    refused(tmp_path / "fit", "'mean' holds NaN", mixture)

"""Files of a target as one string of bytes, which a fuzzer can change: put on disk, spoilt, and sealed again."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyro_unsup.results.record import checksum, listing

Files = dict[str, bytes]
SEALED, RAW = b"!sealed", b"!raw"
PIPE = b"\0pipe"
#: What else than a plain file may lie somewhere.
ODD = {
    b"\0zero": lambda path: path.symlink_to("/dev/zero"),
    b"\0null": lambda path: path.symlink_to("/dev/null"),
    b"\0self": lambda path: path.symlink_to(path.name),
    b"\0up": lambda path: path.symlink_to(".."),
    b"\0nowhere": lambda path: path.symlink_to("nowhere"),
    PIPE: os.mkfifo,
    b"\0folder": lambda path: path.mkdir(),
}
_NAME = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,60}(/[A-Za-z0-9][A-Za-z0-9._-]{0,60})?")


def pack(files: Files, sealed: bool = True) -> bytes:
    """All files in one."""
    return b"".join(
        [SEALED if sealed else RAW, *(b"\n@@ " + name.encode() + b"\n" + raw for name, raw in files.items())]
    )


def unpack(data: bytes) -> tuple[Files, bool]:
    """Back from :func:`pack`; of anything else, what can be made of it."""
    head, *parts = data.split(b"\n@@ ")
    pairs = (part.partition(b"\n") for part in parts)
    return {name.decode(): raw for name, _, raw in pairs if _NAME.fullmatch(name)}, head == SEALED


def put(folder: Path, files: Files, pipes: bool = False) -> None:
    """Files in a folder that had others before.

    :param pipes: whether there may be one: a reader of text waits for what it holds.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, raw in files.items():
        path = folder / name
        try:
            path.parent.mkdir(exist_ok=True)
            if raw in ODD and (pipes or raw != PIPE):
                ODD[raw](path)
            else:
                path.write_bytes(raw)
        except OSError:  # a file and a folder of one name
            continue


# -- making checksums right again, as someone would who knows how a folder is made


def seal(record_name: str) -> Callable[[Files], Files]:
    """Names, listing and checksums that agree with what the files hold."""

    def sealed(files: Files) -> Files:
        from safetensors.torch import load as parse

        found = dict(files)
        try:
            record = json.loads(found[record_name])
            name = next(one for one in found if one.endswith(".safetensors"))
            raw = found.pop(name)
            digest = hashlib.sha256(raw).hexdigest()
            record |= {"sha256": digest, "file": f"{digest[:16]}.safetensors"}
            found[record["file"]] = raw
            record["tensors"] = listing(parse(raw))
        except Exception:
            pass
        try:
            record["checksum"] = checksum(record)
            found[record_name] = json.dumps(record).encode()
        except Exception:
            pass
        return found

    return sealed


# -- changes

LEAVES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"),
    "", "x", "inf", "-inf", "nan", "Tagger", "types", "../x", "\ud800", "\0", "a" * 300, [], {}, [[]], [0], [1, 2],
    ["x"], {"x": 1}, {"types": ["a", "b"], "unknown": None}, {"types": "ab", "unknown": "a"},
)  # fmt: skip
HEADERS = (b"'<i4'", b"'<i8'", b"'<f8'", b"'|O'", b"'<U9'", b"'V4'", b"(0,)", b"(1,)", b"(2, 3)", b"()", b"(-1,)",
           b"True", b"(99999999999,)", b"(99999999999999999999,)", b"(9999999, 99999999)")  # fmt: skip
TOKENS = (b"\n", b"\n\n", b"\t", b" ", b"\0", b"\r", b"\xff", b"\xef\xbb\xbf", b"\xc2\x85", b"\xe2\x80\xa8",
          b"\xed\xa0\x80", b"_", b"-", b"/", b"\\", b"(", b")", b"(" * 50, b"#", b"|||", b"0", b"1", b"9" * 12,
          b"9" * 5000, b"0-0", b"0?1", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0")  # fmt: skip


def spoil(rng: random.Random, files: Files) -> Files:
    """A few changes to one of the files, or to what there is."""
    found = dict(files)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not found:
            break
        name = rng.choice(sorted(found))
        match rng.randrange(20):
            case 0:
                found[name] = rng.choice(sorted(ODD)) if len(files) > 1 else b""
            case 1 if len(files) > 1:
                del found[name]
            case 2 if len(files) > 1:
                found[rng.choice(sorted(found))] = found[name]
            case _:
                found[name] = spoil_bytes(rng, name, found[name])
    return found


def spoil_bytes(rng: random.Random, name: str, raw: bytes) -> bytes:
    """A change that knows the format, or one that does not."""
    if name.endswith(".json") and rng.random() < 0.8:
        try:
            return json.dumps(spoil_json(rng, json.loads(raw))).encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError):
            pass
    if name.endswith(".safetensors") and rng.random() < 0.8:
        try:
            return spoil_tensors(rng, raw)
        except Exception:  # of safetensors, on what is none any more
            pass
    if name.endswith(".npy") and rng.random() < 0.5:
        places = list(re.finditer(rb"'[<|][a-zA-Z][0-9]+'|\([0-9, -]*\)|False|True", raw[:128]))
        if places:
            place = rng.choice(places)
            return raw[: place.start()] + rng.choice(HEADERS) + raw[place.end() :]
    content = bytearray(raw)
    start = rng.randrange(len(content) + 1)
    end = min(len(content), start + rng.randrange(40))
    place, piece = rng.randrange(len(content) + 1), bytes(content[start:end])
    match rng.randrange(6):
        case 0:
            del content[start:end]
        case 1:
            content[place:place] = piece
        case 2:
            content[start:end] = rng.choice(TOKENS)
        case 3:
            content[start : start + 1] = bytes([rng.randrange(256)])
        case 4:
            content[place:place] = rng.choice(TOKENS)
        case _:
            lines = bytes(content).split(b"\n")
            rng.shuffle(lines)
            return b"\n".join(lines)
    return bytes(content)


def spoil_json(rng: random.Random, value: Any) -> Any:
    """One place in a nested value replaced, dropped, wrapped, or put somewhere else."""
    place: Any = value
    while isinstance(place, dict | list) and place:
        key = rng.choice(sorted(place)) if isinstance(place, dict) else rng.randrange(len(place))
        inner = place[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.8:
            place = inner
            continue
        match rng.randrange(8):
            case 0:
                del place[key]
            case 1:
                place[key] = [inner]
            case 2:
                place[key] = value if rng.random() < 0.1 else json.loads(json.dumps(place))
            case 3 if isinstance(inner, int):
                place[key] = inner + rng.choice((-1, 1, 2, 10**9))
            case _:
                place[key] = rng.choice(LEAVES)
        return value
    return rng.choice(LEAVES)


def spoil_tensors(rng: random.Random, raw: bytes) -> bytes:
    """One tensor with other numbers, of another dtype, of another shape, under another name, or gone."""
    import torch
    from safetensors.torch import load as parse
    from safetensors.torch import save as to_bytes

    tensors = dict(parse(raw))
    name = rng.choice(sorted(tensors))
    x = tensors[name].clone()
    match rng.randrange(7):
        case 0:
            del tensors[name]
        case 1:
            tensors[rng.choice(sorted(tensors))] = x
        case 2:
            tensors[name] = x.to(
                rng.choice((torch.float32, torch.float64, torch.int64, torch.int8, torch.bool, torch.bfloat16))
            )
        case 3:
            tensors[name] = rng.choice(
                (x.reshape(-1), x[None], x[..., :-1] if x.ndim else x, torch.cat([x, x]) if x.ndim else x)
            )
        case 4:
            tensors[name] = torch.zeros(rng.choice(((0,), (1,), (3, 0), (2, 2), ())), dtype=x.dtype)
        case _:
            if x.numel():
                flat = x.reshape(-1)
                values: tuple[Any, ...] = (0, -1, 1, 100, 2**31 - 1, -(2**31))
                values = (
                    (*values, float("nan"), float("inf"), -float("inf"), 1e300) if x.is_floating_point() else values
                )
                value = rng.choice(values)
                if x.dtype in (torch.int8, torch.uint8, torch.bool, torch.int16):
                    value = max(-100, min(100, int(value)))
                flat[rng.randrange(len(flat))] = value
                tensors[name] = flat.reshape(x.shape)
    return bytes(to_bytes({key: value.contiguous().clone() for key, value in tensors.items()}))

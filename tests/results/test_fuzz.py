"""Noise in place of saved fits: a fit or an error of one line, whatever is in the files."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load as parse

import pyro_unsup as pu
from pyro_unsup import InputError

from .cases import anonymous, with_dictionary
from .damage import Record, put_back, rewrite, tensors_of

FUZZ = settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def survives(folder: Path, model: Any = None) -> None:
    """Loading gives a fit that can be looked at, or an InputError of one line."""
    try:
        fit = pu.load(folder, model)
    except InputError as error:
        message = str(error)
    else:
        message = ""
        usable(fit)
    assert "\n" not in message
    assert len(message) < 1000


def usable(fit: pu.Fit) -> None:
    assert isinstance(fit, pu.Fit)
    assert repr(fit)
    assert fit._repr_html_()
    assert len(fit.history) > 0
    if hasattr(fit.model, "declarations"):
        assert fit.predict([[0, 0], [0]]).shape == (3,)


LEAF = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 100),
    st.integers(),
    st.just(10**400),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["inf", "-inf", "nan", "Tagger", "types", "torch.float64", "../x", "1e999"]),
)
JSON = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["name", "settings", "types", "unknown", "tags", "shape", "labels", "start", "x"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a nested value; long lists by their ends."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [places(x, (*path, key)) for key, x in inner if not isinstance(key, int) or key in (0, 1, len(value) - 1)]
    return [path, *(one for part in found for one in part)]


@FUZZ
@given(data=st.data())
def test_any_record_is_a_fit_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    """Some parts of a record replaced, dropped or doubled, with a checksum that is right."""
    folder = tmp_path / "fit"
    put_back(folder, data.draw(st.sampled_from([anonymous, with_dictionary])))

    def change(record: Record) -> None:
        for _ in range(data.draw(st.integers(1, 3))):
            part = data.draw(
                st.sampled_from(sorted(record.keys() - {"kind", "schema", "checksum", "file", "sha256"}) or [*record])
            )
            path = data.draw(st.sampled_from(places(record[part], (part,))))
            place: Any = record
            for step in path[:-1]:
                place = place[step]
            kind = data.draw(st.sampled_from(["replace", "replace", "drop", "wrap", "move"]))
            if kind == "drop":
                del place[path[-1]]
            elif kind == "wrap":
                place[path[-1]] = [place[path[-1]]]
            elif kind == "move":
                other: Any = record
                for step in data.draw(st.sampled_from(places(record)[1:])):
                    other = other[step]
                place[path[-1]] = json.loads(json.dumps(other))
            else:
                place[path[-1]] = data.draw(JSON)
            if not record:
                return

    try:
        rewrite(folder, change)
    except ValueError:  # NaN and infinities: the checksum cannot be made right
        return
    survives(folder)


@FUZZ
@given(data=st.data())
def test_any_bytes_in_place_of_the_record_are_a_fit_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    folder = tmp_path / "fit"
    put_back(folder, anonymous)
    raw = (folder / "fit.json").read_bytes()
    start = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(start, min(len(raw), start + 50)))
    (folder / "fit.json").write_bytes(raw[:start] + data.draw(st.binary(max_size=20)) + raw[end:])
    survives(folder)


@FUZZ
@given(data=st.data())
def test_any_tensors_are_a_fit_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    """Bytes of the file replaced, most of them in its header; checksums are right, and the listing follows."""
    folder = tmp_path / "fit"
    put_back(folder, data.draw(st.sampled_from([anonymous, with_dictionary])))
    raw = tensors_of(folder).read_bytes()
    head = 8 + struct.unpack("<Q", raw[:8])[0]
    start = data.draw(st.integers(0, data.draw(st.sampled_from([8, head, len(raw)]))))
    end = data.draw(st.integers(start, min(len(raw), start + 12)))
    keep = data.draw(st.booleans())  # the length, so that more of the headers can be read
    patch = data.draw(st.binary(min_size=end - start, max_size=end - start) if keep else st.binary(max_size=12))
    if data.draw(st.booleans()):
        patch = bytes(data.draw(st.sampled_from(b'0123456789FIUB[]{}:,"-')) for _ in range(len(patch)))
    raw = raw[:start] + patch + raw[end:]

    def relist(record: Record) -> None:
        try:
            tensors = parse(raw)
        except Exception:
            return
        record["tensors"] = {name: {"shape": list(x.shape), "dtype": str(x.dtype)} for name, x in tensors.items()}

    rewrite(folder, relist, raw)
    survives(folder)

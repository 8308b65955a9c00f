"""Run the tutorials from a clean kernel, and save or compare what they show.

python -m tests.notebooks               runs all of them and compares their outputs with those that are saved
python -m tests.notebooks 03 05         only these
python -m tests.notebooks --write 03    saves what 03 shows
python -m tests.notebooks --smoke       runs them as Pyro's own tests run tutorials, with small sizes; compares nothing

Real corpora are switched off, so everyone gets the saved outputs.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import nbformat
import numpy as np
from nbclient import NotebookClient
from nbformat import NotebookNode
from PIL import Image

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "tutorials").glob("[0-9]*.ipynb"))
#: Relative difference up to which two printed numbers are the same. A cell may have another one in its metadata, under
#: ``tolerance``: draws of NUTS depend on the last digits of every step, and those on the machine.
CLOSE = 1e-3
#: Numbers this small are rounding errors, and differ from machine to machine.
TINY = 1e-6
#: Share of the ink of a picture that may differ, and of its width and height: fonts change with matplotlib.
INK, SIZE = 0.15, 0.03
NUMBER = re.compile(r"[-+\N{MINUS SIGN}]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
#: What a kernel must not inherit: the switch to smoke tests, and folders of real corpora.
UNSET = ("CI", "PYRO_UNSUP_DATA", "PYRO_UNSUP_TREEBANK")


def execute(path: Path, smoke: bool = False) -> NotebookNode:
    """The notebook with the outputs of a clean kernel. An error of a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    environment = {name: value for name, value in os.environ.items() if name not in UNSET}
    environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    with mock.patch.dict(os.environ, environment | ({"CI": "true"} if smoke else {}), clear=True):
        resources = {"metadata": {"path": str(path.parent)}}
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
    return clean(notebook)


def clean(notebook: NotebookNode) -> NotebookNode:
    """Without times and versions, with small pictures, and with a hash of the sources that made the outputs."""
    for number, cell in enumerate(code_cells(notebook), start=1):
        cell.execution_count = number
        cell.metadata.pop("execution", None)
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = shrunk(output.data["image/png"])
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.metadata["sources"] = digest(notebook)
    return notebook


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def digest(notebook: NotebookNode) -> str:
    """A hash of all code: if it is not the saved one, the outputs belong to other code."""
    return hashlib.sha256("\0".join(cell.source for cell in code_cells(notebook)).encode()).hexdigest()


def picture(png: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")


def shrunk(png: str) -> str:
    """The same picture in 128 colours, which plots do not exceed by much."""
    file = io.BytesIO()
    picture(png).quantize(128, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def differences(saved: NotebookNode, found: NotebookNode) -> Iterator[str]:
    """What is shown in another way than it was saved, by cell."""
    for old, new in zip(code_cells(saved), code_cells(found), strict=True):
        before, after = merged(old.outputs), merged(new.outputs)
        if [one.output_type for one in before] != [one.output_type for one in after]:
            yield f"cell {old.id}: other kinds of outputs than saved"
            continue
        for one, other in zip(before, after, strict=True):
            for what in compare(one, other, old.metadata.get("tolerance", CLOSE)):
                yield f"cell {old.id}: {what}"


def merged(outputs: Sequence[NotebookNode]) -> list[NotebookNode]:
    """Outputs with all that was written to one stream in one piece: where it is cut is chance."""
    kept: list[NotebookNode] = []
    for output in map(NotebookNode, outputs):
        if kept and output.output_type == kept[-1].output_type == "stream" and output.name == kept[-1].name:
            kept[-1].text += output.text
        else:
            kept.append(output)
    return kept


def compare(saved: NotebookNode, found: NotebookNode, close: float = CLOSE) -> Iterator[str]:
    if saved.output_type == "stream":
        yield from compare_text(saved.text, found.text, close)
        return
    if saved.data.keys() != found.data.keys():
        yield f"shown as {', '.join(found.data)}, saved as {', '.join(saved.data)}"
        return
    for kind in saved.data:
        if kind == "image/png":
            yield from compare_pictures(picture(saved.data[kind]), picture(found.data[kind]), INK + close)
        elif not saved.data[kind].startswith("<Figure"):  # a size in pixels
            yield from compare_text(saved.data[kind], found.data[kind], close)


def compare_text(saved: str, found: str, close: float = CLOSE) -> Iterator[str]:
    """Numbers by value, as precisely as they are printed; the rest exactly, but for the width of columns."""
    words, others = (re.sub(r"[\s-]+", " ", NUMBER.sub("#", text)).strip() for text in (saved, found))
    numbers, values = NUMBER.findall(saved), NUMBER.findall(found)
    if words != others or len(numbers) != len(values):
        yield f"text is\n{found}\nand was\n{saved}"
    elif wrong := [(a, b) for a, b in zip(numbers, values, strict=True) if not same_number(a, b, close)]:
        yield "; ".join(f"{b}, was {a}" for a, b in wrong) + f" in\n{found}"


def same_number(saved: str, found: str, close: float = CLOSE) -> bool:
    if saved == found:
        return True
    a, b = (float(one.replace(",", "").replace("\N{MINUS SIGN}", "-")) for one in (saved, found))
    mantissa, _, exponent = saved.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    last = 1.01 * 10.0 ** (int(exponent or 0) - decimals) if decimals else 0.0  # one step of the last digit
    return abs(a - b) <= max(TINY, last, close * abs(a))


def compare_pictures(saved: Image.Image, found: Image.Image, ink: float = INK) -> Iterator[str]:
    if any(abs(a - b) > SIZE * a for a, b in zip(saved.size, found.size, strict=True)):
        yield f"the picture has {found.size} pixels, and had {saved.size}"
        return
    box = (max(1, saved.width // 8), max(1, saved.height // 8))
    a, b = (255.0 - np.asarray(one.resize(box, Image.Resampling.BOX), float) for one in (saved, found))
    if np.abs(a - b).sum() > ink * np.maximum(a, b).sum():
        yield f"{np.abs(a - b).sum() / np.maximum(a, b).sum():.0%} of the picture has changed"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.notebooks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("numbers", nargs="*", metavar="NUMBER")
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--write", action="store_true")
    either.add_argument("--smoke", action="store_true")
    chosen = parser.parse_args(arguments)
    known = {path.name.partition("_")[0]: path for path in NOTEBOOKS}
    if unknown := set(chosen.numbers) - known.keys():
        parser.error(f"no tutorial {', '.join(sorted(unknown))}, expected some of {', '.join(known)}")
    failed = 0
    for path in [known[number] for number in chosen.numbers or known]:
        begun = time.perf_counter()
        found = execute(path, chosen.smoke)
        print(f"{path.name}: {time.perf_counter() - begun:.1f} s", file=sys.stderr)
        if chosen.write:
            nbformat.write(found, path)
        elif not chosen.smoke:
            wrong = list(differences(nbformat.read(path, as_version=4), found))
            failed += bool(wrong)
            print(*wrong, sep="\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

"""The matrix of models and algorithms, as it is found by running all of it.

python -m tests.matrix                                  runs every cell and prints the matrix
python -m tests.matrix --write docs/reference/matrix.md   and puts it in its place in a text
python -m tests.matrix --check docs/reference/matrix.md   compares a text with what the suite declares; runs nothing
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path

import pyro
import torch
from tqdm import tqdm

from .algorithms import ALGORITHMS
from .cells import check, put, split, table
from .models import MODELS


def run() -> set[tuple[str, str]]:
    """Run every cell as the tests do; which ones are not as declared."""
    warnings.simplefilter("error")
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    failed = set()
    for model, algorithm in tqdm([*itertools.product(MODELS, ALGORITHMS)], unit="cell"):
        pyro.set_rng_seed(0)
        pyro.clear_param_store()
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(model, algorithm, Path(folder) / "cell")
            except BaseException as error:  # pytest's failures are no exceptions
                if isinstance(error, KeyboardInterrupt):
                    raise
                failed.add((model, algorithm))
                print(f"\n{algorithm} on {model}:", file=sys.stderr)
                traceback.print_exception(error)
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.matrix", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--write", type=Path, metavar="TEXT")
    either.add_argument("--check", type=Path, metavar="TEXT")
    chosen = parser.parse_args(arguments)
    if chosen.check is not None:
        same = split(chosen.check.read_text())[1] == table()
        print(f"{chosen.check}: {'as declared' if same else 'out of date: python -m tests.matrix --write'}")
        return int(not same)
    if chosen.write is not None:
        split(chosen.write.read_text())  # better known now than after the run
    failed = run()
    matrix = table(failed)
    print(matrix)
    if chosen.write is not None:
        chosen.write.write_text(put(chosen.write.read_text(), matrix))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

"""An environment with the peers in it, made by pip once and kept as long as the pins stay as they are."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: What everything stands on. torch comes first, so that nothing that follows brings another one.
BASE = ("torch==2.13.0", "numpy==2.4.6", "scipy==1.17.1", "numba==0.68.1", "pyro-ppl==1.9.2", "scikit-learn==1.9.1")
#: A peer, and what of that which it needs decides how fast it is.
PEERS = {
    "hmmlearn": ("hmmlearn==0.3.3",),
    "pomegranate": ("pomegranate==1.1.2",),
    "dynamax": ("dynamax==1.0.3", "jax==0.10.2", "jaxlib==0.10.2"),
    "torch-struct": ("torch-struct==0.5",),
    "supar": ("supar==1.1.4",),
    "sentencepiece": ("sentencepiece==0.2.2",),
    "eflomal": ("eflomal==2.0.0",),
    "nltk": ("nltk==3.10.4",),
    "lda": ("lda==3.0.2",),
    "tomotopy": ("tomotopy==0.14.0",),
}
#: Peers that come with what everything stands on.
INCLUDED = {"pyro": "pyro-ppl", "scikit-learn": "scikit-learn"}


def default() -> Path:
    """Where the environment is unless told otherwise: in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return cache / "pyro_unsup" / f"peers-{sys.version_info.major}.{sys.version_info.minor}"


def python_of(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def ready(folder: Path) -> Path:
    """The interpreter of the environment in this folder, which is made or brought up to date if need be."""
    python, note, pins = python_of(folder), folder / "pins.txt", _pins()
    if python.exists() and note.exists() and note.read_text(encoding="utf-8") == pins:
        return python
    print(f"making an environment in {folder}; this takes a few minutes, once", flush=True)
    venv.create(folder, with_pip=True)
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join([*BASE, *(pin for pins_ in PEERS.values() for pin in pins_)]), encoding="utf-8")
    install = [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(constraints)]
    if problem := _pip([*install, *BASE]) or _pip([*install, "--editable", str(ROOT)]):
        sys.exit(f"pyro_unsup could not be installed into {folder}: {problem}")
    left_out = []
    for peer, requirements in PEERS.items():
        print(f"  {peer}", flush=True)
        if problem := _pip([*install, *requirements]):
            left_out.append(f"{peer}: {problem}")
    (folder / "left_out.txt").write_text("\n".join(left_out), encoding="utf-8")
    note.write_text(pins, encoding="utf-8")
    return python


def left_out(folder: Path) -> dict[str, str]:
    """Peers that could not be installed, and what pip said."""
    lines = (folder / "left_out.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines)


def _pins() -> str:
    lines = [*BASE, *(pin for pins in PEERS.values() for pin in pins), f"pyro_unsup in {ROOT}"]
    return "\n".join(lines)


def _pip(command: list[str]) -> str:
    """What went wrong in a line, or nothing."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return ""
    said = done.stderr.splitlines()
    return next((line for line in reversed(said) if "error" in line.lower()), "pip failed and did not say why").strip()

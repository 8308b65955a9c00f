"""The files for clusters: what they start does what it says, with stand-ins for the cluster's own commands."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import pyro_unsup as pu
from pyro_unsup.data import toy, write_tagged

FILES = Path(__file__).parents[2] / "docs" / "clusters"
PATIENCE = 240  # seconds

pytestmark = pytest.mark.deep


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tagged(toy.sentences(100, seed=1), None, tmp_path / "train.conllu", "conllu")
    return tmp_path


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def environment(folder: Path, **more: str) -> dict[str, str]:
    bin = folder / "bin"
    bin.mkdir(exist_ok=True)
    stands_in = {
        "torchrun": f'exec "{sys.executable}" -m torch.distributed.run "$@"',
        "srun": 'exec "$@"',
        "scontrol": '[ "$*" = "show hostnames $SLURM_JOB_NODELIST" ] && printf "127.0.0.1\\nanother\\n"',
    }
    for name, does in stands_in.items():
        (bin / name).write_text(f"#!/bin/sh\n{does}\n")
        (bin / name).chmod(0o755)
    path = f"{bin}{os.pathsep}{os.environ['PATH']}"
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PATH": path, "PYTHONPATH": root, "OMP_NUM_THREADS": "1", **more}


def small(command: str) -> str:
    """The same with little to learn."""
    assert "--tags 45" in command
    return command.replace("--tags 45", "--tags 3 --algorithm em --max-iterations 3")


def test_slurm(folder: Path) -> None:
    (folder / "slurm.sh").write_text(small((FILES / "slurm.sh").read_text()))
    given = {"SLURM_JOB_NODELIST": "127.0.0.[1-2]", "SLURM_JOB_NUM_NODES": "1", "SLURM_CPUS_PER_TASK": "2"}
    env = environment(folder, SLURM_JOB_ID="7", PORT=str(free_port()), **given)
    ended = subprocess.run(
        ["bash", "slurm.sh", "train.conllu"], cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE
    )
    assert ended.returncode == 0, ended.stderr
    assert pu.load(folder / "tagger").report.iterations == 3


def test_kubernetes(folder: Path) -> None:
    """Both pods, as processes of this machine."""
    text = (FILES / "kubernetes.yaml").read_text()
    found = re.search(r"args:\n +- >-\n(.*?)\n +resources:", text, re.S)
    assert found is not None
    command = " ".join(line.strip() for line in found[1].splitlines())
    assert "subdomain: fit\n" in text  # so that the first pod is called as the command says
    assert "fit-0.fit" in command
    command = small(command.replace("fit-0.fit", "127.0.0.1").replace("29500", str(free_port())))
    command = command.replace("--nproc-per-node 4", "--nproc-per-node 1")
    pods = [
        subprocess.Popen(
            ["/bin/sh", "-c", command], cwd=folder, env=environment(folder, JOB_COMPLETION_INDEX=str(k)),
            stderr=subprocess.PIPE, text=True,
        )
        for k in range(2)
    ]  # fmt: skip
    said = [pod.communicate(timeout=PATIENCE)[1] for pod in pods]
    assert [pod.returncode for pod in pods] == [0, 0], said
    assert pu.load(folder / "tagger").report.iterations == 3


def test_ray(folder: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not among the packages for tests: pip install 'ray[train]'")
    toy.sentences(100, seed=1).save(folder / "text")
    command = [sys.executable, str(FILES / "ray_fit.py"), str(folder), "2"]
    subprocess.run(command, env=environment(folder), check=True, timeout=PATIENCE)
    assert pu.load(folder / "fit").report.iterations == 8

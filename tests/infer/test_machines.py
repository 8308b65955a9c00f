"""Several machines, really: two hosts that are network namespaces, with memory, disks and addresses of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import toy
from pyro_unsup.infer import heartbeat

pytestmark = pytest.mark.deep
PATIENCE = 240  # seconds

#: What runs on each host: it learns from the part of the text on its own disk, and keeps a checkpoint an iteration.
SCRIPT = """
import sys, torch.distributed as dist, pyro_unsup as pu
from pathlib import Path
from pyro_unsup.infer.loop import Checkpoints
Checkpoints.__init__.__defaults__ = (0.0,)
disk, iterations = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
corpus = pu.data.Corpus.open(disk + "/part")
engine = pu.EM(pu.models.Tagger(4, corpus.vocab))
kept = disk + "/kept"
resume = pu.load(kept) if Path(kept).exists() else None
def tell(info):
    Path(disk, "iteration").write_text(str(info.iteration))
options = {"tolerance": 0, "sharded": True, "progress": False, "checkpoint": kept, "resume": resume}
fit = engine.run(corpus, iterations=iterations, callbacks=[tell], **options)
fit.save(disk + "/fit", overwrite=True)
"""


@dataclass
class Host:
    """A machine of its own, as far as the network, shared memory and its disk tell."""

    name: str
    rank: int
    disk: Path

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(self.rank)]
        torchrun += ["--nproc-per-node", "1", "--master-addr", "10.83.7.1", "--master-port", "29511", *arguments]
        # `ip netns exec` has mounts of its own: this memory is seen by nobody else.
        inside = ["sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh", *torchrun]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "wire", "PYTHONPATH": os.getcwd()}
        return subprocess.Popen(
            ["ip", "netns", "exec", self.name, *inside],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    @property
    def iteration(self) -> int:
        told = self.disk / "iteration"
        return int(told.read_text() or 0) if told.exists() else 0


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Host]]:
    if shutil.which("ip") is None:
        pytest.skip("no command ip (package iproute2), which makes network namespaces")
    both = [Host(f"pu{os.getpid()}{name}", rank, tmp_path / name) for rank, name in enumerate("ab")]
    try:
        try:
            for one in both:
                ip("netns", "add", one.name)
            ip(
                "link",
                "add",
                "wire",
                "netns",
                both[0].name,
                "type",
                "veth",
                "peer",
                "name",
                "wire",
                "netns",
                both[1].name,
            )
            for one in both:
                ip("-n", one.name, "address", "add", f"10.83.7.{one.rank + 1}/24", "dev", "wire")
                ip("-n", one.name, "link", "set", "wire", "up")
                ip("-n", one.name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces are not permitted here: {error.stderr.decode().strip()}")
        text = toy.sentences(120, seed=3)
        for one in both:
            one.disk.mkdir()
            pu.data.write_flat(text.select(np.arange(len(text)) % 2 == one.rank), one.disk / "part")
        yield both
    finally:
        for one in both:
            subprocess.run(["ip", "netns", "delete", one.name], check=False, capture_output=True)


def end(*processes: subprocess.Popen[str]) -> None:
    for one in processes:
        if one.poll() is None:
            os.killpg(one.pid, signal.SIGKILL)
        one.communicate()


def script(folder: Path) -> str:
    file = folder / "learn.py"
    file.write_text(SCRIPT)
    return str(file)


def assert_as_alone(found: pu.Fit, iterations: int) -> None:
    """As one process finds it."""
    text = toy.sentences(120, seed=3)
    alone = pu.EM(pu.models.Tagger(4, text.vocab)).run(text, iterations=iterations, tolerance=0, progress=False)
    assert [row["objective"] for row in found.rows] == pytest.approx([row["objective"] for row in alone.rows], rel=1e-9)
    for name, w in alone.weights.items():
        torch.testing.assert_close(found.weights[name].exp(), w.exp(), rtol=0, atol=1e-9)


def test_each_host_has_a_part_of_the_text_on_its_own_disk(hosts: list[Host]) -> None:
    learn = str(Path(__file__).parents[2] / "docs" / "examples" / "several_machines.py")
    running = [one.start(learn, str(one.disk)) for one in hosts]
    try:
        for one in running:
            said, _ = one.communicate(timeout=PATIENCE)
            assert one.returncode == 0, said
    finally:
        end(*running)
    for one in hosts:
        assert_as_alone(pu.load(one.disk / "fit"), 8)


def test_the_same_command_on_both_hosts(hosts: list[Host], tmp_path: Path) -> None:
    """The first one writes."""
    pu.data.write_flat(toy.sentences(120, seed=3), tmp_path / "text")
    fit = ["-m", "pyro_unsup", "fit", "tagger", str(tmp_path / "text"), "--tags", "4", "--algorithm", "em"]
    fit += ["--max-iterations", "8", "--tolerance", "0", "--out"]
    running = [one.start(*fit, str(one.disk / "fit")) for one in hosts]
    try:
        for one in running:
            said, _ = one.communicate(timeout=PATIENCE)
            assert one.returncode == 0, said
    finally:
        end(*running)
    assert_as_alone(pu.load(hosts[0].disk / "fit"), 8)
    assert not (hosts[1].disk / "fit").exists()


@pytest.mark.parametrize("gone", [0, 1])
def test_a_host_that_is_cut_off_is_noticed_within_a_minute(hosts: list[Host], tmp_path: Path, gone: int) -> None:
    learn, left = script(tmp_path), hosts[1 - gone]
    running = [one.start(learn, str(one.disk), "1000000") for one in hosts]
    try:
        deadline = time.monotonic() + PATIENCE
        while min(one.iteration for one in hosts) < 20:
            assert all(one.poll() is None for one in running), running[1 - gone].communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.05)
        ip("-n", hosts[gone].name, "link", "set", "wire", "down")
        cut = time.monotonic()
        said, _ = running[1 - gone].communicate(timeout=PATIENCE)
        assert time.monotonic() - cut < 60
        assert running[1 - gone].returncode != 0
        assert f"process {1 - gone} of 2 has lost another one" in said
        assert f"no sign of life from process {gone} for {heartbeat.SILENCE:g} seconds" in said
        assert "start all processes again, with resume" in said
    finally:
        end(*running)
    kept = pu.load(hosts[0].disk / "kept")  # the first process keeps checkpoints, which both hosts read
    reached = int(kept.report.iterations)
    assert 20 <= reached <= left.iteration + 1
    if not (hosts[1].disk / "kept").exists():
        shutil.copytree(hosts[0].disk / "kept", hosts[1].disk / "kept")
    ip("-n", hosts[gone].name, "link", "set", "wire", "up")
    running = [one.start(learn, str(one.disk), str(reached + 5)) for one in hosts]
    try:
        for one in running:
            said, _ = one.communicate(timeout=PATIENCE)
            assert one.returncode == 0, said
    finally:
        end(*running)
    assert_as_alone(pu.load(hosts[0].disk / "fit"), reached + 5)

"""The GPU's clock, swap, and what the kernel keeps free: the shipped script, with doubles of what only root may do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from operations.node.machine import gpu
from operations.plan.config.files import render
from tests.node.test_doctor import DOUBLES


class Node:
    """A kernel's files, and a log of what doubles of nvidia-smi, swapoff and swapon were told."""

    def __init__(self, home: Path) -> None:
        self.home, self.log = home, home / "log"
        self.min_free = home / "vm/min_free_kbytes"
        for name in ("bin", "vm", "run"):
            (home / name).mkdir()
        self.min_free.write_text("67584\n")
        self.log.write_text("")
        (home / "bin/nvidia-smi").symlink_to(DOUBLES / "nvidia_smi_double")
        for name in ("swapoff", "swapon"):
            (home / "bin" / name).write_text(f'#!/bin/sh\necho "{name} $*" >>"$DOUBLE_LOG"\n')
            (home / "bin" / name).chmod(0o755)

    def run(self, act: str, clock: int = 0, no_swap: bool = False, min_free: int = 0) -> list[str]:
        """What the doubles were told by one run of the script."""
        self.log.write_text("")
        script = render("tuning/tuning.sh.j2", clock=clock, no_swap=no_swap, min_free=min_free)
        path = f"{self.home}/bin:{os.environ['PATH']}"
        places = {"TANDEM_RUN": f"{self.home}/run", "TANDEM_VM": f"{self.home}/vm", "DOUBLE_LOG": str(self.log)}
        subprocess.run(["sh", "-c", script, "tuning.sh", act], env={**os.environ, "PATH": path, **places}, check=True)
        return self.log.read_text().splitlines()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_what_is_set_is_taken_back_and_nothing_else(node: Node) -> None:
    assert node.run("set", clock=2100) == ["--lock-gpu-clocks=0,2100"]
    assert node.run("undo", clock=2100) == ["--reset-gpu-clocks"]
    assert node.run("undo", clock=2100) == []
    assert node.run("set", no_swap=True) == ["swapoff --all"]
    assert node.run("undo", no_swap=True) == ["swapon --all"]
    assert node.min_free.read_text() == "67584\n"


def test_the_kernel_keeps_again_what_it_has_kept_before(node: Node) -> None:
    node.run("set", min_free=1_048_576)
    assert node.min_free.read_text() == "1048576\n"
    # Set once more, as after a start that was broken off: what was before is what was first.
    node.run("set", min_free=2_097_152)
    node.run("undo")
    assert node.min_free.read_text() == "67584\n"


def test_one_that_can_t_be_taken_back_keeps_no_other(node: Node) -> None:
    node.run("set", clock=2100, min_free=1_048_576)
    (node.home / "bin/nvidia-smi").unlink()
    (node.home / "bin/nvidia-smi").write_text("#!/bin/sh\necho Driver/library version mismatch >&2; exit 18\n")
    (node.home / "bin/nvidia-smi").chmod(0o755)
    node.run("undo")
    assert node.min_free.read_text() == "67584\n"


def test_what_nvidia_smi_refuses_fails(node: Node) -> None:
    (node.home / "bin/nvidia-smi").unlink()
    (node.home / "bin/nvidia-smi").write_text("#!/bin/sh\nexit 3\n")
    (node.home / "bin/nvidia-smi").chmod(0o755)
    with pytest.raises(subprocess.CalledProcessError, match="status 3"):
        node.run("set", clock=2100, no_swap=True, min_free=1_048_576)
    # The others are set all the same, and what was not set is not taken back.
    assert node.min_free.read_text() == "1048576\n" and node.log.read_text() == "swapoff --all\n"
    assert node.run("undo") == ["swapon --all"]


def test_nvidia_smi_is_not_waited_for_where_the_driver_hangs(node: Node) -> None:
    # A stand-in for timeout, with less patience.
    (node.home / "bin/timeout").write_text('#!/bin/sh\n[ "$1" = 30 ] && shift && exec /usr/bin/timeout 0.2 "$@"\n')
    (node.home / "bin/timeout").chmod(0o755)
    (node.home / "bin/nvidia-smi").unlink()
    (node.home / "bin/nvidia-smi").write_text("#!/bin/sh\nexec sleep 60\n")
    (node.home / "bin/nvidia-smi").chmod(0o755)
    with pytest.raises(subprocess.CalledProcessError, match="status 124"):
        node.run("set", clock=2100)


@pytest.mark.parametrize(
    ("highest", "supported", "told"),
    [
        ("3003", "[N/A]", {"gpus": 1, "lowest_mhz": None, "highest_mhz": 3003.0}),
        ("3003", "3003\\n2100\\n208", {"gpus": 1, "lowest_mhz": 208.0, "highest_mhz": 3003.0}),
        ("[N/A]", "2418\\n208", {"gpus": 1, "lowest_mhz": 208.0, "highest_mhz": 2418.0}),
        ("[N/A]", "[N/A]", {"gpus": 1, "lowest_mhz": None, "highest_mhz": None}),
    ],
)
def test_between_which_clocks_a_cap_may_lie(
    node: Node, monkeypatch: pytest.MonkeyPatch, highest: str, supported: str, told: dict[str, float | None]
) -> None:
    monkeypatch.setenv("PATH", f"{node.home}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("DOUBLE_HIGHEST", highest)
    monkeypatch.setenv("DOUBLE_CLOCKS", supported)
    assert gpu.clocks() == told


def test_without_nvidia_smi_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu.clocks() == {"gpus": 0, "lowest_mhz": None, "highest_mhz": None}

"""What keeps an engine from the GPU, by the words of a double of nvidia-smi: no GPU is here."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from operations.node.machine import gpu, on_gpu

DOUBLE = Path(__file__).parent / "doubles/nvidia_smi_double"
DESKTOP = "2101, /usr/libexec/gnome-remote-desktop-daemon, 340\n1733, /usr/bin/gnome-shell --x11, 1890"


@pytest.fixture(autouse=True)
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(DOUBLE, tmp_path / "nvidia-smi")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(on_gpu, "HANGS", tmp_path / "run/nvidia-smi.pid")


@pytest.mark.parametrize(
    "apps",
    [
        "",
        DESKTOP,
        "900, /usr/lib/xorg/Xorg, [N/A]",
        "77, /opt/google/chrome/chrome --type=gpu-process, 310",
        "4000, /usr/local/bin/ollama, 41000",
        "4000, /usr/local/lib/ollama/llama-server, 41000",
    ],
)
def test_desktops_small_programs_and_who_gives_back_are_let_be(apps: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOUBLE_APPS", apps)
    assert on_gpu.main([]) == []


@pytest.mark.parametrize(
    ("app", "said"),
    [
        ("4711000, python3, 20992", "python3 (pid 4711000) with 20.5 GiB"),
        ("4711000, /venv/bin/comfyui, [N/A]", "/venv/bin/comfyui (pid 4711000) with an unknown part of the memory"),
        ("4711000, [Not Found], 2048 MiB", "[Not Found] (pid 4711000) with 2.0 GiB"),
    ],
)
def test_what_is_in_the_way_is_named_with_its_memory(app: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOUBLE_APPS", f"{DESKTOP}\n{app}")
    assert on_gpu.main([]) == [(f"another program computes on the GPU: {said}", "end it: sudo kill 4711000", True)]


def test_an_engine_of_tandems_is_not_in_its_own_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_gpu, "PROC", tmp_path)
    (tmp_path / "4711000").mkdir()
    (tmp_path / "4711000/cgroup").write_text("0::/tandem.slice/docker-0123abcd.scope\n")
    monkeypatch.setenv("DOUBLE_APPS", "4711000, VLLM::EngineCore, 99000")
    assert on_gpu.main(["tandem.slice"]) == [] == on_gpu.main(["0123abcd"])
    assert on_gpu.main(["another.slice"]) and on_gpu.main([])


def test_a_driver_that_was_updated_is_no_program_and_wants_a_reboot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOUBLE_FAULT", "mismatch")
    (fault,) = on_gpu.main([])
    assert fault.problem.startswith("nvidia-smi ends with 18 (Failed to initialize NVML: Driver/library version mism")
    assert "the driver was updated" in fault.problem and fault.remedy == "reboot it"
    assert gpu.processes() == []


def test_a_driver_that_hangs_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_gpu, "PATIENCE_S", 0.3)
    # A process of that name, which the next question finds.
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho >>{tmp_path}/asked\ntrap '' TERM\nsleep 5\n")
    # A kill ends this double, and nothing that waits for its driver.
    monkeypatch.setattr(subprocess.Popen, "kill", lambda _process: None)
    begun = time.monotonic()
    for _ in range(2):
        (fault,) = on_gpu.main([])
        assert fault.problem == "nvidia-smi says nothing in 0.3 s: the GPU's driver hangs" and "reboot" in fault.remedy
    assert time.monotonic() - begun < 2
    assert (tmp_path / "asked").read_text() == "\n"


def test_without_nvidia_smi_nothing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert on_gpu.main([]) == []


def test_it_lands_beside_ready_sh_and_runs_there_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(Path(str(on_gpu.__file__)), tmp_path / "on_gpu.py")
    monkeypatch.setenv("DOUBLE_APPS", "4711000, comfyui, 4096")
    argv = ["/usr/bin/python3", "-I", str(tmp_path / "on_gpu.py"), "tandem.slice"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    problem = "another program computes on the GPU: comfyui (pid 4711000) with 4.0 GiB"
    assert said == f"{problem}; end it: sudo kill 4711000\n"

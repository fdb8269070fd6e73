"""KVM is taken where a kernel boots with it, and nowhere else; what was found is said once."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.lab.desk import OWN
from tests.lab.qemu import accelerator, command

DOUBLE = Path(__file__).with_name("qemu_double.py")
OTHER = next(arch for arch in command.ARCHITECTURES if arch != OWN)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a qemu (a double) and a /dev/kvm that opens; returns its cache folder."""
    program = tmp_path / "bin" / command.ARCHITECTURES[OWN].program
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {DOUBLE} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    (tmp_path / "kvm").touch()
    monkeypatch.setattr(accelerator, "KVM", tmp_path / "kvm")
    monkeypatch.setattr(accelerator, "CACHE", tmp_path)
    return tmp_path


def test_a_kernel_that_runs_with_kvm_is_believed_until_kvm_is_gone(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QEMU_DOUBLE_SAYS", "[    0.1] Linux version 6.12\n" + accelerator.RUNS)
    assert accelerator.chosen(OWN, machine / "vmlinuz", machine / "initramfs") == "kvm"
    assert capsys.readouterr().err == "lab: machines run on this processor (KVM)\n"
    monkeypatch.setenv("QEMU_DOUBLE_SAYS", "KVM internal error. Suberror: 1")
    assert accelerator.chosen(OWN, machine / "vmlinuz", machine / "initramfs") == "kvm"
    assert capsys.readouterr().err == ""
    (machine / "kvm").unlink()
    assert accelerator.chosen(OWN, machine / "vmlinuz", machine / "initramfs") == "tcg"
    assert "kvm: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("KVM internal error. Suberror: 1", "opens, and a kernel dies with it (KVM internal error)"),
        ("Could not access KVM kernel module", "opens, and no kernel was up with it in 40 s"),
    ],
)
def test_a_device_that_opens_is_no_boot(
    said: str, why: str, machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QEMU_DOUBLE_SAYS", said)
    assert accelerator.chosen(OWN, machine / "vmlinuz", machine / "initramfs") == "tcg"
    said_once = f"lab: machines are emulated (TCG), which is slow: {accelerator.KVM} {why}\n"
    assert capsys.readouterr().err == said_once


def test_a_kernel_that_says_nothing_is_not_waited_for_for_ever(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "PATIENCE_S", 0.2)
    assert "no kernel was up" in accelerator.why_not_kvm(OWN, machine / "vmlinuz", machine / "initramfs")


def test_without_a_device_or_a_right_to_it_or_for_another_architecture_nothing_is_booted(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QEMU_DOUBLE_SAYS", accelerator.RUNS)
    files = (machine / "vmlinuz", machine / "initramfs")
    assert accelerator.why_not_kvm(OTHER, *files) == f"{OTHER} is not this machine's architecture, {OWN}"
    monkeypatch.setattr(accelerator, "KVM", machine / "none")
    assert accelerator.why_not_kvm(OWN, *files) == f"{machine}/none: No such file or directory"

    def refuse(path: Path, flags: int) -> int:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(os, "open", refuse)
    assert accelerator.why_not_kvm(OWN, *files) == f"{machine}/none: Operation not permitted"

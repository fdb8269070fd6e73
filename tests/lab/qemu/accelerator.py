"""Whether machines run on this processor (KVM) or are emulated (TCG): a boot tells, a device file does not."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

from tests.lab.desk import OWN
from tests.lab.qemu import command
from tests.lab.settings import CACHE
from tests.lab.shell import TIED, say

KVM = Path("/dev/kvm")
#: What `init.sh` says when it is asked by the second word.
RUNS, ASKED = "tandem: this kernel runs", "tandem.runs"
#: Seconds: with KVM a kernel is up in two.
PATIENCE_S = 40.0
#: Qemu goes on after this, and the machine does not.
_BROKEN = "KVM internal error"


def is_emulated(arch: str) -> bool:
    """Whether machines of an architecture are, as `chosen` has found out."""
    kept = _kept(arch)
    return kept.exists() and kept.read_text() == "tcg"


def chosen(arch: str, kernel: Path, first: Path) -> str:
    """`kvm` or `tcg` for this machine's kernel, as found out once; what was found, and why, is said then."""
    kept = _kept(arch)
    # What runs may lose its right to KVM; what is emulated stays so, since each look takes most of a minute.
    if kept.exists() and (kept.read_text() == "tcg" or os.access(KVM, os.R_OK | os.W_OK)):
        return kept.read_text()
    why = why_not_kvm(arch, kernel, first)
    say(f"machines are emulated (TCG), which is slow: {why}" if why else "machines run on this processor (KVM)")
    aside = kept.with_suffix(".part")
    aside.write_text("tcg" if why else "kvm")
    aside.rename(kept)
    return kept.read_text()


def _kept(arch: str) -> Path:
    """Another kernel of this machine's may do otherwise."""
    return CACHE / f"accelerator-{arch}-{os.uname().release}"


def why_not_kvm(arch: str, kernel: Path, first: Path) -> str:
    """Why a kernel does not run with KVM here; empty: it does."""
    if arch != OWN:
        return f"{arch} is not this machine's architecture, {OWN}"
    try:
        os.close(os.open(KVM, os.O_RDWR))
    except OSError as error:
        return f"{KVM}: {error.strerror}"
    said = boot_says(command.bare(arch, "kvm", kernel, first, ASKED))
    if RUNS in said:
        return ""
    if _BROKEN in said:
        return f"{KVM} opens, and a kernel dies with it ({_BROKEN})"
    return f"{KVM} opens, and no kernel was up with it in {PATIENCE_S:.0f} s"


def boot_says(argv: list[str]) -> str:
    """Boot a machine until it says that it runs or breaks, at most PATIENCE_S; returns what it has said."""
    argv = [*TIED, *argv, "-m", "512M"]
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    ended = threading.Timer(PATIENCE_S, process.kill)
    ended.start()
    said = ""
    try:
        for line in process.stdout or []:
            said += line
            if RUNS in line or _BROKEN in line:
                break
    finally:
        ended.cancel()
        process.kill()
        process.wait()
    return said

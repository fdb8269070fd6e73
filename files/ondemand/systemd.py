"""systemd's word on engines, and what it is asked to do with them. Nothing here waits for an engine."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

#: Seconds for a word with systemd.
WORD_S = 10.0


@dataclass(frozen=True)
class Seen:
    """A unit. `restarts`: in a row; `invocation`: tells this start from another one."""

    active: str
    restarts: int = 0
    invocation: str = ""

    @property
    def runs(self) -> bool:
        """Whether it is up, or on its way there."""
        return self.active in ("active", "activating", "reloading")


def units(names: Sequence[str]) -> dict[str, Seen]:
    """By name. Raises OSError where systemd does not say."""
    argv = ["systemctl", "show", *(f"{name}.service" for name in names)]
    done = _run([*argv, "--property=ActiveState,NRestarts,InvocationID"])
    blocks = [dict(line.split("=", 1) for line in block.splitlines()) for block in done.stdout.strip().split("\n\n")]
    if done.returncode or len(blocks) != len(names):
        raise OSError(f"systemctl show: {done.stderr.strip() or 'it says less than it was asked'}")
    return {
        name: Seen(said.get("ActiveState", ""), int(said.get("NRestarts") or 0), said.get("InvocationID", ""))
        for name, said in zip(names, blocks, strict=True)
    }


def start(name: str) -> str:
    """Why it was not begun; empty: it was. A burst of starts that was used up is forgiven: somebody has just asked."""
    _run(["systemctl", "reset-failed", f"{name}.service"])
    return _asked("start", name)


def stop(name: str) -> str:
    """Why it was not; empty: it was."""
    return _asked("stop", name)


def _asked(verb: str, name: str) -> str:
    done = _run(["systemctl", verb, "--no-block", f"{name}.service"])
    return f"systemctl {verb}: {done.stderr.strip() or done.returncode}" if done.returncode else ""


def _run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=WORD_S, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 1, "", f"no word in {WORD_S:g} s")

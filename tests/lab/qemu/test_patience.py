"""What is longer where machines are emulated."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import paramiko
import pytest

from operations.runner import reach, readiness, successors
from operations.steps import fabric
from tests.lab.qemu import patience

ROOT = Path(__file__).parents[3]
CANARY = ROOT / "files/canary"
SAYS = "import inner, proxy; print(inner.START_S, inner.COMPUTING_S, inner.ASK_S, proxy.SILENCE_S)"


def canary_says(**environment: str) -> list[float]:
    """Times of the canary's as its program has them, `speaking.py` beside it."""
    shared = f"{ROOT}/operations/node/door"
    path = os.pathsep.join([*filter(None, [environment.pop("PYTHONPATH", "")]), str(CANARY), shared])
    argv = [sys.executable, "-B", "-c", SAYS]
    done = subprocess.run(argv, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def test_the_canary_s_times_are_longer_by_a_file_that_is_not_tandem_s(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(patience.of_canary(str(CANARY)))
    assert canary_says(PYTHONPATH=str(tmp_path)) == [patience.TIMES * each for each in canary_says()]


def test_a_deploy_waits_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = ((reach, "ENTER_S"), (readiness, "PROXY_S"), (successors, "START_S"), (fabric, "PATIENCE_S"))
    for of, name in (*limits, (paramiko.Transport, "__init__")):
        # It is put back.
        monkeypatch.setattr(of, name, getattr(of, name))
    patience.take()
    assert [getattr(module, name) for module, name in limits] == [200, 1200, 1200, 200]
    one, other = socket.socketpair()
    with one, other:
        login = paramiko.Transport(one)
        assert (login.banner_timeout, login.handshake_timeout, login.auth_timeout) == (150, 150, 300)

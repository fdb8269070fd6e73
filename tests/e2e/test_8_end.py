"""The end: `down` takes away what Tandem started, and the lab leaves nothing behind, whatever was done to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab import cluster
from tests.lab.cluster import HEAD, WORKER, deploy, on
from tests.lab.settings import HOME, MANAGEMENT_BRIDGE

pytestmark = pytest.mark.lab

COUNT_TABLES = "nft --stateless list ruleset | grep -c '^table'"


@pytest.mark.usefixtures("lab")
def test_down_stops_and_removes_and_keeps_what_took_long() -> None:
    images, tables = on(HEAD, "docker images --quiet"), on(HEAD, COUNT_TABLES)
    done = deploy(file="operations/verbs/down.py")
    assert done.code == 0, done.text
    for node in (HEAD, WORKER):
        assert cluster.containers(node) == []
        assert on(node, "ls /etc/systemd/system/tandem-* 2>/dev/null", check=False) == ""
        assert on(node, "nft list tables | grep tandem; ls -d /sys/fs/cgroup/tandem.slice", check=False) == ""
        assert on(node, "ls /home/spark/.cache/huggingface/hub") != ""
    # Docker's own, and the owner's.
    assert int(on(HEAD, COUNT_TABLES)) == int(tables) - 1
    assert on(HEAD, "docker images --quiet") == images
    assert deploy(file="operations/verbs/down.py").changes == 0


def leftovers() -> list[str]:
    """Processes, mounts, namespaces, bridges and control groups that look like the lab's."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                argv = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if any(mark in argv for mark in ("systemd-nspawn", "tests.lab.node", "tests.lab.watch", str(HOME))):
                found.append(argv)
    found += [line for line in Path("/proc/mounts").read_text().splitlines() if str(HOME) in line]
    names = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout.splitlines()
    found += [name for name in names if name.startswith("tandem-")]
    found += [MANAGEMENT_BRIDGE] if Path(f"/sys/class/net/{MANAGEMENT_BRIDGE}").exists() else []
    found += [str(path) for path in Path("/sys/fs/cgroup").glob("**/tandem-*")]
    return found


@pytest.mark.parametrize("seconds", [0.5, 1.5, 4])
def test_the_lab_leaves_nothing_even_after_a_kill_in_the_middle_of_up(seconds: float) -> None:
    cluster.lab("down")
    assert leftovers() == []
    up = subprocess.Popen([sys.executable, "-m", "tests.lab", "up"], cwd=cluster.ROOT, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    os.kill(up.pid, signal.SIGKILL)
    up.wait()
    cluster.lab("down")
    assert leftovers() == []

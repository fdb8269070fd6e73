"""The memory guard: when it kills, and what."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.node.shipped import load

guard = load("guard/guard.py")


def test_available_memory_is_read_from_meminfo() -> None:
    assert guard.available_mib("MemTotal:  100 kB\nMemAvailable:   2097152 kB\n") == 2048
    assert guard.available_mib("garbage") == sys.maxsize


def test_it_kills_the_container_s_whole_group_and_nothing_without_one(tmp_path: Path) -> None:
    identity, cgroups = tmp_path / "engine.cid", tmp_path / "cgroup"
    assert not guard.kill(identity, cgroups)
    identity.write_text("abc")
    group = cgroups / "system.slice/docker-abc.scope"
    group.mkdir(parents=True)
    (group / "cgroup.kill").write_text("")
    assert guard.kill(identity, cgroups)
    assert (group / "cgroup.kill").read_text() == "1"


def test_before_linux_5_14_it_kills_one_by_one(tmp_path: Path) -> None:
    identity, group = tmp_path / "engine.cid", tmp_path / "cgroup/docker/abc"
    identity.write_text("abc")
    # Where there is no cgroup.kill it can't be written either: a folder stands for that here.
    (group / "cgroup.kill").mkdir(parents=True)
    victims = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    (group / "cgroup.procs").write_text("".join(f"{victim.pid}\n" for victim in victims))
    assert guard.kill(identity, tmp_path / "cgroup")
    assert [victim.wait(timeout=5) for victim in victims] == [-9, -9]

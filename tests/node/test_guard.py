"""The memory guard: when it kills, and what."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from operations.paths import GUARD
from operations.plan.plan import make_plan
from operations.plan.services.proxy_memory import OOM_SCORE
from operations.plan.wanted import wanted
from tests.node.shipped import FILES, load
from tests.plan.samples import knob_data, nodes

guard = load("guard/guard.py")


def test_available_memory_is_read_from_meminfo() -> None:
    assert guard.available_mib("MemTotal:  100 kB\nMemAvailable:   2097152 kB\n") == 2048
    assert guard.available_mib("garbage") == sys.maxsize


@pytest.mark.parametrize(
    "place", ["tandem.slice/docker-abc.scope", "tandem.slice/abc", "system.slice/docker-abc.scope", "docker/abc"]
)
def test_it_kills_the_container_s_whole_group_and_nothing_without_one(tmp_path: Path, place: str) -> None:
    identity, cgroups = tmp_path / "engine.cid", tmp_path / "cgroup"
    assert not guard.kill(identity, cgroups)
    identity.write_text("abc")
    group = cgroups / place
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


@pytest.fixture
def cgroups() -> Iterator[Path]:
    """A real control group, v2, that stands for a node's /sys/fs/cgroup."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    unified = next((Path(mount[1]) for mount in mounts if mount[2] == "cgroup2"), None)
    if os.geteuid() or unified is None:
        pytest.skip("control groups need root" if unified else "no cgroup v2 is mounted here")
    made = unified / f"guard-test-{os.getpid()}"
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield made
    for folder, _, _ in os.walk(made, topdown=False):
        Path(folder).rmdir()


def test_with_the_kernel_s_own_cgroup_kill_all_of_it_ends_at_once(
    tmp_path: Path, cgroups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity, group = tmp_path / "engine.cid", cgroups / "system.slice/docker-abc.scope"
    identity.write_text("abc")
    # An engine's helpers may have groups of their own below its container's.
    (group / "helpers").mkdir(parents=True)
    if not (group / "cgroup.kill").exists():
        pytest.skip("this kernel has no cgroup.kill")
    victims = {place: subprocess.Popen(["sleep", "60"]) for place in (group, group / "helpers")}
    other = subprocess.Popen(["sleep", "60"])
    for place, victim in victims.items():
        (place / "cgroup.procs").write_text(str(victim.pid))
    with monkeypatch.context() as only:
        # Neither one by one nor through Docker.
        only.setattr(guard, "os", None)
        only.setattr(guard, "subprocess", None)
        assert guard.kill(identity, cgroups)
    assert [victim.wait(timeout=5) for victim in victims.values()] == [-9, -9]
    assert other.poll() is None
    other.kill()
    other.wait()


@pytest.mark.parametrize(("docker", "killed"), [("exit 0", True), ("exit 1", False), ("exec sleep 60", False)])
def test_a_docker_that_hangs_does_not_keep_it_from_looking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, docker: str, killed: bool
) -> None:
    (tmp_path / "engine.cid").write_text("abc")
    (tmp_path / "docker").write_text(f"#!/bin/sh\n{docker}\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(guard, "DOCKER_S", 0.3)
    begun = time.monotonic()
    assert guard.kill(tmp_path / "engine.cid", tmp_path / "cgroup") == killed
    assert time.monotonic() - begun < 5


#: The guard as it runs on a node, with groups of a test's.
RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import guard
guard.CGROUPS, guard.PAUSE_S = Path(sys.argv[2]), 0.5
guard.main()
"""


@contextmanager
def running(folder: Path, told: dict[str, Any]) -> Iterator[Callable[[], str]]:
    """The guard with these settings, and a floor that is more than any machine has; gives what tells its next line."""
    (folder / "guard.json").write_text(json.dumps(told | {"floor_mib": 1 << 40}))
    shutil.copy(FILES / "guard/guard.py", folder)
    argv = [sys.executable, "-B", "-c", RUN, str(folder), str(folder / "cgroup")]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        try:
            yield process.stderr.readline
        finally:
            process.kill()


def test_of_several_engines_the_owner_s_last_one_goes_first(tmp_path: Path) -> None:
    models = {
        name: {"recipe": "lab-tiny-llama", "topology": "solo", "served_name": name, "memory_gib": 8} for name in "bca"
    }
    of = wanted(knob_data(models=models))
    planned = make_plan(of, nodes(1, of.knobs)).head.services[GUARD]
    assert planned
    (told,) = (json.loads(file.content) for file in planned.files if file.path.endswith("guard.json"))
    # The one between them has no container.
    for identity in ("b", "a"):
        (tmp_path / f"engine-{identity}.cid").write_text(identity)
        (tmp_path / f"cgroup/docker/{identity}").mkdir(parents=True)
    told["containers"] = {unit: str(tmp_path / Path(file).name) for unit, file in told["containers"].items()}
    with running(tmp_path, told) as said_next:
        said = [said_next() for _ in range(2)]
        killed = [each.name for each in (tmp_path / "cgroup/docker").iterdir() if (each / "cgroup.kill").exists()]
        shutil.rmtree(tmp_path / "cgroup/docker/a")
        (tmp_path / "engine-a.cid").unlink()
        said.append(said_next())
    assert "the engine-a, then the engine-c, then the engine-b is killed when less than" in said[0]
    assert said[1].endswith("the engine-a's container is killed\n") and killed == ["a"]
    # It is gone, and there is not enough: the next one that there is.
    assert said[2].endswith("the engine-b's container is killed\n")


def test_a_group_that_ends_meanwhile_is_no_error(tmp_path: Path) -> None:
    identity, group = tmp_path / "engine.cid", tmp_path / "cgroup/docker/abc"
    identity.write_text("abc")
    (group / "cgroup.kill").mkdir(parents=True)
    assert guard.kill(identity, tmp_path / "cgroup")
    ended = subprocess.Popen(["true"])
    ended.wait()
    (group / "cgroup.procs").write_text(f"{ended.pid}\n")
    assert guard.kill(identity, tmp_path / "cgroup")


def grown(folder: Path, **mib: int) -> dict[str, tuple[Path, int, int]]:
    """Containers of the proxy's with so much memory, of which 500 MiB are usual, and 100 are had when idle."""
    for name, used in mib.items():
        (folder / f"{name}.cid").write_text(name)
        (folder / f"cgroup/docker/{name}").mkdir(parents=True, exist_ok=True)
        (folder / f"cgroup/docker/{name}/memory.stat").write_text(f"anon {used << 20}\nfile {9 << 30}\n")
    return {name: (folder / f"{name}.cid", 500, 100) for name in mib}


def test_what_has_grown_by_what_it_was_sent_is_told_from_what_is_as_ever(tmp_path: Path) -> None:
    cgroups = tmp_path / "cgroup"
    assert guard.most_grown(grown(tmp_path, proxy=600, a=2000), cgroups, 9000) == "a"
    assert guard.most_grown(grown(tmp_path, proxy=80, a=500), cgroups, 9000) == ""
    gone = {"gone": (tmp_path / "none", 1, 1)}
    assert guard.most_grown(gone, cgroups, 1) == guard.most_grown({}, cgroups, 1) == ""
    (tmp_path / "cgroup/docker/a/memory.stat").unlink()
    assert guard.used_mib(tmp_path / "a.cid", cgroups) == 0


def test_what_lacks_because_all_have_grown_a_little_is_no_engine_s_to_give(tmp_path: Path) -> None:
    """Each within what is usual: 200, 300 and 0 MiB more than when idle."""
    cgroups, little = tmp_path / "cgroup", grown(tmp_path, proxy=300, a=400, b=60)
    assert guard.most_grown(little, cgroups, 500) == "a"
    assert guard.most_grown(little, cgroups, 501) == ""


@pytest.mark.parametrize(("used", "ends"), [(3000, "litellm-a"), (400, "engine")])
def test_no_engine_is_killed_for_what_somebody_sends_to_the_proxy(tmp_path: Path, used: int, ends: str) -> None:
    of = wanted(knob_data(topology="solo"))
    planned = make_plan(of, nodes(1, of.knobs)).head.services[GUARD]
    assert planned
    (told,) = (json.loads(file.content) for file in planned.files if file.path.endswith("guard.json"))
    names = ["engine", *(unit.removeprefix("tandem-") for unit in told["before"])]
    assert set(names) == {"engine", "proxy", "litellm-a", "litellm-b"}
    grown(tmp_path, **dict.fromkeys(names, 100) | {"litellm-a": used, "engine": 90_000})
    told["containers"] = {unit: str(tmp_path / "engine.cid") for unit in told["containers"]}
    for unit, each in told["before"].items():
        each["container"] = str(tmp_path / f"{unit.removeprefix('tandem-')}.cid")
    with running(tmp_path, told) as said_next:
        said = [said_next() for _ in range(2)]
    assert f"the {ends}'s container" in said[1]
    killed = [name for name in names if (tmp_path / f"cgroup/docker/{name}/cgroup.kill").exists()]
    assert killed == [ends]


def test_the_kernel_s_own_order_is_the_one_of_the_scores() -> None:
    """By the kernel's own figure (`oom_score`); what has these scores tests/plan/test_confined.py says."""
    own = int(Path("/proc/self/oom_score_adj").read_text())
    # Nobody but root lowers one.
    order = [score for score in (1000, OOM_SCORE, 500, 200, 0) if score >= own]
    victims = [subprocess.Popen(["sleep", "60"]) for _ in order]
    try:
        for score, victim in zip(order, victims, strict=True):
            Path(f"/proc/{victim.pid}/oom_score_adj").write_text(str(score))
        said = [int(Path(f"/proc/{victim.pid}/oom_score").read_text()) for victim in victims]
    finally:
        for victim in victims:
            victim.kill()
            victim.wait()
    assert said == sorted(said, reverse=True) and len(set(said)) == len(order)

"""A control group for each node: two guests in one group would see each other's services as their own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.lab.settings import LabNode

ROOT = Path("/sys/fs/cgroup")
#: Microseconds in which a node may use its part of a core.
PERIOD_US = 20_000


def enter(node: LabNode) -> None:
    """Move this process, and all that it will start, into the node's group."""
    for group in _groups(node):
        group.mkdir(exist_ok=True)
        (group / "cgroup.procs").write_text(str(os.getpid()))


def kill(node: LabNode) -> None:
    """SIGKILL everything in the node's group at once, as a power cut does, and wait until it is gone."""
    group = _groups(node)[0]
    deadline = time.monotonic() + 20
    while group.exists() and _members(group):
        (group / "cgroup.kill").write_text("1")
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes in {group} do not die: {_members(group)}")
        time.sleep(0.1)


def remove(node: LabNode) -> None:
    """Remove the node's empty groups."""
    for group in _groups(node):
        _remove(group)


def _remove(group: Path) -> None:
    deadline = time.monotonic() + 20
    while group.exists():
        folders = [Path(path) for path, _, _ in os.walk(group)]
        try:
            for folder in sorted(folders, key=lambda p: len(p.parts), reverse=True):
                folder.rmdir()
        except OSError:
            # A process that has been killed is busy dying for a moment.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def is_running(node: LabNode) -> bool:
    """Whether anything of the node runs."""
    return bool(_members(_groups(node)[0]))


@contextmanager
def held(nodes: list[LabNode], cores: float) -> Iterator[None]:
    """No node gets more than this part of a core while the body runs; 0: what it can."""
    try:
        for node in nodes if cores else []:
            _hold(node, cores)
        yield
    finally:
        for node in nodes if cores else []:
            _let_go(node)


@contextmanager
def process_held(pid: int, cores: float) -> Iterator[None]:
    """This process of the machine gets no more than this part of a core while the body runs, in a group of its own; it
    is in the root's group afterwards. Raises OSError where groups can't be made: by others than root, in a container.
    """
    root = ROOT / "cpu" if _cpu_is_apart() else ROOT
    group = root / f"tandem-held-{pid}"
    try:
        group.mkdir()
        _limit(group, cores)
        _move({pid}, group)
        yield
    finally:
        if group.exists():
            _move(set(_members(group)), root)
            _remove(group)


def _limit(group: Path, cores: float) -> None:
    quota = str(round(cores * PERIOD_US))
    if not _cpu_is_apart():
        (ROOT / "cgroup.subtree_control").write_text("+cpu")
        (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        return
    (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
    (group / "cpu.cfs_quota_us").write_text(quota)


def _hold(node: LabNode, cores: float) -> None:
    if not _cpu_is_apart():
        _limit(ROOT / node.namespace, cores)
        return
    group = ROOT / "cpu" / node.namespace
    group.mkdir()
    _limit(group, cores)
    # What is started meanwhile by one that is not in yet is not in either.
    while left := set(_members(_groups(node)[0])) - set(_members(group)):
        _move(left, group)


def _let_go(node: LabNode) -> None:
    if not _cpu_is_apart():
        (ROOT / node.namespace / "cpu.max").write_text("max")
        return
    group = ROOT / "cpu" / node.namespace
    while group.exists() and (left := _members(group)):
        _move(set(left), ROOT / "cpu")
    if group.exists():
        group.rmdir()


def _move(pids: set[int], group: Path) -> None:
    for pid in pids:
        # It may have ended.
        with suppress(ProcessLookupError):
            (group / "cgroup.procs").write_text(str(pid))


def _cpu_is_apart() -> bool:
    """Whether the CPU is shared out in a hierarchy of its own (cgroup v1)."""
    return (ROOT / "cpu").is_dir()


def _groups(node: LabNode) -> list[Path]:
    """The node's group in the v2 hierarchy first; systemd's own v1 hierarchy after it where there is one."""
    unified = ROOT if (ROOT / "cgroup.controllers").exists() else ROOT / "unified"
    hierarchies = [unified, ROOT / "systemd"] if (ROOT / "systemd").is_dir() else [unified]
    return [hierarchy / node.namespace for hierarchy in hierarchies]


def _members(group: Path) -> list[int]:
    pids = []
    for folder, _, _ in os.walk(group):
        try:
            pids += [int(pid) for pid in (Path(folder) / "cgroup.procs").read_text().split()]
        except OSError:
            continue
    return pids

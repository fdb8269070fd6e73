"""Machines that serve, and the choice among their tests where there is no time for all.

With MINUTES the test whose last try is the oldest comes first. What would not end in time is skipped. The last try of
each test is kept in docs/machines.json.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.chaos import results
from tests.chaos.machines import page
from tests.chaos.machines.deployed import served
from tests.chaos.machines.scene import Machines
from tests.lab import desk
from tests.lab.qemu.conftest import up
from tests.lab.settings import MACHINES

#: Seconds of a test that was never seen, and of a switch to another topology.
UNKNOWN_S, SWITCH_S = 480.0, 780.0
HERE = Path(__file__).parent
BEGAN = time.monotonic()
#: Files of which a test was run: their topology is deployed.
BEGUN: set[Path] = set()


@pytest.fixture(scope="session")
def booted() -> Iterator[None]:
    """Two machines on a cable, with a deploy of before where one is kept."""
    yield from up(DISKS="kept")


@pytest.fixture(scope="module")
def scene(request: pytest.FixtureRequest, booted: None) -> Machines:
    """With the topology of the test's file."""
    return served(request.module.TOPOLOGY)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """File by file, since a switch of the topology takes as long as two faults."""
    here = [item for item in items if _is_timed(item)]
    if not here or minutes() is None:
        return
    tried = page.read().tried.get(_arch(), {})
    # Never tried is older than any time.
    when = {item: tried[_name(item)].at if _name(item) in tried else "" for item in here}
    of_file = {item.path: min(when[each] for each in here if each.path == item.path) for item in here}
    ordered = iter(sorted(here, key=lambda item: (of_file[item.path], item.path, when[item])))
    items[:] = [next(ordered) if item in when else item for item in items]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skipped where there is no time left for it; the first one is always tried."""
    whole = minutes()
    if whole is None or not _is_timed(item):
        return
    seen = page.read().tried.get(_arch(), {}).get(_name(item))
    wanted_s = (seen.took_s if seen else UNKNOWN_S) + (0 if item.path in BEGUN else SWITCH_S)
    left_s = whole * 60 - (time.monotonic() - BEGAN)
    if BEGUN and left_s < wanted_s:
        pytest.skip(f"{max(0, left_s) / 60:.0f} minutes are left: it is for another `make test-machines`")
    BEGUN.add(item.path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep each try, also one whose machines could not be had."""
    report = yield
    if MACHINES == "vm" and _is_timed(item) and (report.when == "call" or (report.when == "setup" and report.failed)):
        at = datetime.now(UTC).isoformat(timespec="seconds")
        seen = page.Tried(at, results.code(without=()), round(report.duration), report.passed)
        page.tried(_arch(), _name(item), seen)
    return report


def minutes() -> float | None:
    """The limit that MINUTES sets; None: there is none."""
    text = os.environ.get("MINUTES")
    if not text:
        return None
    if not text.isdecimal():
        raise pytest.UsageError(f"MINUTES is `{text}`: expected a whole number")
    return float(text)


def _is_timed(item: pytest.Item) -> bool:
    """Whether it is one on machines, of this folder."""
    return item.path.parent == HERE and item.get_closest_marker("machines") is not None


def _arch() -> str:
    return os.environ.get("ARCH") or desk.remembered().arch


def _name(item: pytest.Item) -> str:
    return item.nodeid.rpartition("/")[2]

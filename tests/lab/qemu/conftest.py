"""Machines for the tests: booted when they are not up, and taken away again when they were not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.lab import cgroup, cluster, desk
from tests.lab.settings import MACHINES, known_nodes


@pytest.fixture(scope="module")
def booted() -> Iterator[None]:
    """Two machines on a cable."""
    yield from up()


def up(**environment: str) -> Iterator[None]:
    """Two machines on a cable while the caller goes on; `environment` is for those that have to be made."""
    if MACHINES != "vm" or os.geteuid():
        pytest.fail("virtual machines are booted by root with MACHINES=vm: `make test-machines`")
    was_up = bool(known_nodes()) and all(cgroup.is_running(each) for each in known_nodes())
    # Those that are up stay what they are where nobody says another architecture.
    environment = {"ARCH": desk.remembered().arch, **environment, **os.environ}
    subprocess.run([sys.executable, "-m", "tests.lab", "up"], cwd=cluster.ROOT, env=environment, check=True)
    yield
    if not was_up:
        cluster.lab("down")

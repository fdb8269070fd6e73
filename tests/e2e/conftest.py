"""The lab for the tests: booted when it is not up, and taken away again when it was not.

Files run by their numbers: each finds the topology that the one before has left, so that few have to deploy anew.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.lab import cgroup, chat, cluster
from tests.lab.settings import known_nodes


@pytest.fixture(scope="session")
def lab() -> Iterator[None]:
    """Two booted nodes."""
    if os.geteuid() != 0:
        pytest.fail("the lab boots hosts, which needs root; `make test-fast` runs the tests that need no lab")
    was_up = bool(known_nodes()) and all(cgroup.is_running(node) for node in known_nodes())
    argv = [sys.executable, "-m", "tests.lab"]
    subprocess.run([*argv, "up"], cwd=cluster.ROOT, check=True)
    yield
    if not was_up:
        subprocess.run([*argv, "down"], cwd=cluster.ROOT, check=True)


@pytest.fixture(scope="module")
def ray_cluster(lab: None) -> None:
    """The lab with a cluster over Ray deployed, whatever was there before."""
    done = cluster.deploy(topology="cluster", executor="ray")
    assert done.code == 0, done.text


@pytest.fixture
def at() -> dict[str, str]:
    """Where the proxy is, with its key."""
    return chat.endpoint()

"""From replicas back to clusters: with mp, then over Ray by two deploys at once."""

from __future__ import annotations

import pytest

from tests.e2e.settled import assert_settled
from tests.lab import cluster
from tests.lab.cluster import WORKER, begin, deploy, on

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("lab")]


def test_mp_needs_no_ray(at: dict[str, str]) -> None:
    switched = deploy(topology="cluster", executor="mp")
    assert switched.code == 0, switched.text
    assert cluster.complete(at) == 8
    assert "ray" not in on(WORKER, "ps ax -o comm").split()
    assert_settled(topology="cluster", executor="mp")


def test_back_to_the_cluster_by_two_deploys_at_once_and_a_lock_that_can_t_go_stale(at: dict[str, str]) -> None:
    wanted = {"topology": "cluster", "executor": "ray"}
    first = begin(**wanted)
    assert first.stderr is not None
    for line in first.stderr:
        if "a token from each" in line:
            break
    second = deploy(topology="replicas")
    assert second.code == 1
    assert "another deploy is at work" in second.text
    assert f"(pid {first.pid}) since 20" in second.text
    assert "Traceback" not in second.text
    # Killed in the middle: nothing holds the lock, and the next deploy brings everything in line.
    first.kill()
    first.communicate()
    third = deploy(**wanted)
    assert third.code == 0, third.text
    assert cluster.complete(at) == 8
    assert_settled(**wanted)

"""Steps and checks that the tests of each topology share."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace

from operations.paths import ENGINE
from tests.chaos import results
from tests.chaos.__main__ import attempt
from tests.chaos.fault import Fault
from tests.chaos.machines import page
from tests.chaos.machines.scene import CLUSTER, Machines
from tests.lab import cluster
from tests.lab.cluster import HEAD, WORKER, on
from tests.lab.outside import PROXY as DOOR
from tests.lab.outside import SSH, route, without_firewall
from tests.lab.scan import open_ports

ENGINE_PORT = 8001
#: Seconds after which a port that says nothing is taken for shut.
SILENT_S = 20.0
_LABELS = f"docker inspect --format '{{{{.Config.Labels}}}}' {ENGINE}"


def served(topology: str) -> Machines:
    """Machines that serve: deployed, and asked for a first chat. Disks of a first deploy are kept for later runs."""
    start = time.monotonic()
    scene = Machines.here(topology)
    is_first = not on(HEAD, "ls /etc/tandem", check=False)
    was_replicas = "topology:replicas" in on(HEAD, _LABELS, check=False)
    done = scene.deploy()
    assert done.code == 0, done.text[-5000:]
    assert cluster.complete(scene.endpoint()) == 8
    page.tell(scene.variant, code=results.code(without=()))
    if is_first:
        page.tell(scene.variant, first_chat=f"{_minutes_since(start)}, {topology}")
    elif was_replicas and topology == CLUSTER:
        page.tell(scene.variant, to_cluster=_minutes_since(start))
    scene.look()
    if is_first:
        # It only saves later runs time: what it says is shown, and a failure ends nothing.
        subprocess.run([sys.executable, "-m", "tests.lab", "keep"], cwd=cluster.ROOT, check=False)
        scene.wait_until_all_answer(time.monotonic(), scene.PATIENCE_S)
    return scene


def deployed_again(scene: Machines) -> str:
    """The minutes that a deploy takes that changes nothing."""
    start = time.monotonic()
    again = scene.deploy()
    assert (again.code, again.changes) == (0, 0), again.text[-5000:]
    return _minutes_since(start)


def happens(scene: Machines, fault: Fault) -> None:
    """Requests sent and lost, seconds until it serves; a deploy behind it, and one more that changes nothing."""
    seen = replace(attempt(scene, fault), code=results.code(without=()))
    page.keep(seen)
    assert not seen.problems, seen.problems


def assert_shut() -> None:
    """All ports of both nodes, also by a route to the fabric; and that without the firewall they were not."""
    fabric = {HEAD: "192.168.177.11", WORKER: "192.168.177.12"}
    for node, address in fabric.items():
        assert open_ports(node.address, silent_s=SILENT_S) == {SSH, DOOR}, node.name
        with route(node):
            assert open_ports(address, silent_s=SILENT_S) <= {SSH}, node.name
    with without_firewall(), route(HEAD):
        assert open_ports(fabric[HEAD], [ENGINE_PORT], silent_s=SILENT_S) == {ENGINE_PORT}


def _minutes_since(start: float) -> str:
    return f"{(time.monotonic() - start) / 60:.1f} minutes"

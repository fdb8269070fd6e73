"""Nodes that get another address in the office, at a reboot or while they serve: nobody deploys, and clients pass."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.chaos.scene import Scene
from tests.lab import chat, cluster
from tests.lab.cluster import HEAD, WORKER, on
from tests.lab.node import boot_id
from tests.lab.settings import MANAGEMENT_NET, LabNode, known_nodes

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.usefixtures("lab")]

#: The ends of addresses that nodes are given, and of those that they have at first.
GIVEN, FIRST = {HEAD: 71, WORKER: 72}, {HEAD: 11, WORKER: 12}


def lab(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "tests.lab", *words], cwd=cluster.ROOT, check=True, capture_output=True)


@pytest.fixture(scope="module", params=["replicas", "replicas/address"], ids=["own", "shared"])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """Replicas with an authority of their own, without and with a virtual address; at its end all have the addresses
    that they had.
    """
    made = Scene.named(request.param)
    done = made.deploy(tls="self", proxy_bind="management")
    assert done.code == 0, done.text
    with pytest.MonkeyPatch.context() as patch:
        made.at = chat.endpoint()
        patch.setenv("REQUESTS_CA_BUNDLE", made.at["SSL_CERT_FILE"])
        yield made
    for node in known_nodes():
        if not node.address.endswith(f".{FIRST[node]}"):
            lab("move", node.name, str(FIRST[node]))


def served(node: LabNode) -> dict[str, str]:
    """Where clients find a node's own proxy."""
    at = chat.endpoint()
    return {**at, "OPENAI_BASE_URL": f"https://{node.address}:8000/v1"}


def one_has_it(scene: Scene, for_s: float = 6) -> LabNode:
    """Who has the virtual address, alone and for so long; a minute is given to come to it."""
    begun = since = time.monotonic()
    last: list[LabNode] = []
    while time.monotonic() - since < for_s:
        found = scene.holders
        if len(found) != 1 or found != last:
            last, since = found, time.monotonic()
            assert since - begun < 60, [each.name for each in found]
        time.sleep(0.3)
    return last[0]


@pytest.mark.parametrize("node", [HEAD, WORKER], ids=lambda node: node.name)
def test_clients_pass_after_a_reboot_with_another_address(scene: Scene, node: LabNode) -> None:
    before, at = boot_id(node), served(node)
    begun = time.monotonic()
    lab("move", node.name, str(GIVEN[node]))
    assert boot_id(node) != before and node.address == f"{MANAGEMENT_NET}.{GIVEN[node]}"
    booted = time.monotonic() - begun
    at["OPENAI_BASE_URL"] = f"https://{node.address}:8000/v1"
    cluster.wait_until_served(at)
    later = time.monotonic() - begun - booted
    print(f"{scene.name}, {node.name}: up after {booted:.1f} s, clients pass {later:.1f} s later")
    assert scene.address or node is WORKER or chat.endpoint()["OPENAI_BASE_URL"] == at["OPENAI_BASE_URL"]
    if scene.address:
        one_has_it(scene)
        assert cluster.complete(scene.at) == 8


@pytest.mark.parametrize("node", [HEAD, WORKER], ids=lambda node: node.name)
def test_clients_pass_after_an_address_that_changed_while_it_served(scene: Scene, node: LabNode) -> None:
    begun = time.monotonic()
    pid = on(node, "docker inspect --format '{{.State.Pid}}' tandem-proxy")
    lab("renumber", node.name, str(FIRST[node]))
    at = served(node)
    cluster.wait_until_served(at)
    print(f"{scene.name}, {node.name}: clients pass {time.monotonic() - begun:.1f} s after the change")
    assert on(node, "docker inspect --format '{{.State.Pid}}' tandem-proxy") == pid, "it was started anew"
    if scene.address:
        one_has_it(scene)
        assert cluster.complete(scene.at) == 8


def test_a_deploy_after_all_that_changes_nothing(scene: Scene) -> None:
    done = scene.deploy(tls="self", proxy_bind="management")
    assert (done.code, done.changes) == (0, 0), done.text
    for each in (HEAD, WORKER):
        assert cluster.complete(served(each)) == 8

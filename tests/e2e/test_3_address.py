"""The virtual address on the lab: taken, shown, moved by every part of the door that goes, refused, and given back."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.chaos import row
from tests.chaos.fault import Fault
from tests.chaos.faults.address import ADDRESS
from tests.chaos.scene import Scene
from tests.lab import chat, cluster
from tests.lab.cluster import HEAD, WORKER, deploy, on
from tests.lab.settings import MANAGEMENT_NET

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.usefixtures("lab")]


def make(verb: str) -> str:
    argv = ["make", "-s", verb, f"INVENTORY={cluster.INVENTORY}"]
    return subprocess.run(argv, cwd=cluster.ROOT, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def scene() -> Scene:
    """Replicas with an address, and the right answers of their model."""
    made = Scene.named("replicas/address")
    done = made.deploy()
    assert done.code == 0, done.text
    return made.look()


def test_one_node_has_it_clients_are_told_of_it_and_a_second_deploy_changes_nothing(scene: Scene) -> None:
    (holder,) = scene.holders
    assert scene.at["OPENAI_BASE_URL"] == f"http://{scene.address}:8000/v1"
    assert cluster.complete(scene.at) == 8
    told = make("endpoint")
    for node in (HEAD, WORKER):
        assert f"# {node.name} alone: http://{node.address}:8000/v1" in told
    status = " ".join(make("status").split())
    assert status.count(f"has {scene.address}") == 1 and status.count(f"stands by for {scene.address}") == 1
    again = scene.deploy()
    assert (again.code, again.changes) == (0, 0), again.text
    assert scene.holders == [holder]


def test_its_keepalived_has_all_that_it_wants_and_its_script_runs(scene: Scene) -> None:
    for node in (HEAD, WORKER):
        log = on(node, "journalctl --unit tandem-address --output cat --no-pager --lines 200")
        assert "VRRP_Script(proxy) succeeded" in log, log
        assert "Couldn't" not in log and "nsecure" not in log, log
        first = on(node, "docker inspect --format '{{.State.Pid}}' tandem-address").strip()
        said = on(node, f"cat /proc/{first}/status")
        # SETGID, NET_ADMIN, NET_RAW, IPC_LOCK, SYS_NICE.
        bits = sum(1 << bit for bit in (6, 12, 13, 14, 23))
        assert re.findall(r"Cap(?:Bnd|Eff):\s+(\w+)", said) == [f"{bits:016x}"] * 2, said
        assert "NoNewPrivs:\t1" in said
        writes = "docker exec tandem-address sh -c 'touch /x || touch /tandem/x || touch /run/x' 2>&1; true"
        assert on(node, writes).count("Read-only file system") == 3


def test_proxies_listen_on_it_where_it_is_not(scene: Scene) -> None:
    for node in (HEAD, WORKER):
        assert f"{scene.address}:8000" in on(node, "ss -Hltn")


@pytest.mark.parametrize("fault", ADDRESS, ids=lambda fault: fault.name)
def test_new_requests_pass_when_a_part_of_the_door_has_gone(scene: Scene, fault: Fault) -> None:
    seen = row.run(scene, fault)
    print(f"{fault.name}: shut for {seen.shut_s} s, {seen.requests}")
    assert seen.problems == []


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        (f"{MANAGEMENT_NET}.1", "is held by another host"),
        (f"{MANAGEMENT_NET}.12", "is its own address"),
        (f"{MANAGEMENT_NET}.255", "is the network's or the broadcast address"),
        ("10.99.0.50", "lies outside"),
        ("192.168.177.50", "lies in a subnet of the rails"),
    ],
)
def test_an_address_that_can_t_be_is_refused_before_the_first_change(scene: Scene, address: str, problem: str) -> None:
    before = on(HEAD, "docker inspect --format '{{.Id}}' tandem-address")
    refused = scene.deploy(proxy_address=address)
    assert refused.code != 0 and problem in " ".join(refused.text.split()), refused.text
    assert "Traceback" not in refused.text
    assert on(HEAD, "docker inspect --format '{{.Id}}' tandem-address") == before


def test_a_solo_has_it_on_its_head_and_without_the_knob_nobody_has_it(scene: Scene) -> None:
    solo = Scene("solo", "ray", "address")
    done = deploy(**solo.knobs)
    assert done.code == 0, done.text
    assert scene.holders == [HEAD]
    assert cluster.complete(chat.endpoint()) == 8
    done = deploy(topology="solo")
    assert done.code == 0, done.text
    assert scene.holders == []
    for node in (HEAD, WORKER):
        assert "tandem-address" not in on(node, "systemctl list-unit-files 'tandem-*' --no-legend", check=False)

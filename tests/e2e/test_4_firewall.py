"""From outside nothing answers but ssh and the proxy: every port of every node, in every topology, as others see them.

This machine is on the nodes' office network; for a while it is also the host that has set a route to the fabric.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.lab import cluster
from tests.lab.cluster import HEAD, WORKER, deploy, on
from tests.lab.outside import PROXY, SSH, local, route, without_firewall
from tests.lab.scan import open_ports
from tests.lab.settings import LabNode

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("lab")]

#: Ray opens the most ports; the others are scanned by `make test-long`.
CASES = [
    {"topology": "cluster", "executor": "ray"},
    pytest.param({"topology": "cluster", "executor": "mp"}, marks=pytest.mark.long),
    pytest.param({"topology": "replicas"}, marks=pytest.mark.long),
    pytest.param({"topology": "solo"}, marks=pytest.mark.long),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join(case.values()))
def case(request: pytest.FixtureRequest, lab: None) -> dict[str, str]:
    """A topology that serves on the office network."""
    wanted: dict[str, str] = {**request.param, "proxy_bind": "management"}
    done = deploy(**wanted)
    assert done.code == 0, done.text
    return wanted


def allowed(node: LabNode, topology: str) -> set[int]:
    """Each node that serves has a proxy."""
    return {SSH, PROXY} if node is HEAD or topology != "solo" else {SSH}


def test_from_the_office_ssh_and_the_proxy_answer(case: dict[str, str], at: dict[str, str]) -> None:
    assert {node.name: open_ports(node.address) for node in (HEAD, WORKER)} == {
        node.name: allowed(node, case["topology"]) for node in (HEAD, WORKER)
    }
    assert cluster.complete(at) == 8


def test_over_ipv6_ssh_answers(case: dict[str, str]) -> None:
    for node in (HEAD, WORKER):
        assert open_ports(local(node)) == {SSH}, node.name


def test_a_host_with_a_route_to_the_fabric_reaches_ssh(case: dict[str, str]) -> None:
    for through in (HEAD, WORKER) if case["topology"] != "solo" else ():
        with route(through):
            for address in ("192.168.177.11", "192.168.177.12"):
                assert open_ports(address) <= {SSH}, f"{address} through {through.name}"


def test_without_it_more_answers(case: dict[str, str], record_property: Callable[[str, object], None]) -> None:
    """What the others would find if there were nothing to find it shut."""
    with without_firewall():
        before = {node.name: open_ports(node.address) - allowed(node, case["topology"]) for node in (HEAD, WORKER)}
        with route(WORKER):
            routed = open_ports("192.168.177.12")
    record_property("open", {name: sorted(ports) for name, ports in before.items()} | {"routed": sorted(routed)})
    if case["topology"] == "cluster":
        assert before["spark-1"], before
    if case["topology"] == "replicas":
        assert 8001 in routed


def test_a_second_deploy_changes_nothing_and_a_table_that_was_flushed_is_put_up_again(case: dict[str, str]) -> None:
    assert deploy(**case).changes == 0
    on(HEAD, "nft delete table inet tandem")
    repaired = deploy(**case)
    assert repaired.code == 0, repaired.text
    assert "nftables has no table `tandem`" in repaired.text
    assert open_ports(HEAD.address) == allowed(HEAD, case["topology"])
    assert deploy(**case).changes == 0


def test_after_a_reboot_the_firewall_is_in_force_before_the_engine_listens() -> None:
    assert deploy(topology="cluster", executor="ray", proxy_bind="management").code == 0
    cluster.lab("reboot", "spark-2")
    # systemd may fail to give a unit its namespace while much else boots. ready.sh loads the firewall then,
    # before the container.
    log, deadline = "", time.monotonic() + 120
    while "Started tandem-engine.service" not in log and time.monotonic() < deadline:
        time.sleep(1)
        log = on(WORKER, "journalctl -b --no-pager -o short-monotonic -u tandem-firewall -u tandem-engine")
    assert log.index("Finished tandem-firewall.service") < log.index("Started tandem-engine.service")
    assert open_ports(WORKER.address) <= allowed(WORKER, "cluster")

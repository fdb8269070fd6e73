"""The owner's firewall, a real ufw: named before anything is copied, with the line that lets the rails in."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator

import pytest

from operations.paths import ARP
from operations.plan.cluster.fabric import proof_ports
from tests.lab import cluster
from tests.lab.cluster import HEAD, WORKER, deploy, on
from tests.lab.node import SYSCTL_OF, greet
from tests.lab.settings import LINKS
from tests.plan.samples import knobs

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("ray_cluster")]

RAILS = LINKS["rail0"], LINKS["rail1"]
#: Seconds in which a check has to say it.
SOON_S = 60


def check() -> tuple[int, str]:
    """What `tandem check` says, on one line."""
    argv = ["make", "-s", "check", f"INVENTORY={cluster.INVENTORY}", "DATA=topology=cluster executor=ray"]
    done = subprocess.run(argv, cwd=cluster.ROOT, capture_output=True, text=True, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.fixture
def firewall() -> Iterator[None]:
    """The second node's owner has turned ufw on, and lets the login in."""
    on(WORKER, "ufw allow 22/tcp && ufw --force enable")
    yield
    on(WORKER, "ufw --force reset >/dev/null && ufw --force disable")


@pytest.mark.usefixtures("firewall")
def test_a_check_names_ufw_and_its_line_lets_the_deploy_through() -> None:
    engines = [on(node, "docker inspect --format '{{.Id}}' tandem-engine") for node in (HEAD, WORKER)]
    start = time.monotonic()
    code, said = check()
    assert time.monotonic() - start < SOON_S
    shut = "ufw lets no connection in over `enp1s0f0np0`, `enP2p1s0f0np0`: ranks and copies could not reach this node"
    assert code != 0 and f"spark-2 {shut}" in said, said
    refused = deploy(topology="cluster", executor="ray")
    assert refused.code == 1 and shut in refused.text and "Traceback" not in refused.text
    (remedy,) = re.findall(r"-> ((?:sudo ufw allow in on \w+(?: && )?)+)", said)
    assert remedy.strip() == " && ".join(f"sudo ufw allow in on {rail}" for rail in RAILS)
    on(WORKER, remedy)
    code, said = check()
    assert code == 0, said
    done = deploy(topology="cluster", executor="ray")
    assert done.code == 0 and done.changes == 0, done.text
    assert [on(node, "docker inspect --format '{{.Id}}' tandem-engine") for node in (HEAD, WORKER)] == engines


def test_what_answers_on_the_fabric_is_the_rail_itself() -> None:
    """Both halves of a port are one L2 in the lab: of 80 look-ups of the kernel 80 are right."""
    macs = {rail: on(WORKER, f"cat /sys/class/net/{rail}/address").strip() for rail in RAILS}
    addresses = dict(zip(RAILS, ("192.168.177.12", "192.168.178.12"), strict=True))
    right = 0
    for _ in range(8):
        for rail, address in addresses.items():
            ask = f"ip neigh del {address} dev {rail}; ping -c 1 -W 1 -q {address} >/dev/null; ip neigh show {address}"
            told = on(HEAD, f"for each in 1 2 3 4 5; do {ask}; done", check=False)
            right += told.count(f"lladdr {macs[rail]}")
    assert right == 80


def arp_of(rail: str) -> list[str]:
    """What is in force on the second node."""
    return on(WORKER, f"cd /proc/sys/net/ipv4/conf/{rail} && cat {' '.join(ARP)}").split()


@pytest.mark.long
def test_arp_on_the_rails_is_there_after_a_reboot(at: dict[str, str]) -> None:
    cluster.lab("reboot", WORKER.name)
    assert [arp_of(rail) for rail in RAILS] == [list(ARP.values())] * 2
    cluster.wait_until_served(at)


def test_arp_is_there_when_a_netdev_comes_back() -> None:
    """In the lab no udev runs: what its own rule has for a netdev that appears is run by hand."""
    conf = f"/proc/sys/net/ipv4/conf/{RAILS[0]}"
    on(WORKER, f"echo 0 >{conf}/arp_ignore; echo 0 >{conf}/arp_announce")
    rule = on(WORKER, "grep -h systemd-sysctl /lib/udev/rules.d/99-systemd.rules")
    assert 'ACTION=="add", SUBSYSTEM=="net"' in rule
    assert f'RUN+="{SYSCTL_OF}$name' in rule
    greet(WORKER, RAILS[0])
    assert arp_of(RAILS[0]) == list(ARP.values())


def test_what_no_copy_of_the_rules_shows_the_wire_says_before_anything_is_copied() -> None:
    """A rule for what leaves a node: frames pass, the head's connections do not, and a check has nothing to see."""
    rule = f"OUTPUT -o {RAILS[0]} -p tcp --dport {proof_ports(knobs())[0]} -j DROP"
    on(HEAD, f"iptables -I {rule}")
    try:
        assert check()[0] == 0
        start = time.monotonic()
        said = deploy(topology="cluster", executor="ray")
        assert time.monotonic() - start < SOON_S
    finally:
        on(HEAD, f"iptables -D {rule}")
    assert said.code == 1 and "Traceback" not in said.text
    line = (
        "frames get through and connections don't: enp1s0f0np0 -> spark-2 (192.168.177.12): no TCP connection to port"
    )
    assert line in " ".join(said.text.split()), said.text
    assert deploy(topology="cluster", executor="ray").changes == 0

"""The real keepalived, configured as a deploy renders it, in two namespaces on one network: who has the address."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.addressed import DEVICE, WANTED, Host, Network, hear
from tests.node.confined import place, placed
from tests.node.spaces import Space

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("keepalived"),
    reason="wants root and keepalived (tests/lab/packages.sh installs it)",
)
#: Seconds for new requests to pass, beyond which clients notice more than a blink; on a machine with time to spare it
#: is 2.7 at most (files/address/keepalived.conf.j2). The machine that tests has little.
SOON_S = 5.0
#: What keepalived says when its proxy does not answer any more.
FAILED = "VRRP_Script(proxy) failed"

#: A firewall that lets in answers, and what the proxy is there for.
LIKE_UFW = (
    "add table ip ufw; add chain ip ufw in { type filter hook input priority 0; policy drop; }; "
    "add rule ip ufw in ct state established accept; add rule ip ufw in tcp dport 8000 accept; "
    "add rule ip ufw in iif lo accept"
)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    with placed(Network, tmp_path) as made:
        yield made


def told(network: Network, what: str, took: float) -> None:
    print(f"{what}: {took:.1f} s", flush=True)
    assert took < SOON_S, network.logs()


def test_a_proxy_that_hangs_loses_the_address_and_does_not_take_it_back(network: Network) -> None:
    holder, other = network.settle()
    told(network, "a proxy that hangs", network.gap(other, lambda: holder.proxy.send_signal(signal.SIGSTOP)))
    holder.proxy.send_signal(signal.SIGCONT)
    assert network.settle() == (other, holder)


def test_a_proxy_that_is_gone_loses_it_and_one_that_is_back_at_once_does_not(network: Network) -> None:
    holder, other = network.settle()
    holder.proxy.kill()
    holder.proxy.wait()
    holder.proxy = holder.start_proxy()
    assert network.settle() == (holder, other)
    told(network, "a proxy that is gone", network.gap(other, holder.proxy.kill))
    holder.proxy.wait()
    holder.proxy = holder.start_proxy()
    assert network.settle() == (other, holder)


def test_a_keepalived_that_is_killed_hangs_or_ends_gives_it_away(network: Network) -> None:
    holder, other = network.settle()
    told(network, "a keepalived that is killed", network.gap(other, holder.kill))
    holder.kept = holder.start()
    assert network.settle() == (other, holder)
    told(network, "one that ends politely", network.gap(holder, lambda: other.send(signal.SIGTERM)))
    other.kept.wait()
    other.kept = other.start()
    assert network.settle() == (holder, other)
    told(network, "one that hangs", network.gap(other, lambda: holder.send(signal.SIGSTOP)))
    # Until it goes on both have the address, and each has a proxy that answers; then one of them.
    holder.send(signal.SIGCONT)
    network.settle()


def test_a_node_that_is_gone_and_a_cable_that_is_out_give_it_away(network: Network) -> None:
    holder, other = network.settle()
    told(network, "a cable that is out", network.gap(other, lambda: carry(network, holder.name, "down")))
    carry(network, holder.name, "up")
    assert network.settle() == (other, holder)
    # As a power cut looks to others: the switch's port stays up, and nothing comes.
    apart = ("ip", "link", "set", f"to-{other.name}")
    told(network, "a node that is silent", network.gap(holder, lambda: network.client.run(*apart, "nomaster")))
    network.client.run(*apart, "master", "br0")
    # Two had it meanwhile, neither of them dead: afterwards one has.
    network.settle()


def carry(network: Network, name: str, word: str) -> None:
    network.client.run("ip", "link", "set", f"to-{name}", word)


def test_what_takes_the_address_off_an_interface_does_not_keep_it_off(network: Network) -> None:
    """`netplan apply` does, and a DHCP lease that is renewed takes the node's own one away for a moment."""
    holder, _ = network.settle()
    begun = time.monotonic()
    holder.space.run("ip", "address", "del", f"{WANTED}/32", "dev", DEVICE)
    network.settle()
    holder, _ = network.holder()
    holder.space.run("ip", "address", "del", f"{holder.own}/24", "dev", DEVICE)
    assert holder.has_it()
    holder.space.run("ip", "address", "add", f"{holder.own}/24", "dev", DEVICE)
    network.settle()
    # What it says to others comes from its own address, always.
    assert f"src {holder.own} " in holder.space.run("ip", "route", "get", "10.0.0.99")
    silent = [later - earlier for (earlier, _), (later, _) in zip(network.answers, network.answers[1:], strict=False)]
    since = [gap for gap, (when, _) in zip(silent, network.answers, strict=False) if when > begun]
    told(network, "an address that is taken off", max(since))


def test_with_no_proxy_that_answers_the_address_stays(network: Network) -> None:
    holder, other = network.settle()
    failures = other.log().count(FAILED)
    other.proxy.send_signal(signal.SIGSTOP)
    # Each looks at its own proxy every second: had the holder seen its own fail first, it would have moved.
    try:
        network.until(20, lambda: other.log().count(FAILED) > failures)
        holder.proxy.send_signal(signal.SIGSTOP)
        time.sleep(6)
        assert holder.has_it() and not other.has_it(), network.logs()
    finally:
        for host in (other, holder):
            host.proxy.send_signal(signal.SIGCONT)
    network.settle()


def test_behind_tandem_s_firewall_and_one_that_lets_nothing_in_but_answers_one_has_it(network: Network) -> None:
    """As ufw does. What a node says to the other makes the other's words answers."""
    holder, other = network.settle()
    for host in network.hosts:
        host.space.run("nft", "--file", str(host.folder / "tandem.nft"))
        host.space.run("nft", LIKE_UFW)
    told(network, "behind a firewall", network.gap(other, holder.kill))
    holder.kept = holder.start()
    network.settle()
    for host in network.hosts:
        host.space.run("nft", "flush ruleset")


def test_behind_a_firewall_a_node_that_comes_back_takes_nothing_away(tmp_path: Path) -> None:
    """Its firewall has heard it say nothing yet, and it has the higher address, which wins where two have it."""
    with placed(Network, tmp_path) as network:
        lower, higher = network.hosts
        higher.kill()
        network.until(20, lower.has_it)
        for host in network.hosts:
            host.space.run("nft", LIKE_UFW)
        higher.kept = higher.start()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            assert lower.has_it() and not higher.has_it(), network.logs()
            time.sleep(0.05)


def test_keepalived_has_all_that_it_wants_of_its_container(network: Network) -> None:
    for host in network.hosts:
        # A higher priority it may not have here: where the tests have no time of the real-time kind to give.
        for word in ("Couldn't", "disabl", "Cannot open", "Unable"):
            assert word.lower() not in host.log().lower(), host.log()


def test_the_kernel_leaves_it_time_to_read_its_configuration(network: Network) -> None:
    """A process with real-time priority is killed when it computes too long without a pause (RLIMIT_RTTIME)."""
    for host in network.hosts:
        pid = re.findall(r"Starting VRRP child process, pid=(\d+)", host.log())[-1]
        (line,) = (each for each in Path(f"/proc/{pid}/limits").read_text().splitlines() if "realtime timeout" in each)
        assert int(line.split()[4]) >= 1_000_000, line


def test_a_head_alone_has_it_and_says_nothing_to_the_network(tmp_path: Path) -> None:
    client = Space()
    client.run("ip", "link", "add", "br0", "type", "bridge")
    client.address("br0", "10.0.0.99/24")
    with place(tmp_path) as folder:
        head = Host(client, 0, folder, topology="solo")
        try:
            end = time.monotonic() + 20
            while not head.has_it():
                assert time.monotonic() < end, head.log()
                time.sleep(0.1)
            mac = json.loads(head.space.run("ip", "-j", "link", "show", DEVICE))[0]["address"]
            assert hear(client, WANTED, "br0") == {"mac": mac, "vrids": {}}
            assert "WARNING" not in head.log()
        finally:
            head.end()
            client.close()


def test_a_configuration_that_keepalived_does_not_take_starts_nothing(network: Network, tmp_path: Path) -> None:
    host = network.hosts[0]
    lines = (host.folder / "keepalived.conf").read_text().replace("advert_int", "advert_pace")
    (tmp_path / "keepalived.conf").write_text(lines)
    start = (host.folder / "start.sh").read_text().replace(str(host.folder), str(tmp_path))
    (tmp_path / "start.sh").write_text(start)
    assert "advert_pace" in host.space.run("sh", "-c", f"sh {tmp_path}/start.sh 2>&1; true")

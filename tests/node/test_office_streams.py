"""Streams through an address that is gone, with the real keepalived, HAProxy and kernels: clients that wait for ever
are told at once.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.node.addressed import DEVICE, STREAMS, WANTED, Followed, Host
from tests.node.confined import placed
from tests.node.shipped import part
from tests.node.test_office import Door
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("keepalived"),
    reason="wants root and keepalived (tests/lab/packages.sh installs it)",
)
#: How many, and seconds until each knows; on a machine with time to spare it is 1.5 at most.
COUNT, SOON_S = 8, 5.0
#: As ufw has it: answers, what the proxy is there for, and nothing that fits no connection.
FIREWALL = (
    "add table ip fw; add chain ip fw in { type filter hook input priority 0; policy drop; }; "
    "add rule ip fw in ct state established accept; add rule ip fw in iif { lo, rail0 } accept; "
    "add rule ip fw in ct state invalid drop; add rule ip fw in tcp dport 8000 accept; "
    "add rule ip fw in ip protocol vrrp accept"
)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Followed]:
    with placed(Followed, tmp_path) as made:
        yield made


def ends(network: Followed, other: Host, act: Callable[[], object]) -> list[float]:
    """Seconds from an act until each stream has ended."""
    argv = network.client.argv(sys.executable, "-c", STREAMS, str(COUNT))
    client = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    late = threading.Timer(60, client.kill)
    late.start()
    try:
        assert client.stdout
        assert [client.stdout.readline() for _ in range(COUNT)] == ["begun\n"] * COUNT
        # Each is told of before something happens.
        time.sleep(1.5)
        begun = time.monotonic()
        act()
        network.until(15, other.has_it)
        said, _ = client.communicate(timeout=20)
    finally:
        late.cancel()
        client.kill()
        client.wait()
    lines = [line.split() for line in said.splitlines()]
    assert {how for _, how in lines} == {"ConnectionResetError"} and len(lines) == COUNT
    took = sorted(float(when) - begun for when, _ in lines)
    print("seconds until each stream knows: " + " ".join(f"{each:.2f}" for each in took), flush=True)
    assert took[-1] < SOON_S
    return took


def frozen(network: Followed, host: Host, word: signal.Signals) -> None:
    """Its kernel lives, and no program of it goes on."""
    host.send(word)
    network.followers[host.name].send_signal(word)
    host.proxy.send_signal(word)


def link(network: Followed, host: Host, *words: str) -> None:
    network.client.run("ip", "link", "set", f"to-{host.name}", *words)


def test_streams_through_a_node_that_stands_still(network: Followed) -> None:
    holder, other = network.settle()
    ends(network, other, lambda: frozen(network, holder, signal.SIGSTOP))
    frozen(network, holder, signal.SIGCONT)
    network.settle()


def test_streams_through_a_node_that_lost_power(network: Followed) -> None:
    """The switch's port stays up, and nothing comes."""
    holder, other = network.settle()
    ends(network, other, lambda: link(network, holder, "nomaster"))
    link(network, holder, "master", "br0")
    network.settle()


def test_streams_through_a_node_whose_cable_is_out(network: Followed) -> None:
    holder, other = network.settle()
    ends(network, other, lambda: link(network, holder, "down"))
    link(network, holder, "up")
    network.settle()


def test_behind_tandem_s_firewall_and_the_owner_s_they_are_told_as_well(network: Followed) -> None:
    holder, other = network.settle()
    for host in network.hosts:
        # The rail has another name here.
        firewall = (host.folder / "tandem.nft").read_text().replace('elements = { "lo"', 'elements = { rail0, "lo"')
        assert "rail0" in firewall
        (host.folder / "tandem.nft").write_text(firewall)
        host.space.run("nft", "--file", str(host.folder / "tandem.nft"))
        host.space.run("nft", FIREWALL)
    ends(network, other, lambda: frozen(network, holder, signal.SIGSTOP))
    frozen(network, holder, signal.SIGCONT)
    for host in network.hosts:
        host.space.run("nft", "flush ruleset")
    network.settle()


def test_streams_to_an_address_that_the_node_has_no_more(tmp_path: Path) -> None:
    """Its router has given it another one. Nobody would answer at the old one, and a client wait for its time."""
    with placed(Door, tmp_path) as door:
        until(lambda: door.answers("10.0.0.11"), 20)
        streams = [door.asks(address) for address in ("10.0.0.11", "10.0.0.11", WANTED)]
        time.sleep(0.5)
        door.node.run("ip", "addr", "del", "10.0.0.11/24", "dev", DEVICE)
        door.node.run("ip", "addr", "add", "10.0.0.77/24", "dev", DEVICE)
        begun = time.monotonic()
        said = [each.communicate(timeout=30)[0] for each in streams[:2]]
        print(f"another address: each stream knows after {time.monotonic() - begun:.1f} s", flush=True)
        assert [each.returncode for each in streams[:2]] == [56, 56], said
        assert streams[2].wait(30) == 0


def test_what_a_node_tells_of_its_clients_is_addresses_and_ports() -> None:
    tickle = part("office", "tickle")
    odd = [
        ["10.0.0.99", "8"],
        ["name", 8],
        ["127.0.0.1", 8],
        ["10.0.0.9", 0],
        [["10.0.0.9"], 8],
        7,
        ["10.0.0.9"],
        [1, 8],
    ]
    assert tickle.believed([*odd, ["10.0.0.9", 8]]) == [("10.0.0.9", 8)]
    assert tickle.believed("10.0.0.9") == [] and len(tickle.believed([["10.0.0.9", 8]] * 9000)) == tickle.MOST


def test_connections_to_the_virtual_address_are_found_among_others(tmp_path: Path) -> None:
    rows = ["3200000A:1F40 6300000A:D431 01", "3200000A:1F40 6300000A:D432 06", "0B00000A:1F40 6300000A:D433 01"]
    (tmp_path / "tcp").write_text("head\n" + "".join(f" 0: {row} 0 0\n" for row in rows))
    connected = part("office", "tickle").connected
    assert connected(WANTED, 8000, tmp_path / "tcp") == [("10.0.0.99", 0xD431)]
    assert connected(WANTED, 8001, tmp_path / "tcp") == []

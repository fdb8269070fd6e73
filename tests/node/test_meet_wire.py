"""The ranks' meeting over a wire: cut for a while, cut for good, and with a node at its end that was booted since."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.test_meet import has_started, lay_out

ADDRESSES = ("10.77.0.1", "10.77.0.2")
#: Longer than the pause after which TCP asks again at 6 s of silence and before it does at 12 s.
CUT_S = 8


class Pair:
    """Two ranks, each in a network namespace, with a switch between them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.names = [f"meet-{os.getpid()}-{what}" for what in ("rank-0", "rank-1", "switch")]
        self.switch = self.names[2]
        self.running: dict[int, subprocess.Popen[str]] = {}

    def wire_up(self) -> None:
        """All of it; what was made is removed by `end`, also when this breaks off."""
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "switch", "type", "bridge")
        ip("-n", self.switch, "link", "set", "switch", "up")
        for rank in range(2):
            self.plug_in(rank)

    def plug_in(self, rank: int) -> None:
        """A namespace with a cable to the switch, and an address."""
        name, port = self.names[rank], f"port{rank}"
        ip("netns", "add", name)
        # The same after it was booted, as a NIC's own: the other node asks nobody for it.
        mac = f"02:00:00:00:00:{rank + 1:02}"
        ip(
            *("-n", name, "link", "add", "wire", "address", mac),
            *("type", "veth", "peer", "name", port, "netns", self.switch),
        )
        ip("-n", self.switch, "link", "set", port, "master", "switch", "up")
        ip("-n", name, "addr", "add", f"{ADDRESSES[rank]}/24", "dev", "wire")
        ip("-n", name, "link", "set", "wire", "up")

    def set_wire(self, state: str) -> None:
        """`down` cuts rank 1's cable, `up` heals it; rank 0 keeps its carrier, and what it sends is lost."""
        ip("-n", self.switch, "link", "set", "port1", state)

    def start(self, rank: int) -> None:
        folder = lay_out(self.home, rank, (ADDRESSES[0], 29400))
        argv = ["ip", "netns", "exec", self.names[rank], sys.executable, str(folder / "meet.py"), "one"]
        self.running[rank] = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)

    def lose(self, rank: int) -> None:
        """Without a word: its node has lost power."""
        self.running[rank].kill()

    def boot(self, rank: int) -> None:
        """A node with the same address, that knows of no connection."""
        ip("-n", self.switch, "link", "del", f"port{rank}")
        self.remove(rank)
        self.plug_in(rank)

    def remove(self, number: int) -> None:
        """A namespace, and what a killed rank has left in it."""
        pids = subprocess.run(["ip", "netns", "pids", self.names[number]], capture_output=True, text=True, check=False)
        for pid in pids.stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        subprocess.run(["ip", "netns", "del", self.names[number]], check=False)

    def last_words(self, rank: int) -> str:
        """What a rank says until it has left."""
        return self.running[rank].communicate(timeout=30)[1]

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()
        for number in range(len(self.names)):
            self.remove(number)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    if os.geteuid():
        pytest.skip("namespaces need root")
    made = Pair(tmp_path)
    try:
        made.wire_up()
        for rank in range(2):
            made.start(rank)
        assert has_started(tmp_path, 0, 1)
        # A kernel confirms the last word of a meeting 40 ms behind it. Lost in a cut, that word would be sent again and
        # again, ever more seldom.
        time.sleep(0.5)
        yield made
    finally:
        made.end()


def test_a_wire_that_is_back_after_a_while_costs_nothing(pair: Pair) -> None:
    pair.set_wire("down")
    time.sleep(CUT_S)
    pair.set_wire("up")
    time.sleep(8)
    assert [each.poll() for each in pair.running.values()] == [None, None]


def test_a_wire_that_stays_cut_ends_both(pair: Pair) -> None:
    pair.set_wire("down")
    assert "rank 1 has been silent for 12 s: leaving" in pair.last_words(0)
    assert "rank 0 has been silent for 12 s: leaving" in pair.last_words(1)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_node_that_is_back_tells_that_its_rank_is_gone(pair: Pair, rank: int) -> None:
    pair.set_wire("down")
    pair.lose(rank)
    time.sleep(CUT_S)
    pair.boot(rank)
    pair.set_wire("up")
    assert f"rank {rank} is gone: leaving" in pair.last_words(1 - rank)


def test_a_netdev_that_goes_ends_both_as_a_cut_does(pair: Pair) -> None:
    """With the firewall's routes a node has its address still, and knows of no way to the other."""
    inside = ("-n", pair.names[1], "route", "add")
    ip(*inside, "local", ADDRESSES[1], "dev", "lo", "table", "local", "metric", "4000000000")
    ip(*inside, "unreachable", "10.77.0.0/24", "metric", "4000000000")
    ip("-n", pair.names[1], "link", "del", "wire")
    begun = time.monotonic()
    assert "leaving" in pair.last_words(1) and "leaving" in pair.last_words(0)
    assert time.monotonic() - begun < 20

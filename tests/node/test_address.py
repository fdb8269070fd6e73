"""The real keepalived, configured as a deploy renders it, in two namespaces on one network: who has the address."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from operations.node import claimed
from operations.plan.formats import load_recipe
from operations.plan.plan import make_plan
from tests.node.spaces import Space, wire
from tests.plan.samples import knobs, nodes

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("keepalived"), reason="wants root and keepalived")
WANTED, PORT = "10.0.0.50", 8000
#: A double of the proxy, which says whose it is.
PROXY = """
import socket, sys
server = socket.create_server(("0.0.0.0", 8000))
while True:
    guest = server.accept()[0]
    guest.settimeout(1)
    try:
        guest.recv(999)
        guest.send(b"HTTP/1.0 200 OK\\r\\n\\r\\n" + sys.argv[1].encode())
    except OSError:
        pass
    guest.close()
"""
#: Asks in a loop: a line for each answer.
CLIENT = """
import socket, time
while True:
    try:
        with socket.create_connection(("10.0.0.50", 8000), 0.5) as way:
            way.settimeout(0.5)
            way.send(b"GET / HTTP/1.0\\r\\n\\r\\n")
            said = b"".join(iter(lambda: way.recv(999), b""))
            print(said.decode().split()[-1], flush=True)
    except OSError:
        pass
    time.sleep(0.05)
"""


class Host:
    """A node: its namespace, its proxy and its keepalived."""

    def __init__(self, client: Space, index: int, folder: Path) -> None:
        self.name, self.space, self.folder = "ab"[index], Space(), folder / "ab"[index]
        self.folder.mkdir()
        wire(client, f"to-{self.name}", self.space, "enP7s7")
        client.run("ip", "link", "set", f"to-{self.name}", "master", "br0", "up")
        self.space.address("enP7s7", f"10.0.0.{11 + index}/24")
        wanted = knobs(topology="replicas", proxy_bind="all", proxy_address=WANTED)
        mine = make_plan(load_recipe(wanted.recipe), wanted, nodes(2, wanted)).nodes[index].address
        assert mine
        for file in mine.files:
            path = self.folder / Path(file.path).name
            path.write_text(file.content.replace("/tandem/asks.sh", str(self.folder / "asks.sh")))
            path.chmod(0o755)
        # It runs no script that others could write.
        os.chmod(folder, 0o755)
        (self.folder / "keepalived.conf").chmod(0o644)
        self.proxy = self.start_proxy()
        self.kept = self.start()

    def start_proxy(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.space.argv(sys.executable, "-c", PROXY, self.name))

    def start(self) -> subprocess.Popen[bytes]:
        argv = ["keepalived", "--dont-fork", "--log-console", "--use-file", str(self.folder / "keepalived.conf")]
        for kind in ("pid", "vrrp_pid", "checkers_pid"):
            argv += [f"--{kind}", str(self.folder / kind)]
        with (self.folder / "log").open("a") as log:
            return subprocess.Popen(self.space.argv(*argv), stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """keepalived and its child, at once."""
        os.killpg(self.kept.pid, signal.SIGKILL)
        self.kept.wait()

    def has_it(self) -> bool:
        return WANTED in self.space.run("ip", "-o", "addr", "show", "dev", "enP7s7")

    def end(self) -> None:
        self.kill()
        self.proxy.send_signal(signal.SIGCONT)
        self.proxy.kill()
        self.proxy.wait()
        self.space.close()


class Network:
    """Both, and a client that asks without a pause."""

    def __init__(self, folder: Path) -> None:
        self.client = Space()
        self.client.run("ip", "link", "add", "br0", "type", "bridge")
        self.client.address("br0", "10.0.0.99/24")
        self.hosts = [Host(self.client, index, folder) for index in range(2)]
        self.answers: list[tuple[float, str]] = []
        argv = self.client.argv(sys.executable, "-c", CLIENT)
        self.asking = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._hear, daemon=True).start()
        self.until(15, lambda: self.answers and sum(host.has_it() for host in self.hosts) == 1)

    def _hear(self) -> None:
        assert self.asking.stdout
        for line in self.asking.stdout:
            self.answers.append((time.monotonic(), line.strip()))

    def until(self, seconds: float, condition: Callable[[], Any]) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, [(host.folder / "log").read_text()[-2000:] for host in self.hosts]
            time.sleep(0.05)

    def holder(self) -> tuple[Host, Host]:
        """Who has it, and the other one."""
        first, second = self.hosts
        return (first, second) if first.has_it() else (second, first)

    def gap(self, other: Host, act: Callable[[], Any]) -> float:
        """Seconds from an act until the other one answers at the address."""
        begun = time.monotonic()
        act()
        self.until(15, lambda: any(when > begun and name == other.name for when, name in self.answers))
        return next(when for when, name in self.answers if when > begun and name == other.name) - begun

    def end(self) -> None:
        self.asking.kill()
        self.asking.wait()
        for host in self.hosts:
            host.end()
        self.client.close()


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    made = Network(tmp_path)
    yield made
    made.end()


def test_a_proxy_that_hangs_loses_the_address_and_does_not_take_it_back(network: Network) -> None:
    holder, other = network.holder()
    took = network.gap(other, lambda: holder.proxy.send_signal(signal.SIGSTOP))
    print(f"a proxy that hangs: {took:.1f} s")
    # Two questions of a second each, and the machine that tests has little time.
    assert took < 6
    holder.proxy.send_signal(signal.SIGCONT)
    time.sleep(5)
    assert other.has_it() and not holder.has_it()


def test_the_address_moves_when_its_keepalived_is_killed_or_its_cable_is_out(network: Network) -> None:
    holder, other = network.holder()
    took = network.gap(other, lambda: network.client.run("ip", "link", "set", f"to-{holder.name}", "down"))
    print(f"a cable that is out: {took:.1f} s")
    assert took < 6
    network.client.run("ip", "link", "set", f"to-{holder.name}", "up")
    network.until(10, lambda: not holder.has_it() or not other.has_it())
    holder, other = network.holder()
    took = network.gap(other, holder.kill)
    print(f"a keepalived that is killed: {took:.1f} s")
    assert took < 6
    # What the unit does behind it.
    holder.space.run("ip", "addr", "del", f"{WANTED}/24", "dev", "enP7s7", check=False)
    holder.kept = holder.start()
    time.sleep(4)
    assert other.has_it() and not holder.has_it()


def test_one_that_ends_says_goodbye(network: Network) -> None:
    holder, other = network.holder()
    took = network.gap(other, lambda: holder.kept.send_signal(signal.SIGTERM))
    print(f"a keepalived that is stopped: {took:.1f} s")
    assert took < 3
    holder.kept.wait()
    holder.kept = holder.start()


def test_with_no_proxy_that_answers_the_address_stays(network: Network) -> None:
    holder, other = network.holder()
    for host in (other, holder):
        host.proxy.send_signal(signal.SIGSTOP)
    time.sleep(6)
    assert holder.has_it() and not other.has_it()


def test_an_address_that_another_host_has_is_noticed_and_a_neighbour_s_vrrp(network: Network) -> None:
    holder, other = network.holder()
    mac = json.loads(holder.space.run("ip", "-j", "link", "show", "enP7s7"))[0]["address"]
    program = "import json,sys; from operations.node import claimed; print(json.dumps(claimed.main(*sys.argv[1:])))"
    root = str(Path(claimed.__file__).parents[2])

    def heard(address: str) -> str:
        return other.space.run("env", f"PYTHONPATH={root}", sys.executable, "-c", program, address, "enP7s7")

    assert f'"mac": "{mac}"' in heard(WANTED)
    assert '"mac": ""' in heard("10.0.0.77")
    assert '"50": ["10.0.0.' in heard("10.0.0.77")


def test_what_is_rendered_is_what_keepalived_takes(network: Network) -> None:
    for host in network.hosts:
        done = subprocess.run(
            host.space.argv("keepalived", "--config-test", "--use-file", str(host.folder / "keepalived.conf")),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

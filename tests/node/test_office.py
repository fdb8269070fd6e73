"""What follows the office's addresses, with the real HAProxy and keepalived behind it: addresses change, and both know.

Doubles of `systemctl` and `docker` stand between them: they have the real programs read their files again, as systemd
and Docker would.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from operations.node.network import office as told
from operations.node.unit import services
from operations.paths import (
    ADDRESS,
    OFFICE,
    OFFICE_KNOWN,
    OFFICE_RUN,
    PROXY,
    PROXY_CONFIG,
    PROXY_LOADED,
    PROXY_RUN,
    SOCKETS,
    folder_of,
)
from tests.node.addressed import DEVICE, WANTED, Followed, Host, Network, follow
from tests.node.confined import behind, owned, place, placed
from tests.node.spaces import Space, wire
from tests.plan.samples import plan
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("keepalived") or not shutil.which("haproxy"),
    reason="wants root, keepalived and haproxy (tests/lab/packages.sh installs them)",
)
DOUBLE = Path(__file__).parent / "doubles/litellm_double.py"
#: Seconds in which another address is known to everybody; on a machine with time to spare it is one.
SOON_S = 10.0


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    with placed(Followed, tmp_path) as made:
        yield made


def move(host: Host, address: str) -> None:
    host.space.run("ip", "addr", "del", f"{host.own}/24", "dev", DEVICE)
    host.space.run("ip", "addr", "add", f"{address}/24", "dev", DEVICE)
    host.own = address


def holds_alone(network: Network, host: Host, seconds: float = 4) -> None:
    """Wait until a host has had the address alone for so long, without a break. Raises AssertionError after five times
    that: a keepalived that starts on a loaded machine may be a second holder for a moment.
    """
    since = time.monotonic()
    end = since + 5 * seconds
    while time.monotonic() < since + seconds:
        assert time.monotonic() < end, network.logs()
        if [each.name for each in network.hosts if each.has_it()] != [host.name]:
            since = time.monotonic()
        time.sleep(0.1)


def test_a_node_that_boots_with_another_address_takes_nothing_away(network: Network) -> None:
    """The one that has the address spoke to the one that was, and both had it, until somebody deployed."""
    for address in ("10.0.0.77", "10.0.0.5"):
        holder, other = network.settle()
        other.kill()
        move(other, address)
        other.kept = other.start()
        (other.folder / "pid").write_text(str(other.kept.pid))
        until(lambda at=address, of=holder: f"    {at}\n" in (of.folder / "run/unicast.loaded").read_text(), SOON_S)  # type: ignore[misc]
        time.sleep(1)
        holds_alone(network, holder)
        # It is heard: without the holder the address is the other one's.
        assert network.gap(other, holder.kill) < SOON_S
        holder.kept = holder.start()
        (holder.folder / "pid").write_text(str(holder.kept.pid))


def test_an_address_that_changes_while_it_has_the_virtual_one(network: Network) -> None:
    holder, other = network.settle()
    begun = time.monotonic()
    move(holder, "10.0.0.78")
    until(lambda: "    10.0.0.78\n" in (other.folder / "run/unicast.loaded").read_text(), SOON_S)
    until(lambda: "src_ip 10.0.0.78\n" in (holder.folder / "run/unicast.loaded").read_text(), SOON_S)
    until(lambda: any(when > begun for when, _ in network.answers), SOON_S)
    network.settle()
    (known,) = json.loads((other.folder / "known.json").read_text()).values()
    assert known == ["10.0.0.78"]


#: In the place of office.py: what it knows after each call is more than before.
_NOW_DOUBLE = """
from pathlib import Path
conf = Path(__file__).parent / "run/unicast.conf"
conf.write_text((conf.read_text() if conf.exists() else "") + "heard ")
"""


def test_keepalived_waits_for_a_word_of_the_others_after_a_boot_and_at_no_other_start(tmp_path: Path) -> None:
    """Both may have other addresses then: each would speak to nobody, and take the virtual one."""
    mine = plan(topology="replicas", proxy_address=WANTED).head
    (text,) = (file.content for file in mine.container(ADDRESS).files if file.path.endswith("/ready.sh"))
    moved = {OFFICE_RUN: f"{tmp_path}/run", folder_of(OFFICE): str(tmp_path), folder_of(ADDRESS): str(tmp_path)}
    (tmp_path / "ready.sh").write_text(re.sub("|".join(moved), lambda found: moved[found[0]], text))
    (tmp_path / "run").mkdir()
    (tmp_path / "office.py").write_text(_NOW_DOUBLE)
    (tmp_path / "greet.py").write_text("")
    for heard, least, most in (("heard heard ", 2.5, 20.0), ("heard heard heard ", 0.0, 2.5)):
        begun = time.monotonic()
        subprocess.run(["sh", str(tmp_path / "ready.sh"), "spec"], check=True, timeout=30)
        assert least < time.monotonic() - begun < most
        assert (tmp_path / "run/unicast.loaded").read_text() == heard


_SAY = """
import json, socket, sys
wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
wire.bind((sys.argv[1], 0))
for text in (json.dumps({"name": sys.argv[3], "own": [sys.argv[4]]}), "[" * 60000):
    wire.sendto(text.encode(), (sys.argv[2], 26012))
"""


def test_whoever_has_a_login_on_a_node_says_nothing_to_the_others(network: Network) -> None:
    holder, other = network.settle()
    known = holder.folder / "known.json"
    until(lambda: "10.0.0.1" in known.read_text(), SOON_S)
    before = known.read_text()
    (name,) = json.loads(before)
    fabric = [f"192.168.177.{11 + network.hosts.index(each)}" for each in (other, holder)]
    other.space.run(sys.executable, "-c", _SAY, *fabric, name, "10.0.0.66")
    # What the node itself says, every two seconds, would put it right.
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        assert known.read_text() == before
        time.sleep(0.01)
    # It still listens.
    move(other, "10.0.0.79")
    until(lambda: "10.0.0.79" in known.read_text(), SOON_S)
    assert not list(holder.folder.glob("**/*.new"))


class Door:
    """A node whose proxy listens on the office's interface, and a client beside it."""

    def __init__(self, folder: Path) -> None:
        self.node, self.client = Space(), Space()
        wire(self.client, "eth0", self.node, DEVICE)
        self.client.address("eth0", "10.0.0.99/24")
        self.node.address(DEVICE, "10.0.0.11/24", f"{WANTED}/32")
        mine = plan(topology="solo", proxy_bind="management", proxy_address=WANTED).head
        run, files = folder / "run", [*mine.container(PROXY).files, *mine.services[OFFICE].files]
        owned(run)
        moved = {f"{PROXY_RUN}/": f"{run}/", PROXY_LOADED: f"{folder}/loaded", PROXY_CONFIG: f"{folder}/haproxy.cfg"}
        moved |= {
            OFFICE_RUN: f"{folder}/office",
            OFFICE_KNOWN: f"{folder}/known.json",
            SOCKETS: f"{folder}/sockets",
            folder_of(OFFICE): str(folder),
        }
        self.folder = folder
        for file in files:
            # ready.sh makes HAProxy's folder anew.
            text = file.content.replace(f"rm -rf {PROXY_RUN}", "true")
            (folder / Path(file.path).name).write_text(re.sub("|".join(moved), lambda found: moved[found[0]], text))
        self.node.run("sh", str(folder / "ready.sh"), "spec")
        # A server that refuses HAProxy's first look is away until its next one.
        sockets = folder / "sockets"
        double = (sys.executable, str(DOUBLE), "a", str(sockets / "litellm-a.sock"), str(sockets / "litellm-a.pulse"))
        self.litellm = subprocess.Popen(self.node.argv(*double), stderr=subprocess.DEVNULL)
        until((sockets / "litellm-a.sock").exists, 20)
        configs = ("-f", f"{folder}/office/haproxy.cfg", "-f", f"{folder}/haproxy.cfg")
        proxy = (*behind(folder, run, sockets), "haproxy", "-W", "-db", *configs)
        self.proxy = subprocess.Popen(self.node.argv(*proxy))
        self.follower = follow(self.node, folder, folder / "reload.sh", f"kill -USR2 {self.proxy.pid}")

    def asks(self, address: str) -> subprocess.Popen[str]:
        """A stream of forty pieces."""
        body = json.dumps({"pieces": 40})
        key = "Authorization: Bearer sk-key"
        argv = ("curl", "-sS", "-m", "20", "-H", key, f"http://{address}:8000/v1/chat", "-d", body)
        return subprocess.Popen(self.client.argv(*argv), stdout=subprocess.PIPE, text=True, stderr=subprocess.STDOUT)

    def answers(self, address: str) -> bool:
        url = f"http://{address}:8000/health/liveliness"
        return "200" in self.client.run(
            "curl", "-s", "-m", "2", "-o", "/dev/null", "-w", "%{http_code}", url, check=False
        )

    def end(self) -> None:
        for each in (self.follower, self.proxy, self.litellm):
            each.kill()
            each.wait()
        self.node.close()
        self.client.close()


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    with placed(Door, tmp_path) as made:
        yield made


def test_the_proxy_listens_where_the_interface_is_and_streams_of_another_address_go_on(door: Door) -> None:
    until(lambda: door.answers("10.0.0.11"), 20)
    stream = door.asks(WANTED)
    time.sleep(0.3)
    door.node.run("ip", "addr", "del", "10.0.0.11/24", "dev", DEVICE)
    door.node.run("ip", "addr", "add", "10.0.0.77/24", "dev", DEVICE)
    begun = time.monotonic()
    until(lambda: door.answers("10.0.0.77"), SOON_S)
    took = time.monotonic() - begun
    assert stream.poll() is None, "the stream was over too soon to say anything"
    print(f"another address: {took:.1f} s")
    said, _ = stream.communicate(timeout=20)
    assert stream.returncode == 0 and said.count("a") >= 40, said
    # The virtual one is keepalived's, and nobody's own; and no more is listened to than that interface's.
    assert (door.folder / "office/addresses").read_text() == "10.0.0.77\n"
    door.node.run("ip", "link", "add", "other0", "type", "bridge")
    door.node.address("other0", "10.9.0.1/24")
    time.sleep(1)
    places = {line.split()[3] for line in door.node.run("ss", "-Hltn", "sport = :8000").splitlines()}
    assert places == {"10.0.0.77:8000", f"{WANTED}:8000"}


def test_a_start_waits_for_no_address_that_is_gone_and_says_which_interface_has_none(door: Door) -> None:
    door.node.run("ip", "addr", "flush", "dev", DEVICE)
    now = (sys.executable, str(door.folder / "office.py"), "now")
    none = f"{DEVICE} has no IPv4 address in the network of proxy_address {WANTED}\n"
    assert door.node.run(*now) == none
    # What was told last stays.
    assert (door.folder / "office/addresses").read_text() == "10.0.0.11\n"
    # As a machine has that asks for an address and has got none yet: of the cable's own, and by IPv6's router.
    door.node.run("ip", "addr", "add", "169.254.3.4/16", "dev", DEVICE, "scope", "link")
    door.node.run("ip", "addr", "add", "2001:db8::7/64", "dev", DEVICE, "nodad")
    door.node.run("ip", "addr", "add", "172.16.0.1/24", "dev", DEVICE)
    assert door.node.run(*now) == none
    time.sleep(1)
    assert (door.folder / "office/addresses").read_text() == "10.0.0.11\n"
    door.node.run("ip", "addr", "add", "10.0.0.12/24", "dev", DEVICE)
    assert door.node.run(*now) == ""
    assert (door.folder / "office/haproxy.cfg").read_text().endswith("OFFICE 10.0.0.12:8000,172.16.0.1:8000\n")
    # Without a virtual address any network will do, and a cable's own where there was no router at the deploy either.
    spec = door.folder / "office.json"
    alone = json.loads(spec.read_text()) | {"moving": ""}
    door.node.run("ip", "addr", "flush", "dev", DEVICE)
    door.node.run("ip", "addr", "add", "169.254.3.4/16", "dev", DEVICE, "scope", "link")
    for routerless, said in ((False, f"{DEVICE} has no IPv4 address\n"), (True, "")):
        spec.write_text(json.dumps(alone | {"routerless": routerless}))
        assert door.node.run(*now) == said
    assert (door.folder / "office/addresses").read_text() == "169.254.3.4\n"


def test_what_outlives_an_address_is_told_with_the_one_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "RUN", tmp_path)
    monkeypatch.setattr(told, "KNOWN", tmp_path / "known.json")
    assert told.state() == {"own": [], "known": {}}
    assert told.live("https://@office:8000") == "" and told.live("http://127.0.0.1:8000") == "http://127.0.0.1:8000"
    (tmp_path / "addresses").write_text("10.0.0.77\n10.0.0.78\n")
    assert told.live("https://@office:8000") == "https://10.0.0.77:8000"
    (tmp_path / "addresses").write_text("fd00::7\n")
    assert told.live("https://@office:8000") == "https://[fd00::7]:8000"
    (tmp_path / "known.json").write_text("[]")
    assert told.state()["known"] == {}


def test_whoever_asks_for_the_endpoint_is_told_the_address_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = {"tandem.url": "http://@office:8000", "tandem.model": "tiny"}
    container = {"Name": "/tandem-proxy", "Image": "i", "Config": {"Labels": labels, "Image": "n"}}
    monkeypatch.setattr(services, "docker_inspect", lambda *_: [container])
    monkeypatch.setattr(services, "output", lambda *_, **__: "")
    monkeypatch.setattr(told, "RUN", tmp_path)
    for address in ("10.0.0.11", "10.0.0.77"):
        (tmp_path / "addresses").write_text(f"{address}\n")
        assert services.main(["tandem-proxy"])["units"]["tandem-proxy"]["url"] == f"http://{address}:8000"


def test_before_nodes_told_each_other_the_peers_are_in_keepalived_s_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(told, "RUN", tmp_path)
    monkeypatch.setattr(told, "KNOWN", tmp_path / "known.json")
    monkeypatch.setattr(told, "CONFIG", tmp_path / "keepalived.conf")
    assert told.state()["known"] == {}
    old = "vrrp_instance tandem {\n    unicast_peer {\n        10.0.0.12\n        10.0.0.13\n    }\n}\n"
    (tmp_path / "keepalived.conf").write_text(old)
    assert told.state()["known"] == {"10.0.0.12": ["10.0.0.12"], "10.0.0.13": ["10.0.0.13"]}
    (tmp_path / "known.json").write_text('{"spark-2": ["10.0.0.12"]}')
    assert told.state()["known"] == {"spark-2": ["10.0.0.12"]}


def test_a_port_that_another_program_holds_is_said_in_one_line(tmp_path: Path) -> None:
    with place(tmp_path) as folder:
        mine = plan(topology="replicas", proxy_address=WANTED).head
        for file in mine.services[OFFICE].files:
            text = file.content.replace("192.168.177.11", "127.0.0.1")
            (folder / Path(file.path).name).write_text(text)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as held:
            held.bind(("127.0.0.1", 26012))
            argv = (sys.executable, "-B", str(folder / "office.py"), "spec")
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("tandem: UDP port 26012 of 127.0.0.1 can't be had: Address already in use")

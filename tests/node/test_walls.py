"""The walls as nftables and the kernel have them: who reaches what, with the whole table of a plan in force.

A node with two rails, an office network and a container of its owner's; a host in the office that has set a route to
the fabric through the node; another node at the other end of the rails. The listeners are real, on all addresses as
vLLM and Ray have theirs; systemd has no part in this.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from operations.node import walls as on_node
from operations.plan.places import SLICE
from tests.node.spaces import Place, Space, wire
from tests.plan.samples import ROOT, plan

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("nft"), reason="namespaces want root, and nft (apt install nftables)"
)

#: Addresses of the node: in the office, on the fabric, of its other node there.
OFFICE, OFFICE_6, FABRIC, PEER = "10.99.0.11", "fd00:99::11", "192.168.177.11", "192.168.177.12"
GROUP = f"walls-test-{os.getpid()}.slice"
#: What vLLM, Ray and torch open where they like, and what a plan gives out.
STRAY: list[Place] = [("tcp", "0.0.0.0", 39983), ("tcp", "::", 39983), ("udp", "0.0.0.0", 39984), ("udp", "::", 39984)]
PLANNED: list[Place] = [("tcp", "0.0.0.0", 26001), ("tcp", "::", 26001), ("tcp", FABRIC, 8001)]
#: The owner's: on ports that an engine could have chosen as well, and ssh.
OWN: list[Place] = [(kind, each, 40123) for kind in ("tcp", "udp") for each in ("0.0.0.0", "::")]
SSH: list[Place] = [("tcp", "0.0.0.0", 22), ("tcp", "::", 22)]
PROXY: list[Place] = [("tcp", "0.0.0.0", 8000)]

#: What Docker and an owner have beside: a published port of a container, and a port that the owner has shut himself.
_OTHERS = """
table ip nat {
    chain PREROUTING { type nat hook prerouting priority dstnat; tcp dport 8080 dnat to 172.30.0.2:80; }
    chain POSTROUTING { type nat hook postrouting priority srcnat; ip saddr 172.30.0.0/24 masquerade; }
}
table inet owner {
    chain input { type filter hook input priority filter; policy accept; tcp dport 40999 drop; }
}
"""

#: For a mount namespace: cgroup v2 lies where nft looks for it, as on a node.
_MOUNT = (
    "mount --make-rprivate / && { [ -e /sys/fs/cgroup/cgroup.controllers ] || mount -t cgroup2 none /sys/fs/cgroup; }"
)


class Site:
    """The node and those around it; `walls`: the folder of its walls."""

    def __init__(self, folder: Path, group: Path) -> None:
        self.node, self.office, self.peer, self.container = Space(), Space(), Space(), Space()
        self.walls, self.group = folder, group

    def build(self) -> None:
        wire(self.node, "office", self.office, "eth0")
        wire(self.node, "enp1s0f0np0", self.peer, "enp1s0f0np0")
        wire(self.node, "docker0", self.container, "eth0")
        self.node.address("office", f"{OFFICE}/24", f"{OFFICE_6}/64")
        self.node.address("enp1s0f0np0", f"{FABRIC}/24")
        self.node.address("docker0", "172.30.0.1/24")
        self.office.address("eth0", "10.99.0.1/24", "fd00:99::1/64")
        self.peer.address("enp1s0f0np0", f"{PEER}/24")
        self.container.address("eth0", "172.30.0.2/24")
        self.node.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
        # The host that has set a route; and the ways back.
        self.office.run("ip", "route", "add", "192.168.177.0/24", "via", OFFICE)
        self.peer.run("ip", "route", "add", "10.99.0.0/24", "via", FABRIC)
        self.container.run("ip", "route", "add", "default", "via", "172.30.0.1")
        subprocess.run(self.node.argv("nft", "--file", "-"), input=_OTHERS, text=True, check=True)
        self.node.listen(*STRAY, group=self.group)
        # Of no group: the ports alone say what they are.
        self.node.listen(*PLANNED)
        self.node.listen(*OWN, *SSH, *PROXY, ("tcp", "0.0.0.0", 40999))
        self.container.listen(("tcp", "0.0.0.0", 80))
        self.peer.listen(("tcp", "0.0.0.0", 8001), ("tcp", "0.0.0.0", 22))
        self.office.listen(("tcp", "0.0.0.0", 80))

    def sh(self, action: str, check: bool = True) -> str:
        """`walls.sh` on the node."""
        script = f"{_MOUNT} && exec {self.walls}/walls.sh {action}"
        argv = ["unshare", "--mount", *self.node.argv("sh", "-c", script)]
        environment = {**os.environ, "TANDEM_RUN": str(self.walls / "run")}
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def render(self, **knobs: str) -> None:
        """The files of the head's walls, as the plan has them, for a control group of this test's own."""
        program = plan(**{"topology": "cluster", "executor": "mp", **knobs}).head.walls
        assert program
        for file in program.files:
            path = self.walls / Path(file.path).name
            path.write_text(file.content.replace(SLICE, GROUP))
            path.chmod(int(file.mode, 8))

    def reach(self, places: list[Place], via: str, via_6: str = "") -> set[Place]:
        """Those that answer to the office at these addresses of the node."""
        asked = [(kind, (via_6 if ":" in each else via), port) for kind, each, port in places]
        told = self.office.ask([each for each in asked if each[1]])
        return {place for place, each in zip(places, asked, strict=True) if told.get(each) == "hello"}


def unified() -> Path:
    """Where this machine has cgroup v2."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    found = [Path(each[1]) for each in mounts if each[2] == "cgroup2"]
    if not found:
        pytest.skip("this machine has no cgroup v2")
    return found[0]


@contextmanager
def built(folder: Path) -> Iterator[Site]:
    group = unified() / GROUP
    # As Docker puts it: a group for the container below.
    (group / "docker-1.scope").mkdir(parents=True)
    with ExitStack() as stack:
        stack.callback(lambda: (group / "docker-1.scope").rmdir() or group.rmdir())  # type: ignore[func-returns-value]
        site = Site(folder, group / "docker-1.scope")
        for space in (site.node, site.office, site.peer, site.container):
            stack.callback(space.close)
        site.build()
        yield site


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site without walls."""
    with built(tmp_path_factory.mktemp("walls")) as site:
        yield site


@pytest.fixture
def site(standing: Site) -> Iterator[Site]:
    standing.render()
    yield standing
    standing.sh("drop")


def test_without_walls_everybody_reaches_everything(site: Site) -> None:
    everything = [*STRAY, *PLANNED[:2], *OWN, *SSH, *PROXY]
    assert site.reach(everything, OFFICE, OFFICE_6) == set(everything)
    assert site.reach([PLANNED[2], *SSH[:1]], FABRIC) == {PLANNED[2], SSH[0]}
    assert site.office.ask([("tcp", PEER, 8001)]) == {("tcp", PEER, 8001): "hello"}


def test_from_the_office_the_proxy_ssh_and_the_owner_s_own_answer_and_nothing_else(site: Site) -> None:
    site.sh("load")
    everything = [*STRAY, *PLANNED[:2], *OWN, *SSH, *PROXY]
    assert site.reach(everything, OFFICE, OFFICE_6) == {*OWN, *SSH, *PROXY}


def test_a_route_to_the_fabric_leads_nowhere_but_to_ssh(site: Site) -> None:
    site.sh("load")
    assert site.reach([*STRAY, *PLANNED, *OWN, *SSH, *PROXY], FABRIC) == {SSH[0]}
    # Through this node to the other one.
    assert site.office.ask([("tcp", PEER, 8001), ("tcp", PEER, 22)]) == {
        ("tcp", PEER, 8001): "silent",
        ("tcp", PEER, 22): "hello",
    }
    # And out of a container of the owner's, which reaches the proxy as before.
    asked: list[Place] = [("tcp", FABRIC, 8001), ("tcp", PEER, 8001), ("tcp", "172.30.0.1", 39983)]
    assert set(site.container.ask(asked).values()) == {"silent"}
    assert set(site.container.ask([("tcp", "172.30.0.1", 8000)]).values()) == {"hello"}


def test_over_a_rail_and_on_the_node_itself_everything_answers(site: Site) -> None:
    site.sh("load")
    inner: list[Place] = [(kind, FABRIC, port) for kind, each, port in [*STRAY, *PLANNED, *OWN, *PROXY] if each != "::"]
    assert set(site.peer.ask(inner).values()) == {"hello"}
    assert set(site.node.ask([*inner, ("tcp", "::1", 39983), ("tcp", OFFICE, 39983)]).values()) == {"hello"}


def test_the_owner_s_own_rules_and_containers_live_on(site: Site) -> None:
    before = site.node.run("nft", "list", "ruleset")
    site.sh("load")
    assert set(site.office.ask([("tcp", OFFICE, 8080)]).values()) == {"hello"}
    assert set(site.container.ask([("tcp", "10.99.0.1", 80)]).values()) == {"hello"}
    # What the owner has shut stays shut: ours lets it by, his own rule drops it.
    assert set(site.office.ask([("tcp", OFFICE, 40999)]).values()) == {"silent"}
    site.sh("drop")
    assert site.node.run("nft", "list", "ruleset") == before


def test_the_engine_itself_may_ask_outside(site: Site) -> None:
    """Pictures that a request names, for one."""
    site.sh("load")
    ask = f"""import socket
open({str(site.group / "cgroup.procs")!r}, "w").write("0")
print(socket.create_connection(("10.99.0.1", 80), 3).recv(9).decode())"""
    assert site.node.run("python3", "-c", ask) == "hello\n"


def test_what_was_connected_before_the_walls_is_cut_off_and_ssh_is_not(site: Site) -> None:
    # Two connections from the office, one of them to the engine; the walls go up; a byte on each.
    echo = """
import socket, sys, threading
if len(sys.argv) > 2:
    open(sys.argv[2] + "/cgroup.procs", "w").write("0")
own = socket.create_server(("", int(sys.argv[1])))
print("ready", flush=True)
guest = own.accept()[0]
while data := guest.recv(9):
    guest.sendall(data)
"""
    hold = f"""
import socket, sys
ends = [socket.create_connection(({OFFICE!r}, port), 2) for port in (2222, 39990)]
print("ready", flush=True)
sys.stdin.readline()
for end in ends:
    end.settimeout(2)
    try:
        end.send(b"x")
        print(end.recv(9).decode())
    except OSError:
        print("silent")
"""
    with ExitStack() as stack:
        for words in (("2222",), ("39990", str(site.group))):
            server = subprocess.Popen(site.node.argv("python3", "-c", echo, *words), stdout=subprocess.PIPE, text=True)
            stack.callback(server.wait)
            stack.callback(server.kill)
            assert server.stdout and server.stdout.readline() == "ready\n"
        pipe = subprocess.PIPE
        holder = subprocess.Popen(site.office.argv("python3", "-c", hold), stdin=pipe, stdout=pipe, text=True)
        assert holder.stdout and holder.stdout.readline() == "ready\n"
        site.sh("load")
        assert holder.communicate("\n", timeout=20)[0].split() == ["x", "silent"]


def test_ssh_on_another_port_is_let_in_even_where_the_plan_gives_it_out(site: Site) -> None:
    rules = site.walls / "tandem.nft"
    rules.write_text(rules.read_text().replace("elements = { 22 }", "elements = { 22, 26001 }"))
    site.sh("load")
    assert site.reach([PLANNED[0], PLANNED[1]], OFFICE, OFFICE_6) == {PLANNED[0], PLANNED[1]}


def test_solo_has_no_rails_and_leaves_the_owner_s_network_behind_them_alone(site: Site) -> None:
    site.render(topology="solo")
    site.sh("load")
    assert site.reach([*STRAY, *OWN, *SSH, *PROXY], OFFICE, OFFICE_6) == {*OWN, *SSH, *PROXY}
    # An older cluster's rails: neither the engine nor its port.
    inner: list[Place] = [("tcp", FABRIC, 39983), ("tcp", FABRIC, 8001), ("tcp", FABRIC, 40123)]
    assert list(site.peer.ask(inner).values()) == ["silent", "silent", "hello"]


def test_a_change_by_any_hand_is_seen_and_a_second_load_is_the_same(site: Site) -> None:
    assert "has no table `tandem`" in site.sh("problem")
    site.sh("load")
    assert site.sh("problem") == ""
    before = site.node.run("nft", "--stateless", "list", "table", "inet", "tandem")
    site.office.ask([("tcp", OFFICE, 26001)])
    # What was counted is no change.
    assert site.sh("problem") == ""
    site.sh("load")
    assert site.node.run("nft", "--stateless", "list", "table", "inet", "tandem") == before
    site.node.run("nft", "insert", "rule", "inet", "tandem", "input", "accept")
    assert "not as planned" in site.sh("problem")
    site.sh("load")
    assert site.sh("problem") == ""
    site.node.run("nft", "delete", "table", "inet", "tandem")
    assert "has no table `tandem`" in site.sh("problem")
    site.sh("load")
    (site.walls / "tandem.nft").write_text("# another plan\n")
    assert "not as planned" in site.sh("problem")


def test_before_a_start_they_are_put_up_again_and_a_start_waits_where_they_can_t_be(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A stand-in for systemctl, which does what the unit would.
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(
        f'#!/bin/sh\n[ "$*" = "reload-or-restart tandem-walls.service" ] && {site.walls}/walls.sh load\n'
    )
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert site.sh("raise") == ""
    assert site.sh("problem") == ""
    site.node.run("nft", "flush", "ruleset")
    assert site.sh("raise") == ""
    assert site.reach(STRAY, OFFICE, OFFICE_6) == set()
    site.node.run("nft", "flush", "ruleset")
    systemctl.write_text("#!/bin/sh\necho no; exit 1\n")
    assert (
        site.sh("raise") == "the walls do not stand: nftables has no table `tandem` (systemctl status tandem-walls)\n"
    )
    # The owner's own, which the flush has taken as well.
    subprocess.run(site.node.argv("nft", "--file", "-"), input=_OTHERS, text=True, check=True)


def test_rules_that_nft_refuses_leave_those_in_force(site: Site) -> None:
    site.sh("load")
    rules = site.walls / "tandem.nft"
    good = rules.read_text()
    rules.write_text(good.replace(GROUP, "not-there.slice"))
    site.sh("load", check=False)
    assert site.reach(STRAY, OFFICE, OFFICE_6) == set()
    rules.write_text(good)
    assert site.sh("problem") == ""


def test_a_control_group_that_was_made_anew_is_a_change(site: Site) -> None:
    """A rule holds the number of the group; under the same name another group is another number."""
    other = unified() / f"walls-other-{os.getpid()}.slice"
    rules = site.walls / "tandem.nft"
    rules.write_text(rules.read_text().replace(GROUP, other.name))
    other.mkdir()
    try:
        site.sh("load")
        assert site.sh("problem") == ""
        other.rmdir()
        other.mkdir()
        assert "not as planned" in site.sh("problem")
    finally:
        other.rmdir()


def test_what_is_dropped_is_counted_by_its_reason(site: Site) -> None:
    site.sh("load")
    site.reach([STRAY[0], PLANNED[0]], OFFICE)
    site.reach([PLANNED[2]], FABRIC)
    site.office.ask([("tcp", PEER, 8001)])
    counted = site.node.run("nft", "list", "counters", "table", "inet", "tandem")
    for name in ("given", "engine", "fabric", "routed"):
        assert "packets 0 " not in counted.split(f"counter {name} ")[1].split("}")[0], counted


def test_the_node_says_what_it_can() -> None:
    unified()
    program = "import json; from operations.node import walls; print(json.dumps(walls.able()))"
    argv = ["unshare", "--mount", "sh", "-c", f"{_MOUNT} && exec python3 -c '{program}'"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout == '{"nft": true, "groups": true}\n', done.stderr


def test_a_node_without_what_it_takes_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_node, "CGROUPS", tmp_path)
    assert on_node.able() == {"nft": True, "groups": False}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert on_node.able() == {"nft": False, "groups": False}
    assert on_node.standing() == {"problem": "no walls are here"}

"""Who reaches what, with the whole table of a plan in force in the kernel."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack

from tests.node.firewall_site import FABRIC, NEEDS, OFFICE, OFFICE_6, OWN, PEER, PLANNED, PROXY, SSH, STRAY, Site
from tests.node.spaces import Place

pytestmark = NEEDS


def test_without_firewall_everybody_reaches_everything(site: Site) -> None:
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


def test_what_was_connected_before_the_firewall_is_cut_off_and_ssh_is_not(site: Site) -> None:
    # Two connections from the office, one of them to the engine; the firewall goes up; a byte on each.
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
    rules = site.firewall / "tandem.nft"
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


def test_what_is_dropped_is_counted_by_its_reason(site: Site) -> None:
    site.sh("load")
    site.reach([STRAY[0], PLANNED[0]], OFFICE)
    site.reach([PLANNED[2]], FABRIC)
    site.office.ask([("tcp", PEER, 8001)])
    counted = site.node.run("nft", "list", "counters", "table", "inet", "tandem")
    for name in ("given", "engine", "fabric", "routed"):
        assert "packets 0 " not in counted.split(f"counter {name} ")[1].split("}")[0], counted

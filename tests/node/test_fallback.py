"""A cluster that lacks a node: the real meeting of the ranks and the real fallback beside it, on addresses of loopback.

systemd is a double: it ends a rank, and starts it anew unless the node serves alone.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.shipped import FILES, load, part
from tests.support.ports import free_port
from tests.support.waiting import comes

others, under_way = part("fallback", "others"), part("fallback", "under_way")


class Node:
    """One node of a cluster: its rank, and its fallback, which looks twenty times a second."""

    def __init__(self, home: Path, rank: int, ranks: int, ports: tuple[int, int], returns: str) -> None:
        self.rank, self.folder = rank, home / f"rank-{rank}"
        self.folder.mkdir()
        shutil.copy(FILES / "engine/meet.py", self.folder)
        mark = self.folder / "meeting-mark.json"
        addresses = [f"127.0.0.{1 + each}" for each in range(ranks)]
        meeting: dict[str, Any] = {"address": addresses[0], "port": ports[0], "ranks": ranks, "rank": rank}
        meeting |= {"mark": str(mark), "stop_s": 1, "spec": "one"}
        meeting |= {"node": f"spark-{rank + 1}", "rdma": [], "ring_rails": []}
        (self.folder / "meeting.json").write_text(json.dumps(meeting))
        (self.folder / "start.sh").write_text("#!/bin/sh\nexec sleep 60\n")
        (self.folder / "start.sh").chmod(0o755)
        (self.folder / "alone.conf").write_text("[Service]\n")
        self.wanted: dict[str, Any] = {
            "rank": rank,
            "ranks": [{"name": f"spark-{1 + each}", "address": address} for each, address in enumerate(addresses)],
            "port": ports[0],
            "engine_port": ports[1],
            "meeting": str(mark),
            "spec": "one",
            "rails": ["rail0"],
            "after_s": 0.6,
            "returns": returns,
        }
        self.module = load("fallback/fallback.py")
        self.module.HERE, self.module.DROP_IN = self.folder, self.folder / "engine.d/tandem-alone.conf"
        self.module.ALONE, self.module.STATE = self.folder / "alone.json", self.folder / "fallback.json"
        self.module.SERVED, self.module.STAGGER_S = self.folder / "served.json", 1.0
        self.serves("one")
        self.module.run, self.module.state_of = self._systemctl, lambda _: self.state
        self.process: subprocess.Popen[bytes] | None = None
        #: The rank and the lone engine die until systemd starts them no more.
        self.rank_is_sick, self.engine_is_sick = False, False
        #: What systemd is asked and does not: a part of its words.
        self.refuses: str | None = None
        #: The unit was stopped by its owner.
        self.is_stopped = False
        self.asked: list[tuple[str, ...]] = []
        self.on = False
        #: Its rail's netdev is a file; without it ready.sh waits.
        self.module.NET = self.folder / "net"
        (self.folder / "net/rail0").mkdir(parents=True)

    def loses_its_rail(self) -> None:
        """Its rank ends, and does not start."""
        (self.module.NET / "rail0").rmdir()
        self._stop()

    def serves(self, *specs: str) -> None:
        """Plans that a deploy has seen serve, as operations/node/unit/served.py has them."""
        plans = [
            {"services": {"spark-1": {"tandem-engine": {"spec": spec}, "fabric": {"files": {}}}}} for spec in specs
        ]
        self.module.SERVED.write_text(json.dumps(plans))

    def power_on(self) -> None:
        """A boot: nothing of /run is left, and the rank begins."""
        for file in (self.module.DROP_IN, self.module.ALONE, self.module.STATE, Path(self.wanted["meeting"])):
            file.unlink(missing_ok=True)
        self.on = True
        self._start()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def serves_alone(self) -> None:
        """As if it had for a while."""
        self.on, self.process = True, None
        self.module.write(self.module.DROP_IN, "[Service]\n")
        self.module.write(self.module.ALONE, json.dumps({"since": "then", "why": "others are missing"}))
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def power_off(self) -> None:
        self.on = False
        if hasattr(self, "thread"):
            self.thread.join()
        self._stop()

    @property
    def is_alone(self) -> bool:
        return bool(self.module.ALONE.exists())

    @property
    def says(self) -> str:
        return str(self.module.read_json(self.module.STATE).get("says", ""))

    @property
    def state(self) -> str:
        is_alone = self.module.is_alone()
        if self.is_stopped:
            return "inactive"
        if self.engine_is_sick if is_alone else self.rank_is_sick:
            return "failed"
        return "active" if self.process or is_alone else "activating"

    def falls_sick(self) -> None:
        """Its rank has died in each of its starts."""
        self.rank_is_sick = True
        self._stop()

    def has_met(self) -> bool:
        return bool(self.module.read_json(Path(self.wanted["meeting"])).get("met")) and self.process is not None

    def _look(self) -> None:
        fallback = self.module.Fallback(self.wanted)
        while self.on:
            fallback.look()
            if self.process and self.process.poll() is not None and not self.rank_is_sick:
                # Restart=always
                self._start()
            time.sleep(0.05)
        fallback.others.close()

    def _systemctl(self, *words: str) -> bool:
        if self.refuses is not None and self.refuses in " ".join(words):
            return False
        self.asked.append(words)
        if words[0] == "restart":
            assert words[1:] == ("--no-block", "tandem-engine.service")
            self._stop()
            if not self.module.DROP_IN.exists():
                self._start()
        return True

    def _start(self) -> None:
        if not (self.module.NET / "rail0").exists():
            return
        self.process = subprocess.Popen([sys.executable, str(self.folder / "meet.py"), "one"])

    def _stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


Cluster = Callable[..., list[Node]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made: list[Node] = []

    def make(count: int = 2, returns: str = "auto", *, meets: bool = True) -> list[Node]:
        ports = free_port(), free_port()
        made.extend(Node(tmp_path, rank, count, ports, returns) for rank in range(count))
        for node in made if meets else ():
            node.power_on()
        if meets:
            assert comes(lambda: all(node.has_met() and node.says == "the ranks are together" for node in made))
        return made

    yield make
    for node in made:
        node.power_off()


@pytest.mark.parametrize("lost", [0, 1])
def test_one_is_gone_the_other_serves_alone_until_it_is_back(cluster: Cluster, lost: int) -> None:
    nodes = cluster()
    gone, left = nodes[lost], nodes[1 - lost]
    gone.power_off()
    assert comes(lambda: "is missing since" in left.says), left.says
    assert not left.is_alone
    assert comes(lambda: left.is_alone), left.says
    assert left.module.DROP_IN.read_text() == "[Service]\n"
    assert comes(lambda: left.process is None)
    assert comes(lambda: f"because spark-{1 + lost} is missing since" in left.says), left.says
    assert left.says.endswith(f"spark-{1 + lost} does not wait for it yet")
    gone.power_on()
    assert comes(lambda: all(node.has_met() for node in nodes)), (left.says, gone.says)
    assert not left.is_alone and not left.module.DROP_IN.exists()
    assert comes(lambda: [node.says for node in nodes] == ["the ranks are together"] * 2)


@pytest.mark.parametrize("lost", [0, 1])
def test_who_comes_back_waits_for_who_serves_alone_and_does_not_serve_too(cluster: Cluster, lost: int) -> None:
    nodes = cluster(returns="deploy")
    gone, left = nodes[lost], nodes[1 - lost]
    gone.power_off()
    assert comes(lambda: left.is_alone), left.says
    gone.power_on()
    assert comes(lambda: gone.says == f"spark-{2 - lost} serves alone; this node's rank waits to meet it"), gone.says
    assert comes(lambda: left.says.endswith("all nodes are back: `tandem apply` makes a cluster of them again"))
    time.sleep(2)
    assert left.is_alone and not gone.is_alone


def test_it_does_not_go_back_while_a_request_is_under_way(cluster: Cluster) -> None:
    head, worker = cluster()
    worker.power_off()
    assert comes(lambda: head.is_alone), head.says
    with socket.create_server(("127.0.0.1", head.wanted["engine_port"])) as engine:
        with socket.create_connection(engine.getsockname()):
            worker.power_on()
            assert comes(lambda: head.says.endswith("a cluster again as soon as no request is under way")), head.says
            time.sleep(2)
            assert head.is_alone
        assert comes(lambda: head.has_met() and worker.has_met()), head.says


def test_a_rank_that_is_back_in_time_costs_nothing(cluster: Cluster) -> None:
    head, worker = cluster()
    head.wanted["after_s"] = 5.0
    worker.power_off()
    assert comes(lambda: "is missing since" in head.says), head.says
    worker.power_on()
    assert comes(lambda: head.has_met() and worker.has_met())
    assert not head.is_alone


def test_a_cluster_that_has_never_served_is_a_deploy_s_matter(cluster: Cluster) -> None:
    head, _ = cluster(meets=False)
    head.module.SERVED.unlink()
    head.power_on()
    assert comes(lambda: head.says == "waits for the ranks to meet"), head.says
    time.sleep(2)
    assert not head.is_alone
    # So is one where another plan has, and one whose record nobody can read.
    for record in (json.dumps([{"id": "of an older Tandem"}]), "[{", '[{"services": []}]'):
        head.module.SERVED.write_text(record)
        time.sleep(0.2)
    head.serves("two")
    time.sleep(1.5)
    assert not head.is_alone
    head.serves("one", "two")
    assert comes(lambda: head.is_alone), head.says


@pytest.mark.parametrize("both", [True, False])
def test_ranks_that_have_met_and_died_in_each_load_are_no_plan_that_has_served(cluster: Cluster, both: bool) -> None:
    """They meet before they load, so a plan that can't serve has met as well. Where one is given up first, the other
    waits for it.
    """
    head, worker = nodes = cluster(meets=False)
    for node in nodes:
        node.serves("the plan before it")
        node.power_on()
    assert comes(lambda: head.has_met() and worker.has_met())
    worker.falls_sick()
    if both:
        head.falls_sick()
    assert comes(lambda: head.says == "waits for the ranks to meet"), head.says
    time.sleep(2.5)
    assert not head.is_alone and not worker.is_alone


def test_of_several_that_are_left_the_first_serves(cluster: Cluster) -> None:
    head, first, second = cluster(3)
    head.power_off()
    assert comes(lambda: first.is_alone), first.says
    assert comes(lambda: second.says == "spark-2 serves alone"), second.says
    time.sleep(1.5)
    assert not second.is_alone
    head.power_on()
    assert comes(lambda: all(node.has_met() for node in (head, first, second))), (head.says, first.says, second.says)


def test_with_the_head_left_the_others_wait_for_it(cluster: Cluster) -> None:
    head, first, second = cluster(3)
    second.power_off()
    assert comes(lambda: head.is_alone), head.says
    assert comes(lambda: first.says == "spark-1 serves alone; this node's rank waits to meet it"), first.says
    assert comes(lambda: head.says.endswith("spark-3 does not wait for it yet")), head.says
    second.power_on()
    assert comes(lambda: all(node.has_met() for node in (head, first, second))), (head.says, first.says, second.says)


def test_two_that_were_cut_apart_and_serve_alone_both_meet_again(cluster: Cluster) -> None:
    nodes = cluster()
    for node in nodes:
        node.power_off()
    # Each as it is at the end of a cut.
    for node in nodes:
        node.serves_alone()
    assert comes(lambda: all(node.has_met() for node in nodes), 15), [node.says for node in nodes]
    assert not any(node.is_alone for node in nodes)


def test_of_several_that_serve_alone_one_after_the_other_goes_back(cluster: Cluster) -> None:
    head, *workers = nodes = cluster(3)
    for node in nodes:
        node.power_off()
    # As after a switch that has kept all three apart, and a head that was rebooted since.
    for node in workers:
        node.serves_alone()
    assert comes(lambda: all(node.says.endswith("does not wait for it yet") for node in workers))
    head.power_on()
    assert comes(lambda: all(node.has_met() for node in nodes), 15), [node.says for node in nodes]


def test_ranks_that_have_given_up_leave_one_engine(cluster: Cluster) -> None:
    """One that dies in each load uses up the other's starts with its own."""
    head, worker = cluster()
    head.falls_sick()
    worker.falls_sick()
    assert comes(lambda: head.is_alone), head.says
    assert comes(lambda: "because this node's rank has given up since" in head.says), head.says
    assert comes(lambda: worker.says == "spark-1 serves alone"), worker.says
    time.sleep(1.5)
    assert not worker.is_alone


def test_a_lone_engine_that_has_given_up_keeps_nobody_waiting(cluster: Cluster) -> None:
    head, worker = cluster(returns="deploy")
    worker.falls_sick()
    head.falls_sick()
    head.engine_is_sick = True
    assert comes(lambda: "but its engine has given up: `tandem apply`" in head.says), head.says
    assert comes(lambda: worker.is_alone), worker.says


def test_a_return_that_did_not_hold_is_not_tried_again_at_once(cluster: Cluster) -> None:
    head, worker = cluster()
    for again in (False, True):
        worker.power_off()
        assert comes(lambda: head.is_alone), head.says
        worker.power_on()
        if not again:
            assert comes(lambda: head.has_met() and worker.has_met()), head.says
            assert comes(lambda: head.says == "the ranks are together")
    assert comes(lambda: head.says.endswith("the last return did not hold: again in 30 minutes")), head.says
    time.sleep(1)
    assert head.is_alone


def test_what_is_left_of_a_node_that_served_alone_makes_it_no_such_node(cluster: Cluster) -> None:
    """As after `tandem down`, which takes the unit's folder away."""
    head, worker = cluster()
    for node in (head, worker):
        node.module.write(node.module.ALONE, json.dumps({"since": "then"}))
    time.sleep(0.5)
    assert head.has_met() and worker.has_met()
    assert head.says == worker.says == "the ranks are together"


def test_a_rank_of_another_plan_is_not_waited_for(cluster: Cluster) -> None:
    head, worker = cluster()
    worker.power_off()
    assert comes(lambda: head.says.endswith("spark-2 does not wait for it yet")), head.says
    with socket.create_connection(("127.0.0.1", head.wanted["port"])) as other:
        other.sendall(b'{"rank": 1, "spec": "two"}\n')
        time.sleep(1)
        assert head.is_alone and head.says.endswith("spark-2 does not wait for it yet")


def test_what_systemd_refuses_is_asked_of_it_again(cluster: Cluster) -> None:
    head, worker = cluster()
    head.refuses = ""
    worker.power_off()
    assert comes(lambda: head.is_alone), head.says
    assert head.process is not None
    head.refuses = None
    assert comes(lambda: head.process is None)


def test_a_canary_whose_restart_is_refused_restarts_no_engine_again(cluster: Cluster) -> None:
    head, worker = cluster()
    head.refuses = "tandem-canary"
    worker.power_off()
    assert comes(lambda: head.is_alone and head.process is None), head.says
    time.sleep(1)
    assert [words for words in head.asked if words[0] == "restart"] == [
        ("restart", "--no-block", "tandem-engine.service")
    ]
    head.refuses = None
    assert comes(lambda: head.asked[-1] == ("try-restart", "--no-block", "tandem-canary.service")), head.asked


def test_an_engine_that_its_owner_has_stopped_stays_so_and_the_canary_looks_at_the_cluster_s_again(
    cluster: Cluster,
) -> None:
    head, worker = cluster()
    worker.power_off()
    assert comes(lambda: head.is_alone and head.process is None), head.says
    head.is_stopped = True
    head.asked.clear()
    worker.power_on()
    assert comes(lambda: not head.is_alone), head.says
    assert comes(lambda: ("try-restart", "--no-block", "tandem-canary.service") in head.asked), head.asked
    assert head.process is None and not any(words[0] == "restart" for words in head.asked)


def test_who_says_what_is_no_message_to_a_rank_that_waits_is_nobody(cluster: Cluster) -> None:
    head, worker = cluster(meets=False)
    head.power_on()
    rank = head.process
    address = ("127.0.0.1", head.wanted["port"])
    assert comes(lambda: read_mark(head).get("missing") == [1])
    for words in (b"[1]\n", b'{"alone": true}\n', b'{"alone": true, "rank": 7, "spec": "one"}\n', b'{"rank": []}\n'):
        assert is_sent_away(address, words)
    worker.power_on()
    assert comes(lambda: head.has_met() and worker.has_met())
    assert head.process is rank


def read_mark(node: Node) -> dict[str, Any]:
    """What its rank has written."""
    found: dict[str, Any] = node.module.read_json(Path(node.wanted["meeting"]))
    return found


def is_sent_away(address: tuple[str, int], words: bytes) -> bool:
    """Whether it hangs up on whoever says that."""
    with socket.create_connection(address, timeout=5) as stranger:
        stranger.sendall(words)
        return stranger.recv(100) == b""


def test_who_says_what_is_no_message_is_nobody(cluster: Cluster) -> None:
    head, worker = cluster()
    worker.power_off()
    assert comes(lambda: head.says.endswith("spark-2 does not wait for it yet")), head.says
    address = ("127.0.0.1", head.wanted["port"])
    for words in (b"\x00\xff{\n", b"[1, 2]\n", b'{"rank": "x", "spec": 1}\n', b"x" * 10_000):
        with socket.create_connection(address) as stranger:
            stranger.sendall(words)
            time.sleep(0.2)
    assert head.is_alone and head.says.endswith("spark-2 does not wait for it yet")
    worker.power_on()
    assert comes(lambda: head.has_met() and worker.has_met())


def test_a_connection_counts_as_a_request_when_it_stands_at_two_looks() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address, port = server.getsockname()
        here = under_way.UnderWay(address, port)
        with socket.create_connection((address, port)):
            assert [here.any(), here.any()] == [False, True]
        assert comes(lambda: not here.any())
        with socket.create_connection((address, port)):
            assert not here.any()


def test_a_node_whose_netdev_went_with_the_cable_serves_alone_until_it_is_back(cluster: Cluster) -> None:
    """No rank starts then: ready.sh waits for the netdev, and there is no meeting that misses anybody."""
    head, worker = cluster()
    head.loses_its_rail()
    assert comes(lambda: head.is_alone), head.says
    assert comes(lambda: "because the interface rail0 is gone since" in head.says), head.says
    (head.module.NET / "rail0").mkdir()
    assert comes(lambda: head.has_met() and worker.has_met(), 15), (head.says, worker.says)

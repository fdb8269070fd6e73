"""Asking the nodes, one thing after the other where one would disturb the next."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from ipaddress import IPv4Network
from typing import TypeVar, cast

import gevent
from pyinfra.api.host import Host

from operations.node.doctor import cables as node_cables
from operations.node.doctor import clock, gpu_load
from operations.node.doctor import look as node_look
from operations.node.doctor import rdma as node_rdma
from operations.node.doctor import streams as node_streams
from operations.node.network import proof as node_proof
from operations.plan.absence import QUESTION_FAILED, SILENT, absent
from operations.plan.cluster import ring
from operations.plan.cluster.nodes import Link, choose_rails, on_fabric
from operations.plan.doctor import prefixes, ways
from operations.plan.doctor.symptom import Seen
from operations.runner import tether
from operations.runner.remote import ask
from operations.wire.doctor import Measured, Rdma, Skew
from operations.wire.fabric import Links, Way
from operations.wire.lines import Line

T = TypeVar("T")

#: Seconds after which a node that has not answered is given up: a look (its own patience is shorter), a load, and what
#: another question may take besides its own time.
LOOK_S, LOAD_S, GRACE_S = 120.0, 90.0, 30.0
#: Seconds that nodes listen for each other's frames: all must have begun before the first ends.
LISTEN_S = 4.0
#: Seconds of all streams together, and of one at most.
STREAMS_S, STREAM_S = 16.0, 1.5
#: Seconds and port of an ib_write_bw.
RDMA_S, RDMA_PORT = 1, 18515


class Examination:
    """The nodes that still answer, and what they have said. One that fails is dead from then on."""

    def __init__(self, hosts: list[Host], seen: Seen) -> None:
        self.seen = seen
        self.hosts = {host.name: host for host in hosts}

    def look(self, store: str, image: str, ports: Mapping[str, Iterable[int]], subnets: Sequence[IPv4Network]) -> None:
        """Everything that needs no load, and the clocks. `ports`: by node, those that Tandem wants there; `subnets`:
        those of the rails.
        """
        self.seen.clocks = self._everywhere(_clock)
        self.seen.looks = self._everywhere(
            lambda host: ask(
                host,
                node_look.main,
                store=store,
                image=image,
                watched=list(ports[host.name]),
                counters=prefixes.COUNTERS,
            ),
            LOOK_S,
        )
        for name, host in self.hosts.items():
            links = self._links(name)
            found = [
                Link(device, link["carrier"], link["rdma"], on_fabric(link["addresses"], subnets))
                for device, link in links.items()
            ]
            # In a ring both ports are rails.
            around = () if host.data.get("fabric_interfaces") else tuple(ring.addressed(links, subnets).values())
            self.seen.rails[name] = around or choose_rails(found, host.data.get("fabric_interfaces") or ())

    def cables(self) -> None:
        """Who hears whom."""
        run = secrets.token_hex(8)
        self.seen.cables = self._everywhere(
            lambda host: ask(host, node_cables.main, node=host.name, run=run, seconds=LISTEN_S), LISTEN_S + GRACE_S
        )

    def frames(self) -> None:
        """Frames of full size over every rail to every other node."""

        def prove(host: Host) -> list[str]:
            links = self._links(host.name)
            peers = {
                peer: [[way["device"], way["address"]] for way in ways.between(links, self._links(peer))]
                for peer in self.hosts
                if peer != host.name
            }
            answer = ask(host, node_proof.prove, peers, self.seen.wanted_mtu)
            return list(answer["problems"])

        self.seen.mtu = self._everywhere(prove)

    def streams(self) -> None:
        """TCP, then RDMA, between neighbours; one pair at a time, or they would measure each other."""
        found = [
            (one, other, between)
            for one, other in ways.pairs(list(self.hosts))
            if (between := ways.between(self._links(one), self._links(other)))
        ]
        number = sum(2 * len(between) for _one, _other, between in found)
        for one, other, between in found:
            if {one, other} <= self.hosts.keys() and tether.can_tether(self.hosts[other]):
                self._tcp(one, other, between, min(STREAM_S, STREAMS_S / number))
                for way in between:
                    if way["rdma"] and way["peer_rdma"]:
                        self._rdma(one, other, way, (way["rdma"], way["peer_rdma"]))

    def load(self, image: str) -> None:
        """Every GPU at once: the ranks of a cluster work together."""
        self.seen.loads = {
            name: told
            for name, told in self._everywhere(lambda host: ask(host, gpu_load.main, image=image), LOAD_S).items()
            if told
        }

    def _tcp(self, one: str, other: str, between: list[Way], seconds: float) -> None:
        addresses = [way["address"] for way in between]
        server = tether.Tether(self.hosts[other], node_streams.serve, addresses)
        try:
            ports = _first_word(server).get("ports")
            if not ports:
                return
            targets = [cast("Way", {**way, "port": port}) for way, port in zip(between, ports, strict=True)]
            deadline = 2 * len(targets) * seconds + GRACE_S
            answer = self._one(one, lambda host: ask(host, node_streams.measure, targets, seconds), deadline)
        finally:
            server.close()
        devices = {way["address"]: way["peer_device"] for way in between}
        self.seen.streams += [
            cast("Measured", {**stream, "node": one, "peer": other, "peer_device": devices[stream["address"]]})
            for stream in answer or ()
        ]

    def _rdma(self, one: str, other: str, way: Way, devices: tuple[str, str]) -> None:
        """Both ways: an endpoint can be ill in one direction. `devices`: of RDMA, at each end."""
        ends = (
            (one, way["device"], way["own"], devices[0]),
            (other, way["peer_device"], way["address"], devices[1]),
        )
        for near, far in (ends, ends[::-1]):
            entry: Measured = {"node": near[0], "peer": far[0], "device": near[1], "peer_device": far[1]}
            server = tether.Tether(self.hosts[far[0]], node_rdma.serve, far[3], far[2], RDMA_PORT, RDMA_S)
            try:
                if not _first_word(server).get("ready"):
                    entry["missing"] = True
                    self.seen.rdma.append(entry)
                    return
                told = self._one(near[0], partial(_rdma, near[3], near[2], far[2]), RDMA_S + GRACE_S)
            finally:
                server.close()
            self.seen.rdma.append(cast("Measured", {**entry, **(told or {})}))
            if told and told.get("missing"):
                return

    def _links(self, name: str) -> Links:
        return next((links for node, links in self.seen.topic(lambda look: look.get("links")) if node == name), {})

    def _one(self, name: str, one: Callable[[Host], T], deadline_s: float) -> T | None:
        """What one node says; None where it does not."""
        return self._everywhere(one, deadline_s, only=name).get(name)

    def _everywhere(self, one: Callable[[Host], T], deadline_s: float = GRACE_S, only: str = "") -> dict[str, T]:
        """What each node says, all at once; in the inventory's order. One that says nothing in time is dead."""

        def asked(host: Host) -> T | None:
            tether.quicken(host)
            with gevent.Timeout(deadline_s, False):
                return one(host)
            return None

        tasks = {name: gevent.spawn(asked, host) for name, host in self.hosts.items() if only in ("", name)}
        gevent.joinall(list(tasks.values()))
        told = {}
        for name, task in tasks.items():
            if task.value is not None:
                told[name] = task.value
                continue
            # What the others say is worth as much as before.
            if task.exception is None:
                self.seen.dead[name] = absent(SILENT, name)
            else:
                cause = str(task.exception) or type(task.exception).__name__
                self.seen.dead[name] = absent(QUESTION_FAILED, name, cause=cause)
            del self.hosts[name]
        return told


def _first_word(server: tether.Tether) -> Line:
    """Empty where it does not come: that pair is not measured."""
    with gevent.Timeout(GRACE_S, False):
        return server.read()
    return {}


def _rdma(device: str, own: str, address: str, host: Host) -> Rdma:
    return ask(host, node_rdma.measure, device, own, address, RDMA_PORT, RDMA_S)


def _clock(host: Host) -> Skew:
    begun = time.time()
    now = ask(host, clock.main)["now"]
    ended = time.time()
    return {"offset_s": now - (begun + ended) / 2, "doubt_s": (ended - begun) / 2}

"""The rails of all nodes. Whether three of them are a ring: by the addresses that they have, else by whose frames each
hears on which port.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import gevent
from pyinfra import logger
from pyinfra.api.host import Host

from operations.node.doctor import cables
from operations.plan.cluster import ring
from operations.plan.cluster.nodes import Link, choose_rails, on_fabric
from operations.plan.cluster.shared_rails import Placed, half_remarks, placed, shared
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Refusal
from operations.runner.remote import ask_or_none
from operations.wire.doctor import Cables, HeardFrame
from operations.wire.fabric import Links
from operations.wire.look import Survey

#: Seconds that nodes listen for each other; longer where ports have to come up first.
LISTEN_S, WAKE_S = 4.0, 10.0


@dataclass(frozen=True)
class Wiring:
    """By the nodes' names: `ring`, rails of those that answer and serve, empty where it is none; `placed`, the rails of
    all that answer, with their subnets. `remarks`: what is to be said.
    """

    ring: Mapping[str, tuple[str, ...]]
    placed: Mapping[str, Placed]
    remarks: list[str]


def find(everyone: Sequence[Host], surveys: Mapping[Host, Survey], knobs: Knobs, serving: Collection[str]) -> Wiring:
    """`serving`: names of nodes that serve. Raises Refusal where a ring is not whole."""
    around = _ring(everyone, surveys, knobs, serving)
    chosen = {host.name: _chosen(host, survey, knobs) for host, survey in surveys.items()}
    together = {name: each for name, each in chosen.items() if name in serving and not around}
    own = {name: placed(each, knobs.rail_subnets) for name, each in chosen.items()}
    in_ring = {
        host.name: (around[host.name], ring.subnets_of(everyone.index(host), knobs.rail_subnets))
        for host in surveys
        if host.name in around
    }
    named = {host.name for host in everyone if host.data.get("fabric_interfaces")}
    is_said = knobs.topology != "solo"
    remarks = half_remarks({name: each for name, each in together.items() if is_said and name not in named})
    return Wiring(around, own | shared(together, knobs.rail_subnets) | in_ring, remarks)


def _chosen(host: Host, survey: Survey, knobs: Knobs) -> tuple[str, ...]:
    """The rails of a node that is in no ring."""
    found = [
        Link(name, link["carrier"], link["rdma"], on_fabric(link["addresses"], knobs.rail_subnets))
        for name, link in survey.get("state", {}).get("links", {}).items()
    ]
    return choose_rails(found, host.data.get("fabric_interfaces") or ())


def _ring(
    everyone: Sequence[Host], surveys: Mapping[Host, Survey], knobs: Knobs, serving: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """The rails of each node that serves by its name, those to the next node first; empty: it is no ring, or nobody
    wants one. `serving`: names of these nodes. A further one is heard, but has no addresses to know it by.

    Nothing is asked where the addresses say it. Raises Refusal where a cable of a ring is missing, netdevs are, or its
    subnets are too narrow.
    """
    if len(everyone) != ring.SIZE or knobs.topology == "solo":
        return {}
    if any(host.data.get("fabric_interfaces") for host in everyone):
        return {}
    links = {host: survey.get("state", {}).get("links", {}) for host, survey in surveys.items()}
    here = {host: each for host, each in links.items() if host.name in serving}
    found = ring.known(list(here.values()), [everyone.index(host) for host in here], knobs.rail_subnets)
    if found and not ring.on_a_switch(list(links.values())):
        return {host.name: each for host, each in zip(here, found, strict=True)}
    if findings := ring.torn({host.name: each for host, each in links.items()}, knobs.rail_subnets):
        raise Refusal(*findings)
    if not ring.may_be(list(links.values()), list(here.values()), knobs.rail_subnets):
        return {}
    heard = _heard(links)
    if findings := ring.gap(heard, [host.name for host in links], serving):
        raise Refusal(*findings)
    by_name = ring.found(heard, {host.name: list(each) for host, each in links.items()})
    if findings := ring.check_netdevs(by_name):
        raise Refusal(*findings)
    if by_name and (findings := ring.check_subnets(knobs.rail_subnets)):
        raise Refusal(*findings)
    return {name: each for name, each in by_name.items() if name in serving}


def _heard(links: Mapping[Host, Links]) -> dict[str, list[HeardFrame]]:
    """What each node hears. A port that is down is brought up for it, and is down again afterwards."""
    asleep = not all(link["up"] for here in links.values() for link in here.values())
    logger.info("three nodes with two ports each: listening who is behind which")
    run, seconds = secrets.token_hex(8), WAKE_S if asleep else LISTEN_S

    def ask(host: Host) -> Cables | None:
        return ask_or_none(host, cables.main, node=host.name, run=run, seconds=seconds, wake=asleep)

    tasks = {host.name: gevent.spawn(ask, host) for host in links}
    answers: dict[str, Cables | None] = {name: task.get() for name, task in tasks.items()}
    heard = {name: list(answer["heard"]) if answer else [] for name, answer in answers.items()}
    for host, here in links.items():
        for device in {each["device"] for each in heard[host.name]}:
            # It had none as long as the port at its other end was down.
            here[device]["carrier"] = True
    return heard

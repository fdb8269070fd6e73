"""The fabric: addresses and MTU on both rails, kept with a carrier and without, and proven from both sides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gevent
from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand, StringCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations import tether
from operations.patience import fail, quietly
from operations.placing import differs, show_diff, write
from operations.plan.fabric import rails_of, strays
from operations.plan.files import File
from operations.plan.nodes import Node
from operations.plan.plan import Plan
from operations.remote import ask
from operations.run import Run, step


@step
def rails(run: Run) -> Iterator[PyinfraCommand]:
    """The files of the rails, applied only when one of them or the links differ, undone when management is lost."""
    wanted = run.plan.of(host.name).fabric
    if not wanted:
        host.noop("nothing of this plan goes over a fabric here: the network stays as it is")
        return
    drift = _drift(run)
    present = run.look(host)["files"]
    changed = [file for file in wanted if differs(file, present)]
    if not changed and not drift:
        host.noop("the rails are as planned")
        return
    for line in drift:
        host.log(line)
    for device, address in strays(run.plan.knobs, run.plan.of(host.name).node, run.look(host)["links"]):
        yield StringCommand("ip address del", address, "dev", device)
    for file in changed:
        show_diff(file)
    # netplan reads *.yaml alone, NetworkManager *.conf: nothing new is in force before the guard is armed.
    for file in wanted:
        yield write(File(f"{file.path}.pending", file.content, file.mode))
    yield quietly(run.lock.across(_apply([file.path for file in wanted])))


def _apply(paths: list[str]) -> Any:
    def apply(state: State, host: Host) -> bool:
        # Not an error when the connection breaks here: the guard is armed, and what follows tells.
        try:
            answer, broken = ask(host, "network.rails", action="apply", paths=paths), ""
        except Exception as error:
            answer, broken = {}, f" ({error})"
        if answer.get("problem"):
            raise RuntimeError(answer["problem"])
        deadline = gevent.get_hub().loop.now() + 30
        while True:
            try:
                host.disconnect()
                host.connect(raise_exceptions=True, show_errors=False)
                tether.quicken(host)
                told = ask(host, "network.rails", action="keep", paths=paths)
            except Exception as error:
                if gevent.get_hub().loop.now() > deadline:
                    raise RuntimeError(
                        f"the node is out of reach since netplan was applied ({error}); it restores the old files "
                        "by itself after 60 s. Look at what shares an interface with the management network"
                    ) from None
                gevent.sleep(2)
                continue
            if told["kept"]:
                return True
            if told.get("waiting"):
                raise RuntimeError(f"the change of the network was not made on the node{broken}. Run the deploy again")
            raise RuntimeError(
                "the network's old files are in force: management was gone for too long, and the node's guard has "
                "restored them. Run the deploy again"
            )

    return apply


def _drift(run: Run) -> list[str]:
    """What the links themselves lack, whatever the file says: MTU, addresses and routes are lost without a trace."""
    node = run.plan.of(host.name).node
    links = run.look(host)["links"]
    lines = []
    for rail in rails_of(run.plan.knobs, node):
        link = links.get(rail.device)
        if rail.address not in (link["addresses"] if link else ()):
            lines.append(f"{rail.device} has not the address {rail.address}")
        if rail.route and " via ".join(rail.route) not in (link["routes"] if link else ()):
            lines.append(f"{rail.device} has not the route to {' via '.join(rail.route)}")
        if (mtu := link["mtu"] if link else None) != run.plan.knobs.fabric_mtu:
            lines.append(f"{rail.device} has MTU {mtu}, not {run.plan.knobs.fabric_mtu}")
    lines += [
        f"{device} has the address {address} of another wiring"
        for device, address in strays(run.plan.knobs, node, links)
    ]
    return lines


@step
def prove(run: Run) -> Iterator[PyinfraCommand]:
    """A full frame, not fragmented, over each rail to each other node that serves; fails with the rail that lets none
    through. In a ring over the two rails of the cable between the two, and to the address by which the other is called.
    """
    mine = run.plan.of(host.name).node
    if not mine.rails:
        host.noop("nothing of this plan goes over a fabric here: nothing is sent")
        return
    if state.is_executing:
        problems = _proof(peers_of(run.plan, mine), run.plan.knobs.fabric_mtu)
        if problems:
            yield fail(
                f"the fabric does not carry MTU {run.plan.knobs.fabric_mtu}: {'; '.join(problems)}. "
                "Check both cables and the switch's MTU, or set fabric_mtu to what it carries"
            )
            return
    host.noop("the rails carry full frames to every node that serves")


def peers_of(plan: Plan, mine: Node) -> dict[str, list[list[str]]]:
    """The ways from a node to each other one that this plan needs over the fabric."""
    others = [each.node for each in plan.nodes if each.node.rails and each.node.name != mine.name]
    return {other.name: [list(way) for way in _ways(mine, other)] for other in others}


def _ways(mine: Node, other: Node) -> list[tuple[str, str]]:
    """(device, address) of each way to another node, and the one that it is called by, where a route leads there."""
    direct = mine.toward(other)
    is_routed = bool(direct) and other.fabric not in [address for _, address in direct]
    return [*direct, (direct[0][0], other.fabric)] if is_routed else direct


def _proof(peers: dict[str, list[list[str]]], mtu: int) -> list[str]:
    """A link may need some seconds after netplan was applied (the other node's too): try for a while."""
    problems: list[str] = []
    for attempt in range(6):
        problems = ask(host, "network.rails", action="prove", peers=peers, mtu=mtu)["problems"]
        if not problems:
            break
        gevent.sleep(1 + attempt)
    return problems

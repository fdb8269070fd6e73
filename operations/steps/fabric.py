"""The fabric: addresses, MTU and ARP on both rails, kept with a carrier and without, and proven from both sides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import gevent
from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand, StringCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations.node.network import proof as node_proof
from operations.node.network import rails as node_rails
from operations.node.network.rails import GUARD_S
from operations.paths import ARP, SYSCTL
from operations.plan.cluster.fabric import proof_ports, rails_of, strays
from operations.plan.cluster.nodes import Node
from operations.plan.config.files import File
from operations.plan.decide.unit_state import differs
from operations.plan.plan import Plan
from operations.runner import tether
from operations.runner.managed_files import show_diff, write
from operations.runner.patience import fail, python_step
from operations.runner.remote import ask
from operations.runner.run import Run, step
from operations.wire.fabric import FabricTold

#: Seconds that a link may need after netplan was applied, on either node.
PATIENCE_S = 20

#: Seconds for a node to be reached again, with a last try before its guard takes the change back. Where NetworkManager
#: renders, `netplan apply` ends every connection that netplan has, Wi-Fi's too, which looks for its access point and
#: for an address then.
BACK_S = GUARD_S - 10
SLOW = "a node that is reached over Wi-Fi can be slow to come back: give it a cable"

MAC = re.compile(r"\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b")


@step
def rails(run: Run) -> Iterator[PyinfraCommand]:
    """The files of the rails, applied only when one of them or the links differ, undone when management is lost."""
    wanted = run.plan.of(host.name).fabric
    if not wanted:
        host.noop("nothing of this plan goes over a fabric here: the network stays as it is")
        return
    drift, arp = _drift(run), _arp_drift(run)
    present = run.look(host)["files"]
    changed = [file for file in wanted if differs(file, present)]
    if not changed and not drift and not arp:
        host.noop("the rails are as planned")
        return
    for line in (*drift, *arp):
        host.log(line)
    if arp or any(file.path == SYSCTL for file in changed):
        yield from _set_arp(next(file for file in wanted if file.path == SYSCTL))
    wanted = tuple(file for file in wanted if file.path != SYSCTL)
    changed = [file for file in changed if file in wanted]
    if not changed and not drift:
        return
    for device, address in strays(run.plan.knobs, run.plan.of(host.name).node, run.look(host)["links"]):
        yield StringCommand("ip address del", address, "dev", device)
    for file in changed:
        show_diff(file)
    # netplan reads *.yaml alone, NetworkManager *.conf: nothing new is in force before the guard is armed.
    for file in wanted:
        yield write(File(f"{file.path}.pending", file.content, file.mode))
    yield python_step(run.lock.across(_apply([file.path for file in wanted])))


def _set_arp(file: File) -> Iterator[PyinfraCommand]:
    """No address changes with it, so it needs no guard, and nothing that serves is disturbed."""
    show_diff(file)
    yield write(file)
    yield StringCommand("/usr/lib/systemd/systemd-sysctl", file.path)


def _apply(paths: list[str]) -> Any:
    def apply(state: State, host: Host) -> bool:
        # The guard's time runs from within this call, which may break only when its connection is given up.
        deadline = gevent.get_hub().loop.now() + BACK_S
        # Not an error when the connection breaks here: the guard is armed, and what follows tells.
        try:
            answer, broken = ask(host, node_rails.apply, paths), ""
        except Exception as error:
            answer, broken = {}, f" ({error})"
        if answer.get("problem"):
            raise RuntimeError(answer["problem"])
        while True:
            try:
                host.disconnect()
                host.connect(raise_exceptions=True, show_errors=False)
                tether.quicken(host)
                told = ask(host, node_rails.keep, paths)
            except Exception as error:
                if gevent.get_hub().loop.now() > deadline:
                    raise RuntimeError(
                        f"the node is out of reach since netplan was applied ({error}); it restores the old files "
                        f"by itself after {GUARD_S} s. Look at what shares an interface with the management network; "
                        f"{SLOW}"
                    ) from None
                gevent.sleep(2)
                continue
            if told["kept"]:
                return True
            if told.get("waiting"):
                raise RuntimeError(f"the change of the network was not made on the node{broken}. Run the deploy again")
            raise RuntimeError(
                "the network's old files are in force: management was gone for too long, and the node's guard has "
                f"restored them. Run the deploy again; {SLOW}"
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


def _arp_drift(run: Run) -> list[str]:
    """Settings of the kernel that are another hand's, or gone with a netdev that has come back: of rails, and of the
    other ports, which answer on the rails' switch where they are in it.
    """
    return [
        f"{device} has {name} {found or 'not set'}, not {wanted}"
        for device, link in run.look(host)["links"].items()
        for name, wanted in ARP.items()
        if (found := link["arp"][name]) != wanted
    ]


@step
def prove(run: Run) -> Iterator[PyinfraCommand]:
    """Over each rail to each other node that serves: a full frame, not fragmented; the MAC that answers there; and a
    TCP connection each way. Fails with what does not get through. In a ring over the two rails of the cable between
    the two, and to the address by which the other is called.
    """
    mine = run.plan.of(host.name).node
    if not mine.rails:
        host.noop("nothing of this plan goes over a fabric here: nothing is sent")
        return
    if state.is_executing:
        knobs = run.plan.knobs
        told = ask(
            host,
            node_proof.prove,
            peers=peers_of(run.plan, mine),
            mtu=knobs.fabric_mtu,
            own=dict(zip(mine.rails, mine.rail_addresses, strict=True)),
            macs=_macs(run.plan, mine),
            ports=proof_ports(knobs),
            patience_s=PATIENCE_S,
        )
        if problems := ". ".join(f"{problem}. {remedy}" for problem, remedy in _problems(run, told)):
            yield fail(problems)
            return
    host.noop("the rails carry full frames and connections to every node that serves")


def _problems(run: Run, told: FabricTold) -> Iterator[tuple[str, str]]:
    """What the proof has found, each with its remedy."""
    if told["problems"]:
        yield (
            f"the fabric does not carry MTU {run.plan.knobs.fabric_mtu}: {'; '.join(told['problems'])}",
            "Check both cables and the switch's MTU, or set fabric_mtu to what it carries",
        )
    if strangers := told.get("strangers"):
        netdevs = _netdevs(run)
        lines = [re.sub(MAC, lambda found: found[0] + netdevs.get(found[0], ""), line) for line in strangers]
        yield (
            f"another netdev answers on the fabric: {'; '.join(lines)}",
            "Run the deploy again, which sets arp_ignore; if it stays, another host has that address: set "
            "fabric_subnets to others",
        )
    if shut := told.get("shut"):
        yield f"{shut['by']} lets no TCP connection in over {shut['device']}", f"On {host.name}: {shut['remedy']}"
    if silent := told.get("silent"):
        yield (
            f"frames get through and connections don't: {'; '.join(silent)}",
            "A firewall keeps them out: the line of the node at the other end names it where it is that node's",
        )


def peers_of(plan: Plan, mine: Node) -> dict[str, list[list[str]]]:
    """The ways from a node to each other one that this plan needs over the fabric."""
    return {other.name: [list(way) for way in _ways(mine, other)] for other in _others(plan, mine)}


def _others(plan: Plan, mine: Node) -> list[Node]:
    return [each.node for each in plan.nodes if each.node.rails and each.node.name != mine.name]


def _macs(plan: Plan, mine: Node) -> dict[str, str]:
    """Address of another node's rail that is joined to one of this node's -> that rail's MAC, where it is known."""
    macs = {
        address: mac
        for other in _others(plan, mine)
        for address, mac in zip(other.rail_addresses, other.macs, strict=False)
    }
    return {address: macs.get(address, "") for other in _others(plan, mine) for _, address in mine.toward(other)}


def _netdevs(run: Run) -> dict[str, str]:
    """MAC -> ` (enp1s0f1np1 of spark-2)`, for all ports of all nodes."""
    return {
        link["mac"]: f" ({device} of {each.name})"
        for each in run.answering
        for device, link in run.look(each)["links"].items()
    }


def _ways(mine: Node, other: Node) -> list[tuple[str, str]]:
    """(device, address) of each way to another node, and the one that it is called by, where a route leads there."""
    direct = mine.toward(other)
    is_routed = bool(direct) and other.fabric not in [address for _, address in direct]
    return [*direct, (direct[0][0], other.fabric)] if is_routed else direct

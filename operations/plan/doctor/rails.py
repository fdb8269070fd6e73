"""The ports of the rails: links, speed, PCIe, MTU, and what they carry."""

from __future__ import annotations

from collections.abc import Iterator

from operations.plan.cluster.fabric_checks import (
    NO_RDMA_DEVICE,
    RAIL_DOWN,
    RAIL_MISSING,
    RAIL_NO_CARRIER,
    RAIL_NO_NIC,
    RDMA_DRIVER,
)
from operations.plan.config.kind import Kind
from operations.plan.doctor.symptom import BAD, REMARK, UNASKED, Seen, Symptom, found
from operations.wire.doctor import Measured, Port
from operations.wire.fabric import Links

#: Mbit/s of a GB10's port, and the least with which a cluster is worth it.
FULL_MBIT, LEAST_MBIT = 200_000, 100_000
#: Gbit/s: a rail gives 92 to 97 by RDMA; a ConnectX-7 that has initialised badly 8 to 25, with every link reported as
#: right. NVIDIA's own check asks for 80 by RDMA [I].
BADLY_INITIALISED, LEAST_RDMA = 25.0, 80.0
#: Gbit/s of the doctor's own TCP that no busy core explains: four connections of Python give several times as much.
LEAST_TCP = 10.0
#: Of the best stream over ports of the same speed.
MUCH_LESS, LESS = 0.1, 0.5
REVIVE = (
    "reboot both with the cable in place; if it stays, shut both down, unplug their power for a minute, and boot again"
)
ILL = "a ConnectX-7 that has initialised badly gives 8 to 25 Gbit/s, whatever the link says"
HALF = Kind(
    "rail-half",
    "the port shows one interface, {rail}, a GB10's has two",
    "half of the bandwidth is missing",
    "plug the cable in anew until it clicks, then reboot {node}; tandem apply takes the other one",
)
FRAMES = Kind(
    "rail-frames-lost",
    "a frame of {mtu} bytes: {problem}",
    "ranks hang as soon as they send much, or copies crawl",
    "tandem apply sets MTU {mtu} on both ends; a switch between must carry it as well",
)
_EACH_HAS_RDMA = (
    "`rdma link` on each of its nodes has to name one for each rail, state ACTIVE, or reboot; then: sudo systemctl "
    "restart {unit} there; where a device was renamed: tandem apply"
)
SOCKETS = Kind(
    "nccl-sockets",
    "NCCL in {unit} was told of RDMA devices and uses sockets",
    "every token waits for TCP: not every rank could use its devices when it started",
    _EACH_HAS_RDMA,
)
PART_OF_RDMA = Kind(
    "nccl-part-of-rdma",
    "NCCL in {unit} uses a part of its RDMA devices",
    "half of the bandwidth is missing: not every rank could use all of them when it started",
    _EACH_HAS_RDMA,
)
NO_ADDRESS = Kind(
    "rail-no-address",
    "{rail} has no address, {other} has",
    "half of the bandwidth is not used",
    "tandem apply gives it one",
)
MTU = Kind(
    "rail-mtu",
    "{rail} has MTU {mtu}, not {wanted}",
    "full frames don't get through, or every packet costs more",
    "tandem apply sets it",
)
SLOW_PORT = Kind(
    "rail-port-slow",
    "the port of {rail} runs at {gbit_s} Gbit/s",
    "a GB10's does 200: the cable or the switch can't",
    "a QSFP56 (200G) cable, plugged in until it clicks",
)
SLOW_PCIE = Kind(
    "rail-pcie-slow",
    "the PCIe link of {rail} is {now}, it can do {best}",
    "the rail can't reach its speed",
    REVIVE,
)
BROKEN_FRAMES = Kind(
    "rail-broken-frames",
    "{rail} has received {count} broken frames",
    "the cable or a plug is bad",
    "reseat the cable, or take another",
)
NO_TCP = Kind(
    "rail-no-tcp",
    "{way}: no TCP gets through ({problem})",
    "ranks and copies can't use that rail",
    "the rows about its ports and cables; else a firewall: sudo iptables -S, sudo nft list ruleset",
)
LITTLE_TCP = Kind(
    "rail-tcp-slow",
    "{way} carries {gbit_s:.1f} Gbit/s of {limit:.0f} by TCP",
    f"TCP gives more on busy cores too; {ILL}",
    REVIVE,
)
LESS_TCP = Kind(
    "rail-tcp-less",
    "{way} carries {gbit_s:.1f} Gbit/s of {limit:.0f} by TCP",
    f"the cores may be busy, or the port is ill: {ILL}",
    "sudo apt install perftest on both, and look again by RDMA",
)
UNEQUAL = Kind(
    "rail-unequal",
    "{way} carries {gbit_s:.1f} Gbit/s, the best of its kind {best:.1f}",
    "all wait for the slowest rail",
    f"look again when idle; then {REVIVE}",
)
NO_RDMA = Kind(
    "rdma-fails",
    "RDMA {way}: {problem}",
    "NCCL falls back to TCP, or hangs",
    f"ibv_devinfo on both; then {REVIVE}",
)
SLOW_RDMA = Kind(
    "rdma-slow",
    "RDMA {way} carries {gbit_s:.1f} Gbit/s; a GB10's rail 92 to 97",
    "the ConnectX-7 has initialised badly",
    REVIVE,
)


def judge(seen: Seen) -> Iterator[Symptom]:
    """Ports first, then what goes through them."""
    if not seen.needs_rails:
        yield Symptom(UNASKED, tuple(seen.looks), "the fabric: this topology has none")
        return
    links, ports = dict(seen.topic(lambda look: look.get("links"))), dict(seen.topic(lambda look: look.get("ports")))
    for node, rails in seen.rails.items():
        if not rails:
            yield found(RAIL_NO_NIC, BAD, node)
        if len(rails) == 1:
            yield found(HALF, REMARK, node, rail=rails[0], node=node)
        for rail in rails:
            yield from _port(node, rail, links.get(node, {}), ports.get(node, {}).get(rail) or {}, seen)
    for node, problems in seen.mtu.items():
        for problem in problems:
            yield found(FRAMES, BAD, node, mtu=seen.wanted_mtu, problem=problem)
    yield from _networks(seen)
    yield from _streams(seen, ports)
    yield from _rdma(seen, ports)


def _networks(seen: Seen) -> Iterator[Symptom]:
    """What a deploy judges by at a start, of starts that no deploy has seen."""
    for node, networks in seen.topic(lambda look: look.get("networks")):
        for unit, names in networks.items():
            if "Socket" in names:
                yield found(SOCKETS, BAD, node, unit=unit)
            elif "part" in names:
                yield found(PART_OF_RDMA, BAD, node, unit=unit)


def _port(node: str, rail: str, links: Links, port: Port, seen: Seen) -> Iterator[Symptom]:
    link = links.get(rail)
    if link is None:
        yield found(RAIL_MISSING, BAD, node, rail=rail, here=", ".join(links) or "none")
        return
    if not link["carrier"]:
        live = ", ".join(name for name, each in links.items() if each["carrier"]) or "none"
        yield found(RAIL_NO_CARRIER if link["up"] else RAIL_DOWN, BAD, node, node=node, rail=rail, live=live)
        return
    beside = [each for each in seen.rails[node] if each in links and links[each]["addresses"]]
    if beside and not link["addresses"]:
        yield found(NO_ADDRESS, REMARK, node, rail=rail, other=beside[0])
    if link["addresses"] and link["mtu"] != seen.wanted_mtu:
        yield found(MTU, BAD, node, rail=rail, mtu=link["mtu"], wanted=seen.wanted_mtu)
    speed = port.get("mbit_s")
    if speed and speed < FULL_MBIT:
        yield found(SLOW_PORT, BAD if speed < LEAST_MBIT else REMARK, node, rail=rail, gbit_s=speed // 1000)
    now, best = port.get("pcie"), port.get("pcie_max")
    if now and best and (now["gt_s"] < best["gt_s"] or now["width"] < best["width"]):
        speeds = [f"{each['gt_s']:g} GT/s x{each['width']:.0f}" for each in (now, best)]
        yield found(SLOW_PCIE, BAD, node, rail=rail, now=speeds[0], best=speeds[1])
    if port.get("errors"):
        yield found(BROKEN_FRAMES, REMARK, node, rail=rail, count=port["errors"])


def _streams(seen: Seen, ports: dict[str, dict[str, Port]]) -> Iterator[Symptom]:
    if not seen.streams and len(seen.looks) > 1:
        why = "left out (--no-load)" if "net" in seen.skipped else "no two nodes have addresses on a rail; tandem apply"
        yield Symptom(UNASKED, tuple(seen.looks), f"what the rails carry: {why}")
    best: dict[float, float] = {}
    for stream in seen.streams:
        limit = capacity(ports, stream)
        best[limit] = max(best.get(limit, 0.0), stream.get("gbit_s", 0.0))
    # Where RDMA was measured it says how the ConnectX-7 is: TCP is as fast as the cores that were free.
    known = {_way(each) for each in seen.rdma if "gbit_s" in each}
    for stream in seen.streams:
        way, where, limit = _way(stream), (stream["node"], stream["peer"]), capacity(ports, stream)
        if "problem" in stream:
            yield found(NO_TCP, BAD, *where, way=way, problem=stream["problem"])
            continue
        speed = stream["gbit_s"]
        if way not in known and limit >= 2 * BADLY_INITIALISED and speed < BADLY_INITIALISED:
            kind, severity = (LITTLE_TCP, BAD) if speed < LEAST_TCP else (LESS_TCP, REMARK)
            yield found(kind, severity, *where, way=way, gbit_s=speed, limit=limit)
        elif speed < LESS * best[limit]:
            severity = BAD if speed < MUCH_LESS * best[limit] else REMARK
            yield found(UNEQUAL, severity, *where, way=way, gbit_s=speed, best=best[limit])


def _rdma(seen: Seen, ports: dict[str, dict[str, Port]]) -> Iterator[Symptom]:
    links = dict(seen.topic(lambda look: look.get("links")))
    devices = {
        node: {rail: links[node][rail]["rdma"] for rail in rails if rail in links.get(node, {})}
        for node, rails in seen.rails.items()
    }
    bare = {node: [rail for rail, device in has.items() if not device] for node, has in devices.items()}
    without = tuple(node for node, rails in bare.items() if rails)
    # A ConnectX-7 has one for each rail. So has any other where one rail has one: what is gone has been there.
    is_known = any(any(has.values()) for has in devices.values())
    gone = {
        node: [rail for rail in rails if is_known or links[node][rail]["driver"] == RDMA_DRIVER]
        for node, rails in bare.items()
        if seen.wants_rdma
    }
    for node, rails in gone.items():
        if rails:
            yield found(NO_RDMA_DEVICE, BAD, node, rails=" and ".join(f"`{rail}`" for rail in rails))
    if rest := tuple(node for node in without if not gone.get(node)):
        some = "RDMA: not every rail has a device, and this topology uses none"
        yield Symptom(UNASKED, rest, some if is_known else "RDMA: no RDMA device is here")
    missing = {each["node"] for each in seen.rdma if each.get("missing")} | {
        each["peer"] for each in seen.rdma if each.get("missing")
    }
    if missing:
        yield Symptom(
            UNASKED, tuple(sorted(missing)), "RDMA: no ib_write_bw (apt install perftest) that can be bound to a rail"
        )
    for each in seen.rdma:
        where, way = (each["node"], each["peer"]), _way(each)
        if "problem" in each:
            yield found(NO_RDMA, BAD, *where, way=way, problem=each["problem"])
        elif "gbit_s" in each and each["gbit_s"] < LEAST_RDMA <= capacity(ports, each):
            yield found(SLOW_RDMA, BAD, *where, way=way, gbit_s=each["gbit_s"])


def capacity(ports: dict[str, dict[str, Port]], stream: Measured) -> float:
    """Gbit/s that the slower end of a stream's way can do: its port, and the PCIe link behind it; 0: not known."""
    ends = ((stream["node"], stream["device"]), (stream["peer"], stream["peer_device"]))
    known = []
    for node, device in ends:
        port = ports.get(node, {}).get(device, {})
        if speed := port.get("mbit_s"):
            known.append(speed / 1000)
        if pcie := port.get("pcie_max"):
            # 128 of 130 bits are data, from 8 GT/s on.
            known.append(pcie["gt_s"] * pcie["width"] * 128 / 130)
    return min(known, default=0.0)


def _way(stream: Measured) -> str:
    here, there = f"{stream['node']} {stream['device']}", f"{stream['peer']} {stream['peer_device']}"
    return f"{here} -> {there}" if stream.get("way") != "in" else f"{there} -> {here}"


def figures(seen: Seen) -> Iterator[str]:
    """What was measured, and by what the ranks speak, for people."""
    for node, networks in seen.topic(lambda look: look.get("networks")):
        for unit, said in networks.items():
            if names := [each for each in said if each != "part"]:
                part = " (a part of its devices)" if "part" in said else ""
                yield f"{node}: NCCL in {unit} uses {' and '.join(names)}{part}"
    ports = dict(seen.topic(lambda look: look.get("ports")))
    for kind, told in (("TCP", seen.streams), ("RDMA", seen.rdma)):
        for stream in told:
            if "gbit_s" in stream:
                limit = capacity(ports, stream)
                of = f" of {limit:.0f}" if limit else ""
                yield f"{_way(stream)}: {kind} {stream['gbit_s'] / 8:.2f} GB/s ({stream['gbit_s']:.1f}{of} Gbit/s)"

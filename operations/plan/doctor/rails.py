"""The ports of the rails: links, speed, PCIe, MTU, and what they carry."""

from __future__ import annotations

from collections.abc import Iterator

from operations.plan.doctor.symptom import BAD, REMARK, UNASKED, Seen, Symptom
from operations.wire.doctor import Measured, Port
from operations.wire.fabric import Link

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


def judge(seen: Seen) -> Iterator[Symptom]:
    """Ports first, then what goes through them."""
    if not seen.needs_rails:
        yield Symptom(UNASKED, tuple(seen.looks), "the fabric: this topology has none")
        return
    links, ports = dict(seen.topic("links")), dict(seen.topic("ports"))
    for node, rails in seen.rails.items():
        if not rails:
            yield Symptom(
                BAD,
                (node,),
                "no interface of a ConnectX is here",
                "without a cable they may be gone; ranks and other nodes' engines can't be reached",
                "plug the cable in at both ends; `lspci -d 15b3:` shows whether the card is there",
            )
        if len(rails) == 1:
            yield Symptom(
                REMARK,
                (node,),
                f"the port shows one interface, {rails[0]}, a GB10's has two",
                "half of the bandwidth is missing",
                f"plug the cable in anew until it clicks, then reboot {node}; tandem apply takes the other one",
            )
        for rail in rails:
            yield from _port(node, rail, links.get(node, {}).get(rail), ports.get(node, {}).get(rail) or {}, seen)
    for node, problems in seen.mtu.items():
        for problem in problems:
            yield Symptom(
                BAD,
                (node,),
                f"a frame of {seen.wanted_mtu} bytes: {problem}",
                "ranks hang as soon as they send much, or copies crawl",
                f"tandem apply sets MTU {seen.wanted_mtu} on both ends; a switch between must carry it as well",
            )
    yield from _networks(seen)
    yield from _streams(seen, ports)
    yield from _rdma(seen, ports)


def _networks(seen: Seen) -> Iterator[Symptom]:
    """What a deploy judges by at a start, of starts that no deploy has seen."""
    for node, networks in seen.topic("networks"):
        for unit, names in networks.items():
            if "Socket" in names:
                told = f"NCCL in {unit} was told of RDMA devices and uses sockets"
                means = "every token waits for TCP: the devices were not there when it started"
                remedy = (
                    f"`rdma link` on each of its nodes has to name one for each rail, or reboot; then: sudo systemctl "
                    f"restart {unit} there"
                )
                yield Symptom(BAD, (node,), told, means, remedy)


def _port(node: str, rail: str, link: Link | None, port: Port, seen: Seen) -> Iterator[Symptom]:
    if link is None:
        yield Symptom(
            BAD,
            (node,),
            f"there is no interface {rail}",
            "nothing goes over it",
            "plug the cable in at both ends: without one its interfaces may be gone; or mend `fabric_interfaces`",
        )
        return
    if not link["carrier"]:
        why = "has no carrier" if link["up"] else "is down"
        remedy = (
            "plug the cable in at both ends; is the other node on?" if link["up"] else f"sudo ip link set {rail} up"
        )
        yield Symptom(BAD, (node,), f"the rail {rail} {why}", "nothing goes over it", remedy)
        return
    links = dict(seen.topic("links")).get(node, {})
    beside = [each for each in seen.rails[node] if each in links and links[each]["addresses"]]
    if beside and not link["addresses"]:
        means = "half of the bandwidth is not used"
        yield Symptom(REMARK, (node,), f"{rail} has no address, {beside[0]} has", means, "tandem apply gives it one")
    if link["addresses"] and link["mtu"] != seen.wanted_mtu:
        means = "full frames don't get through, or every packet costs more"
        yield Symptom(BAD, (node,), f"{rail} has MTU {link['mtu']}, not {seen.wanted_mtu}", means, "tandem apply does")
    speed = port.get("mbit_s")
    if speed and speed < FULL_MBIT:
        yield Symptom(
            BAD if speed < LEAST_MBIT else REMARK,
            (node,),
            f"the port of {rail} runs at {speed // 1000} Gbit/s",
            "a GB10's does 200: the cable or the switch can't",
            "a QSFP56 (200G) cable, plugged in until it clicks",
        )
    now, best = port.get("pcie"), port.get("pcie_max")
    if now and best and (now["gt_s"] < best["gt_s"] or now["width"] < best["width"]):
        yield Symptom(
            BAD,
            (node,),
            f"the PCIe link of {rail} is {now['gt_s']:g} GT/s x{now['width']:.0f}, it can do "
            f"{best['gt_s']:g} GT/s x{best['width']:.0f}",
            "the rail can't reach its speed",
            REVIVE,
        )
    if port.get("errors"):
        seen_errors = f"{rail} has received {port['errors']} broken frames"
        yield Symptom(REMARK, (node,), seen_errors, "the cable or a plug is bad", "reseat the cable, or take another")


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
            means = "ranks and copies can't use that rail"
            remedy = "the rows about its ports and cables; else a firewall: sudo iptables -S, sudo nft list ruleset"
            yield Symptom(BAD, where, f"{way}: no TCP gets through ({stream['problem']})", means, remedy)
            continue
        speed = stream["gbit_s"]
        if way not in known and limit >= 2 * BADLY_INITIALISED and speed < BADLY_INITIALISED:
            told = f"{way} carries {speed:.1f} Gbit/s of {limit:.0f} by TCP"
            ill = "a ConnectX-7 that has initialised badly gives 8 to 25 Gbit/s, whatever the link says"
            if speed < LEAST_TCP:
                yield Symptom(BAD, where, told, f"TCP gives more on busy cores too; {ill}", REVIVE)
            else:
                means = f"the cores may be busy, or the port is ill: {ill}"
                yield Symptom(REMARK, where, told, means, "sudo apt install perftest on both, and look again by RDMA")
        elif speed < LESS * best[limit]:
            severity = BAD if speed < MUCH_LESS * best[limit] else REMARK
            told = f"{way} carries {speed:.1f} Gbit/s, the best of its kind {best[limit]:.1f}"
            yield Symptom(
                severity, where, told, "all wait for the slowest rail", f"look again when idle; then {REVIVE}"
            )


def _rdma(seen: Seen, ports: dict[str, dict[str, Port]]) -> Iterator[Symptom]:
    links = dict(seen.topic("links"))
    devices = {
        node: [links[node][rail]["rdma"] for rail in rails if rail in links.get(node, {})]
        for node, rails in seen.rails.items()
    }
    without = tuple(node for node, names in devices.items() if names and not any(names))
    if without:
        yield Symptom(UNASKED, without, "RDMA: no RDMA device is here")
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
            means = "NCCL falls back to TCP, or hangs"
            yield Symptom(BAD, where, f"RDMA {way}: {each['problem']}", means, "ibv_devinfo on both; then " + REVIVE)
        elif "gbit_s" in each and each["gbit_s"] < LEAST_RDMA <= capacity(ports, each):
            told = f"RDMA {way} carries {each['gbit_s']:.1f} Gbit/s; a GB10's rail 92 to 97"
            yield Symptom(BAD, where, told, "the ConnectX-7 has initialised badly", REVIVE)


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
    for node, networks in seen.topic("networks"):
        yield from (f"{node}: NCCL in {unit} uses {' and '.join(names)}" for unit, names in networks.items() if names)
    ports = dict(seen.topic("ports"))
    for kind, told in (("TCP", seen.streams), ("RDMA", seen.rdma)):
        for stream in told:
            if "gbit_s" in stream:
                limit = capacity(ports, stream)
                of = f" of {limit:.0f}" if limit else ""
                yield f"{_way(stream)}: {kind} {stream['gbit_s'] / 8:.2f} GB/s ({stream['gbit_s']:.1f}{of} Gbit/s)"

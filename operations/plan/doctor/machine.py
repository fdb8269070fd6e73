"""Memory, swap, heat, disks, and who else is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from operations.plan.checks import holder
from operations.plan.config.kind import Kind
from operations.plan.doctor.symptom import BAD, REMARK, UNASKED, Seen, Symptom, found
from operations.plan.node_kinds import PORT_HELD, READ_ONLY
from operations.wire.doctor import Disk, DiskHealth, Holders, MemoryGib

#: Swap in use that is no leftover, in GiB.
SWAPPING_GIB = 1.0
#: Share of memory in the page cache that an engine's start misses.
LARGE_CACHE = 0.3
#: Degrees of any sensor.
HOT = 95
#: GiB and share that a disk shall have free.
FULL_GIB, FULL_SHARE, NARROW_SHARE = 1.0, 0.01, 0.05
#: 10^9 bytes a second that an NVMe should read at least; a GB10's gives several.
SLOW_GB_S = 1.0
IS_HOT = Kind(
    "heat-sensor",
    "{sensor} has {celsius:.0f} °C",
    "what it measures slows down, or shuts off",
    "give it air, look at the fan",
)
SWAP = Kind(
    "memory-swap",
    "swap is on: {name}, {used_gib:.1f} of {gib:.1f} GiB used",
    "on unified memory a GPU that runs out makes the node swap until it freezes",
    'swap = "off" in group_data/all.py; or sudo swapoff -a, and take it out of /etc/fstab',
)
CACHE = Kind(
    "memory-page-cache",
    "{cache_gib:.1f} of {total_gib:.1f} GiB are page cache",
    "on unified memory CUDA may not get them back in time for a start",
    "sync; echo 3 | sudo tee /proc/sys/vm/drop_caches",
)
FULL = Kind(
    "disk-full",
    "the disk of {path} is full: {free_gib:.1f} of {gib:.1f} GiB free, {inodes_free:.0%} of its inodes",
    "engines don't start, logs and downloads end in the middle",
    "tandem models prune; tandem prune; docker system df; du -xh --max-depth 2 {path}",
)
UNEQUAL = Kind("disk-speeds-unequal", "disks read unequally: {speeds}", "all wait for the slowest load")
SLOW = Kind(
    "disk-slow",
    "{disk} reads {gb_s:.2f} GB/s",
    "loads take minutes longer",
    "nothing else may use it: iotop; see its PCIe link: lspci -vv; is it hot?",
)
FAILING = Kind("disk-failing", "{disk}: {what}", "it fails, or will", "back up, replace it")
WORN = Kind("disk-worn", "{disk} has used {percent} % of its life", "it may fail soon", "plan to replace it")
DISK_HOT = Kind("disk-hot", "{disk} has {celsius} °C", "NVMes slow down from about 80 °C on", "give it air")
SHARED = Kind(
    "gpu-shared",
    "{program} (pid {pid}{size}) uses the GPU too",
    "it takes memory and time from the engine",
    "end it if it is not wanted: sudo kill {pid}",
)


def judge(seen: Seen, ports: Mapping[str, Mapping[int, str]]) -> Iterator[Symptom]:
    """`ports`: by node, what Tandem wants to listen on there, with the knob that says so."""
    for node, memory in seen.topic(lambda look: look.get("memory")):
        yield from _memory(node, memory)
    for node, heat in seen.topic(lambda look: look.get("heat")):
        for zone in heat["zones"]:
            if zone["celsius"] >= HOT:
                yield found(IS_HOT, BAD, node, sensor=zone["name"], celsius=zone["celsius"])
    for node, disk in seen.topic(lambda look: look.get("disk")):
        yield from _disk(node, disk)
    speeds = {node: told["read"]["gb_s"] for node, told in seen.topic(lambda look: look.get("disk")) if told["read"]}
    if speeds and min(speeds.values()) < 0.5 * max(speeds.values()):
        told_speeds = ", ".join(f"{node} {speed:.1f} GB/s" for node, speed in speeds.items())
        yield found(UNEQUAL, REMARK, *speeds, speeds=told_speeds)
    for node, holders in seen.topic(lambda look: look.get("holders")):
        yield from _holders(node, holders, ports.get(node, {}))


def _memory(node: str, told: MemoryGib) -> Iterator[Symptom]:
    for swap in told["swaps"]:
        yield found(SWAP, BAD if swap["used_gib"] >= SWAPPING_GIB else REMARK, node, **swap)
    if told["cache_gib"] > LARGE_CACHE * told["total_gib"]:
        yield found(CACHE, REMARK, node, cache_gib=told["cache_gib"], total_gib=told["total_gib"])


def _disk(node: str, told: Disk) -> Iterator[Symptom]:
    for place in told["room"]:
        if place["read_only"]:
            yield found(READ_ONLY, BAD, node, path=place["path"])
        share, left = place["free_gib"] / place["gib"] if place["gib"] else 1.0, place["free_gib"]
        full = share < FULL_SHARE or (left < FULL_GIB and share < 2 * NARROW_SHARE)
        if full or share < NARROW_SHARE or place["inodes_free"] < FULL_SHARE:
            yield found(FULL, BAD if full or place["inodes_free"] < FULL_SHARE else REMARK, node, **place)
    if told["health"] is None:
        yield Symptom(UNASKED, (node,), "the NVMe's health: neither nvme-cli nor smartmontools is installed")
    elif not told["health"]:
        yield Symptom(UNASKED, (node,), "the NVMe's health: there is none, or it does not tell")
    for disk in told["health"] or []:
        yield from _health(node, disk)
    speed = told["read"].get("gb_s", 0)
    if not told["read"]:
        yield Symptom(UNASKED, (node,), "the disk's speed: no model file to read, or no way around the page cache")
    elif told["read"]["disk"].startswith("nvme") and speed < SLOW_GB_S:
        yield found(SLOW, REMARK, node, disk=told["read"]["disk"], gb_s=speed)


def _health(node: str, disk: DiskHealth) -> Iterator[Symptom]:
    told = []
    if disk["warning"]:
        told.append(f"critical warning {disk['warning']:#x}")
    if disk["media_errors"]:
        told.append(f"{disk['media_errors']} media errors")
    if disk["spare_percent"] <= 10:
        told.append(f"{disk['spare_percent']} % of its spare blocks left")
    if told:
        yield found(FAILING, BAD, node, disk=disk["disk"], what=", ".join(told))
    elif disk["used_percent"] >= 90:
        yield found(WORN, REMARK, node, disk=disk["disk"], percent=disk["used_percent"])
    if disk["celsius"] >= 75:
        yield found(DISK_HOT, REMARK, node, disk=disk["disk"], celsius=disk["celsius"])


def _holders(node: str, told: Holders, ports: Mapping[int, str]) -> Iterator[Symptom]:
    for listener in (each for each in told["ports"] if each["port"] in ports):
        port = listener["port"]
        yield found(PORT_HELD, BAD, node, port=port, holder=holder(listener), knob=ports[port])
    for process in told["gpu"]:
        size = f", {process['mib']:,.0f} MiB" if process["mib"] else ""
        yield found(SHARED, REMARK, node, program=process["process"], pid=process["pid"], size=size)


def figures(seen: Seen) -> Iterator[str]:
    """What was measured, for people."""
    for node, told in seen.topic(lambda look: look.get("disk")):
        if told["read"]:
            yield f"{node}: {told['read']['disk'] or 'its disk'} reads {told['read']['gb_s']:.1f} GB/s"

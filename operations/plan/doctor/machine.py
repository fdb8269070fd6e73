"""Memory, swap, heat, disks, and who else is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from operations.plan.doctor.symptom import BAD, REMARK, UNASKED, Seen, Symptom
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


def judge(seen: Seen, ports: Mapping[str, Mapping[int, str]]) -> Iterator[Symptom]:
    """`ports`: by node, what Tandem wants to listen on there, with the knob that says so."""
    for node, memory in seen.topic("memory"):
        yield from _memory(node, memory)
    for node, heat in seen.topic("heat"):
        for zone in heat["zones"]:
            if zone["celsius"] >= HOT:
                remedy = "give it air, look at the fan"
                yield Symptom(BAD, (node,), f"{zone['name']} has {zone['celsius']:.0f} °C", "it slows down", remedy)
    for node, disk in seen.topic("disk"):
        yield from _disk(node, disk)
    speeds = {node: told["read"]["gb_s"] for node, told in seen.topic("disk") if told["read"]}
    if speeds and min(speeds.values()) < 0.5 * max(speeds.values()):
        told_speeds = ", ".join(f"{node} {speed:.1f} GB/s" for node, speed in speeds.items())
        yield Symptom(
            REMARK, tuple(speeds), f"disks read unequally: {told_speeds}", "all wait for the slowest load", ""
        )
    for node, holders in seen.topic("holders"):
        yield from _holders(node, holders, ports.get(node, {}))


def _memory(node: str, told: MemoryGib) -> Iterator[Symptom]:
    for swap in told["swaps"]:
        swapping = swap["used_gib"] >= SWAPPING_GIB
        yield Symptom(
            BAD if swapping else REMARK,
            (node,),
            f"swap is on: {swap['name']}, {swap['used_gib']:.1f} of {swap['gib']:.1f} GiB used",
            "on unified memory a GPU that runs out makes the node swap until it freezes",
            'swap = "off" in group_data/all.py; or sudo swapoff -a, and take it out of /etc/fstab',
        )
    if told["cache_gib"] > LARGE_CACHE * told["total_gib"]:
        yield Symptom(
            REMARK,
            (node,),
            f"{told['cache_gib']:.1f} of {told['total_gib']:.1f} GiB are page cache",
            "on unified memory CUDA may not get them back in time for a start",
            "sync; echo 3 | sudo tee /proc/sys/vm/drop_caches",
        )


def _disk(node: str, told: Disk) -> Iterator[Symptom]:
    for place in told["room"]:
        share, left = place["free_gib"] / place["gib"] if place["gib"] else 1.0, place["free_gib"]
        full = share < FULL_SHARE or (left < FULL_GIB and share < 2 * NARROW_SHARE)
        if full or share < NARROW_SHARE or place["inodes_free"] < FULL_SHARE:
            yield Symptom(
                BAD if full or place["inodes_free"] < FULL_SHARE else REMARK,
                (node,),
                f"the disk of {place['path']} is full: {left:.1f} of {place['gib']:.1f} GiB free, "
                f"{place['inodes_free']:.0%} of its inodes",
                "engines don't start, logs and downloads end in the middle",
                "tandem models prune; tandem prune; docker system df; du -xh --max-depth 2 " + place["path"],
            )
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
        remedy = "nothing else may use it: iotop; see its PCIe link: lspci -vv; is it hot?"
        means = "loads take minutes longer"
        yield Symptom(REMARK, (node,), f"{told['read']['disk']} reads {speed:.2f} GB/s", means, remedy)


def _health(node: str, disk: DiskHealth) -> Iterator[Symptom]:
    told = []
    if disk["warning"]:
        told.append(f"critical warning {disk['warning']:#x}")
    if disk["media_errors"]:
        told.append(f"{disk['media_errors']} media errors")
    if disk["spare_percent"] <= 10:
        told.append(f"{disk['spare_percent']} % of its spare blocks left")
    if told:
        yield Symptom(BAD, (node,), f"{disk['disk']}: {', '.join(told)}", "it fails, or will", "back up, replace it")
    elif disk["used_percent"] >= 90:
        seen = f"{disk['disk']} has used {disk['used_percent']} % of its life"
        yield Symptom(REMARK, (node,), seen, "it may fail soon", "plan to replace it")
    if disk["celsius"] >= 75:
        means = "NVMes slow down from about 80 °C on"
        yield Symptom(REMARK, (node,), f"{disk['disk']} has {disk['celsius']} °C", means, "give it air")


def _holders(node: str, told: Holders, ports: Mapping[int, str]) -> Iterator[Symptom]:
    for listener in (each for each in told["ports"] if each["port"] in ports):
        who = listener["process"] or "another program"
        pid = f" (pid {listener['pid']})" if listener["pid"] else ""
        remedy = f"end it, or change `{ports[listener['port']]}` in group_data/all.py"
        yield Symptom(
            BAD,
            (node,),
            f"port {listener['port']} is held by {who}{pid}",
            "what wants it waits and never serves",
            remedy,
        )
    for process in told["gpu"]:
        size = f", {process['mib']:,.0f} MiB" if process["mib"] else ""
        yield Symptom(
            REMARK,
            (node,),
            f"{process['process']} (pid {process['pid']}{size}) uses the GPU too",
            "it takes memory and time from the engine",
            f"end it if it is not wanted: sudo kill {process['pid']}",
        )


def figures(seen: Seen) -> Iterator[str]:
    """What was measured, for people."""
    for node, told in seen.topic("disk"):
        if told["read"]:
            yield f"{node}: {told['read']['disk'] or 'its disk'} reads {told['read']['gb_s']:.1f} GB/s"

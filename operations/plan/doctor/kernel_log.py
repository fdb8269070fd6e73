"""What the kernel's words mean."""

from __future__ import annotations

from collections.abc import Iterator

from operations.plan.doctor.gpu import CAP
from operations.plan.doctor.symptom import BAD, REMARK, UNASKED, Seen, Symptom
from operations.wire.doctor import KernelEvent

#: Xids that a program causes (NVIDIA's catalogue of Xids); the others are the driver's or the hardware's.
OF_PROGRAMS = {"13", "31", "43", "45"}
#: kind -> what it means, what helps.
MEANING = {
    # MemAvailable may say 22 GiB at that moment ([Y]): large pages are gone, or the driver's own part is used up.
    "no_gpu_memory": (
        "the driver had no memory left, whatever was available: on unified memory the node freezes next",
        "give the engine less (its share, or memory_gib), end what else holds memory; reboot where it comes again",
    ),
    "oom": (
        "the kernel killed it because memory was used up",
        "give the engine less memory; a higher memory_floor_gib",
    ),
    "power_off": (
        "the node went off without a shutdown, or was reset: its power was cut, it was too hot, or it hung",
        f"if it was under load {CAP}; else look at its power",
    ),
    "disk": ("a disk or its file system fails", "back up, look at its health (smartctl -a), replace it"),
}


def judge(seen: Seen) -> Iterator[Symptom]:
    """One row for each kind of event of each node."""
    for node, told in seen.topic("kernel_log"):
        if not told["readable"]:
            yield Symptom(UNASKED, (node,), "the kernel's log: the journal has none of it here")
        if told["cut"]:
            yield Symptom(UNASKED, (node,), "the end of the kernel's log: it is too long to be read in time")
        for event in told["events"]:
            yield _symptom(node, event)


def _symptom(node: str, event: KernelEvent) -> Symptom:
    kind, case, times = event["kind"], event["case"], f"{event['count']} times in 24 hours"
    if kind == "xid":
        seen = f"Xid {case}, {times}, the last: {event['last']}"
        if case in OF_PROGRAMS:
            means = "a program on the GPU did something wrong, or was killed"
            return Symptom(REMARK, (node,), seen, means, "look into the engine's log at that time")
        remedy = (
            "update firmware and driver (sudo apt full-upgrade, fwupdmgr update); if it comes again: NVIDIA's support"
        )
        return Symptom(BAD, (node,), seen, "the driver or the GPU failed", remedy)
    if kind == "aer":
        severity = REMARK if case == "Corrected" else BAD
        means = "a PCIe link has errors" + (": they were put right, and cost time" if case == "Corrected" else "")
        remedy = "reseat the cable of the port that is named; update firmware; if it is fatal: NVIDIA's support"
        return Symptom(severity, (node,), f"PCIe errors ({case}), {times}, the last: {event['last']}", means, remedy)
    means, remedy = MEANING[kind]
    # Its owner may have pulled the plug.
    severity = REMARK if kind == "power_off" else BAD
    return Symptom(severity, (node,), f"{case}, {times}, the last: {event['last']}", means, remedy)

"""What the kernel's words mean."""

from __future__ import annotations

from collections.abc import Iterator

from operations.plan.config.kind import Kind
from operations.plan.doctor.gpu import CAP
from operations.plan.doctor.symptom import BAD, REMARK, UNASKED, Seen, Symptom, found
from operations.wire.doctor import KernelEvent

#: Xids that a program causes (NVIDIA's catalogue of Xids); the others are the driver's or the hardware's.
OF_PROGRAMS = {"13", "31", "43", "45"}
#: How often, and the last line; a finding says which.
_TIMES = "{times} times in 24 hours, the last: {last}"
_SUPPORT = "NVIDIA's support"
XID = Kind(
    "log-xid",
    f"Xid {{case}}, {_TIMES}",
    "the driver or the GPU failed",
    f"update firmware and driver (sudo apt full-upgrade, fwupdmgr update); if it comes again: {_SUPPORT}",
)
XID_OF_A_PROGRAM = Kind(
    "log-xid-of-a-program",
    f"Xid {{case}}, {_TIMES}",
    "a program on the GPU did something wrong, or was killed",
    "look into the engine's log at that time",
)
PCIE = Kind(
    "log-pcie-errors",
    f"PCIe errors ({{case}}), {_TIMES}",
    "a PCIe link has errors; corrected ones were put right, and cost time",
    f"reseat the cable of the port that is named; update firmware; if it is fatal: {_SUPPORT}",
)
#: Other events, by what the look calls them.
OTHERS = {
    # MemAvailable may say 22 GiB at that moment ([Y]): large pages are gone, or the driver's own part is used up.
    "no_gpu_memory": Kind(
        "log-no-gpu-memory",
        f"{{case}}, {_TIMES}",
        "the driver had no memory left, whatever was available: on unified memory the node freezes next",
        "give the engine less (its share, or memory_gib), end what else holds memory; reboot where it comes again",
    ),
    "oom": Kind(
        "log-oom-kill",
        f"{{case}}, {_TIMES}",
        "the kernel killed it because memory was used up",
        "give the engine less memory; a higher memory_floor_gib",
    ),
    "power_off": Kind(
        "log-power-off",
        f"{{case}}, {_TIMES}",
        "the node went off without a shutdown, or was reset: its power was cut, it was too hot, or it hung",
        f"if it was under load {CAP}; else look at its power",
    ),
    "disk": Kind(
        "log-disk-errors",
        f"{{case}}, {_TIMES}",
        "a disk or its file system fails",
        "back up, look at its health (smartctl -a), replace it",
    ),
}


def judge(seen: Seen) -> Iterator[Symptom]:
    """One row for each kind of event of each node."""
    for node, told in seen.topic(lambda look: look.get("kernel_log")):
        if not told["readable"]:
            yield Symptom(UNASKED, (node,), "the kernel's log: the journal has none of it here")
        if told["cut"]:
            yield Symptom(UNASKED, (node,), "the end of the kernel's log: it is too long to be read in time")
        for event in told["events"]:
            yield _symptom(node, event)


def _symptom(node: str, event: KernelEvent) -> Symptom:
    kind, case = event["kind"], event["case"]
    data = {"case": case, "times": event["count"], "last": event["last"]}
    if kind == "xid":
        if case in OF_PROGRAMS:
            return found(XID_OF_A_PROGRAM, REMARK, node, **data)
        return found(XID, BAD, node, **data)
    if kind == "aer":
        return found(PCIE, REMARK if case == "Corrected" else BAD, node, **data)
    # Its owner may have pulled the plug.
    return found(OTHERS[kind], REMARK if kind == "power_off" else BAD, node, **data)

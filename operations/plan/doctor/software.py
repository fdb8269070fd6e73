"""Versions that differ between nodes, and which NCCL the engines use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from operations.plan.config.kind import Kind
from operations.plan.doctor.symptom import BAD, REMARK, UNASKED, Seen, Symptom, differing, found

_UPGRADE = "sudo apt full-upgrade on each, then reboot"
#: By the key of the look: how bad it is where it differs, and what is said.
ALIKE = {
    "driver": (
        BAD,
        Kind(
            "software-drivers-differ",
            "NVIDIA drivers differ: {unlike}",
            "one rank slows all down (2.4 times was seen), or hangs",
            _UPGRADE,
        ),
    ),
    "kernel": (
        BAD,
        Kind(
            "software-kernels-differ",
            "kernels differ: {unlike}",
            "drivers and RDMA behave differently, and all ranks wait for the worst",
            _UPGRADE,
        ),
    ),
    "bios": (
        REMARK,
        Kind(
            "software-firmware-differs",
            "firmware (BIOS) differ: {unlike}",
            "power and clocks may behave differently",
            "sudo fwupdmgr update on each, then reboot",
        ),
    ),
    "system": (
        REMARK,
        Kind(
            "software-systems-differ",
            "systems differ: {unlike}",
            "what is true of one node need not be of the other",
            _UPGRADE,
        ),
    ),
    "docker": (
        REMARK,
        Kind(
            "docker-versions-differ",
            "Docker versions differ: {unlike}",
            "one node may start what the other refuses",
            f"{_UPGRADE}; packages that are held: sudo apt-mark unhold them first",
        ),
    ),
    "store": (
        REMARK,
        Kind(
            "docker-stores-differ",
            "Docker's stores differ: {unlike}",
            "images travel whole and not by layers where one is containerd's",
            "the same `features: containerd-snapshotter` in /etc/docker/daemon.json on all",
        ),
    ),
}
NIGHTLY = Kind(
    "docker-renewed-at-night",
    "unattended-upgrades may renew {packages} at night",
    "dockerd restarts then, and every engine with it",
    "sudo apt-mark hold {packages}; `sudo apt-mark unhold` before an upgrade of your own",
)
NIC_FIRMWARE = Kind(
    "rail-firmware-differs",
    "the NICs' firmware differs: {unlike}",
    "rails may be slower one way, or RDMA fail",
    "sudo fwupdmgr update on each",
)
NCCL_DIFFERS = Kind(
    "nccl-differs",
    "the engine's image has different NCCLs: {unlike}",
    "ranks that speak through different NCCLs hang or die",
    "tandem down; docker rmi the image on the node that is wrong; tandem apply copies the head's",
)
NCCL_TWICE = Kind(
    "nccl-twice",
    "the image has two NCCLs, {wheel} (wheel) and {system} (system); {used} is used: {file}",
    "with the wheel's, clusters of two Sparks have hung (vLLM issues 41725, 42354)",
    "if yours does, name the other: VLLM_NCCL_SO_PATH in the recipe's environment",
)


def judge(seen: Seen) -> Iterator[Symptom]:
    """What differs, and NCCL."""
    told = dict(seen.topic(lambda look: look.get("software")))
    for key, (severity, kind) in ALIKE.items():
        if unlike := differing({node: cast("Mapping[str, str]", software)[key] for node, software in told.items()}):
            yield found(kind, severity, *told, unlike=unlike)
    for node, software in told.items():
        if packages := " ".join(software["nightly"]):
            yield found(NIGHTLY, REMARK, node, packages=packages)
    firmware = {
        node: ", ".join(sorted({port["firmware"] for port in ports.values() if port["firmware"]}))
        for node, ports in seen.topic(lambda look: look.get("ports"))
    }
    if unlike := differing(firmware):
        yield found(NIC_FIRMWARE, BAD, *firmware, unlike=unlike)
    yield from _nccl(seen)


def _nccl(seen: Seen) -> Iterator[Symptom]:
    told = {}
    for node, software in seen.topic(lambda look: look.get("software")):
        nccl = software["nccl"]
        if not nccl:
            yield Symptom(UNASKED, (node,), "the engine's NCCL: its image is not here")
        elif "error" in nccl:
            yield Symptom(UNASKED, (node,), f"the engine's NCCL: its image does not tell: {nccl['error']}")
        else:
            told[node] = nccl
    if told and not any(nccl["version"] for nccl in told.values()):
        yield Symptom(UNASKED, tuple(told), "the engine's NCCL: its image has none")
        return
    # The same version can be another build: one of them hangs after hours, the other does not [M].
    named = {
        node: f"{nccl['version']} ({nccl['size']:,} bytes)" if nccl["version"] else "none"
        for node, nccl in told.items()
    }
    if unlike := differing(named):
        yield found(NCCL_DIFFERS, BAD, *named, unlike=unlike)
    for node, nccl in told.items():
        if nccl["version"] and nccl["file"] and nccl["wheel"] and nccl["system"]:
            kind = (
                "the wheel's" if nccl["version"] == nccl["wheel"] and "/nccl/lib/" in nccl["file"] else "the system's"
            )
            data = {"wheel": nccl["wheel"], "system": nccl["system"], "file": nccl["file"]}
            yield found(NCCL_TWICE, REMARK, node, used=kind, **data)


def figures(seen: Seen) -> Iterator[str]:
    """Which NCCL the engine's image uses."""
    for node, software in seen.topic(lambda look: look.get("software")):
        if software["nccl"].get("version"):
            file = software["nccl"]["file"] or "a wheel"
            yield f"{node}: NCCL {software['nccl']['version']} in the engine's image ({file})"

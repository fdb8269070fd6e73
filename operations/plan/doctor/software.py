"""Versions that differ between nodes, and which NCCL the engines use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from operations.plan.doctor.symptom import BAD, REMARK, UNASKED, Seen, Symptom, differing

#: key of the look -> severity where it differs, what it is called, what it means, what helps.
ALIKE = {
    "driver": (
        BAD,
        "NVIDIA drivers",
        "one rank slows all down (2.4 times was seen), or hangs",
        "sudo apt full-upgrade",
    ),
    "kernel": (
        BAD,
        "kernels",
        "drivers and RDMA behave differently, and all ranks wait for the worst",
        "sudo apt full-upgrade",
    ),
    "bios": (REMARK, "firmware (BIOS)", "power and clocks may behave differently", "sudo fwupdmgr update"),
    "system": (REMARK, "systems", "what is true of one node need not be of the other", "sudo apt full-upgrade"),
    "docker": (REMARK, "Docker versions", "one node may start what the other refuses", "sudo apt full-upgrade"),
    "store": (
        REMARK,
        "Docker's stores",
        "images travel whole and not by layers where one is containerd's",
        "the same `features: containerd-snapshotter` in /etc/docker/daemon.json on all",
    ),
}
UPDATE = " on each, then reboot"


def judge(seen: Seen) -> Iterator[Symptom]:
    """What differs, and NCCL."""
    told = dict(seen.topic("software"))
    for key, (severity, name, means, remedy) in ALIKE.items():
        if unlike := differing({node: cast("Mapping[str, str]", software)[key] for node, software in told.items()}):
            remedy += UPDATE if remedy.startswith("sudo") else ""
            yield Symptom(severity, tuple(told), f"{name} differ: {unlike}", means, remedy)
    for node, software in told.items():
        if packages := " ".join(software["nightly"]):
            yield Symptom(
                REMARK,
                (node,),
                f"unattended-upgrades may renew {packages} at night",
                "dockerd restarts then, and every engine with it",
                f"sudo apt-mark hold {packages}; `sudo apt-mark unhold` before an upgrade of your own",
            )
    firmware = {
        node: ", ".join(sorted({port["firmware"] for port in ports.values() if port["firmware"]}))
        for node, ports in seen.topic("ports")
    }
    if unlike := differing(firmware):
        means = "rails may be slower one way, or RDMA fail"
        yield Symptom(
            BAD, tuple(firmware), f"the NICs' firmware differs: {unlike}", means, "sudo fwupdmgr update on each"
        )
    yield from _nccl(seen)


def _nccl(seen: Seen) -> Iterator[Symptom]:
    found = {}
    for node, software in seen.topic("software"):
        nccl = software["nccl"]
        if not nccl:
            yield Symptom(UNASKED, (node,), "the engine's NCCL: its image is not here")
        elif "error" in nccl:
            yield Symptom(UNASKED, (node,), f"the engine's NCCL: its image does not tell: {nccl['error']}")
        else:
            found[node] = nccl
    if found and not any(nccl["version"] for nccl in found.values()):
        yield Symptom(UNASKED, tuple(found), "the engine's NCCL: its image has none")
        return
    # The same version can be another build: one of them hangs after hours, the other does not [M].
    named = {
        node: f"{nccl['version']} ({nccl['size']:,} bytes)" if nccl["version"] else "none"
        for node, nccl in found.items()
    }
    if unlike := differing(named):
        yield Symptom(
            BAD,
            tuple(named),
            f"the engine's image has different NCCLs: {unlike}",
            "ranks that speak through different NCCLs hang or die",
            "docker rmi the image on the node that is wrong, then tandem apply: it copies the head's",
        )
    for node, nccl in found.items():
        if nccl["version"] and nccl["file"] and nccl["wheel"] and nccl["system"]:
            kind = (
                "the wheel's" if nccl["version"] == nccl["wheel"] and "/nccl/lib/" in nccl["file"] else "the system's"
            )
            yield Symptom(
                REMARK,
                (node,),
                f"the image has two NCCLs, {nccl['wheel']} (wheel) and {nccl['system']} (system); "
                f"{kind} is used: {nccl['file']}",
                "with the wheel's, clusters of two Sparks have hung (vLLM issues 41725, 42354)",
                "if yours does, name the other: VLLM_NCCL_SO_PATH in the recipe's environment",
            )


def figures(seen: Seen) -> Iterator[str]:
    """Which NCCL the engine's image uses."""
    for node, software in seen.topic("software"):
        if software["nccl"].get("version"):
            file = software["nccl"]["file"] or "a wheel"
            yield f"{node}: NCCL {software['nccl']['version']} in the engine's image ({file})"

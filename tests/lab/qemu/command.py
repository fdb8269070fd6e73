"""The command line that a machine is run by. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.lab.cables import Port
from tests.lab.qemu import artefacts
from tests.lab.settings import LINKS, LabNode

#: What one machine has, on a machine of 2 cores that runs two of them. Both LiteLLM and the engine take 1.5 GiB, and a
#: start of the engine wants 1 GiB and the guard's floor beside them.
MEMORY_MIB, CORES = 5120, 2


@dataclass(frozen=True)
class Architecture:
    """How qemu makes a machine of an architecture: program, board, emulated processor, and the console's name."""

    program: str
    board: str
    processor: str
    console: str


#: An emulated machine's services start slowly, and a service that was given up would be no finding.
_PATIENT = "systemd.default_timeout_start_sec=600 systemd.default_device_timeout_sec=600"

#: By Debian's names. Signed pointers by the book would halve the speed of an emulated arm64.
ARCHITECTURES = {
    "amd64": Architecture("qemu-system-x86_64", "q35", "max", "ttyS0"),
    "arm64": Architecture("qemu-system-aarch64", "virt", "max,pauth-impdef=on", "ttyAMA0"),
}


def monitor(node: LabNode) -> Path:
    """Where a running machine's qemu takes commands."""
    return node.home / "monitor"


def events(node: LabNode) -> Path:
    """Where it tells its keeper what happens."""
    return node.home / "events"


def disk(node: LabNode) -> Path:
    """What a machine has written, over the disk that all have in common."""
    return node.home / "disk.qcow2"


def initramfs(node: LabNode) -> Path:
    """Its first file system, with its own files."""
    return node.home / "initramfs"


def backend(link: str) -> str:
    """Qemu's name for the outside of a link."""
    return f"wire-{link}"


def mac(port: Port) -> str:
    """A port's hardware address, by which a machine's system names it."""
    return f"52:54:00:5a:{port.node.index + 1:02x}:{list(LINKS).index(port.link):02x}"


def device(port: Port) -> dict[str, str]:
    """A netdev as qemu adds one: a PCIe device in a slot of its own, from which it can be taken."""
    slot, wire = f"slot-{port.link}", backend(port.link)
    # What would boot from the network is left out.
    return {
        "driver": "virtio-net-pci", "id": port.link, "bus": slot, "netdev": wire, "mac": mac(port), "romfile": "",
    }  # fmt: skip


def accelerated(arch: str, accelerator: str) -> list[str]:
    """The words for an accelerator: `kvm` or `tcg`, which emulates."""
    if accelerator == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    return ["-accel", "tcg,thread=multi", "-cpu", ARCHITECTURES[arch].processor]


def bare(arch: str, accelerator: str, kernel: Path, first: Path, words: str) -> list[str]:
    """A machine without a disk, its console on stdout; `words` are for its kernel. It ends where it would reboot."""
    made = ARCHITECTURES[arch]
    return [
        *(made.program, "-M", made.board, *accelerated(arch, accelerator)),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"),
        *("-kernel", str(kernel), "-initrd", str(first), "-append", f"console={made.console} {words}"),
    ]


def whole(node: LabNode, arch: str, accelerator: str, kernel: Path, taps: Mapping[str, int]) -> list[str]:
    """A node's machine; `taps`: the descriptors of its wires, by link."""
    words = [
        *bare(arch, accelerator, kernel, initramfs(node), _PATIENT if accelerator == "tcg" else ""),
        *("-name", node.name, "-m", f"{MEMORY_MIB}M", "-smp", str(CORES)),
    ]
    # The first one is what it boots from.
    for store in _stores(node):
        words += ["-blockdev", json.dumps(store), "-device", f"virtio-blk-pci,drive={store['node-name']}"]
    words += ["-device", "virtio-rng-pci"]
    for socket in (monitor(node), events(node)):
        words += ["-qmp", f"unix:{socket},server=on,wait=off"]
    for number, (link, tap) in enumerate(taps.items(), start=1):
        words += ["-device", f"pcie-root-port,id=slot-{link},chassis={number}"]
        words += ["-netdev", f"tap,id={backend(link)},fd={tap}"]
        words += ["-device", json.dumps(device(Port(node, link)))]
    return words


def _stores(node: LabNode) -> list[dict[str, object]]:
    """A machine's disks."""
    file = {"driver": "file", "filename": str(disk(node)), "discard": "unmap"}
    own: dict[str, object] = {"driver": "qcow2", "node-name": "disk", "discard": "unmap", "file": file}
    if node.index:
        return [own]
    file = {"driver": "file", "filename": str(artefacts.DISK)}
    return [own, {"driver": "raw", "node-name": artefacts.LABEL, "read-only": True, "file": file}]

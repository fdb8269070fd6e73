"""The lab's own files on a machine: names of its netdevs, RDMA devices on its rails, and what its head mounts."""

from __future__ import annotations

from pathlib import Path

from operations.paths import CANARY, folder_of
from tests.lab.cables import Port
from tests.lab.qemu import artefacts, command, patience
from tests.lab.settings import ARTEFACTS_ON_HEAD, LINKS, LabNode

#: A ConnectX-7's RDMA devices by its netdevs' names, as a Spark has them.
RDMA = {
    "rail0": "rocep1s0f0",
    "rail1": "roceP2p1s0f0",
    "rail2": "rocep1s0f1",
    "rail3": "roceP2p1s0f1",
}


def write(node: LabNode, *, is_emulated: bool) -> None:
    """Into `node.root`, from where they get onto its disk."""
    places = node.root / "etc/systemd"
    for folder in ("network", "system"):
        (places / folder).mkdir(parents=True, exist_ok=True)
    for link, device in LINKS.items():
        named = f"[Match]\nMACAddress={command.mac(Port(node, link))}\n\n[Link]\nName={device}\n"
        (places / f"network/70-lab-{link}.link").write_text(named)
    for link, device in RDMA.items():
        _write_rdma(places / "system", LINKS[link], device)
    if node.index == 0:
        mount = f"LABEL={artefacts.LABEL} {ARTEFACTS_ON_HEAD} ext4 ro,nofail 0 0\n"
        (node.root / "etc/fstab").write_text(mount)
    if is_emulated:
        _write_patience(node.root)


def _write_rdma(units: Path, netdev: str, device: str) -> None:
    """A unit that comes with the netdev, at a boot and whenever one appears; its device goes with the netdev by itself.

    Linux makes RDMA devices of any netdev in software (rdma_rxe).
    """
    name = f"sys-subsystem-net-devices-{netdev}.device"
    unit = f"[Unit]\nDescription=RDMA device {device} over {netdev}\nBindsTo={name}\nAfter={name}\n\n"
    unit += "[Service]\nType=oneshot\nRemainAfterExit=yes\n"
    unit += f"ExecStart=/usr/bin/rdma link add {device} type rxe netdev {netdev}\n"
    (units / f"lab-{device}.service").write_text(unit)
    wanted = units / f"{name}.wants"
    wanted.mkdir(exist_ok=True)
    link = wanted / f"lab-{device}.service"
    link.unlink(missing_ok=True)
    link.symlink_to(f"../lab-{device}.service")


def _write_patience(root: Path) -> None:
    """The canary takes its times from Tandem's files, which nobody else may change: Python reads this before them."""
    library = "usr/local/lib/tandem-lab"
    drop_in = root / f"etc/systemd/system/{CANARY}.service.d/emulated.conf"
    files = {
        root / library / "sitecustomize.py": patience.of_canary(folder_of(CANARY)),
        drop_in: f"[Service]\nEnvironment=PYTHONPATH=/{library}\n",
    }
    for file, content in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

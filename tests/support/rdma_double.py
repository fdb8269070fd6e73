"""A double of the kernel's RDMA devices: its folders, and what reads them there."""

from __future__ import annotations

from pathlib import Path

#: The longer name first: one begins as the other does.
_PLACES = {
    "/sys/class/infiniband_verbs": "verbs",
    "/sys/class/infiniband": "infiniband",
    "/dev/infiniband": "dev",
    "/sys/class/net": "net",
}


def reading(home: Path, program: str) -> str:
    """The text of a program, which looks for its devices in a folder."""
    for place, name in _PLACES.items():
        program = program.replace(place, str(home / name))
    return program


def add(
    home: Path,
    device: str,
    number: int,
    *,
    state: str = "4: ACTIVE",
    can_be_opened: bool = True,
    gid: str = "0000:0000:0000:0000:0000:ffff:c0a8:b10b",
) -> None:
    """A device with one port; `number`: of what a program opens; `gid`: of the rail's address 192.168.177.11."""
    port, verbs, dev = home / "infiniband" / device / "ports/1", home / f"verbs/uverbs{number}", home / "dev"
    for folder in (port, verbs, dev):
        folder.mkdir(parents=True, exist_ok=True)
    (port / "state").write_text(f"{state}\n")
    (port / "gids").mkdir(exist_ok=True)
    gids = ("fe80:0000:0000:0000:5054:00ff:fe5a:0101", ":".join(["0000"] * 8), gid)
    for index, each in enumerate(gids):
        (port / f"gids/{index}").write_text(f"{each}\n")
    (verbs / "ibdev").write_text(f"{device}\n")
    if can_be_opened:
        (dev / verbs.name).touch()


def carries(home: Path, rail: str, *, has_carrier: bool = True) -> None:
    """The netdev of a rail."""
    (home / "net" / rail).mkdir(parents=True, exist_ok=True)
    (home / "net" / rail / "carrier").write_text(f"{int(has_carrier)}\n")


def take(home: Path, device: str) -> None:
    """As the driver takes one away; what a container has in /dev stays."""
    for verbs in home.glob("verbs/*"):
        if (verbs / "ibdev").read_text().strip() == device:
            (verbs / "ibdev").unlink()
            verbs.rmdir()
    (home / "infiniband" / device).rename(home / f"taken-{device}")

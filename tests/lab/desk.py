"""What the lab stands for: how its rails are wired, what its nodes run. Chosen by `up`, kept for every other verb."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from tests.lab.settings import HOME, MACHINES, PLACES
from tests.lab.shell import LabError

#: How many nodes each wiring can join; none: any number.
WIRINGS = {"cable": 2, "ring": 3, "switch": None}
#: Debian's suite by the name that OS has for it.
SUITES = {"debian12": "bookworm", "debian13": "trixie"}
RENDERERS = ("networkd", "NetworkManager")
#: Debian's names of architectures, by the kernel's.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
#: This machine's.
OWN = ARCHITECTURES.get(os.uname().machine, os.uname().machine)

KEPT = HOME / "desk.json"


@dataclass(frozen=True)
class Desk:
    """`wiring`: of WIRINGS; `system`: of SUITES; `renderer`: netplan's, of RENDERERS; `arch`: Debian's word for it."""

    wiring: str = "cable"
    system: str = "debian12"
    renderer: str = "networkd"
    arch: str = OWN
    #: What the nodes are, of settings.PLACES.
    machines: str = "namespaces"

    @property
    def suite(self) -> str:
        return SUITES[self.system]

    @property
    def has_containerd_store(self) -> bool:
        """Whether Docker keeps its images in containerd, as a fresh Docker 29 does."""
        return self.system == "debian13"

    def has_nodes_of(self, other: Desk) -> bool:
        """Whether the nodes are of the same kind; the wiring may be another."""
        return replace(self, wiring=other.wiring) == other

    @property
    def kind(self) -> str:
        """What the nodes are, in words."""
        return f"{self.system} ({self.arch}) with {self.renderer}"

    def __str__(self) -> str:
        return f"{self.wiring}, {self.system}, {self.renderer}, {self.arch}"


def chosen(environment: Mapping[str, str], count: int) -> Desk:
    """What WIRING, OS, RENDERER, MACHINES and ARCH say for so many nodes; what none of them says is the default.

    Raises LabError.
    """
    wiring = _one_of(environment, "WIRING", tuple(WIRINGS), "cable" if count == 2 else "switch")
    wanted = WIRINGS[wiring]
    if wanted not in (None, count):
        raise LabError(
            f"WIRING={wiring} joins {wanted} nodes, and NODES is {count}: expected NODES={wanted}, or WIRING=switch"
        )
    machines = _one_of(environment, "MACHINES", tuple(PLACES), "namespaces")
    arch = _one_of(environment, "ARCH", tuple(ARCHITECTURES.values()), OWN)
    if machines == "namespaces" and arch != OWN:
        raise LabError(
            f"ARCH={arch} wants a kernel of its own, and this one is {OWN}: expected MACHINES=vm, or no ARCH"
        )
    default = "debian13" if machines == "vm" else Desk.system
    system = _one_of(environment, "OS", tuple(SUITES), default)
    if machines == "vm" and system != default:
        raise LabError(f"OS={system} is not made for virtual machines: expected OS={default} with MACHINES=vm")
    return Desk(wiring, system, _one_of(environment, "RENDERER", RENDERERS, Desk.renderer), arch, machines)


def wants_kept_disks(environment: Mapping[str, str], desk: Desk) -> bool:
    """Whether DISKS says that new nodes begin with kept disks; raises LabError."""
    if _one_of(environment, "DISKS", ("bare", "kept"), "bare") == "bare":
        return False
    if desk.machines != "vm":
        raise LabError("DISKS=kept is for virtual machines: expected MACHINES=vm, or no DISKS")
    return True


def remembered() -> Desk:
    """What the last `up` was told; raises LabError where it made nodes of another kind in the same place."""
    desk = Desk(**json.loads(KEPT.read_text())) if KEPT.exists() else Desk(machines=MACHINES)
    if desk.machines != MACHINES:
        raise LabError(
            f"{HOME} holds a lab with MACHINES={desk.machines}, not {MACHINES}: set MACHINES, or another TANDEM_LAB_DIR"
        )
    return desk


def remember(desk: Desk) -> None:
    """Keep it until the next `up` or `down`."""
    aside = KEPT.with_suffix(".part")
    aside.write_text(json.dumps(asdict(desk)))
    aside.rename(KEPT)


def cpu(arch: str) -> str:
    """The kernel's name of an architecture, by Debian's."""
    return next((name for name, each in ARCHITECTURES.items() if each == arch), arch)


def _one_of(environment: Mapping[str, str], name: str, known: tuple[str, ...], default: str) -> str:
    word = environment.get(name) or default
    if word not in known:
        raise LabError(f"{name} is `{word}`: expected {', '.join(known[:-1])} or {known[-1]}")
    return word

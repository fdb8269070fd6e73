"""Versions of what has to be alike on all nodes."""

from __future__ import annotations

import json
import platform
import re
from pathlib import Path

from operations.node.commands import docker_inspect, output, read
from operations.node.image import container
from operations.wire import Json
from operations.wire.doctor import Nccl, Software

DMI = Path("/sys/class/dmi/id")
#: Docker's own packages and Ubuntu's.
RUNS_DOCKER = ("docker.io", "docker-ce", "containerd", "containerd.io", "runc")
#: Seconds; a start of Python in a container.
PATIENCE_S = 60
#: Run in the engine's image, without a network and without the engine: which NCCL there is, and which would be loaded.
#: A loader takes LD_LIBRARY_PATH before a library's own RUNPATH, and that (torch's, to its wheel) before the system's.
NCCL_SCRIPT = r"""
import glob, importlib.metadata, json, mmap, os, re
def version(path):
    path = os.path.realpath(path)
    named = re.search(r"libnccl\.so\.(\d+\.\d+[\d.]*)$", path)
    if named:
        return named[1]
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        found = re.search(rb"NCCL version (\d+\.\d+\.\d+)", text)
        return found[1].decode() if found else ""
def first(folders):
    return next((p for f in folders for p in sorted(glob.glob(os.path.join(f, "libnccl.so.2*")))), "")
wheels = [d for d in importlib.metadata.distributions() if re.match(r"nvidia[-_]nccl", d.metadata["Name"] or "", re.I)]
named = os.environ.get("VLLM_NCCL_SO_PATH", "")
preload = next((p for p in os.environ.get("LD_PRELOAD", "").replace(":", " ").split() if "libnccl" in p), "")
path = first([f for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f])
wheel = first([str(d.locate_file("nvidia/nccl/lib")) for d in wheels])
system = first(["/usr/local/lib", "/usr/lib/aarch64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib", "/usr/lib64"])
chosen = next((p for p in (named, preload, path, wheel, system) if p and os.path.exists(p)), "")
told = {"wheel": wheels[0].version if wheels else "", "system": version(system) if system else "", "file": chosen}
told["version"] = (told["wheel"] if not chosen or chosen == wheel else "") or (version(chosen) if chosen else "")
told["size"] = os.path.getsize(os.path.realpath(chosen)) if chosen else 0
print(json.dumps(told))
"""


def main(image: str) -> Software:
    """See the keys; an empty text: not known. `nccl`: {} without an image, {"error": ...} when it can't be asked."""
    docker = json.loads(output("docker", "info", "--format", "{{json .}}") or "{}")
    system = dict(re.findall(r'^(\w+)="?(.*?)"?$', read(Path("/etc/os-release")), re.MULTILINE))
    driver = re.search(r"Kernel Module.*?(\d+\.[\d.]+)", read(Path("/proc/driver/nvidia/version")))
    return {
        "system": system.get("PRETTY_NAME", ""),
        "kernel": platform.release(),
        "driver": driver[1] if driver else "",
        "bios": read(DMI / "bios_version"),
        "product": read(DMI / "product_name"),
        "docker": docker.get("ServerVersion", ""),
        "store": store(docker),
        "nightly": nightly(),
        "nccl": nccl(image),
    }


def nightly() -> list[str]:
    """Packages that restart Docker when they are renewed, and that unattended-upgrades may renew: those that are here
    and not held. None where it is off.
    """
    if '"1"' not in output("apt-config", "dump", "APT::Periodic::Unattended-Upgrade"):
        return []
    here = {
        name
        for line in output("dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Package}\n").splitlines()
        if (name := line.removeprefix("installed ")) in RUNS_DOCKER
    }
    return sorted(here - set(output("apt-mark", "showhold").split()))


def store(info: Json) -> str:
    """Where Docker keeps images: `overlay2`, or containerd's store under it."""
    kinds = [value for key, value in info.get("DriverStatus") or [] if key == "driver-type"]
    return (
        f"{info.get('Driver', '')} (containerd)"
        if any("containerd" in kind for kind in kinds)
        else info.get("Driver", "")
    )


def nccl(image: str) -> Nccl:
    """`wheel`, `system`: versions that the image has; `version`, `file`, `size`: of the one that is loaded."""
    if not image or not docker_inspect("image", image):
        return {}
    try:
        said = container.run(image, NCCL_SCRIPT, PATIENCE_S).stdout
        found: Nccl = json.loads(said.splitlines()[-1])
    except (OSError, ValueError, IndexError) as error:
        return {"error": str(error)}
    return found

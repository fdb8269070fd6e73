"""What a node is and has: all that the plan and the preflight need, in one round trip."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
from pathlib import Path
from typing import Any

from operations.node import archive, model_files
from operations.node.commands import docker_inspect, output

NET = Path("/sys/class/net")
#: A multi-port NIC's names end in port and port name, `f0np0`: the ConnectX-7 of a GB10 has them, its 10 GbE has not.
PORT_NAME = re.compile(r"^en[pP]\d+(p\d+)?s\d+f\d+np\d+$")


def main(
    login: str,
    paths: dict[str, str],
    images: list[str],
    archives: dict[str, str],
    model: dict[str, str],
    token_file: str,
) -> dict[str, Any]:
    """See the keys. `paths`: name -> path whose disk is asked; `archives`: image -> path; ~ is the login's home."""
    home = os.path.expanduser(f"~{login}")
    info = json.loads(output("docker", "info", "--format", "{{json .}}") or "{}")
    paths = {name: home + path[1:] if path.startswith("~/") else path for name, path in paths.items()}
    paths["docker"] = info.get("DockerRootDir") or "/var/lib/docker"
    present = [name for name in images if docker_inspect("image", name)]
    return {
        "sudo": True,
        "home": home,
        "hostname": platform.node(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "docker": {"version": info.get("ServerVersion", ""), "runtimes": sorted(info.get("Runtimes") or {})},
        "nvidia": _nvidia(),
        "cdi": any(Path(folder).glob("nvidia*") for folder in ("/etc/cdi", "/var/run/cdi")),
        "memory": _memory(),
        "disks": {name: _free(path) for name, path in paths.items()},
        "ports": listeners(),
        "links": links(),
        "netplan": netplan(),
        "images": present,
        "archives": {
            image: archive.problem(path, image_name, platform.machine())
            for image, (image_name, path) in _pairs(archives).items()
            if image not in present
        },
        "model": _model(paths["store"], model),
        "token": _token_problem(token_file),
        "engine_active": output("systemctl", "is-active", "tandem-engine").strip() == "active",
    }


def _pairs(archives: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {local: (pair[0], pair[1]) for local, pair in archives.items()}


def links() -> dict[str, dict[str, Any]]:
    """Interfaces that can be rails, by name: driven by mlx5, or named like a port of it where no driver shows."""
    addresses = {link["ifname"]: link for link in json.loads(output("ip", "-j", "addr") or "[]")}
    found = {}
    for folder in sorted(NET.iterdir()):
        driver = os.path.basename(os.path.realpath(folder / "device/driver")) if (folder / "device").exists() else ""
        if driver not in ("mlx5_core", "") or not PORT_NAME.match(folder.name):
            continue
        rdma = sorted(path.name for path in (folder / "device/infiniband").glob("*"))
        link = addresses.get(folder.name, {})
        found[folder.name] = {
            "carrier": _read(folder / "carrier") == "1",
            "up": "UP" in link.get("flags", []),
            "mtu": link.get("mtu", 0),
            "addresses": [f"{a['local']}/{a['prefixlen']}" for a in link.get("addr_info", []) if a["family"] == "inet"],
            "rdma": rdma[0] if rdma else None,
        }
    return found


def listeners() -> list[dict[str, Any]]:
    """Listening TCP ports: {port, address, process, ours}; ours: a process of a container of Tandem's."""
    containers = output("docker", "ps", "--no-trunc", "--filter", "name=^tandem-", "--format", "{{.ID}}").split()
    found = []
    for line in output("ss", "-Htlnp").splitlines():
        fields = line.split()
        address, _, port = fields[3].rpartition(":")
        holder = re.search(r'\(\("([^"]+)",pid=(\d+)', line)
        process, pid = (holder.group(1), holder.group(2)) if holder else ("", "")
        cgroup = _read(Path(f"/proc/{pid}/cgroup")) if pid else ""
        ours = any(container in cgroup for container in containers)
        found.append({"port": int(port), "address": address, "process": process, "pid": pid, "ours": ours})
    return found


def netplan() -> dict[str, str]:
    """Netplan's files and their text, to see who else sets a rail."""
    return {str(file): _read(file) for file in sorted(Path("/etc/netplan").glob("*.yaml"))}


def _nvidia() -> str:
    """The driver's version; empty: no driver is loaded."""
    version = re.search(r"Kernel Module.*?(\d+\.[\d.]+)", _read(Path("/proc/driver/nvidia/version")))
    return version.group(1) if version else ""


def _memory() -> dict[str, int]:
    text = _read(Path("/proc/meminfo"))
    found = dict(re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE))
    return {"total_mib": int(found["MemTotal"]) // 1024, "available_mib": int(found["MemAvailable"]) // 1024}


def _free(path: str) -> dict[str, Any]:
    """Free bytes where `path` is, or where it would be made."""
    place = Path(path)
    while not place.exists():
        place = place.parent
    return {"path": path, "free": shutil.disk_usage(place).free, "device": os.stat(place).st_dev}


def _model(store: str, model: dict[str, str]) -> dict[str, Any]:
    """Whether the revision is in the store, and when it is not, what is wrong with the folder that it shall come from."""
    state = model_files.main(store, model["folder"], model["revision"])
    answer = {"present": state["present"] and not state["problems"], "problems": state["problems"], "source": []}
    if model["source"] and not answer["present"]:
        snapshot = source_snapshot(model["source"], model["folder"], model["revision"])
        if snapshot is None:
            answer["source"] = [f"{model['source']} has neither {model['folder']} at {model['revision']} nor a config.json"]
        else:
            answer["source"] = model_files.structure_problems(snapshot)
    return answer


def source_snapshot(source: str, folder: str, revision: str) -> Path | None:
    """Where the model's files are in a folder: an HF cache, or the files themselves."""
    cached = Path(source) / folder / "snapshots" / revision
    if cached.is_dir():
        return cached
    return Path(source) if (Path(source) / "config.json").exists() else None


def _token_problem(path: str) -> str:
    if not path:
        return ""
    if not Path(path).is_file():
        return f"{path} is not there"
    mode = os.stat(path).st_mode & 0o777
    return f"{path} has mode {mode:o}: others can read the token" if mode & 0o077 else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""

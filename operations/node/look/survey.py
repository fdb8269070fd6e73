"""What a node is and has: all that the plan and the preflight need, in one round trip."""

from __future__ import annotations

import json
import os
import platform
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from operations.node import lock
from operations.node.commands import output, own_containers, read
from operations.node.engine.probe import ask
from operations.node.image import archive, gpu_trial, packages, vocabulary
from operations.node.login import expand, home
from operations.node.look.look import main as main_look
from operations.node.machine import on_gpu, runtimes
from operations.node.machine.gpu import clocks as gpu_clocks
from operations.node.model import facts, proof
from operations.node.model.folders import source_snapshot
from operations.node.monitoring import monitors
from operations.node.network import claimed, firewall, links, netplan, owner_firewall
from operations.node.secret import modes
from operations.node.unit import services
from operations.paths import ETC, SLICE
from operations.wire import Json
from operations.wire.look import Free, Listener, LookArguments, Memory, Survey
from operations.wire.model import Hub, Layout, ModelSource, ModelState, Place
from operations.wire.unit import Receiver


def main(
    look: LookArguments,
    references: dict[str, str],
    sources: dict[str, ModelSource],
    token_file: str,
    hub: Hub,
    engines: Sequence[str],
    served: Mapping[str, Place],
    address: str = "",
    alarms: Sequence[Receiver] = (),
    clocks: bool = False,
    gpu: bool = False,
    inlets: Json | None = None,
) -> Survey:
    """See the keys. `look`: arguments of look.main; `references`: local image name -> its name in the archive;
    `sources`: of files that come from a folder, by their keys in `look`, that folder, and whether they may lie in it
    `plain`; `hub`: endpoint, and `unpinned`: repo -> folder of models whose revision is not known yet, or nothing;
    `engines`: images whose vocabulary is wanted; `served`: places of the served models, by their keys; `address`: one
    that is to be taken, or nothing; `alarms`: kind, to, host and port of those whom alarms are sent to; `clocks`: are
    the GPU's wanted; `gpu`: whether an engine here needs one; `inlets`: what owner_firewall.tries takes beside links
    and office, or nothing.
    """
    came_in = (os.environ.get("SSH_CONNECTION", "").split() + [""] * 4)[:4]
    management = links.ipv4_beside(came_in[2])
    office = links.office(management)
    with ThreadPoolExecutor() as pool:
        docker = pool.submit(lambda: json.loads(output("docker", "info", "--format", "{{json .}}") or "{}"))
        ports = pool.submit(listeners)
        software = pool.submit(runtimes.main)
        can_filter = pool.submit(firewall.able)
        heard = pool.submit(monitors.silent, alarms)
        taken = pool.submit(lambda: on_gpu.main([SLICE, *own_containers()])) if gpu else None
        claim = pool.submit(claimed.main, address, office["device"]) if address and office else None
        clocked = pool.submit(gpu_clocks) if clocks else None
        state = main_look(**look)
        wanted = owner_firewall.tries(state["links"], office, **inlets) if inlets else []
        shut = pool.submit(owner_firewall.shut, wanted)
        info = docker.result()
        faults = taken.result() if taken else []
        store = Path(expand(look["store"]))
        return {
            "sudo": True,
            "home": home(),
            # The address that the deploy's ssh came in on: a name would not do to listen on.
            "management": management,
            "came_in_by": links.device_of(came_in[2]),
            "office": office,
            "claimed": claim.result() if claim else None,
            "deaf": heard.result(),
            "ssh_port": int(came_in[3] or 22),
            "machine": platform.machine(),
            "kernel": platform.release(),
            "openssl": shutil.which("openssl") is not None,
            "shut": shut.result(),
            "firewall": {**can_filter.result(), "driver": info.get("CgroupDriver", "")},
            "docker": {
                "version": info.get("ServerVersion", ""),
                "runtimes": sorted(info.get("Runtimes") or {}),
                "buildx": any(each.get("Name") == "buildx" for each in _plugins(info)),
            },
            "software": software.result(),
            "nvidia": _nvidia(),
            "clocks": clocked.result() if clocked else None,
            "cdi": gpu_trial.by_cdi(info, [read(run) for run in Path(ETC).glob("engine*/run.sh")]),
            "gpu": [[each.problem, each.remedy] for each in faults if not each.stranger],
            "strangers": [[each.problem, each.remedy] for each in faults if each.stranger],
            "saw_gpu": {local: gpu_trial.seen(each["image"].get("id", "")) for local, each in state["images"].items()}
            if gpu
            else {},
            "memory": _memory() | {"ollama_mib": _ollama_mib()},
            "disks": {
                "store": _free(str(store)),
                "docker": _free(info.get("DockerRootDir") or "/var/lib/docker"),
                "files": _free(ETC),
                "metrics": _free(str(monitors.KEPT)) | {"kept": monitors.kept()},
            },
            "ports": ports.result(),
            "netplan": netplan.entries(),
            "archives": {
                local: archive.problem(path, references[local], platform.machine())
                for local, path in look["archives"].items()
                if path and not state["images"][local]["image"]
            },
            "source": _source_problems(sources, look["models"], state["models"]),
            "token": modes.token_problem(token_file, os.stat(home()).st_uid),
            "unwritable": _unwritable(store),
            "foreign": _foreign(store, [model["folder"] for model in look["models"].values()]),
            "lock": lock.generation(),
            "vocabulary": {name: vocabulary.kept(state["images"][name]["image"].get("id", "")) for name in engines},
            "inside": {local: packages.versions(each["image"].get("id", "")) for local, each in state["images"].items()}
            if engines
            else {},
            "mtp": {
                key: facts.has_mtp(store / each["folder"] / "snapshots" / each["revision"])
                for key, each in served.items()
            },
            "layout": {key: _layout(store, each, sources.get(key)) for key, each in served.items()},
            "main": {
                repo: facts.main_commit(store, folder, hub["endpoint"], repo, token_file)
                for repo, folder in hub.get("unpinned", {}).items()
            },
            "state": state,
        }


def listeners() -> list[Listener]:
    """Listening TCP ports: {port, address, process, ours}; ours: a process of a container of Tandem's, or one of its
    units.
    """
    groups = (*own_containers(), *(f"/{unit}.service" for unit in services.installed()))
    found = list[Listener]()
    for line in output("ss", "-Htlnp").splitlines():
        fields = line.split()
        address, _, port = fields[3].rpartition(":")
        holder = re.search(r'\(\("([^"]+)",pid=(\d+)', line)
        process, pid = (holder.group(1), holder.group(2)) if holder else ("", "")
        cgroup = read(Path(f"/proc/{pid}/cgroup")) if pid else ""
        ours = any(group in cgroup for group in groups)
        found.append({"port": int(port), "address": address, "process": process, "pid": pid, "ours": ours})
    return found


def _nvidia() -> str:
    """The driver's version; empty: no driver is loaded."""
    version = re.search(r"Kernel Module.*?(\d+\.[\d.]+)", read(Path("/proc/driver/nvidia/version")))
    return version.group(1) if version else ""


def _plugins(info: Json) -> list[Json]:
    """Docker's client and what is beside it; none: it does not tell."""
    return (info.get("ClientInfo") or {}).get("Plugins") or []


def _memory() -> Memory:
    text = read(Path("/proc/meminfo"))
    found = dict(re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE))
    return {
        "total_mib": int(found["MemTotal"]) // 1024,
        "available_mib": int(found["MemAvailable"]) // 1024,
        "swapped_kib": int(found.get("SwapTotal", 0)) - int(found.get("SwapFree", 0)),
        "min_free_kib": int(read(Path("/proc/sys/vm/min_free_kbytes")) or 0),
    }


def _ollama_mib() -> int:
    """What Ollama has loaded and an engine's start unloads; 0: no Ollama."""
    try:
        loaded = ask("http://127.0.0.1:11434/api/ps", None, "", 2).get("models", [])
        return int(sum(each.get("size", 0) for each in loaded)) >> 20
    except (OSError, ValueError, TypeError, AttributeError):
        return 0


def _free(path: str) -> Free:
    """The file system where `path` is, or where it would be made."""
    place = Path(path)
    while not place.exists():
        place = place.parent
    state = os.statvfs(place)
    return {
        "path": path,
        "free": state.f_bavail * state.f_frsize,
        "device": os.stat(place).st_dev,
        "read_only": bool(state.f_flag & os.ST_RDONLY),
    }


def _layout(store: Path, model: Place, source: ModelSource | None) -> Layout:
    """What a served model's configuration says of its layers, in the store or else where it shall come from."""
    places = [store / model["folder"] / "snapshots" / model["revision"]]
    there = source_snapshot(source["source"], model["folder"], model["revision"], source["plain"]) if source else None
    return facts.layout([*places, *([there] if there else [])])


def _source_problems(
    sources: dict[str, ModelSource], models: Mapping[str, Place], states: dict[str, ModelState]
) -> list[str]:
    """What is wrong with the folders that files shall come from; nothing when the store has them."""
    problems = []
    for key, model in models.items():
        if key not in sources or (states[key]["present"] and not states[key]["problems"]):
            continue
        source, plain = sources[key]["source"], sources[key]["plain"]
        snapshot = source_snapshot(source, model["folder"], model["revision"], plain=plain)
        if snapshot is None:
            missing = f"{model['folder']} at {model['revision']}"
            begins = "a GGUF file" if model["kind"] == "gguf" else "a config.json"
            problems.append(f"{source} has {f'neither {missing} nor {begins}' if plain else f'no {missing}'}")
        else:
            problems += [each.text for each in proof.structure_problems(snapshot, model["kind"], only=model["only"])]
    return problems


def _unwritable(store: Path) -> str:
    """The folder in which the login can't make the store, nor what lies above it; empty: it can, or the store is there.

    The store is made by the login: one of root's would break each later download of the owner's.
    """
    place = next(each for each in (store, *store.parents) if each.exists())
    if place == store:
        return ""
    login = pwd.getpwuid(os.stat(home()).st_uid).pw_name
    asked = subprocess.run(["runuser", "-u", login, "--", "test", "-w", str(place)], capture_output=True, check=False)
    return str(place) if asked.returncode else ""


def _foreign(store: Path, folders: list[str]) -> list[str]:
    """Parts of a model store in the login's home that are not its own: Docker makes them for root, and the owner's own
    tools can't write there.
    """
    login = os.stat(home()).st_uid
    if not store.is_relative_to(home()):
        return []
    own = [store / folder for folder in folders]
    places = [place for place in (store, store / ".locks", *own) if place.exists()]
    return [str(place) for place in places if place.stat().st_uid != login]

"""What a bench writes down of this node: how it is now, what its engine has counted, and what is deployed here.

What the node can't say is None, and never 0.
"""

from __future__ import annotations

import ctypes
import platform
import re
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from operations.node.commands import docker_inspect, output, read
from operations.node.door import endpoint
from operations.node.image.content_id import content_id
from operations.node.machine import gpu, heat
from operations.node.unit import served, services
from operations.paths import ENGINE, PROXY
from operations.wire.bench import BenchFacts, Deployment, NodeState
from operations.wire.unit import UnitState

#: A counter of ours -> the engine's, from the newest name to the oldest, without the `_total` that prometheus_client
#: puts behind counters (operations/plan/engines).
Counters = Mapping[str, Sequence[str]]
#: Counters without which the others say nothing.
NEEDED = ("prompt_tokens", "answer_tokens")
#: Seconds for an engine to say its counters: it may be busy.
METRICS_S = 10


def main(url: str = "", counters: Counters | None = None, deployment: bool = False) -> BenchFacts:
    """`state`: bench/records.py's NodeState; `counters`: of the engine under `url`, None where it says none. With
    `deployment` also what lies here: `units`, `endpoint`, `served` (the plan that served last), `versions`.
    """
    with ThreadPoolExecutor() as pool:
        state, counted = pool.submit(_state), pool.submit(_counters, url, counters or {})
        found: BenchFacts = {"state": state.result(), "counters": counted.result()}
    return {**found, **_deployment()} if deployment else found


def _state() -> NodeState:
    gpus = gpu.state()
    return {
        "clock_mhz": _most([each["sm_mhz"] for each in gpus]),
        # The GPU's; of a node without one the hottest place that tells.
        "temperature_c": _most(
            [each["celsius"] for each in gpus] if gpus else [zone["celsius"] for zone in heat.main()["zones"]]
        ),
        "power_w": _sum([each["power_w"] for each in gpus]),
        "energy_j": _energy_j(),
        "available_gib": _available_gib(read(Path("/proc/meminfo"))),
    }


def _most(values: list[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _sum(values: list[float | None]) -> float | None:
    """None where one is missing: the others' would look like the whole."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _available_gib(meminfo: str) -> float | None:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found.group(1)) / 2**20 if found else None


def _energy_j() -> float | None:
    """Joules of all GPUs since the driver was loaded, by NVML: nvidia-smi does not print them in every release."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    if nvml.nvmlInit_v2() != 0:
        return None
    try:
        count = ctypes.c_uint()
        if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0 or not count.value:
            return None
        millijoules = 0
        for index in range(count.value):
            device, energy = ctypes.c_void_p(), ctypes.c_ulonglong()
            if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) != 0:
                return None
            if nvml.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(energy)) != 0:
                return None
            millijoules += energy.value
        return millijoules / 1000
    finally:
        nvml.nvmlShutdown()


def _counters(url: str, counters: Counters) -> dict[str, int] | None:
    if not url:
        return None
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=METRICS_S) as response:
            return parse(response.read().decode(errors="replace"), counters)
    except (OSError, ValueError):
        return None


def parse(metrics: str, counters: Counters) -> dict[str, int] | None:
    """Counters that are there, summed over their labels; None without those that all others need."""
    said = sums(metrics)
    found = {
        ours: int(next(said[name] for name in names if name in said))
        for ours, names in counters.items()
        if any(name in said for name in names)
    }
    return found if all(name in found for name in NEEDED) else None


def sums(metrics: str) -> dict[str, float]:
    """Each value of Prometheus' text by its name without `_total`, summed over its labels."""
    found: dict[str, float] = {}
    for name, value in re.findall(r"^([a-z:_]+)(?:\{[^\n]*\})? ([0-9.e+-]+)", metrics, re.MULTILINE):
        found[name.removesuffix("_total")] = found.get(name.removesuffix("_total"), 0.0) + float(value)
    return found


def _deployment() -> Deployment:
    units = services.main([ENGINE, PROXY])["units"]
    plans = served.plans_of(read(served.PLACE))
    return {
        "units": units,
        "endpoint": endpoint.main(),
        "served": plans[-1] if plans else {},
        "versions": _versions(units),
    }


def _versions(units: dict[str, UnitState]) -> dict[str, str]:
    """As text by name; what is not known is left out."""
    images = {unit: units[unit].get("image", "") for unit in (ENGINE, PROXY)}
    found = {image["Id"]: content_id(image) for image in docker_inspect("image", *filter(None, images.values()))}
    told = {
        "engine image": units[ENGINE].get("image_name", ""),
        "engine image content": found.get(images[ENGINE], ""),
        "proxy image": units[PROXY].get("image_name", ""),
        "proxy image content": found.get(images[PROXY], ""),
        "driver": next((each["driver"] for each in gpu.state()), ""),
        "gpu": next((each["name"] for each in gpu.state()), ""),
        "kernel": platform.release(),
        "docker": output("docker", "version", "--format", "{{.Server.Version}}").strip(),
    }
    return {name: value for name, value in told.items() if value}

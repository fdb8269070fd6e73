"""The GPU in nvidia-smi's words."""

from __future__ import annotations

import re
from typing import cast

from operations.node.commands import output
from operations.node.machine import on_gpu
from operations.wire.doctor import Gpu, GpuProcess, Gpus
from operations.wire.look import Clocks

#: What is asked, and under which name it is told. A GB10 says [N/A] to memory and to the power limit: not asked.
FIELDS = {
    "name": "name",
    "driver_version": "driver",
    "pstate": "pstate",
    "utilization.gpu": "utilization",
    "clocks.sm": "sm_mhz",
    "power.draw": "power_w",
    "temperature.gpu": "celsius",
    "clocks_event_reasons.active": "reasons",
}
NUMBERS = ("utilization", "sm_mhz", "power_w", "celsius")
#: Counters of `nvidia-smi -q -d PERFORMANCE`, in microseconds since the driver was loaded.
COUNTERS = ("SW Thermal Slowdown", "HW Thermal Slowdown", "HW Power Braking")


def main() -> Gpus:
    """`gpus`: what `state` says; `counters`: counter -> seconds, summed over the GPUs."""
    gpus = state()
    return {"gpus": gpus, "counters": counters(output("nvidia-smi", "-q", "-d", "PERFORMANCE")) if gpus else {}}


def state() -> list[Gpu]:
    """One entry for each GPU; none: no nvidia-smi, or no GPU that it sees. A number that is not told is None."""
    query = f"--query-gpu={','.join(FIELDS)}"
    return parse(output("nvidia-smi", query, "--format=csv,noheader,nounits", timeout_s=10))


def parse(text: str) -> list[Gpu]:
    """Lines of nvidia-smi's CSV."""
    found = list[Gpu]()
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if len(values) == len(FIELDS):
            told = dict(zip(FIELDS.values(), values, strict=True))
            reasons = int(told["reasons"], 16) if told["reasons"].startswith("0x") else 0
            numbers = {name: _number(told[name]) for name in NUMBERS}
            found.append(cast("Gpu", {**told, **numbers, "reasons": reasons}))
    return found


def counters(text: str) -> dict[str, float]:
    """How long the GPU was held back, by reason, in seconds."""
    return {
        name: sum(int(us) for us in re.findall(rf"^\s*{name}\s*: (\d+) us", text, re.MULTILINE)) / 1e6
        for name in COUNTERS
    }


def clocks() -> Clocks:
    """Between which clocks a cap has to lie (`nvidia-smi --lock-gpu-clocks`)."""
    highest = output("nvidia-smi", "--query-gpu=clocks.max.graphics", "--format=csv,noheader,nounits", timeout_s=10)
    every = output("nvidia-smi", "--query-supported-clocks=graphics", "--format=csv,noheader,nounits", timeout_s=10)
    most = [_number(line) for line in highest.splitlines()]
    supported = [mhz for line in every.splitlines() if (mhz := _number(line))]
    told = [mhz for mhz in most if mhz]
    return {
        "gpus": len(most),
        "lowest_mhz": min(supported, default=None),
        "highest_mhz": min(told, default=None) or max(supported, default=None),
    }


def processes() -> list[GpuProcess]:
    """Who computes on the GPU: {pid, process, mib}; mib is None where it is not told."""
    said = output("nvidia-smi", on_gpu.QUERY, "--format=csv,noheader,nounits", timeout_s=10)
    return [{"pid": pid, "process": name, "mib": mib} for pid, name, mib in on_gpu.processes(said)]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

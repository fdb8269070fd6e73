"""The GPU in nvidia-smi's words."""

from __future__ import annotations

import re
from typing import Any

from operations.node.commands import output

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


def main() -> dict[str, Any]:
    """`gpus`: what `state` says; `counters`: counter -> seconds, summed over the GPUs."""
    gpus = state()
    return {"gpus": gpus, "counters": counters(output("nvidia-smi", "-q", "-d", "PERFORMANCE")) if gpus else {}}


def state() -> list[dict[str, Any]]:
    """One entry for each GPU; none: no nvidia-smi, or no GPU that it sees. A number that is not told is None."""
    query = f"--query-gpu={','.join(FIELDS)}"
    return parse(output("nvidia-smi", query, "--format=csv,noheader,nounits", timeout_s=10))


def parse(text: str) -> list[dict[str, Any]]:
    """Lines of nvidia-smi's CSV."""
    found = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if len(values) == len(FIELDS):
            told: dict[str, Any] = dict(zip(FIELDS.values(), values, strict=True))
            told |= {name: _number(told[name]) for name in NUMBERS}
            told["reasons"] = int(told["reasons"], 16) if told["reasons"].startswith("0x") else 0
            found.append(told)
    return found


def counters(text: str) -> dict[str, float]:
    """How long the GPU was held back, by reason, in seconds."""
    return {
        name: sum(int(us) for us in re.findall(rf"^\s*{name}\s*: (\d+) us", text, re.MULTILINE)) / 1e6
        for name in COUNTERS
    }


def processes() -> list[dict[str, Any]]:
    """Who computes on the GPU: {pid, process, mib}; mib is None where it is not told."""
    query = "--query-compute-apps=pid,process_name,used_memory"
    found = []
    for line in output("nvidia-smi", query, "--format=csv,noheader,nounits", timeout_s=10).splitlines():
        pid, _, rest = line.partition(",")
        name, _, mib = rest.rpartition(",")
        if pid.strip().isdigit():
            found.append({"pid": pid.strip(), "process": name.strip(), "mib": _number(mib.strip())})
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

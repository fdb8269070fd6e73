"""The node's clock, and who keeps it."""

from __future__ import annotations

import time

from operations.node.commands import output
from operations.wire.doctor import ClockService, Now

#: Programs that keep a clock; a system has one of them.
SERVICES = ("systemd-timesyncd", "chrony", "chronyd", "ntpsec", "ntp", "ntpd", "openntpd")
_PROPERTIES = "Id,LoadState,ActiveState,UnitFileState,ConditionResult,InactiveEnterTimestampMonotonic"


def main() -> Now:
    """`now`: seconds since the epoch, at once."""
    return {"now": time.time()}


def service() -> ClockService:
    """`running`: who keeps the clock; `stopped`: who could and does not; `spared`: whom a condition of the unit keeps
    from it (a container has its host's clock); `synchronized`: the kernel's word, None when nobody could be asked.
    """
    argv = ["systemctl", "show", *(f"{name}.service" for name in SERVICES), f"--property={_PROPERTIES}"]
    told: dict[str, list[str]] = {"running": [], "stopped": [], "spared": []}
    for block in output(*argv).strip().split("\n\n"):
        unit = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        name = unit.get("Id", "").removesuffix(".service")
        if unit.get("LoadState") != "loaded":
            continue
        kind = "running" if unit.get("ActiveState") in ("active", "activating", "reloading") else _why_not(unit)
        # An alias (chronyd is chrony) is told under its real name.
        told[kind] += [] if name in told[kind] else [name]
    synchronized = output("timedatectl", "show", "--property=NTPSynchronized", "--value").strip()
    return {
        "running": told["running"],
        "stopped": told["stopped"],
        "spared": told["spared"],
        "synchronized": synchronized == "yes" if synchronized else None,
    }


def _why_not(unit: dict[str, str]) -> str:
    # A unit that was never tried has no result of its condition that means anything.
    tried = unit.get("ConditionResult") == "no" and unit.get("UnitFileState") in ("enabled", "static")
    return "spared" if tried and unit.get("InactiveEnterTimestampMonotonic") == "0" else "stopped"

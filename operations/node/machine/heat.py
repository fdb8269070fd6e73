"""How warm the node is."""

from __future__ import annotations

from pathlib import Path

from operations.node.commands import read
from operations.wire.doctor import Heat, Zone

ZONES = Path("/sys/class/thermal")


def main() -> Heat:
    """`zones`: [{name, celsius}] of every thermal zone that tells."""
    found = list[Zone]()
    for zone in sorted(ZONES.glob("thermal_zone*")):
        millidegrees = read(zone / "temp")
        if millidegrees.lstrip("-").isdigit():
            found.append({"name": read(zone / "type") or zone.name, "celsius": int(millidegrees) / 1000})
    return {"zones": found}

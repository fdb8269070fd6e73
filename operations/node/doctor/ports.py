"""The ports that rails can be on: speed, PCIe link, firmware, errors."""

from __future__ import annotations

import os
import re
from pathlib import Path

from operations.node.commands import output, read
from operations.node.network import links
from operations.wire.doctor import PcieLink, Port


def main() -> dict[str, Port]:
    """By netdev: `mbit_s` (None: no carrier, or a virtual one, which says anything), `pcie` and `pcie_max` as
    {gt_s, width} (None: not on PCIe), `firmware`, `driver`, `errors` (received frames that were broken).
    """
    return {device: _port(links.NET / device) for device in links.links()}


def _port(folder: Path) -> Port:
    has_hardware = (folder / "device").exists()
    speed = read(folder / "speed")
    told = dict(re.findall(r"^(driver|firmware-version): (.+)$", output("ethtool", "-i", folder.name), re.MULTILINE))
    device = Path(os.path.realpath(folder / "device"))
    return {
        "mbit_s": int(speed) if has_hardware and speed.isdigit() and int(speed) > 0 else None,
        "pcie": _link(device, "current") if has_hardware else None,
        "pcie_max": _least(_link(device, "max"), _link(device.parent, "max")) if has_hardware else None,
        "firmware": told.get("firmware-version", ""),
        "driver": told.get("driver", ""),
        "errors": int(read(folder / "statistics/rx_crc_errors") or 0),
    }


def _link(device: Path, which: str) -> PcieLink | None:
    speed = re.match(r"[\d.]+", read(device / f"{which}_link_speed"))
    width = read(device / f"{which}_link_width")
    return {"gt_s": float(speed[0]), "width": int(width)} if speed and width.isdigit() else None


def _least(own: PcieLink | None, slot: PcieLink | None) -> PcieLink | None:
    """What both ends of a PCIe link can: a chip with 16 lanes sits on four in a GB10."""
    if own is None or slot is None:
        return own
    return {"gt_s": min(own["gt_s"], slot["gt_s"]), "width": min(own["width"], slot["width"])}

"""Disks: how full, how healthy, how fast."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from operations.node.commands import docker_root, output
from operations.node.doctor import reading
from operations.paths import ETC, VAR
from operations.wire import Json
from operations.wire.doctor import Disk, DiskHealth, Health, Room

#: Where Tandem and Docker write, besides the model store.
PLACES = ("/", VAR, ETC)


def main(store: str) -> Disk:
    """`room`: one entry a file system; `health`: one an NVMe, None without a tool to ask; `read`: reading.main's."""
    return {"room": room([*PLACES, str(docker_root()), store]), "health": health(), "read": reading.main(Path(store))}


def room(places: list[str]) -> list[Room]:
    """{path, gib, free_gib, inodes_free, read_only}: by file system, under the first path that lies on it; inodes as a
    share.
    """
    found: dict[int, Room] = {}
    for place in (Path(each) for each in places):
        if place.exists() and (device := os.stat(place).st_dev) not in found:
            state = os.statvfs(place)
            found[device] = {
                "path": str(place),
                "gib": state.f_blocks * state.f_frsize / (1 << 30),
                # What a user that is not root gets: the rest is kept back for repairs.
                "free_gib": state.f_bavail * state.f_frsize / (1 << 30),
                "inodes_free": state.f_favail / state.f_files if state.f_files else 1.0,
                "read_only": bool(state.f_flag & os.ST_RDONLY),
            }
    return list(found.values())


def health() -> list[DiskHealth] | None:
    """{disk, warning, used_percent, spare_percent, media_errors, celsius} of each NVMe; None: no tool to ask with."""
    disks = sorted(path.name for path in Path("/sys/block").glob("nvme*n*"))
    if not disks:
        return []
    if shutil.which("nvme"):
        return [
            {**told, "disk": disk}
            for disk in disks
            if (told := smart_log(output("nvme", "smart-log", "-o", "json", f"/dev/{disk}")))
        ]
    if shutil.which("smartctl"):
        return [
            {**told, "disk": disk}
            for disk in disks
            if (told := smartctl(output("smartctl", "-j", "-A", f"/dev/{disk}")))
        ]
    return None


def smart_log(text: str) -> Health:
    """nvme-cli's words; kelvin."""
    told = _json(text)
    if "critical_warning" not in told:
        return {}
    warning = told["critical_warning"]
    used: Any = told.get("percent_used", told.get("percentage_used", 0))
    return {
        "warning": int(warning.get("value", 0) if isinstance(warning, dict) else warning),
        "used_percent": int(used),
        "spare_percent": int(told.get("avail_spare", 100)),
        "media_errors": int(told.get("media_errors", 0)),
        "celsius": int(told.get("temperature", 273)) - 273,
    }


def smartctl(text: str) -> Health:
    """smartmontools' words; degrees Celsius."""
    told: Json = _json(text).get("nvme_smart_health_information_log", {})
    if not told:
        return {}
    return {
        "warning": int(told.get("critical_warning", 0)),
        "used_percent": int(told.get("percentage_used", 0)),
        "spare_percent": int(told.get("available_spare", 100)),
        "media_errors": int(told.get("media_errors", 0)),
        "celsius": int(told.get("temperature", 0)),
    }


def _json(text: str) -> Json:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

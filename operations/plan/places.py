"""Names and paths of what Tandem puts on a node."""

from __future__ import annotations

ETC = "/etc/tandem"
NETPLAN = "/etc/netplan/90-tandem-fabric.yaml"

ENGINE = "tandem-engine"
PROXY = "tandem-proxy"
UNIT_FILES = tuple(f"/etc/systemd/system/{unit}.service" for unit in (ENGINE, PROXY))

RAY_TOKEN = f"{ETC}/engine/secrets/ray.token"
PROXY_KEY = f"{ETC}/proxy/secrets/master.key"


def folder_of(unit: str) -> str:
    """Where a unit's scripts and configuration lie."""
    return f"{ETC}/{unit.removeprefix('tandem-')}"

"""What netplan's files give to interfaces: only that leaves the node, since the same files have Wi-Fi passwords."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from operations.node.commands import read

try:
    # Not of the standard library: netplan's own package brings it.
    import yaml
except ImportError:
    yaml = None  # type: ignore[assignment]

FOLDER = Path("/etc/netplan")
#: Kinds of interfaces that are made of others, which then have no addresses of their own.
_MADE_OF = ("bonds", "bridges", "vrfs")
_YES = ("true", "yes", "on", "y")


def entries(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """One for each interface that a file not of Tandem's gives something: {file, device, match, gives}; `match` is what
    the file selects interfaces by, None: by the name that is `device`. A file that can't be read: {file, unread}.
    """
    found: list[dict[str, Any]] = []
    for file in sorted(folder.glob("*.yaml")):
        if "90-tandem" in file.name:
            continue
        if yaml is None:
            found.append({"file": str(file), "unread": "python3-yaml is not there (apt install python3-yaml)"})
            continue
        try:
            # As text: a MAC address of digits alone would become a number.
            found += [{"file": str(file), **entry} for entry in _given(yaml.load(read(file), yaml.BaseLoader))]
        except (AttributeError, TypeError, yaml.YAMLError) as error:
            # The parser's own words quote the file.
            found.append({"file": str(file), "unread": f"it is not what netplan wants ({type(error).__name__})"})
    return found


def _given(document: Any) -> Iterator[dict[str, Any]]:
    network = (document or {}).get("network") or {}
    for device, settings in (network.get("ethernets") or {}).items():
        settings = settings or {}
        if settings.get("addresses") or any(settings.get(key, "").lower() in _YES for key in ("dhcp4", "dhcp6")):
            yield {"device": device, "match": settings.get("match"), "gives": "an address"}
    for kind in _MADE_OF:
        for name, settings in (network.get(kind) or {}).items():
            for device in (settings or {}).get("interfaces") or []:
                # It is named by its entry under `ethernets`, which may select it in another way.
                match = ((network.get("ethernets") or {}).get(device) or {}).get("match")
                yield {"device": device, "match": match, "gives": f"a place in {name}"}

"""What netplan's files give to interfaces: only that leaves the node, since the same files have Wi-Fi passwords."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from operations.node.commands import read
from operations.wire import Json
from operations.wire.fabric import NetplanEntry, Selected

try:
    # Not of the standard library: netplan's own package brings it.
    import yaml
except ImportError:
    yaml = None  # type: ignore[assignment]

FOLDER = Path("/etc/netplan")
#: Kinds of interfaces that are made of others, which then have no addresses of their own.
_MADE_OF = ("bonds", "bridges", "vrfs")
_YES = ("true", "yes", "on", "y")


def entries(folder: Path = FOLDER) -> list[NetplanEntry]:
    """One for each interface that a file not of Tandem's gives something: {file, device, match, gives}; `match` is what
    the file selects interfaces by, None: by the name that is `device`. A file that can't be read: {file, unread}.
    """
    found: list[NetplanEntry] = []
    for file in sorted(folder.glob("*.yaml")):
        if "90-tandem" in file.name:
            continue
        if yaml is None:
            found.append({"file": str(file), "unread": "python3-yaml is not there (apt install python3-yaml)"})
            continue
        try:
            # As text: a MAC address of digits alone would become a number.
            found += list(_given(yaml.load(read(file), yaml.BaseLoader), str(file)))
        except (AttributeError, TypeError, yaml.YAMLError) as error:
            # The parser's own words quote the file.
            found.append({"file": str(file), "unread": f"it is not what netplan wants ({type(error).__name__})"})
    return found


def _given(document: Any, file: str) -> Iterator[NetplanEntry]:
    network = (document or {}).get("network") or {}
    for device, settings in (network.get("ethernets") or {}).items():
        settings = settings or {}
        if settings.get("addresses") or any(settings.get(key, "").lower() in _YES for key in ("dhcp4", "dhcp6")):
            yield from _gives(file, _selected(device, settings), "an address")
    for kind in _MADE_OF:
        for name, settings in (network.get(kind) or {}).items():
            for device in (settings or {}).get("interfaces") or []:
                # It is named by its entry under `ethernets`, which may select it in another way.
                settings = (network.get("ethernets") or {}).get(device) or {}
                yield from _gives(file, _selected(device, settings), f"a place in {name}")


def _gives(file: str, to: Iterable[Selected], what: str) -> Iterator[NetplanEntry]:
    for each in to:
        yield {"file": file, "device": each["device"], "match": each["match"], "gives": what}


def _selected(device: str, settings: Json) -> Iterator[Selected]:
    """What an entry selects, {device, match}; none where it is about no interface in particular.

    NetworkManager saves each profile as an entry, often with an empty `match`. The device is then in the profile's own
    settings, or it is the entry's name, unless that is made of the profile's UUID. A profile without any device fits
    all, but is not counted: the one that netplan makes of Tandem's file has no lower priority, and among equals
    NetworkManager takes the one that was used last. What it takes is proven after the change.
    """
    match, profile = settings.get("match"), settings.get("networkmanager")
    if match or match is None:
        yield {"device": device, "match": match}
    elif not profile:
        # Written by hand: netplan gives it to every interface.
        yield {"device": device, "match": {"name": "*"}}
    elif name := (profile.get("passthrough") or {}).get("connection.interface-name"):
        yield {"device": name, "match": None}
    elif not device.startswith("NM-"):
        yield {"device": device, "match": None}

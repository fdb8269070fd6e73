"""Getting an image onto the head, and remembering which archive it came from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from operations.node import archive
from operations.node.services import image_states

#: Which archive each local name was loaded from.
LOADED = Path("/var/lib/tandem/images")


def main(action: str, **arguments: Any) -> dict[str, Any]:
    """`state` (local, archive) or `loaded` (local, archive)."""
    return {"state": _state, "loaded": _loaded}[action](**arguments)


def _state(local: str, archive_path: str) -> dict[str, Any]:
    """The image's identity, and whether its archive is still the one that it was loaded from."""
    image = image_states([local]).get(local, {})
    stamp = archive.stamp(archive_path) if archive_path else ""
    try:
        record = json.loads(_record(local).read_text())
    except (OSError, ValueError):
        record = {}
    # An archive that is gone takes nothing away: the image is here.
    replaced = bool(image and stamp and record.get("stamp") != stamp)
    return {"image": image, "replaced": replaced}


def _loaded(local: str, archive_path: str) -> dict[str, Any]:
    _record(local).parent.mkdir(parents=True, exist_ok=True)
    _record(local).write_text(json.dumps({"stamp": archive.stamp(archive_path)}))
    return {}


def _record(local: str) -> Path:
    return LOADED / f"{local.replace('/', '_').replace(':', '_')}.json"

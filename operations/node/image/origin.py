"""Getting an image onto the head, and remembering which archive it came from."""

from __future__ import annotations

import json
from pathlib import Path

from operations.node.image import archive
from operations.node.image.content import image_states
from operations.paths import VAR
from operations.wire.model import ImageState

#: Which archive each local name was loaded from.
LOADED = Path(VAR) / "images"


def main(local: str, archive_path: str) -> dict[str, str]:
    """Remember that the image was loaded from this archive as it is now."""
    _record(local).parent.mkdir(parents=True, exist_ok=True)
    _record(local).write_text(json.dumps({"stamp": archive.stamp(archive_path)}))
    return {}


def states(archives: dict[str, str]) -> dict[str, ImageState]:
    """Local name -> its identity ({}: not here), and whether its archive is another one now than it was loaded from."""
    found = image_states(list(archives))
    return {
        local: {"image": found.get(local, {}), "replaced": _replaced(local, path)} for local, path in archives.items()
    }


def _replaced(local: str, archive_path: str) -> bool:
    stamp = archive.stamp(archive_path) if archive_path else ""
    try:
        record = json.loads(_record(local).read_text())
    except (OSError, ValueError):
        record = {}
    # An archive that is gone takes nothing away: the image is here.
    return bool(stamp and record.get("stamp") != stamp)


def _record(local: str) -> Path:
    return LOADED / f"{local.replace('/', '_').replace(':', '_')}.json"

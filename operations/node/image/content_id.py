"""What tells an image's content, on whichever node it is.

It lands beside engines too (files/engine/made_for.py), so it imports nothing of Tandem's.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any


def content_id(image: dict[str, Any]) -> str:
    """A hash that is equal where the content is: layers and what a container gets from the config. `image`: as `docker
    image inspect` has it.

    The image ID is not: it differs for the same content between the overlay2 and the containerd store.
    """
    config = image.get("Config") or {}
    facts = {key: config.get(key) or None for key in ("Env", "Entrypoint", "Cmd", "WorkingDir", "User")}
    facts |= {"layers": image["RootFS"].get("Layers"), "architecture": image["Architecture"]}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

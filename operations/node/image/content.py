"""Images that are here, by content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from operations.node.commands import docker_inspect
from operations.wire import Json
from operations.wire.model import Identity


def image_states(names: Sequence[str]) -> dict[str, Identity]:
    """Images that are there, by the name that was asked for."""
    found: dict[str, Identity] = {}
    for image in docker_inspect("image", *names):
        identity: Identity = {"id": image["Id"], "content": content_id(image), "architecture": image["Architecture"]}
        found.update({name: identity for name in names if name in image["RepoTags"]})
    return found


def content_id(image: Json) -> str:
    """A hash that is equal where the content is: layers and what a container gets from the config.

    The image ID is not: it differs for the same content between the overlay2 and the containerd store.
    """
    config = image.get("Config") or {}
    facts = {key: config.get(key) or None for key in ("Env", "Entrypoint", "Cmd", "WorkingDir", "User")}
    facts |= {"layers": image["RootFS"].get("Layers"), "architecture": image["Architecture"]}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

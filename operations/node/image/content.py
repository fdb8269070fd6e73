"""Images that are here, by content."""

from __future__ import annotations

from collections.abc import Sequence

from operations.node.commands import docker_inspect
from operations.node.image.content_id import content_id
from operations.wire.model import Identity


def image_states(names: Sequence[str]) -> dict[str, Identity]:
    """Images that are there, by the name that was asked for."""
    found: dict[str, Identity] = {}
    for image in docker_inspect("image", *names):
        identity: Identity = {"id": image["Id"], "content": content_id(image), "architecture": image["Architecture"]}
        found.update({name: identity for name in names if name in image["RepoTags"]})
    return found

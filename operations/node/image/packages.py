"""The packages in images that are here, asked once for each image; for `tandem sbom` and `tandem audit-security`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from operations.node.image import container, remembered
from operations.node.image.content import image_states
from operations.paths import VAR
from operations.wire.model import Identity, Packages

KEPT = Path(VAR) / "packages"
#: Seconds; a large image lists its packages in two.
PATIENCE_S = 120


def main(images: Mapping[str, str], script: str) -> dict[str, Packages]:
    """role -> packages as files/sbom/packages.py lists them, with `id` and `content` of the image.

    `images`: role -> local name. {}: it is not here; {"error": ...}: it can't be asked. Nothing is pulled or started.
    """
    states = image_states(list(images.values()))
    return {role: _asked(local, states[local], script) if states.get(local) else {} for role, local in images.items()}


def _asked(local: str, image: Identity, script: str) -> Packages:
    told = cast("Packages", remembered.read(KEPT, image["id"]))
    if not told:
        try:
            done = container.run(local, script, PATIENCE_S)
            if done.returncode:
                if 'exec: "python3"' in done.stderr:
                    return {"error": f"{local} has no Python, by which its packages are listed"}
                why = (done.stderr.strip() or "it says nothing").splitlines()[-1]
                return {"error": f"{local} can't be asked for its packages: {why}"}
            told = json.loads(done.stdout.splitlines()[-1])
        except (OSError, ValueError, IndexError) as error:
            return {"error": f"{local} can't be asked for its packages: {error}"}
        remembered.write(KEPT, image["id"], told)
    told["id"], told["content"] = image["id"], image["content"]
    return told


def versions(image_id: str) -> dict[str, str]:
    """Python packages and their versions of an image that was asked before; empty: it was not."""
    return {each["name"]: each["version"] for each in remembered.read(KEPT, image_id).get("python", ())}

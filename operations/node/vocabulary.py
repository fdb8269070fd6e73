"""What an image's engine understands, asked once for each image and kept by the image's id."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from operations.node import kept as keeping
from operations.node.services import image_states

KEPT = Path("/var/lib/tandem/vocabularies")
#: Seconds; reading the sources takes about two.
PATIENCE_S = 120


def main(local: str, script: str) -> dict[str, Any]:
    """The vocabulary of an image that is here: `script` is run in it, without a GPU and without a network.

    `{}`: the image has no such engine, or is not here. `{"error": ...}`: the script can't run in it.
    """
    image = image_states([local]).get(local)
    if not image:
        return {}
    if found := kept(image["id"]):
        return found
    argv = ["docker", "run", "--rm", "--interactive", "--network", "none", "--pull", "never"]
    argv += ["--name", "tandem-vocabulary", "--entrypoint", "python3", local, "-"]
    try:
        done = subprocess.run(argv, input=script, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        found = json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        subprocess.run(["docker", "rm", "--force", "tandem-vocabulary"], capture_output=True, check=False)
        return {"error": f"{local} can't be asked what it understands: {error}"}
    if found:
        keeping.write(KEPT, image["id"], found)
    return dict(found)


def kept(image_id: str) -> dict[str, Any]:
    """What an image has told before; empty: it was not asked."""
    return keeping.read(KEPT, image_id)

"""What an image's engine understands, asked once for each image and kept by the image's id."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

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
        KEPT.mkdir(parents=True, exist_ok=True)
        aside = _file(image["id"]).with_suffix(".new")
        aside.write_text(json.dumps(found))
        aside.replace(_file(image["id"]))
    return dict(found)


def kept(image_id: str) -> dict[str, Any]:
    """What an image has told before; empty: it was not asked."""
    try:
        found: dict[str, Any] = json.loads(_file(image_id).read_text())
    except (OSError, ValueError):
        return {}
    return found


def _file(image_id: str) -> Path:
    return KEPT / f"{image_id.rpartition(':')[2]}.json"

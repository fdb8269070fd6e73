"""What an image's engine understands, asked once for each image and kept by the image's id."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import cast

from operations.node.commands import docker_inspect
from operations.node.image import remembered
from operations.paths import VAR
from operations.wire.model import Vocabulary

KEPT = Path(VAR) / "vocabularies"
#: What files/engine/vocabulary.py prints now; an image that has told something else is asked anew.
FORMAT = 2
#: Seconds; reading the sources takes about two.
PATIENCE_S = 120


def main(names: list[str], script: str) -> Vocabulary:
    """The vocabulary of the first of these images that is here, with its name as `asked`: `script` is run in it,
    without a GPU and without a network.

    `{}`: none is here, or it has no such engine. `{"error": ...}`: the script can't run in it.
    """
    here, image_id = next(
        ((name, seen[0]["Id"]) for name in names if (seen := docker_inspect("image", name))), ("", "")
    )
    if not here:
        return {}
    if found := kept(image_id):
        return _asked(found, here)
    # Two deploys may ask at once.
    container = f"tandem-vocabulary-{os.getpid()}"
    argv = ["docker", "run", "--rm", "--interactive", "--network", "none", "--pull", "never"]
    argv += ["--name", container, "--entrypoint", "python3", here, "-"]
    try:
        done = subprocess.run(argv, input=script, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        found = json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        subprocess.run(["docker", "rm", "--force", container], capture_output=True, check=False)
        return {"error": f"{here} can't be asked what it understands: {error}"}
    if not found:
        return {}
    remembered.write(KEPT, image_id, found)
    return _asked(found, here)


def _asked(found: Vocabulary, image: str) -> Vocabulary:
    found["asked"] = image
    return found


def kept(image_id: str) -> Vocabulary:
    """What an image has told before; empty: it was not asked, or by another Tandem."""
    found = cast("Vocabulary", remembered.read(KEPT, image_id))
    return found if found.get("format") == FORMAT else {}

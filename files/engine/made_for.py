"""Whether what the engine has compiled before is for this image and this processor: `made_for.py PLACE IMAGE gpu|cpu`.

Asked by ready.sh right before a start, when nothing uses PLACE (TAG/KEY, see compiled.py). A driver may be another
since a boot, an image since a deploy. What was compiled for another goes, and the engine compiles anew. It never ends a
start.
"""

from __future__ import annotations

import json
import subprocess
import sys

import compiled
from content_id import content_id


def main(place: str, image: str, kind: str) -> str:
    """What went, and why; empty: nothing."""
    inspect = ["docker", "image", "inspect", image]
    try:
        told = subprocess.run(inspect, capture_output=True, text=True, timeout=60, check=True)
        content = content_id(json.loads(told.stdout)[0])
        processor = compiled.processor(gpu=kind == "gpu")
        return compiled.begin(compiled.CACHE / place, {"content": content, "processor": processor}) if processor else ""
    except (OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        return f"nobody knows what its kernels were compiled for: {error}"


if __name__ == "__main__":
    if words := main(*sys.argv[1:]):
        print(f"tandem: {words}", file=sys.stderr, flush=True)

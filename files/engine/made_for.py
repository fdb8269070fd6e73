"""Whether what the engine has compiled before is for this image and processor: `made_for.py PLACE IMAGE gpu|cpu N`.

Asked by ready.sh right before a start, when nothing uses PLACE (TAG/KEY, see compiled.py). A driver may be another
since a boot, an image since a deploy. What was compiled for another goes, and the engine compiles anew. Byte code goes
where it may be what ends the starts: this is restart N in a row. It never ends a start.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import compiled
from content_id import content_id

#: From the second restart in a row on the start before did not come to serve: the canary sets the count back.
RESTARTS = 2


def main(place: str, image: str, kind: str, restarts: str) -> str:
    """Remove kernels that were compiled for something else. Returns why, in a few words; empty: they stay."""
    here, said = compiled.CACHE / place, ""
    inspect = ["docker", "image", "inspect", image]
    try:
        compiled.unlink_link(here)
        said = drop_byte_code(here, int(restarts))
        told = subprocess.run(inspect, capture_output=True, text=True, timeout=60, check=True)
        content = content_id(json.loads(told.stdout)[0])
        processor = compiled.processor(gpu=kind == "gpu")
        anew = compiled.begin(here, {"content": content, "processor": processor}) if processor else ""
        return anew or said
    except (OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        return f"nobody knows what its kernels were compiled for: {error}"


def drop_byte_code(here: Path, restarts: int) -> str:
    """A nearly full disk cuts its files off, and Python ends at such a one (EOFError). Says why it went, or nothing."""
    kept = here / compiled.BYTE_CODE
    is_full = kept.exists() and shutil.disk_usage(here).free < compiled.LEAST_FREE
    if not kept.exists() or not (is_full or restarts >= RESTARTS):
        return ""
    shutil.rmtree(kept, ignore_errors=True)
    return f"kept byte code goes: {'the disk is nearly full' if is_full else f'restart {restarts} in a row'}"


if __name__ == "__main__":
    if words := main(*sys.argv[1:]):
        print(f"tandem: {words}", file=sys.stderr, flush=True)

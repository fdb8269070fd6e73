"""Whether what the engine has compiled before is for this image and processor: `made_for.py PLACE IMAGE gpu|cpu N`.

Asked by ready.sh right before a start, when nothing uses PLACE (TAG/KEY, see compiled.py). A driver may be another
since a boot, an image since a deploy. What was compiled for another goes, and the engine compiles anew. This is restart
N in a row: what may end the starts goes too, which is byte code, and what a power cut has cut off. It never ends a
start.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import compiled
from content_id import content_id

#: From the second restart in a row on the start before did not come to serve: the canary sets the count back. Byte code
#: is made in a minute and goes at once, kernels one restart later.
RESTARTS, KERNELS = 2, 3
#: Folders down to what is compiled by itself: `triton/HASH`, `vllm/torch_compile_cache/HASH`.
DEPTH = 3


def main(place: str, image: str, kind: str, restarts: str) -> str:
    """Remove kernels that were compiled for something else. Returns why, in a few words; empty: they stay."""
    here, said = compiled.CACHE / place, ""
    inspect = ["docker", "image", "inspect", image]
    try:
        compiled.unlink_link(here)
        said = "; ".join(filter(None, (drop_byte_code(here, int(restarts)), drop_cut_off(here, int(restarts)))))
        told = subprocess.run(inspect, capture_output=True, text=True, timeout=60, check=True)
        content = content_id(json.loads(told.stdout)[0])
        processor = compiled.processor(gpu=kind == "gpu")
        return compiled.begin(here, {"content": content, "processor": processor}) or said
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


def drop_cut_off(here: Path, restarts: int) -> str:
    """A power cut leaves files under their names without all of their content, and each start ends at such a one. Where
    no start has served with any of them, all go: nobody knows how long they have to be. Says what went, or nothing.

    It is done once in a row of restarts: what is compiled anew then is not to blame.
    """
    if restarts != KERNELS or not here.is_dir():
        return ""
    listed = compiled.files(here)
    if listed is None:
        compiled.drop(here)
        return f"kernels are compiled anew: restart {restarts} in a row, and no start has served with them"
    caches = {name.partition("/")[0] for name in listed}
    cut = set[str]()
    for name, size in _sizes(here):
        # Longer is well: logs and indexes grow. What was written since the list was made is cut off where it is empty.
        is_cut = size < listed[name]["size"] if name in listed else not (size or name.endswith(".lock"))
        if is_cut and name.partition("/")[0] in caches:
            # Its folder goes with it: what an engine finds half of, it may take for whole.
            folders = name.split("/")[:-1]
            cut.add("/".join(folders[:DEPTH]) if len(folders) > 1 else name)
    for each in cut:
        aside = here / each
        shutil.rmtree(aside, ignore_errors=True) if aside.is_dir() else aside.unlink(missing_ok=True)
    if cut:
        compiled.put_files(here, {name: listed[name] for name in listed if (here / name).exists()})
    return f"kernels that were cut off are compiled anew: {', '.join(sorted(cut))}" if cut else ""


def _sizes(here: Path) -> Iterator[tuple[str, int]]:
    """Files below a folder, by names, with their bytes. No link of the engine's is followed: it leads to the node's."""
    for folder, _, names in os.walk(here):
        for file in (Path(folder) / name for name in names):
            if file.is_file() and not file.is_symlink():
                yield str(file.relative_to(here)), file.stat().st_size


if __name__ == "__main__":
    if words := main(*sys.argv[1:]):
        print(f"tandem: {words}", file=sys.stderr, flush=True)

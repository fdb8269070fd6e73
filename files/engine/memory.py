"""This node's memory before an engine loads, and while it does. On unified memory the kernel's caches are in its way.

`memory.py`: drops them and compacts memory, before a start (ready.sh).

`memory.py MIB SHARE`: asked by ready.sh. Prints why to wait, or nothing: MIB have to be free, and SHARE thousandths of
the whole. An engine that finds less ends, and its load was in vain.

`memory.py beside URL [MARK]`: runs beside the engine's container (run.sh). A rank loads when all have met (`met` in
MARK, meet.py), maybe hours after its start: caches are dropped then once more. Until URL answers, which it does once
the model is loaded, they are dropped whenever little is free
and much is cached. What is read of the model fills them, the driver then
finds no large pages, and the node hangs ([Y] in docs/sources.md).
"""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
VM = Path("/proc/sys/vm")
#: What is kept free in a load: a pair that did so got through each ([Y]).
FLOOR_MIB = 8 * 1024
#: So much has to be cached that to drop it is worth the compaction.
WORTH_MIB = 1024
#: Between two looks at a load, and between two times that caches are dropped in it.
LOOK_S, PAUSE_S = 1.0, 5.0
ANSWER_S = 2.0


def mib(name: str) -> int:
    """A line of /proc/meminfo, in MiB; 0: it is not there."""
    found = re.search(rf"^{name}: *(\d+)", MEMINFO.read_text(), re.MULTILINE)
    return int(found[1]) // 1024 if found else 0


def short(need_mib: int, share: int) -> str:
    """Why to wait for memory; empty: so much is available. vLLM counts the same on an integrated GPU (psutil's
    `available`, in its wheels of 0.24 to 0.33).
    """
    need = max(need_mib, mib("MemTotal") * share // 1000)
    available = mib("MemAvailable")
    if available < need:
        return (
            f"MemAvailable is {available} MiB, this recipe needs {need} MiB; `ps aux --sort -rss | head` shows who has "
            "it"
        )
    return ""


def make_room() -> None:
    """Drop what the kernel caches of files, and join what is free to large pages."""
    os.sync()
    # A kernel may be built without compaction; a missing drop is worth a word.
    for name, value in (("drop_caches", "3"), ("compact_memory", "1")):
        try:
            (VM / name).write_text(f"{value}\n")
        except OSError as error:
            print(f"tandem: vm.{name} can't be set: {error}", file=sys.stderr, flush=True)


def answers(url: str) -> bool:
    """Whether the model is loaded. What takes the question and is slow to answer has loaded."""
    try:
        urllib.request.urlopen(url, timeout=ANSWER_S).close()
    except urllib.error.HTTPError as error:
        # llama.cpp listens before it loads (docs/engines.md).
        return error.code != 503 or b"Loading model" not in _said(error)
    except urllib.error.URLError:
        # One that takes no connection in time too.
        return False
    except (TimeoutError, http.client.HTTPException):
        return True
    except OSError:
        return False
    return True


def _said(error: urllib.error.HTTPError) -> bytes:
    """What an answer with an error says, as far as it comes."""
    try:
        return error.read(4096)
    except (OSError, http.client.HTTPException):
        return b""


def beside(url: str, mark: Path | None) -> None:
    """Keep memory free from the beginning of a load to its end."""
    if mark:
        while not _has_met(mark):
            time.sleep(LOOK_S)
        make_room()
    made, left = time.monotonic(), 0
    while not answers(url):
        # What was left by the last time is in use: to try it again would only stall a model that serves beside this.
        left = min(left, cached_mib())
        is_due = cached_mib() - left >= WORTH_MIB and time.monotonic() - made >= PAUSE_S
        if is_due and mib("MemFree") < FLOOR_MIB:
            make_room()
            made, left = time.monotonic(), cached_mib()
        time.sleep(LOOK_S)


def cached_mib() -> int:
    """What the kernel caches of files. It counts memory that processes share as such, and can't drop that."""
    return max(mib("Cached") - mib("Shmem"), 0)


def _has_met(mark: Path) -> bool:
    try:
        return bool(json.loads(mark.read_text()).get("met"))
    except (OSError, ValueError, AttributeError):
        return False


if __name__ == "__main__":
    if sys.argv[1:2] == ["beside"]:
        beside(sys.argv[2], Path(sys.argv[3]) if len(sys.argv) > 3 else None)
    elif len(sys.argv) > 1:
        print(short(*map(int, sys.argv[1:])), end="")
    else:
        make_room()

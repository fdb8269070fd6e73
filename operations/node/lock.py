"""The lock of a deploy, or of a bench, on the head. The kernel holds it for a process that dies with its owner: it
can't go stale.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import time
from pathlib import Path

from operations.node import beats
from operations.node.commands import output
from operations.wire.unit import LockLine

PLACE = Path("/run/tandem.lock")


def generation() -> str:
    """Changes with every deploy that takes the lock: what was seen before another one is not to be trusted."""
    return output("stat", "--format=%.Y", str(PLACE)).strip()


def is_held() -> bool:
    """Whether a deploy or a bench goes on. Asking holds the lock for no longer than this takes."""
    try:
        file = os.open(PLACE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def main(owner: str, what: str = "deploy") -> LockLine:
    """Print {"held": true, "before": generation, "generation": the one from now on}, then {"beat": its number} for each
    beat that comes, and hold the lock until the deploy lets go; or say who has it. `what` it is that takes it.
    """
    file = os.open(PLACE, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = json.loads(PLACE.read_text() or "{}")
        told = {"owner": "?", "since": "?", "what": "deploy", **holder}
        return {"held": False, "owner": told["owner"], "since": told["since"], "what": told["what"]}
    before = generation()
    os.ftruncate(file, 0)
    holder = {"owner": owner, "since": time.strftime("%Y-%m-%d %H:%M:%S %Z"), "what": what}
    os.write(file, json.dumps(holder).encode())
    print(json.dumps({"held": True, "before": before, "generation": generation()}), flush=True)
    beats.hold(_confirm)
    sys.exit(0)


def _confirm(said: bytes) -> None:
    """As long as this is said the lock is held. A number that came in two pieces is an older one."""
    if numbers := re.findall(rb"\d+\.\d+", said):
        print(json.dumps({"beat": float(numbers[-1])}), flush=True)

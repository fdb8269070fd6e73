"""Whose turn it is to load a model on this node.

On unified memory an engine that measures what is free while another one loads takes that one's memory for its own, or
ends because there is less than it has just seen. So one loads after the other.

`turn.py UNIT URL`: asked by ready.sh before a start. Prints why to wait, or nothing, and then the turn is this unit's.
`URL`: what answers once the model is loaded, and not before.

`turn.py UNIT URL MARK GIVEN MIB SHARE`: runs beside a rank's container (run.sh). A rank loads when all have met, which
may be long after its start. So it asks when they have (`asks` in MARK, meet.py), and has the turn when GIVEN says what
it has asked with. What ready.sh has seen of memory is old by then: it is looked at once more (memory.py: MIB, SHARE).
"""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import time
from pathlib import Path

import memory

PLACE = Path("/run/tandem/turn.json")
#: Seconds for which a turn is kept for one that waits for something else before its start.
KEPT_S = 60.0
#: Between two looks whether a rank asks, and whether it may.
LOOK_S = 1.0


def main(unit: str, url: str, mark: str = "") -> str:
    """Why to wait; empty: it is this unit's turn."""
    PLACE.parent.mkdir(exist_ok=True)
    with PLACE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held = read(PLACE)
        if held.get("unit") not in (None, unit) and loads(held):
            return f"{held['unit']} loads its model, and each would take the other's memory for its own"
        write(PLACE, json.dumps({"unit": unit, "url": url, "mark": mark, "since": time.monotonic()}))
    return ""


def beside(unit: str, url: str, mark: Path, given: Path, mib: int, share: int) -> None:
    """Give a rank its turn when it asks; returns when it has begun to load."""
    said = ""
    given.parent.mkdir(parents=True, exist_ok=True)
    if not given.exists():
        # By this file a rank knows that somebody is here.
        write(given, "")
    while not (told := read(mark)).get("met"):
        asks = str(told.get("asks", ""))
        if asks and asks != _text(given):
            why = memory.short(mib, share) or main(unit, url, str(mark))
            if why and why != said:
                print(f"tandem: {why}", file=sys.stderr, flush=True)
            said = why
            if not why:
                memory.make_room()
                write(given, asks)
        time.sleep(LOOK_S)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def write(path: Path, text: str) -> None:
    """Whole, or not at all."""
    aside = path.with_suffix(".part")
    aside.write_text(text)
    aside.rename(path)


def read(path: Path) -> dict[str, object]:
    """Who had the turn last, or what a rank says; nothing where there is no file, or one that was cut off."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def loads(held: dict[str, object]) -> bool:
    """Whether the engine that had the turn last still loads."""
    argv = ["systemctl", "show", f"{held['unit']}.service", "--property=ActiveState,SubState"]
    told = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    state = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
    if state.get("SubState") == "start-pre":
        return time.monotonic() - float(str(held.get("since", 0))) < KEPT_S
    if state.get("ActiveState") != "active" or not has_met(str(held.get("mark", ""))):
        return False
    return not memory.answers(str(held["url"]))


def has_met(mark: str) -> bool:
    """Whether a rank loads, or is about to: alone it loads nothing. Its turn is its own until it asks no more."""
    told = read(Path(mark)) if mark else {"met": True}
    return bool(told.get("met") or told.get("asks"))


if __name__ == "__main__":
    if len(sys.argv) > 3:
        unit, url, mark, given, mib, share = sys.argv[1:]
        beside(unit, url, Path(mark), Path(given), int(mib), int(share))
    else:
        print(main(*sys.argv[1:]), end="")

"""Whose turn it is to load a model on this node: `turn.py UNIT URL [MARK]`, asked by ready.sh before a start.

On unified memory an engine that measures what is free while another one loads takes that one's memory for its own, or
ends because there is less than it has just seen. So one loads after the other: prints why to wait, or nothing, and then
the turn is this unit's. `URL`: what answers once the model is loaded, and not before. `MARK`: where a cluster's rank
says whether the ranks have met; until then it loads nothing.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

PLACE = Path("/run/tandem/turn.json")
#: Seconds for which a turn is kept for one that waits for something else before its start.
KEPT_S = 60.0
ANSWER_S = 2.0


def main(unit: str, url: str, mark: str = "") -> str:
    """Why to wait; empty: it is this unit's turn."""
    PLACE.parent.mkdir(exist_ok=True)
    with PLACE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held = read()
        if held.get("unit") not in (None, unit) and loads(held):
            return f"{held['unit']} loads its model, and each would take the other's memory for its own"
        aside = PLACE.with_suffix(".part")
        aside.write_text(json.dumps({"unit": unit, "url": url, "mark": mark, "since": time.monotonic()}))
        aside.rename(PLACE)
    return ""


def read() -> dict[str, object]:
    """Who had the turn last; nothing since the boot, or in a file that was cut off."""
    try:
        held = json.loads(PLACE.read_text())
    except (OSError, ValueError):
        return {}
    return held if isinstance(held, dict) else {}


def loads(held: dict[str, object]) -> bool:
    """Whether the engine that had the turn last still loads."""
    argv = ["systemctl", "show", f"{held['unit']}.service", "--property=ActiveState,SubState"]
    told = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    state = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
    if state.get("SubState") == "start-pre":
        return time.monotonic() - float(str(held.get("since", 0))) < KEPT_S
    if state.get("ActiveState") != "active" or not has_met(str(held.get("mark", ""))):
        return False
    try:
        urllib.request.urlopen(str(held["url"]), timeout=ANSWER_S).close()
    except urllib.error.HTTPError:
        return False
    except urllib.error.URLError as error:
        # What takes the question and is slow to answer has loaded.
        return not isinstance(error.reason, TimeoutError)
    except (TimeoutError, http.client.HTTPException):
        return False
    except OSError:
        return True
    return False


def has_met(mark: str) -> bool:
    """Whether a rank's start has begun: alone it loads nothing."""
    try:
        return not mark or bool(json.loads(Path(mark).read_text())["met"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


if __name__ == "__main__":
    print(main(*sys.argv[1:]), end="")

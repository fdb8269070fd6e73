"""The canary: looks at the engines, the proxy and the rails of its node, and kills the container of what hangs.

systemd starts what was killed anew, an engine a bounded number of times; after ten minutes of service that count
begins at nothing. Each watch has a thread of its own: an engine that takes its time must not hide a proxy that hangs.

An engine that can't be reached because its rail is gone is left alone, and so is one whose other ranks can't be
reached: if they stay away, the ranks' meeting sees it and ends them all.

Runs on the node as `canary.py SPEC`; canary.json beside it has

- `engines`: by their units, `url`, `model`, `answers`: what it is there for; `question`: {path, body, pattern} where a
  token is not asked for; `acts`: whether this node's container is the one that answers; `deadline_s`; `silence_s` and
  `mute_s`: for how long one with and one without signs of life in its metrics may give none; `start_s`; `signs`: {path,
  pattern}; `meeting`: {mark, ranks} in a cluster, else null; `peers`: {name: address} of the nodes with its other ranks
- `proxy`: its URL for this node itself; `litellm`: those of the LiteLLM behind it, by unit; `unix:` and a socket, all
- `rails`: {device: {address, mtu}}
- `alone`: where a cluster falls back to one node (files/fallback), what stands in for `engines` while this node serves
  alone. What begins or ends that starts the canary anew.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from engine import Engine
from inner import LiteLLM
from proxy import Proxy
from rails import Rails
from watch import Watch

if TYPE_CHECKING:
    from operations.wire.specs import CanarySpec
    from operations.wire.unit import CanarySeen

#: Seconds between two looks at the rails.
LOOK_S = 1.0
STATE = Path("/run/tandem/canary.json")
#: Both are there while this node serves alone (files/fallback).
ALONE = (Path("/run/tandem/alone.json"), Path("/run/systemd/system/tandem-engine.service.d/tandem-alone.conf"))


def main() -> int:
    """Look, for ever."""
    wanted: CanarySpec = json.loads(Path(__file__).with_name("canary.json").read_text())
    if "alone" in wanted and all(file.exists() for file in ALONE):
        wanted["engines"] = wanted["alone"]["engines"]
    rails = Rails(wanted["rails"], {k: v for each in wanted["engines"].values() for k, v in each["peers"].items()})
    rails.look()
    watches: list[Watch] = [Engine(each, rails, unit) for unit, each in wanted["engines"].items()]
    watches.append(Proxy(wanted["proxy"]))
    watches += [LiteLLM(unit, url) for unit, url in wanted["litellm"].items()]
    for watch in watches:
        threading.Thread(target=keep, args=(watch,), daemon=True).start()
    written: CanarySeen = {}
    while True:
        state = told(rails, watches)
        if state != written or not touch():
            write(state)
            written = state
        time.sleep(LOOK_S)
        rails.look()


def keep(watch: Watch) -> None:
    """Without one of its watches the canary is none: systemd starts it anew."""
    try:
        watch.forever()
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def told(rails: Rails, watches: list[Watch]) -> CanarySeen:
    """For `tandem status`: `rails` in words, nodes that are `away` with the time since when (only a cluster's ranks
    have others to miss), what `works`, `problems` and the last `killed` by what they are of.

    `works` has no times: it changes when something falls idle or silent, and the file with it.
    """
    return {
        "rails": rails.problems,
        "away": rails.away,
        "works": [watch.NAME for watch in watches if watch.works()],
        "problems": {watch.NAME: watch.problem for watch in watches if watch.problem},
        "killed": {watch.NAME: watch.killed for watch in watches if watch.killed},
    }


def touch() -> bool:
    """Renews the state file's time, by which readers see that a canary still looks. False: there is no such file."""
    try:
        os.utime(STATE)
    except FileNotFoundError:
        return False
    return True


def write(state: CanarySeen) -> None:
    """Whole, or not at all."""
    STATE.parent.mkdir(exist_ok=True)
    aside = STATE.with_suffix(".part")
    aside.write_text(json.dumps(state))
    aside.rename(STATE)


if __name__ == "__main__":
    sys.exit(main())

"""The fallback of a cluster: when another node has stayed away for long enough, this one serves alone.

The ranks' meeting (files/engine/meet.py) says on each node whether all ranks are there. A cluster that has served, and
then misses a rank for `after_s` seconds, goes on as one engine on the first node that is left. That engine listens on
its node's address of the fabric, which is the cluster's where this is the head; the proxies know those of all nodes.

What is started instead lies beside this program. A drop-in of systemd's in /run puts it in the place of the rank, so a
boot always begins with the cluster, and no unit's file changes. A deploy takes the drop-in away.

It goes back when all other ranks wait for it again: at the next deploy, or by itself once no request is under way.

Runs on the node as `fallback.py SPEC`; fallback.json beside it has

- `rank`, `port`, and `ranks`: [{name, address}] of all, with the port of their meeting on the fabric
- `rails`: devices without which this node's rank does not start
- `engine_port`: where the engine listens on this node's address of the fabric
- `meeting`: what meet.py writes; `spec`: that of the cluster's engine
- `after_s`: seconds; `returns`: `auto` or `deploy`
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from others import Others
from under_way import UnderWay

if TYPE_CHECKING:
    from operations.wire.specs import FallbackSpec

#: Seconds between two looks.
LOOK_S = 1.0
#: Seconds by which each further rank waits longer: the first that is left serves, the others see it.
STAGGER_S = 5.0
#: Looks in a row that show all other ranks waiting and no request under way, before it goes back.
IDLE_LOOKS = 5
#: Seconds for which the ranks have to stay together before a return counts as one that held. A node that dies in each
#: load would otherwise end who serves alone again and again: after a return that did not hold the next one waits this
#: long, then twice as long, and so on.
HOLD_S = 1800.0
UNIT, CANARY = "tandem-engine", "tandem-canary"
#: systemd reads it: what is started in the place of the rank.
DROP_IN = Path(f"/run/systemd/system/{UNIT}.service.d/tandem-alone.conf")
#: Since when this node serves alone, and why; there as long as it does.
ALONE = Path("/run/tandem/alone.json")
#: What `tandem status` says.
STATE = Path("/run/tandem/fallback.json")
#: Plans that a deploy has seen serve (operations/node/unit/served.py): one that never has is a deploy's matter. Ranks
#: meet before they load, so a meeting says nothing of that.
SERVED = Path("/var/lib/tandem/served.json")
HERE = Path(__file__).parent
NET = Path("/sys/class/net")


class Fallback:
    """What this node does about a cluster that lacks a node."""

    def __init__(self, wanted: FallbackSpec) -> None:
        self.wanted, self.rank = wanted, int(wanted["rank"])
        self.names = [each["name"] for each in wanted["ranks"]]
        self.others = Others(self.rank, [each["address"] for each in wanted["ranks"]], wanted["port"], wanted["spec"])
        self.under_way = UnderWay(wanted["ranks"][self.rank]["address"], wanted["engine_port"])
        #: Since when ranks are missing, by the monotonic clock, and by the wall's.
        self.lacking_since: float | None = None
        self.lacking_from = ""
        self.idle_looks = 0
        #: Since when the ranks are together, and how long after a return the next one may be; monotonic.
        self.together_since: float | None = None
        self.hold_s, self.returned_at = 0.0, 0.0
        #: What is still to be asked of systemd, in this order: what it refuses is asked again, and nothing else is.
        self.to_ask: list[tuple[str, ...]] = []
        #: Whether this plan is known to have served.
        self.has_served = False
        self.told = ""

    def look(self) -> None:
        """Look once, and act on it."""
        self.ask()
        if is_alone():
            self.alone()
        else:
            self.others.close()
            self.together()

    def together(self) -> None:
        """This node runs a rank, or waits to."""
        state = state_of(UNIT)
        # What its container has said is of this start only while it runs.
        said = read_json(Path(self.wanted["meeting"])) if state == "active" else {}
        self.idle_looks = 0
        self.settle(bool(said.get("met")))
        missing = [rank for rank in said.get("missing", []) if rank != self.rank]
        gone = [device for device in self.wanted["rails"] if state == "activating" and not (NET / device).exists()]
        if state == "failed" or gone:
            # A rank that dies in each load takes the others' starts along, until systemd gives all of them up. One
            # whose netdev went with its cable waits before it meets anybody (ready.sh).
            said, missing = {"met": False}, [rank for rank in range(len(self.names)) if rank != self.rank]
        if said.get("met", True) or not missing or not self.served():
            self.lacking_since = None
            self.tell("the ranks are together" if said.get("met") else "waits for the ranks to meet")
            return
        names = " and ".join(self.names[rank] for rank in missing)
        lacks = "this node's rank has given up" if state == "failed" else f"{names} is missing"
        lacks = f"the interface {' and '.join(gone)} is gone" if gone else lacks
        if said.get("alone"):
            self.lacking_since = None
            serving = " and ".join(self.names[rank] for rank in said["alone"])
            self.tell(f"{serving} serves alone; this node's rank waits to meet it")
            return
        if self.lacking_since is None:
            self.lacking_since, self.lacking_from = time.monotonic(), time.strftime("%F %T")
        after_s = self.wanted["after_s"]
        left_s = self.lacking_since + after_s + self.rank * STAGGER_S - time.monotonic()
        if left_s > 0:
            self.tell(f"{lacks} since {self.lacking_from}; after {after_s:g} s this node serves alone")
        elif alone := self.others.who_serves_alone():
            self.tell(f"{' and '.join(self.names[rank] for rank in alone)} serves alone")
        else:
            self.begin(f"{lacks} since {self.lacking_from}")

    def settle(self, have_met: bool) -> None:
        """A cluster that has stayed together after a return may go back at once the next time."""
        if not have_met:
            self.together_since = None
            return
        self.together_since = self.together_since or time.monotonic()
        if time.monotonic() - self.together_since > HOLD_S:
            self.hold_s = 0.0

    def served(self) -> bool:
        """Whether a deploy has seen this plan serve. What it has seen once stays so."""
        self.has_served = self.has_served or self.wanted["spec"] in specs_of(read(SERVED))
        return self.has_served

    def begin(self, why: str) -> None:
        """From now on this node serves alone."""
        say(f"{why}: this node serves alone now")
        DROP_IN.parent.mkdir(parents=True, exist_ok=True)
        write(DROP_IN, (HERE / "alone.conf").read_text())
        write(ALONE, json.dumps({"since": time.strftime("%F %T"), "why": why}))
        self.switch()

    def alone(self) -> None:
        """This node serves alone, until all other ranks wait for it and nobody needs it."""
        self.lacking_since = self.together_since = None
        about = read_json(ALONE)
        if state_of(UNIT) == "failed":
            # Another node may serve, and the cluster be tried again: nobody is kept waiting by an engine that is none.
            self.others.close()
            self.tell(f"would serve alone since {about.get('since', '?')}, but its engine has given up: `tandem apply`")
            return
        missing = self.others.missing()
        begun = f"serves alone since {about.get('since', '?')}, because {about.get('why', '?')}"
        names = " and ".join(self.names[rank] for rank in missing)
        is_busy = self.under_way.any()
        self.idle_looks = 0 if missing or is_busy else self.idle_looks + 1
        if missing:
            self.tell(f"{begun}; {names} does not wait for it yet")
        elif self.wanted["returns"] == "deploy":
            self.tell(f"{begun}; all nodes are back: `tandem apply` makes a cluster of them again")
        elif (left_s := self.returned_at + self.hold_s - time.monotonic()) > 0:
            self.tell(
                f"{begun}; all nodes are back, but the last return did not hold: again in {left_s / 60:.0f} minutes"
            )
        elif self.idle_looks < IDLE_LOOKS:
            self.tell(f"{begun}; all nodes are back: a cluster again as soon as no request is under way")
        else:
            self.end()

    def end(self) -> None:
        """The cluster again: the other ranks wait for this node's."""
        say("all nodes are back and no request is under way: this node's rank joins the cluster again")
        self.returned_at, self.hold_s = time.monotonic(), max(HOLD_S, 2 * self.hold_s)
        DROP_IN.unlink(missing_ok=True)
        ALONE.unlink(missing_ok=True)
        # Whoever called here has to call the rank.
        self.others.close()
        if state_of(UNIT) == "inactive":
            # Its owner has stopped it: so it stays.
            self.switch(restarts=False)
        else:
            self.switch()

    def switch(self, *, restarts: bool = True) -> None:
        """The engine as the drop-in has it or as its unit has it, and the canary, which looks once at its start for
        which of them it is. One that its owner has stopped stays so.
        """
        run("reset-failed", f"{UNIT}.service")
        engine = [("restart", "--no-block", f"{UNIT}.service")] if restarts else []
        self.to_ask = [("daemon-reload",), *engine, ("try-restart", "--no-block", f"{CANARY}.service")]
        self.ask()

    def ask(self) -> None:
        """systemd for what it has not taken yet. An engine that it has begun to restart is not restarted again because
        the canary's turn was refused.
        """
        while self.to_ask and run(*self.to_ask[0]):
            self.to_ask.pop(0)

    def tell(self, text: str) -> None:
        """For `tandem status`: written when it changes."""
        if text != self.told:
            write(STATE, json.dumps({"says": text, "alone": is_alone()}))
            self.told = text


def is_alone() -> bool:
    """Whether this node serves alone. What `tandem down` or a lost write leaves of the one file without the other is no
    such node.
    """
    return ALONE.exists() and DROP_IN.exists()


def state_of(unit: str) -> str:
    """systemd's word: `active` runs, and does not only wait for its start; `failed` is started no more."""
    done = subprocess.run(["systemctl", "is-active", f"{unit}.service"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def run(*words: str) -> bool:
    """systemctl; what it refuses is in the journal."""
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    if done.returncode and words[0] != "reset-failed":
        say(f"systemctl {' '.join(words)}: {done.stderr.strip()}")
    return done.returncode == 0


def read(path: Path) -> str:
    """Nothing, where it can't be read."""
    try:
        return path.read_text()
    except OSError:
        return ""


def read_json(path: Path) -> dict[str, Any]:
    """Nothing, where it is none."""
    try:
        found = json.loads(read(path))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def write(path: Path, text: str) -> None:
    """Whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".part")
    aside.write_text(text)
    aside.rename(path)


def specs_of(text: str) -> set[str]:
    """Those of all units of all plans in served.json; none in a file that somebody has broken."""
    try:
        units = [
            unit for plan in json.loads(text or "[]") for node in plan["services"].values() for unit in node.values()
        ]
        return {unit["spec"] for unit in units if "spec" in unit}
    except (ValueError, KeyError, TypeError, AttributeError):
        return set()


def say(text: str) -> None:
    """One line for the journal."""
    print(f"tandem: {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Look, for ever."""
    fallback = Fallback(json.loads((HERE / "fallback.json").read_text()))
    while True:
        try:
            fallback.look()
        except OSError as error:
            # A full disk, say: the next look may find room.
            say(str(error))
        time.sleep(LOOK_S)


if __name__ == "__main__":
    sys.exit(main())

"""Models on demand of this node: one is loaded when a door asks for it, where memory allows, and unloaded when idle.

Their engines' units are there and start at no boot; this program starts and stops them. One loads at a time. Which of
the others gives way, tenants.py decides: what serves stays. Whether one serves the kernel's table of connections says,
the same for every engine, whoever asks it. What fails in its load is tried again after a pause, when somebody asks.

Runs on the node as `ondemand.py SPEC`; ondemand.json beside it says which models there are (OnDemandSpec of
operations/wire/specs.py). What it says of them is in /run/tandem/ondemand/says.json, for `tandem status`.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import memory
import phases
import systemd
import wishes
from standing import Engine, load_s
from tenants import LEAVES, LOADED, LOADS, OUT, Tenant, over, way

if TYPE_CHECKING:
    from operations.wire.ondemand import OnDemandRow, Told
    from operations.wire.specs import OnDemandSpec

#: Seconds between two looks, where nobody asks for anything.
LOOK_S = 1.0
#: Seconds after which a wish is over that nobody has repeated: who was told to come back has done so by then.
WISH_S = 75.0
#: Seconds for systemd to begin what it was asked for.
BEGINS_S = 5.0
#: Seconds after a load that failed, doubled with each more in a row up to the most.
PAUSE_S, MOST_PAUSE_S = 60.0, 1800.0
#: Seconds within which the memory of one that has ended is there again: until then a load begins by what the plan says,
#: and its ready.sh waits for it.
RETURNS_S = 30.0
#: MiB by which the kernel may have less than the plan has counted with: another kernel keeps some more for itself.
KERNEL_MIB = 256
#: Seconds after which to ask again where nobody knows how long others will serve.
SERVES_S = 30
#: What people are told.
STATE = Path("/run/tandem/ondemand/says.json")
HERE = Path(__file__).parent


class Keeper:
    """All of them. Doors ask from threads of their own; who looks and acts is one."""

    def __init__(self, wanted: OnDemandSpec) -> None:
        self.wanted = wanted
        self.engines = {unit: Engine(unit, model) for unit, model in wanted["models"].items()}
        #: By unit, since when somebody has wanted it, the first one first.
        self.wishes: dict[str, float] = {}
        self.lock, self.asked = threading.Lock(), threading.Event()
        #: Until when memory of one that was unloaded may still come back.
        self.returns_until = -math.inf
        self.told = ""

    @property
    def tenants(self) -> list[Tenant]:
        return [each.tenant for each in self.engines.values()]

    def ask(self, unit: str, is_wanted: bool) -> Told | None:
        """How a model is, and a wish for it; None: there is none of this unit."""
        engine = self.engines.get(unit)
        if engine is None:
            return None
        with self.lock:
            now = time.monotonic()
            if is_wanted:
                engine.tenant.used = now
                if engine.tenant.state != LOADED and engine.pauses_until <= now:
                    if unit not in self.wishes:
                        self.asked.set()
                    self.wishes.setdefault(unit, now)
            return self._says(engine, now)

    def look(self) -> None:
        """Look once, and act on it. Raises OSError where systemd or the kernel does not say."""
        seen = systemd.units(list(self.engines))
        loading = [each for unit, each in self.engines.items() if each.tenant.state != LOADED and seen[unit].runs]
        loaded = {each.tenant.unit for each in loading if memory.answers(each.wanted["url"])}
        with self.lock:
            now = time.monotonic()
            for unit, engine in self.engines.items():
                self._see(engine, seen[unit], unit in loaded, now)
                if engine.tenant.state == LOADED:
                    engine.sees_connections(now)
            self._act(now)
            self._tell(now)

    def _see(self, engine: Engine, seen: systemd.Seen, answers: bool, now: float) -> None:
        """What has become of an engine since the last look."""
        tenant = engine.tenant
        if seen.active == "deactivating" and tenant.state != LEAVES:
            # It has ended, and is put away: why it has, and what comes then, is known behind that.
            if tenant.state == OUT:
                tenant.becomes(LEAVES, now)
        elif tenant.state == LEAVES:
            if seen.active in ("inactive", "failed"):
                tenant.becomes(OUT, now)
                self.returns_until = now + RETURNS_S
            elif seen.runs and now - tenant.since > BEGINS_S:
                # It was refused, or somebody has started it again.
                systemd.stop(tenant.unit)
        elif not seen.runs:
            if tenant.state == LOADED:
                say(f"{tenant.model} was stopped by somebody else")
                tenant.becomes(OUT, now)
            elif tenant.state == LOADS and (seen.active == "failed" or now - tenant.since > BEGINS_S):
                self._fails(engine, "", now)
        elif tenant.state == LOADED and seen.invocation != engine.invocation and now - tenant.used > WISH_S:
            # The guard may have ended it, for want of memory.
            self._unloads(tenant, "it has ended, and nobody asks for it", now)
        elif tenant.state == OUT or (tenant.state == LOADED and seen.invocation != engine.invocation):
            # Somebody else has started it, or systemd has after it had ended.
            self._begins(engine, seen.restarts, now)
            if answers:
                self._has_loaded(engine, seen, now)
        elif tenant.state == LOADS and seen.restarts > engine.restarts:
            self._fails(engine, "", now)
        elif tenant.state == LOADS and answers and seen.active == "active":
            self._has_loaded(engine, seen, now)
        elif tenant.state == LOADS and now - tenant.since > engine.wanted["most_s"]:
            # Its start may wait for something, and says for what: `tandem status` shows the end of its log beside this.
            self._fails(engine, f"it has not answered in {engine.wanted['most_s'] / 60:.0f} minutes", now)

    def _begins(self, engine: Engine, restarts: int, now: float) -> None:
        engine.tenant.becomes(LOADS, now)
        engine.restarts, engine.standing = restarts, {}
        engine.takes_s = load_s(engine.tenant.unit, engine.wanted)

    def _has_loaded(self, engine: Engine, seen: systemd.Seen, now: float) -> None:
        say(f"{engine.tenant.model} has loaded")
        engine.tenant.becomes(LOADED, now)
        engine.invocation, engine.failures, engine.why = seen.invocation, 0, ""
        self.wishes.pop(engine.tenant.unit, None)

    def _fails(self, engine: Engine, why: str, now: float) -> None:
        """A load has ended, or takes too long: the next one waits."""
        unit, tenant = engine.tenant.unit, engine.tenant
        began = time.time() - (now - tenant.since) - 1
        last = [each for each in phases.kept() if each["unit"] == unit and each["ended"] and each["when"] >= began]
        why = why or (last[-1]["why"] if last else f"it ended before it answered (journalctl -u {unit})")
        engine.failures += 1
        pause_s = min(PAUSE_S * 2 ** (engine.failures - 1), MOST_PAUSE_S)
        engine.why, engine.pauses_until = why, now + pause_s
        self.wishes.pop(unit, None)
        say(f"{tenant.model} did not load: {why}; again in {pause_s:g} s")
        systemd.stop(unit)
        tenant.becomes(LEAVES, now)

    def _act(self, now: float) -> None:
        self.wishes = {
            unit: since for unit, since in self.wishes.items() if now - self.engines[unit].tenant.used < WISH_S
        }
        for tenant in over(self.tenants, self._room_mib(), now):
            self._unloads(tenant, "models that stay loaded need its memory", now)
        for tenant in [each for each in self.tenants if each.is_idle(now)]:
            self._unloads(tenant, f"nobody has asked for it for {tenant.idle_s / 60:g} minutes", now)
        if any(each.state in (LOADS, LEAVES) for each in self.tenants):
            return
        for unit in list(self.wishes):
            engine = self.engines[unit]
            found = way(engine.tenant, self.tenants, self._room_mib(), self._available_mib(now), now)
            for tenant in found.gives_way:
                self._unloads(tenant, f"{engine.tenant.model} is asked for", now)
            if not found.gives_way and not found.problem:
                self._loads(engine, now)
            if not found.problem:
                return

    def _loads(self, engine: Engine, now: float) -> None:
        say(f"{engine.tenant.model} is loaded: it is asked for")
        self._begins(engine, 0, now)
        if why := systemd.start(engine.tenant.unit):
            self._fails(engine, why, now)

    def _unloads(self, tenant: Tenant, why: str, now: float) -> None:
        say(f"{tenant.model} is unloaded: {why}")
        if problem := systemd.stop(tenant.unit):
            say(problem)
            return
        tenant.becomes(LEAVES, now)

    def _room_mib(self) -> int:
        return memory.mib("MemTotal") + KERNEL_MIB - self.wanted["floor_mib"] - self.wanted["stay_mib"]

    def _available_mib(self, now: float) -> int:
        return self._room_mib() if now < self.returns_until else memory.mib("MemAvailable") - self.wanted["floor_mib"]

    def _says(self, engine: Engine, now: float) -> Told:
        """How a model is, for a door."""
        tenant, takes_s = engine.tenant, engine.left_s(now)
        if tenant.state == LOADED:
            return {"state": "loaded", "after_s": 0, "says": "is loaded"}
        if tenant.state == LOADS:
            so_far = f"{now - tenant.since:.0f} s of about {engine.takes_s:.0f}"
            return {"state": "waits", "after_s": takes_s, "says": f"{tenant.model} loads: {so_far} s"}
        if engine.pauses_until > now:
            after_s = math.ceil(engine.pauses_until - now)
            says = f"{tenant.model} did not load, `tandem status` says why; the next try is in {_minutes(after_s)}"
            return {"state": "failed", "after_s": after_s, "says": says}
        if tenant.unit not in self.wishes and tenant.state == OUT:
            return {"state": "no", "after_s": takes_s, "says": f"{tenant.model} is loaded when somebody asks for it"}
        for other in self.engines.values():
            if other.tenant.state in (LOADS, LEAVES):
                does = "loads before it" if other.tenant.state == LOADS else "is unloaded first"
                after_s = takes_s + (other.left_s(now) if other.tenant.state == LOADS else 0)
                model = other.tenant.model if other is not engine else "it"
                return {"state": "waits", "after_s": after_s, "says": f"{tenant.model} waits: {model} {does}"}
        found = way(tenant, self.tenants, self._room_mib(), self._available_mib(now), now)
        if found.problem:
            # What only rests not long enough yet is waited for.
            waits = found.for_s is not None
            after_s = math.ceil(found.for_s or 0) + takes_s if waits else SERVES_S
            return {"state": "waits" if waits else "no", "after_s": after_s, "says": found.problem}
        return {"state": "waits", "after_s": takes_s, "says": f"{tenant.model} is about to load"}

    def _tell(self, now: float) -> None:
        """For people: written when it changes."""
        rows: Mapping[str, OnDemandRow] = {
            unit: {"state": each.tenant.state, "says": _in_words(each, now)} for unit, each in self.engines.items()
        }
        if (text := json.dumps({"models": rows}, indent=1)) != self.told:
            STATE.parent.mkdir(parents=True, exist_ok=True)
            aside = STATE.with_suffix(".part")
            aside.write_text(text)
            aside.rename(STATE)
            self.told = text


def _minutes(seconds: int) -> str:
    minutes = math.ceil(seconds / 60)
    return f"{minutes} minute{'s' if minutes > 1 else ''}"


def _in_words(engine: Engine, now: float) -> str:
    tenant = engine.tenant
    if tenant.state in (OUT, LEAVES) and engine.pauses_until > now:
        return f"did not load: {engine.why}"
    words = {OUT: "not loaded: a request loads it", LOADS: "loads: it is asked for", LEAVES: "is unloaded"}
    return words.get(tenant.state, f"loaded on demand, until it is idle for {tenant.idle_s / 60:g} minutes")


def say(text: str) -> None:
    """One line for the journal."""
    print(f"tandem: {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Listen and look, for ever."""
    wanted: OnDemandSpec = json.loads((HERE / "ondemand.json").read_text())
    keeper = Keeper(wanted)
    # What is loaded is known before the first one asks.
    with suppress(OSError):
        keeper.look()
    try:
        server = wishes.server(wanted["address"], wanted["port"], Path(wanted["key"]), keeper.ask)
    except OSError as error:
        say(f"{wanted['address']}:{wanted['port']}: {error.strerror}")
        return 1
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        try:
            keeper.look()
        except OSError as error:
            # A full disk, or a systemd that is slow to say: the next look may see.
            say(str(error))
        keeper.asked.wait(LOOK_S)
        keeper.asked.clear()


if __name__ == "__main__":
    sys.exit(main())

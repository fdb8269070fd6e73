"""What Tandem knows of this node, as samples: units, what canary and fallback say, what serves, and the machine itself.

Asked for (`facts` of exporter.json): `units`; `store`, a folder; `rails`, device names; `floor_mib` of the guard;
`starts` that systemd allows an engine; `plans`: `recipe`, `topology`, `model`, `spec` and `unit` of each model that the
plan has here; `certificate`, a file or nothing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import machine
import phases
from background_call import BackgroundCall
from text import Sample

if TYPE_CHECKING:
    from operations.wire.specs import ExporterFacts, PlanRow

RUN = Path("/run/tandem")
SERVED = Path("/var/lib/tandem/served.json")
LOCK = Path("/run/tandem.lock")
LOCKS = Path("/proc/locks")
UNIT_FILES = Path("/etc/systemd/system")
#: Seconds for a word with systemd or openssl.
WORD_S = 5.0
#: Seconds after which what the canary has written is a dead one's: it touches its file every second.
CANARY_S = 60.0
#: Where a unit's file says which spec it is of.
_SPEC = re.compile(r"(?:\.py |ready\.sh |tandem\.spec=)([0-9a-f]{16})\b")
_PROPERTIES = "Id,LoadState,ActiveState,NRestarts,ActiveEnterTimestampMonotonic"


class Facts:
    """Everything that can be said. Each part is asked by itself: a disk or a systemd that hangs takes only its own
    along.
    """

    def __init__(self, wanted: ExporterFacts) -> None:
        self._parts = [BackgroundCall(partial(_whole, part)) for part in _parts(wanted)]

    def begin(self) -> None:
        """Ask all of them, at once."""
        for part in self._parts:
            part.begin()

    def samples(self, until: float) -> list[Sample]:
        """What has come; a part that has not is counted, and so is one that can't be had."""
        found, failed = list[Sample](), 0
        for part in self._parts:
            try:
                found += part.answer(until)
            except (OSError, ValueError, KeyError, TypeError, AttributeError, subprocess.SubprocessError):
                failed += 1
        return [*found, Sample("exporter_failed", "Parts of this answer that could not be had.", float(failed))]


def _whole(part: Callable[[], Iterator[Sample]]) -> list[Sample]:
    return list(part())


def _parts(wanted: ExporterFacts) -> list[Callable[[], Iterator[Sample]]]:
    smi = machine.Smi()
    return [
        lambda: _plan(wanted),
        lambda: _units(wanted["units"], wanted["starts"], models_of(wanted["plans"])),
        lambda: _proven(wanted["units"], models_of(wanted["plans"])),
        lambda: _starts(wanted["plans"]),
        _canary,
        _alone,
        _deploy,
        lambda: _certificate(wanted["certificate"]),
        lambda: machine.memory(wanted["floor_mib"]),
        lambda: machine.disks(["/", wanted["store"]]),
        lambda: machine.rails(wanted["rails"]),
        smi.samples,
    ]


def _plan(wanted: ExporterFacts) -> Iterator[Sample]:
    for labels in wanted["plans"]:
        yield Sample("plan_info", "What is declared for this node.", 1.0, cast("dict[str, str]", labels))
    if plans := json.loads(SERVED.read_text()) if SERVED.exists() else []:
        when = datetime.strptime(plans[-1]["when"], "%Y-%m-%d %H:%M").astimezone().timestamp()
        yield Sample("plan_served_timestamp_seconds", "When a deploy last saw a plan serve.", when)


def models_of(plans: list[PlanRow]) -> dict[str, str]:
    """unit of an engine -> what clients call its model."""
    return {each["unit"]: each["model"] for each in plans}


def _labels(unit: str, models: dict[str, str]) -> dict[str, str]:
    """An alarm of an engine's unit names its model by them."""
    return {"unit": unit, "model": models[unit]} if unit in models else {"unit": unit}


def _units(units: list[str], starts: int, models: dict[str, str]) -> Iterator[Sample]:
    names = [f"{unit}.service" for unit in units]
    argv = ["systemctl", "show", *names, f"--property={_PROPERTIES}"]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=WORD_S, check=True).stdout
    yield Sample("engine_starts_allowed", "Starts in a row after which an engine stays down.", float(starts))
    for block in said.strip().split("\n\n"):
        unit = dict(line.split("=", 1) for line in block.splitlines())
        if unit["LoadState"] == "not-found":
            continue
        labels = _labels(unit["Id"].removesuffix(".service"), models)
        state = unit["ActiveState"]
        yield Sample("unit_active", "Whether a unit runs.", float(state == "active"), labels)
        yield Sample("unit_failed", "Whether a unit has given up.", float(state == "failed"), labels)
        yield Sample("unit_restarts", "Starts again in a row.", float(unit["NRestarts"] or 0), labels)
        if state == "active":
            entered = int(unit["ActiveEnterTimestampMonotonic"]) / 1e6
            since = time.time() - time.monotonic() + entered
            yield Sample("unit_active_since_seconds", "Since when it runs.", round(since), labels)
            # It tells this start from another one: what the clock says of the same start changes with the clock.
            text = "Seconds from the boot until it ran."
            yield Sample("unit_active_after_boot_seconds", text, entered, labels)


def _proven(units: list[str], models: dict[str, str]) -> Iterator[Sample]:
    """A deploy that fails leaves units of a plan that has never served."""
    plans = json.loads(SERVED.read_text()) if SERVED.exists() else []
    if not plans or "services" not in plans[-1]:
        return
    served = {unit.get("spec") for units in plans[-1]["services"].values() for unit in units.values()}
    for unit in units:
        file = UNIT_FILES / f"{unit}.service"
        if file.exists() and (spec := _SPEC.search(file.read_text())):
            text = "Whether a unit is as the plan that served last has it."
            yield Sample("unit_proven", text, float(spec[1] in served), _labels(unit, models))


def _starts(plans: list[PlanRow]) -> Iterator[Sample]:
    """Seconds of each engine's last start that came to serve, by phase, and of its longest one."""
    kept = phases.kept()
    for plan in plans:
        labels = {"unit": plan["unit"], "model": plan["model"]}
        if known := phases.served(kept, plan["unit"], plan["spec"]):
            for name, seconds in known[-1]["phases"].items():
                text = "How long a phase of the engine's last start took."
                yield Sample("start_seconds", text, seconds, {**labels, "phase": name})
            text = "How long the engine's last start took, without the wait for others."
            yield Sample("start_last_seconds", text, phases.loading_s(known[-1]["phases"]), labels)
            text = "How long the longest start took that is kept of this plan."
            for seconds in phases.longest(known).values():
                yield Sample("start_longest_seconds", text, seconds, labels)
            if (rate := phases.rate(known[-1])) is not None:
                text = "GiB a second at which the weights were loaded in the last start."
                yield Sample("start_weights_gib_per_second", text, rate, labels)


def _canary() -> Iterator[Sample]:
    file = RUN / "canary.json"
    seen = _read(file)
    if seen and abs(time.time() - file.stat().st_mtime) > CANARY_S:
        # It is dead, and sees nothing any more. Whom it has killed stays true.
        seen = {"killed": seen.get("killed", {})}
    for what in seen.get("works", []):
        yield Sample("works", "What the canary has seen a sign of life of lately.", 1.0, {"of": what})
    for what, why in seen.get("problems", {}).items():
        yield Sample("problem", "What the canary holds against it.", 1.0, {"of": what, "why": why})
    for why in seen.get("rails", []):
        yield Sample("problem", "What the canary holds against it.", 1.0, {"of": "rails", "why": why})
    for node in seen.get("away", {}):
        yield Sample("node_away", "A node with another rank that does not answer.", 1.0, {"node": node})
    for what, text in seen.get("killed", {}).items():
        when = datetime.strptime(text[:19], "%Y-%m-%d %H:%M:%S").astimezone().timestamp()
        yield Sample(
            "killed_timestamp_seconds", "When the canary killed it last.", when, {"of": what, "why": text[20:]}
        )


def _alone() -> Iterator[Sample]:
    if says := _read(RUN / "fallback.json"):
        labels = {"why": str(says.get("says", ""))}
        yield Sample("alone", "Whether this node serves in the place of a cluster.", float(bool(says["alone"])), labels)


def _deploy() -> Iterator[Sample]:
    """Who has the lock: the kernel's list says so, and to try it would be to take it. Another disk has a file of the
    same number.
    """
    if not LOCK.exists():
        return
    file = LOCK.stat()
    mine = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    # One that waits for it has an arrow more in its line.
    held = any(mine in line.split() for line in LOCKS.read_text().splitlines())
    yield Sample("deploy_under_way", "Whether a deploy or a bench has this head.", float(held))


def _certificate(path: str) -> Iterator[Sample]:
    if not path or not Path(path).exists():
        return
    argv = ["openssl", "x509", "-noout", "-enddate", "-in", path]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=WORD_S, check=True).stdout
    ends = datetime.strptime(said.partition("=")[2].strip(), "%b %d %H:%M:%S %Y GMT").replace(tzinfo=timezone.utc)
    yield Sample(
        "certificate_ends_timestamp_seconds", "Until when clients take the proxy's certificate.", ends.timestamp()
    )


def _read(path: Path) -> dict[str, Any]:
    """What another program writes whole; nothing where there is none."""
    found = json.loads(path.read_text()) if path.exists() else {}
    return found if isinstance(found, dict) else {}

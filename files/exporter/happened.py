"""What happened on this node, out of what is kept here anyway: plans that have served, and the units' own lines.

`GET /events.json`: {"events": [{when, kind, text}]}, the newest first. Everybody on the fabric may read it: it has
names of knobs, and values only where those are plain words.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from operations.wire.page import Event

SERVED = Path("/var/lib/tandem/served.json")
LOCK = Path("/run/tandem.lock")
#: Seconds for journalctl, for which its answer is good, and days that are looked back.
JOURNAL_S, GOOD_S, DAYS = 5.0, 15.0, 14
#: Events that are told.
MOST = 60
#: Knobs whose values say what was chosen, and nothing of the owner's.
_PLAIN = ("recipe", "topology", "executor", "fallback", "monitoring", "routing", "rollback", "proxy_port")
#: Units whose lines begin with `tandem: ` and are few.
_SAYING = {
    "tandem-canary": "canary",
    "tandem-guard": "guard",
    "tandem-fallback": "fallback",
    "tandem-ondemand": "on demand",
}
#: systemd's own messages of a unit: one that failed, and one that is started again.
_OF_SYSTEMD = ("d9b373ed55a64feb8242e02dbe79a49c", "5eb03494b6584870a536b337290809b3")

_kept: tuple[float, bytes] = (0.0, b"")


def as_json() -> bytes:
    """All of them; who asks again soon gets the same. A source that can't be read is left out."""
    global _kept
    if _kept[1] and time.monotonic() - _kept[0] < GOOD_S:
        return _kept[1]
    found: list[Event] = []
    for source in (_deploys, _journal):
        try:
            found += source()
        except (OSError, ValueError, KeyError, TypeError, AttributeError, subprocess.SubprocessError):
            continue
    newest = sorted(found, key=lambda each: -float(each["when"]))[:MOST]
    _kept = (time.monotonic(), json.dumps({"events": newest}).encode())
    return _kept[1]


def _deploys() -> Iterator[Event]:
    plans = json.loads(SERVED.read_text()) if SERVED.exists() else []
    for older, plan in zip([None, *plans], plans, strict=False):
        when = datetime.strptime(plan["when"], "%Y-%m-%d %H:%M").astimezone().timestamp()
        knobs = plan["knobs"]
        text = _serves(knobs)
        if older:
            changes = list(_changes(older["knobs"], knobs))
            text += f"; changed: {', '.join(changes) or 'no knob'}"
        yield {"when": when, "kind": "deploy", "text": text}
    if LOCK.exists() and (last := json.loads(LOCK.read_text() or "{}")):
        # The zone's name is this node's own.
        when = datetime.strptime(last["since"][:19], "%Y-%m-%d %H:%M:%S").astimezone().timestamp()
        text = f"{last.get('what', 'deploy')} begun by {last['owner']}"
        yield {"when": when, "kind": "lock", "text": text}


def _serves(knobs: Mapping[str, Any]) -> str:
    """What serves, in words, by each model's name. Where a model does not say a knob, the general one counts."""
    models = {name: {**knobs, **words} for name, words in knobs.get("models", {}).items()} or {"": {**knobs}}
    said = [
        f"{f'{name}: ' if name else ''}{words.get('recipe', '?')}, {words.get('topology', '?')}"
        for name, words in models.items()
    ]
    return f"{'; '.join(said)} {'serves' if len(said) == 1 else 'serve'}"


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    old, new = _flat(old), _flat(new)
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            is_plain = name.rpartition(".")[2] in _PLAIN
            yield f"{name} {old.get(name)} → {new.get(name)}" if is_plain else name


def _flat(knobs: Mapping[str, Any]) -> dict[str, object]:
    """With each model's words as knobs of their own, named as for `--data`."""
    found = {name: value for name, value in knobs.items() if name != "models"}
    for model, words in knobs.get("models", {}).items():
        found |= {f"models.{model}.{word}": value for word, value in words.items()}
    return found


def _journal() -> Iterator[Event]:
    """By matches that the journal has an index of: an engine's own lines are many. `--unit` is held against systemd's
    messages as well, whatever Tandem's units are called: another unit that restarts for ever has no place here.
    `--reverse`: with a time since when, journalctl would give the oldest lines of all.
    """
    matches = [word for unit in _SAYING for word in (f"_SYSTEMD_UNIT={unit}.service", "+")]
    matches += [word for each in _OF_SYSTEMD for word in (f"MESSAGE_ID={each}", "+")]
    argv = ["journalctl", "--quiet", "--no-pager", "-o", "json", "-n", "400", "--reverse", f"--since=-{DAYS}d"]
    argv += ["--unit=tandem-*.service", *matches[:-1]]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=JOURNAL_S, check=True).stdout
    for line in said.splitlines():
        entry = json.loads(line)
        unit = str(entry.get("UNIT") or entry.get("_SYSTEMD_UNIT", "")).removesuffix(".service")
        text = entry.get("MESSAGE")
        if not unit.startswith("tandem-") or not isinstance(text, str):
            continue
        if "MESSAGE_ID" in entry:
            kind = "restart"
        elif text.startswith("tandem: "):
            kind, text = _SAYING.get(unit, "unit"), text.removeprefix("tandem: ")
        else:
            continue
        yield {"when": int(entry["__REALTIME_TIMESTAMP"]) / 1e6, "kind": kind, "text": f"{unit}: {text}"[:300]}

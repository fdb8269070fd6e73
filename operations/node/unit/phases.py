"""What a start of an engine is at, and what starts have taken: read in its log by marks, kept on the node as JSON.

The marks are the engine's class's (operations/plan/engines/starts.py); this knows no engine. It lands beside the
engine too, where starts.py imports it by its name, so it imports nothing of Tandem's.
"""

from __future__ import annotations

import fcntl
import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operations.wire.starts import Mark, Phases, Start

#: The last starts of all engines here, the newest last.
KEPT = Path("/var/lib/tandem/starts.json")
#: Starts that are kept of one plan, and in all. The longest of a plan is the last of it that goes.
OF_A_PLAN, IN_ALL = 8, 60
#: Seconds for the journal.
JOURNAL_S = 30
#: What an engine does not do in its load: it waits for other ranks, or for its turn.
WAITS = "meeting"
#: Seconds that no start takes: such a one was measured by a clock that somebody has set.
NO_START_S = 6 * 3600.0
#: What an entry of the file has, or it is none: words, and numbers below a bound that any date stays below.
_WORDS, _NUMBERS = ("unit", "spec", "recipe", "loader", "ended", "why", "blamed"), ("when", "gib", "read_gib")
_BOUND = 1e11
#: Characters of a line that are looked at.
LINE = 2_000


def read(lines: Iterable[tuple[float, str]], marks: Sequence[Mark], began: float, until: float) -> Phases:
    """The phases of a start, from its lines with their times; all times are seconds by one clock.

    A line that matches a mark ends a phase and begins another. The time since the last such line belongs to the phase
    `was` of the mark, else to the one that ends. Some lines tell afterwards how long a phase took: the pattern's group
    `s` catches those seconds, and only they belong to `was`.
    """
    found: Phases = {"phases": {}, "now": "container", "since": began, "spans": [], "gib": 0.0, "loader": ""}
    compiled = [(re.compile(mark["pattern"]), mark) for mark in marks]

    def add(name: str, first: float, last: float) -> None:
        if last > first:
            found["phases"][name] = found["phases"].get(name, 0.0) + last - first
            found["spans"].append((name, first, last))

    cut = began
    for when, line in lines:
        said = next(((hit, mark) for pattern, mark in compiled if (hit := pattern.search(line[:LINE]))), None)
        if said is None:
            continue
        hit, mark = said
        # No line takes time back: the first ones may be older than the mark of the start.
        now, groups = min(max(when, cut), max(until, cut)), hit.groupdict()
        was = mark.get("was") or found["now"]
        took = min(float(groups["s"]), now - cut) if groups.get("s") else now - cut
        add(found["now"], cut, now - took)
        add(was, now - took, now)
        then = mark.get("then") or found["now"]
        if then != found["now"]:
            found["since"] = now
        cut, found["now"] = now, then
        found["gib"] = max(found["gib"], float(groups.get("gib") or 0.0))
        found["loader"] = groups.get("loader") or found["loader"]
    add(found["now"], cut, until)
    return found


def loading_s(phases: Mapping[str, float]) -> float:
    """Seconds of a start without those in which it waited for others."""
    return sum(seconds for name, seconds in phases.items() if name != WAITS)


def journal(invocation: str) -> list[tuple[float, str]]:
    """What a start of this boot has logged, with times (time.monotonic); nothing where the journal has none of it."""
    argv = ["journalctl", f"_SYSTEMD_INVOCATION_ID={invocation}", "--no-pager", "--all", "--quiet", "--output=json"]
    argv.append("--output-fields=MESSAGE")
    try:
        told = subprocess.run(argv, capture_output=True, timeout=JOURNAL_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    return lines_of(told.decode(errors="replace").splitlines())


def lines_of(entries: Iterable[str]) -> list[tuple[float, str]]:
    """Lines with times from the journal's JSON, by the clock that nobody can set. A progress bar comes as bytes, and
    overwrites itself: its last word counts, and its first one, which says when it began.
    """
    found: list[tuple[float, str]] = []
    for entry in entries:
        try:
            said = json.loads(entry)
            when, text = int(said["__MONOTONIC_TIMESTAMP"]) / 1e6, said.get("MESSAGE") or ""
            words = bytes(text).decode(errors="replace") if isinstance(text, list) else str(text)
        except (ValueError, KeyError, TypeError):
            continue
        found += [(when, part) for part in words.split("\r") if part.strip()]
    return found


def kept(path: Path = KEPT) -> list[Start]:
    """The starts that are kept, the oldest first; none where there is no file, or a broken one. An entry that somebody
    has broken is left out by itself.
    """
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return []
    return [each for each in found if _is_whole(each)] if isinstance(found, list) else []


def keep(start: Start, path: Path = KEPT) -> None:
    """One more start: the file is written aside and renamed, and engines that write at once wait for each other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        starts = bounded([*kept(path), start])
        aside = path.with_suffix(".part")
        aside.write_text(json.dumps(starts, indent=1))
        # Why a start has failed is a line of the engine's log, which is not everybody's to read.
        aside.chmod(0o600)
        aside.rename(path)


def bounded(starts: Sequence[Start]) -> list[Start]:
    """Without the oldest starts beyond the bounds of one plan, and of all.

    A plan's longest start stays, and its newest one that is held against a loader: the next start goes by both.
    """
    plans: dict[tuple[str, str], list[Start]] = {}
    for each in starts:
        plans.setdefault((each["unit"], each["spec"]), []).append(each)
    # By identity: two starts may be alike in all that is kept of them.
    stays, gone = set[int](), set[int]()
    for mine in plans.values():
        marked = [max(mine, key=_took), *[each for each in mine if each["blamed"]][-1:]]
        stays |= set(map(id, marked))
        gone |= set([id(each) for each in mine if id(each) not in stays][: max(0, len(mine) - OF_A_PLAN)])
    left = [each for each in starts if id(each) not in gone]
    others = [each for each in left if id(each) not in stays]
    over = [each for each in left if id(each) in stays]
    gone = set(map(id, [*others, *over][: max(0, len(left) - IN_ALL)]))
    return [each for each in left if id(each) not in gone]


def _is_whole(entry: object) -> bool:
    """Whether it has all that a start has, so that nobody who reads it has to look."""
    if not isinstance(entry, dict) or not isinstance(entry.get("phases"), dict):
        return False
    numbers = [*(entry.get(name) for name in _NUMBERS), *entry["phases"].values()]
    # NaN and Infinity are numbers to Python's JSON.
    is_timed = all(isinstance(each, int | float) and 0 <= each < _BOUND for each in numbers)
    return is_timed and all(isinstance(entry.get(name), str) for name in _WORDS)


def _took(start: Start) -> float:
    """Seconds of a start that has come to serve; 0: it has not, or nobody knows."""
    seconds = loading_s(start["phases"])
    return 0.0 if start["ended"] or seconds >= NO_START_S else seconds


def served(starts: Iterable[Start], unit: str, spec: str) -> list[Start]:
    """Those of one plan that have come to serve, the oldest first."""
    return [each for each in starts if each["unit"] == unit and each["spec"] == spec and not each["ended"]]


def longest(starts: Iterable[Start]) -> dict[str, float]:
    """spec -> seconds of the longest start that has come to serve."""
    found: dict[str, float] = {}
    for each in starts:
        if seconds := _took(each):
            found[each["spec"]] = max(found.get(each["spec"], 0.0), seconds)
    return found


def left(now: Phases, before: Sequence[Start]) -> float | None:
    """Seconds until it serves, if it goes on as the last start of the same plan did; None: it takes longer already, or
    none is known.
    """
    last = before[-1]["phases"] if before else {}
    if now["now"] not in last:
        return None
    order = list(last)
    # Phases can come several times (a draft's weights): what is left of each counts.
    coming = order[order.index(now["now"]) :]
    seconds = sum(max(last[name] - now["phases"].get(name, 0.0), 0.0) for name in coming if name != WAITS)
    return seconds if seconds >= 1 else None


def rate(start: Start) -> float | None:
    """GiB a second at which the weights were loaded; None: it is not known."""
    seconds = start["phases"].get("weights", 0.0)
    return start["gib"] / seconds if start["gib"] and seconds else None

"""The last starts of the engines on this node, and how far those are that are under way."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from operations.node.commands import read
from operations.node.unit import phases
from operations.paths import folder_of
from operations.wire.starts import Began, Phases, Start, StartSpec, StartsTold

RUN = Path("/run/tandem")
#: Phases in sentences.
WORDS = {
    "container": "its container is made",
    "meeting": "it waits for the other ranks, or for its turn",
    "imports": "its programs are read, and its devices prepared",
    "weights": "the weights are loaded",
    "compile": "kernels are compiled",
    "autotune": "kernels are tuned",
    "graphs": "CUDA graphs are captured",
    "warm-up": "it warms up",
    "server": "its server begins",
}


def main(only: Sequence[str] = ()) -> StartsTold:
    """`starts`: those that are kept, the oldest first; `under_way`: unit -> how far its start is, in words. `only`:
    units; empty: all.
    """
    starts = [each for each in phases.kept() if not only or each["unit"] in only]
    marks = [f"tandem-{mark.name.removesuffix('.start.json')}" for mark in sorted(RUN.glob("*.start.json"))]
    said = {unit: text for unit in marks if (not only or unit in only) and (text := under_way(unit, starts))}
    return {"starts": starts, "under_way": said}


def under_way(unit: str, starts: Sequence[Start] | None = None) -> str:
    """How far an engine's start is: its phase, since when, what is left by the last start of the same plan; empty: none
    goes on.
    """
    try:
        begun: Began = json.loads(read(RUN / f"{unit.removeprefix('tandem-')}.start.json"))
        spec: StartSpec = json.loads(read(Path(folder_of(unit)) / "starts.json"))
        lines, now = phases.journal(begun["invocation"]), time.monotonic()
        seen = phases.read(lines, spec["marks"], begun["since"], now)
        before = phases.served(phases.kept() if starts is None else starts, unit, begun["spec"])
        return sentence(seen, before, begun["since"], now)
    except (ValueError, KeyError, TypeError):
        return ""


def sentence(seen: Phases, before: Sequence[Start], began: float, now: float) -> str:
    """`starts since 1 min 20 s: the weights are loaded, since 40 s; about 2 min 10 s left, as it took last time`."""
    phase = WORDS.get(seen["now"], seen["now"])
    text = f"starts since {lasting(now - began)}: {phase}, since {lasting(now - seen['since'])}"
    if seen["loader"]:
        text += f" (by {seen['loader']})"
    if not before:
        return f"{text}; how long that takes is not known: no start of this plan is kept"
    usual = lasting(phases.loading_s(before[-1]["phases"]))
    rest = phases.left(seen, before)
    return (
        f"{text}; about {lasting(rest)} left, as the last start took {usual}"
        if rest
        else f"{text}; the last took {usual}"
    )


def lasting(seconds: float) -> str:
    """`2 min 5 s`."""
    whole = round(seconds)
    minutes = f"{whole // 60} min " if whole >= 60 else ""
    return f"{minutes}{whole % 60} s"

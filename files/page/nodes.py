"""How a node and its engines are, in a word and a sentence, by what its exporter says."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asking import Heard
from reading import Reading
from words import clock, minutes, share

if TYPE_CHECKING:
    from operations.wire.specs import PageModel

#: Words for a node, the first that is true.
DEAD, ALONE, PROBLEM, STARTING, OK = "dead", "alone", "problem", "starting", "ok"
#: An engine that is started when somebody asks for its model.
RESTS = "rests"
#: An engine that loads for so many times the minutes that it takes, and so many minutes more, hangs.
FAR, FAR_MINUTES = 2.0, 10.0
#: How the canary (files/canary/watch.py, engine.py) begins what it says of an engine that starts.
WAITS, LOADS = "waits ", "has not answered yet "


@dataclass(frozen=True)
class Engine:
    """A model's part on a node. `state`: answers, rank, lacks (a node that it needs), starts, waits, silent, gave-up,
    rests, unknown; `does`: what, behind what it is. `progress`: the share of its load that is over; None: it does not
    load, or it waits for another node.
    """

    model: str
    source: str
    state: str
    since: float | None = None
    does: str = ""
    progress: float | None = None
    #: Whether some engine of the model answers: a rank alone can't say whether it has started.
    served: bool = False

    @property
    def sentence(self) -> str:
        return self._said("")

    @property
    def named(self) -> str:
        """The same, where there are other models."""
        return self._said(f" of {self.model}")

    def _said(self, whose: str) -> str:
        if not self.does:
            return ""
        return f"{'a rank of the engine' if self.state == 'rank' else 'its engine'}{whose} {self.does}"

    @property
    def word(self) -> str:
        if self.state in ("gave-up", "silent", "waits", "lacks"):
            return PROBLEM
        return STARTING if self.state == "starts" or (self.state == "rank" and not self.served) else OK


class Watch:
    """What has to be remembered of engines: one that has answered and does not is no longer one that starts. A start is
    known by its time since the boot: what the clock says of it changes with the clock.
    """

    def __init__(self) -> None:
        self._answered: dict[tuple[str, str], float | None] = {}
        #: When each start has been seen to wait for other ranks last: its loading begins there.
        self._waited: dict[tuple[str, str], tuple[float | None, float]] = {}

    def engine(self, model: PageModel, heard: Heard) -> Engine:
        """A model's on a node that it lies on. `since`: when its unit was started."""
        unit: str = model["unit"]
        name, source, key = model["model"], unit.removeprefix("tandem-"), (unit, heard.name)
        said = heard.reading
        if said is None or heard.silent_since:
            return Engine(name, source, "unknown")
        since = said.one("tandem_unit_active_since_seconds", unit=unit)
        if said.one("tandem_unit_failed", unit=unit):
            return Engine(name, source, "gave-up", None, "has given up: `tandem status` says why")
        if not said.one("tandem_unit_active", unit=unit) and model.get("on_demand"):
            return Engine(name, source, RESTS, None, "is not loaded: a request loads it")
        if not said.one("tandem_unit_active", unit=unit):
            return Engine(name, source, "waits", None, "does not run, or waits for its start")
        at = f" since {clock(since)}" if since else ""
        start = said.one("tandem_unit_active_after_boot_seconds", unit=unit)
        if said.one("tandem_source_up", source=source):
            self._answered[key] = start
            return Engine(name, source, "answers", since, f"runs{at} and answers")
        waits = next((why for of, why in _held(said) if of == source and why.startswith(WAITS)), "")
        if heard.name not in model["answers"] and not said.one("tandem_alone"):
            return Engine(name, source, "rank", since, waits or f"runs here{at}")
        if waits:
            self._waited[key] = (start, time.monotonic())
        has_answered = key in self._answered and self._answered[key] == start
        # What the last start of this plan took says more than its recipe.
        last, longest = (said.one(f"tandem_start_{which}_seconds", unit=unit) for which in ("last", "longest"))
        takes, most = round((last or 0) / 60, 1) or model["load_minutes"], (longest or 0) / 60 or model["load_minutes"]
        if has_answered or (since and not waits and self._is_far(key, start, since, most)):
            return Engine(name, source, "silent", since, f"runs{at} and does not answer")
        if waits or not since:
            return Engine(name, source, "starts", since, waits or "starts")
        return Engine(name, source, "starts", since, f"starts, {minutes(since, takes)}", share(since, takes))

    def _is_far(self, key: tuple[str, str], start: float | None, since: float, load_minutes: float) -> bool:
        """Whether it has loaded for longer than any start: so a page that has just begun, and has not seen it answer,
        calls what hangs by its name.
        """
        loads_s = time.time() - since
        of, waited = self._waited.get(key, (None, 0.0))
        if of is not None and of == start:
            loads_s = min(loads_s, time.monotonic() - waited)
        return loads_s > 60 * max(FAR * load_minutes, load_minutes + FAR_MINUTES)


def node_state(heard: Heard, engines: Sequence[Engine], others: Sequence[Engine], are_named: bool) -> tuple[str, str]:
    """Word and sentence of a node as far as these of its engines go; what is held against `others` is left out. The
    word is that of the worst; `are_named`: the sentence says which model each is of.
    """
    if heard.reading is None or heard.silent_since:
        since = heard.silent_since
        return DEAD, f"does not answer since {clock(since)}" if since else "has not been asked yet"
    worst_first = sorted(engines, key=lambda each: (PROBLEM, STARTING, OK).index(each.word))
    sentence = "; ".join(each.named if are_named else each.sentence for each in worst_first)
    says = next((labels["why"] for labels, value in heard.reading.all("tandem_alone") if value), "")
    if heard.reading.one("tandem_alone"):
        return ALONE, f"serves in the place of the cluster ({says}); {sentence}"
    words = {each.word for each in engines}
    if PROBLEM in words:
        return PROBLEM, sentence
    if problems := problems_of(heard.reading, [each.source for each in others]):
        return PROBLEM, f"{problems[0]}; {sentence}"
    return STARTING if STARTING in words else OK, sentence


def _held(said: Reading) -> list[tuple[str, str]]:
    """What the canary holds against which of its parts."""
    found = [labels for labels, _ in said.all("tandem_problem") if {"of", "why"} <= {*labels}]
    return [(labels["of"], labels["why"]) for labels in found]


def problems_of(said: Reading, but: Sequence[str]) -> list[str]:
    """What the canary holds against its parts, nodes that it misses, and rails without a carrier. That an engine which
    starts does not answer yet is no fault.
    """
    found = [f"{of}: {why}" for of, why in _held(said) if of not in but and not why.startswith((WAITS, LOADS))]
    found += [f"{labels.get('node', '?')} does not answer it" for labels, _ in said.all("tandem_node_away")]
    down = [labels.get("device", "?") for labels, value in said.all("tandem_rail_carrier") if not value]
    return found or [f"no carrier on the rail {device}" for device in down]

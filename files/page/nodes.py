"""How a node and its engine are, in a word and a sentence, by what its exporter says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from asking import Heard
from reading import Reading
from words import clock, minutes

ENGINE = "tandem-engine"
#: Words for a node, the first that is true.
DEAD, ALONE, PROBLEM, STARTING, OK = "dead", "alone", "problem", "starting", "ok"


@dataclass(frozen=True)
class Engine:
    """Of a node. `state`: answers, rank, starts, waits, silent, gave-up, unknown."""

    state: str
    since: float | None = None
    sentence: str = ""


class Watch:
    """What has to be remembered of nodes: an engine that has answered and does not is no longer one that starts."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        self._minutes = wanted.get("load_minutes")
        self._answers: list[str] = wanted["answers"]
        self._answered: dict[str, float | None] = {}

    def engine(self, heard: Heard) -> Engine:
        """`since`: when its unit was started."""
        said = heard.reading
        if said is None or heard.silent_since:
            return Engine("unknown")
        since = said.one("tandem_unit_active_since_seconds", unit=ENGINE)
        if said.one("tandem_unit_failed", unit=ENGINE):
            return Engine("gave-up", None, "its engine has given up: `make status` says why")
        if not said.one("tandem_unit_active", unit=ENGINE):
            return Engine("waits", None, "its engine does not run, or waits for its start")
        at = f" since {clock(since)}" if since else ""
        if said.one("tandem_source_up", source="engine"):
            self._answered[heard.name] = since
            return Engine("answers", since, f"its engine runs{at} and answers")
        if heard.name not in self._answers and not said.one("tandem_alone"):
            return Engine("rank", since, f"a rank of the engine runs here{at}")
        if heard.name in self._answered and self._answered[heard.name] == since:
            return Engine("silent", since, f"its engine runs{at} and does not answer")
        far = f", {minutes(since, self._minutes)}" if since else ""
        return Engine("starts", since, f"its engine starts{far}")

    def node(self, heard: Heard, engine: Engine, served: bool) -> tuple[str, str]:
        """Word and sentence. `served`: some engine answers: a rank alone can't say whether it has started."""
        if heard.reading is None or heard.silent_since:
            since = heard.silent_since
            return DEAD, f"does not answer since {clock(since)}" if since else "has not been asked yet"
        says = next((labels["why"] for labels, value in heard.reading.all("tandem_alone") if value), "")
        if heard.reading.one("tandem_alone"):
            return ALONE, f"serves in the place of the cluster ({says}); {engine.sentence}"
        if engine.state in ("gave-up", "silent", "waits"):
            return PROBLEM, engine.sentence
        if problems := problems_of(heard.reading):
            return PROBLEM, f"{problems[0]}; {engine.sentence}"
        if engine.state == "starts" or (engine.state == "rank" and not served):
            return STARTING, engine.sentence
        return OK, engine.sentence


def problems_of(said: Reading) -> list[str]:
    """What the canary holds against its parts, nodes that it misses, and rails without a carrier."""
    found = [
        f"{labels['of']}: {labels['why']}" for labels, _ in said.all("tandem_problem") if {"of", "why"} <= {*labels}
    ]
    found += [f"{labels.get('node', '?')} does not answer it" for labels, _ in said.all("tandem_node_away")]
    down = [labels.get("device", "?") for labels, value in said.all("tandem_rail_carrier") if not value]
    return found or [f"no carrier on the rail {device}" for device in down]

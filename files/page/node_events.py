"""What happened: what the exporters have in their nodes' records, and what this program has seen itself."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from asking import Source, ask_all

if TYPE_CHECKING:
    from operations.wire.page import Event, NodeEvent, NodePart
    from operations.wire.page import Events as Told

#: Events that are told, and those of its own that are kept.
MOST = 100


class Events:
    """`sources`: exporters' events, by node."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._lock = threading.Lock()
        self._own: deque[NodeEvent] = deque(maxlen=MOST)
        self._last: dict[str, str] = {}

    def see(self, nodes: Sequence[NodePart]) -> None:
        """Nodes as they are; a word that has changed is an event."""
        with self._lock:
            for node in nodes:
                name, word = node["name"], node["state"]
                if self._last.get(name, word) != word:
                    text = f"{word}: {node['sentence']}"
                    self._own.append({"when": time.time(), "node": name, "kind": "state", "text": text})
                self._last[name] = word

    def told(self) -> Told:
        """The MOST newest events of all nodes, the newest first; `missing`: nodes whose exporter does not answer.

        Each node records the same deploy: what is told again within the same two minutes is one event.
        """
        ask_all(self._sources)
        found: list[NodeEvent] = []
        missing = []
        for source in self._sources:
            answer, silent = source.heard()
            if silent or answer is None:
                missing.append(source.name)
            said: list[Event] = answer or []
            found += [{**event, "node": source.name} for event in said]
        with self._lock:
            found += self._own
        known = set()
        once: list[NodeEvent] = []
        for event in sorted(found, key=lambda each: -each["when"]):
            same = (event["kind"], event["text"], "" if event["kind"] == "deploy" else event["node"])
            if event["kind"] == "deploy":
                event = {**event, "node": ""}
            if (same, int(event["when"] / 120)) not in known:
                known.add((same, int(event["when"] / 120)))
                once.append(event)
        return {"events": once[:MOST], "missing": missing}


def read_events(said: Any) -> list[Event]:
    """As an exporter says them; raises ValueError or KeyError for what is none."""
    return [
        {"when": float(each["when"]), "kind": str(each["kind"])[:20], "text": str(each["text"])[:400]}
        for each in said["events"][:MOST]
    ]

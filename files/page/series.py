"""The course of a panel: from Prometheus where one answers, else out of this program's own memory, with a note."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from asking import fetched
from memory import Memory
from words import clock

if TYPE_CHECKING:
    from operations.shapes.monitoring import Panel
    from operations.shapes.page import Course, Series

#: Name of a span -> its seconds, and those between two points.
SPANS = {"hour": (3600, 15), "day": (86400, 300), "month": (30 * 86400, 7200)}
#: Seconds for an answer of Prometheus'. The browser waits for four (page.js): before that it gets what was seen here.
WAIT_S = 2.5


class Wrong(ValueError):
    """What was asked for can't be, in one line."""


def asked(query: Mapping[str, list[str]], panels: list[Panel]) -> tuple[Panel, str]:
    """Panel and span of a query; raises Wrong."""
    if {*query} - {"panel", "span"} or any(len(values) != 1 for values in query.values()):
        raise Wrong("say ?panel=ID&span=hour|day|month, each once")
    panel = next((each for each in panels if [each["id"]] == query.get("panel")), None)
    if panel is None:
        raise Wrong(f"panel has to be one of: {', '.join(each['id'] for each in panels)}")
    span = query.get("span", ["hour"])[0]
    if span not in SPANS:
        raise Wrong(f"span has to be one of: {', '.join(SPANS)}")
    return panel, span


def series(panel: Panel, span: str, prometheus: str, memory: Memory) -> Series:
    """`times`, `series` (name, values), `from`, and a `note` where something is missing."""
    note = "No Prometheus is part of this plan"
    if prometheus:
        try:
            times, values = _of_prometheus(prometheus, panel, span)
            return _told(panel, span, "Prometheus", "", times, values)
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            note = "Prometheus does not answer"
    times, values = memory.series(panel["id"])
    note += f": what this page has seen itself, an hour at most, since {clock(times[0] if times else memory.began)}"
    return _told(panel, span, "memory", note, times, values)


def _told(
    panel: Panel, span: str, place: str, note: str, times: list[float], values: Mapping[str, list[float | None]]
) -> Series:
    return {
        "panel": panel["id"],
        "title": panel["title"],
        "unit": panel["unit"],
        "span": span,
        "from": place,
        "note": note,
        "times": times,
        "series": _as_rows(values),
    }


def _as_rows(values: Mapping[str, list[float | None]]) -> list[Course]:
    return [{"name": name, "values": values[name]} for name in sorted(values)]


def _of_prometheus(url: str, panel: Panel, span: str) -> tuple[list[float], dict[str, list[float | None]]]:
    length, step = SPANS[span]
    end = int(time.time() / step) * step
    # A rate over less than a step would leave out what lies between two points.
    expr = panel["expr"].replace("[1m]", f"[{max(60, step)}s]")
    query = urlencode({"query": expr, "start": end - length, "end": end, "step": step})
    said = json.loads(fetched(f"{url}/api/v1/query_range?{query}", WAIT_S))
    if said["status"] != "success":
        raise ValueError(said.get("error", ""))
    times = [float(when) for when in range(end - length, end + 1, step)]
    values: dict[str, list[float | None]] = {}
    for row in said["data"]["result"]:
        name = " ".join(row["metric"].get(label, "") for label in panel["by"])
        points = {float(when): float(value) for when, value in row["values"]}
        # NaN is a ratio of nothing to nothing: no value.
        values[name] = [
            value if (value := points.get(when)) is not None and abs(value) < float("inf") else None for when in times
        ]
    return times, values

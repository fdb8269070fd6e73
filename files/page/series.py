"""The chart of a panel: from Prometheus where one answers, else out of this program's own memory, with a note.

A month of a histogram is work for a Prometheus with half a core. So an answer is kept until its span has another point,
all who ask the same wait for one question, and one that takes long goes on after they have gone.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.parse import urlencode

from asking import fetched
from last_hour import Memory
from words import clock

if TYPE_CHECKING:
    from operations.wire.monitoring import Panel
    from operations.wire.page import ChartLine, Series

#: Name of a span -> its seconds, and those between two points.
SPANS = {"hour": (3600, 15), "day": (86400, 300), "month": (30 * 86400, 7200)}
#: Seconds for which whoever asks waits for Prometheus. The browser waits for four (asked.js): before that it gets what
#: was seen here.
WAIT_S = 2.5
#: Seconds after which a question is given up, and how many are under way at once.
LONG_S, AT_ONCE = 30.0, 4
#: Answers that are kept: a plan has some twenty panels.
KEPT = 96

Values = Mapping[str, list[float | None]]


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


@dataclass
class Question:
    """One that is under way, or over: then there is an answer, or a word on why there is none."""

    began: float
    thread: threading.Thread | None = None
    why_not: str = ""


@dataclass(frozen=True)
class Kept:
    """An answer, when it was given, and the end of what it covers."""

    when: float
    end: int
    times: list[float]
    values: Values


class Charts:
    """The series of all panels. `prometheus`: its URL, or nothing."""

    def __init__(self, prometheus: str, memory: Memory) -> None:
        self._url, self._memory = prometheus, memory
        self._lock = threading.Lock()
        self._questions: dict[tuple[str, str], Question] = {}
        self._kept: dict[tuple[str, str], Kept] = {}

    def told(self, panel: Panel, span: str) -> Series:
        """`times`, `series` (name, values), `from`, and a `note` where something is missing."""
        note = "No Prometheus is part of this plan"
        if self._url:
            kept, note = self._asked(panel, span)
            if kept and note:
                note += f": what it said at {clock(kept.when)}"
            if kept:
                return _told(panel, span, "Prometheus", note, kept.times, kept.values)
        times, values = self._memory.series(panel["id"])
        since = clock(times[0] if times else self._memory.began)
        note += f": what this page has seen itself, an hour at most, since {since}"
        return _told(panel, span, "memory", note, times, values)

    def _asked(self, panel: Panel, span: str) -> tuple[Kept | None, str]:
        """An answer, and why it is not a new one. The last hour wants a new one: this page has seen that itself."""
        key = (panel["id"], span)
        with self._lock:
            if (kept := self._kept.get(key)) and _is_good(kept, span):
                return kept, ""
            question = self._question(key, panel)
        if question is None:
            why_not = "Prometheus is too slow"
        else:
            if question.thread:
                question.thread.join(max(0.0, question.began + WAIT_S - time.monotonic()))
            why_not = question.why_not or "Prometheus is too slow"
        with self._lock:
            kept = self._kept.get(key)
        if kept and _is_good(kept, span):
            return kept, ""
        return (kept if span != "hour" else None), why_not

    def _question(self, key: tuple[str, str], panel: Panel) -> Question | None:
        """The one that is under way, or a new one; None: there are too many."""
        under_way = {of: each for of, each in self._questions.items() if each.thread and each.thread.is_alive()}
        self._questions = under_way
        if key in under_way:
            return under_way[key]
        if len(under_way) >= AT_ONCE:
            return None
        question = Question(time.monotonic())
        question.thread = threading.Thread(target=self._ask, args=(question, key, panel), daemon=True)
        self._questions[key] = question
        question.thread.start()
        return question

    def _ask(self, question: Question, key: tuple[str, str], panel: Panel) -> None:
        try:
            kept = _of_prometheus(self._url, panel, key[1])
        except HTTPError as error:
            question.why_not = f"Prometheus refuses this ({error.code})"
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            is_slow = isinstance(getattr(error, "reason", error), TimeoutError)
            question.why_not = "Prometheus is too slow" if is_slow else "Prometheus does not answer"
        else:
            with self._lock:
                self._kept.pop(key, None)
                self._kept[key] = kept
                while len(self._kept) > KEPT:
                    del self._kept[next(iter(self._kept))]


def _is_good(kept: Kept, span: str) -> bool:
    """Until there is another point. Where nothing was known there may be something soon."""
    step = SPANS[span][1] if kept.values else SPANS["hour"][1]
    begun = kept.end if kept.values else kept.when
    return begun <= time.time() < begun + step


def _told(panel: Panel, span: str, place: str, note: str, times: list[float], values: Values) -> Series:
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


def _as_rows(values: Values) -> list[ChartLine]:
    return [{"name": name, "values": values[name]} for name in sorted(values)]


def _of_prometheus(url: str, panel: Panel, span: str) -> Kept:
    length, step = SPANS[span]
    now = time.time()
    end = int(now / step) * step
    # A rate over less than a step would leave out what lies between two points, and so would a gauge's plain value.
    expr = panel["expr"] if span == "hour" else panel.get("long", panel["expr"])
    expr = expr.replace("[1m]", f"[{max(60, step)}s]")
    query = urlencode({"query": expr, "start": end - length, "end": end, "step": step})
    said = json.loads(fetched(f"{url}/api/v1/query_range?{query}", LONG_S))
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
    return Kept(now, end, times, values)

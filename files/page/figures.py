"""The figures of the panels, out of two looks at all nodes: as PromQL would have them of the same (panels.yml).

A panel has `kind`: `gauge` (values, put together by `of`), `rate` (a second, of counters), `quantile` (of a histogram),
`ratio` (of two rates, the second is `over`); `metric`, without `_bucket`; `by`: labels whose values name a series;
`or`: what other engines call the metrics.
A figure that can't be had is not there: of a counter that began anew, of a histogram that nothing was added to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from reading import Reading

if TYPE_CHECKING:
    from operations.wire.monitoring import Panel

#: node -> what it has said.
Readings = Mapping[str, Reading]
#: Seconds between the two looks.
SPAN_S = 60.0


def names_of(panels: list[Panel]) -> set[str]:
    """The metrics that panels are made of."""
    found = set()
    for each in (variant for panel in panels for variant in _variants(panel)):
        found |= {each["metric"], each.get("over", each["metric"]), f"{each['metric']}_bucket"}
    return found


def figures(panel: Panel, now: Readings, before: Readings) -> dict[str, float]:
    """Name of a series -> its value."""
    found: dict[str, float] = {}
    for each in _variants(panel):
        found = {**_figures(each, now, before), **found}
    return found


def _variants(panel: Panel) -> list[Panel]:
    return [panel, *(cast("Panel", {**panel, **other}) for other in panel.get("or", ()))]


def _figures(panel: Panel, now: Readings, before: Readings) -> dict[str, float]:
    kind, scale = panel["kind"], float(panel.get("scale", 1))
    if kind == "gauge":
        found = _gauge(panel, now)
    elif kind == "rate":
        found = _rates(panel, panel["metric"], now, before)
    elif kind == "ratio":
        over = _rates(panel, panel["over"], now, before)
        top = _rates(panel, panel["metric"], now, before)
        found = {name: value / over[name] for name, value in top.items() if over.get(name)}
    else:
        found = _quantiles(panel, now, before)
    return {name: value * scale for name, value in found.items()}


def asked(panel: Panel, now: Readings, before: Readings) -> dict[str, float]:
    """Requests a second that a histogram was added to, by the names of its series."""
    found: dict[str, float] = {}
    for each in _variants(panel):
        for node, labels, grown in _grown(f"{each['metric']}_bucket", now, before):
            if math.isinf(float(labels.get("le", "0"))):
                name = _named(each, node, labels)
                found[name] = found.get(name, 0.0) + grown
    return found


def _named(panel: Panel, node: str, labels: Mapping[str, str]) -> str:
    return " ".join(node if label == "node" else labels.get(label, "") for label in panel["by"])


def _gauge(panel: Panel, now: Readings) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for node, reading in now.items():
        for labels, value in reading.all(panel["metric"]):
            found.setdefault(_named(panel, node, labels), []).append(value)
    together: dict[str, Callable[[list[float]], float]] = {"sum": sum, "max": max, "min": min}
    return {name: together[panel["of"]](values) for name, values in found.items()}


def _grown(metric: str, now: Readings, before: Readings) -> Iterator[tuple[str, dict[str, str], float]]:
    """Node, labels, and by how much a counter has grown a second."""
    for node, reading in now.items():
        older = before.get(node)
        if older is None or reading.when - older.when < 1:
            continue
        were = {tuple(sorted(labels.items())): value for labels, value in older.all(metric)}
        for labels, value in reading.all(metric):
            was = were.get(tuple(sorted(labels.items())))
            if was is not None and value >= was:
                yield node, labels, (value - was) / (reading.when - older.when)


def _rates(panel: Panel, metric: str, now: Readings, before: Readings) -> dict[str, float]:
    found: dict[str, float] = {}
    for node, labels, grown in _grown(metric, now, before):
        name = _named(panel, node, labels)
        found[name] = found.get(name, 0.0) + grown
    return found


def _quantiles(panel: Panel, now: Readings, before: Readings) -> dict[str, float]:
    buckets: dict[str, dict[float, float]] = {}
    for node, labels, grown in _grown(f"{panel['metric']}_bucket", now, before):
        mine = buckets.setdefault(_named(panel, node, labels), {})
        edge = float(labels.get("le", "inf"))
        mine[edge] = mine.get(edge, 0.0) + grown
    found = {name: quantile(float(panel["quantile"]), mine) for name, mine in buckets.items()}
    return {name: value for name, value in found.items() if value is not None}


def quantile(wanted: float, buckets: Mapping[float, float]) -> float | None:
    """As Prometheus' histogram_quantile: even within a bucket, the last edge for what lies beyond it."""
    edges = sorted(buckets)
    if len(edges) < 2 or not math.isinf(edges[-1]) or buckets[edges[-1]] <= 0:
        return None
    rank, low, below = wanted * buckets[edges[-1]], 0.0, 0.0
    for edge in edges[:-1]:
        if buckets[edge] >= rank:
            inside = buckets[edge] - below
            return low + (edge - low) * ((rank - below) / inside if inside else 0.0)
        low, below = edge, buckets[edge]
    return low

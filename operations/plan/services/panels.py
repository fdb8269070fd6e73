"""What is drawn: the panels of files/monitoring/panels.yml with their PromQL, and a Grafana dashboard of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import yaml

from operations.plan.config.files import FILES
from operations.plan.engines import ENGINES
from operations.wire import Json
from operations.wire.monitoring import Metrics, Panel

PANELS = FILES / "monitoring/panels.yml"
#: Grafana's names of our units.
_UNITS = {
    "requests": "short",
    "requests/s": "reqps",
    "tokens/s": "short",
    "s": "s",
    "%": "percent",
    "GiB": "gbytes",
    "MHz": "rotmhz",
    "W": "watt",
    "°C": "celsius",
    "Gbit/s": "Gbits",
}
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def panels(engine: str, window: str = "1m") -> list[Panel]:
    """All that an engine has the metrics for, with `expr`; `window`: over what a rate is taken. A gauge has `long` too:
    all that lies between two points, for spans whose points are far apart.
    """
    found: list[Panel] = []
    for panel in _of(engine):
        found.append({**panel, "expr": expression(panel, window)})
        if panel["kind"] == "gauge":
            found[-1]["long"] = _gauge(panel, f"{panel.get('over_time', 'avg')}_over_time({panel['metric']}[{window}])")
    return found


def _of(engine: str) -> Iterator[Panel]:
    said = {f"engine {word}": metric for word, metric in ENGINES[engine].PANELS.items()}
    panels: list[Panel] = yaml.safe_load(PANELS.read_text())
    for panel in panels:
        named = metrics_of(panel)
        named["metric"] = said.get(named["metric"], named["metric"])
        if "over" in named:
            named["over"] = said.get(named["over"], named["over"])
        if not any(str(metric).startswith("engine ") for metric in named.values()):
            yield cast("Panel", {**panel, **named})


def metrics_of(panel: Panel) -> Metrics:
    """Its metric, and what a ratio is divided by."""
    found: Metrics = {"metric": panel["metric"]}
    if "over" in panel:
        found["over"] = panel["over"]
    return found


def expression(panel: Panel, window: str) -> str:
    """PromQL that gives what files/page/figures.py makes of the same."""
    by, metric = ", ".join(panel["by"]), panel["metric"]
    kind = panel["kind"]
    if kind == "gauge":
        return _gauge(panel, metric)
    if kind == "rate":
        expr = _rate(metric, by, window)
    elif kind == "ratio":
        # Nothing to nothing would be NaN, and is left out.
        expr = f"{_rate(metric, by, window)} / ({_rate(panel['over'], by, window)} > 0)"
    else:
        expr = f"histogram_quantile({panel['quantile']}, {_rate(f'{metric}_bucket', f'le, {by}', window)})"
    return _scaled(panel, expr)


def _gauge(panel: Panel, values: str) -> str:
    return _scaled(panel, f"{panel['of']} by ({', '.join(panel['by'])}) ({values})")


def _scaled(panel: Panel, expr: str) -> str:
    scale = panel.get("scale")
    return expr if scale is None else f"({expr}) * {scale:.16g}"


def _rate(metric: str, by: str, window: str) -> str:
    return f"sum by ({by}) (rate({metric}[{window}]))"


def panels_of(engines: Iterable[str], window: str = "1m") -> list[Panel]:
    """The same for models of several engines, each panel once. What one engine does not say is nothing, so `expr` has
    the expressions of all behind one another; `or`: what the other engines call the metrics of the first one.
    """
    merged: dict[str, Panel] = {}
    for engine in engines:
        for panel in panels(engine, window):
            before = merged.setdefault(panel["id"], panel)
            if panel["expr"] not in before["expr"].split(" or "):
                expr = f"{before['expr']} or {panel['expr']}"
                merged[panel["id"]] = {**before, "expr": expr, "or": [*before.get("or", ()), metrics_of(panel)]}
                if "long" in before:
                    merged[panel["id"]]["long"] = f"{before['long']} or {panel['long']}"
    return list(merged.values())


def dashboard() -> Json:
    """For Grafana's import: two beside each other, and a variable for the data source. It is for any engine."""
    rows = [_panel(index, panel) for index, panel in enumerate(panels_of(ENGINES, "$__rate_interval"))]
    variable = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    return {
        "title": "Tandem",
        "uid": "tandem",
        "tags": ["tandem"],
        "schemaVersion": 41,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [variable]},
        "annotations": {"list": []},
        "links": [],
        "panels": rows,
    }


def _panel(index: int, panel: Panel) -> Json:
    legend = " ".join(f"{{{{{label}}}}}" for label in panel["by"])
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": panel["title"],
        "datasource": _SOURCE,
        "gridPos": {"h": 8, "w": 12, "x": 12 * (index % 2), "y": 8 * (index // 2)},
        "fieldConfig": {"defaults": {"unit": _UNITS[panel["unit"]], "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [{"refId": "A", "datasource": _SOURCE, "expr": panel["expr"], "legendFormat": legend}],
    }

"""On what a run was measured: versions, what each setup took, and how the nodes were meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from bench.records import NodeState
from bench.report.series import Measured
from bench.resuming import ASKED, ATTEMPTS, ENDED, WHOLE

Table = list[tuple[str, ...]]
_STATE: tuple[tuple[str, Callable[[NodeState], float | None], Callable[[Iterable[float]], float], str], ...] = (
    ("clock, lowest", lambda state: state.clock_mhz, min, "MHz"),
    ("temperature, highest", lambda state: state.temperature_c, max, "°C"),
    ("power, highest", lambda state: state.power_w, max, "W"),
    ("memory available, least", lambda state: state.available_gib, min, "GiB"),
)


def about(measured: Measured) -> Table:
    """The run as a whole."""
    run = measured.run
    rows = [
        ("recipe", run.recipe),
        ("model", f"{run.model} at {run.revision[:12]}" if run.revision else run.model),
        ("profile", f"{run.profile}, {run.repeats} repeats, seed {run.seed}"),
        ("target", run.slo),
        ("measured", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(run.began))),
        ("client's own limit", _limit(run.client_requests_s, run.client_pieces_s)),
        *((name, value) for name, value in run.environment.items() if name not in (ASKED, ATTEMPTS, WHOLE, ENDED)),
    ]
    return [(name, value) for name, value in rows if value]


def _limit(requests: float | None, pieces: float | None) -> str:
    return f"{requests:,.0f} requests, {pieces:,.0f} pieces of streams a second" if requests and pieces else ""


def setups(measured: Measured) -> Table:
    """A row each: what it is, and what it ran; the first row is the head."""
    rows: Table = [("setup", "routing", "nodes", "plan", "deploy", "versions")]
    for each in measured.run.setups:
        routing = each.routing if each.topology == "replicas" else ""
        took = f"{each.deploy_s:,.0f} s" if each.deploy_s is not None else ""
        versions = ", ".join(f"{name} {value}" for name, value in each.versions.items())
        rows.append((each.name, routing, str(each.nodes or ""), each.plan[:12], took, each.why_not or versions))
    return rows


def nodes(measured: Measured) -> Table:
    """How each node was before and after steps, over a setup's steps: the worst of each; the first row is the head."""
    found: dict[tuple[str, str], list[NodeState]] = {}
    for step in measured.steps:
        for around in (step.before, step.after):
            for node, state in around.items():
                found.setdefault((step.setup, node), []).append(state)
    rows: Table = []
    for (setup, node), states in found.items():
        cells = []
        for _, read, worst, unit in _STATE:
            values = [value for state in states if (value := read(state)) is not None]
            cells.append(f"{worst(values):,.0f} {unit}" if values else "")
        if any(cells):
            rows.append((setup, node, *cells))
    return [("setup", "node", *(name for name, _, _, _ in _STATE)), *rows] if rows else []

"""What runs on this node and whether it answers, for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from operations.node.commands import output, read
from operations.node.door import certificate, drained
from operations.node.engine import probe
from operations.node.monitoring import monitors
from operations.node.network import firewall, office
from operations.node.unit import alone, cause, old_images, services, starts
from operations.paths import (
    ADDRESS,
    CANARY,
    ENGINE,
    FALLBACK,
    FIREWALL,
    LITELLM,
    OFFICE,
    ONDEMAND_SAYS,
    PROXY,
    PROXY_KEY,
    folder_of,
)
from operations.wire.ondemand import OnDemandRow
from operations.wire.unit import CanarySeen, Probed, Question, Status, StatusRow, UnitState

#: Seconds that an engine and the proxy have for a token. Whoever asks how things are does not want to wait longer.
ANSWER_S = 2.5
#: Seconds for which a cluster's ranks wait for one that is silent (files/engine/meet.py).
MEETING_S = 12
#: What is said of one that gives none in that time while the canary sees it work.
BUSY = {
    ENGINE: f"busy: no token in {ANSWER_S} s, and it shows signs of work",
    PROXY: f"busy: no token in {ANSWER_S} s; the proxy itself answers, its engines do not yet",
}

#: How files/ondemand says that a model rests.
NOT_LOADED = "not loaded: a request loads it"

#: What the canary is told.
TOLD_CANARY = Path(folder_of(CANARY)) / "canary.json"


def main(
    units: Sequence[str], keep: Sequence[str] | None = None, declared: Sequence[str] = (), only: Sequence[str] = ()
) -> Status:
    """`rows`: one for each of Tandem's `units` that is installed (where `only` names some, of these), and each that is
    `declared` and is not; `old_images`: those that
    nothing needs, where `keep` is known; `topology`: what is deployed here, or nothing; `away`: {node: since when} as
    the canary sees the engine's others; `alone`: since when this node serves alone in the place of a cluster, or
    nothing.
    """
    found = services.main(only or services.with_engines(units, declared))["units"]
    with ThreadPoolExecutor() as pool:
        rows = [pool.submit(_row, unit, state) for unit, state in found.items() if state.get("UnitFileState")]
        lacking = [unit for unit in declared if not found.get(unit, {}).get("UnitFileState")]
        images = [] if keep is None else old_images.main(keep)["images"]
        return {
            "rows": [*(row.result() for row in rows), *map(_lacking, lacking)],
            "old_images": images,
            "topology": services.deployed(),
            "away": _away(),
            "alone": alone.since().get("since", ""),
        }


def asked(unit: str, canary: Path = TOLD_CANARY) -> Question | None:
    """What an engine that lies here is asked, or the proxy: as the first of its engines; None: a token. The canary
    beside it is told the same.
    """
    try:
        engines = json.loads(read(canary))["engines"]
        question: Question | None = engines.get(unit, next(iter(engines.values()))).get("question")
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return None
    return question


def _row(unit: str, state: UnitState) -> StatusRow:
    row: StatusRow = {
        "unit": unit,
        "state": f"{state.get('ActiveState')} ({state.get('SubState')})",
        "since": state.get("ActiveEnterTimestamp", ""),
        "recipe": " ".join(filter(None, (state.get("recipe"), state.get("topology")))),
        "image": state.get("image_name", ""),
        "model": state.get("model", ""),
    }
    restarts = int(state.get("NRestarts") or 0)
    if restarts:
        row["state"] += f", {restarts} restarts"
    if state.get("url"):
        key_file = PROXY_KEY if unit == PROXY else ""
        answer = probe.main(unit, state["url"], state["model"], key_file, ANSWER_S, asked(unit))
        row["health"] = f"answers in {answer['seconds'] * 1000:.0f} ms" if answer["ok"] else _silence(unit, answer)
        if unit == PROXY and "days" in (left := certificate.left()):
            row["health"] += f"; its certificate ends in {left['days']:.0f} days"
    elif unit == ADDRESS and state.get("address"):
        held = output("ip", "-o", "address", "show", "to", state["address"])
        row["health"] = f"{'has' if held else 'stands by for'} {state['address']}"
    elif state.get("pulse"):
        under_way = drained.under_way(state["pulse"])
        row["health"] = (
            "no: it takes no requests" if under_way is None else f"has {under_way} request{'s' * (under_way != 1)}"
        )
    elif unit.startswith(ENGINE) and state.get("image"):
        row["health"] = "a rank: the head answers"
    elif unit.startswith(ENGINE) and state.get("ActiveState") in ("inactive", "failed") and (says := _on_demand(unit)):
        row["health"] = says
    elif not state.get("image") and (unit.startswith(ENGINE) or unit in (ADDRESS, PROXY, *LITELLM)):
        row["health"] = "no container"
    else:
        row["health"] = _health(unit)
    starting = starts.under_way(unit) if unit.startswith(ENGINE) and state.get("ActiveState") == "active" else ""
    if starting and not row["health"].startswith("answers"):
        row["start"] = starting
    if (state.get("ActiveState") != "active" or row["health"].startswith("no")) and row["health"] != NOT_LOADED:
        row["why"] = _why(unit, state)
    return row


def _lacking(unit: str) -> StatusRow:
    return {
        "unit": unit,
        "state": "is not here",
        "health": "no: it is declared and not deployed",
        "why": "`tandem apply` deploys it, and says what stands in the way",
    }


def _health(unit: str) -> str:
    """What a unit has to say that neither is asked for a token nor stands before one that is."""
    if unit == FIREWALL:
        return firewall.state()["problem"] or "in force"
    if unit == FALLBACK:
        return alone.says()
    if unit == OFFICE:
        return f"has {', '.join(office.state()['own']) or 'no address yet'}"
    if unit in monitors.UNITS:
        problem = monitors.problem(unit, ANSWER_S)
        return f"no: {problem}" if problem else "answers"
    return "; ".join(_canary()) if unit == CANARY else ""


def _on_demand(unit: str) -> str:
    """What is said of an engine that is started when somebody asks; empty: a deploy and a boot start it."""
    try:
        said: dict[str, OnDemandRow] = json.loads(read(Path(ONDEMAND_SAYS)) or "{}").get("models", {})
        return said[unit]["says"] if unit in said else ""
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


def _silence(unit: str, answer: Probed) -> str:
    """What no answer means: behind long prompts an engine that works owes a token for minutes."""
    is_late = answer["problem"] == "timed out"
    busy = BUSY[ENGINE if unit.startswith(ENGINE) else unit] if is_late and _works(unit) else ""
    return busy or f"no: {answer['problem']}"


def _works(unit: str) -> bool:
    """Whether a canary that runs has seen a sign of life lately."""
    canary = services.unit_states([CANARY])[CANARY]
    return canary.get("ActiveState") == "active" and unit.removeprefix("tandem-") in _seen().get("works", [])


def _canary() -> list[str]:
    """What the canary sees now, the widest first, and whom it has killed."""
    seen = _seen()
    problems = [f"{name}: {problem}" for name, problem in seen.get("problems", {}).items()]
    kills = [f"{name} killed {kill}" for name, kill in seen.get("killed", {}).items()]
    # Only a cluster's ranks have others to miss.
    away = [
        f"{name} does not answer over the rail since {since}: the cluster does not serve without it; after "
        f"{MEETING_S} s of that its ranks leave, and load anew when it is back"
        for name, since in seen.get("away", {}).items()
    ]
    return [*away, *seen.get("rails", []), *problems, *kills] or ["sees nothing wrong"]


def _away() -> dict[str, str]:
    """The engine's other nodes that the canary misses, and since when."""
    found = _seen().get("away")
    return found if isinstance(found, dict) else {}


def _seen() -> CanarySeen:
    """What the canary has written last; nothing where none runs."""
    try:
        seen: CanarySeen = json.loads(read(Path("/run/tandem/canary.json")) or "{}")
    except ValueError:
        return {}
    return seen


def _why(unit: str, state: UnitState) -> str:
    log = cause.log_of(unit, state)
    end = "\n".join(f"    {line}" for line in cause.shown(log, 8))
    return f"{cause.main(unit, state, log)}\n  the end of its log (sudo journalctl -u {unit}):\n{end}"

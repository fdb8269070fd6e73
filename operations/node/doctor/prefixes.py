"""What the engines of this node have counted of their prefix caches since their start."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException

from operations.node.look.bench_facts import sums
from operations.node.unit import services
from operations.wire.doctor import Prefix

#: Seconds for an engine to say it: it may be busy.
PATIENCE_S = 10


def main(counters: Mapping[str, Sequence[str]]) -> list[Prefix]:
    """Hits of the prefix cache, for each engine here that answers and counts them. `counters`: `asked` and `found` ->
    names of an engine's counters, the newest first.
    """
    units = services.main(services.engines())["units"]
    return [found for state in units.values() if state.get("url") and (found := _of(state["url"], counters))]


def _of(url: str, counters: Mapping[str, Sequence[str]]) -> Prefix | None:
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=PATIENCE_S) as response:
            said = sums(response.read().decode(errors="replace"))
    except (OSError, HTTPException):
        return None
    values = {ours: [said[name] for name in names if name in said] for ours, names in counters.items()}
    if not all(values.values()):
        return None
    return {"url": url, "asked": int(values["asked"][0]), "found": int(values["found"][0])}

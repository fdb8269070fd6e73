"""What tandem-office says on this node: its own addresses in the office, and those that it has heard of the others."""

from __future__ import annotations

import json
from pathlib import Path

from operations.node.commands import read
from operations.paths import AT_OFFICE, OFFICE_KNOWN, OFFICE_RUN
from operations.shapes.fabric import OfficeState

RUN, KNOWN = Path(OFFICE_RUN), Path(OFFICE_KNOWN)


def state() -> OfficeState:
    """`own` addresses, the one first that clients are told; `known`: other nodes' by their names, as heard last."""
    try:
        known = json.loads(read(KNOWN) or "{}")
    except ValueError:
        known = {}
    return {"own": read(RUN / "addresses").split(), "known": known if isinstance(known, dict) else {}}


def live(url: str) -> str:
    """A URL with the address that stands at present for AT_OFFICE in it; empty where there is none yet."""
    if AT_OFFICE not in url:
        return url
    own = state()["own"]
    return url.replace(AT_OFFICE, f"[{own[0]}]" if ":" in own[0] else own[0]) if own else ""

"""What tandem-office says on this node: its own addresses in the office, and those that it has heard of the others."""

from __future__ import annotations

import json
import re
from pathlib import Path

from operations.node.commands import read
from operations.paths import ADDRESS, AT_OFFICE, OFFICE_KNOWN, OFFICE_RUN, folder_of
from operations.wire.fabric import OfficeState

RUN, KNOWN = Path(OFFICE_RUN), Path(OFFICE_KNOWN)
#: keepalived's, which had the others' addresses itself before nodes told each other.
CONFIG = Path(folder_of(ADDRESS)) / "keepalived.conf"


def state() -> OfficeState:
    """`own` addresses, the one first that clients are told; `known`: other nodes' by their names, as heard last. Where
    nothing was heard yet, those that keepalived speaks with, each by itself: nobody has written down whose they are.
    """
    try:
        known = json.loads(read(KNOWN)) if KNOWN.exists() else _peers()
    except ValueError:
        known = {}
    return {"own": read(RUN / "addresses").split(), "known": known if isinstance(known, dict) else {}}


def _peers() -> dict[str, list[str]]:
    block = re.search(r"unicast_peer \{([^}]*)\}", read(CONFIG))
    return {each: [each] for each in block[1].split()} if block else {}


def live(url: str) -> str:
    """A URL with the address that stands at present for AT_OFFICE in it; empty where there is none yet."""
    if AT_OFFICE not in url:
        return url
    own = state()["own"]
    return url.replace(AT_OFFICE, f"[{own[0]}]" if ":" in own[0] else own[0]) if own else ""

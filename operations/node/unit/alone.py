"""Whether this node serves alone in the place of a cluster (files/fallback/fallback.py), and what that program says."""

from __future__ import annotations

import json
from pathlib import Path

from operations.node.commands import read
from operations.paths import ALONE, ALONE_SINCE
from operations.wire.unit import Alone

DROP_IN = Path(ALONE)
SINCE = Path(ALONE_SINCE)
SAYS = Path("/run/tandem/fallback.json")


def since() -> Alone:
    """`since` and `why`; empty: it does not."""
    return _read(SINCE) if DROP_IN.exists() else {}


def says() -> str:
    """Where the fallback stands, in words; nothing where there is none."""
    return str(_read(SAYS).get("says", ""))


def _read(path: Path) -> Alone:
    try:
        found: Alone = json.loads(read(path))
    except ValueError:
        # Between two writes of a node that loses power there may be anything.
        return {"since": "?"} if path.exists() else {}
    return found if isinstance(found, dict) else {}

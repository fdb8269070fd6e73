"""Where the exporter of a node listens."""

from __future__ import annotations

import json
from pathlib import Path

from operations.paths import EXPORTER, folder_of
from operations.wire.monitoring import Exported

SETTINGS = Path(f"{folder_of(EXPORTER)}/exporter.json")


def main() -> Exported:
    """`address`; empty: none lies here."""
    return {"address": json.loads(SETTINGS.read_text())["address"] if SETTINGS.exists() else ""}

"""How a unit is, and the end of its log: enough to see whether it starts, without a question to what it runs."""

from __future__ import annotations

from typing import Any

from operations.node.commands import output
from operations.node.services import unit_states


def main(unit: str, lines: int = 1) -> dict[str, Any]:
    """`state`: systemd's properties; `log`: so many lines."""
    log = output("journalctl", "--unit", unit, "--no-pager", "--output=cat", f"--lines={lines}").splitlines()
    return {"state": unit_states([unit])[unit], "log": log}

"""`tandem`: reads what was typed, runs the verb, ends with its exit code."""

from __future__ import annotations

from operations.command import begin as begin
from operations.command.groups import app


def main() -> int:
    """Ends with the verb's own exit code (`groups.EXITS`)."""
    return int(app(prog_name="tandem", standalone_mode=False) or 0)

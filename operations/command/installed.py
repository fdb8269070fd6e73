"""`tandem` of the package `tandem_spark`: this file is its `__init__.py`, and all of Tandem lies beside it.

So one name alone is taken in an environment, and each module has the name that it has in the clone.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Runs the command."""
    sys.path.insert(0, str(Path(__file__).parent))
    from operations.command.app import main as run

    return run()

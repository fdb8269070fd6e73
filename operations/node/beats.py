"""Living as long as somebody holds the other end of standard input."""

from __future__ import annotations

import os
import select
import sys

#: Three beats of operations/tether.py.
SILENCE_S = 15


def hold() -> None:
    """Return when standard input ends, or when no beat came for SILENCE_S."""
    descriptor = sys.stdin.fileno()
    while select.select([descriptor], [], [], SILENCE_S)[0]:
        if not os.read(descriptor, 65536):
            return

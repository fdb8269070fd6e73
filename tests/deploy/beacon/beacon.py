"""Says what it was started from, and waits."""

from __future__ import annotations

import signal
import sys

print(f"started from {sys.argv[1]}", flush=True)
signal.pause()

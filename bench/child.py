"""pyinfra that ends with whoever has started it: a deploy that nobody waits for would change nodes on its own."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

#: Linux' PR_SET_PDEATHSIG; elsewhere a deploy whose bench is killed runs to its end.
_PARENT_DEATH = 1

if __name__ == "__main__":
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGTERM)
    os.execv(sys.executable, [sys.executable, "-m", "pyinfra", *sys.argv[1:]])

"""Living as long as somebody holds the other end of standard input."""

from __future__ import annotations

import os
import select
import stat
import threading
from collections.abc import Callable

#: Three beats of operations/runner/tether.py.
SILENCE_S = 15


def watch(last: Callable[[], None] = lambda: None) -> None:
    """From now on this process does `last` and ends when the tether does. Without one (a terminal) it goes on."""

    def end() -> None:
        hold()
        last()
        # Not a clean shutdown: whoever wanted what is going on is gone.
        os._exit(1)

    if _is_tethered():
        threading.Thread(target=end, daemon=True).start()


def wait() -> None:
    """Stay until `watch` ends this process."""
    if _is_tethered():
        threading.Event().wait()


def _is_tethered() -> bool:
    return not stat.S_ISCHR(os.fstat(0).st_mode)


def hold(heard: Callable[[bytes], None] = lambda _: None) -> None:
    """Return when standard input ends, or when no beat came for SILENCE_S. `heard` gets what came."""
    while select.select([0], [], [], SILENCE_S)[0]:
        said = os.read(0, 65536)
        if not said:
            return
        heard(said)

"""How long a unit may take until it answers, and what tells that it never will."""

from __future__ import annotations

import time

from operations.wire.unit import UnitState

#: Restarts of a unit within one wait after which it will not come up any better.
RESTARTS = 2
#: A wait as a whole takes no longer than this many loads.
LOADS = 3


def waits_to_start(state: UnitState) -> bool:
    """Whether a unit is in its ready.sh, or its rank waits for its turn to load."""
    return state.get("SubState") == "start-pre" or bool(state.get("asks"))


class Wait:
    """One wait for a unit, which may have a part on several nodes. `patience_s` is for a load: the clock begins anew
    when a part still waits to be started (for memory, a port, its turn, a pause between restarts), and when one is
    restarted.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._began = self._loads_since = time.monotonic()
        #: By node: NRestarts when it was first seen, and now.
        self._restarts: dict[str, tuple[int, int]] = {}

    @property
    def waited_s(self) -> float:
        """Seconds since the wait began."""
        return time.monotonic() - self._began

    @property
    def loading_s(self) -> float:
        """Seconds since the load began."""
        return time.monotonic() - self._loads_since

    def see(self, name: str, state: UnitState) -> str:
        """How the part on a node is now. Why to wait no longer; empty: it may come yet."""
        if state.get("ActiveState") in ("failed", "inactive"):
            return f"its unit is {state['ActiveState']}"
        restarts = int(state.get("NRestarts") or 0)
        first, last = self._restarts.get(name, (restarts, restarts))
        # The count is set back when somebody has looked.
        first = min(first, restarts)
        self._restarts[name] = first, restarts
        if waits_to_start(state) or restarts > last:
            self._loads_since = time.monotonic()
        return f"it has restarted {restarts - first} times" if restarts - first >= RESTARTS else ""

    def is_over(self) -> str:
        """Why to wait no longer, by the clock alone; empty: there is time left."""
        if self.loading_s > self._patience_s:
            return f"no answer in {self._patience_s / 60:.0f} minutes"
        if self.waited_s > LOADS * self._patience_s:
            return f"no answer in {LOADS * self._patience_s / 60:.0f} minutes, with all that its start has waited for"
        return ""

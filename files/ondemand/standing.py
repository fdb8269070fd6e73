"""An engine of a model on demand: what is known of its start, and who asks it now, by the kernel's connections."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import phases
from tenants import LOADS, Tenant
from under_way import UnderWay

if TYPE_CHECKING:
    from operations.wire.specs import OnDemandModel

#: Seconds for which a connection stands that is a long answer: a canary's question is over sooner.
LONG_S = 10.0


class Engine:
    """What runs, or would, of a model on demand."""

    def __init__(self, unit: str, wanted: OnDemandModel) -> None:
        self.wanted = wanted
        self.tenant = Tenant(unit, wanted["model"], wanted["need_mib"], wanted["idle_s"])
        self.under_way = UnderWay(wanted["address"], wanted["port"])
        #: Connections that stand, by their other ends, and since when.
        self.standing: dict[str, float] = {}
        #: Of this start: systemd's name for it, how many came before it in a row, and how long it may take.
        self.invocation, self.restarts, self.takes_s = "", 0, load_s(unit, wanted)
        #: Loads that failed in a row, why the last one did (for people of the node), and until when there is no other.
        self.failures, self.why, self.pauses_until = 0, "", -math.inf

    def sees_connections(self, now: float) -> None:
        """Who asks it now: whose connection was there at the last look as well. A look of the canary's is over by then,
        and a request that has just come was wanted by the door before it. A long answer counts as a request just now.
        """
        ends = self.under_way.standing()
        self.standing = {end: self.standing.get(end, now) for end in ends}
        self.tenant.is_busy = any(since < now for since in self.standing.values())
        if any(now - since >= LONG_S for since in self.standing.values()):
            self.tenant.used = max(self.tenant.used, now)

    def left_s(self, now: float) -> int:
        """Seconds until it has loaded, by the last load of the same plan."""
        so_far = now - self.tenant.since if self.tenant.state == LOADS else 0.0
        left = self.takes_s - so_far
        return math.ceil(left if left > 0 else max(5.0, so_far * 0.25))


def load_s(unit: str, wanted: OnDemandModel) -> float:
    """Seconds of a load: those of the last one of the same plan, or the recipe's."""
    known = phases.served(phases.kept(), unit, wanted["spec"])
    return phases.loading_s(known[-1]["phases"]) if known else wanted["load_s"]

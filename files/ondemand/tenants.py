"""Which model on demand may be loaded now, and which of the others gives way: decisions alone, without node or clock.

What serves stays. One that rests gives way, the one first that was used longest ago.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: How a model is: not in memory, on its way in, there, on its way out.
OUT, LOADS, LOADED, LEAVES = "out", "loads", "loaded", "leaves"
#: Seconds without a request after which one rests. The door asks at most two seconds before it sends a request on
#: (files/litellm/loading.py), and takes five at most to connect: within these no request is on its way.
REST_S = 10.0
#: Seconds for which one that has just loaded is kept at least, for those who were told to come back: they are told 60
#: at most. One whose load took longer is kept for as long as that: so at most half of a node's time are loads.
KEPT_S = 75.0


@dataclass(frozen=True)
class Stays:
    """Why a model does not give way. `for_s`: seconds until it does, if nobody asks for it; None: nobody knows."""

    why: str
    for_s: float | None = None


@dataclass
class Tenant:
    """A model on demand. All times are seconds of one clock that is never set back."""

    unit: str
    #: What clients call it.
    model: str
    need_mib: int
    #: Without a request, after which it is unloaded though nobody needs its memory.
    idle_s: float
    state: str = OUT
    #: Since when it is in this state, and when it was asked for last.
    since: float = -math.inf
    used: float = -math.inf
    #: Whether a request is under way.
    is_busy: bool = False
    #: Seconds for which it is kept from when it has loaded.
    kept_s: float = KEPT_S

    def becomes(self, state: str, now: float) -> None:
        """It is in another state from now on."""
        if state == LOADED:
            self.kept_s = max(KEPT_S, now - self.since)
        self.state, self.since, self.is_busy = state, now, False

    def stays(self, now: float) -> Stays | None:
        """Why it does not give way to another one now; None: it does."""
        if self.state in (LOADS, LEAVES):
            return Stays(f"{self.model} {'loads' if self.state == LOADS else 'is unloaded'}")
        if self.is_busy:
            return Stays(f"{self.model} serves")
        rests_s, kept_s = REST_S - (now - self.used), self.kept_s - (now - self.since)
        if kept_s > 0:
            return Stays(f"{self.model} has just loaded, for those who wait for it", max(rests_s, kept_s))
        return Stays(f"{self.model} has just served", rests_s) if rests_s > 0 else None

    def is_idle(self, now: float) -> bool:
        """Whether it has been asked nothing for so long that it is unloaded."""
        idle_s = max(self.idle_s, self.kept_s)
        return self.state == LOADED and not self.is_busy and now - max(self.used, self.since) >= idle_s


@dataclass(frozen=True)
class Way:
    """Who gives way before a model is loaded; or why it can't be, and for how long if nobody asks for the others (None:
    nobody knows).
    """

    gives_way: tuple[Tenant, ...] = ()
    problem: str = ""
    for_s: float | None = None


def way(wanted: Tenant, tenants: Sequence[Tenant], room_mib: int, available_mib: int, now: float) -> Way:
    """How `wanted` gets its memory. `room_mib`: for all models on demand, beside those that stay loaded and the guard's
    floor; `available_mib`: above that floor, as the kernel counts.
    """
    inside = [each for each in tenants if each.state != OUT and each is not wanted]
    left_mib = room_mib - _taken(inside)
    gone = _resting(inside, wanted.need_mib - min(left_mib, available_mib), now)
    if gone is not None:
        return Way(tuple(gone))
    return _no_room(wanted, inside, room_mib, available_mib, now)


def over(tenants: Sequence[Tenant], room_mib: int, now: float) -> list[Tenant]:
    """Who gives way where there is less room than before: a plan has given more to models that stay loaded."""
    inside = [each for each in tenants if each.state in (LOADS, LOADED)]
    return _resting(inside, _taken(inside) - room_mib, now) or []


def _taken(tenants: Sequence[Tenant]) -> int:
    return sum(each.need_mib for each in tenants)


def _resting(inside: Sequence[Tenant], lacks_mib: int, now: float) -> list[Tenant] | None:
    """The fewest of those that rest, by when they were used last, with so much memory; None: they have less."""
    gone = list[Tenant]()
    for each in sorted((each for each in inside if not each.stays(now)), key=lambda each: each.used):
        if lacks_mib > 0:
            gone.append(each)
            lacks_mib -= each.need_mib
    if lacks_mib > 0:
        return None
    for each in reversed(gone[:]):
        # A later one may have given enough for both.
        if lacks_mib + each.need_mib <= 0:
            gone.remove(each)
            lacks_mib += each.need_mib
    return gone


def _no_room(wanted: Tenant, inside: Sequence[Tenant], room_mib: int, available_mib: int, now: float) -> Way:
    need = f"{wanted.model} takes {wanted.need_mib / 1024:.1f} GiB"
    if wanted.need_mib > room_mib:
        return Way(problem=f"{need}, {room_mib / 1024:.1f} are there for models on demand")
    staying = [(each, why) for each in inside if (why := each.stays(now))]
    if wanted.need_mib <= room_mib - _taken([each for each, _ in staying]):
        free = max(available_mib, 0) / 1024
        return Way(problem=f"no room, {need} and {free:.1f} are free: the system and other programs have the rest")
    problem = f"no room, {need}: {' and '.join(why.why for _, why in staying)}"
    lacks_mib = wanted.need_mib - min(room_mib - _taken(inside), available_mib)
    goes = [(0.0 if why is None else why.for_s, each.need_mib) for each in inside for why in [each.stays(now)]]
    for for_s, mib in sorted((seconds, mib) for seconds, mib in goes if seconds is not None):
        lacks_mib -= mib
        if lacks_mib <= 0:
            return Way(problem=problem, for_s=for_s)
    return Way(problem=problem)

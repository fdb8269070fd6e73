"""A request behind which an engine dies is asked on one more at the most, and remembered for a while.

All that an engine had under way breaks when it dies, and one of it may be the reason. So each of these is a suspect,
known by a hash of its body. Suspects of a model are asked one at a time, in the order in which they came, until the
first of their answer is there: whoever is at it when a second engine dies is the reason, and the others are none. One
whose first word takes long is asked beside the next one: when their engine dies, each is asked alone from then on. One
that was alone is a suspect as well: its engine may have been killed by something else.

What broke because a node lost power or its cable, or because an engine was told to stop, makes nobody a suspect. An
engine that takes connections afterwards has not died. What other nodes ask the same engine is not seen from here. Both
LiteLLM of a node know the same (shared.py).
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path

import shared

#: How engines ended over a body: once, twice in company, or by it alone.
ONCE, TWICE, KNOWN = 1, 2, 3
#: Seconds for which a body is remembered: an engine of a hundred GB has loaded by then, and its client has given up.
REMEMBERED_S = 1800
#: Seconds for the first of a suspect's answer; then the next one is asked as well: it may wait in the engine's queue.
TURN_S = 5.0
#: Seconds within which all that broke with an engine is seen.
TOGETHER_S = 2.0
#: Seconds between two looks whether it is one's turn, and for which one that came earlier may leave a free turn alone:
#: its LiteLLM hangs.
LOOK_S, HANGS_S = 0.05, 1.0
#: What says that a node or the way there is gone, or that nobody was there.
_FAR = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ECONNREFUSED)

_under_way, _late = Counter[str](), Counter[str]()


class Request:
    """One request of a client's. `body`: with its path; empty: nothing is known of it."""

    def __init__(self, body: bytes = b"") -> None:
        #: It stands for the body.
        self._mark = shared.mark(b"suspect", body) if body else b""
        #: Engines that have died over it.
        self.deaths = 0
        #: Of the engine that has it now: since when, whether something of its answer is there, whether it has died.
        self.since, self.shown, self.is_dead = 0.0, False, False
        #: Whether its turn went on to the next one before anything of its answer was there.
        self.is_late = False
        #: Whether it waits for its turn.
        self.waits = False
        #: The turn that it has, as a file, and on which engine.
        self._turn, self._address = -1, ""
        self._timer: asyncio.TimerHandle | None = None

    def level(self) -> int:
        """What is remembered of its body; 0: nothing."""
        known = shared.incidents.of(self._mark) if self._mark else None
        if not known:
            return 0
        until, level = divmod(known, 4)
        return level if until > time.monotonic() else 0

    def remember(self, level: int) -> None:
        """From now on; 0: nothing any more."""
        shared.incidents.set(self._mark, (int(time.monotonic()) + REMEMBERED_S) * 4 + level)

    async def take_turn(self, address: str, engines: str) -> None:
        """Wait until no other suspect is asked of these `engines`; first come, first served."""
        came, waits = int(time.monotonic() * 1000), f"waits {engines}"
        self.waits = True
        try:
            async with _queues[engines]:
                # The other LiteLLM has a queue as well: who is first in each of both, compares.
                shared.counts.set(waits, came)
                try:
                    self._turn = await _free_turn(engines, came)
                finally:
                    shared.counts.set(waits, 0)
        finally:
            self.waits = False
        self._address = address
        _put_time(b"turn", address)
        if self.level() < TWICE:
            self._timer = asyncio.get_running_loop().call_later(TURN_S, self._be_late)

    @property
    def has_turn(self) -> bool:
        """Whether it is the one suspect that is asked."""
        return self._turn >= 0

    def leave_turn(self) -> None:
        """The next one may be asked."""
        if self._timer:
            self._timer.cancel()
        if self._turn >= 0:
            # First: with the turn the mark is the next one's.
            shared.incidents.put(0, b"turn", self._address.encode())
            os.close(self._turn)
            self._turn = -1

    def _be_late(self) -> None:
        self.leave_turn()
        self.is_late = True
        _count_late(self._address, 1)

    def be_late_no_more(self) -> None:
        """Take it out of the count of late requests: a part of its answer has come, or none will. Otherwise nothing."""
        if self.is_late:
            self.is_late = False
            _count_late(self._address, -1)

    def has_others_beside(self, address: str) -> bool:
        """Whether it is one of several suspects that an engine which dies is asked."""
        late = _late[address] + shared.counts.others(f"late {address}") - self.is_late
        several = late > 0 or (self.is_late and _is_held(address)) or _is_recent(b"several", address)
        if several:
            _put_time(b"several", address)
        return several


#: The request under way.
current: ContextVar[Request | None] = ContextVar("tandem_suspect", default=None)
#: Suspects that wait in this process, by their engines; asyncio's locks are given in the order of asking.
_queues: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)


def turn_file(engines: str) -> Path:
    """Whose lock is the turn; a process that dies gives it back."""
    alone = "" if shared.folder() else f"{os.getpid()}."
    name = hashlib.blake2b(engines.encode(), digest_size=8).hexdigest()
    return (shared.folder() or Path(tempfile.gettempdir())) / f"turn.{alone}{name}"


async def _free_turn(engines: str, came: int) -> int:
    """The turn, as a file, of the one that is first here and `came` then (ms)."""
    left = HANGS_S / LOOK_S
    while True:
        file = os.open(turn_file(engines), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
        else:
            if left <= 0 or not any(0 < each < came for each in shared.counts.each(f"waits {engines}")):
                return file
            os.close(file)
            left -= 1
        await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def asking(address: str, engines: Callable[[], str]) -> AsyncIterator[None]:
    """An engine has the request under way, in its turn where it is a suspect. `engines`: what its model's are known by;
    for each of them there is one turn.
    """
    request = current.get() or Request()
    if request.level():
        await request.take_turn(address, engines())
    request.since, request.shown, request.is_dead = time.monotonic(), False, False
    _count(address, 1)
    try:
        yield
        if request.shown and not request.is_dead and request.level():
            request.remember(0)
    finally:
        _count(address, -1)
        request.leave_turn()
        request.be_late_no_more()


def waits() -> bool:
    """Whether the request under way waits for others: a suspect in its second try is asked to its answer's end."""
    request = current.get()
    return bool(request and request.waits)


def shows() -> None:
    """Something of the answer is there."""
    request = current.get()
    if request and not request.shown:
        request.shown = True
        request.be_late_no_more()
        if request.has_turn and request.level() < TWICE:
            request.leave_turn()


def in_company(address: str) -> bool:
    """Whether more than the request under way breaks with an engine; to be asked at once when it does."""
    more = _under_way[address] > 1 or shared.counts.others(f"asks {address}") > 0 or _is_recent(b"broke", address)
    _put_time(b"broke", address)
    return more


def died(address: str, company: bool) -> None:
    """An engine has died over the request under way. `company`: what `in_company` said when it broke."""
    request = current.get()
    if request is None or request.is_dead:
        return
    in_turn = request.has_turn or request.is_late
    ended = (shared.incidents.get(b"ended", address.encode()) or 0) / 1000
    if not in_turn and (_is_held(address) or request.since < ended):
        # One whose turn it was is the reason; an engine that has started anew since then is another one.
        return
    request.is_dead = True
    request.deaths += 1
    level, several = request.level(), in_turn and request.has_others_beside(address)
    if in_turn:
        _put_time(b"ended", address)
    if not several and (in_turn or (not company and level)):
        request.remember(KNOWN)
        print("tandem: an engine has died over a request that is not asked again for a while")
    else:
        request.remember(min(level + 1, TWICE))


def is_death(error: BaseException | None) -> bool:
    """Whether a connection broke as it does when its program has ended; not when nobody took it, or nothing came."""
    while error is not None:
        # aiohttp's for a connection that nobody takes, by its name: it is one of those that break, too.
        if isinstance(error, TimeoutError) or "Connector" in type(error).__name__:
            return False
        if isinstance(error, OSError) and error.errno in _FAR:
            return False
        error = error.__cause__
    return True


def _count(address: str, more: int) -> None:
    _under_way[address] += more
    shared.counts.set(f"asks {address}", _under_way[address])


def _count_late(address: str, more: int) -> None:
    _late[address] += more
    shared.counts.set(f"late {address}", _late[address])


def _is_held(address: str) -> bool:
    """Whether an engine is asked by a suspect in its turn."""
    return _is_recent(b"turn", address, TURN_S + TOGETHER_S)


def _put_time(what: bytes, address: str) -> None:
    shared.incidents.put(int(time.monotonic() * 1000), what, address.encode())


def _is_recent(what: bytes, address: str, seconds: float = TOGETHER_S) -> bool:
    then = shared.incidents.get(what, address.encode())
    return bool(then) and time.monotonic() - (then or 0) / 1000 < seconds

"""How much a key may ask for: requests at once, and tokens in a minute, as the engines count them."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import shared
from door_keys import Key

#: Seconds that a limit of tokens is about.
WINDOW_S = 60.0
#: Seconds after which one may be free again who has too many requests under way.
SOON_S = 1
#: What a process has counted goes to others in steps of so many seconds, of which a minute touches so many.
STEP_S = 10
_STEPS = int(WINDOW_S) // STEP_S + 1
#: Tokens of a step and the second of its last request, as one number of 63 bits: the tokens have these. (The machine
#: may have been up for years.)
_BITS = 32
_MOST = (1 << _BITS) - 1
#: Seconds between two words to others of what is still under way.
TELL_S = 0.25


@dataclass(eq=False)
class Visit:
    """One request of a key."""

    key: Key
    #: Answers that it asks for at once: as many requests.
    answers: int = 1
    #: Tokens of the question, about; it counts where the engine says nothing, as of a stream that its client leaves.
    asked: int = 0
    #: Whether an engine has the question: it reads it, whether its client stays or not.
    was_asked: bool = False
    #: Pieces of an answer that have passed: about as many tokens. An engine that drafts puts several into one.
    pieces: int = 0
    #: Tokens as the engine has counted them.
    told: int | None = None
    #: Of the answer; 0: it has not begun.
    status: int = 0
    #: The client did not ask for what its stream cost: it does not get to see it.
    hides_usage: bool = False

    @property
    def tokens(self) -> int:
        """Tokens that it has cost by now. While its model loads no engine has the question, and it costs nothing."""
        if self.told is not None:
            return self.told
        return self.asked + self.pieces if self.was_asked and self.status < 400 else 0


@dataclass(frozen=True)
class Refused:
    """Why, and in how many seconds to come back. `what`: OpenAI's word for the limit."""

    what: str
    why: str
    after_s: int


@dataclass
class _Use:
    under_way: set[Visit] = field(default_factory=set)
    #: Answers for which they ask together.
    answers: int = 0
    #: When, and how many tokens; of the last minute.
    spent: deque[tuple[float, int]] = field(default_factory=deque)
    #: When others were told of what is under way.
    told: float = float("-inf")

    def running(self) -> int:
        """Tokens of what is under way, as far as they are known."""
        return sum(visit.tokens for visit in self.under_way)

    def tokens(self) -> int:
        """Tokens of the last minute, as far as they are known."""
        return sum(tokens for _, tokens in self.spent) + self.running()


class Limits:
    """What all keys use at this moment, here and in the node's other LiteLLM."""

    def __init__(self) -> None:
        self._uses: defaultdict[str, _Use] = defaultdict(_Use)

    def refuse(self, key: Key, now: float) -> Refused | None:
        """Why it may not ask now. Tokens are known when they are there: who is below the limit may begin."""
        use = self._uses[key.id]
        if key.requests is not None and (under_way := self._under_way(key)) >= key.requests:
            return _too_many(key, under_way)
        if key.tokens is None:
            return None
        while use.spent and use.spent[0][0] <= now - WINDOW_S:
            use.spent.popleft()
        elsewhere = list(_elsewhere(key, now))
        over = use.tokens() + sum(tokens for _, tokens in elsewhere) - key.tokens
        over += shared.counts.others(f"running {key.id}")
        if over < 0:
            return None
        why = f"`{key.name}` has used {key.tokens + over} tokens in a minute, and may use {key.tokens}"
        for when, tokens in sorted([*use.spent, *elsewhere]):
            over -= tokens
            if over < 0:
                return Refused("tokens", why, max(1, math.ceil(when + WINDOW_S - now)))
        return Refused("tokens", why, math.ceil(WINDOW_S))

    def _under_way(self, key: Key) -> int:
        return self._uses[key.id].answers + shared.counts.others(f"requests {key.id}")

    def weigh(self, visit: Visit, answers: int) -> Refused | None:
        """A request that is under way asks for so many answers: each counts as a request. Why it may not have them."""
        key, more = visit.key, answers - visit.answers
        if more and key.requests is not None and (under_way := self._under_way(key) + more) > key.requests:
            return _too_many(key, under_way)
        if more:
            visit.answers = answers
            self._count(key, more)
        return None

    @contextmanager
    def under_way(self, visit: Visit) -> Iterator[None]:
        """As long as it lasts, however it ends."""
        under_way = self._uses[visit.key.id].under_way
        under_way.add(visit)
        self._count(visit.key, visit.answers)
        try:
            yield
        finally:
            under_way.discard(visit)
            self._count(visit.key, -visit.answers)

    def _count(self, key: Key, more: int) -> None:
        use = self._uses[key.id]
        use.answers += more
        shared.counts.set(f"requests {key.id}", use.answers)

    def passes(self, visit: Visit, now: float) -> None:
        """A piece of its answer has passed."""
        if visit.key.tokens is None:
            return
        use = self._uses[visit.key.id]
        if now - use.told >= TELL_S:
            use.told = now
            shared.counts.set(f"running {visit.key.id}", use.running())

    def spend(self, visit: Visit, now: float) -> None:
        """It has ended, and has cost this."""
        if visit.key.tokens is None:
            return
        use, step = self._uses[visit.key.id], int(now) // STEP_S
        shared.counts.set(f"running {visit.key.id}", use.running())
        if visit.tokens:
            use.spent.append((now, visit.tokens))
            tokens = sum(tokens for when, tokens in use.spent if when >= step * STEP_S)
            shared.counts.set(f"tokens {visit.key.id} {step % _STEPS}", (int(now) << _BITS) + min(tokens, _MOST))


def _too_many(key: Key, under_way: int) -> Refused:
    why = f"`{key.name}` has {under_way} requests under way, and may have {key.requests} at once"
    return Refused("requests", why, SOON_S)


def _elsewhere(key: Key, now: float) -> Iterator[tuple[float, int]]:
    """When, and how many tokens, as another LiteLLM has counted them: of the last minute, each step's as if they were
    its last request's. (The clock is the machine's, the same for all.)
    """
    for step in range(_STEPS):
        for number in shared.counts.each(f"tokens {key.id} {step}"):
            when, tokens = number >> _BITS, number & _MOST
            if tokens and when > now - WINDOW_S:
                yield float(when), tokens

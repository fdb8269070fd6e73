"""The watch over an engine: its signs of life, and a token where it shows none.

`/health` is no sign of life: vLLM's own launcher answers 200 for minutes after a rank has died. A token is one, and so
is whatever an engine says of its own work while it works: which metrics those are is known to its class
(operations/plan/engines) and comes here as a pattern. Whatever it finds is compared as it stands: any change counts.

That is more than counters of tokens. vLLM counts the tokens of a prompt when the first one of its answer is there. In
the prefill of a long prompt (106 s for 200,000 tokens on a GB10) none of its counters moves, and a question waits
behind it. But each step of the scheduler says how full the KV cache is, and how many requests run and wait. That is
said by the engine's core and not by its API server: one whose core or whose other rank hangs says nothing new, whoever
asks it.

While signs move nothing is asked, and a question that waits behind others may wait. An engine that has just fallen idle
is asked at once, and then seldom: after each token vLLM's ranks look for the next one for a second with a whole core
(its `SpinCondition`). In a cluster only the node that acts asks: two would take each other's tokens for work.
One that hangs with requests in flight moves nothing and does not answer.

An engine that has never shown a sign of that kind (its statistics are off) is judged by its answers alone, with a
patience that fits its longest prompt. CPU time would be none: an engine that waits for another rank spins.
"""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import node
from rails import Rails
from watch import SOON_S, Question, Sight, Watch

if TYPE_CHECKING:
    from operations.wire.specs import CanaryEngine
    from operations.wire.unit import Question as Asked

#: What is asked of an engine whose class names nothing else (operations/plan/engines): a token.
CHAT: Asked = {
    "path": "/v1/chat/completions",
    "body": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1},
    "pattern": r'"completion_tokens": ?[1-9]',
}
#: Looks in the time that an answer may take, while all is well.
LOOKS = 3
#: Times the deadline for which an idle engine that has given a token is not asked again.
REST = 2


class Signs:
    """What the engine says of its own work."""

    def __init__(self, url: str, pattern: str) -> None:
        self.url, self.pattern = url, re.compile(pattern, re.MULTILINE)
        #: Whether there has ever been any.
        self.known = False
        self.found: list[str] | None = None

    def moved(self, timeout_s: float) -> bool:
        """Whether they are others than at the last look.

        Raises TimeoutError when the question is taken and not answered, OSError when there is nobody to ask, or the
        answer breaks off.
        """
        before, self.found = self.found, None
        try:
            with urllib.request.urlopen(self.url, timeout=timeout_s) as response:
                found = self.pattern.findall(response.read().decode(errors="replace"))
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise TimeoutError from None
            raise
        except http.client.HTTPException as error:
            # It ended in the midst of its answer.
            raise ConnectionError(error) from None
        self.known, self.found = self.known or bool(found), found
        # Some engines tell of each step once: to find nothing is no change.
        return before is not None and bool(found) and found != before


class Engine(Watch):
    """An engine of which this node has a rank, by its unit."""

    SETTLED_S = 600.0
    signs: Signs
    is_asked: bool
    is_found: bool
    url: str
    model: str

    def __init__(self, wanted: CanaryEngine, rails: Rails, unit: str = "tandem-engine") -> None:
        self.NAME = unit.removeprefix("tandem-")
        self.wanted, self.rails = wanted, rails
        super().__init__(wanted["deadline_s"], wanted["silence_s"], wanted["start_s"], acts=wanted["acts"])

    def look(self) -> Sight:
        """Its signs first; a question where they do not move."""
        self.find()
        now, asked = time.monotonic(), self.question
        # Before its first token it may compile kernels for it, and say nothing meanwhile.
        self.silence_s = self.wanted["silence_s"] if self.signs.known and self.answered_at else self.wanted["mute_s"]
        timeout_s = min(self.deadline_s, self.left_s())
        moved, speaks, stuck, missing = False, True, "", ""
        try:
            moved = self.signs.moved(timeout_s)
        except TimeoutError:
            stuck = f"its metrics do not come in {timeout_s:.3g} s"
        except OSError as error:
            speaks, missing = False, f"its metrics are not to be had: {getattr(error, 'reason', error)}"
        else:
            # Engines serve their metrics when the model is loaded, and not before.
            self.starts_no_more()
        if not self.is_asked:
            # No question of the plan's is one for it: it lives as long as its metrics come.
            self.question = None
            return Sight(alive=not (stuck or missing), problem=stuck or missing, since=now)
        if not self.acts:
            # Each canary would take the token of another's for work, and ask again as soon as that is done.
            return Sight(alive=moved, problem=stuck or missing, since=now)
        answered = asked if asked and asked.done.is_set() else None
        # A question that was answered, rightly or not, has moved signs; one that has waited in vain has not.
        self.settling = answered is not None and answered.took_s < self.deadline_s
        if answered:
            self.question = None
        if self.settling:
            self.signs.found, moved = None, False
        if answered and not answered.problem:
            self.rests_until = now + REST * self.deadline_s
            return Sight(alive=True)
        if moved or stuck:
            self.rests_until = 0.0
        if moved:
            return Sight(alive=True)
        if stuck and not (asked and timeout_s < self.deadline_s):
            return Sight(problem=stuck, since=asked.asked if asked else now)
        if asked:
            # Also where metrics had less than the deadline: what waited for longer is the reason.
            return Sight(problem=asked.problem, since=asked.asked) if answered else self.late(asked)
        if not speaks or now >= self.rests_until:
            self.question = Question(self.ask)
        return Sight()

    def find(self) -> None:
        """Takes address, model and kind of question from the labels of the engine's container, once.

        An engine that waits for its turn to be renewed may still be an older plan's.
        """
        if self.is_found or not self.acts:
            return
        labels = node.labels(self.unit)
        self.is_found, self.is_rank = bool(labels), bool(labels) and "tandem.url" not in labels
        self.model = labels.get("tandem.model") or self.model
        self.url = labels.get("tandem.url") or self.url
        self.is_asked = labels.get("tandem.answers", self.wanted["answers"]) == self.wanted["answers"]
        self.signs.url = f"{self.url}{self.wanted['signs']['path']}"

    def pause_s(self) -> float:
        """What its own token has moved is read soon, so that what others' moves is told apart from it."""
        return SOON_S if self.settling else self.deadline_s / LOOKS

    def ask(self) -> str:
        """Why the engine gave no token, or nothing of what it is there for; empty: it did."""
        question = self.wanted.get("question") or CHAT
        body = {"model": self.model, **question["body"]}
        request = urllib.request.Request(
            f"{self.url}{question['path']}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=self.silence_s) as response:
                answer = json.dumps(json.load(response))
            return "" if re.search(question["pattern"], answer) else "an answer without a token"
        except TimeoutError:
            return f"no answer for {self.silence_s:g} s"
        except urllib.error.HTTPError as error:
            return f"HTTP {error.code}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            return str(getattr(error, "reason", error)) or type(error).__name__

    def waits(self) -> str:
        """For ranks that have not come yet: a start is not the wait for another node (files/engine/meet.py says)."""
        meeting = self.wanted["meeting"]
        if not meeting:
            return ""
        try:
            said = json.loads(Path(meeting["mark"]).read_text())
        except (OSError, ValueError):
            return ""
        if said["met"]:
            return ""
        if alone := [meeting["ranks"][rank] for rank in said.get("alone", [])]:
            return f"waits while {' and '.join(alone)} serves alone"
        if said.get("asks"):
            return "waits for its turn to load"
        missing = [f"rank {rank} ({meeting['ranks'][rank]})" for rank in said["missing"]]
        return f"waits for {' and '.join(missing) or 'the other ranks'}"

    def excuse(self, sight: Sight) -> str:
        """It is the rail and not the engine, or the node with another rank: the ranks' meeting ends those."""
        if self.is_rank:
            return "is a rank of an older plan, which answers on another node"
        missed = [name for name in self.rails.away if name in self.wanted["peers"]]
        away = f"is not judged while {' and '.join(missed)} is away" if missed else ""
        return self.rails.lost(self.url) or ("" if sight.alive else away)

    def _forget(self, now: float) -> None:
        super()._forget(now)
        #: Whether it is a rank that answers nobody here, which the plan does not know.
        self.is_rank = False
        #: Whether the questions of the plan are for it.
        self.is_asked = True
        self.url, self.model, self.is_found = self.wanted["url"], self.wanted["model"], False
        self.signs = Signs(f"{self.url}{self.wanted['signs']['path']}", self.wanted["signs"]["pattern"])
        #: Until when it is not asked, as long as it stays idle.
        self.rests_until = 0.0
        #: Whether the last look saw its answer, which moves its signs.
        self.settling = False

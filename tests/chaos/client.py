"""The load: clients of the OpenAI package that stream, one answer after the other, and know what each must be."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import openai

#: Different questions, so that an answer to another one is seen to be wrong.
QUESTIONS = [f"What is {number} and {number * 7}?" for number in range(12)]
TOKENS = 48
#: Seconds for which a client waits for the next token: longer than the proxy takes to find another engine.
PATIENCE_S = 60


@dataclass
class Seen:
    """What became of the requests of a load."""

    sent: int = 0
    answered: int = 0
    #: 503: told to come back later, before anything was sent.
    turned_away: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    #: When the last answer was complete, and the longest time without one; seconds, monotonic.
    last: float = field(default_factory=time.monotonic)
    gap: float = 0.0
    #: Seconds that each client waits between two requests; may be changed while the load runs.
    pause_s: float = 0.0

    def __str__(self) -> str:
        words = [f"{self.sent} sent", f"{self.answered} answered"]
        words += [f"{self.turned_away} turned away"] if self.turned_away else []
        for name, counts in (("failed", self.failed), ("wrong", self.wrong)):
            if counts:
                words.append(f"{counts.total()} {name} ({counts.most_common(1)[0][0]})")
        return ", ".join(words)


class Client:
    """One OpenAI client. It does not try again by itself: what fails is to be seen."""

    def __init__(self, at: dict[str, str]) -> None:
        self.model = at["OPENAI_MODEL"]
        # A body of its own: what the door remembers of one row's is nothing to the next one.
        self._user = uuid.uuid4().hex
        self._client = openai.OpenAI(
            base_url=at["OPENAI_BASE_URL"], api_key=at["OPENAI_API_KEY"], max_retries=0, timeout=PATIENCE_S
        )

    def ask(self, question: str, tokens: int = TOKENS) -> tuple[str, str, int]:
        """The text of a streamed answer, why it ended, and its tokens as the engine counts them."""
        stream = self._client.chat.completions.create(
            model=self.model,
            messages=[{"role": "user", "content": question}],
            max_tokens=tokens,
            temperature=0,
            user=self._user,
            stream=True,
            stream_options={"include_usage": True},
        )
        text, reason, counted = "", "", 0
        for chunk in stream:
            if chunk.usage:
                counted = chunk.usage.completion_tokens
            for choice in chunk.choices:
                text += choice.delta.content or ""
                reason = choice.finish_reason or reason
        return text, reason, counted


def learn(at: dict[str, str]) -> dict[str, str]:
    """The right answer to each question, asked twice: a model that does not agree with itself can't be a measure."""
    client = Client(at)
    first = {question: client.ask(question)[0] for question in QUESTIONS}
    again = {question: client.ask(question)[0] for question in QUESTIONS}
    if first != again or len(set(first.values())) < len(QUESTIONS):
        raise AssertionError(f"the model's answers are no measure: {first} {again}")
    return first


@contextmanager
def load(at: dict[str, str], expected: dict[str, str], clients: int = 8) -> Iterator[Seen]:
    """Ask without a pause while the body runs."""
    seen, stop, lock = Seen(), threading.Event(), threading.Lock()

    def run(number: int) -> None:
        client, turn = Client(at), number
        while not stop.is_set():
            question = QUESTIONS[turn % len(QUESTIONS)]
            turn += 1
            with lock:
                seen.sent += 1
            verdict = _verdict(client, question, expected[question])
            with lock:
                _count(seen, verdict)
            # Who is told when to come back does so.
            stop.wait(float(verdict[1]) if verdict[0] == "turned away" else {"": seen.pause_s}.get(verdict[0], 2.0))

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        stop.set()
        # A client that was told to come back may not have done so yet.
        seen.gap = max(seen.gap, time.monotonic() - seen.last)
        for thread in threads:
            thread.join(timeout=PATIENCE_S * 2)


def _verdict(client: Client, question: str, expected: str) -> tuple[str, str]:
    """Two empty words: answered as it must be; else what it was (`turned away`, `failed`, `wrong`), and how, or
    when to come back.
    """
    try:
        text, reason, counted = client.ask(question)
    except openai.APIStatusError as error:
        after_s = error.response.headers.get("retry-after")
        if error.status_code == 503 and after_s:
            return "turned away", after_s
        return "failed", f"HTTP {error.status_code}"
    except openai.APIError as error:
        return "failed", f"{type(error).__name__}: {str(error)[:60]}"
    except OSError as error:
        return "failed", type(error).__name__
    except Exception as error:
        # What breaks in the middle of a stream comes out of the HTTP library as it is.
        return "failed", type(error).__name__
    if text != expected:
        return "wrong", f"{len(text)} characters of {len(expected)}, {_agree(text, expected)} alike"
    if reason != "length" or counted != TOKENS:
        return "wrong", f"ended with {reason!r} after {counted} tokens"
    return "", ""


def _agree(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _count(seen: Seen, verdict: tuple[str, str]) -> None:
    kind, how = verdict
    if kind == "turned away":
        seen.turned_away += 1
    elif kind == "failed":
        seen.failed[how] += 1
    elif kind == "wrong":
        seen.wrong[how] += 1
    else:
        now = time.monotonic()
        seen.gap, seen.last, seen.answered = max(seen.gap, now - seen.last), now, seen.answered + 1

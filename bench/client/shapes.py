"""What the client is ordered and what it tells: lines of JSON, in both directions. It travels with the client."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

#: An engine's own JSON: bodies that it is sent, and what it answers.
Json = dict[str, Any]


class Message(TypedDict):
    """A message of a chat."""

    role: str
    content: str


class Turn(TypedDict):
    """What is asked: messages that are new, at most how many tokens, whether the answer has to have as many (`exact`),
    and its text where that is known.
    """

    messages: list[Message]
    max_tokens: int
    exact: bool
    expect: NotRequired[str | None]


class Place(TypedDict):
    """Who is asked: its base URL with /v1, a key or nothing; `extra` is in every body, seconds for a whole answer."""

    url: str
    key: str
    model: str
    extra: Json
    timeout_s: float


class Told(TypedDict):
    """A request that is over: a line of requests.jsonl, but for its step (bench/records.py), and its `text`.

    Seconds since the load began; None: it was not told, or nothing came. `right`: by what was expected.
    """

    conversation: int
    turn: int
    sent_s: float
    first_s: float | None
    done_s: float
    pieces_s: list[float]
    prompt_tokens: int | None
    answer_tokens: int | None
    cached_tokens: int | None
    error: str
    right: bool | None
    text: str


class Done(TypedDict, total=False):
    """What came of an order: of a load seconds and a share of one core, of prompts their tokens, of an address its
    `answer`, or a `problem`; else the versions of what the client runs with.
    """

    took_s: float
    cpu_share: float
    counts: list[int]
    answer: Json
    problem: str
    python: str
    aiohttp: str


class Line(TypedDict, total=False):
    """A line of the client's: a `request` that is over, or at last what is `done`."""

    request: Told
    done: Done

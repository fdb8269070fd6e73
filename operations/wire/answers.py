"""The gate of answers: what is asked through the door, what came back, and the table that is kept with a plan."""

from __future__ import annotations

from typing import TypedDict

from operations.wire import Json


class Probe(TypedDict):
    """One request: its name among the others, a path below /v1, and the body as it is sent."""

    name: str
    path: str
    body: Json


class Answered(TypedDict, total=False):
    """What came back. `status`: HTTP's, 0 where there was no answer; `text`: the words of an error, or of what failed.

    `body`: a whole answer; `events`: those of a stream, `ended`: whether it said that it is over. `seconds`: it took.
    """

    status: int
    text: str
    body: Json
    events: list[Json]
    ended: bool
    seconds: float


class AnsweredAll(TypedDict, total=False):
    """By the names of the requests; or the `problem` for which none was asked."""

    answers: dict[str, Answered]
    problem: str


class Row(TypedDict):
    """One check: `kind` form or sense; `verdict`: holds, fails, unsure, or not asked; `why`, where it does not hold."""

    name: str
    kind: str
    verdict: str
    why: str


class Proven(TypedDict):
    """The table of one model. `when`: the node's local time, to the minute; `seconds`: all questions together."""

    model: str
    recipe: str
    when: str
    seconds: float
    rows: list[Row]

"""Keys of clients: as they lie in the file, and as they are listed."""

from __future__ import annotations

from typing import TypedDict


class Key(TypedDict):
    """A key in keys.json, by its name (operations/node/door/keys.py writes it, files/litellm/door_keys.py reads it).

    Times are seconds since 1970; `requests` at once and `tokens` a minute; None: without an end, or any number.
    """

    hash: str
    made: float
    expires: float | None
    requests: int | None
    tokens: int | None


#: The whole file.
Keys = dict[str, Key]


class Use(TypedDict):
    """What a key has used, by its id (files/litellm/door_counts.py writes it)."""

    requests: int
    tokens: int
    last: float | None


class KeyRow(Use):
    """A key as `tandem keys` lists it; `at_once` and `a_minute` are its limits."""

    name: str
    id: str
    made: float | None
    expires: float | None
    at_once: int | None
    a_minute: int | None
    expired: bool


class Wish(TypedDict):
    """What a new key shall be (operations/plan/services/proxy_keys.py): seconds from now, or until when since 1970."""

    name: str
    within_s: float | None
    until: float | None
    requests: int | None
    tokens: int | None


class NewKey(Wish):
    """A wish with its key's hash (SHA-256, in hex), as it goes to the head. The key itself stays where it was made."""

    hash: str


class KeysTold(TypedDict, total=False):
    """What operations/node/door/keys.py answers; see there."""

    keys: list[KeyRow]
    made: Key
    revoked: str
    text: str
    alone: bool
    problem: str
    idle: bool
    unknown: bool
    none: bool
    dropped: list[str]

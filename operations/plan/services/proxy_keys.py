"""What an owner asks of a client's key, read strictly: name, end and limits. What has passed the node knows."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import cast

from operations.plan.config.refusal import Finding, Refusal
from operations.wire.keys import Wish

#: As it stands in the log, in tables and in a file.
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
#: What the log calls whoever has the owner's key, and whoever has none.
RESERVED = ("owner", "nobody")
#: Seconds of each unit.
_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
#: Ten years: what is meant to last longer needs no end.
_LONGEST_S = 3653 * 86400
_LARGEST = 10**12


def wish(name: str, expires: str, requests: str, tokens: str) -> Wish:
    """What `tandem key` was given, as the node takes it: `name`; `within_s` or `until` (seconds since 1970): its end;
    `requests` at once and `tokens` a minute, None without a limit. Raises Refusal with all that is wrong.
    """
    found: list[Finding] = []
    read: dict[str, object] = {"within_s": None, "until": None}
    for parse, wanted in (
        (lambda: {"name": named(name)}, True),
        (lambda: _end(expires.strip()), bool(expires.strip())),
        (lambda: {"requests": _limit("--requests", requests, "of requests at once")}, True),
        (lambda: {"tokens": _limit("--tokens", tokens, "of tokens a minute")}, True),
    ):
        try:
            read |= parse() if wanted else {}
        except Refusal as refusal:
            found += refusal.findings
    if found:
        raise Refusal(*found)
    return cast("Wish", read)


def named(name: str) -> str:
    """The name of a key; raises Refusal."""
    if not name:
        raise _refused("the name is empty", "say whose key it is: `tandem key alice`")
    if not _NAME.fullmatch(name):
        wanted = "up to 32 of a-z, 0-9, `.`, `_` and `-`, the first a letter or a digit"
        raise _refused(f"{name!r} is no name for a key", wanted)
    if name in RESERVED:
        raise _refused(f"{name!r} is what the log calls somebody else", "choose another name")
    return name


def _end(expires: str) -> dict[str, float]:
    if found := re.fullmatch(r"([0-9]{1,9})([mhdw])", expires):
        seconds = int(found[1]) * _UNITS[found[2]]
        if not 1 <= seconds <= _LONGEST_S:
            raise _refused(f"--expires {expires!r} is not between 1m and ten years", "without it it has no end")
        return {"within_s": float(seconds)}
    try:
        if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", expires):
            return {"until": datetime.strptime(expires, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()}
    except ValueError:
        pass
    wanted = "a time from now (45m, 12h, 30d, 8w) or the day on which it ends, in UTC (2027-01-31)"
    raise _refused(f"--expires {expires!r} is no time", wanted)


def _limit(word: str, said: str, of: str) -> int | None:
    said = said.strip()
    if not said:
        return None
    if not re.fullmatch(r"[0-9]{1,13}", said) or not 1 <= int(said) <= _LARGEST:
        wanted = f"a number {of}, 1 or more; without it there is no limit"
        raise _refused(f"{word} {said!r} is no limit", wanted)
    return int(said)


def _refused(problem: str, remedy: str) -> Refusal:
    return Refusal(Finding("key", problem, remedy))

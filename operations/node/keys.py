"""Keys of the proxy's clients: made, revoked and listed on the head. Only their hashes lie there.

The proxy looks at the file for each request (files/proxy/door_keys.py): it is written aside and renamed, under a lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: What the proxy reads, beside its own key.
KEYS = Path("/etc/tandem/proxy/secrets/keys.json")
#: What it writes of their use.
USED = Path("/var/lib/tandem/keys/used.json")
#: It is there where the proxy that is deployed knows of keys.
DOOR = Path("/etc/tandem/proxy/door.py")
#: More than that make each request slower: all of them are compared.
MOST = 1000
_OWNER = "owner"


def main(make: dict[str, Any] | None = None, revoke: str = "") -> dict[str, Any]:
    """`make`: name, hash, within_s or until, requests and tokens of a new key; `revoke`: the name of one; else
    `keys`: all of them, the owner's first, with what they have used. `problem`: why not, and what to do.
    """
    if not DOOR.exists():
        return {"problem": "no proxy that knows of keys is deployed on the head: `make apply` deploys one"}
    try:
        if make is None and not revoke:
            return {"keys": listed(_read(), _used())}
        with _changing() as keys:
            return _made(keys, **make) if make is not None else _revoked(keys, revoke)
    except (ValueError, KeyError, TypeError, AttributeError):
        return {"problem": f"{KEYS} on the head is broken: remove it, and make the keys anew"}
    except OSError as error:
        return {"problem": f"{error.filename or KEYS} on the head: {error.strerror}: nothing was changed"}


def _made(
    keys: dict[str, Any],
    name: str,
    hash: str,
    within_s: float | None,
    until: float | None,
    requests: int | None,
    tokens: int | None,
) -> dict[str, Any]:
    now = time.time()
    if name in keys:
        return {
            "problem": f"there is a key named `{name}`: `make key-revoke NAME={name}` ends it, or choose another name"
        }
    if len(keys) >= MOST:
        return {"problem": f"there are {MOST} keys, which is as many as there can be: `make keys` lists them"}
    if until is not None and until <= now:
        today = time.strftime("%Y-%m-%d %H:%M", time.gmtime(now))
        return {"problem": f"EXPIRES= is in the past: on the head it is {today} UTC"}
    ends = now + within_s if within_s is not None else until
    keys[name] = {"hash": hash, "made": now, "expires": ends, "requests": requests, "tokens": tokens}
    return {"made": keys[name]}


def _revoked(keys: dict[str, Any], name: str) -> dict[str, Any]:
    if name not in keys:
        return {"problem": f"there is no key named `{name}`: `make keys` lists them"}
    del keys[name]
    return {"revoked": name}


def listed(keys: dict[str, Any], used: dict[str, Any]) -> list[dict[str, Any]]:
    """A row each."""
    nothing = {"requests": 0, "tokens": 0, "last": None}
    owners = {"name": _OWNER, "made": None, "expires": None, "at_once": None, "a_minute": None}
    rows = [owners | nothing | used.get(_OWNER, {})]
    for name, key in keys.items():
        limits = {"at_once": key["requests"], "a_minute": key["tokens"]}
        mine = {"name": name, "made": key["made"], "expires": key["expires"], **limits}
        rows.append(mine | nothing | used.get(key["hash"][:16], {}))
    return [row | {"expired": row["expires"] is not None and row["expires"] <= time.time()} for row in rows]


@contextmanager
def _changing() -> Iterator[dict[str, Any]]:
    """All keys, to be changed; kept when the block ends well and they are others. One at a time."""
    whose = KEYS.parent.stat()
    with open(os.open(KEYS.with_name("keys.lock"), os.O_WRONLY | os.O_CREAT, 0o600), "w") as lock:
        os.fchown(lock.fileno(), whose.st_uid, whose.st_gid)
        fcntl.flock(lock, fcntl.LOCK_EX)
        keys = _read()
        before = json.dumps(keys)
        yield keys
        if json.dumps(keys) == before:
            return
        aside = KEYS.with_name("keys.json.part")
        aside.unlink(missing_ok=True)
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            # The proxy's, which is not root.
            os.fchown(out.fileno(), whose.st_uid, whose.st_gid)
            json.dump(keys, out, indent=1)
            out.flush()
            # A revoked key must not be back after a power cut.
            os.fsync(out.fileno())
        aside.replace(KEYS)
        folder = os.open(KEYS.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _read() -> dict[str, Any]:
    try:
        keys: dict[str, Any] = json.loads(KEYS.read_text())
    except FileNotFoundError:
        return {}
    for key in keys.values():
        {key[word] for word in ("hash", "made", "expires", "requests", "tokens")}
    return keys


def _used() -> dict[str, Any]:
    """By id; one that can't be read is begun anew by the proxy."""
    try:
        found: dict[str, Any] = json.loads(USED.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found

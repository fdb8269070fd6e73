"""Keys of the proxies' clients: made and revoked on the head, and taken over by the other nodes. Only hashes lie there.

LiteLLM looks at the file for each request (files/litellm/door_keys.py): it is written aside and renamed, under a lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from operations.node.unit import services
from operations.paths import CLIENT_KEYS, KEYS_USED, LITELLM, folder_of
from operations.wire.keys import Key, KeyRow, Keys, KeysTold, NewKey, Use

#: What the proxy reads, beside its own key.
KEYS = Path(CLIENT_KEYS)
#: What it writes of their use.
USED = Path(KEYS_USED) / "used.json"
#: It is there where the proxy that is deployed knows of keys.
DOOR = Path(folder_of(LITELLM[0])) / "door.py"
#: More than that make each request slower: all of them are compared.
MOST = 1000
_OWNER = "owner"


def main(
    make: NewKey | None = None,
    revoke: str = "",
    careful: bool = False,
    tell: bool = False,
    take: bool = False,
    anyway: bool = False,
    where: str = "the head",
) -> KeysTold:
    """`make`: name, hash, within_s or until, requests and tokens of a new key; `revoke`: the name of one; else
    `keys`: all of them, the owner's first, with what they have used. `problem`: why not, and what to do. `alone`: no
    other node has a proxy. `idle`: this one has none. `unknown`: no key has the name that was to be revoked. `none`:
    there is no file here, and other nodes may have one; who is not `careful` makes it.

    `text`: the whole file as it is then, for the other nodes; `tell` asks for nothing else. `take`: standard input is
    that text, and becomes this node's; `dropped`: names of keys that it has ended here. `anyway`: where no proxy is
    deployed yet as well. `where`: what messages call this node.
    """
    if not DOOR.exists() and not anyway:
        return {
            "problem": f"no proxy that knows of keys is deployed on {where}: `tandem apply` deploys one",
            "idle": True,
        }
    try:
        if take:
            return _taken(sys.stdin.read(), where)
        if tell:
            return {"text": _told()}
        if make is None and not revoke:
            return {"keys": listed(_read(), _used())}
        alone = services.deployed() == "solo"
        if careful and not alone and not KEYS.exists():
            return {"none": True}
        with _changing() as keys:
            done = _made(keys, **make) if make is not None else _revoked(keys, revoke)
        return {**done, "text": _told(), "alone": alone}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {"problem": f"{KEYS} on {where} is broken: remove it, and `tandem apply` brings that of another node"}
    except OSError as error:
        return {"problem": f"{error.filename or KEYS} on {where}: {error.strerror}: nothing was changed"}


def _made(
    keys: Keys,
    name: str,
    hash: str,
    within_s: float | None,
    until: float | None,
    requests: int | None,
    tokens: int | None,
) -> KeysTold:
    now = time.time()
    if name in keys:
        return {"problem": f"there is a key named `{name}`: `tandem key-revoke {name}` ends it, or choose another name"}
    if len(keys) >= MOST:
        return {"problem": f"there are {MOST} keys, which is as many as there can be: `tandem keys` lists them"}
    if until is not None and until <= now:
        today = time.strftime("%Y-%m-%d %H:%M", time.gmtime(now))
        return {"problem": f"--expires is in the past: on the head it is {today} UTC"}
    ends = now + within_s if within_s is not None else until
    keys[name] = {"hash": hash, "made": now, "expires": ends, "requests": requests, "tokens": tokens}
    return {"made": keys[name]}


def _taken(text: str, where: str) -> KeysTold:
    """Byte for byte, so that a deploy finds the same hash."""
    try:
        keys = _parsed(text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return {"problem": f"the keys of clients came to {where} broken: nothing was changed there"}
    with _locked():
        try:
            before = _read()
            if KEYS.exists() and KEYS.read_text() == text and KEYS.stat().st_mode & 0o777 == 0o600:
                return {"dropped": []}
        except (ValueError, KeyError, TypeError, AttributeError):
            before = {}
        _write(text)
    ended = [name for name, key in before.items() if name not in keys or keys[name]["hash"] != key["hash"]]
    return {"dropped": sorted(ended)}


def _revoked(keys: Keys, name: str) -> KeysTold:
    if name not in keys:
        # Where there is no file others may have one, and are not to be told that there are no keys.
        answer: KeysTold = {"problem": f"there is no key named `{name}`: `tandem keys` lists them"}
        if KEYS.exists():
            answer["unknown"] = True
        return answer
    del keys[name]
    return {"revoked": name}


def listed(keys: Keys, used: dict[str, Use]) -> list[KeyRow]:
    """A row each; `id` is the key's, whatever its name (files/litellm/door_keys.py)."""
    owners: Key = {"hash": _OWNER, "made": 0, "expires": None, "requests": None, "tokens": None}
    rows = [_row(_OWNER, owners, used)]
    rows[0]["made"] = None
    return [*rows, *(_row(name, key, used) for name, key in keys.items())]


def _row(name: str, key: Key, used: dict[str, Use]) -> KeyRow:
    nothing: Use = {"requests": 0, "tokens": 0, "last": None}
    use: Use = {**nothing, **used.get(key["hash"][:16], nothing)}
    return {
        **use,
        "name": name,
        "id": key["hash"][:16],
        "made": key["made"],
        "expires": key["expires"],
        "at_once": key["requests"],
        "a_minute": key["tokens"],
        "expired": key["expires"] is not None and key["expires"] <= time.time(),
    }


@contextmanager
def _changing() -> Iterator[Keys]:
    """All keys, to be changed; kept when the block ends well and they are others. One at a time."""
    with _locked():
        keys = _read()
        before = _text(keys)
        yield keys
        if _text(keys) != before:
            _write(_text(keys))


@contextmanager
def _locked() -> Iterator[None]:
    """One writer at a time, on this node."""
    with open(os.open(KEYS.with_name("keys.lock"), os.O_WRONLY | os.O_CREAT, 0o600), "w") as lock:
        _give(lock.fileno())
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(text: str) -> None:
    """Whole or not at all, and on the disk."""
    aside = KEYS.with_name("keys.json.part")
    aside.unlink(missing_ok=True)
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        _give(out.fileno())
        out.write(text)
        out.flush()
        # A revoked key must not be back after a power cut.
        os.fsync(out.fileno())
    aside.replace(KEYS)
    folder = os.open(KEYS.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _give(file: int) -> None:
    """To whom the folder belongs: LiteLLM reads it, which is not root."""
    whose = KEYS.parent.stat()
    os.fchown(file, whose.st_uid, whose.st_gid)


def _text(keys: Keys) -> str:
    """As they lie in the file."""
    return json.dumps(keys, indent=1) + "\n"


def _told() -> str:
    """The file byte for byte: a deploy compares hashes, and an older version wrote it in another form."""
    text = KEYS.read_text() if KEYS.exists() else _text({})
    _parsed(text)
    return text


def _read() -> Keys:
    """Nothing where there is no file."""
    try:
        return _parsed(KEYS.read_text())
    except FileNotFoundError:
        return {}


def _parsed(text: str) -> Keys:
    """Raises ValueError, KeyError, TypeError or AttributeError where it is no file of keys."""
    keys: Keys = json.loads(text)
    for key in keys.values():
        {key[word] for word in ("hash", "made", "expires", "requests", "tokens")}
    return keys


def _used() -> dict[str, Use]:
    """By id; one that can't be read is begun anew by the proxy."""
    try:
        found: dict[str, Use] = json.loads(USED.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found

"""What each key has used, kept in a file beyond the proxy's end. Several processes may add to it."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Seconds that a count waits for others before it is written; a proxy that is killed loses them.
WAIT_S = 0.5


class Counts:
    """Adds up, and writes from a thread of its own: a disk that is slow makes no request wait. `known`: the ids of all
    keys; what others have used is forgotten.
    """

    def __init__(self, path: Path, known: Callable[[], set[str]]) -> None:
        self._path, self._known = path, known
        self._new: dict[str, dict[str, Any]] = {}
        self._lock, self._something = threading.Lock(), threading.Event()
        self._fails = False
        threading.Thread(target=self._write, daemon=True).start()

    def add(self, key: str, tokens: int) -> None:
        """A request of this key has ended, and has cost this."""
        with self._lock:
            _add(self._new, key, {"requests": 1, "tokens": tokens, "last": time.time()})
        self._something.set()

    def flush(self) -> None:
        """Write what has been added; raises OSError, and keeps it then."""
        with self._lock:
            new, self._new = self._new, {}
        try:
            self._merge(new)
        except OSError:
            with self._lock:
                for key, use in new.items():
                    _add(self._new, key, use)
            raise

    def _write(self) -> None:
        while True:
            self._something.wait()
            time.sleep(WAIT_S)
            self._something.clear()
            try:
                self.flush()
                self._fails = False
            except OSError as error:
                if not self._fails:
                    print(f"tandem: what keys have used can't be written ({error.strerror}); it is kept in memory")
                self._fails = True

    def _merge(self, new: dict[str, dict[str, Any]]) -> None:
        with open(self._path.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known, uses = self._known(), read(self._path)
            for key, use in new.items():
                _add(uses, key, use)
            aside = self._path.with_suffix(".part")
            with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
                json.dump({key: use for key, use in uses.items() if key in known}, out)
            aside.replace(self._path)


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Id -> requests, tokens, and `last`: when the last one ended, in seconds since 1970."""
    try:
        said = json.loads(path.read_text())
        return {
            key: {"requests": use["requests"], "tokens": use["tokens"], "last": use["last"]}
            for key, use in said.items()
        }
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        # A count that is broken begins anew.
        return {}


def _add(uses: dict[str, dict[str, Any]], key: str, use: dict[str, Any]) -> None:
    before = uses.setdefault(key, {"requests": 0, "tokens": 0, "last": 0.0})
    before["requests"] += use["requests"]
    before["tokens"] += use["tokens"]
    before["last"] = max(before["last"], use["last"])

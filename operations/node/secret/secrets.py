"""Secrets on a node, compared by hash: their text never travels through a fact."""

from __future__ import annotations

import hashlib
from pathlib import Path

from operations.paths import ALARM_SECRETS, CLIENT_KEYS, PROXY_KEY, RAY_TOKEN

#: Tandem's secrets on a node.
PATHS = (RAY_TOKEN, PROXY_KEY, CLIENT_KEYS)
#: Passwords and tokens of those whom alarms are sent to; how many there are is the owner's matter.
ALARMS = Path(ALARM_SECRETS)


def hashes() -> dict[str, str]:
    """sha256 of each secret file, by path; empty: none. Who may read them is another question (modes.py)."""
    alarms = {str(file): hash_of(file) for file in sorted(ALARMS.glob("alarm-*")) if file.suffix != ".part"}
    return {path: hash_of(Path(path)) for path in PATHS} | alarms


def hash_of(file: Path) -> str:
    """SHA-256 of a file in hex; empty: there is none."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else ""

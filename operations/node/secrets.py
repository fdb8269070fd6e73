"""Secrets on a node, compared by hash: their text never travels through a fact."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

#: Hashes of keys of clients.
CLIENT_KEYS = "/etc/tandem/proxy/secrets/keys.json"
#: Tandem's secrets on a node.
PATHS = ("/etc/tandem/engine/secrets/ray.token", "/etc/tandem/proxy/secrets/master.key", CLIENT_KEYS)


def hashes() -> dict[str, str]:
    """The hash of each; empty: there is none, or others can read it. Keys of clients are nobody's secret and took long
    to give out: theirs is there all the same, with the mode behind it (operations/client_keys.py).
    """
    answers = {path: main(path) for path in PATHS}
    found = {path: answer["hash"] if answer["mode"] == "600" else "" for path, answer in answers.items()}
    keys = answers[CLIENT_KEYS]
    return found if found[CLIENT_KEYS] else found | {CLIENT_KEYS: f"{keys['hash']} {keys['mode']}".strip()}


def main(path: str) -> dict[str, Any]:
    """The sha256 and the mode of a secret file (empty: none)."""
    file = Path(path)
    if not file.exists():
        return {"hash": "", "mode": ""}
    return {"hash": hashlib.sha256(file.read_bytes()).hexdigest(), "mode": f"{file.stat().st_mode & 0o777:o}"}

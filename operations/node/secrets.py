"""Secrets on a node, compared by hash: their text never travels through a fact."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

#: Tandem's secrets on a node.
PATHS = (
    "/etc/tandem/engine/secrets/ray.token",
    "/etc/tandem/proxy/secrets/master.key",
    # Hashes of keys of clients.
    "/etc/tandem/proxy/secrets/keys.json",
)


def hashes() -> dict[str, str]:
    """sha256 of each secret file, by path; empty: none, or one that others may read."""
    answers = {path: main(path) for path in PATHS}
    return {path: answer["hash"] if answer["mode"] == "600" else "" for path, answer in answers.items()}


def main(path: str) -> dict[str, Any]:
    """The sha256 and the mode of a secret file (empty: none)."""
    file = Path(path)
    if not file.exists():
        return {"hash": "", "mode": ""}
    return {"hash": hashlib.sha256(file.read_bytes()).hexdigest(), "mode": f"{file.stat().st_mode & 0o777:o}"}

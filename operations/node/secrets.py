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
    """sha256 of each secret file, by path; empty: none. Who may read them is another question (modes.py)."""
    return {path: main(path)["hash"] for path in PATHS}


def main(path: str) -> dict[str, Any]:
    """The sha256 and the mode of a secret file (empty: none)."""
    file = Path(path)
    if not file.exists():
        return {"hash": "", "mode": ""}
    return {"hash": hashlib.sha256(file.read_bytes()).hexdigest(), "mode": f"{file.stat().st_mode & 0o777:o}"}

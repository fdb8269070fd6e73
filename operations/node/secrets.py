"""Secrets on a node: made there, or compared by hash; their text never travels through a fact."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Any

#: Tandem's secrets on a node.
PATHS = ("/etc/tandem/engine/secrets/ray.token", "/etc/tandem/proxy/secrets/master.key")


def hashes() -> dict[str, str]:
    """sha256 of each secret file, by path; empty: none, or one that others may read."""
    answers = {path: main(path) for path in PATHS}
    return {path: answer["hash"] if answer["mode"] == "600" else "" for path, answer in answers.items()}


def main(path: str, make: bool = False) -> dict[str, Any]:
    """The sha256 of a secret file (empty: none); with `make`, 32 random bytes under it, mode 0600, if there is none."""
    file = Path(path)
    if make and not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        aside = file.with_name(f"{file.name}.part")
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(b"sk-" + base64.urlsafe_b64encode(os.urandom(32)).rstrip(b"=") + b"\n")
        aside.rename(file)
    if not file.exists():
        return {"hash": "", "mode": ""}
    return {"hash": hashlib.sha256(file.read_bytes()).hexdigest(), "mode": f"{file.stat().st_mode & 0o777:o}"}

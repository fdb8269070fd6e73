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
    """sha256 of each secret file, by path; empty: none. Who may read them is another question (modes.py)."""
    return {path: main(path)["hash"] for path in PATHS}


def main(path: str, make: bool = False, user: int = 0) -> dict[str, Any]:
    """The sha256 of a secret file (empty: none); with `make`, 32 random bytes under it, mode 0600, if there is none,
    which are the `user`'s as is the folder. Folders above that are not there yet are root's.
    """
    file = Path(path)
    if make and not file.exists():
        file.parent.parent.mkdir(parents=True, exist_ok=True)
        file.parent.mkdir(exist_ok=True, mode=0o700)
        os.chown(file.parent, user, user)
        aside = file.with_name(f"{file.name}.part")
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            os.fchown(out.fileno(), user, user)
            out.write(b"sk-" + base64.urlsafe_b64encode(os.urandom(32)).rstrip(b"=") + b"\n")
        aside.rename(file)
    if not file.exists():
        return {"hash": "", "mode": ""}
    return {"hash": hashlib.sha256(file.read_bytes()).hexdigest(), "mode": f"{file.stat().st_mode & 0o777:o}"}

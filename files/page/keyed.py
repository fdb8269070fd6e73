"""Who may see the page: whoever has the owner's key, as a bearer's or as the password that a browser asks for."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence


class Keyed:
    """The owner's key, by its hash: it has 256 bits, so a plain SHA-256 will do (see door_keys.py)."""

    def __init__(self, owners: str) -> None:
        if not owners:
            raise ValueError("the owner's key is empty")
        self._hash = hashlib.sha256(owners.encode()).digest()

    def admits(self, said: Sequence[str]) -> bool:
        """`said`: all Authorization headers of a request; two are as none. The hashes are compared whole: how long it
        takes says nothing.
        """
        secret = _secret(said[0]) if len(said) == 1 else b""
        return hmac.compare_digest(hashlib.sha256(secret).digest(), self._hash)


def _secret(said: str) -> bytes:
    kind, _, rest = said.strip().partition(" ")
    if kind.lower() == "bearer":
        return rest.strip().encode("latin-1", "replace")
    if kind.lower() != "basic":
        return b""
    try:
        return base64.b64decode(rest.strip(), validate=True).partition(b":")[2]
    except ValueError:
        return b""

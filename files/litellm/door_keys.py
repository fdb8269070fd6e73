"""Keys of clients, as they lie on the node: their hashes, in a file that is looked at for each request.

A key has 256 bits from the kernel's generator, so its hash is a plain SHA-256. Salt and many rounds protect passwords
that people choose, and that can be guessed. A slow hash would also let strangers without a key keep the proxy busy.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from dataclasses import dataclass
from pathlib import Path

#: Who has the key that `tandem endpoint` prints.
OWNER = "owner"


@dataclass(frozen=True)
class Key:
    """What is known of a key. `expires`: seconds since 1970. `requests`: at once; `tokens`: a minute; None: any."""

    name: str
    hash: str
    expires: float | None = None
    requests: int | None = None
    tokens: int | None = None

    @property
    def id(self) -> str:
        """By which its use is counted: a key that is made under an old name begins at nothing."""
        return OWNER if self.name == OWNER else self.hash[:16]


class Keys:
    """The owner's key and those of the file; one that is renamed into its place is seen at the next request."""

    def __init__(self, path: Path, owners: str) -> None:
        self._path = path
        self._owner = Key(OWNER, hashlib.sha256(owners.encode()).hexdigest())
        self._seen: tuple[int, int, int] | None = None
        self._keys: tuple[Key, ...] = ()

    def find(self, secret: bytes) -> Key | None:
        """Whose key this is. Each hash is compared whole: how long it takes says nothing of them."""
        asked, found = hashlib.sha256(secret).hexdigest(), None
        for key in (self._owner, *self._look()):
            if hmac.compare_digest(key.hash, asked):
                found = key
        return found

    def ids(self) -> set[str]:
        """Ids of all keys that there are now."""
        return {key.id for key in (self._owner, *self._look())}

    def _look(self) -> tuple[Key, ...]:
        try:
            stat = os.stat(self._path)
        except FileNotFoundError:
            self._seen, self._keys = None, ()
            return ()
        # A change of its owner or its mode as well: it may be that it could not be read.
        now = (stat.st_ino, stat.st_ctime_ns, stat.st_size)
        if now != self._seen:
            try:
                said = json.loads(self._path.read_text())
                self._keys = tuple(
                    Key(name, key["hash"], key["expires"], key["requests"], key["tokens"]) for name, key in said.items()
                )
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                # Whoever had a key keeps it: a disk that fails should not end the service.
                print(f"tandem: {self._path.name} can't be read ({type(error).__name__}): the keys are those of before")
            self._seen = now
        return self._keys

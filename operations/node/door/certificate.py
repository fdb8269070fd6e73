"""The certificate of this node's proxy, and on the head the authority that signs those of all nodes.

A key never leaves the node that made it: the node asks, the head signs, and what travels is public. An owner's own
certificate comes whole, on standard input.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from operations import paths
from operations.node.door import authority as signing
from operations.node.door.proxy import LOADED
from operations.wire.look import Certificate, CertificateLeft

#: What HAProxy reads: the key, its certificate, and those that vouch for it; and the key beside it.
FOLDER = Path(paths.TLS)
PEM, KEY = FOLDER / "proxy.pem", FOLDER / "proxy.key"
#: The authority, on the head.
AUTHORITY = Path(paths.AUTHORITY)


def main(
    user: int = 0, request: bool = False, sign: str = "", names: Sequence[str] = (), take: str = "", whole: bool = False
) -> Certificate:
    """Without arguments: what is here, see `found`. `request`: the question to the authority, `asks`. `sign`: such a
    question for these names; `chain`: its answer. `take`: that answer becomes this node's; `whole`: what comes on
    standard input does, key and all. Files are `user`'s.
    """
    if request:
        return {"asks": signing.request(KEY, user)}
    if sign:
        return {"chain": signing.signed(AUTHORITY, sign, names)}
    if take or whole:
        signing.write(PEM, sys.stdin.read() if whole else KEY.read_text() + take, user)
    return found()


def found() -> Certificate:
    """`hash`: of what HAProxy reads, empty: nothing, or nothing that can be read as such; `names` and `ends` (seconds
    since 1970) of its certificate; `authority`: the hash of the last certificate in it; `own`: of the authority that
    lies here, `owners`: for whose keys it has signed; `newer`: HAProxy has not read it yet.
    """
    own = AUTHORITY / "ca.crt"
    here: Certificate = {"own": _hash(own.read_text()) if own.exists() else "", "hash": "", "names": [], "ends": 0.0}
    here["owners"] = signing.owners(AUTHORITY)
    text = PEM.read_text() if PEM.exists() else ""
    certificates = signing.certificates(text)
    names, ends = signing.described(certificates[0]) if certificates else ([], 0.0)
    if not ends:
        return here | {"authority": "", "newer": False}
    newer = not LOADED.exists() or PEM.stat().st_mtime > LOADED.stat().st_mtime
    return here | {
        "hash": hashlib.sha256(text.encode()).hexdigest(),
        "names": names,
        "ends": ends,
        "authority": _hash(certificates[-1]),
        "newer": newer,
    }


def left() -> CertificateLeft:
    """`days` until the certificate ends, below 0 when it has; nothing where there is none."""
    ends = found()["ends"]
    return {"days": (ends - time.time()) / 86_400} if ends else {}


def shown() -> str:
    """What the proxy of this node shows: its certificate, and those that vouch for it."""
    return "".join(f"{each}\n" for each in signing.certificates(PEM.read_text()))


def authority() -> str:
    """The certificate of our authority, if it has signed this node's: clients have to know it. Else empty."""
    # With an owner's own the key came with it, and whoever trusts it does so already.
    if not PEM.exists() or not KEY.exists() or not PEM.read_text().startswith(KEY.read_text()):
        return ""
    return f"{signing.certificates(PEM.read_text())[-1]}\n"


def _hash(certificate: str) -> str:
    return hashlib.sha256(certificate.strip().encode()).hexdigest()

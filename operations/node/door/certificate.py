"""The certificate of this node's proxy, and on the head the authority that signs those of all nodes.

A key never leaves the node that made it: the node asks, the head signs, and what travels is public. An owner's own
certificate comes whole, on standard input.
"""

from __future__ import annotations

import fcntl
import hashlib
import ipaddress
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from operations import paths
from operations.node.door.proxy import LOADED
from operations.shapes.look import Certificate, CertificateLeft

#: What HAProxy reads: the key, its certificate, and those that vouch for it; and the key beside it.
FOLDER = Path(paths.TLS)
PEM, KEY = FOLDER / "proxy.pem", FOLDER / "proxy.key"
#: The authority, on the head.
AUTHORITY = Path(paths.AUTHORITY)
#: Days that each is valid: clients take 397 at most, and the authority should outlive the machines.
DAYS, AUTHORITY_DAYS = 397, 7300
_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def main(
    user: int = 0, request: bool = False, sign: str = "", names: Sequence[str] = (), take: str = "", whole: bool = False
) -> Certificate:
    """Without arguments: what is here, see `found`. `request`: the question to the authority, `asks`. `sign`: such a
    question for these names; `chain`: its answer. `take`: that answer becomes this node's; `whole`: what comes on
    standard input does, key and all. Files are `user`'s.
    """
    if request:
        return {"asks": _request(user)}
    if sign:
        return {"chain": _signed(sign, names)}
    if take or whole:
        _write(PEM, sys.stdin.read() if whole else KEY.read_text() + take, user)
    return found()


def found() -> Certificate:
    """`hash`: of what HAProxy reads, empty: nothing, or nothing that can be read as such; `names` and `ends` (seconds
    since 1970) of its certificate; `authority`: the hash of the last certificate in it; `own`: of the authority that
    lies here; `newer`: HAProxy has not read it yet.
    """
    own = AUTHORITY / "ca.crt"
    here: Certificate = {"own": _hash(own.read_text()) if own.exists() else "", "hash": "", "names": [], "ends": 0.0}
    text = PEM.read_text() if PEM.exists() else ""
    certificates = _CERTIFICATE.findall(text)
    said = _described(certificates[0]) if certificates else ""
    end = re.search(r"notAfter=(.*)", said)
    if not end:
        return here | {"authority": "", "newer": False}
    ends = datetime.strptime(end[1].strip(), "%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC)
    named = [_plain(each) for each in re.findall(r"(?:DNS|IP Address):([^,\s]+)", said)]
    newer = not LOADED.exists() or PEM.stat().st_mtime > LOADED.stat().st_mtime
    return here | {
        "hash": hashlib.sha256(text.encode()).hexdigest(),
        "names": named,
        "ends": ends.timestamp(),
        "authority": _hash(certificates[-1]),
        "newer": newer,
    }


def left() -> CertificateLeft:
    """`days` until the certificate ends, below 0 when it has; nothing where there is none."""
    ends = found()["ends"]
    return {"days": (ends - time.time()) / 86_400} if ends else {}


def shown() -> str:
    """What the proxy of this node shows: its certificate, and those that vouch for it."""
    return "".join(f"{each}\n" for each in _CERTIFICATE.findall(PEM.read_text()))


def authority() -> str:
    """The certificate of our authority, if it has signed this node's: clients have to know it. Else empty."""
    # With an owner's own the key came with it, and whoever trusts it does so already.
    if not PEM.exists() or not KEY.exists() or not PEM.read_text().startswith(KEY.read_text()):
        return ""
    return f"{_CERTIFICATE.findall(PEM.read_text())[-1]}\n"


def _request(user: int) -> str:
    if not KEY.exists():
        _write(KEY, _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"), user)
    return _openssl("req", "-new", "-key", str(KEY), "-subj", f"/CN={os.uname().nodename[:60]}")


def _for_root_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _signed(asks: str, names: Sequence[str]) -> str:
    """The certificate and the authority's."""
    AUTHORITY.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(AUTHORITY / "lock", "w", opener=_for_root_alone) as lock, tempfile.TemporaryDirectory() as folder:
        # Two nodes may ask at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        own, key = AUTHORITY / "ca.crt", AUTHORITY / "ca.key"
        if not own.exists():
            _write(key, _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"), 0)
            _write(own, _authority(key), 0)
        alt = ",".join(f"{'IP' if _is_address(each) else 'DNS'}:{each}" for each in names)
        extensions = Path(folder) / "extensions"
        extensions.write_text(
            f"subjectAltName={alt}\nbasicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
            "extendedKeyUsage=serverAuth\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
        )
        argv = ("x509", "-req", "-CA", str(own), "-CAkey", str(key), "-days", str(DAYS), "-set_serial")
        serial = f"0x{os.urandom(16).hex()}"
        return _openssl(*argv, serial, "-extfile", str(extensions), stdin=asks) + own.read_text()


def _authority(key: Path) -> str:
    argv = ["req", "-x509", "-new", "-key", str(key), "-days", str(AUTHORITY_DAYS), "-subj"]
    argv += [f"/CN=Tandem on {os.uname().nodename[:40]}", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    return _openssl(*argv)


def _described(certificate: str) -> str:
    """Its end and its names; empty: it is none, or nobody is here to read it (checks.py in operations/plan says so)."""
    try:
        return _openssl("x509", "-noout", "-enddate", "-ext", "subjectAltName", stdin=certificate)
    except (RuntimeError, OSError):
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _plain(name: str) -> str:
    """An address as others write it; openssl spells IPv6 out."""
    return str(ipaddress.ip_address(name)) if _is_address(name) else name


def _hash(certificate: str) -> str:
    return hashlib.sha256(certificate.strip().encode()).hexdigest()


def _write(path: Path, text: str, user: int) -> None:
    """Whole, or not at all."""
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700)
        os.chown(path.parent, user, user)
    aside = path.with_suffix(".part")
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        os.fchown(out.fileno(), user, user)
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    aside.replace(path)


def _openssl(*argv: str, stdin: str = "") -> str:
    """Raises RuntimeError with its last words."""
    done = subprocess.run(["openssl", *argv], input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"openssl {argv[0]}: {' '.join(done.stderr.split())[-200:]}")
    return done.stdout

"""Certificates of our own authority: asked for, signed, and read, by openssl.

A deploy has it among the node programs, and what follows the office's addresses lies beside a copy of it
(operations/plan/services/office.py): so it needs nothing of Tandem's.
"""

from __future__ import annotations

import fcntl
import hashlib
import ipaddress
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

#: Days that each is valid: clients take 397 at most, and the authority should outlive the machines.
DAYS, AUTHORITY_DAYS = 397, 7300
_NAME = re.compile(r"[A-Za-z0-9._:-]+")
_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def certificates(text: str) -> list[str]:
    """Those in a file in PEM, a node's own first."""
    return _CERTIFICATE.findall(text)


def described(certificate: str) -> tuple[list[str], float]:
    """Its names, and its end in seconds since 1970; 0: it is none, or nobody is here to read it."""
    try:
        said = openssl("x509", "-noout", "-enddate", "-ext", "subjectAltName", stdin=certificate)
    except (RuntimeError, OSError):
        return [], 0.0
    end = re.search(r"notAfter=(.*)", said)
    if not end:
        return [], 0.0
    ends = datetime.strptime(end[1].strip(), "%b %d %H:%M:%S %Y GMT").replace(tzinfo=timezone.utc)
    return [_plain(each) for each in re.findall(r"(?:DNS|IP Address):([^,\s]+)", said)], ends.timestamp()


def request(key: Path, user: int) -> str:
    """The question to the authority for this key, which is made where it is not there yet."""
    if not key.exists():
        write(key, openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"), user)
    return openssl("req", "-new", "-key", str(key), "-subj", f"/CN={os.uname().nodename[:60]}")


def signed(folder: Path, asks: str, names: Sequence[str]) -> str:
    """The certificate for a question, and the authority's, which lies in `folder` and is made where it does not.
    Whose key it is, the first of the names, is kept there: see `owner`. Raises RuntimeError for a name that is none.
    """
    for each in names:
        # It goes into a file of openssl's, where any other sign may say something else.
        if not _NAME.fullmatch(each):
            raise RuntimeError(f"{each[:60]!r} is no host name and no address")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(folder / "lock", "w", opener=_for_root_alone) as lock, tempfile.TemporaryDirectory() as scratch:
        # Two nodes may ask at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        own, key = folder / "ca.crt", folder / "ca.key"
        if not own.exists():
            write(key, openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"), 0)
            write(own, _authority(key), 0)
        alt = ",".join(f"{'IP' if _is_address(each) else 'DNS'}:{each}" for each in names)
        extensions = Path(scratch) / "extensions"
        extensions.write_text(
            f"subjectAltName={alt}\nbasicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
            "extendedKeyUsage=serverAuth\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
        )
        argv = ("x509", "-req", "-CA", str(own), "-CAkey", str(key), "-days", str(DAYS), "-set_serial")
        serial = f"0x{os.urandom(16).hex()}"
        chain = openssl(*argv, serial, "-extfile", str(extensions), stdin=asks) + own.read_text()
        known = _owners(folder) | {_key_of(asks): names[0]}
        write(folder / "keys.json", json.dumps(known, indent=1) + "\n", 0)
        return chain


def owner(folder: Path, asks: str) -> str:
    """To whom the authority has given a certificate for the key of a question; empty: to nobody. Raises RuntimeError
    where it is no question.
    """
    return _owners(folder).get(_key_of(asks), "")


def owners(folder: Path) -> list[str]:
    """Those for whose keys the authority has signed: it signs for them again without a deploy."""
    return sorted({*_owners(folder).values()})


def fits(chain: str, key: Path, authority: str) -> bool:
    """Whether a chain is for this key, and signed by this authority."""
    with tempfile.TemporaryDirectory() as scratch:
        trusted = Path(scratch) / "ca.crt"
        trusted.write_text(authority)
        try:
            openssl("verify", "-CAfile", str(trusted), stdin=certificates(chain)[0])
            own = openssl("pkey", "-in", str(key), "-pubout")
            return own == openssl("x509", "-noout", "-pubkey", stdin=chain)
        except (RuntimeError, OSError, IndexError):
            return False


def write(path: Path, text: str, user: int) -> None:
    """Whole, or not at all; the user's alone."""
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


def openssl(*argv: str, stdin: str = "") -> str:
    """Its standard output. Raises RuntimeError with its last words."""
    done = subprocess.run(["openssl", *argv], input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"openssl {argv[0]}: {' '.join(done.stderr.split())[-200:]}")
    return done.stdout


def _owners(folder: Path) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads((folder / "keys.json").read_text())
        return found
    except (OSError, ValueError):
        return {}


def _key_of(asks: str) -> str:
    return hashlib.sha256(openssl("req", "-noout", "-verify", "-pubkey", stdin=asks).encode()).hexdigest()


def _for_root_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _authority(key: Path) -> str:
    argv = ["req", "-x509", "-new", "-key", str(key), "-days", str(AUTHORITY_DAYS), "-subj"]
    argv += [f"/CN=Tandem on {os.uname().nodename[:40]}", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    return openssl(*argv)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _plain(name: str) -> str:
    """An address as others write it; openssl spells IPv6 out."""
    return str(ipaddress.ip_address(name)) if _is_address(name) else name

"""The proxies' certificates: of an authority on the head, or the owner's own."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from operations.plan.cluster.nodes import Node
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Finding
from operations.plan.services.proxy import bind_address
from operations.wire.look import Certificate

#: Days before its end from which a certificate of our authority is renewed, and an owner's is warned of.
RENEW_DAYS = 30
_DAY_S = 86_400
_REMEDY = 'name another pair in `tls`, or set tls = "self"'


def names(knobs: Knobs, node: Node) -> list[str]:
    """What clients may call the proxy of a node: names and addresses, in order."""
    return list(dict.fromkeys([*lasting_names(knobs, node), node.management.partition("%")[0]]))


def lasting_names(knobs: Knobs, node: Node) -> list[str]:
    """Those that do not depend on the address that its login came in on, the node's own name first."""
    own = bind_address(knobs, node)
    found = [node.name.removeprefix("@"), "localhost", "127.0.0.1"]
    found += [each for each in (own, knobs.proxy_address) if each and each not in ("0.0.0.0", node.management)]
    return list(dict.fromkeys(found))


def pem(knobs: Knobs) -> str:
    """The owner's key and certificates as HAProxy wants them: in one file. Raises OSError."""
    return "".join(f"{Path(path).read_text().strip()}\n" for path in reversed(knobs.tls_files))


def check(knobs: Knobs, nodes: Iterable[Node], now: datetime | None = None) -> Iterator[Finding]:
    """What speaks against the owner's certificate and key; nothing is asked of a node."""
    if not knobs.tls_files:
        return
    certificate, key = knobs.tls_files
    try:
        chain, secret = _read(certificate, key)
    except OSError as error:
        yield Finding("knob", f"tls: {error.filename} can't be read ({error.strerror})", _REMEDY)
        return
    except (ValueError, TypeError) as error:
        yield Finding("knob", f"tls: {error}", _REMEDY)
        return
    if secret != chain[0].public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo):
        yield Finding("knob", f"tls: the key {key} does not fit the certificate {certificate}", _REMEDY)
    ends = chain[0].not_valid_after_utc
    if ends <= (now or datetime.now(UTC)):
        yield Finding("knob", f"tls: {certificate} has expired on {ends:%Y-%m-%d}", _REMEDY)
    missing, others = _missing(chain[0], clients_names(knobs, nodes))
    if missing and not others:
        problem = f"tls: {certificate} has not the name {', '.join(missing)}, by which clients reach the proxy"
        yield Finding("knob", problem, _REMEDY)


def clients_names(knobs: Knobs, nodes: Iterable[Node]) -> list[str]:
    """Addresses that `tandem endpoint` prints."""
    own = [bind_address(knobs, node) for node in nodes]
    found = [node.management if bind == "0.0.0.0" else bind for bind, node in zip(own, nodes, strict=True)]
    return list(dict.fromkeys([*([knobs.proxy_address] if knobs.proxy_address else []), *found]))


def remarks(knobs: Knobs, nodes: Sequence[Node], now: datetime | None = None) -> Iterator[str]:
    """What an owner should know before the first change, one line each."""
    if knobs.tls == "off" and (knobs.proxy_address or any(bind_address(knobs, node) != "127.0.0.1" for node in nodes)):
        yield 'keys and prompts cross the network as they are: set tls = "self" (docs/tls.md in the clone)'
    if not knobs.tls_files:
        return
    certificate, key = knobs.tls_files
    first = _read(certificate, key)[0][0]
    missing, others = _missing(first, clients_names(knobs, nodes))
    if missing:
        yield f"{certificate} is not for {', '.join(missing)}: clients have to call the proxy {' or '.join(others)}"
    left = (first.not_valid_after_utc - (now or datetime.now(UTC))).days
    if left < RENEW_DAYS:
        yield f"{certificate} ends in {left} days"
    if Path(key).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield f"{key} can be read by others: chmod 600 {key}"


def is_due(found: Certificate, wanted: Sequence[str], head: Certificate, now: float) -> str:
    """Why a node needs another certificate of our authority, by what it has and what the head has
    (operations/node/door/certificate.py); empty: it does not. `wanted`: its names, its own first.
    """
    if not found["hash"]:
        return "it has none"
    if not head["own"] or found["authority"] != head["own"]:
        return "the one that it has is of another authority"
    if wanted[0] not in head["owners"]:
        return "the authority does not know its key, and could not follow its addresses"
    if found["ends"] - now < RENEW_DAYS * _DAY_S:
        return "the one that it has ends soon"
    missing = [each for each in wanted if each not in found["names"]]
    return f"the one that it has is not for {', '.join(missing)}" if missing else ""


def _read(certificate: str, key: str) -> tuple[list[x509.Certificate], bytes]:
    """The certificates and the public half of the key. Raises OSError, or ValueError in words of an owner's."""
    text, secret = Path(certificate).read_bytes(), Path(key).read_bytes()
    try:
        chain = x509.load_pem_x509_certificates(text)
    except ValueError:
        raise ValueError(f"{certificate} is no certificate in PEM") from None
    try:
        private = load_pem_private_key(secret, None)
    except TypeError:
        raise ValueError(f"{key} is locked with a passphrase, which nobody could type at a reboot") from None
    except ValueError:
        raise ValueError(f"{key} is no private key in PEM") from None
    return chain, private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _missing(certificate: x509.Certificate, wanted: Iterable[str]) -> tuple[list[str], list[str]]:
    """Which names it has not, and the host names that it has."""
    try:
        said = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return list(wanted), []
    hosts = said.get_values_for_type(x509.DNSName)
    have = {*hosts, *(str(each) for each in said.get_values_for_type(x509.IPAddress))}
    return [each for each in wanted if each.partition("%")[0] not in have], hosts

"""TLS before the proxies: names, an owner's own certificate that can't be, and when a node needs another one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from operations.plan.config.refusal import Refusal
from operations.plan.services import tls
from tests.plan.samples import knobs, plan

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def pair(
    folder: Path,
    names: Iterable[str] = ("10.0.0.11",),
    days: int = 90,
    password: bytes = b"",
    name: str = "a",
    hosts: Iterable[str] = (),
) -> tuple[Path, Path]:
    """A certificate that ends so many days after NOW, and its key."""
    key, own = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    alternative = x509.SubjectAlternativeName(
        [*(x509.IPAddress(ip_address(each)) for each in names), *(x509.DNSName(each) for each in hosts)]
    )
    made = (
        x509.CertificateBuilder(own, own, key.public_key(), 1, NOW - timedelta(days=400), NOW + timedelta(days=days))
        .add_extension(alternative, critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    lock = BestAvailableEncryption(password) if password else NoEncryption()
    secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock))
    secret.chmod(0o600)
    return certificate, secret


def found(certificate: object, key: object, **more: Any) -> list[str]:
    mine = plan(topology="solo", proxy_bind="management", tls=f"files:{certificate},{key}", **more)
    return [each.problem for each in tls.check(mine.knobs, [each.node for each in mine.serving], NOW)]


def test_a_pair_that_fits_is_taken_and_comes_to_the_node_as_one_file(tmp_path: Path) -> None:
    certificate, key = pair(tmp_path)
    assert found(certificate, key) == []
    text = tls.pem(knobs(tls=f"files:{certificate},{key}"))
    assert text == key.read_text() + certificate.read_text()


def test_what_can_t_be_is_refused_in_one_line_that_names_the_file(tmp_path: Path) -> None:
    certificate, key = pair(tmp_path)
    _, other = pair(tmp_path, name="other")
    _, locked = pair(tmp_path, password=b"word", name="locked")
    expired, its_key = pair(tmp_path, days=-1, name="expired")
    text = tmp_path / "text"
    text.write_text("no PEM")
    for files, problem in (
        ((tmp_path / "none", key), f"tls: {tmp_path}/none can't be read (No such file or directory)"),
        ((certificate, other), f"tls: the key {other} does not fit the certificate {certificate}"),
        ((certificate, locked), f"tls: {locked} is locked with a passphrase, which nobody could type at a reboot"),
        ((text, key), f"tls: {text} is no certificate in PEM"),
        ((certificate, text), f"tls: {text} is no private key in PEM"),
        ((expired, its_key), f"tls: {expired} has expired on 2026-05-31"),
    ):
        assert found(*files) == [problem]


def test_every_address_that_clients_are_told_has_to_be_in_it(tmp_path: Path) -> None:
    certificate, key = pair(tmp_path)
    missing = f"tls: {certificate} has not the name 10.0.0.50, by which clients reach the proxy"
    assert found(certificate, key, proxy_address="10.0.0.50") == [missing]
    both = pair(tmp_path, ["10.0.0.11", "10.0.0.50"], name="both")
    assert found(*both, proxy_address="10.0.0.50") == []


def test_one_for_a_host_name_is_taken_and_the_owner_told_how_clients_have_to_call_it(tmp_path: Path) -> None:
    certificate, key = pair(tmp_path, [], hosts=["llm.example"])
    assert found(certificate, key) == []
    mine = plan(topology="solo", proxy_bind="management", tls=f"files:{certificate},{key}")
    (line,) = tls.remarks(mine.knobs, [each.node for each in mine.serving], NOW)
    assert line == f"{certificate} is not for 10.0.0.11: clients have to call the proxy llm.example"


@pytest.mark.parametrize("value", ["yes", "files:", "files:one", "files:a,b,c", "SELF"])
def test_a_word_that_is_none(value: str) -> None:
    with pytest.raises(Refusal, match="tls"):
        knobs(tls=value)


def test_remarks(tmp_path: Path) -> None:
    def told(**more: Any) -> list[str]:
        mine = plan(topology="solo", **more)
        return list(tls.remarks(mine.knobs, [each.node for each in mine.serving], NOW))

    assert told() == told(proxy_bind="management", tls="self") == []
    (line,) = told(proxy_bind="management")
    assert 'tls = "self"' in line
    certificate, key = pair(tmp_path, ["127.0.0.1"], days=20)
    key.chmod(0o644)
    assert told(tls=f"files:{certificate},{key}") == [
        f"{certificate} ends in 20 days",
        f"{key} can be read by others: chmod 600 {key}",
    ]


def test_names_of_a_node_s_own() -> None:
    mine = plan(topology="replicas", proxy_bind="management", proxy_address="10.0.0.50", tls="self")
    names = [tls.names(mine.knobs, each.node) for each in mine.serving]
    assert names[1] == ["spark-2", "localhost", "127.0.0.1", "10.0.0.50", "10.0.0.12"]
    assert mine.urls == {"spark-1": "https://10.0.0.11:8000", "spark-2": "https://10.0.0.12:8000"}


def test_when_a_node_needs_another_one() -> None:
    here: Any = {"hash": "h", "names": ["a", "b"], "ends": 40 * 86400.0, "authority": "ours"}
    for changes, own, why in (
        ({}, "ours", ""),
        ({"hash": ""}, "ours", "it has none"),
        ({}, "other", "the one that it has is of another authority"),
        ({}, "", "the one that it has is of another authority"),
        ({"ends": 29 * 86400.0}, "ours", "the one that it has ends soon"),
        ({"names": ["a"]}, "ours", "the one that it has is not for b"),
    ):
        assert tls.is_due(here | changes, ["a", "b"], {"own": own, "owners": ["a"]}, 0.0) == why
    # As after an upgrade from where nothing was written down: it could not follow the node's addresses.
    unknown = tls.is_due(here, ["a", "b"], {"own": "ours", "owners": ["c"]}, 0.0)
    assert unknown == "the authority does not know its key, and could not follow its addresses"

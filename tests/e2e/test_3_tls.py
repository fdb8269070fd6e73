"""TLS on the lab: an authority on the head, an owner's own pair, clients that know them, a second deploy that changes
nothing, and back."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.lab import chat, cluster
from tests.lab.cluster import HEAD, WORKER, deploy, on

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.usefixtures("lab")]

WANTED = {"topology": "replicas", "tls": "self", "proxy_bind": "management"}


@pytest.fixture(scope="module")
def at() -> Iterator[dict[str, str]]:
    done = deploy(**WANTED)
    assert done.code == 0, done.text
    assert done.text.count("the proxy here gets a certificate") == 2
    told = chat.endpoint()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REQUESTS_CA_BUNDLE", told["SSL_CERT_FILE"])
        yield told


def _stranger() -> requests.Session:
    """A client that knows the authorities of the system alone."""
    found = requests.Session()
    found.trust_env = False
    return found


def test_clients_that_know_the_authority_are_answered_by_each_node(at: dict[str, str]) -> None:
    assert at["OPENAI_BASE_URL"].startswith("https://")
    for node in (HEAD, WORKER):
        assert cluster.complete({**at, "OPENAI_BASE_URL": f"https://{node.address}:8000/v1"}) == 8
    with pytest.raises(requests.exceptions.SSLError):
        _stranger().get(f"{at['OPENAI_BASE_URL']}/models", timeout=10)
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.get(f"http://{HEAD.address}:8000/v1/models", timeout=10)


def test_a_second_deploy_changes_nothing_and_no_key_is_another_node_s(at: dict[str, str]) -> None:
    again = deploy(**WANTED)
    assert (again.code, again.changes) == (0, 0), again.text
    keys = [on(node, "sha256sum /etc/tandem/tls/proxy.key") for node in (HEAD, WORKER)]
    assert keys[0] != keys[1]
    assert "No such file" in on(WORKER, "ls /etc/tandem/ca 2>&1", check=False)
    for node in (HEAD, WORKER):
        assert on(node, "stat --format '%a %u' /etc/tandem/tls/proxy.pem").split()[0] == "600"
    status = subprocess.run(
        ["make", "-s", "status", f"INVENTORY={cluster.INVENTORY}"], cwd=cluster.ROOT, capture_output=True, text=True
    )
    assert status.returncode == 0, status.stdout


def test_one_that_is_lost_is_made_anew_by_the_same_authority_and_loaded_while_haproxy_runs(at: dict[str, str]) -> None:
    before = on(HEAD, "docker inspect --format '{{.Id}}' tandem-proxy")
    on(HEAD, "rm /etc/tandem/tls/proxy.pem")
    done = deploy(**WANTED)
    assert done.code == 0, done.text
    assert cluster.complete(at) == 8
    assert on(HEAD, "docker inspect --format '{{.Id}}' tandem-proxy") == before


#: What a key may be for; Python 3.13 wants an authority to say so.
USES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


class Authority:
    """One of an owner's own, and one below it that signs: clients know the first one alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        root = _Signed("root", None, ca=True)
        self.between = _Signed("between", root, ca=True)
        self.known = folder / "root.crt"
        self.known.write_bytes(root.pem)

    def pair(self) -> str:
        """The knob for a new key and certificate of both nodes, in the same two files each time."""
        made = _Signed("llm", self.between, addresses=[HEAD.address, WORKER.address])
        certificate, key = self.folder / "llm.crt", self.folder / "llm.key"
        certificate.write_bytes(made.pem + self.between.pem)
        key.touch(mode=0o600)
        key.write_bytes(made.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return f"files:{certificate},{key}"

    def leaf(self) -> bytes:
        """The pair's certificate, in DER."""
        return ssl.PEM_cert_to_DER_cert((self.folder / "llm.crt").read_text().partition("\n-----BEGIN")[0] + "\n")

    def secret(self) -> str:
        """A line of its key that is in no other file."""
        return (self.folder / "llm.key").read_text().splitlines()[1]


class _Signed:
    """A key and its certificate, good for 90 days."""

    def __init__(self, name: str, by: _Signed | None, *, ca: bool = False, addresses: list[str] | None = None) -> None:
        self.key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        signer = by or self
        builder = x509.CertificateBuilder(
            signer.name,
            self.name,
            self.key.public_key(),
            x509.random_serial_number(),
            now - timedelta(hours=1),
            now + timedelta(days=90),
        ).add_extension(x509.BasicConstraints(ca, None), critical=True)
        if ca:
            use = {use: use == "key_cert_sign" for use in USES}
            builder = builder.add_extension(x509.KeyUsage(**use), critical=True)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        subject = x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())
        builder = builder.add_extension(subject, critical=False)
        if addresses:
            found = x509.SubjectAlternativeName([x509.IPAddress(ip_address(each)) for each in addresses])
            builder = builder.add_extension(found, critical=False)
        self.pem = builder.sign(signer.key, hashes.SHA256()).public_bytes(Encoding.PEM)


def _shown() -> list[bytes]:
    """The certificates that clients of the two proxies see."""
    texts = [ssl.get_server_certificate((node.address, 8000)) for node in (HEAD, WORKER)]
    return [ssl.PEM_cert_to_DER_cert(text) for text in texts]


def _containers() -> list[str]:
    return [on(node, "docker inspect --format '{{.Id}}' tandem-proxy") for node in (HEAD, WORKER)]


def test_an_owner_s_own_pair_serves_and_another_one_is_loaded_while_clients_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    wanted = {"topology": "replicas", "proxy_bind": "management", "tls": authority.pair()}
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.known))
    first = deploy(**wanted)
    assert first.code == 0, first.text
    told = chat.endpoint()
    for node in (HEAD, WORKER):
        assert cluster.complete({**told, "OPENAI_BASE_URL": f"https://{node.address}:8000/v1"}) == 8
    with pytest.raises(requests.exceptions.SSLError):
        _stranger().get(f"{told['OPENAI_BASE_URL']}/models", timeout=10)
    again = deploy(**wanted)
    assert (again.code, again.changes) == (0, 0), again.text
    assert _shown() == [authority.leaf(), authority.leaf()]
    containers, secrets = _containers(), [authority.secret()]
    enough = threading.Event()

    def ask() -> int:
        count = 0
        while not enough.is_set():
            assert cluster.complete(told, 32) == 32
            count += 1
        return count

    with ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(ask) for _ in range(4)]
        try:
            authority.pair()
            done = deploy(**wanted)
        finally:
            enough.set()
        counts = [client.result() for client in clients]
    assert done.code == 0, done.text
    assert min(counts) > 0
    assert _shown() == [authority.leaf(), authority.leaf()]
    assert _containers() == containers
    secrets.append(authority.secret())
    for node in (HEAD, WORKER):
        assert on(node, "stat --format %a /etc/tandem/tls/proxy.pem").strip() == "600"
        assert secrets[1] in on(node, "cat /etc/tandem/tls/proxy.pem")
    told_of = [on(node, "docker inspect tandem-proxy && journalctl -b --no-pager") for node in (HEAD, WORKER)]
    told_of += [f"{each.text} {each.results}" for each in (first, again, done)]
    assert not [secret for secret in secrets for text in told_of if secret in text]
    print(f"another pair loaded: {sum(counts)} requests beside it, each answered")


def test_and_back(at: dict[str, str]) -> None:
    done = deploy(topology="replicas", proxy_bind="management")
    assert done.code == 0, done.text
    assert 'set tls = "self"' in done.text
    assert cluster.complete(chat.endpoint()) == 8

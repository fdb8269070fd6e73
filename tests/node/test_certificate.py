"""The node's program for certificates, with the real openssl, and the real HAProxy behind what it has made."""

from __future__ import annotations

import http.client
import io
import re
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from operations.node.door import certificate
from operations.node.door.speaking import opened
from operations.node.engine import probe
from operations.paths import PROXY, SOCKETS
from tests.plan.samples import plan
from tests.support.ports import free_port
from tests.support.waiting import until_it_listens

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
NAMES = ["spark-1", "localhost", "127.0.0.1", "fd00::1"]


@pytest.fixture(autouse=True)
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of its own."""
    folder = tmp_path / "tls"
    for name, path in (
        ("FOLDER", folder),
        ("PEM", folder / "proxy.pem"),
        ("KEY", folder / "proxy.key"),
        ("AUTHORITY", tmp_path / "ca"),
        ("LOADED", tmp_path / "loaded"),
    ):
        monkeypatch.setattr(certificate, name, path)
    return folder


def sign(names: list[str]) -> None:
    """The node asks, the head signs, the node takes."""
    asks = certificate.main(request=True)["asks"]
    certificate.main(take=certificate.main(sign=asks, names=names)["chain"])


def test_a_node_without_one() -> None:
    assert certificate.main() == {
        "own": "",
        "hash": "",
        "names": [],
        "ends": 0.0,
        "authority": "",
        "owners": [],
        "newer": False,
    }
    assert certificate.authority() == ""


def test_a_file_that_is_no_certificate_is_none(node: Path) -> None:
    node.mkdir()
    for text in ("", "nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        (node / "proxy.pem").write_text(text)
        assert certificate.main()["hash"] == ""


def test_the_node_asks_the_head_signs_and_the_authority_and_the_key_stay(node: Path) -> None:
    sign(NAMES)
    first = certificate.main()
    assert first["names"] == NAMES and first["authority"] == first["own"] and first["newer"]
    assert 396 < (first["ends"] - time.time()) / 86400 <= 397
    key, authority = (node / "proxy.key").read_text(), certificate.authority()
    for path in [*node.iterdir(), *(node.parent / "ca").glob("ca.*")]:
        assert path.stat().st_mode & 0o777 == 0o600
    assert node.stat().st_mode & 0o777 == 0o700
    sign(["spark-1"])
    again = certificate.main()
    assert again["names"] == ["spark-1"] and again["hash"] != first["hash"] and again["own"] == first["own"]
    assert (node / "proxy.key").read_text() == key and certificate.authority() == authority
    assert sorted(each.name for each in node.iterdir()) == ["proxy.key", "proxy.pem"]


def test_an_owner_s_own_comes_whole_and_needs_no_authority(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sign(NAMES)
    other = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=mine", "-keyout", "-"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    monkeypatch.setattr("sys.stdin", io.StringIO(other))
    certificate.main(whole=True)
    assert (node / "proxy.pem").read_text() == other and certificate.authority() == ""


def test_it_is_newer_until_haproxy_has_read_it(tmp_path: Path) -> None:
    sign(NAMES)
    time.sleep(0.02)
    (tmp_path / "loaded").write_text("hash")
    assert not certificate.main()["newer"]
    time.sleep(0.02)
    sign(NAMES)
    assert certificate.main()["newer"]


@pytest.fixture
def haproxy(node: Path, tmp_path: Path) -> Iterator[tuple[int, str]]:
    """As a deploy renders it, with TLS; its ports: of clients, and of its own node."""
    sign(NAMES)
    port = free_port()
    mine = plan(topology="solo", proxy_port=port, tls="self").head.container(PROXY)
    assert mine
    text = next(file.content for file in mine.files if file.path.endswith("haproxy.cfg"))
    text = re.sub(r"stats socket .*", "", text).replace("/tls/proxy.pem", str(node / "proxy.pem"))
    text = text.replace(SOCKETS, str(tmp_path))
    (tmp_path / "haproxy.cfg").write_text(text)
    process = subprocess.Popen(["haproxy", "-W", "-db", "-f", str(tmp_path / "haproxy.cfg")], stderr=subprocess.DEVNULL)
    until_it_listens(port)
    yield port, f"unix:{tmp_path}/proxy.sock:/health/liveliness"
    process.terminate()
    process.wait()


def status(url: str, context: ssl.SSLContext | None = None) -> int:
    try:
        return int(urllib.request.urlopen(url, timeout=5, context=context).status)
    except urllib.error.HTTPError as error:
        return error.code


def test_haproxy_shows_it_and_clients_that_know_the_authority_take_it(haproxy: tuple[int, str]) -> None:
    port, asked = haproxy
    url = f"https://localhost:{port}/health/liveliness"
    # 503 once HAProxy has seen that no LiteLLM is up behind it.
    assert status(url, ssl.create_default_context(cadata=certificate.authority())) in (200, 503)
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        status(url)
    with pytest.raises((OSError, http.client.HTTPException)):
        status(url.replace("https", "http"))
    old = ssl.create_default_context(cadata=certificate.authority())
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError):
        status(url, old)
    weak = ssl.create_default_context(cadata=certificate.authority())
    weak.maximum_version = ssl.TLSVersion.TLSv1_2
    weak.set_ciphers("ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES128-SHA:AES128-SHA@SECLEVEL=0")
    with pytest.raises(urllib.error.URLError, match="HANDSHAKE_FAILURE"):
        status(url, weak)
    # Its own node asks it without, and knows it by what it shows.
    try:
        assert opened(asked, 5).status == 200
    except urllib.error.HTTPError as error:
        assert error.code == 503
    with pytest.raises(urllib.error.HTTPError, match="503"):
        probe.ask(f"https://127.0.0.1:{port}/v1/models", None, "sk-key", 5)


def test_what_the_authority_keeps_is_root_s_alone(node: Path) -> None:
    sign(NAMES)
    for file in certificate.AUTHORITY.iterdir():
        assert not file.stat().st_mode & 0o077 or file.suffix == ".crt", file

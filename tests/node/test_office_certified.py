"""The certificate of a node that has another address: the head signs for keys that it knows, with the real openssl."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operations.node.door import authority
from tests.node.shipped import load

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
NAMES = {name: [name, "localhost", "127.0.0.1"] for name in ("spark-1", "spark-2")}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """files/office/certified.py, beside which the deploy's own module lies on a node."""
    monkeypatch.setitem(sys.modules, "authority", authority)
    monkeypatch.setitem(sys.modules, "heard", load("office/heard.py"))
    found: Any = load("office/certified.py")
    monkeypatch.setattr(found, "AUTHORITY", tmp_path / "ca")
    monkeypatch.setattr(found, "LOADED", tmp_path / "proxy.loaded")
    yield found


def node(program: Any, folder: Path, name: str, *addresses: str, known: bool = True) -> Any:
    """A node as a deploy leaves it: with a certificate for these addresses. `known`: the head has given it that."""
    program.TLS = folder / name
    made = program.Certified(name, NAMES[name], NAMES if name == "spark-1" else {}, os.geteuid())
    asks = authority.request(made.key, os.geteuid())
    chain = authority.signed(folder / "ca", asks, [*NAMES[name], *addresses])
    authority.write(made.pem, made.key.read_text() + chain, os.geteuid())
    if not known:
        (folder / "ca/keys.json").unlink()
    return made


def names(of: Any) -> list[str]:
    return authority.described(authority.certificates(of.pem.read_text())[0])[0]


def test_a_node_asks_when_its_address_is_another_and_the_head_signs(program: Any, tmp_path: Path) -> None:
    head, other = (
        node(program, tmp_path, each, at) for each, at in (("spark-1", "10.0.0.11"), ("spark-2", "10.0.0.12"))
    )
    other.see(["10.0.0.12"])
    assert not other.asks
    other.see(["10.0.0.77"])
    chain = head.sign("spark-2", ["10.0.0.77"], other.asks)
    other.take(chain, ["10.0.0.77"])
    assert names(other) == ["spark-2", "localhost", "127.0.0.1", "10.0.0.77"] and not other.asks
    assert oct(other.pem.stat().st_mode & 0o777) == "0o600"
    other.see(["10.0.0.77"])
    assert not other.asks
    # The head asks nobody.
    head.see(["10.0.0.71"])
    assert names(head) == ["spark-1", "localhost", "127.0.0.1", "10.0.0.71"] and not head.asks


def test_haproxy_has_to_read_what_is_newer_than_what_it_read(program: Any, tmp_path: Path) -> None:
    head = node(program, tmp_path, "spark-1", "10.0.0.11")
    assert not head.is_new()
    (tmp_path / "proxy.loaded").write_text("hash")
    assert not head.is_new()
    time.sleep(0.02)
    head.see(["10.0.0.71"])
    assert head.is_new()


def test_the_head_signs_for_no_key_that_no_deploy_has_brought_and_for_no_other_name(
    program: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, other = (node(program, tmp_path, each, "10.0.0.9") for each in NAMES)
    other.see(["10.0.0.77"])
    assert head.sign("spark-2", ["10.0.0.77"], other.asks)
    # The key is spark-2's.
    assert head.sign("spark-1", ["10.0.0.77"], other.asks) == ""
    assert head.sign("spark-3", ["10.0.0.77"], other.asks) == ""
    # Of a stranger's key; and what is no address, or no question.
    key = authority.request(tmp_path / "stranger/proxy.key", os.geteuid())
    assert head.sign("spark-2", ["10.0.0.77"], key) == ""
    assert head.sign("spark-2", ["bank.example"], other.asks) == ""
    assert head.sign("spark-2", ["10.0.0.77"], "nothing") == ""
    assert "no certificate for spark-2" in capsys.readouterr().err
    # Who has no authority signs for nobody.
    assert other.sign("spark-1", ["10.0.0.77"], other.asks) == ""


def test_a_node_takes_nothing_that_is_not_for_its_key_its_addresses_or_of_its_authority(
    program: Any, tmp_path: Path
) -> None:
    head, other = (node(program, tmp_path, each, "10.0.0.9") for each in NAMES)
    before = other.pem.read_text()
    other.see(["10.0.0.77"])
    others_key = authority.signed(
        tmp_path / "ca", authority.request(head.key, os.geteuid()), [*NAMES["spark-2"], "10.0.0.77"]
    )
    not_its_own = head.sign("spark-2", ["10.0.0.66"], other.asks)
    strange = authority.signed(tmp_path / "another", other.asks, [*NAMES["spark-2"], "10.0.0.77"])
    for chain in (others_key, not_its_own, strange, "", "nothing"):
        other.take(chain, ["10.0.0.77"])
        assert other.pem.read_text() == before
    other.take(head.sign("spark-2", ["10.0.0.77"], other.asks), ["10.0.0.77"])
    assert other.pem.read_text() != before


def test_an_owner_s_own_and_none_at_all_are_let_be(program: Any, tmp_path: Path) -> None:
    head = node(program, tmp_path, "spark-1", "10.0.0.11")
    own = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n" + head.pem.read_text()
    head.pem.write_text(own)
    head.see(["10.0.0.71"])
    assert head.pem.read_text() == own and not head.asks
    head.pem.unlink()
    head.see(["10.0.0.72"])
    assert not head.pem.exists() and not head.asks


def test_nothing_but_names_and_addresses_gets_into_a_certificate(program: Any, tmp_path: Path) -> None:
    """With a line of its own in openssl's file a node would be an authority itself."""
    head, other = (node(program, tmp_path, each, "10.0.0.9") for each in NAMES)
    other.see(["10.0.0.77"])
    for bad in ("fe80::1%x\nbasicConstraints=critical,CA:TRUE", "fe80::1%eth0", "10.0.0.77\nkeyUsage=keyCertSign"):
        assert head.sign("spark-2", ["10.0.0.77", bad], other.asks) == ""
        with pytest.raises(RuntimeError, match="is no host name and no address"):
            authority.signed(tmp_path / "ca", other.asks, ["spark-2", bad])
    with pytest.raises(RuntimeError):
        authority.signed(tmp_path / "ca", other.asks, ["spark-2", "a,DNS:b"])


def test_the_head_signs_no_address_of_another_node_s_and_says_so_once(
    program: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, other = (node(program, tmp_path, each, "10.0.0.9") for each in NAMES)
    other.see(["10.0.0.13"])
    for _ in range(3):
        assert head.sign("spark-2", ["10.0.0.13"], other.asks, {"10.0.0.11", "10.0.0.13"}) == ""
    assert (
        capsys.readouterr().err == "tandem: no certificate for spark-2: '10.0.0.13' is no address, or another node's\n"
    )
    assert head.sign("spark-2", ["10.0.0.12"], other.asks, {"10.0.0.11", "10.0.0.13"})


def test_the_head_says_whose_keys_it_knows(program: Any, tmp_path: Path) -> None:
    assert authority.owners(tmp_path / "ca") == []
    for each in NAMES:
        node(program, tmp_path, each, "10.0.0.9")
    assert authority.owners(tmp_path / "ca") == ["spark-1", "spark-2"]


def test_a_node_that_is_called_by_its_connector_has_the_name_that_the_authority_knows(
    program: Any, tmp_path: Path
) -> None:
    other = node(program, tmp_path, "spark-2", "10.0.0.12")
    head = program.Certified("spark-1", NAMES["spark-1"], {"@spark-2": NAMES["spark-2"]}, os.geteuid())
    other.see(["10.0.0.77"])
    assert head.sign("@spark-2", ["10.0.0.77"], other.asks)

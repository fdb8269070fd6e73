"""What other nodes say of their addresses, before it gets into files of keepalived's and openssl's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.node.shipped import load

heard = load("office/heard.py")
OTHERS, PORT = {"spark-2": "192.168.177.12", "spark-3": "192.168.177.13"}, 26012
INJECTED = '10.0.0.2\n}\nnotify_master "/bin/sh -c id"\nunicast_peer {\n10.0.0.3'


def said(own: object, name: str = "spark-2") -> bytes:
    return json.dumps({"name": name, "own": own}).encode()


@pytest.mark.parametrize(
    "bad",
    [
        INJECTED,
        "fe80::1%eth0\nbasicConstraints=CA:TRUE",
        "fe80::1%eth0",
        "10.0.0.2 ",
        "bank.example",
        "",
        7,
        None,
        ["10.0.0.2"],
    ],
)
def test_nothing_but_addresses_is_heard(bad: Any) -> None:
    assert heard.addresses([bad, "10.0.0.12", "2001:db8::12"]) == ["10.0.0.12", "2001:db8::12"]
    assert heard.by_name({"spark-2": [bad], "spark-3": [bad, "10.0.0.13"]}) == {"spark-3": ["10.0.0.13"]}


def test_of_addresses_there_are_not_too_many_and_none_is_of_the_rails() -> None:
    assert len(heard.addresses([f"10.0.0.{each}" for each in range(200)])) == heard.MOST
    rails = ["192.168.177.0/24", "192.168.178.0/24"]
    assert heard.addresses(["192.168.178.12", "10.0.0.12", "2001:db8::12"], rails) == ["10.0.0.12", "2001:db8::12"]
    nothing: list[Any] = [[], "text", None, 1]
    for each in nothing:
        assert heard.addresses(each) == [] and heard.by_name(each) == {}


def test_a_node_speaks_from_the_port_that_its_own_program_holds() -> None:
    """Anybody with a login on a node can send from any other port of its address."""
    source = ("192.168.177.12", PORT)
    assert heard.word(said(["10.0.0.12"]), source, OTHERS, PORT)[0] == "spark-2"
    for other in (("192.168.177.12", PORT + 1), ("192.168.177.13", PORT), ("10.0.0.12", PORT)):
        assert heard.word(said(["10.0.0.12"]), other, OTHERS, PORT) == ("", {})
    for text in (b"[" * 60_000, b"nothing", b"\xff", b"7", b"[]", b"{}", said(["10.0.0.12"], "spark-3")):
        assert heard.word(text, source, OTHERS, PORT) == ("", {})

"""What the canary sees of the rails and of the nodes behind them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.node.shipped import part

node, rails = part("canary", "node"), part("canary", "rails")

RAILS = {"railA": {"address": "10.0.0.11/24", "mtu": 9000}}
OWN, OTHER = "http://10.0.0.11:8001", "http://10.0.0.12:8001"


def net(tmp_path: Path, carrier: str = "1", mtu: str = "9000") -> Path:
    (tmp_path / "railA").mkdir()
    (tmp_path / "railA/carrier").write_text(carrier)
    (tmp_path / "railA/mtu").write_text(mtu)
    return tmp_path


@pytest.mark.parametrize(
    ("carrier", "mtu", "addresses", "words"),
    [
        ("1", "9000", ["10.0.0.11/24"], []),
        ("0", "9000", ["10.0.0.11/24"], ["has no carrier"]),
        ("1", "1500", ["10.0.0.11/24"], ["has MTU 1500, not 9000"]),
        ("1", "9000", [], ["has not its address 10.0.0.11/24"]),
        ("0", "1500", [], ["has no carrier", "has MTU 1500", "has not its address"]),
    ],
)
def test_what_a_rail_lacks_is_named(
    tmp_path: Path, carrier: str, mtu: str, addresses: list[str], words: list[str]
) -> None:
    problems = rails.rail_problems(RAILS, "railA", net(tmp_path, carrier, mtu), {"railA": addresses})
    assert len(problems) == len(words)
    assert all(word in problem for word, problem in zip(words, problems, strict=True))


def test_a_rail_that_is_gone_is_named(tmp_path: Path) -> None:
    gone = "the interface railA is gone: plug the cable in at both ends"
    assert rails.rail_problems(RAILS, "railA", tmp_path, {}) == [gone]


def test_an_engine_whose_address_the_firewall_holds_is_judged_without_its_netdev(tmp_path: Path) -> None:
    held = rails.Rails({"railA": {"address": "127.0.0.5/24", "mtu": 9000}}, {}, tmp_path)
    assert held.lost("http://127.0.0.5:8001") == ""


@pytest.mark.parametrize(
    ("url", "addresses", "lost"),
    [
        # A node reaches its own address without a carrier: an engine that hangs there hangs.
        (OWN, ["10.0.0.11/24"], ""),
        (OWN, [], "the rail railA has no carrier: is its cable in, is the other node on?; "
         "the rail railA has not its address 10.0.0.11/24"),
        ("http://127.0.0.1:8001", [], ""),
        (OTHER, [], ""),
    ],
)  # fmt: skip
def test_only_an_engine_whose_address_is_gone_can_t_be_reached(
    tmp_path: Path, url: str, addresses: list[str], lost: str
) -> None:
    seen = rails.Rails(RAILS, {}, net(tmp_path, carrier="0", mtu="1500"))
    seen.found = {"railA": addresses}
    assert seen.lost(url) == lost


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What goes to the journal; the node's commands are those of `tmp_path`."""
    lines: list[str] = []
    monkeypatch.setattr(node, "say", lines.append)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return lines


def play(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_nodes_that_are_away_are_named_once_and_all_are_asked_at_once(tmp_path: Path, said: list[str]) -> None:
    play(tmp_path, "ip", "echo '[]'")
    play(tmp_path, "ping", 'for last; do :; done; [ "$last" = 10.0.0.12 ] && exit 0; sleep 2; exit 1')
    seen = rails.Rails({}, {f"spark-{number}": f"10.0.0.1{number}" for number in range(2, 7)})
    begun = time.monotonic()
    seen.look()
    assert time.monotonic() - begun < 8
    assert list(seen.away) == [f"spark-{number}" for number in range(3, 7)]
    since, spoken = dict(seen.away), list(said)
    seen.look()
    assert (seen.away, said) == (since, spoken)
    assert said[0] == "spark-3 does not answer over the rail at 10.0.0.13"


def test_without_a_ping_nothing_is_known_of_other_nodes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: list[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert rails.silent_nodes({"spark-2": "10.0.0.12"}) == []


def test_a_rail_s_problem_is_said_once(tmp_path: Path, said: list[str]) -> None:
    play(tmp_path, "ip", "echo '[{}]'")
    seen = rails.Rails(RAILS, {}, net(tmp_path, carrier="0"))
    seen.look()
    seen.look()
    assert [line.partition(":")[0] for line in said] == [
        "the rail railA has no carrier",
        "the rail railA has not its address 10.0.0.11/24; `tandem apply` mends what is Tandem's",
    ]

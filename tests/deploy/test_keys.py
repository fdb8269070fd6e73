"""The verbs for keys of clients: what they ask the head, what they print, and one line for all that is wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.fake import NAMES, OFF, Outcome, deploy, look, planned

MADE = {"hash": "h", "made": 1.0, "expires": None, "requests": 4, "tokens": None}
USE = {"requests": 3, "tokens": 1200, "last": 1798761600.0}
ROWS: list[dict[str, Any]] = [
    {"name": "owner", "made": None, "expires": None, "expired": False, "at_once": None, "a_minute": None, **USE},
    {"name": "alice", "made": 1.0, "expires": 2.0, "expired": True, "at_once": 4, "a_minute": 20000, **USE},
]


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NAME", "EXPIRES", "REQUESTS", "TOKENS"):
        monkeypatch.delenv(name, raising=False)


def verb(tmp_path: Path, name: str, answer: dict[str, Any], off: int = 1) -> Outcome:
    """A verb with one node that is off; the other one answers this."""
    plan = planned()
    states = [OFF if index == off else look(plan, node) for index, node in enumerate(NAMES)]
    return deploy(tmp_path, states, "-y", file=f"operations/verbs/{name}.py", programs={"keys": answer})


def refused(outcome: Outcome, said: str) -> None:
    """One line, and nothing printed."""
    assert outcome.code == 1 and outcome.json == "" and "Traceback" not in outcome.text, outcome.text
    assert len([line for line in outcome.text.splitlines() if said in line]) == 1, outcome.text


def test_a_key_is_printed_alone_and_the_head_gets_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "alice")
    monkeypatch.setenv("REQUESTS", "4")
    outcome = verb(tmp_path, "key", {"made": MADE, "alone": True})
    assert outcome.code == 0, outcome.text
    # 32 bytes of the kernel's generator.
    assert re.fullmatch(r"sk-[\w-]{43}\n", outcome.json)
    # Its words are what -vv shows: a hash, and no key.
    assert re.search(r'"hash": "[0-9a-f]{64}"', outcome.text) and '"requests": 4' in outcome.text
    assert outcome.text.count(outcome.json.strip()) == 1


def test_two_keys_are_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "alice")
    assert len({verb(tmp_path, "key", {"made": MADE, "alone": True}).json for _ in range(2)}) == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "NAME= is empty: say whose key it is: NAME=alice"),
        ({"NAME": "a b; reboot"}, "NAME='a b; reboot' is no name for a key"),
        ({"NAME": "alice", "EXPIRES": "soon"}, "EXPIRES='soon' is no time"),
        ({"NAME": "alice", "REQUESTS": "0"}, "REQUESTS='0' is no limit: a number of requests at once, 1 or more"),
        ({"NAME": "alice", "TOKENS": "-5"}, "TOKENS='-5' is no limit: a number of tokens a minute, 1 or more"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], said: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    refused(verb(tmp_path, "key", {"made": MADE, "alone": True}), said)


@pytest.mark.parametrize("name", ["key", "keys", "key_revoke"])
def test_what_the_head_says_against_it_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("NAME", "alice")
    refused(verb(tmp_path, name, {"problem": "no proxy that knows of keys is deployed"}), "no proxy that knows of keys")


@pytest.mark.parametrize("name", ["key", "keys", "key_revoke"])
def test_without_the_head_nobody_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("NAME", "alice")
    refused(verb(tmp_path, name, {}, off=0), "only the head knows: spark-1 does not answer")


def test_keys_are_a_table(tmp_path: Path) -> None:
    outcome = verb(tmp_path, "keys", {"keys": ROWS})
    assert outcome.code == 0, outcome.text
    lines = [line.split() for line in outcome.json.splitlines()]
    assert lines[1] == ["owner", "-", "-", "-", "-", "2027-01-01", "00:00", "3", "1200"]
    moment = ["1970-01-01", "00:00"]
    assert lines[2] == ["alice", *moment, *moment, "(over)", "4", "20000", "2027-01-01", "00:00", "3", "1200"]


def test_a_key_is_revoked_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "alice")
    outcome = verb(tmp_path, "key_revoke", {"revoked": "alice", "alone": True})
    assert outcome.code == 0 and outcome.json == "the key of `alice` opens nothing any more\n"
    assert '{"revoke": "alice"}' in outcome.text.replace("\\", "")
    monkeypatch.setenv("NAME", "../alice")
    refused(verb(tmp_path, "key_revoke", {"revoked": "alice"}), "is no name for a key")


def both(tmp_path: Path, name: str, head: dict[str, Any], other: dict[str, Any]) -> Outcome:
    """A verb with two nodes that answer."""
    plan = planned()
    answers = {node: {"keys": answer} for node, answer in zip(NAMES, (head, other), strict=True)}
    states = [look(plan, node) for node in NAMES]
    return deploy(tmp_path, states, "-y", file=f"operations/verbs/{name}.py", by_node=answers)


def test_the_other_nodes_take_a_new_key_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "alice")
    outcome = both(tmp_path, "key", {"made": MADE, "alone": False}, {"taken": ["alice"]})
    assert outcome.code == 0 and "has not heard of it" not in outcome.text
    assert '"take": {"alice": {"hash": "h"' in outcome.text.replace("\\", "")


def test_a_node_that_is_away_takes_a_new_key_at_the_next_deploy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAME", "alice")
    outcome = verb(tmp_path, "key", {"made": MADE, "alone": False})
    assert outcome.code == 0 and re.fullmatch(r"sk-[\w-]{43}\n", outcome.json)
    assert "takes the key from the next `make apply` on" in outcome.text


@pytest.mark.parametrize("why", ["away", "its disk is full"])
def test_a_key_that_is_not_revoked_everywhere_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setenv("NAME", "alice")
    head = {"revoked": "alice", "alone": False}
    outcome = (
        verb(tmp_path, "key_revoke", head) if why == "away" else both(tmp_path, "key_revoke", head, {"problem": why})
    )
    refused(outcome, "its proxy takes the key of `alice` until the next `make apply`")
    assert why == "away" or why in outcome.text


def test_what_keys_have_used_of_all_proxies_is_added_up(tmp_path: Path) -> None:
    later = [row | {"requests": 1, "tokens": 100, "last": 1798848000.0} for row in ROWS]
    outcome = both(tmp_path, "keys", {"keys": ROWS}, {"keys": [later[0]]})
    assert outcome.code == 0, outcome.text
    lines = [line.split() for line in outcome.json.splitlines()]
    assert lines[1][-4:] == ["2027-01-02", "00:00", "4", "1300"] and lines[2][-2:] == ["3", "1200"]
    idle = both(tmp_path, "keys", {"keys": ROWS}, {"problem": "no proxy", "idle": True})
    assert idle.code == 0 and idle.json.splitlines()[1].split()[-1] == "1200"

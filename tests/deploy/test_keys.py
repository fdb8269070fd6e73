"""The verbs for keys of clients: what they ask the head, what they print, and one line for all that is wrong."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from operations.paths import CLIENT_KEYS
from operations.runner import client_keys
from operations.verbs import key_words
from tests.deploy.fake import NAMES, OFF, Outcome, as_planned, deploy, look, planned

EMPTY = hashlib.sha256(b"{}\n").hexdigest()
TEXT = '{"alice": {}}\n'
MADE = {"hash": "h", "made": 1.0, "expires": None, "requests": 4, "tokens": None}
USE = {"requests": 3, "tokens": 1200, "last": 1798761600.0}
UNLIMITED = {"at_once": None, "a_minute": None}
ROWS: list[dict[str, Any]] = [
    {
        "name": "owner",
        "id": "owner",
        "made": None,
        "expires": None,
        "expired": False,
        "at_once": None,
        "a_minute": None,
        **USE,
    },
    {"name": "alice", "id": "h", "made": 1.0, "expires": 2.0, "expired": True, "at_once": 4, "a_minute": 20000, **USE},
]


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NAME", "EXPIRES", "REQUESTS", "TOKENS"):
        monkeypatch.delenv(name, raising=False)


def verb(tmp_path: Path, name: str, answer: dict[str, Any], off: int = 1) -> Outcome:
    """A verb with one node that is off; the other one answers this."""
    plan = planned()
    states = [OFF if index == off else look(plan, node) for index, node in enumerate(NAMES)]
    return deploy(tmp_path, states, "-y", file=f"operations/verbs/{name}.py", programs={"door.keys": answer})


def refused(outcome: Outcome, said: str) -> None:
    """One line, and nothing printed."""
    assert outcome.refused and outcome.json == "" and "Traceback" not in outcome.text, outcome.text
    assert len([line for line in outcome.text.splitlines() if said in line]) == 1, outcome.text


def test_a_key_is_printed_alone_and_the_head_gets_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "alice")
    monkeypatch.setenv("REQUESTS", "4")
    outcome = verb(tmp_path, "key", {"made": MADE, "alone": True, "text": TEXT})
    assert outcome.code == 0, outcome.text
    # 32 bytes of the kernel's generator.
    assert re.fullmatch(r"sk-[\w-]{43}\n", outcome.json)
    # Its words are what -vv shows: a hash, and no key.
    assert re.search(r'"hash": "[0-9a-f]{64}"', outcome.text) and '"requests": 4' in outcome.text
    assert outcome.text.count(outcome.json.strip()) == 1


def test_two_keys_are_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "alice")
    assert len({verb(tmp_path, "key", {"made": MADE, "alone": True, "text": TEXT}).json for _ in range(2)}) == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "the name is empty: say whose key it is: `tandem key alice`"),
        ({"NAME": "a b; reboot"}, "'a b; reboot' is no name for a key"),
        ({"NAME": "alice", "EXPIRES": "soon"}, "--expires 'soon' is no time"),
        ({"NAME": "alice", "REQUESTS": "0"}, "--requests '0' is no limit: a number of requests at once, 1 or more"),
        ({"NAME": "alice", "TOKENS": "-5"}, "--tokens '-5' is no limit: a number of tokens a minute, 1 or more"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], said: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    refused(verb(tmp_path, "key", {"made": MADE, "alone": True, "text": TEXT}), said)


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
    outcome = verb(tmp_path, "key_revoke", {"revoked": "alice", "alone": True, "text": TEXT})
    assert outcome.code == 0 and outcome.json == "the key of `alice` opens nothing any more\n"
    assert '{"revoke": "alice"}' in outcome.text.replace("\\", "")
    monkeypatch.setenv("NAME", "../alice")
    refused(verb(tmp_path, "key_revoke", {"revoked": "alice"}), "is no name for a key")


def both(tmp_path: Path, name: str, head: dict[str, Any], other: dict[str, Any]) -> Outcome:
    """A verb with two nodes that answer."""
    plan = planned()
    answers = {node: {"door.keys": answer} for node, answer in zip(NAMES, (head, other), strict=True)}
    states = [look(plan, node) for node in NAMES]
    return deploy(tmp_path, states, "-y", file=f"operations/verbs/{name}.py", by_node=answers)


def taken(outcome: Outcome, node: int) -> int:
    """How often a node was handed all keys."""
    return len(re.findall(rf'^\[@fake/spark-{node}\] >>> .* door\.keys .*"take": true', outcome.text, re.MULTILINE))


def test_the_other_nodes_take_the_head_s_keys_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "alice")
    outcome = both(tmp_path, "key", {"made": MADE, "alone": False, "text": TEXT}, {"dropped": []})
    assert outcome.code == 0 and "has not heard of it" not in outcome.text
    assert (taken(outcome, 1), taken(outcome, 2)) == (0, 1)
    # On standard input, of which nothing is shown.
    assert "alice" not in "".join(line for line in outcome.text.splitlines() if '"take"' in line)


def test_a_key_is_revoked_on_all_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "alice")
    head = {"revoked": "alice", "alone": False, "text": TEXT}
    outcome = both(tmp_path, "key_revoke", head, {"dropped": ["alice"]})
    assert outcome.code == 0 and outcome.json == "the key of `alice` opens nothing any more\n"
    assert (taken(outcome, 1), taken(outcome, 2)) == (0, 1)


def test_a_node_that_was_away_when_a_key_was_revoked_is_told_by_the_same_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAME", "alice")
    head = {"problem": "there is no key named `alice`", "unknown": True, "alone": False, "text": TEXT}
    outcome = both(tmp_path, "key_revoke", head, {"dropped": ["alice"]})
    assert outcome.code == 0 and outcome.json == "the key of `alice` opens nothing any more\n"
    refused(both(tmp_path, "key_revoke", head, {"dropped": ["bob"]}), "there is no key named `alice`")
    away = verb(tmp_path, "key_revoke", head)
    refused(away, "there is no key named `alice`")
    assert "spark-2 has not heard of it" in away.text


def test_in_solo_a_node_that_is_away_has_nothing_to_hear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "alice")
    outcome = verb(tmp_path, "key_revoke", {"revoked": "alice", "alone": True, "text": TEXT})
    assert outcome.code == 0 and "has not heard of it" not in outcome.text


def test_a_head_that_has_lost_its_keys_makes_none_that_ends_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAME", "bob")
    outcome = both(tmp_path, "key", {"none": True}, {"text": TEXT})
    refused(outcome, "spark-2 has keys of clients and the head has none: `tandem apply` brings them to it")
    assert taken(outcome, 2) == 0 and outcome.text.count('"make": ') == 1


def test_a_node_that_is_away_takes_a_new_key_at_the_next_deploy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAME", "alice")
    outcome = verb(tmp_path, "key", {"made": MADE, "alone": False, "text": TEXT})
    assert outcome.code == 0 and re.fullmatch(r"sk-[\w-]{43}\n", outcome.json)
    assert "takes the key from the next `tandem apply` on" in outcome.text


@pytest.mark.parametrize("why", ["away", "its disk is full"])
def test_a_key_that_is_not_revoked_everywhere_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setenv("NAME", "alice")
    head = {"revoked": "alice", "alone": False, "text": TEXT}
    outcome = (
        verb(tmp_path, "key_revoke", head) if why == "away" else both(tmp_path, "key_revoke", head, {"problem": why})
    )
    refused(outcome, "its proxy takes the key of `alice` until the next `tandem apply`")
    assert why == "away" or why in outcome.text


def test_what_keys_have_used_of_all_proxies_is_added_up(tmp_path: Path) -> None:
    later = [row | {"requests": 1, "tokens": 100, "last": 1798848000.0} for row in ROWS]
    outcome = both(tmp_path, "keys", {"keys": ROWS}, {"keys": later})
    assert outcome.code == 0, outcome.text
    owner, alice = (line.split() for line in outcome.json.splitlines()[1:])
    assert owner[-4:] == alice[-4:] == ["2027-01-02", "00:00", "4", "1300"]
    idle = both(tmp_path, "keys", {"keys": ROWS}, {"problem": "no proxy", "idle": True})
    assert idle.code == 0 and "no proxy" not in idle.json and idle.json.splitlines()[1].split()[-1] == "1200"


def test_a_node_with_other_keys_and_one_that_can_t_say_are_named_below_the_table(tmp_path: Path) -> None:
    # A key that was made under an old name has used nothing of what that one has.
    old = [ROWS[0], ROWS[1] | {"id": "another"}]
    outcome = both(tmp_path, "keys", {"keys": ROWS}, {"keys": old})
    lines = outcome.json.splitlines()
    assert outcome.code == 0 and [line.split()[-2:] for line in lines[1:3]] == [["6", "2400"], ["3", "1200"]]
    assert lines[3] == "@fake/spark-2 has other keys than the head: `tandem apply` puts the head's there"
    broken = both(tmp_path, "keys", {"keys": ROWS}, {"problem": "keys.json on spark-2 is broken"})
    assert broken.code == 0 and broken.json.splitlines()[-1] == "keys.json on spark-2 is broken"


def test_a_node_that_is_away_is_named_below_the_table(tmp_path: Path) -> None:
    outcome = verb(tmp_path, "keys", {"keys": ROWS})
    assert outcome.code == 0 and outcome.json.splitlines()[-1].startswith("spark-2 does not answer")


def deployed(tmp_path: Path, *hashes: str, head: dict[str, Any] | None = None) -> Outcome:
    """A deploy of two replicas that are as planned but for these hashes of their keys of clients."""
    states = as_planned(topology="replicas")
    for state, known in zip(states, hashes, strict=True):
        state["secrets"][CLIENT_KEYS] = known
    answers = {node: {"door.keys": {"text": TEXT, "dropped": []}} for node in NAMES}
    answers[NAMES[0]]["door.keys"] |= head or {}
    return deploy(tmp_path, states, "-y", "--data", "topology=replicas", by_node=answers)


@pytest.mark.parametrize(
    ("hashes", "told"),
    [
        (("new", "old"), (0, 1)),
        (("new", ""), (0, 1)),
        (("", "old"), (1, 0)),
        (("", ""), (0, 0)),
        (("same", "same"), (0, 0)),
        # The last key was revoked, while one was away.
        ((EMPTY, "old"), (0, 1)),
        ((EMPTY, ""), (0, 0)),
        (("", EMPTY), (0, 0)),
    ],
)
def test_a_deploy_puts_the_head_s_keys_where_others_lie(
    tmp_path: Path, hashes: tuple[str, str], told: tuple[int, int]
) -> None:
    outcome = deployed(tmp_path, *hashes)
    assert outcome.code == 0, outcome.text
    # A fake has the same hash when the next step looks.
    assert (taken(outcome, 1), taken(outcome, 2)) == told
    assert ("are now" in outcome.text) == any(told)
    # Nothing else is done for it.
    assert not any("systemctl" in command for _, command in outcome.commands)


def test_keys_that_are_broken_on_the_head_end_a_deploy_that_wants_them_elsewhere(tmp_path: Path) -> None:
    outcome = deployed(tmp_path, "new", "old", head={"problem": "keys.json on spark-1 is broken: remove it"})
    assert outcome.code != 0 and "keys.json on spark-1 is broken: remove it" in outcome.text
    assert "Traceback" not in outcome.text and taken(outcome, 2) == 0


class ChangingHead:
    """A head whose keys somebody else changes, twice, while they travel; and a double of what reaches nodes."""

    def __init__(self) -> None:
        self.texts, self.told = ["b", "c"], list[str]()
        self.text = "a"

    def tell(self) -> str:
        return self.text

    def take(self, text: str) -> None:
        self.told.append(text)
        self.text = self.texts.pop(0) if self.texts else self.text


def test_a_deploy_that_meets_a_verb_leaves_the_newest_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    head = ChangingHead()

    def hand(_host: Any, stdin: str, _program: str, tell: bool = False, take: bool = False, **_: Any) -> dict[str, Any]:
        if take:
            head.take(stdin)
        return {"text": head.tell()} if tell else {"dropped": []}

    monkeypatch.setattr(client_keys, "hand", hand)
    host = SimpleNamespace(name="spark-2", log=lambda _: None)
    inventory = SimpleNamespace(get_host=lambda name: SimpleNamespace(name=name))
    assert client_keys.take_over("spark-1", cast(Any, SimpleNamespace(inventory=inventory)), cast(Any, host))
    assert head.told == ["a", "b", "c"]


def test_two_verbs_at_once_leave_the_newest_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    head, nodes = ChangingHead(), [SimpleNamespace(name="spark-1"), SimpleNamespace(name="spark-2")]

    def take(_host: Any, text: str, *_: Any, **__: Any) -> dict[str, Any]:
        head.take(text)
        return {"dropped": [text]}

    monkeypatch.setattr(
        key_words, "everywhere", lambda _run, hosts, asked, _s: {each.name: asked(each) for each in hosts}
    )
    monkeypatch.setattr(key_words, "ask_or_none", lambda *_, **__: {"text": head.tell()})
    monkeypatch.setattr(key_words, "hand_or_none", take)
    run: Any = SimpleNamespace(head=nodes[0], answering=nodes, absent=[])
    monkeypatch.setattr(key_words, "the_head", lambda _run: nodes[:1])
    told = key_words.tell_others(run, "a", alone=False)
    assert head.told == ["a", "b", "c"] and told == key_words.Told([], {"a", "b", "c"})

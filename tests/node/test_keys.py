"""Keys of clients: made, revoked and listed on the head, by several at once; taken over by others; seen by LiteLLM."""

from __future__ import annotations

import hashlib
import io
import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from operations.node.door import keys
from tests.node.shipped import part
from tests.plan.samples import ROOT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A head with a proxy that knows of keys."""
    monkeypatch.setattr(keys, "KEYS", tmp_path / "keys.json")
    monkeypatch.setattr(keys, "USED", tmp_path / "used/used.json")
    monkeypatch.setattr(keys, "DOOR", tmp_path / "door.py")
    keys.DOOR.touch()
    return tmp_path


def wanted(name: str, **more: Any) -> Any:
    """As operations/plan/services/proxy_keys.py gives it, with the hash of the key `sk-NAME`."""
    hashed = hashlib.sha256(f"sk-{name}".encode()).hexdigest()
    plain = {"within_s": None, "until": None, "requests": None, "tokens": None}
    return {"name": name, "hash": hashed, **plain, **more}


def row(name: str) -> Any:
    """Of `tandem keys`."""
    return next(each for each in keys.main()["keys"] if each["name"] == name)


def test_a_key_is_made_and_its_text_is_nowhere(folder: Path) -> None:
    made: Any = keys.main(make=wanted("alice", within_s=86400.0, requests=4, tokens=20000))["made"]
    assert 86390 < made["expires"] - time.time() < 86410
    assert (made["requests"], made["tokens"]) == (4, 20000)
    assert "sk-alice" not in keys.KEYS.read_text()
    assert {file.stat().st_mode & 0o777 for file in folder.glob("keys.*")} == {0o600}
    assert row("alice") == {
        "name": "alice",
        "id": wanted("alice")["hash"][:16],
        "made": made["made"],
        "expires": made["expires"],
        "expired": False,
        "at_once": 4,
        "a_minute": 20000,
        "requests": 0,
        "tokens": 0,
        "last": None,
    }


def test_what_keys_have_used_is_listed_with_them_and_the_owner_s_first(folder: Path) -> None:
    keys.main(make=wanted("alice"))
    keys.USED.parent.mkdir()
    alice = wanted("alice")["hash"][:16]
    used = {"requests": 3, "tokens": 12, "last": 5.0}
    keys.USED.write_text(json.dumps({alice: used, "owner": {**used, "tokens": 7}}))
    assert [(each["name"], each["tokens"]) for each in keys.main()["keys"]] == [("owner", 7), ("alice", 12)]


def test_a_use_that_is_broken_is_none(folder: Path) -> None:
    keys.USED.parent.mkdir()
    keys.USED.write_text("{")
    assert row("owner")["requests"] == 0


def test_a_name_that_exists_is_refused_and_its_key_stays(folder: Path) -> None:
    keys.main(make=wanted("alice"))
    before = keys.KEYS.stat()
    problem = keys.main(make=wanted("alice", hash="other"))["problem"]
    assert problem.startswith("there is a key named `alice`: `tandem key-revoke alice` ends it")
    # It is not even written anew.
    assert keys.KEYS.stat().st_ino == before.st_ino


def test_an_end_in_the_past_is_refused(folder: Path) -> None:
    assert "--expires is in the past" in keys.main(make=wanted("alice", until=time.time() - 1))["problem"]
    assert not keys.KEYS.exists()


def test_revoked_is_gone_and_the_name_is_free(folder: Path) -> None:
    keys.main(make=wanted("alice"))
    assert keys.main(revoke="alice") == {"revoked": "alice", "alone": False, "text": "{}\n"}
    assert keys.main(revoke="alice")["problem"] == "there is no key named `alice`: `tandem keys` lists them"
    assert "made" in keys.main(make=wanted("alice"))


def test_without_a_proxy_there_are_no_keys(folder: Path) -> None:
    keys.DOOR.unlink()
    asked: Any = [{}, {"make": wanted("alice")}, {"revoke": "alice"}]
    for each in asked:
        assert keys.main(**each)["problem"].startswith("no proxy that knows of keys is deployed on the head")


def test_there_are_only_so_many(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MOST", 2)
    keys.main(make=wanted("a"))
    keys.main(make=wanted("b"))
    assert "there are 2 keys" in keys.main(make=wanted("c"))["problem"]


@pytest.mark.parametrize("text", ["{", "[]", '{"alice": 3}', '{"alice": {}}'])
def test_a_file_that_is_broken_is_named_and_left_alone(folder: Path, text: str) -> None:
    keys.KEYS.write_text(text)
    asked: Any = [{}, {"make": wanted("bob")}, {"revoke": "alice"}]
    for each in asked:
        assert "keys.json on the head is broken: remove it" in keys.main(**each)["problem"]
    assert keys.KEYS.read_text() == text


def test_a_disk_that_can_t_be_written_to_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "KEYS", folder / "away" / "keys.json")
    assert "No such file or directory: nothing was changed" in keys.main(make=wanted("bob"))["problem"]


def make_some(folder: Path, which: int) -> None:
    """What one of several owners does at the same time, in a process of its own."""
    keys.KEYS, keys.USED, keys.DOOR = folder / "keys.json", folder / "used.json", folder / "door.py"
    for number in range(10):
        assert "made" in keys.main(make=wanted(f"k{which}-{number}"))
        if number % 2:
            assert "revoked" in keys.main(revoke=f"k{which}-{number}")


def test_several_at_the_same_time_lose_nothing(folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    owners = [context.Process(target=make_some, args=(folder, which)) for which in range(4)]
    for owner in owners:
        owner.start()
    for owner in owners:
        owner.join()
    assert [owner.exitcode for owner in owners] == [0] * 4
    left = {f"k{which}-{number}" for which in range(4) for number in range(0, 10, 2)}
    assert {each["name"] for each in keys.main()["keys"]} == {"owner", *left}


def test_the_proxy_sees_each_change_at_its_next_request(folder: Path) -> None:
    seen = part("litellm", "door_keys").Keys(keys.KEYS, "sk-owner")
    assert seen.find(b"sk-alice") is None and seen.find(b"sk-owner").name == "owner"
    keys.main(make=wanted("alice", requests=2))
    assert (seen.find(b"sk-alice").name, seen.find(b"sk-alice").requests) == ("alice", 2)
    for _ in range(20):
        # As quickly as can be: by time of change and size alone they are the same.
        keys.main(revoke="alice")
        assert seen.find(b"sk-alice") is None
        keys.main(make=wanted("alice"))
        assert seen.find(b"sk-alice")
    os.unlink(keys.KEYS)
    assert seen.find(b"sk-alice") is None and seen.find(b"sk-owner")


def test_a_file_that_breaks_ends_no_key(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = part("litellm", "door_keys").Keys(keys.KEYS, "sk-owner")
    keys.main(make=wanted("alice"))
    assert seen.find(b"sk-alice")
    keys.KEYS.write_text("{")
    assert seen.find(b"sk-alice") and seen.find(b"sk-alice")
    assert capsys.readouterr().out.count("keys.json can't be read") == 1


def take(text: str, **more: Any) -> Any:
    """What a node does with a text that comes to it, as it is sent: behind the programs, on standard input."""
    patched = (
        "import json, sys; from pathlib import Path; from operations.node.door import keys;"
        f"keys.KEYS, keys.DOOR = Path({str(keys.KEYS)!r}), Path({str(keys.DOOR)!r});"
        "print(json.dumps(keys.main(**json.loads(sys.argv[1]))))"
    )
    argv = [sys.executable, "-c", patched, json.dumps({"take": True, "where": "spark-2", **more})]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=True, cwd=ROOT)
    answer: Any = json.loads(done.stdout)
    return answer


def at_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on this is another node."""
    # The owner's key came there first.
    (folder / "other/secrets").mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(keys, "KEYS", folder / "other/secrets/keys.json")
    monkeypatch.setattr(keys, "DOOR", folder / "other/door.py")
    keys.DOOR.touch()


def test_another_node_takes_the_head_s_keys_over_byte_for_byte(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = keys.main(make=wanted("alice"))["text"]
    second = keys.main(make=wanted("bob", requests=2))["text"]
    third = keys.main(revoke="alice")["text"]
    assert third == keys.KEYS.read_text() == keys.main(tell=True)["text"]
    at_another(folder, monkeypatch)
    assert take(first) == take(second) == {"dropped": []}
    assert keys.KEYS.read_text() == second and keys.KEYS.stat().st_mode & 0o777 == 0o600
    assert take(third) == {"dropped": ["alice"]}
    assert [(row["name"], row["at_once"]) for row in keys.main()["keys"]] == [("owner", None), ("bob", 2)]
    before = keys.KEYS.stat()
    assert take(third) == {"dropped": []}
    assert keys.KEYS.stat().st_ino == before.st_ino, "what is there already is not written"
    keys.KEYS.chmod(0o644)
    take(third)
    assert keys.KEYS.stat().st_mode & 0o777 == 0o600


def test_a_file_that_an_older_version_wrote_is_told_as_it_is(folder: Path) -> None:
    """A deploy compares hashes: told in another form, it would be copied to the others for ever."""
    keys.main(make=wanted("alice"))
    keys.KEYS.write_text(keys.KEYS.read_text().rstrip("\n"))
    assert keys.main(tell=True)["text"] == keys.KEYS.read_text()
    assert keys.main(revoke="bob")["text"] == keys.KEYS.read_text()


@pytest.mark.parametrize("text", ["", "{", '{"bob": {"hash": "h"}}', "[]"])
def test_what_comes_broken_changes_nothing(folder: Path, text: str) -> None:
    keys.main(make=wanted("alice"))
    before = keys.KEYS.read_text()
    assert take(text)["problem"] == "the keys of clients came to spark-2 broken: nothing was changed there"
    assert keys.KEYS.read_text() == before


def test_a_file_that_is_broken_gives_way_to_the_head_s(folder: Path) -> None:
    text = keys.main(make=wanted("alice"))["text"]
    keys.KEYS.write_text("{")
    assert take(text) == {"dropped": []}
    assert keys.KEYS.read_text() == text


def test_a_node_without_a_proxy_takes_keys_in_a_deploy_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = keys.main(make=wanted("alice"))["text"]
    at_another(folder, monkeypatch)
    keys.DOOR.unlink()
    answer = take(text)
    assert answer["idle"] and answer["problem"].startswith("no proxy that knows of keys is deployed on spark-2")
    assert not keys.KEYS.exists()
    assert take(text, anyway=True) == {"dropped": []} and keys.KEYS.read_text() == text


def test_a_head_that_has_lost_its_keys_tells_nobody_that_there_are_none(folder: Path) -> None:
    assert "unknown" not in keys.main(revoke="alice")
    assert keys.main(make=wanted("alice"), careful=True) == {"none": True}
    assert not keys.KEYS.exists()
    keys.main(make=wanted("alice"))
    keys.main(revoke="alice")
    assert keys.main(revoke="alice")["unknown"]
    assert "made" in keys.main(make=wanted("alice"), careful=True)


def take_some(folder: Path, texts: list[str]) -> None:
    """What one of several verbs does on another node at the same time, in a process of its own."""
    keys.KEYS, keys.DOOR = folder / "keys.json", folder / "door.py"
    for _ in range(20):
        for text in texts:
            sys.stdin = io.StringIO(text)
            assert "problem" not in keys.main(take=True)


def test_several_that_take_at_the_same_time_leave_one_of_theirs(folder: Path) -> None:
    texts = [keys.main(make=wanted(f"k{number}" * 8))["text"] for number in range(8)]
    context = multiprocessing.get_context("spawn")
    takers = [context.Process(target=take_some, args=(folder, texts[which : which + 4])) for which in (0, 4)]
    for taker in takers:
        taker.start()
    while any(taker.is_alive() for taker in takers):
        assert keys.KEYS.read_text() in texts
    assert [taker.exitcode for taker in takers] == [0, 0]
    assert not list(folder.glob("*.part"))

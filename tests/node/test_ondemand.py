"""Models on demand: who is loaded, who gives way, and what a door is told, by the real program."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import pytest

from operations.node.look import status
from tests.node import desk_double
from tests.node.desk_double import desk, refusal
from tests.node.shipped import part
from tests.support.ports import free_port
from tests.support.waiting import comes

tenants = part("ondemand", "tenants")
GIB = 1024


def tenant(name: str, gib: float, state: str = "loaded", used: float = 0.0, **more: float) -> object:
    found = tenants.Tenant(name, name, round(gib * GIB), 600.0, state, since=0.0, used=used)
    for word, value in more.items():
        setattr(found, word, value)
    return found


def gone(*others: object, need: float = 40, room: float = 100, available: float = 1000, now: float = 100.0) -> object:
    """Who gives way to one of so many GiB; or why nobody does."""
    wanted = tenant("new", need, "out")
    found = tenants.way(wanted, [*others, wanted], round(room * GIB), round(available * GIB), now)
    return found.problem or [each.unit for each in found.gives_way]


def test_nobody_gives_way_where_there_is_room() -> None:
    assert gone(tenant("a", 60)) == []


def test_the_one_that_was_used_longest_ago_gives_way() -> None:
    assert gone(tenant("a", 40, used=50), tenant("b", 40, used=20)) == ["b"]


def test_no_more_give_way_than_have_to() -> None:
    # The small one was used longest ago, and would not do.
    assert gone(tenant("small", 10, used=1), tenant("large", 60, used=2), need=60) == ["large"]
    assert gone(tenant("a", 50, used=1), tenant("b", 50, used=2), need=90) == ["a", "b"]


def test_what_serves_stays_and_is_named() -> None:
    others = tenant("a", 60, is_busy=True), tenant("b", 40, used=95)
    said = gone(*others)
    assert said == "no room, new takes 40.0 GiB: a serves and b has just served"
    # It rests ten seconds after its last request.
    assert gone(*others, now=105.0) == ["b"]


def test_one_that_has_just_loaded_waits_for_those_who_were_told_to_come_back() -> None:
    fresh = tenant("a", 80, used=95, since=90)
    assert gone(fresh) == "no room, new takes 40.0 GiB: a has just loaded, for those who wait for it"
    assert gone(fresh, now=166.0) == ["a"]


def test_one_is_kept_for_as_long_as_its_load_took_so_that_a_node_does_not_load_all_the_time() -> None:
    loaded = tenant("a", 80, "loads", used=10, since=0, idle_s=120.0)
    loaded.becomes("loaded", 300.0)  # type: ignore[attr-defined]
    loaded.used = 310.0  # type: ignore[attr-defined]
    why = "no room, new takes 40.0 GiB: a has just loaded, for those who wait for it"
    assert gone(loaded, now=400.0) == gone(loaded, now=599.0) == why
    assert not loaded.is_idle(599.0)  # type: ignore[attr-defined]
    assert gone(loaded, now=600.0) == ["a"]
    # One that serves to the end of it rests as ever, and that is told.
    loaded.used = 598.0  # type: ignore[attr-defined]
    wanted = tenant("new", 40, "out")
    assert tenants.way(wanted, [loaded], 100 * GIB, 100 * GIB, 599.0).for_s == 9.0


def test_a_connection_of_a_moment_is_no_request_under_way() -> None:
    wanted = {
        "model": "a",
        "address": "127.0.0.1",
        "port": 9,
        "spec": "s",
        "need_mib": 1,
        "idle_s": 60.0,
        "load_s": 1.0,
    }
    # As it lies beside the program on a node.
    part("fallback", "under_way")
    engine = part("ondemand", "standing").Engine("u", wanted)
    for now, ends, is_busy in ((1.0, "x", False), (2.0, "y", False), (3.0, "yz", True), (4.0, "", False)):
        engine.under_way.standing = lambda ends=ends: set(ends)
        engine.sees_connections(now)
        assert engine.tenant.is_busy is is_busy, now


def test_how_long_it_may_take_is_known_only_where_no_request_is_under_way() -> None:
    wanted = tenant("new", 40, "out")
    for busy, known in ((False, 5.0), (True, None)):
        inside = [tenant("a", 80, used=95, is_busy=busy)]
        assert tenants.way(wanted, inside, 100 * GIB, 100 * GIB, 100.0).for_s == known
    # As soon as one that is enough may go.
    inside = [tenant("a", 40, is_busy=True), tenant("b", 30, used=93), tenant("c", 30, used=97)]
    assert tenants.way(wanted, inside, 100 * GIB, 100 * GIB, 100.0).for_s == 7.0


def test_memory_that_others_have_is_not_counted_on() -> None:
    assert (
        gone(available=30)
        == "no room, new takes 40.0 GiB and 30.0 are free: the system and other programs have the rest"
    )
    assert gone(tenant("a", 20), available=30) == ["a"]
    assert gone(need=120) == "new takes 120.0 GiB, 100.0 are there for models on demand"


def test_a_plan_with_less_room_has_those_that_rest_give_way() -> None:
    inside = [tenant("a", 40, used=1), tenant("b", 40, used=2), tenant("c", 10, "out")]
    assert [each.unit for each in tenants.over(inside, 50 * GIB, 100.0)] == ["a"]
    assert tenants.over(inside, 80 * GIB, 100.0) == []
    assert tenants.over([tenant("a", 40, is_busy=True)], 0, 100.0) == []


def test_one_is_loaded_when_it_is_asked_for_and_a_flood_is_one_load(tmp_path: Path) -> None:
    with desk(tmp_path, 100, {"a": 40, "b": 40}) as it:
        assert it.ask("a", "GET") == {"state": "no", "after_s": it.ask("a", "GET")["after_s"]} | {
            "says": "a is loaded when somebody asks for it"
        }
        time.sleep(0.3)
        assert it.there == [] and it.state()["a"] == {"state": "out", "says": "not loaded: a request loads it"}
        said = list[str]()
        flood = [threading.Thread(target=lambda: said.append(it.ask("a")["state"])) for _ in range(40)]
        for each in flood:
            each.start()
        for each in flood:
            each.join()
        assert set(said) <= {"waits", "loaded"} and "waits" in said
        it.loads("a")
        assert (it.engines["a"].starts, it.engines["b"].starts) == (1, 0)
        assert it.engines["a"].answer() == "answered"


def test_the_third_takes_the_place_of_the_one_that_rests_and_no_answer_is_cut_off(tmp_path: Path) -> None:
    with desk(tmp_path, 100, {"a": 40, "b": 40, "c": 40}) as it:
        it.loads("a", "b")
        with it.engines["a"].serving() as answers:
            it.loads("c")
            # `a` was used longest ago, and serves: `b` went.
            assert it.there == ["a", "c"] and it.engines["b"].stops == 1
        assert answers == ["answered"] and it.engines["a"].killed == 0


def test_where_all_serve_one_more_is_told_so_and_nothing_is_ended(tmp_path: Path) -> None:
    with desk(tmp_path, 50, {"a": 40, "b": 40}) as it:
        it.loads("a")
        with it.engines["a"].serving():
            assert comes(lambda: it.ask("b")["says"] == "no room, b takes 40.0 GiB: a serves")
            assert it.ask("b")["state"] == "no" and it.engines["a"].stops == 0
        # Who asks on gets it then.
        it.loads("b")
        assert it.there == ["b"] and it.engines["a"].killed == 0


def test_models_that_stay_loaded_have_their_memory(tmp_path: Path) -> None:
    with desk(tmp_path, 100, {"a": 40, "b": 40}, stays=30) as it:
        it.loads("a", "b")
        assert it.there == ["b"]


def test_memory_of_others_is_not_taken(tmp_path: Path) -> None:
    with desk(tmp_path, 100, {"a": 40}) as it:
        it.memory(100, 21)
        said = it.ask("a")
        assert (said["state"], said["says"]) == (
            "no",
            "no room, a takes 40.0 GiB and 20.0 are free: the system and other programs have the rest",
        )
        time.sleep(0.3)
        assert it.engines["a"].starts == 0


def test_a_load_that_fails_says_why_and_is_tried_again_after_a_pause(tmp_path: Path) -> None:
    with desk(tmp_path, 100, {"a": 40}) as it:
        it.engines["a"].crashes = 1
        begun = time.monotonic()
        whole = {"unit": "tandem-engine-a", "spec": "s", "recipe": "r", "when": time.time() + 1, "phases": {}, "gib": 0}
        whole |= {"read_gib": 0, "loader": "", "ended": "weights", "why": "ValueError: no kernel", "blamed": ""}
        (tmp_path / "starts.json").write_text(json.dumps([whole]))
        said = it.ask("a")

        def is_refused() -> bool:
            said.update(it.ask("a"))
            return bool(said["state"] == "failed")

        assert comes(is_refused)
        assert said["says"] == "a did not load, `tandem status` says why; the next try is in 1 minute"
        assert it.state()["a"]["says"] == "did not load: ValueError: no kernel"
        assert it.engines["a"].starts == 1 and it.there == []
        it.loads("a")
        assert it.engines["a"].starts == 2 and time.monotonic() - begun > 2.0


def test_one_that_nobody_asks_for_is_unloaded(tmp_path: Path) -> None:
    with desk(tmp_path, 100, {"a": 40}, idle_s=0.6) as it:
        it.loads("a")
        # A long answer is use as well.
        assert it.engines["a"].answer(1.2) == "answered"
        assert comes(lambda: it.there == [])
        assert comes(lambda: it.state()["a"]["state"] == "out") and it.engines["a"].killed == 0


def test_whoever_has_not_the_key_loads_nothing(tmp_path: Path) -> None:
    with desk(tmp_path, 100, {"a": 40}) as it:
        assert [refusal(it, "a", token) for token in ("", "sk-of-this-test", "x" * 64)] == [401, 401, 401]
        assert refusal(it, "nobody", it.token) == 404
        (tmp_path / "key").write_text("")
        assert refusal(it, "a", part("ondemand", "wishes").shown("")) == 401
        time.sleep(0.2)
        assert it.engines["a"].starts == 0


def test_it_listens_where_no_dns_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda *_: pytest.fail("it asks DNS"))
    wishes = part("ondemand", "wishes")
    wishes.server("127.0.0.1", free_port(), tmp_path / "key", lambda *_: None).server_close()


def test_a_program_that_begins_anew_knows_what_is_loaded(tmp_path: Path) -> None:
    # With the floor it is more than the kernel has: the plan has seen another kernel.
    with desk(tmp_path, 40.9, {"a": 40}) as it:
        it.memory(40.9, 41)
        it.loads("a")
        systemctl = tmp_path / "bin/systemctl"
        systemctl.write_text(systemctl.read_text().replace("verb=$1", "sleep 0.5\nverb=$1", 1))
        it.begin()
        # The first one that asks is told so.
        assert it.ask("a")["state"] == "loaded"
        assert (it.engines["a"].starts, it.engines["a"].stops) == (1, 0)


def test_one_that_is_put_away_has_its_memory_yet(tmp_path: Path) -> None:
    with desk(tmp_path, 50, {"a": 40, "b": 40}) as it:
        it.engines["a"].says("deactivating")
        assert comes(lambda: it.state()["a"]["state"] == "leaves")
        assert it.ask("b")["says"] in ("b waits: a is unloaded first", "b is about to load")
        time.sleep(0.3)
        assert it.engines["b"].starts == 0
        it.engines["a"].says("inactive")
        it.loads("b")
        assert it.engines["a"].starts == it.engines["a"].stops == 0


@pytest.mark.parametrize("is_asked", [True, False])
def test_what_somebody_stops_by_hand_stays_so_until_it_is_asked_for(tmp_path: Path, is_asked: bool) -> None:
    with desk(tmp_path, 100, {"a": 40}) as it:
        it.loads("a")
        it.engines["a"].stop()
        assert comes(lambda: it.ask("a", "GET")["state"] != "loaded")
        if is_asked:
            it.loads("a")
        time.sleep(0.3)
        assert it.engines["a"].starts == 1 + is_asked


@pytest.mark.parametrize("is_asked", [True, False])
def test_one_that_has_ended_comes_back_only_for_those_who_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_asked: bool
) -> None:
    wish = f"ondemand.WISH_S = {60 if is_asked else 0.3}\nsys.exit"
    monkeypatch.setattr(desk_double, "RUN", desk_double.RUN.replace("sys.exit", wish))
    with desk(tmp_path, 100, {"a": 40}) as it:
        it.loads("a")
        time.sleep(0.5)
        it.engines["a"].ends()
        assert comes(lambda: it.engines["a"].stops == (not is_asked))
        time.sleep(0.3)
        assert it.engines["a"].stops == (not is_asked)


@pytest.mark.parametrize(
    ("says", "why"), [("not loaded: a request loads it", False), ("did not load: ValueError: no kernel", True)]
)
def test_status_tells_a_model_that_rests_from_one_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, why: bool
) -> None:
    file = tmp_path / "says.json"
    file.write_text(json.dumps({"models": {"tandem-engine-a": {"state": "out", "says": says}}}))
    monkeypatch.setattr(status, "ONDEMAND_SAYS", str(file))
    monkeypatch.setattr(status, "_why", lambda *_: "the end of its log")
    for unit, told in (("tandem-engine-a", says), ("tandem-engine-b", "no container")):
        row = status._row(unit, {"ActiveState": "inactive", "SubState": "dead"})
        assert row["health"] == told
        assert ("why" in row) == (why or unit == "tandem-engine-b")

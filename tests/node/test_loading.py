"""What clients get of models on demand: the door's own layer before the real program of a node (desk_double.py)."""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from operations.node.engine import answering, probe
from operations.node.look import status
from operations.node.unit import brief
from tests.bench.routing import doors
from tests.node.desk_double import KEY, DeskDouble, desk
from tests.node.shipped import part
from tests.plan.samples import ROOT
from tests.support.ports import free_port
from tests.support.waiting import comes

PYTHON = doors.LITELLM.parent / "python"
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="no LiteLLM here: `make venv-proxy` installs it")

tenants = part("ondemand", "tenants")
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"


class Asked:
    """What a client got: status, headers, body, and seconds to the first byte and to the first of an answer."""

    def __init__(self, url: str, model: str, path: str = CHAT, **more: Any) -> None:
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Hi"}], **more}).encode()
        request = urllib.request.Request(f"{url}{path}", body, {"Content-Type": "application/json"})
        begun, self.first_s, self.body = time.monotonic(), 0.0, b""
        try:
            response = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            self.status, self.headers = response.status, response.headers
            while part := response.read1(65536):
                if not self.body:
                    self.first_s = time.monotonic() - begun
                self.body += part
                if b'"content": "Hi"' in self.body:
                    self.answer_s = time.monotonic() - begun

    @property
    def error(self) -> dict[str, Any]:
        """The error of its body, or of its last event."""
        last = (
            self.body.rpartition(b"data: ")[2] if self.headers["content-type"].startswith("text/event") else self.body
        )
        found: dict[str, Any] = json.loads(last)["error"]
        return found


@dataclass
class Door:
    """One for all tests of this file, before the models of each."""

    url: str
    file: Path

    def before(self, *desks: DeskDouble) -> str:
        """Its URL; every model of these desks is behind it from now on."""
        models = {
            name: {
                "engine": f"http://127.0.0.1:{engine.port}",
                "loaded_by": f"http://127.0.0.1:{it.port}/{engine.unit}",
            }
            for it in desks
            for name, engine in it.engines.items()
        }
        self.file.write_text(json.dumps(models))
        return self.url


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    port, file = free_port(), tmp_path_factory.mktemp("door") / "models.json"
    file.write_text("{}")
    argv = [str(PYTHON), "-B", str(ROOT / "tests/node/doubles/door_on_demand.py"), str(ROOT / "files/litellm")]
    environment = {**os.environ, "LITELLM_MASTER_KEY": KEY}
    process = subprocess.Popen([*argv, str(port), str(file)], env=environment)
    assert comes(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
    yield Door(f"http://127.0.0.1:{port}", file)
    process.kill()
    process.wait()


def test_door_and_node_go_by_the_same_times_and_show_the_same() -> None:
    """A door sends a request on for as long as it holds a model to be loaded: none is unloaded within that."""

    def of(name: str, file: str) -> Any:
        for each in ast.parse((ROOT / "files" / file).read_text()).body:
            names = ast.unparse(each.targets[0]).strip("()").split(", ") if isinstance(each, ast.Assign) else []
            if isinstance(each, ast.Assign) and name in names:
                value = ast.literal_eval(each.value)
                return value[names.index(name)] if len(names) > 1 else value
        raise KeyError(name)

    assert of("LOADED_S", "litellm/loading.py") + of("CONNECT_S", "litellm/attempts.py") < tenants.REST_S
    assert of("MOST_S", "litellm/loading.py") < tenants.KEPT_S
    # It may be told so as long as three words with systemd take.
    assert 3 * of("WORD_S", "ondemand/systemd.py") < of("GONE_S", "litellm/loading.py")
    # `tandem status` has the list of models in time where a node is dark.
    assert of("LOOK_S", "litellm/loading.py") + 0.5 <= status.ANSWER_S
    # A comment is two lines, and go-openai bears 300: loads of half an hour.
    assert 300 / 2 * of("TOLD_S", "litellm/loading.py") > 1800
    assert of("FOR", "litellm/loading.py") == of("FOR", "ondemand/wishes.py")


def test_a_stream_waits_and_is_told_how_far_it_is_others_are_told_when_to_come_back(door: Door, tmp_path: Path) -> None:
    with desk(tmp_path, 100, {"a": 40, "b": 40}) as it:
        url = door.before(it)
        it.engines["a"].load_s = 1.5
        listed = json.loads(urllib.request.urlopen(f"{url}/v1/models", timeout=10).read())["data"]
        assert {each["id"]: each["loaded"] for each in listed} == {"a": False, "b": False}
        # Who only looks loads nothing; a deploy and `tandem status` are such.
        assert probe.main("tandem-proxy", url, "a")["ok"] and it.engines["a"].starts == 0
        with ThreadPoolExecutor(2) as pool:
            stream = pool.submit(Asked, url, "a", stream=True)
            assert comes(lambda: it.engines["a"].starts == 1)
            whole = Asked(url, "a")
            got = stream.result()
        assert (whole.status, whole.error["code"]) == (503, "model_not_loaded")
        assert 2 <= int(whole.headers["retry-after"]) <= 60 and " load" in whole.error["message"]
        assert got.status == 200 and got.first_s < got.answer_s
        comments, _, rest = got.body.partition(b"data: ")
        assert b": a loads: " in comments and all(line.startswith(b":") for line in comments.split(b"\n\n")[:-1])
        assert rest.endswith(b"data: [DONE]\n\n") and b'"content": "Hi"' in rest
        assert Asked(url, "a").status == 200
        assert comes(lambda: json.loads(urllib.request.urlopen(f"{url}/v1/models/a").read())["loaded"])
        assert it.engines["b"].starts == 0


def test_anthropic_s_clients_get_events_and_errors_of_their_own(door: Door, tmp_path: Path) -> None:
    with desk(tmp_path, 100, {"a": 40}) as it:
        url = door.before(it)
        it.engines["a"].load_s = 1.0
        with ThreadPoolExecutor(1) as pool:
            stream = pool.submit(Asked, url, "a", MESSAGES, stream=True)
            assert comes(lambda: it.engines["a"].starts == 1)
            whole = Asked(url, "a", MESSAGES)
            got = stream.result()
        assert (whole.status, whole.error["type"]) == (503, "overloaded_error")
        assert got.body.startswith(b'event: ping\ndata: {"type": "ping"}\n\n')
        assert got.body.endswith(b"event: message_stop\ndata: {}\n\n")


def test_a_flood_is_one_load_and_all_streams_of_it_are_answered(door: Door, tmp_path: Path) -> None:
    with desk(tmp_path, 100, {"a": 40}) as it:
        url = door.before(it)
        it.engines["a"].load_s = 1.5
        with ThreadPoolExecutor(60) as pool:
            asked = [pool.submit(Asked, url, "a", stream=bool(each % 2)) for each in range(60)]
            got = [each.result() for each in asked]
        assert it.engines["a"].starts == 1
        assert all(each.status == 200 and b"[DONE]" in each.body for each in got[1::2])
        assert all(each.status in (200, 503) for each in got[::2])


def streams(url: str, name: str) -> bool:
    """Whether a stream begins; it comes to its end then."""
    got = Asked(url, name, stream=True)
    assert got.status == 503 or b"[DONE]" in got.body, (name, got.body)
    return bool(got.status == 200)


def test_three_in_turn_on_memory_for_two_and_no_answer_is_cut_off(door: Door, tmp_path: Path) -> None:
    with desk(tmp_path, 100, {"a": 40, "b": 40, "c": 40}) as it:
        url = door.before(it)
        # One that serves all the while stays.
        it.loads("a")
        with it.engines["a"].serving() as answers:
            for name in ("b", "c", "b", "c"):
                # The one before it may be seen to serve for a moment longer than its client reads.
                assert comes(lambda name=name: streams(url, name))  # type: ignore[misc]
            assert answers == []
        assert answers == ["answered"]
        assert (it.engines["a"].starts, it.engines["b"].starts, it.engines["c"].starts) == (1, 2, 2)
        assert not any(each.killed for each in it.engines.values())


def test_where_all_serve_a_client_is_told_who(door: Door, tmp_path: Path) -> None:
    with desk(tmp_path, 50, {"a": 40, "b": 40}) as it:
        url = door.before(it)
        it.loads("a")
        with it.engines["a"].serving():
            assert comes(lambda: it.ask("b")["says"] == "no room, b takes 40.0 GiB: a serves")
            for stream in (False, True):
                got = Asked(url, "b", stream=stream)
                assert (got.status, got.error["message"]) == (503, "no room, b takes 40.0 GiB: a serves")


def test_a_stream_that_waits_goes_on_waiting_while_others_serve(door: Door, tmp_path: Path) -> None:
    with desk(tmp_path, 50, {"a": 40, "b": 40}) as it, ThreadPoolExecutor(1) as pool:
        url = door.before(it)
        it.loads("a")
        stream = pool.submit(Asked, url, "b", stream=True)
        # The other one has just loaded, and is kept a while for those who wanted it.
        assert comes(lambda: it.ask("b", "GET")["state"] == "waits")
        with it.engines["a"].serving():
            assert comes(lambda: it.ask("b", "GET")["state"] == "no")
            # The door asks a second time in it, and gives up later.
            time.sleep(1.2)
        got = stream.result()
        assert got.status == 200 and got.body.endswith(b"[DONE]\n\n"), got.body


def test_a_node_that_dies_while_it_loads_is_told_of_and_harms_nobody_else(door: Door, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with desk(tmp_path / "one", 100, {"a": 40}) as dies, desk(tmp_path / "two", 100, {"b": 40}) as lives:
        dies.engines["a"].load_s = 30
        lives.loads("b")
        url = door.before(dies, lives)
        with ThreadPoolExecutor(1) as pool:
            stream = pool.submit(Asked, url, "a", stream=True)
            assert comes(lambda: dies.engines["a"].starts == 1)
            dies.end()
            got = stream.result()
            assert got.status == 200 and "the node that loads this model does not answer" in got.error["message"]
            whole = Asked(url, "a")
            assert (whole.status, whole.headers["retry-after"]) == (503, "30")
            assert Asked(url, "b").status == 200
            # It is back, and nothing is left of the load.
            dies.engines["a"].stop()
            dies.engines["a"].load_s = 0.2
            dies.begin()
            assert comes(lambda: Asked(url, "a", stream=True).body.endswith(b"[DONE]\n\n"))


def test_a_load_that_fails_ends_the_stream_with_the_reason(door: Door, tmp_path: Path) -> None:
    with desk(tmp_path, 100, {"a": 40}) as it:
        url = door.before(it)
        it.engines["a"].crashes = 1
        got = Asked(url, "a", stream=True)
        said = "a did not load, `tandem status` says why; the next try is in 1 minute"
        assert got.error["message"] == said, got.body
        whole = Asked(url, "a")
        assert (whole.status, whole.error["message"], whole.error["code"]) == (503, said, "model_load_failed")
        assert it.engines["a"].starts == 1
        # The gate of answers has nothing to wait for.
        question: Any = {"name": "one", "path": "chat/completions", "body": {"model": "a", "messages": []}}
        begun = time.monotonic()
        assert answering.send(f"{url}/v1", KEY, [question], 60)["one"]["status"] == 503
        assert time.monotonic() - begun < answering.AGAIN_S


def test_what_reads_responses_gets_comments_until_the_engine_begins(door: Door, tmp_path: Path) -> None:
    with desk(tmp_path, 100, {"a": 40}) as it:
        url = door.before(it)
        it.engines["a"].load_s = 0.8
        got = Asked(url, "a", RESPONSES, stream=True, input="Hi")
        comments, _, rest = got.body.partition(b"event: ")
        assert comments.startswith(b": a ") and all(line.startswith(b":") for line in comments.split(b"\n\n")[:-1])
        assert rest.startswith(b"response.created\n") and b"event: response.completed" in rest


def test_a_path_on_which_a_model_has_no_answer_loads_nothing(door: Door, tmp_path: Path) -> None:
    with desk(tmp_path, 100, {"a": 40, "b": 40}) as it:
        url = door.before(it)
        known = json.loads(door.file.read_text())
        known["b"]["mode"] = "embedding"
        door.file.write_text(json.dumps(known))
        for model, path in (("a", "/v1/embeddings"), ("b", CHAT), ("b", RESPONSES)):
            got = Asked(url, model, path, input="Hi")
            assert got.status == 404 and f"no answer on {path}" in got.error["message"]
        time.sleep(0.3)
        assert it.engines["a"].starts == it.engines["b"].starts == 0
        assert Asked(url, "b", "/v1/embeddings", input="Hi").error["code"] == "model_not_loaded"


def test_a_list_of_models_waits_once_for_a_node_that_is_dark(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as dark:
        dark.bind(("127.0.0.1", 0))
        dark.listen()
        at = f"http://127.0.0.1:{dark.getsockname()[1]}"
        door.file.write_text(json.dumps({"a": {"engine": at, "loaded_by": f"{at}/tandem-engine-a"}}))
        monkeypatch.setattr(brief, "main", lambda _: {"state": {}, "log": []})
        # So a deploy does not end well, and asks nobody to load it.
        found = probe.main("tandem-proxy", door.url, "a", deadline_s=status.ANSWER_S)
        assert not found["ok"] and found["problem"].startswith("the node that loads a does not answer")
        for after_s in (0, 1.2):
            # No word of a node that answers would hold for so long.
            time.sleep(after_s)
            assert json.loads(urllib.request.urlopen(f"{door.url}/v1/models/a", timeout=10).read())["loaded"] is None
        dark.settimeout(0.5)
        dark.accept()
        with pytest.raises(TimeoutError):
            dark.accept()


def test_what_the_engine_refuses_is_its_own_word_behind_the_wait_as_well(door: Door, tmp_path: Path) -> None:
    with desk(tmp_path, 100, {"a": 40}) as it:
        url = door.before(it)
        it.engines["a"].load_s = 0.5
        waited, at_once = (Asked(url, "a", stream=True, odd=True) for _ in range(2))
        assert (waited.status, at_once.status) == (200, 400)
        assert waited.error["message"] == at_once.error["message"] == "too long for this model"


def test_the_gate_of_answers_waits_until_a_model_is_loaded(
    door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "AGAIN_S", 0.1)
    with desk(tmp_path, 100, {"a": 40}) as it:
        url = door.before(it)
        question: Any = {"name": "one", "path": "chat/completions", "body": {"model": "a", "messages": []}}
        it.memory(100, 5)
        assert answering.send(f"{url}/v1", KEY, [question], 2)["one"]["status"] == 503
        it.memory(100, 100)
        assert answering.send(f"{url}/v1", KEY, [question], 30)["one"]["status"] == 200


def test_a_program_that_starts_anew_turns_nobody_away_from_what_is_loaded(door: Door, tmp_path: Path) -> None:
    with desk(tmp_path, 100, {"a": 40}) as it:
        url = door.before(it)
        it.loads("a")
        assert Asked(url, "a").status == 200
        it.end()
        time.sleep(0.2)
        assert Asked(url, "a").status == 200 and it.engines["a"].stops == 0

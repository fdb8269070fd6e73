"""The door: what LiteLLM gets of a body, what is in the log, and what is kept of each key's use."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from tests.node.door_double import END, EVENTS, FakeHTTPException, Setup, a_door, usage
from tests.node.shipped import part
from tests.node.strangers import in_openai_form

__all__ = ["a_door"]


def before(setup: Setup, data: dict[str, Any], key: str = "sk-alice") -> None:
    """What LiteLLM asks the callback with this body, in the midst of a request of this key."""
    callback = setup.module.callback

    async def hook() -> None:
        assert await callback.async_pre_call_hook(None, None, data, "acompletion") is data

    setup.application.before = hook
    setup.once(key)


def test_an_engine_is_asked_what_a_stream_costs(setup: Setup) -> None:
    """On the way past LiteLLM; a request that goes LiteLLM's way is left as it is."""
    setup.key("alice")
    setup.application.kind, setup.application.parts = b"text/event-stream", [*EVENTS, usage(3), END]
    admit = part("litellm", "door_body").admit
    for asked, wanted in (
        ({"model": "m", "stream": True, "stream_options": {"x": 1}}, {"x": 1, "include_usage": True}),
        ({"model": "m", "stream": True}, {"include_usage": True}),
        ({"model": "m"}, None),
        ({"model": "m", "stream": True, "stream_options": 5}, 5),
    ):

        async def hook(asked: dict[str, Any] = asked) -> None:
            admit(asked, "stream" in asked, 1)

        setup.application.before = hook
        setup.once("sk-alice")
        assert asked.get("stream_options") == wanted
    data: dict[str, Any] = {"model": "m", "stream": True}
    before(setup, data)
    assert data == {"model": "m", "stream": True}


@pytest.mark.parametrize("key", ["sk-alice", "sk-owner"])
def test_a_client_s_body_sends_a_request_nowhere_else(setup: Setup, key: str) -> None:
    setup.key("alice")
    wrong: list[dict[str, Any]] = [{"model": "n"}, {"model": "m,m"}, {"model": "m", "fallbacks": ["n"]}]
    wrong += [
        {"model": "m", "api_key": "k"},
        {"model": "m", "custom_llm_provider": "x"},
        {"model": "m", "num_retries": 9},
    ]
    again = ("model_group_retry_policy", "routing_strategy", "enable_tag_filtering")
    wrong += [{"model": "m", word: None} for word in (*again, "timeout", "stream_timeout", "request_timeout")]
    for data in wrong:
        if key == "sk-owner":
            before(setup, data, key)
            continue
        with pytest.raises(FakeHTTPException) as refused:
            before(setup, data, key)
        assert refused.value.status_code in (400, 404)


def test_who_asked_is_in_the_log_and_neither_key_nor_path_nor_query(
    setup: Setup, capsys: pytest.CaptureFixture[str]
) -> None:
    setup.key("alice")
    setup.once("sk-alice", query_string=b"key=sk-query")
    setup.once("sk-alice", "GET", "/v1/models/sk-model")
    setup.once("sk-alice", "GET", "/sk-path")
    setup.once("sk-wrong")
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(", ")[0] for line in lines] == [
        "tandem: alice: POST /v1/chat/completions: 200",
        "tandem: alice: GET /v1/models/...: 200",
        "tandem: alice: GET another route: 404",
        "tandem: nobody: POST /v1/chat/completions: 401",
    ]
    assert lines[0].endswith("7 tokens, from 10.0.0.9") and "sk-" not in "".join(lines)


@pytest.mark.parametrize("key", [None, "sk-owner"])
def test_a_path_can_t_write_lines_of_its_own_into_the_log(
    setup: Setup, capsys: pytest.CaptureFixture[str], key: str | None
) -> None:
    for end in ("\n", "\r\n", "\n/models/"):
        setup.once(key, "GET", f"/v1/models/x{end}tandem: alice: GET sk-query")
    said = capsys.readouterr().out
    assert len(said.splitlines()) == 3 and "alice" not in said and "sk-query" not in said


def test_a_request_that_breaks_is_in_the_log_and_counted(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    def breaks() -> None:
        raise ConnectionError

    setup.application.before = breaks
    with pytest.raises(ConnectionError):
        setup.once("sk-owner")
    assert "tandem: owner: POST /v1/chat/completions: 200" in capsys.readouterr().out


def test_an_error_that_litellm_lets_pass_gets_openai_s_form(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    def breaks() -> None:
        raise ImportError("the prompt")

    setup.application.at_once = breaks
    got = setup.once("sk-owner")
    assert got.status == 500 and in_openai_form(got.body)["type"] == "server_error"
    said = capsys.readouterr().out
    assert "an error of its own pass: ImportError\n" in said and "owner: POST /v1/chat/completions: 500" in said
    assert "prompt" not in said


def read(setup: Setup) -> Any:
    """What is kept of the keys' use, once it is written."""
    for _ in range(200):
        if (setup.folder / "used.json").exists():
            return json.loads((setup.folder / "used.json").read_text())
        time.sleep(0.05)
    raise AssertionError("nothing is written")


def test_what_each_key_has_used_is_kept(setup: Setup) -> None:
    setup.key("alice")
    for key in ("sk-alice", "sk-alice", "sk-owner", "sk-wrong"):
        setup.once(key)
    alice = hashlib.sha256(b"sk-alice").hexdigest()[:16]
    kept = {name: (use["requests"], use["tokens"]) for name, use in read(setup).items()}
    assert kept == {alice: (2, 14), "owner": (1, 7)}
    assert (setup.folder / "used.json").stat().st_mode & 0o777 == 0o600


def test_several_proxies_add_to_one_count_and_a_revoked_key_leaves_it(tmp_path: Path) -> None:
    counts = part("litellm", "door_counts")
    known = {"a", "b"}
    several = [counts.Counts(tmp_path / "used.json", lambda: known) for _ in range(3)]
    for each in several:
        each.add("a", 5)
        each.add("b", 1)
        each.flush()
    assert {name: use["tokens"] for name, use in counts.read(tmp_path / "used.json").items()} == {"a": 15, "b": 3}
    known.discard("b")
    several[0].add("a", 1)
    several[0].flush()
    assert list(counts.read(tmp_path / "used.json")) == ["a"]


def test_a_count_that_can_t_be_written_is_kept_until_it_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = part("litellm", "door_counts")
    kept = counts.Counts(tmp_path / "away/used.json", lambda: {"a"})
    kept.add("a", 5)
    with pytest.raises(OSError):
        kept.flush()
    (tmp_path / "away").mkdir()
    kept.add("a", 5)
    kept.flush()
    assert counts.read(tmp_path / "away/used.json")["a"]["tokens"] == 10


def test_the_log_has_no_words_of_an_error(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    try:
        try:
            raise ValueError("the prompt")
        except ValueError as error:
            raise OSError("the prompt again") from error
    except OSError as error:
        logging.getLogger("LiteLLM Proxy").exception("an engine says %s", error)
        logging.getLogger("LiteLLM").error(f"it says {error}")
    logging.getLogger("LiteLLM").warning("the prompt")
    logging.getLogger("uvicorn.error").setLevel("INFO")
    logging.getLogger("uvicorn.error").info('%s - "WebSocket %s" %d', "10.0.0.9", "/?key=sk-query", 401)
    logging.getLogger("uvicorn.error").info("Started server process [%d]", 7)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["OSError from ValueError"] * 2 + ["a warning", "Started server process [7]"]
    assert "prompt" not in caplog.text and "sk-query" not in caplog.text

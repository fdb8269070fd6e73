"""The gate of answers, from the request to the verdict, against a double of an engine whose parts can be wrong ones."""

from __future__ import annotations

import io
import time
from functools import cache

import pytest

from operations.node.door import endpoint
from operations.node.engine import answering as asking
from operations.plan.answers import gate
from operations.plan.answers.shapes import Seen, Subject
from operations.wire.answers import Probe, Row
from tests.node.answering_double import Faults, answering
from tests.support.serving import saying

#: What a model that reasons and calls tools is not asked, and one whose words are noise.
OWN = {"recited": "it has words of its own"}
NOISE = {"sense": "its words are noise", "thinks": "it does not think", "reasoning": "it does not think"}
#: Checks of calls that are demanded.
FORCED = ("forced", "forced-stream", "named")


@cache
def proven(faults: Faults, lacks: tuple[str, ...] = ()) -> dict[str, Row]:
    """The rows by their names."""
    given = {**(NOISE if faults.noise else OWN), **dict.fromkeys(lacks, "the recipe has no parser")}
    seen = Seen(Subject("double", 32_768, given, faults.noise))
    with answering(faults) as url:
        while asked := gate.next_asked(seen):
            seen.answers |= asking.send(url, "key", asked)
    return {each["name"]: each for each in gate.table(seen)}


def failing(rows: dict[str, Row], kind: str = "form") -> set[str]:
    return {name for name, row in rows.items() if row["kind"] == kind and row["verdict"] == gate.FAILS}


def test_a_healthy_engine_holds_in_everything_that_it_is_asked() -> None:
    rows = proven(Faults())
    odd = {name: row for name, row in rows.items() if row["verdict"] not in (gate.HOLDS, gate.NOT_ASKED)}
    assert not odd
    not_asked = {name for name, row in rows.items() if row["verdict"] == gate.NOT_ASKED}
    assert not_asked == {"recited", "recited-stream", "thoughts-recited"}
    assert 20 <= sum(row["verdict"] == gate.HOLDS for row in rows.values()) <= 45


@pytest.mark.parametrize(
    ("fault", "found", "says"),
    [
        (Faults(tool_parser=True), "tool", "the tool parser is not the model's"),
        (Faults(tool_parser=True), "tool-stream", "<tool_call>"),
        (Faults(tool_parser=True), "message-tool", "the tool parser is not the model's"),
        (Faults(template_tools=True), "tools", "it is left out"),
        (Faults(template_system=True), "system", "it is left out"),
        (Faults(leaked_end=True), "tags", "`<|end|>` stands in an answer"),
        (Faults(reasoning_parser=True), "tags", "`<think>` stands in an answer"),
        (Faults(reasoning_parser=True), "thoughts", "no thoughts of its own"),
        (Faults(reasoning_parser=True), "thoughts-stream", "no thoughts of its own"),
        (Faults(swallows=True), "answer", "all of it stands in its thoughts"),
        (Faults(stop=True), "stop", "goes on behind the word"),
        (Faults(stop=True), "stop-stream", "goes on behind the word"),
        (Faults(stop=True), "message-stop", "goes on behind the word"),
        (Faults(schema=True), "schema", "its answer is no JSON"),
        (Faults(schema=True), "schema-stream", "its answer is no JSON"),
        (Faults(cut_stream=True), "stream", "without its end"),
        (Faults(cut_stream=True), "message-stream", "does not end with message_stop"),
    ],
)
def test_each_fault_is_found_by_its_check(fault: Faults, found: str, says: str) -> None:
    row = proven(fault)[found]
    assert row["verdict"] == gate.FAILS
    assert says in row["why"]


def test_a_fault_is_told_where_it_is_and_nowhere_else() -> None:
    assert failing(proven(Faults(stop=True))) == {"stop", "stop-stream", "message-stop"}
    assert failing(proven(Faults(schema=True))) == {"schema", "schema-stream"}
    assert failing(proven(Faults(template_tools=True))) == {"tools"}


def test_a_model_whose_words_are_noise_holds_in_form_and_is_not_asked_for_sense() -> None:
    rows = proven(Faults(noise=True, thinks=False))
    assert failing(rows) == set()
    asked = {name for name, row in rows.items() if row["verdict"] == gate.HOLDS}
    assert {"answer", "stop", "schema", "forced", "named", "recited", "recited-stream", "thoughts-recited"} <= asked
    assert rows["english"]["verdict"] == gate.NOT_ASKED and rows["english"]["why"] == "its words are noise"


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (Faults(noise=True, tool_parser=True), {*FORCED, "recited", "recited-stream", "tags"}),
        (Faults(noise=True, template_tools=True), {"tools", "recited", "recited-stream"}),
        (Faults(noise=True, reasoning_parser=True), {"thoughts-recited"}),
        (Faults(noise=True, misreads=True), {"named", "recited", "recited-stream"}),
        (Faults(noise=True, stop=True), {"stop", "stop-stream", "message-stop"}),
        (Faults(noise=True, schema=True), {"schema", "schema-stream"}),
    ],
)
def test_faults_are_found_in_noise_as_well(fault: Faults, found: set[str]) -> None:
    assert failing(proven(fault)) == found


def test_what_a_model_does_not_know_is_no_fault_of_form() -> None:
    rows = proven(Faults(forgets=True))
    assert failing(rows) == set()
    assert {"english", "german", "needle", "memory"} <= failing(rows, "sense")


def test_what_a_model_chooses_to_call_is_no_fault_of_form() -> None:
    rows = proven(Faults(strays=True))
    assert failing(rows) == set()
    assert {"calls", "calls-stream", "calls-two", "message-calls"} <= failing(rows, "sense")
    assert "`weather_of`, which is no tool of the request" in rows["calls"]["why"]


def test_a_template_with_a_longer_system_s_message_of_its_own_shows_that_of_a_client() -> None:
    assert failing(proven(Faults(default_system=True))) == set()


def test_a_parser_that_leaves_the_thoughts_in_the_answer_is_taken_at_its_word() -> None:
    rows = proven(Faults(appends=True), ("reasoning", "apart"))
    assert failing(rows) == set() == failing(rows, "sense")
    assert rows["thoughts"]["verdict"] == gate.NOT_ASKED and rows["tags"]["verdict"] == gate.HOLDS
    # A tag behind the thoughts is one.
    assert "tags" in failing(proven(Faults(appends=True, leaked_end=True), ("reasoning", "apart")))


def test_what_a_recipe_lacks_is_not_asked_and_why_is_told() -> None:
    rows = proven(Faults(), ("tools", "forced", "named"))
    assert rows["tool"] == {
        "name": "tool",
        "kind": "form",
        "verdict": gate.NOT_ASKED,
        "why": "the recipe has no parser",
    }
    assert rows["answer"]["verdict"] == gate.HOLDS


def test_nobody_at_the_door_says_nothing_about_the_model() -> None:
    seen = Seen(Subject("double", 32_768, OWN))
    while asked := gate.next_asked(seen):
        seen.answers |= asking.send("http://127.0.0.1:9/v1", "key", asked)
    rows = gate.table(seen)
    assert gate.faults(rows) == []
    assert {each["verdict"] for each in rows} == {gate.UNSURE, gate.NOT_ASKED}
    assert "no answer" in rows[0]["why"]


def test_no_more_is_sent_when_the_others_took_too_long() -> None:
    asked = gate.next_asked(Seen(Subject("double", 32_768, OWN)))
    answers = asking.send("http://127.0.0.1:9/v1", "key", asked, -1.0)
    assert {each["text"] for each in answers.values()} == {"it was not sent: the others took all of 900 s"}


def test_without_a_proxy_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "main", lambda: {"url": ""})
    monkeypatch.setattr("sys.stdin", io.StringIO("[]"))
    assert asking.main() == {"problem": "no proxy runs here: `tandem apply` deploys one"}


@pytest.mark.parametrize(
    ("stream", "begins", "says"),
    [
        (False, b"", "timed out"),
        (True, b"HTTP/1.1 200 OK\r\n\r\ndata: {}\n\n", "the stream had no end in time"),
    ],
)
def test_what_is_under_way_at_the_end_is_given_up(stream: bool, begins: bytes, says: str) -> None:
    asked: Probe = {"name": "one", "path": "chat/completions", "body": {"stream": stream}}
    # It says so much, a line a while later, and then nothing.
    with saying(begins, begins and b"data: {}\n\n", *[b""] * 20, pause_s=0.3) as url:
        begun = time.monotonic()
        answer = asking.send(f"{url}/v1", "key", [asked], 0.4)["one"]
    assert answer["status"] == 0 and says in answer["text"]
    assert 0.3 < time.monotonic() - begun < 5

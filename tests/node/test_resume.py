"""A stream whose engine dies: what the client has, and what another engine is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.node.shipped import part

resume = part("litellm", "resume")

ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 10, "stream": True}
WORDS = {"continue_final_message": True, "add_generation_prompt": False}
USAGE = {"id": "id-usage", "choices": []}


def chunk(text: str = "", reason: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"delta": {"content": text, **delta}, "finish_reason": reason}
    return {"id": f"id-{text}", "choices": [choice]}


def of(index: int, chunk: dict[str, Any]) -> dict[str, Any]:
    """A chunk of this choice's."""
    chunk["choices"][0]["index"] = index
    return chunk


def piece(text: str, reason: str | None = None) -> dict[str, Any]:
    """Of /v1/completions."""
    return {"id": "i", "choices": [{"text": text, "finish_reason": reason}]}


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {**USAGE, "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


def run(body: dict[str, Any], *streams: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Any]]:
    """What the client gets of streams of which all but the last break off, and what is asked for behind each of those.
    Each character of the text is a token.
    """
    path = "completions" if "prompt" in body else "chat/completions"
    answer, got, asked = resume.Answer(resume.choices(path, body)), list[dict[str, Any]](), []
    for number, stream in enumerate(streams):
        for each in stream:
            got += answer.pass_on(each, number > 0)
        if number < len(streams) - 1:
            answer.broke_off(len(answer.text))
            asked.append(answer.rest(body, WORDS))
    return got, asked


def text_of(chunks: Sequence[dict[str, Any]]) -> str:
    return "".join(each["choices"][0]["delta"].get("content") or "" for each in chunks if each["choices"])


def test_a_stream_that_ends_well_is_passed_on_as_it_is() -> None:
    chunks = [chunk("a"), chunk("b", "stop"), usage(5, 2)]
    got, _ = run(ASKED, chunks)
    assert all(one is other for one, other in zip(got, chunks, strict=True))
    assert got == [chunk("a"), chunk("b", "stop"), usage(5, 2)]


def test_a_stream_that_breaks_goes_on_from_another_engine() -> None:
    first = [chunk("", role="assistant"), chunk("a"), chunk("b")]
    got, (asked,) = run(ASKED, first, [chunk("c", role="assistant"), chunk("d", "length"), usage(7, 8)])
    assert text_of(got) == "abcd"
    assert [each["id"] for each in got] == ["id-", "id-a", "id-b", "id-", "id-", "id-"]
    assert "role" not in got[3]["choices"][0]["delta"]
    assert got[-1]["usage"] == {"prompt_tokens": 5, "completion_tokens": 10, "total_tokens": 15}
    assert asked["messages"] == [*ASKED["messages"], {"role": "assistant", "content": "ab"}]  # type: ignore[misc]
    assert asked["continue_final_message"] is True and asked["add_generation_prompt"] is False
    assert asked["max_tokens"] == 8


def test_an_engine_is_asked_in_the_words_of_its_kind() -> None:
    answer = resume.Answer()
    answer.pass_on(chunk("a"), False)
    asked = answer.rest(ASKED, {"go_on": 1})
    assert asked["go_on"] == 1 and "continue_final_message" not in asked
    assert asked["messages"][-1] == {"role": "assistant", "content": "a"}


def test_of_an_engine_that_has_no_words_for_it_a_stream_ends_where_it_broke() -> None:
    answer = resume.Answer()
    assert answer.rest(ASKED, None) == ASKED
    answer.pass_on(chunk("a"), False)
    assert answer.rest(ASKED, None) is None


def test_it_can_break_again_and_again() -> None:
    got, asked = run(ASKED, [chunk("a")], [chunk("b")], [chunk("c", "stop")])
    assert text_of(got) == "abc"
    assert [each["messages"][-1]["content"] for each in asked] == ["a", "ab"]
    assert [each["max_tokens"] for each in asked] == [9, 8]


def test_what_had_not_begun_begins_anew() -> None:
    assert run(ASKED, [], [chunk("a", "stop")])[1] == [ASKED]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_thoughts_begin_anew_and_the_answer_behind_them_is_whole(name: str) -> None:
    got, asked = run(ASKED, [chunk(**{name: "hm"})], [chunk(**{name: "so"}), chunk("a", "stop")])
    assert text_of(got) == "a"
    assert asked == [ASKED]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_a_parser_that_takes_the_middle_of_an_answer_for_thoughts_is_put_right(name: str) -> None:
    got, _ = run(ASKED, [chunk("a")], [chunk(**{name: "b"}), chunk(**{name: "c"}), chunk("d", "stop")])
    assert text_of(got) == "abcd"


def test_a_tool_call_comes_as_its_engine_makes_it_and_is_not_continued() -> None:
    parts = [chunk(tool_calls=["one"]), chunk(tool_calls=["two"])]
    got, asked = run(ASKED, parts, [])
    assert got == parts and asked == [None]


def test_an_assistant_s_beginning_of_the_client_s_own_is_continued() -> None:
    begun = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "It "}]
    body = {**ASKED, "messages": begun, "continue_final_message": True, "add_generation_prompt": False}
    got, (asked,) = run(body, [chunk("is")], [chunk(" so", "stop")])
    assert text_of(got) == "is so"
    assert asked["messages"][-1]["content"] == "It is"
    assert begun[-1]["content"] == "It "


@pytest.mark.parametrize(
    "more",
    [
        {"n": 2},
        {"response_format": {"type": "json_object"}},
        {"structured_outputs": {"regex": "a"}},
        {"regex": "a"},
        {"messages": [{"role": "assistant", "content": [{"type": "text"}]}], "continue_final_message": True},
    ],
    ids=lambda more: next(iter(more)),
)
def test_what_can_t_be_continued_is_asked_of_nobody(more: dict[str, Any]) -> None:
    assert run({**ASKED, **more}, [chunk("a")], [])[1] == [None]


def test_an_answer_that_was_complete_is_not_asked_for_again() -> None:
    assert run(ASKED, [chunk("a", "stop")], [])[1] == [None]


def test_an_answer_that_has_all_its_tokens_is_ended_and_not_continued() -> None:
    answer = resume.Answer()
    for each in (chunk("a"), chunk("b")):
        answer.pass_on(each, continued=False)
    answer.broke_off(2)
    assert resume.used_up(answer.rest({**ASKED, "max_tokens": 2}, WORDS))
    end = answer.ended()
    assert end["choices"] == [{"index": 0, "delta": {"content": ""}, "finish_reason": "length"}] and end["id"] == "id-b"


def test_a_limit_that_is_none_is_never_used_up() -> None:
    """llama.cpp takes -1 for no limit."""
    answer = resume.Answer()
    answer.pass_on(chunk("a"), continued=False)
    answer.broke_off(1)
    asked = answer.rest({**ASKED, "max_tokens": -1}, WORDS)
    assert asked["max_tokens"] == -1 and not resume.used_up(asked)


def test_an_answer_whose_tokens_nobody_counts_is_not_taken_for_whole() -> None:
    """Where the only engine dies there is none that counts."""
    answer = resume.Answer()
    for each in (chunk("a word of some length, "), chunk("and another one of as many letters")):
        answer.pass_on(each, continued=False)
    answer.broke_off(None)
    asked = answer.rest({**ASKED, "max_tokens": 3}, WORDS)
    assert asked["max_tokens"] == 1 and not resume.used_up(asked)


def test_a_piece_of_a_text_passes_as_it_is_and_is_not_continued() -> None:
    """/v1/completions: its choices have a text and no delta."""
    pieces = [piece("a"), piece("b")]
    got, (asked,) = run({"model": "m", "prompt": "Hi", "stream": True}, pieces, [])
    assert got == pieces and asked is None


@pytest.mark.parametrize("more", [{"n": 2}, {"response_format": {"type": "json_object"}}, {"prompt": "Hi"}])
def test_whatever_has_given_no_text_begins_anew(more: dict[str, Any]) -> None:
    body = {**ASKED, **more}
    assert run(body, [chunk("", role="assistant")], [])[1] == [body]


@pytest.mark.parametrize(
    "asked, number",
    [
        ({}, 1),
        ({"n": None, "prompt": None}, 1),
        ({"n": 3}, 3),
        ({"prompt": "Hi"}, 1),
        ({"prompt": ["Hi", "Ho"], "n": 2}, 4),
        ({"prompt": [1, 2, 3]}, 1),
        ({"prompt": [[1, 2], [3]]}, 2),
        ({"prompt": []}, 1),
        ({"prompt": [1.0, 2.0]}, 1),
        # What is none is refused before (door_bounds.py).
        ({"n": "many"}, 1),
        ({"n": [2]}, 1),
        ({"n": -1}, 1),
    ],
)
def test_an_answer_has_as_many_choices_as_were_asked_for(asked: dict[str, Any], number: int) -> None:
    assert resume.choices("completions", asked) == number


def test_a_chat_has_no_list_of_prompts() -> None:
    assert resume.choices("chat/completions", {"prompt": ["Hi", "Ho"]}) == 1


def test_an_answer_of_several_choices_is_whole_when_each_has_ended() -> None:
    answer = resume.Answer(2)
    for each in (of(0, chunk("a")), of(1, chunk("b")), of(0, chunk("c", "stop"))):
        answer.pass_on(each, False)
    assert not answer.is_whole and answer.rest({**ASKED, "n": 2}, WORDS) is None
    answer.pass_on(of(1, chunk("", "length")), False)
    assert answer.is_whole


def test_a_choice_that_ended_without_a_text_is_not_asked_for_again() -> None:
    answer = resume.Answer(2)
    answer.pass_on(of(0, chunk("", "stop")), False)
    assert answer.rest({**ASKED, "n": 2}, WORDS) is None


def test_a_piece_of_a_text_may_be_the_last_one() -> None:
    answer = resume.Answer()
    answer.pass_on(piece("a"), False)
    assert not answer.is_whole
    answer.pass_on(piece("", "stop"), False)
    assert answer.is_whole


def test_an_error_that_is_the_client_s_is_the_end() -> None:
    answer = resume.Answer(2)
    answer.pass_on({"error": {"code": 400}}, False)
    assert answer.is_whole and answer.rest(ASKED, WORDS) is None


def test_a_client_is_told_a_role_once_a_choice() -> None:
    first = [of(0, chunk(role="assistant")), of(0, chunk(reasoning="hm"))]
    second = [of(0, chunk("a", role="assistant")), of(1, chunk("b", role="assistant"))]
    got, _ = run({**ASKED, "n": 2}, first, second)
    assert ["role" in each["choices"][0]["delta"] for each in got] == [True, False, False, True]


def test_thoughts_of_one_choice_are_none_of_another_s_text() -> None:
    """Only what goes on from a text may be taken for thoughts; this began anew."""
    got, _ = run({**ASKED, "n": 2}, [], [of(0, chunk("a")), of(1, chunk(reasoning="hm"))])
    assert got[1]["choices"][0]["delta"]["reasoning"] == "hm"


def test_what_an_engine_that_is_stopped_counts_is_not_the_client_s() -> None:
    """vLLM says what an answer cost that it ends before its first token."""
    got, asked = run(ASKED, [chunk(role="assistant"), usage(5, 0)], [chunk("a", "stop"), usage(5, 1)])
    assert [each["usage"] for each in got if "usage" in each] == [
        {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    ]
    assert asked == [ASKED]


def test_thoughts_that_begin_anew_are_no_part_of_the_question() -> None:
    got, _ = run(ASKED, [chunk(reasoning="hm")], [chunk("a", "stop"), usage(5, 1)])
    assert got[-1]["usage"] == {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


def test_what_is_wanted_at_least_shrinks_with_what_is_wanted_at_most() -> None:
    (asked,) = run({**ASKED, "min_tokens": 9, "echo": True}, [chunk("ab")], [])[1]
    assert (asked["min_tokens"], asked["max_tokens"]) == (7, 8) and "echo" not in asked
    (asked,) = run({**ASKED, "min_tokens": 1}, [chunk("ab")], [])[1]
    assert asked["min_tokens"] == 0


def test_thoughts_that_were_for_nothing_cost_the_client_no_tokens() -> None:
    first = [chunk(reasoning="h")] * 6
    got, asked = run(ASKED, first, [*[chunk(reasoning="h")] * 5, chunk("a")], [chunk("b", "stop"), usage(6, 1)])
    assert [each["max_tokens"] for each in asked] == [10, 4]
    assert got[-1]["usage"] == {"prompt_tokens": 5, "completion_tokens": 13, "total_tokens": 18}

"""What the gate of answers makes of single answers: an engine that fails, calls, thoughts, what a batch may turn."""

from __future__ import annotations

from typing import Any

import pytest

from operations.plan.answers import gate
from operations.plan.answers.shapes import Seen, subject
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.recipe import Flag, Recipe
from operations.wire.answers import Row
from tests.plan.test_answers import row, with_flags


def test_an_engine_that_fails_at_one_question_is_asked_again_and_then_it_is_a_fault() -> None:
    seen = Seen(subject(load_recipe("lab-tiny-llama")))
    fine: Any = {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}
    asked = gate.next_asked(seen)
    seen.answers |= {each["name"]: {"status": 200, "body": fine} for each in asked}
    seen.answers["count"] = {"status": 500, "text": "boom"}
    again = gate.next_asked(seen)
    # Before those that come after it, and no second time.
    assert "count" in [each["name"] for each in again] and "stop" not in [each["name"] for each in again]
    seen.answers["needle"] = {"status": 501, "text": "can't"}
    while asked := gate.next_asked(seen):
        assert "count" not in [each["name"] for each in asked] and "needle" not in [each["name"] for each in asked]
        seen.answers |= {each["name"]: {"status": 200, "body": fine} for each in asked}
    rows = {each["name"]: each for each in gate.table(seen)}
    assert rows["stop"]["verdict"] == gate.FAILS and rows["stop"]["why"] == "asked twice: HTTP 500: boom"
    assert rows["long"]["verdict"] == gate.UNSURE


def test_where_an_engine_fails_at_everything_nothing_is_known() -> None:
    seen, rounds = Seen(subject(load_recipe("lab-tiny-llama"))), 0
    while asked := gate.next_asked(seen):
        rounds += 1
        seen.answers |= {each["name"]: {"status": 503, "text": "away"} for each in asked}
    rows = gate.table(seen)
    assert rounds == 1 and gate.undecided(rows) == "HTTP 503: away"
    assert gate.undecided([row("a", gate.UNSURE), row("b", gate.FAILS)]) == ""
    assert gate.undecided([row("a", gate.NOT_ASKED)]) == ""


def test_what_a_batch_may_turn_is_no_fall() -> None:
    held, lost = gate.HOLDS, gate.FAILS
    names = ("repeats", "streams-same", "english", "german")
    assert set(names) <= {each.name for each in gate.CHECKS}
    before = [row(name, held, "sense") for name in names]
    now = [row(name, lost, "sense") for name in names[:3]] + [row("german", held, "sense")]
    assert not gate.fall(before, now).is_below and str(gate.fall(before, now)) == "english"
    # Nor does one of them make up for what is lost.
    back = [*(row(name, held, "sense") for name in names[:2]), *(row(name, lost, "sense") for name in names[2:])]
    assert gate.fall([*(row(name, lost, "sense") for name in names[:2]), *before[2:]], back).is_below


def said(content: str, finish: str = "stop", **more: Any) -> Any:
    message = {"content": content, **more}
    return {"status": 200, "body": {"choices": [{"message": message, "finish_reason": finish}]}}


def verdicts(recipe: Recipe, **answers: Any) -> dict[str, Row]:
    return {each["name"]: each for each in gate.table(Seen(subject(recipe), answers))}


def test_answers_are_the_same_where_thoughts_take_another_way() -> None:
    recipe = load_recipe("gpt-oss-120b-mxfp4")
    one, other = said("Paris", reasoning="France."), said("Paris", reasoning="A city.")
    rows = verdicts(recipe, **{"english": one, "english-again": other, "english-stream": said("Pa", "length")})
    assert rows["repeats"]["verdict"] == gate.HOLDS
    assert rows["streams-same"]["why"] == "the answer had no room to end"
    rows = verdicts(recipe, **{"english": one, "english-again": said("Rome")})
    assert rows["repeats"]["verdict"] == gate.FAILS


def call_of(arguments: str, finish: str = "tool_calls", **more: str) -> Any:
    call = {"id": "one", "function": {"name": "made_up", "arguments": arguments}, **more}
    return said("", finish, tool_calls=[call])


@pytest.mark.parametrize(
    ("answer", "verdict", "why"),
    [
        (call_of('{"any": 1}'), gate.HOLDS, ""),
        (call_of("[7]"), gate.FAILS, "a call's arguments are no JSON object: '[7]'"),
        (call_of('{"any"'), gate.FAILS, "a call's arguments are no JSON: "),
        (call_of('{"any"', "length"), gate.UNSURE, "the call had no room to end"),
        (call_of("4444", "length"), gate.UNSURE, "the call had no room to end"),
        (call_of('{"any": 1}', id=""), gate.FAILS, "a call has no id"),
        (call_of('{"any": 1}', "length"), gate.UNSURE, "the answer had no room to end"),
    ],
)
def test_a_call_that_is_not_forced_is_judged_by_its_form(answer: Any, verdict: str, why: str) -> None:
    rows = verdicts(with_flags("lab-tiny-llama", "enable-auto-tool-choice", "tool-call-parser"), tool=answer)
    assert rows["tool"]["verdict"] == verdict and why in rows["tool"]["why"]


def test_an_answer_that_was_cut_has_no_tags_of_its_own() -> None:
    recipe, cut = load_recipe("lab-tiny-llama"), said("<think>Let me", "length")
    assert verdicts(recipe, english=cut)["tags"]["why"] == "no answer came to its end"
    assert verdicts(recipe, english=cut, german=said("<think>Let"))["tags"]["verdict"] == gate.FAILS


@pytest.mark.parametrize("parser", ["minimax_m2_append_think", "minimax-append-think"])
def test_a_parser_that_leaves_the_thoughts_in_the_answer_lacks_thoughts_apart(parser: str) -> None:
    recipe = load_recipe("lab-tiny-llama")
    flag = Flag(name="reasoning-parser", words=("--reasoning-parser", parser))
    asked = subject(recipe.model_copy(update={"flags": (*recipe.flags, flag)}))
    assert asked.lacks["reasoning"] == asked.lacks["apart"] == f"{parser} leaves the thoughts in the answer"
    found = Seen(
        asked, {"a": said("<think>So.</think>\n\nYes"), "b": said("<think>So", "length"), "c": said("<think>Yes")}
    )
    assert [(found.chat(each).thought, found.chat(each).content) for each in "abc"] == [
        ("So.", "Yes"),
        ("So", ""),
        ("", "Yes"),
    ]

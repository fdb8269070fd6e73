"""The gate of answers: what a recipe is asked for, what a schema takes, when a model falls below another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from operations.node.unit import served
from operations.plan.answers import gate, texts
from operations.plan.answers.fits import misfit
from operations.plan.answers.questions import QUESTIONS
from operations.plan.answers.reading import TAGS, Undecided, Wrong, chat, message
from operations.plan.answers.shapes import Seen, subject
from operations.plan.recipes.formats import FOLDER, load_recipe
from operations.plan.recipes.recipe import Flag, Recipe
from operations.wire.answers import Row


def with_flags(name: str, *flags: str) -> Recipe:
    recipe = load_recipe(name)
    more = (Flag(name=each, words=(f"--{each}",)) for each in flags)
    return recipe.model_copy(update={"flags": (*recipe.flags, *more)})


def row(name: str, verdict: str, kind: str = "form") -> Row:
    return {"name": name, "kind": kind, "verdict": verdict, "why": ""}


def test_a_recipe_is_asked_for_what_it_says_that_it_can() -> None:
    whole = subject(load_recipe("gpt-oss-120b-mxfp4"))
    assert set(whole.lacks) == {"recited"}
    bare = subject(load_recipe("lab-tiny-llama"))
    assert bare.lacks["tools"] == "the recipe has no enable-auto-tool-choice and no tool-call-parser"
    assert "recited" not in bare.lacks and bare.is_noise and "noise" in bare.lacks["sense"]
    llama = subject(load_recipe("lab-tiny-gguf"))
    assert llama.lacks["tools"] == "the recipe has no jinja, and promises no calls" and "recited" in llama.lacks
    assert "tools" not in subject(with_flags("lab-tiny-gguf", "jinja")).lacks


def test_what_gives_vectors_is_asked_nothing() -> None:
    seen = Seen(subject(load_recipe("lab-tiny-llama").model_copy(update={"answers": "embedding"})))
    assert gate.next_asked(seen) == []
    rows = gate.table(seen)
    assert {each["verdict"] for each in rows} == {gate.NOT_ASKED}
    assert rows[0]["why"] == "it is there for embedding, and answers no chat"


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_recipe_of_ours_is_asked_twenty_to_forty_things(file: Path) -> None:
    seen = Seen(subject(load_recipe(file.stem)))
    first = gate.next_asked(seen)
    assert 15 <= len(first) <= 40
    assert len({each["name"] for each in first}) == len(first)
    room = seen.subject.context
    assert all(each["body"].get("max_tokens", 1) <= room // 4 for each in first)


def test_names_of_checks_are_one_each_and_there_is_no_question_in_vain() -> None:
    names = [each.name for each in gate.CHECKS]
    assert len(set(names)) == len(names)
    asked = {each.name for each in QUESTIONS}
    assert all(set(each.after) <= asked for each in QUESTIONS)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (texts.PERSON_IS, ""),
        ([], "expected object"),
        ({**texts.PERSON_IS, "age": "34"}, "it.age is '\"34\"', expected integer"),
        ({**texts.PERSON_IS, "age": True}, "expected integer"),
        ({**texts.PERSON_IS, "city": "Oslo"}, "expected one of"),
        ({"name": "Anna"}, "it has no `age`"),
        ({**texts.PERSON_IS, "more": 1}, "it has `more`, which the schema does not know"),
    ],
)
def test_a_value_fits_its_schema_or_it_is_said_where_not(value: Any, why: str) -> None:
    found = misfit(texts.PERSON, value)
    assert why in found and bool(why) == bool(found)


def test_lists_fit_by_their_items_and_their_length() -> None:
    guest = {"name": "Anna", "is_child": False}
    assert misfit(texts.TABLE, {"guests": [guest], "hour": 19}) == ""
    assert "guests has 0 items, expected 1 to 2" in misfit(texts.TABLE, {"guests": [], "hour": 19})
    assert "guests[1] is" in misfit(texts.TABLE, {"guests": [guest, 7], "hour": 19})


def test_the_code_is_in_the_midst_of_a_text_that_is_as_long_as_asked() -> None:
    text = texts.haystack(10_000)
    assert 10_000 <= len(text) <= 10_200
    assert 4_000 < text.index(texts.CODE) < 6_000 and text.count(texts.CODE) == 1


def test_a_stop_word_stands_behind_the_beginning() -> None:
    assert texts.stop_word("one\ntwo\nthree\nfour\nfive\nsix") in ("three", "four")
    assert 2 <= len(texts.stop_word("12" * 50)) <= 12
    with pytest.raises(Undecided):
        texts.stop_word("short")


@pytest.mark.parametrize(
    "text",
    [
        *("<think>", "</think>", "<|im_end|>", "<tool_call>", "[TOOL_CALLS]", "[INST]", "<start_of_turn>", "</s>"),
        *("<function=f>", "<\uff5ctool\u2581calls\u2581begin\uff5c>", "<minimax:tool_call>", "[THINK]"),
    ],
)
def test_tags_of_all_kinds_are_seen(text: str) -> None:
    assert TAGS.search(f"Yes.{text} So")


@pytest.mark.parametrize("text", ["a < b", "x <b>bold</b>", "1 <| 2", "[1] The thinking", "use `f(x)`"])
def test_what_is_no_tag_is_none(text: str) -> None:
    assert not TAGS.search(text)


@pytest.mark.parametrize(
    ("status", "kind"), [(400, Wrong), (404, Wrong), (500, Undecided), (429, Undecided), (0, Undecided)]
)
def test_an_error_is_the_answer_s_or_says_nothing(status: int, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        chat({"status": status, "text": "no"})


def test_a_path_that_an_engine_has_not_is_no_fault() -> None:
    with pytest.raises(Undecided, match="no such path"):
        message({"status": 404, "text": "Not Found"})


def test_a_form_that_is_lost_is_a_fall_and_one_word_of_sense_is_chance() -> None:
    held, lost = gate.HOLDS, gate.FAILS
    before = [
        row("tool", held),
        row("stop", lost),
        *(row(name, held, "sense") for name in "abc"),
        row("d", lost, "sense"),
    ]
    same = gate.fall(before, before)
    assert not same.is_below and str(same) == ""
    assert gate.fall(before, [row("tool", lost)]).is_below
    assert not gate.fall(before, [row("stop", lost), row("tool", gate.UNSURE), row("new", lost)]).is_below
    one, two = [row("a", lost, "sense")], [row("a", lost, "sense"), row("b", lost, "sense")]
    assert not gate.fall(before, one).is_below
    assert gate.fall(before, two).is_below and str(gate.fall(before, two)) == "a, b"
    # What is gained is held against what is lost.
    assert not gate.fall(before, [*two, row("d", held, "sense")]).is_below


def test_the_table_stays_with_its_plan_on_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "PLACE", tmp_path / "served.json")
    plan: Any = {"id": "one", "knobs": {}, "recipe": {}, "images": ["engine"]}
    table: Any = {"model": "m", "rows": [row("tool", gate.HOLDS)]}
    served.main(keep=plan)
    assert served.keep_answers("one", {"": table}) is True
    assert served.keep_answers("another", {"": table}) is False
    assert served.keep_answers("one", {"coder": table}) is True
    (kept,) = served.main()["plans"]
    assert set(kept["answers"]) == {"", "coder"} and kept["answers"][""]["rows"] == table["rows"]
    assert (tmp_path / "served.json").stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / "served.json").read_text()) == [kept]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"choices": []},
        {"choices": [{"message": None, "finish_reason": 1}]},
        {
            "choices": [
                {"message": {"content": 7, "tool_calls": [7]}, "finish_reason": "stop", "logprobs": {"content": [7]}}
            ]
        },
        {"type": "message", "role": "assistant", "content": [{"type": "text"}], "stop_reason": None},
        {"tokens": "no", "prompt": None, "input_tokens": "many"},
        {"usage": {"prompt_tokens": "x"}, "choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]},
    ],
)
@pytest.mark.parametrize("as_events", [False, True])
def test_whatever_an_engine_answers_there_is_a_table(body: dict[str, Any], as_events: bool) -> None:
    seen = Seen(subject(with_flags("lab-tiny-llama", "enable-auto-tool-choice", "tool-call-parser")))
    answered: Any = {"status": 200, "events": [body], "ended": True} if as_events else {"status": 200, "body": body}
    while asked := gate.next_asked(seen):
        seen.answers |= {each["name"]: answered for each in asked}
    rows = gate.table(seen)
    assert len(rows) == len(gate.CHECKS) and "answer" in gate.faults(rows)

"""Adapters against their base: equal bytes to every prompt, and nothing less, is what is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import ClassVar

import pytest

from operations.node.engine import adapters
from tests.support.serving import Quiet, serving


class EngineDouble(Quiet):
    """Answers by a model's name: `po` as its base does, `own` otherwise to the last prompt alone."""

    asked: ClassVar[list[dict[str, object]]] = []

    def do_POST(self) -> None:
        body = self.sent()
        self.asked.append(body)
        prompt = body["messages"][0]["content"]
        known = body["model"] in ("base", "po", "own", "thinks")
        text = f"about {prompt}" + (" !" if body["model"] == "own" and prompt == adapters.PROMPTS[-1] else "")
        message = {"content": text, "reasoning_content": "hm" if body["model"] == "thinks" else ""}
        answer = {"choices": [{"message": message}]} if known else {"error": "no such model"}
        self.reply(json.dumps(answer).encode(), 200 if known else 404)


@pytest.fixture
def url() -> Iterator[str]:
    EngineDouble.asked = []
    with serving(EngineDouble) as url:
        yield url


def test_one_that_answers_as_its_base_is_told_and_one_that_differs_once_is_not(url: str) -> None:
    assert adapters.main(url, "base", ["po", "own", "thinks"], 5) == {"alike": ["po"], "problem": ""}
    assert all(each["temperature"] == 0 for each in EngineDouble.asked)
    assert sum(each["model"] == "thinks" for each in EngineDouble.asked) == 1, "the first that differs is enough"


def test_what_can_t_be_asked_is_no_verdict(url: str) -> None:
    told = adapters.main(url, "base", ["gone"], 5)
    assert told["alike"] == [] and told["problem"].startswith("HTTP 404")
    assert adapters.main("http://127.0.0.1:9", "base", ["po"], 5)["problem"]

"""Whether what is wrong is the engine's words, or the way to them: against a server that answers from a script."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from operations.node.engine import answer_quality
from tests.support.serving import Quiet, serving

SAID = {"choices": [{"message": {"content": "Because air scatters blue light most of all."}}]}
MARKS = {"choices": [{"message": {"content": "!!!!!!!!!!!!"}}]}


@contextmanager
def scripted(status: int, body: bytes, length: int) -> Iterator[str]:
    """A server that gives one answer to each request, of a length that it may not keep."""

    class Handler(Quiet):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

    with serving(Handler) as url:
        yield url


@pytest.mark.parametrize(
    ("status", "body", "missing", "problem", "judged"),
    [
        (200, json.dumps(SAID), 0, "", True),
        (200, json.dumps(MARKS), 0, "it says nothing but `!`", True),
        (200, "{}", 0, "its answer is none (KeyError", True),
        (400, "no such template", 0, "HTTP 400: no such template", True),
        (500, "EngineDeadError", 0, "HTTP 500", False),
        (429, "later", 0, "HTTP 429", False),
        (200, '{"choices"', 20, "IncompleteRead", False),
    ],
)
def test_only_words_are_judged(status: int, body: str, missing: int, problem: str, judged: bool) -> None:
    with scripted(status, body.encode(), len(body) + missing) as url:
        found = answer_quality.main(url, "m", None, True, 5)
    assert problem in found["problem"] and bool(problem) == bool(found["problem"])
    assert found["judged"] is judged


def test_a_server_that_is_not_there_has_said_nothing() -> None:
    found = answer_quality.main("http://127.0.0.1:9", "m", None, True, 5)
    assert found["problem"] and not found["judged"]


def vectors(*values: object) -> str:
    return json.dumps({"data": [{"embedding": value} for value in values]})


@pytest.mark.parametrize(
    ("kind", "body", "problem"),
    [
        ("embedding", vectors([0.1, 0.2], [0.2, 0.1]), ""),
        ("embedding", vectors([0.1, 0.2], [0.1, 0.2]), "two texts that have nothing in common get the same numbers"),
        ("embedding", vectors([float("nan"), 0.2], [0.1, 0.2]), "numbers that are none"),
        ("embedding", vectors([None], [None]), "its answer is none (TypeError"),
        ("embedding", vectors([0.1]), "1 results for 2 texts"),
        ("embedding", vectors([], []), "2 results for 2 texts"),
        ("rerank", json.dumps({"results": [{"relevance_score": 0.9}, {"relevance_score": 0.1}]}), ""),
        ("rerank", json.dumps({"results": [{"relevance_score": 0.5}] * 2}), "get the same numbers"),
    ],
)
def test_numbers_are_judged_where_there_are_no_words(kind: str, body: str, problem: str) -> None:
    with scripted(200, body.encode(), len(body)) as url:
        found = answer_quality.main(url, "m", None, True, 5, kind)
    assert problem in found["problem"] and bool(problem) == bool(found["problem"]) and found["judged"]


def test_noise_is_not_judged_where_the_recipe_says_so() -> None:
    body = vectors([0.1, 0.2], [0.1, 0.2])
    with scripted(200, body.encode(), len(body)) as url:
        assert answer_quality.main(url, "m", None, False, 5, "embedding")["problem"] == ""
